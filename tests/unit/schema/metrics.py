"""The reference of the metrics, as Markdown, from `kindling.engine.metrics`.

`python -m tests.unit.schema.metrics` writes docs/reference/metrics.md; test_reference.py compares the two.
"""

from __future__ import annotations

from kindling.engine.metrics import CATALOGUE, Metric

from infra.paths import REPOSITORY

FILE = REPOSITORY / "docs" / "reference" / "metrics.md"
_INTRODUCTION = """\
# Metrics

Generated from `operator/src/kindling/engine/metrics.py`; do not edit.

The operator serves these on port 8080 at `/metrics`, beside the memory, processor time and open files of its
process (`process_…`). No label holds the name of a resource. A kind is always two labels, `group` (empty for
Kubernetes' core) and `kind` (`Memcached`), so queries can join on them.

| metric | type | labels | counts or measures | look closer when |
|---|---|---|---|---|
"""
_QUERIES = """
The share of reconciliations that failed, and the status writes for each reconciliation:

```
sum by (group, kind) (rate(kindling_reconcile_duration_seconds_count{result="error"}[5m])) / sum by (group, kind) (rate(kindling_reconcile_duration_seconds_count[5m]))
sum by (group, kind) (rate(kindling_api_writes_total{verb="status"}[5m])) / sum by (group, kind) (rate(kindling_reconcile_duration_seconds_count[5m]))
```
"""  # noqa: E501 a query is one line


def page() -> str:
    return _INTRODUCTION + "".join(map(_row, CATALOGUE)) + _QUERIES


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.type} | {labels} | {metric.help} | {metric.investigate} |\n"


if __name__ == "__main__":
    FILE.write_text(page())
    print(FILE.relative_to(REPOSITORY))
