"""What Prometheus reads of a consumer: its messages, and how the calls of its handler ended.

Nothing of a message is in it. Without a port nothing is counted, and the library is not imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pulsar_consumer.handler import (
    DEAD_LETTER_REASONS,
    Delayed,
    Failed,
    Handled,
    Mismatched,
    Rejected,
    Verdict,
)

RESULTS: dict[type[Verdict], str] = {
    Handled: "handled",
    Failed: "failed",
    Rejected: "rejected",
    Delayed: "delayed",
    Mismatched: "mismatched",
}
BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
"""Seconds; a handler may take up to an hour."""


class Metrics:
    """Counts nothing."""

    def recorded(self, name: str, value: float) -> bool:
        """A figure of users' code; False where nobody reads it."""
        return False

    def acknowledged(self) -> None:
        """The broker does not give that message out again."""

    def called(self, verdict: Verdict, seconds: float) -> None:
        """The handler has ended."""

    def output(self) -> None:
        """The broker has an output."""

    def dead_letter(self, reason: str) -> None:
        """The broker has a message as a dead letter."""

    def spans_lost(self, count: int) -> None:
        """The collector of traces did not take so many."""

    def watch(self, held: Callable[[], int], slowest: Callable[[], float]) -> None:
        """From now on, these say how many messages are held, and for how long the slowest call has taken."""


class Served(Metrics):
    """Serves them on a port, to whoever asks."""

    def __init__(self, port: int) -> None:
        """:raises OSError: when the port is taken."""
        import prometheus_client as prometheus

        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]
        # With those of the process that the library has: memory, processor, open files.
        registry = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=registry)
        prefix = "kindling_consumer"
        self._messages = prometheus.Counter(
            f"{prefix}_messages", "Messages that were acknowledged.", registry=registry
        )
        self._calls = prometheus.Histogram(
            f"{prefix}_handler_seconds",
            "How long calls of the handler took, by how they ended.",
            ["result"],
            buckets=BUCKETS,
            registry=registry,
        )
        for result in RESULTS.values():
            self._calls.labels(result)
        self._outputs = prometheus.Counter(
            f"{prefix}_outputs", "Messages that were sent to the output topic.", registry=registry
        )
        self._dead_letters = prometheus.Counter(
            f"{prefix}_dead_letters",
            "Messages that were given up and sent to the dead letters, by reason.",
            ["reason"],
            registry=registry,
        )
        for reason in DEAD_LETTER_REASONS:
            self._dead_letters.labels(reason)
        self._held: Any = prometheus.Gauge(
            f"{prefix}_messages_held",
            "Messages that were received and are not acknowledged: waiting, handled, or to be retried.",
            registry=registry,
        )
        self._slowest: Any = prometheus.Gauge(
            f"{prefix}_handler_slowest_seconds",
            "For how long the slowest of the calls under way has taken.",
            registry=registry,
        )
        self._spans_lost = prometheus.Counter(
            f"{prefix}_trace_spans_lost",
            "Spans of traces that the collector did not take; others are lost while the queue to it is full.",
            registry=registry,
        )
        self._recorded = prometheus.Summary(
            f"{prefix}_user_metric",
            "What a function recorded by its context, by the name that it gave.",
            ["metric"],
            registry=registry,
        )
        self._server, _ = prometheus.start_http_server(port, registry=registry)
        self.port: int = self._server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def recorded(self, name: str, value: float) -> bool:
        self._recorded.labels(name).observe(value)
        return True

    def acknowledged(self) -> None:
        self._messages.inc()

    def called(self, verdict: Verdict, seconds: float) -> None:
        self._calls.labels(RESULTS[type(verdict)]).observe(seconds)

    def output(self) -> None:
        self._outputs.inc()

    def dead_letter(self, reason: str) -> None:
        self._dead_letters.labels(reason).inc()

    def spans_lost(self, count: int) -> None:
        self._spans_lost.inc(count)

    def watch(self, held: Callable[[], int], slowest: Callable[[], float]) -> None:
        self._held.set_function(held)
        self._slowest.set_function(slowest)
