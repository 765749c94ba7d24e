"""What the prober does for a reconciliation, as spans."""

from __future__ import annotations

from typing import Any

from opentelemetry import trace
from opentelemetry.trace import SpanKind

from kindling.prober.jobs import protocol_of
from kindling.telemetry import Ask, ProbeResult
from kindling.telemetry.spans import failed, opened

_POSTGRESQL, _MEMCACHED, _PULSAR = "postgresql", "memcached", "pulsar"
_SYSTEMS = {
    "access": _MEMCACHED,
    "archive": _POSTGRESQL,
    "logins": _POSTGRESQL,
    "memcached": _MEMCACHED,
    "objects": _POSTGRESQL,
    "postgres": _POSTGRESQL,
    "reload": _POSTGRESQL,
    "usage": _POSTGRESQL,
    "backlog": _PULSAR,
    "replay": _PULSAR,
    "unsubscribe": _PULSAR,
}
"""Which servers are spoken to, by the protocol of the request."""
NO_ANSWER = "no_answer"
"""What is wrong where the prober could not be asked."""


def traced(tracer: trace.Tracer, verb: str, ask: Ask[ProbeResult]) -> Ask[ProbeResult]:
    """The same, with a span where a reconciliation asks: what is repeated beside them has none."""

    async def asking(request: Any) -> ProbeResult:
        if not trace.get_current_span().is_recording():
            return await ask(request)
        protocol = protocol_of(request)
        span = tracer.start_span(
            f"{verb} {protocol}", kind=SpanKind.CLIENT, attributes=_attributes(request, protocol)
        )
        with opened(span):
            result = await ask(request)
            if result is None:
                failed(span, NO_ANSWER)
            elif result.reason:
                span.set_attribute("kindling.probe.reason", result.reason)
            if result is not None and not result.ok:
                failed(span, result.reason or "_OTHER")
            return result

    return asking


def _attributes(request: Any, protocol: str) -> dict[str, str | int]:
    system = _SYSTEMS.get(protocol)
    found: dict[str, str | int] = {
        "k8s.namespace.name": request.namespace,
        "kindling.probe.protocol": protocol,
    }
    if system == _PULSAR:
        # Its address is a value of the spec.
        found["messaging.system"] = system
    elif system is not None:
        found |= {"db.system.name": system, "server.address": request.host, "server.port": request.port}
    return found
