"""The course of a reconciliation as spans: one trace each, from the first word of it to its end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, StatusCode

from kindling.engine.metrics import ResultLabel
from kindling.engine.queue import Waited
from kindling.engine.store import Key
from kindling.engine.tracer import Step
from kindling.kube.resources import Object

QUEUE = "wait in queue"


class SpanTracer:
    """`kindling.engine.tracer.Tracer`; the current span says which reconciliation it is."""

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def reconciliation(self, key: Key, waited: Waited) -> Iterator[None]:
        begun = time.time_ns()
        named = begun - int(waited.seconds * 1e9)
        attributes = {
            "k8s.namespace.name": key.namespace,
            "kindling.resource.kind": key.group_kind,
            "kindling.resource.name": key.name,
        }
        # Of an empty context: a reconciliation is nobody's part.
        root = self._tracer.start_span(
            f"reconcile {key.group_kind}", context=Context(), attributes=attributes, start_time=named
        )
        with opened(root):
            cause = {"kindling.queue.cause": waited.cause} if waited.cause else {}
            queue = self._tracer.start_span(QUEUE, attributes=cause, start_time=named)
            queue.end(begun)
            yield

    def resource(self, cr: Object) -> None:
        metadata = cr["metadata"]
        trace.get_current_span().set_attributes(
            {
                "kindling.resource.uid": str(metadata.get("uid", "")),
                "kindling.resource.generation": int(metadata.get("generation", 0)),
                "kindling.resource.version": str(metadata.get("resourceVersion", "")),
            }
        )

    def step(self, name: Step) -> AbstractContextManager[Span]:
        return opened(self._tracer.start_span(name))

    def result(self, label: ResultLabel, *, requeue: float | None, error: BaseException | None) -> None:
        span = trace.get_current_span()
        span.set_attribute("kindling.reconciliation.result", label)
        if requeue is not None:
            span.set_attribute("kindling.reconciliation.requeue_seconds", requeue)
        if error is not None:
            failed(span, type(error).__name__)


def opened(span: Span) -> AbstractContextManager[Span]:
    """Current until it ends; of an error that passes through only what the caller says."""
    return trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False)


def failed(span: Span, error_type: str) -> None:
    span.set_attribute("error.type", error_type)
    span.set_status(StatusCode.ERROR)
