"""The reference of the reasons, as Markdown, from `kindling.kinds.reasons`.

`python -m tests.unit.schema.reasons` writes docs/reference/reasons.md; test_reference.py compares the two.
"""

from __future__ import annotations

from itertools import groupby

from kindling.kinds.reasons import CATALOGUE

from infra.paths import REPOSITORY

FILE = REPOSITORY / "docs" / "reference" / "reasons.md"
_INTRODUCTION = """\
# Reasons

Generated from `operator/src/kindling/kinds/reasons.py`; do not edit.

Each condition of a resource has a reason. `kubectl get` shows that of `Ready`, and `kubectl describe` the
message beside it, which names the object and the next step. Unless the meaning says otherwise, a reason is
one of `Ready`; `Available`, `Progressing` and `Degraded` repeat it where it explains them.
"""


def page() -> str:
    parts = [_INTRODUCTION]
    for group, reasons in groupby(CATALOGUE.values(), key=lambda reason: reason.group):
        parts.append(f"\n## {group}\n\n| reason | meaning | what to do |\n|---|---|---|\n")
        parts += [f"| `{reason.name}` | {reason.meaning} | {reason.next} |\n" for reason in reasons]
    return "".join(parts)


if __name__ == "__main__":
    FILE.write_text(page())
    print(FILE.relative_to(REPOSITORY))
