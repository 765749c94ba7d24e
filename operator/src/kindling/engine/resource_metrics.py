"""The metrics of each resource: whether it is Ready and why, and what its kind lists in `Kind.metrics`.

The values are read when the cache takes in the resource: after each status write and each watch event, once.
A scrape only prints them. As the leader alone watches resources, it alone has these series.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kindling.engine.metrics import Metric
from kindling.engine.store import Key
from kindling.kinds.base import Kind
from kindling.kinds.conditions import find_condition, is_current
from kindling.kube.resources import Object

LABELS = ("group", "kind", "namespace", "name")
"""What names a resource, in the order that they are printed in."""

READY = Metric(
    "kindling_resource_ready",
    "gauge",
    "1 while the condition `Ready` is True and is of the present spec, else 0",
    "0 for longer than a change takes",
    LABELS,
)
READY_REASON = Metric(
    "kindling_resource_ready_reason",
    "gauge",
    "always 1; `reason` is that of the condition `Ready`",
    "the [reasons](reasons.md) say what to do about each",
    (*LABELS, "reason"),
)
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class _Values(NamedTuple):
    """`others` are those of `Kind.metrics`, in their order."""

    ready: float
    reason: str
    others: tuple[float | None, ...]


class ResourceMetrics:
    """`observe` costs the same however many resources there are; `render` goes over all values."""

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._kinds = {kind.type.group_kind: kind for kind in kinds}
        self._values: dict[Key, _Values] = {}

    def observe(self, key: Key, cr: Object | None) -> None:
        """Note the values of a resource; None once it is deleted, and its series end."""
        if cr is None:
            self._values.pop(key, None)
            return
        ready = find_condition(cr.get("status") or {}, "Ready")
        self._values[key] = _Values(
            ready=float(ready.get("status") == "True" and is_current(cr)),
            reason=str(ready.get("reason") or ""),
            others=tuple(metric.read(cr) for metric in self._kinds[key.group_kind].metrics),
        )

    def render(self) -> str:
        """All of them in Prometheus' text format, in which the samples of a metric stand together."""
        lines = {
            metric.name: [f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} gauge\n"]
            for metric in catalogue(self._kinds.values())
        }
        for key, values in self._values.items():
            kind = self._kinds[key.group_kind]
            labels = (
                f'group="{kind.type.group}",kind="{kind.type.kind}",'
                f'namespace="{key.namespace}",name="{key.name}"'
            )
            lines[READY.name].append(f"{READY.name}{{{labels}}} {values.ready}\n")
            if values.reason:
                reason = values.reason.translate(_ESCAPED)
                lines[READY_REASON.name].append(f'{READY_REASON.name}{{{labels},reason="{reason}"}} 1.0\n')
            for metric, value in zip(kind.metrics, values.others, strict=True):
                if value is not None:
                    lines[metric.name].append(f"{metric.name}{{{labels}}} {value}\n")
        return "".join(line for each in lines.values() for line in each)


def catalogue(kinds: Iterable[Kind]) -> Iterator[Metric]:
    """The metrics of these kinds' resources, each once."""
    yield READY
    yield READY_REASON
    for metric in dict.fromkeys(metric for kind in kinds for metric in kind.metrics):
        yield Metric(metric.name, "gauge", metric.help, metric.investigate, LABELS)
