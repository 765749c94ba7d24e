"""The operator's metrics, for Prometheus: each name, its labels and its meaning, in one place.

`docs/reference/metrics.md` is generated from `CATALOGUE` (`python -m tests.unit.schema.metrics`). Labels hold
groups, kinds, verbs, results and types of errors. Those of one resource are in `engine.resource_metrics`.
A kind is always two labels, `group` (empty for Kubernetes' core) and `kind`, so queries can join on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from kindling.kube.resources import ResourceType

# A second time series for each counter, which nothing here asks for.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

# From a reconciliation that writes nothing to one that waits for a slow disk's CREATE DATABASE.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CONTENT_TYPE = prometheus_client.CONTENT_TYPE_PLAIN_0_0_4

ResultLabel = Literal["success", "requeue_after", "terminal", "error"]
"""How a reconciliation ended, in controller-runtime's words; `terminal` until the spec changes."""

UNHANDLED = "UnhandledException"
"""The label `error` of an exception that is not an answer of the API server: a bug of the operator."""


class Metric(NamedTuple):
    """One metric. `help` says what it counts or measures, `investigate` when to look closer."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    investigate: str
    labels: tuple[str, ...] = ()


LEADER = Metric(
    "kindling_leader",
    "gauge",
    "1 in the Pod that is the leader, else 0",
    "the sum over all Pods is not 1 for a minute",
)
WORKQUEUE_DEPTH = Metric(
    "kindling_workqueue_depth", "gauge", "resources that wait for a worker", "it does not fall back to 0"
)
WORKQUEUE_OLDEST = Metric(
    "kindling_workqueue_oldest_seconds", "gauge", "how long the first of them has waited", "above 10"
)
RESTARTS_WAITING = Metric(
    "kindling_restarts_waiting",
    "gauge",
    "databases that wait for a restart by the operator, one at a time",
    "it does not fall after an upgrade",
)
RESTART_SECONDS = Metric(
    "kindling_restart_seconds",
    "gauge",
    "how long the current restart has taken; 0 without one",
    "above 600: no other database is restarted until this one is Ready",
)
CACHE_OBJECTS = Metric(
    "kindling_cache_objects",
    "gauge",
    "objects in the cache, of all types",
    "it grows and the number of resources does not",
)
RECONCILE_DURATION = Metric(
    "kindling_reconcile_duration_seconds",
    "histogram",
    "reconciliations of one resource; `result` is `success`, `requeue_after` (reconciled again later), "
    "`terminal` (until the spec changes) or `error`",
    "the share of `error` stays",
    ("group", "kind", "result"),
)
RECONCILE_ERRORS = Metric(
    "kindling_reconcile_errors_total",
    "counter",
    "reconciliations that failed and are retried; `error` is the API server's kind of answer, or "
    f"`{UNHANDLED}` for a bug of the operator",
    f"`{UNHANDLED}` at all; others, if they go on",
    ("group", "kind", "error"),
)
API_WRITES = Metric(
    "kindling_api_writes_total",
    "counter",
    "writes that the API server accepted; `verb` is `create`, `apply`, `patch`, `status` or `delete`",
    "it rises although nothing changes: another writer reverts what the operator writes",
    ("group", "kind", "verb"),
)
EXTERNAL_ACTIONS = Metric(
    "kindling_external_actions_total",
    "counter",
    "actions outside of the API server, such as `provision` of a database server; `result` is `success` or "
    "`failure`",
    "`failure` goes on, or `success` rises although nothing changes",
    ("group", "kind", "action", "result"),
)
RELISTS = Metric(
    "kindling_relists_total",
    "counter",
    "lists after the first one, each after a watch that was lost; all resources are reconciled after it",
    "it rises by the hour",
    ("group", "kind"),
)
MISSED_DELETES = Metric(
    "kindling_missed_deletes_total",
    "counter",
    "objects that were deleted without a watch event, found by a full list",
    "it rises without relists",
    ("group", "kind"),
)

SPANS_LOST = Metric(
    "kindling_trace_spans_lost_total",
    "counter",
    "spans of traces that the collector did not take; others are lost while the queue to it is full",
    "it rises: the collector is away, or refuses them; the log has its word",
)

CATALOGUE = (
    LEADER,
    WORKQUEUE_DEPTH,
    WORKQUEUE_OLDEST,
    RESTARTS_WAITING,
    RESTART_SECONDS,
    CACHE_OBJECTS,
    RECONCILE_DURATION,
    RECONCILE_ERRORS,
    API_WRITES,
    EXTERNAL_ACTIONS,
    RELISTS,
    MISSED_DELETES,
    SPANS_LOST,
)
"""All of them, in the order of the table."""


class Metrics:
    """Counts events in a registry of its own; `measure` registers the functions that the gauges read."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._reconciliations = Histogram(
            RECONCILE_DURATION.name,
            RECONCILE_DURATION.help,
            RECONCILE_DURATION.labels,
            buckets=BUCKETS,
            registry=self._registry,
        )
        self._writes = self._counter(API_WRITES)
        self._errors = self._counter(RECONCILE_ERRORS)
        self._actions = self._counter(EXTERNAL_ACTIONS)
        self._relists = self._counter(RELISTS)
        self._missed_deletes = self._counter(MISSED_DELETES)
        self._spans_lost = self._counter(SPANS_LOST)

    def _counter(self, metric: Metric) -> Counter:
        return Counter(metric.name, metric.help, metric.labels, registry=self._registry)

    def measure(
        self,
        *,
        workqueue_depth: Callable[[], float],
        workqueue_oldest_seconds: Callable[[], float],
        cache_objects: Callable[[], float],
        leader: Callable[[], float],
        restarts_waiting: Callable[[], float],
        restart_seconds: Callable[[], float],
    ) -> None:
        """Register the functions that the gauges read; call it once."""
        for metric, read in (
            (WORKQUEUE_DEPTH, workqueue_depth),
            (WORKQUEUE_OLDEST, workqueue_oldest_seconds),
            (CACHE_OBJECTS, cache_objects),
            (LEADER, leader),
            (RESTARTS_WAITING, restarts_waiting),
            (RESTART_SECONDS, restart_seconds),
        ):
            Gauge(metric.name, metric.help, registry=self._registry).set_function(read)

    def reconciled(self, type: ResourceType, result: ResultLabel, seconds: float) -> None:
        self._reconciliations.labels(type.group, type.kind, result).observe(seconds)

    def failed(self, type: ResourceType, error: str) -> None:
        """`error` is the type of the API server's answer, or `UNHANDLED`."""
        self._errors.labels(type.group, type.kind, error).inc()

    def wrote(self, verb: str, type: ResourceType) -> None:
        self._writes.labels(type.group, type.kind, verb).inc()

    def acted(self, type: ResourceType, action: str, *, ok: bool) -> None:
        self._actions.labels(type.group, type.kind, action, "success" if ok else "failure").inc()

    def relisted(self, type: ResourceType) -> None:
        self._relists.labels(type.group, type.kind).inc()

    def spans_lost(self, count: int) -> None:
        """From any thread."""
        self._spans_lost.inc(count)

    def missed_delete(self, type: ResourceType) -> None:
        self._missed_deletes.labels(type.group, type.kind).inc()

    def render(self) -> str:
        """All metrics in Prometheus' text format."""
        return prometheus_client.generate_latest(self._registry).decode()
