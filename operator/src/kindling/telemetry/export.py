"""Sending spans to a collector that may be away: said once, and nobody waits for it."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import unquote

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

log = logging.getLogger("kindling.telemetry")

CLOSE_SECONDS = 3.0
"""How long the end of the process waits for what is to be sent yet."""
_EXPORTER = "opentelemetry.exporter.otlp.proto.http"
_QUEUE = "opentelemetry.sdk._shared_internal"
_HEADER_PARSER = "opentelemetry.util.re"
_HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")


class _Reason(logging.Handler):
    """Keeps the first line about an attempt, which has the cause, in place of printing it."""

    def __init__(self) -> None:
        super().__init__()
        self.message = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.message = self.message or record.getMessage()


_reason = _Reason()


def _without_value(record: logging.LogRecord) -> bool:
    """A header that is none is quoted by the library; it may be a token without its name."""
    record.msg, record.args = f"{' or '.join(_HEADERS)} has a header that is not name=value", None
    return True


class Export(SpanExporter):
    """The exporter, with one line in the log when it begins to fail and one when it works again.

    It is called by the one thread that sends. `lost` is called with the number of spans that were not taken.
    """

    def __init__(self, exporter: SpanExporter, lost: Callable[[int], None]) -> None:
        self._exporter, self._count = exporter, lost
        self._lost = 0

    @staticmethod
    @contextmanager
    def quiet() -> Iterator[None]:
        """Without the library's own lines about what cannot be sent: one for each attempt, and one for each
        span that finds the queue full. Its line about a wrong header has no value.
        """
        exporter, queue = logging.getLogger(_EXPORTER), logging.getLogger(_QUEUE)
        before = exporter.propagate, queue.level
        exporter.propagate = False
        exporter.addHandler(_reason)
        queue.setLevel(logging.ERROR)
        parser = logging.getLogger(_HEADER_PARSER)
        parser.addFilter(_without_value)
        try:
            yield
        finally:
            parser.removeFilter(_without_value)
            exporter.removeHandler(_reason)
            exporter.propagate = before[0]
            queue.setLevel(before[1])

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        _reason.message = ""
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            if not self._lost:
                reason = without_headers(_reason.message, os.environ) or "no reason given"
                log.warning(f"traces are not exported: {reason}")
            self._lost += len(spans)
            self._count(len(spans))
        elif self._lost:
            log.info(f"traces are exported again; at least {self._lost} spans were lost")
            self._lost = 0
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def without_headers(text: str, env: Mapping[str, str]) -> str:
    """The text without the values of headers, which let one in at the collector: a client may name one that
    it cannot send.
    """
    for variable in _HEADERS:
        for header in env.get(variable, "").split(","):
            value = header.partition("=")[2].strip()
            for secret in (value, unquote(value)):
                # What is as short as a word of any message is no secret.
                text = text.replace(secret, "(redacted)") if len(secret) > 3 else text
    return text


async def close(provider: TracerProvider) -> None:
    """Send what is left, for CLOSE_SECONDS at most.

    By a thread that the process does not wait for: the library's own bound is longer than a Pod has.
    """
    thread = threading.Thread(target=provider.shutdown, daemon=True, name="traces-shutdown")
    thread.start()
    await asyncio.to_thread(thread.join, CLOSE_SECONDS)
    if thread.is_alive():
        log.warning(f"traces: what was not sent after {CLOSE_SECONDS:g} s is lost")
