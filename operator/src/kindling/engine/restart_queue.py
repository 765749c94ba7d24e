"""One disruption at a time: the queue of the resources that the operator, and nobody else, wants to disrupt.

First come, first served, over all kinds. A resource has the slot until all its members are done and it is
Ready again, and one member has it at a time: what took one database down may take them all down, so the
queue halts rather than goes on. The resource is recorded in the operator's Lease before anything is
disrupted, so that the next leader knows of it; the queue itself is not recorded, it forms again.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime

from kindling.engine.store import Key
from kindling.kinds.base import RestartSlot

log = logging.getLogger(__name__)

HALT_SECONDS = 600.0
"""How long a restart may take before the queue is halted: as long as a Deployment's progress deadline."""

LISTED_SECONDS = 60.0
"""After so long all resources are listed, and a recorded resource that is not in the cache was deleted."""

Note = Callable[[str], Awaitable[None]]
"""Records which resource has the slot where the next leader finds it; an empty text for none."""


async def _unnoted(text: str) -> None:
    """For those without a next leader."""


class RestartQueue:
    """`request` when a reconciliation begins, `release_if_ready` when it ends, `remove` for what is gone."""

    def __init__(
        self,
        *,
        exists: Callable[[Key], bool],
        wake: Callable[[Key], None],
        note: Note = _unnoted,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`wake` requeues a key that may have the slot now."""
        self._exists, self._wake, self._note, self._clock = exists, wake, note, clock
        self._waiting: OrderedDict[Key, int] = OrderedDict()  # the number of each in order of arrival
        self._arrived = 0
        self._current: Key | None = None
        self._member = ""
        self._since = clock()
        self._halt_logged = self._seen = False

    def restore(self, noted: str) -> None:
        """Go on from what the last leader's `note` was given last; before any request.

        The member is not recorded: the next one has the slot once the resource is Ready.
        """
        self._current, self._since = _read(noted), self._clock()

    def __len__(self) -> int:
        """The number of resources that wait."""
        return len(self._waiting)

    @property
    def seconds(self) -> float:
        """For how long a resource has had the slot, as this leader knows; 0 if none has it."""
        return 0.0 if self._current is None else (self._clock() - self._since).total_seconds()

    async def request(self, key: Key, members: Sequence[str] | None) -> RestartSlot:
        """Its position, with these members to disrupt; without any it leaves the queue (but keeps its slot).

        :raises ApiError: when the slot could not be recorded; it is not granted then.
        """
        if self._current is not None and self._is_deleted(self._current):
            await self._end()
        if key == self._current:
            self._seen = True
            if members is None:
                await self._end()
                return RestartSlot()
            if self._member not in members:
                self._member = ""
            return RestartSlot(granted=True, member=self._member)
        if not members:
            self._leave(key)
            return RestartSlot()
        if key not in self._waiting:
            self._arrived += 1
            self._waiting[key] = self._arrived
        self._drop_deleted()
        if self._current is None and next(iter(self._waiting)) == key:
            self._current, self._member = key, members[0]
            self._since, self._halt_logged, self._seen = self._clock(), False, True
            try:
                await self._note(str(key))
            except BaseException:
                self._current, self._member = None, ""
                raise
            del self._waiting[key]
            log.info("restart by the operator begins", extra={"key": str(key)})
            return RestartSlot(granted=True, member=self._member)
        return RestartSlot(place=self._place(key), length=len(self._waiting), halted=self._halted())

    async def release_if_ready(self, key: Key, members: Sequence[str] | None, *, ready: bool) -> None:
        """After a reconciliation: a Ready resource gives the slot to its next member, or back."""
        if key != self._current:
            return
        if members is None or (ready and not members):
            await self._end()
        elif ready and self._member not in members:
            self._member, self._since, self._halt_logged = members[0], self._clock(), False
            self._wake(key)

    async def remove(self, key: Key) -> None:
        """The resource is gone, or has not been listed yet."""
        if key == self._current:
            if self._is_deleted(key):
                await self._end()
        else:
            self._leave(key)

    def _is_deleted(self, current: Key) -> bool:
        """One that was taken over may not have been listed yet."""
        return not self._exists(current) and (self._seen or self.seconds > LISTED_SECONDS)

    async def _end(self) -> None:
        log.info("restart by the operator ends", extra={"key": str(self._current)})
        self._current, self._member = None, ""
        self._wake_first()
        await self._note("")

    def _leave(self, key: Key) -> None:
        if key in self._waiting:
            first = next(iter(self._waiting)) == key
            del self._waiting[key]
            if first and self._current is None:
                self._wake_first()

    def _drop_deleted(self) -> None:
        while not self._exists(first := next(iter(self._waiting))):
            del self._waiting[first]

    def _wake_first(self) -> None:
        if self._waiting:
            self._wake(next(iter(self._waiting)))

    def _place(self, key: Key) -> int:
        """As if nobody between the first and this one had left: at most too large, and found at once."""
        first = next(iter(self._waiting.values()))
        return min(self._waiting[key] - first + 1, len(self._waiting))

    def _halted(self) -> bool:
        halted = self.seconds > HALT_SECONDS
        if halted and not self._halt_logged:
            self._halt_logged = True
            log.warning(
                f"no further restarts: it is not Ready {HALT_SECONDS:.0f} s after the operator restarted it",
                extra={"key": str(self._current)},
            )
        return halted


def _read(noted: str) -> Key | None:
    kind, _, rest = noted.partition("/")
    namespace, _, name = rest.partition("/")
    return Key(kind, namespace, name) if kind and namespace and name else None
