"""Each call of the handler as a span, by OpenTelemetry's SDK and its conventions for messaging.

Nothing of a payload, a key or an error's words is in a span.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.trace import Link, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pulsar_consumer import trace_export
from pulsar_consumer.handler import SCHEMA_MISMATCH, Failed, Mismatched, Rejected, Verdict, id_of
from pulsar_consumer.metrics import RESULTS
from pulsar_consumer.outbox import Send
from pulsar_consumer.trace_settings import CONSOLE
from pulsar_consumer.tracing import Span, Tracer

SERVICE = "kindling-consumer"
"""Where nobody has said of which resource it is."""
TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
"""The names that W3C Trace Context gives to headers, and producers that trace to properties."""
_PARTITION = re.compile(r"(?P<topic>.+)-partition-(?P<number>[0-9]+)")
_CAME = contexts.create_key("kindling-traceparent")
"""In a context: the `traceparent` that the message came with."""
_propagator = TraceContextTextMapPropagator()


def carrying(carrier: dict[str, str], context: Context) -> dict[str, str]:
    """With the context's span in place of any other one, and its state or none."""
    found = {name: value for name, value in carrier.items() if name not in (TRACEPARENT, TRACESTATE)}
    _propagator.inject(found, context=context)
    return found if TRACEPARENT in found else carrier


class SdkSpan(Span):
    """`kindling.message.outcome` says what became of the message, if the broker has taken it."""

    def __init__(self, span: trace.Span, context: Context) -> None:
        self._span, self._context = span, context

    def called(self, verdict: Verdict) -> None:
        self._span.set_attribute("kindling.handler.result", RESULTS[type(verdict)])
        if isinstance(verdict, Mismatched):
            failed(self._span, SCHEMA_MISMATCH)
        elif isinstance(verdict, Failed | Rejected):
            failed(self._span, verdict.error_type or "_OTHER")

    def acknowledged(self) -> None:
        self._span.set_attribute("kindling.message.outcome", "acknowledged")

    def dead_letter(self, reason: str) -> None:
        self._span.set_attribute("kindling.message.outcome", "dead_letter")
        self._span.set_attribute("kindling.message.dead_letter_reason", reason)

    def retried(self, seconds: float) -> None:
        self._span.set_attribute("kindling.message.outcome", "retried")
        self._span.set_attribute("kindling.message.retry_seconds", float(seconds))

    def carried(self, properties: dict[str, str]) -> dict[str, str]:
        return carrying(properties, self._context)


class SdkTracer(Tracer):
    """Of the messages of one subscription."""

    def __init__(self, provider: TracerProvider, *, subscription: str) -> None:
        self._provider, self._subscription = provider, subscription
        self._tracer = provider.get_tracer("kindling.consumer")

    @contextmanager
    def processing(self, message: Any, *, delivery: int) -> Iterator[Span]:
        properties = message.properties() or {}
        came = _propagator.extract(properties, context=Context())
        creation = trace.get_current_span(came).get_span_context()
        attributes = attributes_of(message, subscription=self._subscription, delivery=delivery)
        span = self._tracer.start_span(
            f"process {attributes['messaging.destination.name']}",
            context=came,
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            # Both, as the conventions have it for single messages: links are what every system can do.
            links=[Link(creation)] if creation.is_valid else None,
        )
        context = trace.set_span_in_context(span, came)
        context = contexts.set_value(_CAME, properties.get(TRACEPARENT), context)
        token = contexts.attach(context)
        try:
            yield SdkSpan(span, context)
        except BaseException as error:
            failed(span, type(error).__name__)
            raise
        finally:
            contexts.detach(token)
            span.end()

    def publishing(self, send: Send) -> Send:
        def sending(topic: str, content: bytes | None, arguments: dict[str, Any]) -> Any:
            context, properties = contexts.get_current(), dict(arguments.get("properties") or {})
            # What users' code has put there itself stays; the handled message's own is only copied.
            if properties.get(TRACEPARENT) in (None, contexts.get_value(_CAME, context)):
                properties = carrying(properties, context)
            return send(topic, content, {**arguments, "properties": properties} if properties else arguments)

        return sending

    def requested(self, headers: dict[str, str]) -> dict[str, str]:
        return carrying(headers, contexts.get_current())

    def close(self) -> None:
        trace_export.close(self._provider)


def attributes_of(message: Any, *, subscription: str, delivery: int) -> dict[str, str | int]:
    """By the conventions, and three of ours: how often the handler was called here, and how often the broker
    has given the message out before.
    """
    topic = message.topic_name()
    found: dict[str, str | int] = {
        "messaging.system": "pulsar",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": topic,
        "messaging.destination.subscription.name": subscription,
        "messaging.message.id": id_of(message),
        "kindling.message.delivery": delivery,
        "kindling.message.redeliveries": message.redelivery_count(),
    }
    if partition := _PARTITION.fullmatch(topic):
        found["messaging.destination.name"] = partition["topic"]
        found["messaging.destination.partition.id"] = partition["number"]
    return found


def failed(span: trace.Span, error_type: str) -> None:
    span.set_attribute("error.type", error_type)
    span.set_status(StatusCode.ERROR)


def provider(exporter: SpanExporter, env: Mapping[str, str]) -> TracerProvider:
    """Sampler, limits and queue are by the environment, which can rename the service, too.

    :raises ValueError: where a variable is wrong.
    """
    pod, namespace = socket.gethostname(), env.get("PULSAR_CONSUMER_NAMESPACE", "")
    ours = {
        "service.name": env.get("PULSAR_CONSUMER_NAME") or SERVICE,
        "service.namespace": namespace,
        "service.instance.id": pod,
        "k8s.namespace.name": namespace,
        "k8s.pod.name": pod,
    }
    said = OTELResourceDetector().detect().attributes
    known = {name: value for name, value in ours.items() if value}
    found = TracerProvider(resource=Resource.create({**known, **said}), shutdown_on_exit=False)
    # The queue is bounded, and a full one loses its oldest; a thread of its own sends.
    found.add_span_processor(BatchSpanProcessor(exporter))
    return found


def started(exporter: str, env: Mapping[str, str], *, lost: Callable[[int], None]) -> SdkTracer:
    """Also for users' code: what it traces by the library's API is exported too.

    :raises ValueError, ImportError: where a variable is wrong, or the image has no exporter.
    """
    trace_export.quiet()
    export = trace_export.Export(ConsoleSpanExporter() if exporter == CONSOLE else _otlp(), lost)
    made = provider(export, env)
    trace.set_tracer_provider(made)
    return SdkTracer(made, subscription=env.get("PULSAR_SUBSCRIPTION_NAME", ""))


def _otlp() -> SpanExporter:
    # Imported here: with it come a client of HTTP and the code of the protocol.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
