"""Telemetry by OpenTelemetry's SDK: its provider, and what of the process is traced.

No message of an error is in a span: the API server's have values of specs in them.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from opentelemetry import trace
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter

from kindling.supervision import StartupError
from kindling.telemetry import Ask, ProbeResult, Telemetry
from kindling.telemetry.export import Export, close
from kindling.telemetry.requests import Requests
from kindling.telemetry.servers import traced
from kindling.telemetry.settings import CONSOLE
from kindling.telemetry.spans import SpanTracer

SERVICE = "kindling-operator"


class SdkTelemetry(Telemetry):
    """`tracer` is the library's."""

    def __init__(self, tracer: trace.Tracer) -> None:
        super().__init__(tracer=SpanTracer(tracer), middleware=Requests(tracer))
        self._tracer = tracer

    def probes(self, ask: Ask[ProbeResult]) -> Ask[ProbeResult]:
        return traced(self._tracer, "probe", ask)

    def actions(self, act: Ask[ProbeResult]) -> Ask[ProbeResult]:
        return traced(self._tracer, "act on", act)


def provider(exporter: SpanExporter, *, namespace: str, pod: str) -> TracerProvider:
    """Sampler, limits and queue are by the environment, which can rename the service, too.

    :raises ValueError: where a variable is wrong.
    """
    ours = {
        "service.name": SERVICE,
        "service.instance.id": pod,
        "k8s.namespace.name": namespace,
        "k8s.pod.name": pod,
    }
    said = OTELResourceDetector().detect().attributes
    found = TracerProvider(resource=Resource.create({**ours, **said}), shutdown_on_exit=False)
    # The queue is bounded, and a full one loses its oldest; a thread of its own sends.
    found.add_span_processor(BatchSpanProcessor(exporter))
    return found


@asynccontextmanager
async def running(
    exporter: str, *, namespace: str, pod: str, lost: Callable[[int], None]
) -> AsyncIterator[Telemetry]:
    """See `kindling.telemetry.started`."""
    with Export.quiet():
        try:
            export = Export(ConsoleSpanExporter() if exporter == CONSOLE else _otlp(), lost)
            made = provider(export, namespace=namespace, pod=pod)
        except ValueError as error:
            raise StartupError(f"a variable of OpenTelemetry (OTEL_*) is wrong: {error}") from error
        fields = LogFields()
        handlers = list(logging.getLogger().handlers)
        for handler in handlers:
            handler.addFilter(fields)
        try:
            yield SdkTelemetry(made.get_tracer("kindling"))
        finally:
            await close(made)
            for handler in handlers:
                handler.removeFilter(fields)


def _otlp() -> SpanExporter:
    # Imported here: with it come a client of HTTP and the code of the protocol.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


class LogFields(logging.Filter):
    """Gives each record the trace that it belongs to, if that is kept."""

    def filter(self, record: logging.LogRecord) -> bool:
        context = trace.get_current_span().get_span_context()
        if context.is_valid and context.trace_flags.sampled:
            record.trace_id = trace.format_trace_id(context.trace_id)
            record.span_id = trace.format_span_id(context.span_id)
        return True
