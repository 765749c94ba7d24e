"""Members outside of the API server: one request at a time, nobody waits long, and probes are repeated."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from kindling.engine import external as module
from kindling.engine.external import ExternalState
from kindling.engine.leader_election import LeaseLost
from kindling.engine.store import Key
from kindling.kinds.base import CachedResult, ExternalAction, ExternalResult, Probe

KEY = Key("toy.example.com", "ns", "x")
GOOD = ExternalResult(ok=True, facts={"version": "17.5"})
BAD = ExternalResult(ok=False, reason="LoginFailed", message="m")
HUNG = ExternalResult(ok=False, reason="NotResponding", message="m")


@dataclass(frozen=True)
class Question:
    """A request; without `secret` it is the one that is repeated."""

    cache_key: str = "one"
    secret: str | None = "s3cret"
    namespace: str = "ns"
    host: str = "h"
    port: int = 1
    pod: str = ""


def action(cache_key: str = "one", member: str = "server") -> ExternalAction:
    return ExternalAction(name="provision", member=member, cache_key=cache_key, request=Question(cache_key))


def probe(cache_key: str = "one") -> Probe:
    return Probe(cache_key=cache_key, request=Question(cache_key, secret=None))


@dataclass
class Workload:
    """Gives its `answer` to an action and its `looks` to probes; a None of `looks`: no prober is there."""

    answer: ExternalResult | asyncio.Future[ExternalResult]
    looks: list[ExternalResult | None] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    checked: list[Any] = field(default_factory=list)
    named: list[Key] = field(default_factory=list)
    outcomes: list[tuple[str, bool]] = field(default_factory=list)
    lost: bool = False

    def __post_init__(self) -> None:
        self.state = ExternalState(
            send=self._send,
            run=self._run,
            requeue=self.named.append,
            before_action=self._fence,
            on_action=lambda key, action, result: self.outcomes.append((action.name, result.ok)),
        )

    async def act(self, action: ExternalAction, key: Key = KEY) -> ExternalResult | None:
        """As a reconciliation: the probe belongs to a member that is as it should be."""
        result = await self.state.run(key, action)
        self.state.keep(key, {action.member})
        await self.state.probe(
            key, {action.member: probe(str(action.cache_key))} if result and result.ok else {}
        )
        return result

    async def again(self, cache_key: str = "one", key: Key = KEY) -> ExternalResult | None:
        """A reconciliation that acts only if the last answer to this is not good."""
        answer = self.state.results(key).get("server")
        if answer is not None and answer.cache_key == cache_key and answer.result.ok:
            await self.state.probe(key, {"server": probe(cache_key)})
            return answer.result
        return await self.act(action(cache_key), key)

    def _fence(self) -> None:
        if self.lost:
            raise LeaseLost("gone")

    async def _run(self, request: Any) -> ExternalResult:
        self.asked.append(request)
        return await self.answer if isinstance(self.answer, asyncio.Future) else self.answer

    async def _send(self, request: Any) -> ExternalResult | None:
        self.checked.append(request)
        return self.looks.pop(0) if self.looks else GOOD


def scenario(steps: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(steps(), 20))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.02)
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.1)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.005)


def test_a_good_answer_is_believed_and_a_bad_one_asked_for_again() -> None:
    async def steps() -> None:
        workload = Workload(GOOD)
        assert [await workload.again() for _ in range(3)] == [GOOD] * 3
        assert len(workload.asked) == 1
        workload.answer = BAD
        assert [await workload.again("two") for _ in range(3)] == [BAD] * 3
        assert len(workload.asked) == 4
        assert workload.named == []

    scenario(steps)


# A name that is resolved slowly takes as long as a server that hangs.
@pytest.mark.parametrize("answer", [HUNG, BAD])
def test_an_answer_that_takes_its_time_names_the_key_once_it_is_there(answer: ExternalResult) -> None:
    async def steps() -> None:
        workload = Workload(asyncio.get_running_loop().create_future())
        assert [await workload.again() for _ in range(3)] == [None] * 3
        assert (len(workload.asked), workload.named) == (1, [])
        workload.answer.set_result(answer)  # type: ignore[union-attr]
        await until(lambda: workload.named == [KEY])
        assert await workload.again() == answer
        # From now on nobody waits for it at all, and what was said last is said until there is something new.
        workload.answer = asyncio.get_running_loop().create_future()
        began = asyncio.get_running_loop().time()
        assert await workload.again() == answer
        assert asyncio.get_running_loop().time() - began < 0.05
        await until(lambda: len(workload.asked) == 2)

    scenario(steps)


def test_an_answer_to_another_question_is_none() -> None:
    """And there are never two questions at once: one would undo what the other does."""

    async def steps() -> None:
        workload = Workload(asyncio.get_running_loop().create_future())
        assert await workload.again("old password") is None
        assert await workload.again("new password") is None
        assert len(workload.asked) == 1
        workload.answer.set_result(GOOD)  # type: ignore[union-attr]
        await until(lambda: workload.named == [KEY])
        assert await workload.again("new password") == GOOD
        assert [question.cache_key for question in workload.asked] == ["old password", "new password"]

    scenario(steps)


def test_an_answer_to_another_question_while_somebody_waits_requeues_at_once() -> None:
    """A password that changes while a login with the one before is under way."""

    async def steps() -> None:
        workload = Workload(asyncio.get_running_loop().create_future())
        assert await workload.again("old password") is None
        waiting = asyncio.create_task(workload.again("new password"))
        await asyncio.sleep(0.02)
        workload.answer.set_result(GOOD)  # type: ignore[union-attr]
        assert await waiting is None
        assert workload.named == [KEY], "else it would be looked at again after a minute"
        assert await workload.again("new password") == GOOD

    scenario(steps)


def test_a_bug_in_an_action_is_logged_with_the_key(caplog: pytest.LogCaptureFixture) -> None:
    async def steps() -> None:
        async def broken(_: Any) -> ExternalResult:
            raise KeyError("a bug")

        named: list[Key] = []
        state = ExternalState(send=broken, run=broken, requeue=named.append)
        assert await state.run(KEY, action()) is None
        await state.probe(KEY, {"other": probe()})
        assert set(state.results(KEY)) == set()
        assert "a bug" in caplog.text

    scenario(steps)


def test_checks_that_go_well_name_nobody_and_keep_no_more_than_they_need() -> None:
    async def steps() -> None:
        workload = Workload(GOOD, looks=[GOOD, None, GOOD])
        running = asyncio.create_task(workload.state.repeat())
        await workload.again()
        workload.asked.clear()
        await until(lambda: len(workload.checked) >= 5)
        assert workload.named == []
        assert {question.secret for question in workload.checked} == {None}
        gc.collect()
        kept = [thing for thing in gc.get_objects() if isinstance(thing, Question) and thing.secret]
        assert kept == [], "the superuser's password, say, is not kept for the checks"
        running.cancel()

    scenario(steps)


def test_a_check_that_goes_wrong_is_the_next_passs_answer_and_is_asked_about_at_once() -> None:
    async def steps() -> None:
        workload = Workload(GOOD, looks=[GOOD, HUNG])
        running = asyncio.create_task(workload.state.repeat())
        await workload.again()
        await until(lambda: workload.named == [KEY])
        assert len(workload.checked) == 2
        workload.answer = asyncio.get_running_loop().create_future()
        assert await workload.again() == HUNG
        assert await workload.again() == HUNG
        await asyncio.sleep(0.1)
        assert (len(workload.checked), len(workload.asked)) == (2, 2), (
            "what is known to be bad is not checked"
        )
        workload.answer.set_result(GOOD)
        await until(lambda: workload.named == [KEY, KEY])
        assert await workload.again() == GOOD
        await until(lambda: len(workload.checked) == 3)
        running.cancel()

    scenario(steps)


def test_the_reason_of_a_good_probe_is_reported_once_and_withdrawn() -> None:
    full = ExternalResult(ok=True, reason="TooManyConnections", message="m", facts={"login": True})

    async def steps() -> None:
        workload = Workload(GOOD, looks=[full, full, full, GOOD])
        running = asyncio.create_task(workload.state.repeat())
        await workload.again()
        await until(lambda: len(workload.named) == 1)
        result = await workload.again()
        assert result == replace(full, facts={"version": "17.5", "login": True})
        await until(lambda: len(workload.checked) >= 4)
        await until(lambda: len(workload.named) == 2)
        again = await workload.again()
        assert again is not None
        assert (again.reason, again.facts["version"]) == ("", "17.5")
        assert len(workload.asked) == 1
        running.cancel()

    scenario(steps)


def test_what_is_forgotten_is_checked_no_longer() -> None:
    async def steps() -> None:
        workload = Workload(GOOD)
        running = asyncio.create_task(workload.state.repeat())
        await workload.again()
        await until(lambda: bool(workload.checked))
        workload.state.forget(KEY)
        count = len(workload.checked)
        await asyncio.sleep(0.1)
        assert len(workload.checked) <= count + 1
        assert workload.named == []
        running.cancel()

    scenario(steps)


def test_checks_are_bounded_for_the_whole_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_A_SECOND", 50)

    async def steps() -> None:
        workload = Workload(GOOD)
        running = asyncio.create_task(workload.state.repeat())
        keys = [Key("toy.example.com", "ns", str(number)) for number in range(30)]
        for key in keys:
            await workload.again(key.name, key)
        workload.checked.clear()
        await asyncio.sleep(1.3)
        count = len(workload.checked)
        assert 30 <= count <= 66
        assert len({question.cache_key for question in workload.checked}) == 30, "each had its turn"
        running.cancel()

    scenario(steps)


def test_members_are_probed_at_once_and_each_answer_has_its_age() -> None:
    async def steps() -> None:
        workload = Workload(GOOD)
        asked: set[str] = set()
        all_asked = asyncio.Event()

        async def send(request: Question) -> ExternalResult:
            asked.add(request.cache_key)
            if len(asked) == len(members):
                all_asked.set()
            async with asyncio.timeout(5):  # one after the other, the first would wait for ever
                await all_asked.wait()
            return replace(GOOD, facts={"name": request.cache_key})

        workload.state._send = send
        members = [f"m{number}" for number in range(10)]
        await workload.state.probe(KEY, {name: probe(name) for name in members})
        answers = workload.state.results(KEY)
        assert {name: answer.result.facts["name"] for name, answer in answers.items()} == dict(
            zip(members, members, strict=True)
        )
        first = answers["m3"].at
        running = asyncio.create_task(workload.state.repeat())
        await until(lambda: workload.state.results(KEY)["m3"].at > first)
        assert workload.named == [], "the same answer, only younger"
        await workload.state.probe(KEY, {"m3": probe("m3")})
        workload.state.keep(KEY, {"m3"})
        assert set(workload.state.results(KEY)) == {"m3"}
        running.cancel()

    scenario(steps)


def test_a_member_that_is_not_there_is_waited_for_once_and_probed_again() -> None:
    async def steps() -> None:
        workload = Workload(GOOD, looks=[None, BAD, BAD, GOOD])
        running = asyncio.create_task(workload.state.repeat())
        await workload.state.probe(KEY, {"m0": probe()})
        assert workload.state.results(KEY) == {}, "no prober says nothing of the member"
        await until(lambda: workload.named == [KEY])
        known: dict[str, CachedResult] = workload.state.results(KEY)
        assert known["m0"].result == BAD
        await workload.state.probe(KEY, {"m0": probe()})
        await until(lambda: workload.named == [KEY, KEY])
        assert workload.state.results(KEY)["m0"].result.ok
        assert len(workload.checked) == 4
        running.cancel()

    scenario(steps)


def test_who_may_not_be_the_leader_any_more_acts_no_more_but_may_look() -> None:
    async def steps() -> None:
        workload = Workload(GOOD, lost=True)
        with pytest.raises(LeaseLost):
            await workload.state.run(KEY, action())
        await workload.state.probe(KEY, {"server": probe()})
        assert (workload.asked, len(workload.checked)) == ([], 1)

    scenario(steps)


def test_each_outcome_is_counted_once() -> None:
    async def steps() -> None:
        workload = Workload(BAD)
        await workload.again()
        workload.answer = GOOD
        await workload.again()
        await workload.again()
        assert workload.outcomes == [("provision", False), ("provision", True)]

    scenario(steps)


def test_an_action_that_changes_nothing_is_repeated_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is wanted though it has succeeded must not spin."""
    monkeypatch.setattr(module, "EVERY_SECONDS", 0.1)

    async def steps() -> None:
        workload = Workload(GOOD)
        for _ in range(20):
            assert await workload.state.run(KEY, action()) == GOOD
        assert len(workload.asked) == 1
        await until(lambda: bool(workload.named))
        assert await workload.state.run(KEY, action()) == GOOD
        assert len(workload.asked) == 2

    scenario(steps)


