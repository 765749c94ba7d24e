"""The reference of the metrics, as Markdown, from the operator's own tables.

`python -m tests.unit.schema.metrics` writes docs/reference/metrics.md; test_reference.py compares the two.
"""

from __future__ import annotations

from kindling.engine.metrics import CATALOGUE, Metric
from kindling.engine.resource_metrics import LABELS, catalogue

from infra.paths import REPOSITORY
from tests.unit.schema.worlds import KINDS

FILE = REPOSITORY / "docs" / "reference" / "metrics.md"
_INTRODUCTION = """\
# Metrics

Generated from `engine/metrics.py`, `engine/resource_metrics.py` and `Kind.metrics` of each kind; do not edit.

The operator serves these on port 8080 at `/metrics`, beside the memory, processor time and open files of its
process (`process_…`). A kind is always two labels, `group` (empty for Kubernetes' core) and `kind`
(`Memcached`), so queries can join on them.

## The operator

Their number does not depend on how many resources there are: no label names one.

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


_RESOURCES = """
## Resources

All are gauges with the labels {labels}, and `kindling_resource_ready_reason`
has `reason` too. Times are Unix times. The values are those of the resource's status in the API server.

| metric | kinds | measures | look closer when |
|---|---|---|---|
"""
_COST = """
Each resource has {common} series, a Backup up to {most}. Their labels hold names and one word of a closed
list, so there are never more. The leader alone serves them, since a standby watches no resources; the series
of a deleted resource end with the next scrape.

The values are read once for each status that is written or watched: a few microseconds, however many
resources there are (about 40 for a Backup). A scrape prints them: 2 ms for 1,000 resources, 15 ms for 1,000
Backups, measured on a busy machine (`tests/unit/operator/test_resource_metrics.py` has limits).

Scrape with `honor_labels: true` (`honorLabels` of a ServiceMonitor): otherwise Prometheus renames the
resource's `namespace` to `exported_namespace`, because the operator's Pod has a label of that name too.
"""


def page() -> str:
    operators = "".join(map(_row, CATALOGUE))
    return _INTRODUCTION + operators + _QUERIES + _resources()


def _resources() -> str:
    names = [kind.metrics for kind in KINDS.values()]
    common = len(list(catalogue([])))
    heading = _RESOURCES.format(labels=", ".join(f"`{label}`" for label in LABELS))
    rows = []
    for metric in catalogue(KINDS.values()):
        kinds = [
            kind.type.kind for kind in KINDS.values() if metric.name in {each.name for each in kind.metrics}
        ]
        rows.append(
            f"| `{metric.name}` | {', '.join(kinds) or 'all'} | {metric.help} | {metric.investigate} |\n"
        )
    return heading + "".join(rows) + _COST.format(common=common, most=common + max(map(len, names)))


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    return f"| `{metric.name}` | {metric.type} | {labels} | {metric.help} | {metric.investigate} |\n"


if __name__ == "__main__":
    FILE.write_text(page())
    print(FILE.relative_to(REPOSITORY))
