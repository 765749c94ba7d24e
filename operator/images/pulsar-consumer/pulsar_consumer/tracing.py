"""Traces of messages, as far as the rest of the consumer knows them; by default none of it does anything.

Nothing of OpenTelemetry is imported here, and without its variables nowhere else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pulsar_consumer import trace_settings
from pulsar_consumer.handler import Verdict
from pulsar_consumer.outbox import Send

log = logging.getLogger("pulsar_consumer")


class Span:
    """Of one call of the handler, and of what followed from it."""

    def called(self, verdict: Verdict) -> None:
        """The handler has ended."""

    def acknowledged(self) -> None:
        """The broker does not give the message out again."""

    def dead_letter(self, reason: str) -> None:
        """The broker has the message as a dead letter, and does not give it out again."""

    def retried(self, seconds: float) -> None:
        """The handler is called again after so many seconds."""

    def carried(self, properties: dict[str, str]) -> dict[str, str]:
        """The properties of a message made of this one, with this span as what caused it."""
        return properties


_NO_SPAN = nullcontext(Span())


class Tracer:
    """A span is current within `processing`, also for users' code that is called there."""

    def processing(self, message: Any, *, delivery: int) -> AbstractContextManager[Span]:
        """The call number `delivery` for a message, until it is settled. An error that passes through is
        the span's.
        """
        return _NO_SPAN

    def publishing(self, send: Send) -> Send:
        """The same, with the current span in each message unless that has another one."""
        return send

    def requested(self, headers: dict[str, str]) -> dict[str, str]:
        """Headers of a request to the handler, with the current span."""
        return headers

    def close(self) -> None:
        """Send what was not sent yet, as far as a few seconds suffice."""


NOT_TRACED = Tracer()


def started(env: Mapping[str, str], *, lost: Callable[[int], None]) -> Tracer:
    """As the variables have it. `lost` is called, in some thread, with the number of spans that could not be
    sent.

    What is wrong with them is a line in the log, and messages are handled without traces: the variables may
    be meant for users' code, whose libraries know more of them.
    """
    try:
        exporter = trace_settings.exporter(env)
        if exporter == trace_settings.NONE:
            return NOT_TRACED
        from pulsar_consumer import sdk_tracer

        return sdk_tracer.started(exporter, env, lost=lost)
    except (ValueError, ImportError) as error:
        log.warning("no traces: %s", error)
        return NOT_TRACED
