"""What a handler may raise, and what came of handling a message: the one contract of all handlers.

`Retry` and `Reject` are for users' code: `from pulsar_consumer.handler import Reject, Retry`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

LONGEST_ERROR = 500
LONGEST_DELAY_SECONDS = 86_400.0
_SHORTEST_SECRET = 6
REJECTED, MAX_DELIVERIES, SCHEMA_MISMATCH = "Rejected", "MaxDeliveries", "SchemaMismatch"
DEAD_LETTER_REASONS = REJECTED, MAX_DELIVERIES, SCHEMA_MISMATCH
"""Why a message is a dead letter."""


class Retry(Exception):
    """Raised by a handler: not now. The message comes again after so many seconds; it is no failure."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        super().__init__(reason or f"the handler asks for {seconds} s")
        self.seconds = min(max(0.0, float(seconds)), LONGEST_DELAY_SECONDS)


class Reject(Exception):
    """Raised by a handler: never. The message goes to the dead letters without another try."""


class HandlerUnavailable(Exception):
    """The handler is not available at all; no message was touched. One line says why."""


@dataclass(frozen=True)
class Handled:
    """The handler has ended well; `output` is for the output topic, if there is one."""

    output: bytes | None = None


@dataclass(frozen=True)
class Failed:
    """To be retried by the back-off, until it has failed too often.

    `error_type` is what a trace has of the error: a class or a status, and none of its words.
    """

    error: str
    error_type: str = field(default="", compare=False)


@dataclass(frozen=True)
class Delayed:
    """To be retried after so many seconds: no failure."""

    seconds: float
    error: str


@dataclass(frozen=True)
class Rejected:
    """No other try would help."""

    error: str
    error_type: str = field(default="", compare=False)


@dataclass(frozen=True)
class Mismatched:
    """The payload does not fit its schema, so the handler was not called."""

    why: str

    @property
    def error(self) -> str:
        return f"{SCHEMA_MISMATCH}: {self.why}"


Verdict: TypeAlias = Handled | Failed | Delayed | Rejected | Mismatched


Handler = Callable[[Any], Verdict]
"""Called with a message, by several threads at once if the settings say so. Nothing is raised."""


def one_line(error: BaseException | str) -> str:
    """An error as one short line, without the values of variables that users set.

    It may reach the resource's status, which more people may read than a Secret.
    """
    words = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    for name, value in os.environ.items():
        if not name.startswith("PULSAR_") and len(value) >= _SHORTEST_SECRET:
            words = words.replace(value, f"${name}")
    return " ".join(words.split())[:LONGEST_ERROR].rstrip(": ")


def id_of(message: Any) -> str:
    """The message's id as Pulsar's own tools write it: LEDGER:ENTRY:PARTITION, and :BATCHINDEX in a batch."""
    id = message.message_id()
    parts = [id.ledger_id(), id.entry_id(), id.partition()]
    return ":".join(map(str, [*parts, id.batch_index()] if id.batch_index() >= 0 else parts))
