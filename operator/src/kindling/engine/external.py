"""The state outside of the API server: probes and actions of members, beside the reconciliations.

No reconciliation waits long for a slow server, so however many hang, the workers stay free: an answer that
comes later requeues the key. Probes are repeated every few seconds; only an answer that differs requeues.
Those in the background have a schedule of their own, so that they delay no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from kindling.engine.probe_schedule import ProbeSchedule
from kindling.engine.store import Key
from kindling.kinds.base import CachedResult, ExternalAction, ExternalResult, Probe

log = logging.getLogger(__name__)

WAIT_SECONDS = 0.5
"""How long a reconciliation waits for answers: most come at once, and a second reconciliation costs more."""
EVERY_SECONDS = 5.0
"""How often a member is probed, while there are no more of them than MOST_A_SECOND allows."""
MOST_A_SECOND = 40
"""Probes that are repeated in a second; of more than 200 members each is probed less often."""
BACKGROUND_EVERY_SECONDS = 60.0
BACKGROUND_MOST_A_SECOND = 20
"""The same of probes in the background: of more than 1200 members each is probed less often."""

Member: TypeAlias = tuple[Key, str]
SendProbe = Callable[[Any], Awaitable[ExternalResult | None]]
"""Carries out the request of a probe; None if that could not be done, which says nothing of the member."""
RunAction = Callable[[Any], Awaitable[ExternalResult]]
"""Carries out the request of an action."""


@dataclass(frozen=True, kw_only=True)
class _Known:
    """An answer. `fresh` until a reconciliation has had it; `repeated`: of a probe that was repeated; `slow`:
    it took longer than a reconciliation waits.
    """

    cached: CachedResult
    fresh: bool
    repeated: bool = False
    slow: bool = False


class ExternalState:
    """`probe` and `run` in each reconciliation, `repeat` beside them. `requeue` adds a key to the queue.

    `before_action` is called before each action; what it raises keeps the action back. `on_action` gets each
    outcome: key, action, result.
    """

    def __init__(
        self,
        *,
        send: SendProbe,
        run: RunAction,
        requeue: Callable[[Key], None],
        before_action: Callable[[], None] = lambda: None,
        on_action: Callable[[Key, ExternalAction, ExternalResult], None] = lambda key, action, result: None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._send, self._run, self._requeue, self._clock = send, run, requeue, clock
        self._before_action, self._on_action = before_action, on_action
        self._members: dict[Key, set[str]] = {}  # of whom anything is kept below
        self._known: dict[Member, _Known] = {}
        self._running: dict[Member, asyncio.Task[None]] = {}
        self._waiting: set[Member] = set()
        self._probes: dict[Member, Probe] = {}
        self._due: ProbeSchedule[Member] = ProbeSchedule(
            every_seconds=EVERY_SECONDS, most_a_second=MOST_A_SECOND, ask=self._ask_again
        )
        self._background: ProbeSchedule[Member] = ProbeSchedule(
            every_seconds=BACKGROUND_EVERY_SECONDS,
            most_a_second=BACKGROUND_MOST_A_SECOND,
            ask=self._ask_again,
        )

    def results(self, key: Key) -> dict[str, CachedResult]:
        """The last answer of each member, to whatever cache key."""
        members = self._members.get(key, ())
        return {name: self._known[key, name].cached for name in members if (key, name) in self._known}

    async def probe(self, key: Key, probes: Mapping[str, Probe]) -> None:
        """Have an answer of each, if it comes soon: else it requeues the key. These are repeated from now on,
        and no others of this key.
        """
        for name in self._members.get(key, set()) - probes.keys():
            self._unschedule((key, name))
        unanswered: dict[Member, Hashable] = {}
        for name, probe in probes.items():
            member = key, name
            known = self._matching(member, probe.cache_key)
            before = self._probes.pop(member, None)
            if not probe.once:
                self._probes[member] = probe
            if probe.background and probe.once:
                self._members.setdefault(key, set()).add(name)
                if known is None:
                    self._start(member, self._ask_apart(member, probe), requeues=False)
            elif probe.background:
                self._members.setdefault(key, set()).add(name)
                if known is None and probe != before:
                    self._background.add_first(member)
                else:
                    self._background.add(member)
            elif known is None or (probe.once and not known.cached.result.ok and not known.fresh):
                self._start(member, self._ask(member, probe))
                unanswered[member] = probe.cache_key
            else:
                self._know(member, replace(known, fresh=False))
                self._schedule(member)
        await self._wait(unanswered)

    async def run(self, key: Key, action: ExternalAction) -> ExternalResult | None:
        """The outcome; None while there is none yet: then it requeues the key.

        :raises LeaseLost: (whatever `before_action` raises) before anything is done.
        """
        member = key, action.member
        known = self._matching(member, action.cache_key)
        if known is not None and known.cached.result.ok:
            wait = EVERY_SECONDS - (self._clock() - known.cached.at).total_seconds()
            if wait > 0:
                asyncio.get_running_loop().call_later(wait, self._requeue, key)
                return known.cached.result
        elif known is not None and known.fresh:
            self._know(member, replace(known, fresh=False))
            if known.repeated:  # It was good until now: whether that can be fixed is found out at once.
                self._begin(member, action)
            return known.cached.result
        self._begin(member, action)
        if known is None or not known.slow:
            await self._wait({member: action.cache_key})
        known = self._matching(member, action.cache_key)
        if known is None:
            return None
        self._know(member, replace(known, fresh=False))
        return known.cached.result

    def keep(self, key: Key, members: Collection[str]) -> None:
        """Nothing is wanted of any other member of this key: forget those."""
        for name in self._members.get(key, set()).difference(members):
            self._forget((key, name))

    def forget(self, key: Key) -> None:
        """Nothing is wanted of any member any more."""
        self.keep(key, ())

    async def repeat(self) -> None:
        """Repeat the probes, for ever."""
        try:
            await asyncio.gather(self._due.run(), self._background.run())
        finally:
            for task in self._running.values():
                task.cancel()

    def _matching(self, member: Member, cache_key: Hashable) -> _Known | None:
        known = self._known.get(member)
        return known if known is not None and known.cached.cache_key == cache_key else None

    def _know(self, member: Member, known: _Known) -> None:
        self._known[member] = known

    def _forget(self, member: Member) -> None:
        members = self._members[member[0]]
        members.discard(member[1])
        if not members:
            del self._members[member[0]]
        self._known.pop(member, None)
        self._unschedule(member)
        if task := self._running.pop(member, None):
            task.cancel()

    def _begin(self, member: Member, action: ExternalAction) -> None:
        if member not in self._running:
            self._before_action()
            self._start(member, self._act(member, action))

    def _start(self, member: Member, work: Coroutine[Any, Any, None], *, requeues: bool = True) -> None:
        """One at a time for each member: two would undo each other's work."""
        if member in self._running:
            work.close()
            return
        self._due.remove(member)
        self._members.setdefault(member[0], set()).add(member[1])
        self._running[member] = asyncio.create_task(self._finish(member, work, requeues=requeues))

    async def _wait(self, wanted: Mapping[Member, Hashable]) -> None:
        """Wait for answers to these cache keys. An answer to another one, which was under way, requeues."""
        tasks = {self._running[member] for member in wanted if member in self._running}
        if not tasks:
            return
        before = {member: self._known.get(member) for member in wanted}
        self._waiting.update(wanted)
        try:
            await asyncio.wait(tasks, timeout=WAIT_SECONDS)
        finally:
            self._waiting.difference_update(wanted)
        for member, cache_key in wanted.items():
            known = self._known.get(member)
            if known is not None and known is not before[member] and known.cached.cache_key != cache_key:
                self._requeue(member[0])

    async def _finish(self, member: Member, work: Coroutine[Any, Any, None], *, requeues: bool) -> None:
        try:
            await work
        except Exception:
            log.exception(
                f"unhandled exception: a request to {member[1]} failed", extra={"key": str(member[0])}
            )
        finally:
            if self._running.get(member) is asyncio.current_task():
                del self._running[member]
                self._schedule(member)
                if requeues and member not in self._waiting:
                    self._requeue(member[0])

    async def _act(self, member: Member, action: ExternalAction) -> None:
        began = asyncio.get_running_loop().time()
        result = await self._run(action.request)
        self._on_action(member[0], action, result)
        # A probe's request is kept without secrets; what this action's was is not kept at all.
        self._probes.pop(member, None)
        self._learn(member, action.cache_key, result, began=began)

    async def _ask(self, member: Member, probe: Probe) -> None:
        began = asyncio.get_running_loop().time()
        result = await self._send(probe.request)
        if result is not None:
            self._learn(member, probe.cache_key, result, began=began)

    async def _ask_apart(self, member: Member, probe: Probe) -> None:
        """Only an answer that differs from the one before, to whichever turn, is worth a reconciliation."""
        before = self._known.get(member)
        await self._ask(member, probe)
        known = self._known.get(member)
        if known is not before and (
            before is None or known is None or _says(before.cached.result) != _says(known.cached.result)
        ):
            self._requeue(member[0])

    def _learn(self, member: Member, cache_key: Hashable, result: ExternalResult, *, began: float) -> None:
        cached = CachedResult(cache_key=cache_key, result=result, at=self._clock())
        self._know(member, _Known(cached=cached, fresh=True, slow=_was_slow(began)))

    def _schedule(self, member: Member) -> None:
        if member in self._probes and member not in self._running:
            (self._background if self._probes[member].background else self._due).add(member)

    def _unschedule(self, member: Member) -> None:
        self._probes.pop(member, None)
        self._due.remove(member)
        self._background.remove(member)

    async def _ask_again(self, member: Member) -> None:
        probe = self._probes.get(member)
        if probe is None or member in self._running:
            return
        known = self._matching(member, probe.cache_key)
        began = asyncio.get_running_loop().time()
        result = await self._send(probe.request)
        if self._probes.get(member) != probe or member in self._running:
            return  # Meanwhile something else is asked or done, or nothing any more.
        self._schedule(member)
        if result is None:
            return
        if known is not None and result.ok:
            result = replace(result, facts={**known.cached.result.facts, **result.facts})
        cached = CachedResult(cache_key=probe.cache_key, result=result, at=self._clock())
        same = known is not None and _says(known.cached.result) == _says(result)
        fresh = not same or (known is not None and known.fresh)
        self._know(member, _Known(cached=cached, fresh=fresh, repeated=True, slow=_was_slow(began)))
        if not same:
            self._requeue(member[0])


def _was_slow(began: float) -> bool:
    """Then the next answer is not waited for: it requeues the key, and a worker is free meanwhile."""
    return asyncio.get_running_loop().time() - began > WAIT_SECONDS


def _says(result: ExternalResult) -> tuple[bool, str, dict[str, Any]]:
    """What makes an answer another one: not its message alone, which may have the time in it."""
    return result.ok, result.reason, dict(result.facts)
