"""What running workloads answered: asked beside the passes, believed while health checks say nothing else.

No pass waits for a server that takes its time, so that however many hang, the workers are free: the
answer, once it is there, names the key again. A good answer is watched over: the workload is asked in
short, again and again, and where that goes wrong the key's next pass has it for its answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

from kindling.engine.store import Key
from kindling.kinds.contract import Answer, Heard, Inquiry

log = logging.getLogger(__name__)

PATIENCE_SECONDS = 0.5
"""How long a pass waits for an answer: most come at once, and a second pass costs more."""
EVERY_SECONDS = 5.0
"""How often a workload is checked, while there are no more of them than MOST_A_SECOND allows."""
MOST_A_SECOND = 40
"""Checks that are begun in a second; of more than 200 workloads each is checked less often."""

Ask = Callable[[Any], Awaitable[Answer]]
"""Puts a kind's inquiry to the running workload."""
Look = Callable[[Any], Awaitable[Answer | None]]
"""Puts its health check; None where nobody could ask."""


@dataclass(frozen=True, kw_only=True)
class _Known:
    """An answer. `fresh` until a pass has had it; `check` is what to ask from now on, where it was good."""

    memo: Hashable
    answer: Answer
    fresh: bool
    check: Inquiry | None = None
    checked: bool = False


class Answers:
    """`of` for each pass, `run` beside them. `name` has a key reconciled."""

    def __init__(self, *, ask: Ask, look: Look, name: Callable[[Key], None]) -> None:
        self._ask, self._look, self._name = ask, look, name
        self._known: dict[Key, _Known] = {}
        self._asking: dict[Key, asyncio.Task[None]] = {}
        self._waiting: set[Key] = set()
        # key -> when it is to be checked; in this order, since all wait equally long
        self._due: OrderedDict[Key, float] = OrderedDict()
        self._more = asyncio.Event()
        self._looking: set[asyncio.Task[None]] = set()

    async def of(self, key: Key, inquiry: Inquiry) -> Answer | None:
        """The answer; None while it is not there yet: the key is named when it is."""
        known = self._matching(key, inquiry)
        if known is not None and known.answer.ok:
            self._known[key] = replace(known, fresh=False)
            return known.answer
        if known is not None and known.fresh:
            self._known[key] = replace(known, fresh=False)
            if known.checked:  # It was good until now: whether it can be mended is found out at once.
                self._start(key, inquiry)
            return known.answer
        self._start(key, inquiry)
        if known is None or known.answer.reason != "NotResponding":
            await self._wait(key)
        known = self._matching(key, inquiry)
        if known is not None:
            self._known[key] = replace(known, fresh=False)
        return known.answer if known is not None else None

    def heard(self, key: Key) -> Heard | None:
        """The last answer, to whatever question."""
        known = self._known.get(key)
        return Heard(memo=known.memo, answer=known.answer) if known is not None else None

    def forget(self, key: Key) -> None:
        """There is nothing to ask any more."""
        self._known.pop(key, None)
        self._due.pop(key, None)
        if task := self._asking.pop(key, None):
            task.cancel()

    async def run(self) -> None:
        """The health checks, for ever."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                while not self._due:
                    self._more.clear()
                    await self._more.wait()
                key, due = next(iter(self._due.items()))
                await asyncio.sleep(max(due - loop.time(), 1 / MOST_A_SECOND))
                known = self._known.get(key)
                if self._due.get(key) == due and known is not None:
                    del self._due[key]
                    task = asyncio.create_task(self._check(key, known))
                    self._looking.add(task)
                    task.add_done_callback(self._looking.discard)
        finally:
            for task in [*self._looking, *self._asking.values()]:
                task.cancel()

    def _matching(self, key: Key, inquiry: Inquiry) -> _Known | None:
        known = self._known.get(key)
        return known if known is not None and known.memo == inquiry.memo else None

    def _start(self, key: Key, inquiry: Inquiry) -> None:
        """One question at a time to each: two would undo each other's work."""
        if key not in self._asking:
            self._due.pop(key, None)
            self._asking[key] = asyncio.create_task(self._put(key, inquiry))

    async def _wait(self, key: Key) -> None:
        self._waiting.add(key)
        try:
            await asyncio.wait({self._asking[key]}, timeout=PATIENCE_SECONDS)
        finally:
            self._waiting.discard(key)

    async def _put(self, key: Key, inquiry: Inquiry) -> None:
        try:
            answer = await self._ask(inquiry)
            check = inquiry.health_check() if answer.ok else None
            self._known[key] = _Known(memo=inquiry.memo, answer=answer, fresh=True, check=check)
            if check is not None:
                self._watch(key)
        except Exception:
            log.exception("a bug: a question was given up", extra={"key": str(key)})
        finally:
            if self._asking.get(key) is asyncio.current_task():
                del self._asking[key]
                if key not in self._waiting:
                    self._name(key)

    def _watch(self, key: Key) -> None:
        self._due[key] = asyncio.get_running_loop().time() + EVERY_SECONDS
        self._due.move_to_end(key)
        self._more.set()

    async def _check(self, key: Key, known: _Known) -> None:
        answer = await self._look(known.check)
        now = self._known.get(key)
        if now is None or (now.memo, now.answer) != (known.memo, known.answer) or key in self._asking:
            return  # Meanwhile there is another answer, or will be, or nothing to ask any more.
        if answer is None:
            self._watch(key)
            return
        if answer.ok:
            self._watch(key)
            if answer.reason == known.answer.reason:
                return
            answer = replace(answer, facts={**known.answer.facts, **answer.facts})
        check = known.check if answer.ok else None
        self._known[key] = _Known(memo=known.memo, answer=answer, fresh=True, check=check, checked=True)
        self._name(key)