def test_figures_of_the_background_are_waited_for_by_nobody_and_apart_from_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BACKGROUND_EVERY_SECONDS", 0.2)
    monkeypatch.setattr(module, "BACKGROUND_MOST_A_SECOND", 100)

    async def steps() -> None:
        workload = Workload(GOOD, looks=[None])
        figures = {name: replace(probe(name), background=True) for name in ("m0", "m1")}
        running = asyncio.create_task(workload.state.repeat())
        for _ in range(2):  # as at both ends of one reconciliation
            await workload.state.probe(KEY, figures)
            assert workload.checked == [], "it waits for none"
        await until(lambda: workload.named == [KEY])
        assert [question.cache_key for question in workload.checked] == ["m1", "m0"], "each once"
        await workload.state.probe(KEY, figures)
        await asyncio.sleep(0.1)
        assert len(workload.checked) == 2, "not as often as the others"
        await until(lambda: len(workload.state.results(KEY)) == 2)
        await workload.state.probe(KEY, {**figures, "m0": replace(probe("another"), background=True)})
        count = len(workload.checked)
        await until(lambda: len(workload.checked) > count)
        assert workload.checked[count].cache_key == "another", "another question is asked at once"
        workload.state.keep(KEY, {"m0"})
        assert set(workload.state.results(KEY)) == {"m0"}
        workload.state.forget(KEY)
        assert (KEY, "m0") not in workload.state._background
        count = len(workload.checked)
        await asyncio.sleep(0.3)
        assert len(workload.checked) <= count + 1
        running.cancel()

    scenario(steps)


