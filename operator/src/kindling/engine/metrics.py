"""What the operator counts of itself, for Prometheus. The runbook explains each; a test compares them.

Labels hold kinds, verbs, outcomes and errors' types: never the name of a resource, for that has no bound.
The label `kind` is `ResourceType.label` everywhere, so that queries can join on it, and both groups of
Postgresql are told apart.
"""

from __future__ import annotations

from collections.abc import Callable

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from kindling.kube.resources import ResourceType

# A second time series for each counter, which nothing here asks for.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

# From a pass that finds all well to one that waits for a slow disk's CREATE DATABASE.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CONTENT_TYPE = prometheus_client.CONTENT_TYPE_PLAIN_0_0_4


class Metrics:
    """Counted as things happen, in a registry of its own; `measure` names what is read on request."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        self._passes = Histogram(
            "kindling_reconcile_seconds",
            "Passes over one resource, by how they ended.",
            ("kind", "outcome"),
            buckets=BUCKETS,
            registry=registry,
        )
        self._writes = Counter(
            "kindling_writes", "Writes the API server took.", ("verb", "kind"), registry=registry
        )
        self._errors = Counter("kindling_errors", "Passes given up.", ("error",), registry=registry)
        self._relists = Counter("kindling_relists", "Watches lost.", ("kind",), registry=registry)
        self._ghosts = Counter(
            "kindling_ghosts_healed", "Deletions that no watch told of.", ("kind",), registry=registry
        )

    def measure(
        self,
        *,
        queue_depth: Callable[[], float],
        queue_oldest_seconds: Callable[[], float],
        objects: Callable[[], float],
        leader: Callable[[], float],
        restarts_waiting: Callable[[], float],
        restart_seconds: Callable[[], float],
    ) -> None:
        """Name where the gauges are read; once."""
        for name, help, read in (
            ("kindling_queue_depth", "Resources that wait for a worker.", queue_depth),
            ("kindling_queue_oldest_seconds", "How long the first of them has waited.", queue_oldest_seconds),
            ("kindling_objects", "Objects known.", objects),
            ("kindling_leader", "1 while the Lease is held.", leader),
            (
                "kindling_restarts_waiting",
                "Resources in line for a restart.",
                restarts_waiting,
            ),
            ("kindling_restart_seconds", "How long the one under way has taken.", restart_seconds),
        ):
            Gauge(name, help, registry=self._registry).set_function(read)

    def reconciled(self, kind: str, outcome: str, seconds: float) -> None:
        """`kind` is the `label` of the resource's type, as keys have it."""
        self._passes.labels(kind, outcome).observe(seconds)

    def wrote(self, verb: str, type: ResourceType) -> None:
        self._writes.labels(verb, type.label).inc()

    def failed(self, error: str) -> None:
        self._errors.labels(error).inc()

    def relisted(self, type: ResourceType) -> None:
        self._relists.labels(type.label).inc()

    def healed(self, type: ResourceType) -> None:
        self._ghosts.labels(type.label).inc()

    def render(self) -> str:
        """All of them in Prometheus' text format."""
        return prometheus_client.generate_latest(self._registry).decode()
