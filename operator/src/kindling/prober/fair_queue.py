"""Who comes next: each namespace its share of the workers, and servers that hang a lane of their own.

Pure, but for what it remembers: no process, no clock.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeAlias, TypeVar

MOST_KNOWN = 10_000

T = TypeVar("T", bound=Hashable)
Server: TypeAlias = tuple[str, str]
"""Namespace and host."""


class PriorityLevel(Enum):
    """By how a server did last. The value is how many workers the lane has; a namespace gets half."""

    GOOD = 32
    NEW = 16
    SLOW = 8


WORKERS = PriorityLevel.GOOD.value


@dataclass
class FairQueue(Generic[T]):
    """Jobs wait in the lane of their server; `next` gives those that may begin."""

    _known: OrderedDict[Server, PriorityLevel] = field(default_factory=OrderedDict)
    _waiting: dict[PriorityLevel, OrderedDict[str, deque[tuple[T, Server]]]] = field(
        default_factory=lambda: {level: OrderedDict() for level in PriorityLevel}
    )
    _running: dict[T, tuple[PriorityLevel, Server]] = field(default_factory=dict)

    def level(self, server: Server) -> PriorityLevel:
        return self._known.get(server, PriorityLevel.NEW)

    def add(self, job: T, server: Server) -> None:
        by_namespace = self._waiting[self.level(server)]
        by_namespace.setdefault(server[0], deque()).append((job, server))

    def next(self) -> T | None:
        """The next job, which from then on runs; None while none of those that wait may start.

        Good servers before new ones, those before slow ones; within a lane the namespaces by turns.
        """
        if len(self._running) >= WORKERS:
            return None
        running = Counter(level for level, _ in self._running.values())
        shares = Counter((level, server[0]) for level, server in self._running.values())
        for level, by_namespace in self._waiting.items():
            if running[level] >= level.value:
                continue
            for namespace, jobs in by_namespace.items():
                if shares[level, namespace] >= level.value // 2:
                    continue
                job, server = jobs.popleft()
                if jobs:
                    by_namespace.move_to_end(namespace)
                else:
                    del by_namespace[namespace]
                self._running[job] = level, server
                return job
        return None

    def done(self, job: T, *, hung: bool | None = None) -> None:
        """The job has ended, or is not wanted any more; `hung` says how its server did, if that is known."""
        if job not in self._running:
            self._withdraw(job)
            return
        _, server = self._running.pop(job)
        if hung is not None:
            self._known[server] = PriorityLevel.SLOW if hung else PriorityLevel.GOOD
            self._known.move_to_end(server)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)

    def _withdraw(self, job: T) -> None:
        for by_namespace in self._waiting.values():
            for namespace, jobs in list(by_namespace.items()):
                left = deque(entry for entry in jobs if entry[0] != job)
                if left:
                    by_namespace[namespace] = left
                else:
                    del by_namespace[namespace]
