"""Answers beside the passes: one question at a time, nobody waits, and what was good is checked on."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from kindling.engine import external as module
from kindling.engine.external import ExternalSyncs
from kindling.engine.store import Key
from kindling.kinds.base import ExternalResult

KEY = Key("toy.example.com", "ns", "x")
GOOD = ExternalResult(ok=True, facts={"version": "17.5"})
BAD = ExternalResult(ok=False, reason="LoginFailed", message="m")
HUNG = ExternalResult(ok=False, reason="NotResponding", message="m")


@dataclass(frozen=True)
class Question:
    cache_key: str = "one"
    secret: str | None = "s3cret"

    def health_check(self) -> Question:
        return replace(self, secret=None)


@dataclass
class Workload:
    """Answers as it is told to; a None of `looks` is a prober that is not there."""

    answer: ExternalResult | asyncio.Future[ExternalResult]
    looks: list[ExternalResult | None] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    checked: list[Any] = field(default_factory=list)
    named: list[Key] = field(default_factory=list)

    def answers(self) -> ExternalSyncs:
        return ExternalSyncs(sync=self._ask, check_health=self._look, requeue=self.named.append)

    async def _ask(self, question: Any) -> ExternalResult:
        self.asked.append(question)
        return await self.answer if isinstance(self.answer, asyncio.Future) else self.answer

    async def _look(self, question: Any) -> ExternalResult | None:
        self.checked.append(question)
        return self.looks.pop(0) if self.looks else GOOD


def scenario(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 20))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.02)
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.1)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.005)


def test_a_good_answer_is_believed_and_a_bad_one_asked_for_again() -> None:
    async def story() -> None:
        workload = Workload(GOOD)
        answers = workload.answers()
        assert [await answers.sync(KEY, Question()) for _ in range(3)] == [GOOD] * 3
        assert len(workload.asked) == 1
        workload.answer = BAD
        assert [await answers.sync(KEY, Question("two")) for _ in range(3)] == [BAD] * 3
        assert len(workload.asked) == 4
        assert workload.named == []

    scenario(story)


def test_an_answer_that_takes_its_time_names_the_key_once_it_is_there() -> None:
    async def story() -> None:
        workload = Workload(asyncio.get_running_loop().create_future())
        answers = workload.answers()
        assert [await answers.sync(KEY, Question()) for _ in range(3)] == [None] * 3
        assert (len(workload.asked), workload.named) == (1, [])
        workload.answer.set_result(HUNG)  # type: ignore[union-attr]
        await until(lambda: workload.named == [KEY])
        assert await answers.sync(KEY, Question()) == HUNG
        # From now on nobody waits for it at all, and what was said last is said until there is something new.
        workload.answer = asyncio.get_running_loop().create_future()
        began = asyncio.get_running_loop().time()
        assert await answers.sync(KEY, Question()) == HUNG
        assert asyncio.get_running_loop().time() - began < 0.05
        await until(lambda: len(workload.asked) == 2)

    scenario(story)


def test_an_answer_to_another_question_is_none() -> None:
    """And there are never two questions at once: one would undo what the other does."""

    async def story() -> None:
        workload = Workload(asyncio.get_running_loop().create_future())
        answers = workload.answers()
        assert await answers.sync(KEY, Question("old password")) is None
        assert await answers.sync(KEY, Question("new password")) is None
        assert len(workload.asked) == 1
        workload.answer.set_result(GOOD)  # type: ignore[union-attr]
        await until(lambda: workload.named == [KEY])
        assert await answers.sync(KEY, Question("new password")) == GOOD
        assert [question.cache_key for question in workload.asked] == ["old password", "new password"]

    scenario(story)


def test_a_bug_in_asking_is_told_of_and_the_key_named(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async def broken(_: Any) -> ExternalResult:
            raise KeyError("a bug")

        named: list[Key] = []
        answers = ExternalSyncs(sync=broken, check_health=broken, requeue=named.append)
        assert await answers.sync(KEY, Question()) is None
        assert "a bug" in caplog.text

    scenario(story)


def test_checks_that_go_well_name_nobody_and_keep_no_more_than_they_need() -> None:
    async def story() -> None:
        workload = Workload(GOOD, looks=[GOOD, None, GOOD])
        answers = workload.answers()
        running = asyncio.create_task(answers.run())
        await answers.sync(KEY, Question())
        workload.asked.clear()
        await until(lambda: len(workload.checked) >= 5)
        assert workload.named == []
        assert {question.secret for question in workload.checked} == {None}
        gc.collect()
        kept = [thing for thing in gc.get_objects() if isinstance(thing, Question) and thing.secret]
        assert kept == [], "the superuser's password, say, is not kept for the checks"
        running.cancel()

    scenario(story)


def test_a_check_that_goes_wrong_is_the_next_passs_answer_and_is_asked_about_at_once() -> None:
    async def story() -> None:
        workload = Workload(GOOD, looks=[GOOD, HUNG])
        answers = workload.answers()
        running = asyncio.create_task(answers.run())
        await answers.sync(KEY, Question())
        await until(lambda: workload.named == [KEY])
        assert len(workload.checked) == 2
        workload.answer = asyncio.get_running_loop().create_future()
        assert await answers.sync(KEY, Question()) == HUNG
        assert await answers.sync(KEY, Question()) == HUNG
        await asyncio.sleep(0.1)
        assert (len(workload.checked), len(workload.asked)) == (2, 2), (
            "what is known to be bad is not checked"
        )
        workload.answer.set_result(GOOD)
        await until(lambda: workload.named == [KEY, KEY])
        assert await answers.sync(KEY, Question()) == GOOD
        await until(lambda: len(workload.checked) == 3)
        running.cancel()

    scenario(story)


def test_a_good_check_with_something_to_say_is_told_once_and_taken_back() -> None:
    full = ExternalResult(ok=True, reason="TooManyConnections", message="m", facts={"login": True})

    async def story() -> None:
        workload = Workload(GOOD, looks=[full, full, full, GOOD])
        answers = workload.answers()
        running = asyncio.create_task(answers.run())
        await answers.sync(KEY, Question())
        await until(lambda: len(workload.named) == 1)
        told = await answers.sync(KEY, Question())
        assert told == replace(full, facts={"version": "17.5", "login": True})
        await until(lambda: len(workload.checked) >= 4)
        await until(lambda: len(workload.named) == 2)
        again = await answers.sync(KEY, Question())
        assert again is not None
        assert (again.reason, again.facts["version"]) == ("", "17.5")
        assert len(workload.asked) == 1
        running.cancel()

    scenario(story)


def test_what_is_forgotten_is_checked_no_longer() -> None:
    async def story() -> None:
        workload = Workload(GOOD)
        answers = workload.answers()
        running = asyncio.create_task(answers.run())
        await answers.sync(KEY, Question())
        await until(lambda: bool(workload.checked))
        answers.forget(KEY)
        count = len(workload.checked)
        await asyncio.sleep(0.1)
        assert len(workload.checked) <= count + 1
        assert workload.named == []
        running.cancel()

    scenario(story)


def test_checks_are_bounded_for_the_whole_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_A_SECOND", 50)

    async def story() -> None:
        workload = Workload(GOOD)
        answers = workload.answers()
        running = asyncio.create_task(answers.run())
        keys = [Key("toy.example.com", "ns", str(number)) for number in range(30)]
        for key in keys:
            await answers.sync(key, Question(key.name))
        workload.checked.clear()
        await asyncio.sleep(1.3)
        count = len(workload.checked)
        assert 30 <= count <= 66
        assert len({question.cache_key for question in workload.checked}) == 30, "each had its turn"
        running.cancel()

    scenario(story)
