"""What the probes answer: is the process of use (alive), and does it do its part (ready)?

Alive fails only for what a new start may mend, and for nothing that passes by itself: a deaf process, a
stuck one. A part that dies ends the process by itself, and a loop that is held up lets the probe's own
time limit pass. Ready is also true of a standby: it is there to take over.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Protocol

STUCK_SECONDS = 300.0


class Work(Sized, Protocol):
    @property
    def oldest_seconds(self) -> float: ...


class Leadership(Protocol):
    known: bool

    @property
    def deaf(self) -> str | None: ...


class Listening(Protocol):
    @property
    def waiting(self) -> str | None: ...
    @property
    def deaf(self) -> str | None: ...


class Net(Protocol):
    @property
    def overdue(self) -> str | None: ...


@dataclass(kw_only=True)
class Health:
    """`waiting` is what keeps it from starting; `watches` and `resync` are there once it leads.

    Each answer is None when well, else what is wrong, in a sentence.
    """

    queue: Work
    lease: Leadership
    waiting: str | None = "starting"
    watches: Listening | None = None
    resync: Net | None = None

    def alive(self) -> str | None:
        if self.queue.oldest_seconds > STUCK_SECONDS:
            return f"a resource has waited for a worker for {self.queue.oldest_seconds:.0f} s"
        if self.waiting is None and self.lease.deaf:
            return self.lease.deaf
        if self.watches is not None and self.watches.deaf:
            return self.watches.deaf
        return self.resync.overdue if self.resync is not None else None

    def ready(self) -> str | None:
        if self.waiting is not None:
            return self.waiting
        if not self.lease.known:
            return "the lease is not known yet"
        return self.alive() or (self.watches.waiting if self.watches is not None else None)
