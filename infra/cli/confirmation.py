"""Asking before what cannot be taken back, on a terminal; elsewhere `--yes` says it beforehand.

`up` in an existing cluster is asked about by Pulumi itself, beside the changes that it shows.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence

from infra.errors import KindlingError

SHOWN = 8


def interactive() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def needed(command: str) -> KindlingError:
    """What a run in an existing cluster ends with where nobody can be asked."""
    return KindlingError(
        "nobody can be asked whether this cluster is to be changed",
        why="it is not ours alone, and there is no terminal",
        remedy=f"say it beforehand: {command} --yes",
    )


def destruction(stack: str, *, place: str, resources: int, objects: Mapping[str, Sequence[str]]) -> str:
    """The text that lists what `destroy` removes; `objects` are NAMESPACE/NAME by definition."""
    lines = [f"Stack {stack} is to be removed from {place}: {resources} resources of Pulumi's state."]
    taken = {name: found for name, found in sorted(objects.items()) if found}
    if taken:
        lines.append("With the definitions go all objects of these kinds, whoever made them:")
    for name, found in taken.items():
        spread = Counter(item.partition("/")[0] for item in found).most_common()
        shown = ", ".join(f"{count} in {namespace}" for namespace, count in spread[:SHOWN])
        more = f" and {len(spread) - SHOWN} more namespaces" if len(spread) > SHOWN else ""
        lines.append(f"  {name}: {shown}{more}")
    if taken:
        lines.append("Volumes of spec.deletionPolicy Retain stay.")
    return "\n".join(lines)


def ask(stack: str) -> None:
    """:raises KindlingError: unless the stack's name is typed."""
    sys.stdout.write(f"\nType `{stack}` to go on: ")
    sys.stdout.flush()
    if sys.stdin.readline().strip() != stack:
        raise KindlingError(
            "nothing was removed", why="another word was typed", remedy="none is needed, or run it again."
        )
