"""The operator's process with its traces on, and the traces of a resource that a collector has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kindling.kube.resources import Ref

from tests.apiserver.conftest import ENVIRONMENT
from tests.apiserver.support.cluster import Cluster
from tests.apiserver.support.operator_process import OperatorProcess, operator
from tests.otlp import Collector, Received

SECONDS = 60.0


@contextmanager
def traced(cluster: Cluster, endpoint: str, more: Mapping[str, str] = {}) -> Iterator[OperatorProcess]:
    """Once it is ready. `more` are variables; a request to the collector is never given up in time."""
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "OTEL_EXPORTER_OTLP_TIMEOUT": "600",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        **more,
    }
    with operator(cluster.operator_plane, env={**ENVIRONMENT, **variables}, kept=True) as process:
        process.wait_ready()
        yield process


def with_span(collector: Collector, ref: Ref, name: str) -> tuple[Received, list[Received]]:
    """A span of that name, of a reconciliation of the resource, and all of that trace, the root first."""

    def has(root: Received) -> bool:
        return root.attributes.get("kindling.resource.name") == ref.name and any(
            span.trace == root.trace and span.name == name for span in collector.spans()
        )

    found = collector.trace(has, seconds=SECONDS)
    return next(span for span in found if span.name == name), found


def of_creation(collector: Collector, ref: Ref) -> list[Received]:
    """The reconciliation that made its children, of one with a StatefulSet."""
    return with_span(collector, ref, "create statefulsets.apps")[1]