def test_what_is_asked_once_in_the_background_is_neither_waited_for_nor_kept_nor_repeated() -> None:
    async def steps() -> None:
        workload = Workload(GOOD)

        def figures(turn: str) -> dict[str, Probe]:
            return {"m0": replace(probe(turn), background=True, once=True)}

        await workload.state.probe(KEY, figures("1"))
        assert workload.state.results(KEY) == {}, "it waits for none"
        await until(lambda: workload.named == [KEY])
        assert workload.state._probes == {}, "the request has a password"
        await workload.state.probe(KEY, figures("1"))
        await asyncio.sleep(0.05)
        assert len(workload.checked) == 1
        await workload.state.probe(KEY, figures("2"))
        await until(lambda: len(workload.checked) == 2)
        await asyncio.sleep(0.05)
        assert workload.state.results(KEY)["m0"].cache_key == "2"
        assert workload.named == [KEY], "the same answer is no reason for a reconciliation"

    scenario(steps)


def test_however_many_are_in_the_background_the_others_are_probed_as_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BACKGROUND_EVERY_SECONDS", 0.001)
    monkeypatch.setattr(module, "BACKGROUND_MOST_A_SECOND", 20)

    async def steps() -> None:
        workload = Workload(GOOD)
        running = asyncio.create_task(workload.state.repeat())
        many = {f"m{number}": replace(probe(f"m{number}"), background=True) for number in range(500)}
        await workload.state.probe(KEY, many)
        other = Key("toy.example.com", "ns", "other")
        await workload.state.probe(other, {"server": probe("server")})
        workload.checked.clear()
        await asyncio.sleep(1.0)
        asked = [question.cache_key for question in workload.checked]
        assert asked.count("server") > 10
        assert 10 <= len(asked) - asked.count("server") <= 21
        running.cancel()

    scenario(steps)


def test_what_is_asked_once_is_neither_kept_nor_repeated_and_asked_again_until_it_is_good() -> None:
    async def steps() -> None:
        workload = Workload(GOOD, looks=[BAD, BAD, GOOD])
        running = asyncio.create_task(workload.state.repeat())
        for count, answer in enumerate((BAD, BAD, GOOD, GOOD), start=1):
            once = {"server": Probe(cache_key="one", request=Question(), once=True)}
            await workload.state.probe(KEY, once)
            assert workload.state.results(KEY)["server"].result == answer
            workload.state.keep(KEY, once)
            await workload.state.probe(KEY, once)  # as at the end of the same reconciliation
            assert len(workload.checked) == min(count, 3)
        del once
        await asyncio.sleep(0.1)
        assert len(workload.checked) == 3
        workload.checked.clear()
        gc.collect()
        assert not [thing for thing in gc.get_objects() if isinstance(thing, Question) and thing.secret]
        running.cancel()

    scenario(steps)
