"""What the probes answer: is the process alive, and is it ready?

Alive fails only for what a restart may fix, and for nothing that ends by itself: stalled watches, stuck
workers. A part that dies ends the process by itself, and a loop that is held up lets the probe's own
time limit pass. Ready is also true of a standby: it is there to take over.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Protocol

STUCK_SECONDS = 300.0


class QueueHealth(Sized, Protocol):
    @property
    def oldest_seconds(self) -> float: ...


class LeaderHealth(Protocol):
    observed: bool

    @property
    def stalled(self) -> str | None: ...


class WatchHealth(Protocol):
    @property
    def not_started(self) -> str | None: ...
    @property
    def stalled(self) -> str | None: ...


class ResyncHealth(Protocol):
    @property
    def overdue(self) -> str | None: ...


@dataclass(kw_only=True)
class Health:
    """`waiting` is what keeps it from starting; `monitor` and `resync` are there once it leads.

    Each answer is None when well, else what is wrong, in a sentence.
    """

    queue: QueueHealth
    elector: LeaderHealth
    startup: str | None = "starting"
    monitor: WatchHealth | None = None
    resync: ResyncHealth | None = None

    def alive(self) -> str | None:
        if self.queue.oldest_seconds > STUCK_SECONDS:
            return f"a resource has waited for a worker for {self.queue.oldest_seconds:.0f} s"
        if self.startup is None and self.elector.stalled:
            return self.elector.stalled
        if self.monitor is not None and self.monitor.stalled:
            return self.monitor.stalled
        return self.resync.overdue if self.resync is not None else None

    def ready(self) -> str | None:
        if self.startup is not None:
            return self.startup
        if not self.elector.observed:
            return "the lease is not known yet"
        return self.alive() or (self.monitor.not_started if self.monitor is not None else None)
