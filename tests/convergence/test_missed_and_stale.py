"""Whatever is lost, late, refused or old of what passes between it and the API server, it ends the same.

What happens to one story alone (an event lost, a write refused) is tried in many namespaces at once; what
happens to a whole watch befalls all stories at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from tests.apiserver.audit import wait_until
from tests.apiserver.cluster import KINDS_BY_NAME
from tests.convergence.proxy import Fault
from tests.convergence.scenarios import SAMPLE, SCENARIOS, Scenario
from tests.convergence.stage import SECONDS, STILL_SECONDS, Progress, Stage, Telling
from tests.convergence.streams import EVERY, Event

CHUNK = 60
"""How many stories are told at once."""
RESYNC_SECONDS, WATCH_SECONDS = 5, 5
LATE_SECONDS = 1.5
LONG_SECONDS = 20.0
"""Longer than kopf keeps up a watch on which it hears nothing."""
HANGING_SECONDS = 180.0
"""The operator gives up on a request after 30 s, and then all databases are logged in to through one door."""
OLD_SECONDS = 1.5
"""How long only the past is told."""
VIEWS = 30
TYPES = list(
    dict.fromkeys(
        type for kind in KINDS_BY_NAME.values() for type in (kind.type, *kind.children, *kind.watches)
    )
)
# The resync would heal what other things are to heal; where it is what heals, it is asked for.
ENVIRONMENT = {"KINDLING_WATCH_SECONDS": str(WATCH_SECONDS)}
OFTEN = {**ENVIRONMENT, "KINDLING_RESYNC_SECONDS": str(RESYNC_SECONDS)}

FAULTS: Mapping[str, Fault] = {
    "answered 409": Fault(commits=False, answer=409),
    "answered 429": Fault(commits=False, answer=429, retry_after=1),
    "answered 500": Fault(commits=False, answer=500),
    "committed, answered 500": Fault(commits=True, answer=500),
    "cut off before": Fault(commits=False),
    "cut off after": Fault(commits=True),
    "timed out before": Fault(commits=False, hangs=True),
    "timed out after": Fault(commits=True, hangs=True),
}


@dataclass(frozen=True)
class Point:
    """What befalls a story: at its `number`-th event of a resource, or its `number`-th write."""

    scenario: Scenario
    what: str
    number: int
    plural: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.plural or 'write'} {self.number}"

    def arm(self, made: Stage, telling: Telling) -> Callable[[], bool]:
        """Have it befall what is told from now on; returns what says whether it did."""
        namespace, streams = telling.namespace, made.proxy.streams
        if self.what in FAULTS:
            number = made.proxy.written(namespace) + self.number
            made.proxy.at_write(namespace, number, FAULTS[self.what])
            return lambda: made.proxy.fired(namespace, number)
        event = Event(namespace, self.plural, streams.seen[namespace, self.plural] + self.number)
        (streams.drops if self.what == "lost" else streams.cuts).add(event)
        return lambda: event in streams.fired


def events(made: Stage, scenarios: Sequence[Scenario], what: str) -> list[Point]:
    """One point for each event that the undisturbed was told of."""
    return [
        Point(scenario, what, number, plural)
        for scenario in scenarios
        for plural, count in made.learnt[scenario.name].events.items()
        for number in range(1, count + 1)
    ]


def writes(made: Stage, scenarios: Sequence[Scenario], faults: Sequence[str]) -> list[Point]:
    return [
        Point(scenario, what, number)
        for what in faults
        for scenario in scenarios
        for number, write in enumerate(made.learnt[scenario.name].writes, start=1)
        if write.effective
    ]


def sweep(made: Stage, what: str, todo: Sequence[Point], *, env: Mapping[str, str] = ENVIRONMENT) -> None:
    """Many stories at once, each with its own harm."""
    made.restart(env)
    rest_seconds = 1.3 * RESYNC_SECONDS if env is OFTEN else STILL_SECONDS
    hangs = any(point.what in FAULTS and FAULTS[point.what].hangs for point in todo)
    progress = Progress(what, len(todo))
    wrong: list[str] = []
    missed = 0
    for start in range(0, len(todo), CHUNK):
        chunk = {point: made.open(point.scenario) for point in todo[start : start + CHUNK]}
        made.wait_prepared(list(chunk.values()))
        fired = [point.arm(made, telling) for point, telling in chunk.items()]
        for telling in chunk.values():
            made.act(telling)
        told = {telling: str(point) for point, telling in chunk.items()}
        seconds = HANGING_SECONDS if hangs else SECONDS
        wrong += made.verdict(told, seconds=seconds, rest_seconds=rest_seconds)
        missed += sum(not befell() for befell in fired)
        made.close(list(chunk.values()))
        progress.step(len(chunk), wrong, f", {missed} not met")
    assert not wrong, "\n".join(wrong)
    assert missed <= len(todo) / 4, f"{missed} of {len(todo)} were not met: what happens has changed"


def whole(made: Stage, scenarios: Sequence[Scenario], what: Sequence[tuple[str, str]]) -> None:
    """All stories at once, with each of these (harm, path) done to the watches."""
    made.restart(ENVIRONMENT)
    progress = Progress("watches", len(what))
    wrong: list[str] = []
    for harm, path in what:
        unborn = now(made)
        tellings = [made.open(scenario) for scenario in scenarios]
        made.wait_prepared(tellings)
        if harm == "older list, then":
            tell_the_past(made, unborn, path, tellings)
        befall(made, harm, path, tellings)
        wrong += made.verdict(dict.fromkeys(tellings, f"{harm} on {path}"))
        made.close(tellings)
        progress.step(1, wrong)
    assert not wrong, "\n".join(wrong)


def befall(made: Stage, harm: str, path: str, tellings: Sequence[Telling]) -> None:
    """Let all happen under that harm, and end the harm."""
    streams = made.proxy.streams
    before = now(made)
    if harm == "late":
        streams.delay_seconds = LATE_SECONDS
    elif not harm.startswith("older list"):
        streams.silence(path)
    for telling in tellings:
        made.act(telling)
    if harm == "late":
        made.wait_ended(tellings, seconds=LONG_SECONDS)
        streams.delay_seconds = 0.0
    elif harm == "held back":
        time.sleep(LATE_SECONDS)
        streams.speak(path)
    elif harm == "silent":
        time.sleep(LONG_SECONDS)
        streams.speak(path)
    elif harm == "410":
        made.wait_quiet(tellings)
        streams.expire(path)
    elif harm == "older list":
        made.wait_ended(tellings, seconds=LONG_SECONDS)
        tell_the_past(made, before, path, tellings)


def tell_the_past(made: Stage, version: int, path: str, tellings: Sequence[Telling]) -> None:
    """End the watches, and answer the lists that follow as of that version, the resync's too."""
    streams = made.proxy.streams
    streams.version = version
    streams.expire(path)
    streams.silence(path)
    time.sleep(2 * OLD_SECONDS)
    streams.version = None
    streams.speak(path)
    made.wait_quiet(tellings)


def now(made: Stage) -> int:
    return int(made.cluster.api.get("/api/v1/namespaces").accepted()["metadata"]["resourceVersion"])


def look_back(made: Stage, scenarios: Sequence[Scenario], views: int) -> None:
    """Start anew and be told of the past alone for a while, once for each of the views of it."""
    made.restart(ENVIRONMENT)
    tellings = [made.open(scenario) for scenario in scenarios]
    made.wait_prepared(tellings)
    for telling in tellings:
        made.act(telling)
    made.wait_ended(tellings, seconds=LONG_SECONDS)
    every = sorted({v for telling in tellings for v in made.recorder.versions(telling.namespace)})
    todo = every[:: max(1, len(every) // views)]
    progress = Progress("older views", len(todo))
    wrong: list[str] = made.verdict(dict.fromkeys(tellings, "undisturbed"))
    streams = made.proxy.streams
    for version in todo:
        streams.version = version
        streams.silence(EVERY)
        mark = len(made.proxy.asked)
        made.restart(ENVIRONMENT)
        wait_until(lambda mark=mark: _watches(made, mark) >= len(TYPES), seconds=30, what="all watches")  # type: ignore[misc]
        time.sleep(OLD_SECONDS)
        streams.version = None
        streams.speak(EVERY)
        # A server's answer comes when it comes, and no write tells of it before.
        made.wait_ended(tellings, seconds=LONG_SECONDS)
        made.wait_quiet(tellings)
        for telling in tellings:
            if differences := made.ended(telling):
                wrong.append(f"{telling}, begun as of {version} of {every[0]}..{every[-1]}: {differences}")
        progress.step(1, wrong)
    wrong += made.verdict(dict.fromkeys(tellings, "all older views"))
    made.close(tellings)
    assert not wrong, "\n".join(wrong)


def _watches(made: Stage, mark: int) -> int:
    return len({asked.path for asked in made.proxy.asked[mark:] if asked.watches})


def test_a_few_lost_events_and_refused_writes_change_nothing_in_the_end(made: Stage) -> None:
    made.learn(SAMPLE)
    quick = [name for name in FAULTS if not FAULTS[name].hangs]
    lost, cut = events(made, SAMPLE, "lost"), events(made, SAMPLE, "cut")
    refused = writes(made, SAMPLE, quick)
    sweep(made, "lost events", lost[:: len(lost) // 12], env=OFTEN)
    sweep(made, "cuts and refusals", [*cut[:: len(cut) // 6], *refused[:: len(refused) // 12]])


def test_watches_that_fail_at_once_change_nothing_in_the_end(made: Stage) -> None:
    made.learn(SAMPLE)
    whole(made, SAMPLE, [("410", EVERY), ("older list, then", EVERY)])


def test_a_few_older_views_change_nothing_in_the_end(made: Stage) -> None:
    made.learn(SAMPLE)
    look_back(made, SAMPLE, 2)


@pytest.mark.thorough
@pytest.mark.parametrize(("what", "env"), [("lost", OFTEN), ("cut", ENVIRONMENT)])
def test_any_lost_event_changes_nothing_in_the_end(made: Stage, what: str, env: Mapping[str, str]) -> None:
    made.learn(SCENARIOS)
    sweep(made, what, events(made, SCENARIOS, what), env=env)


@pytest.mark.thorough
@pytest.mark.parametrize("what", FAULTS)
def test_any_write_gone_wrong_changes_nothing_in_the_end(made: Stage, what: str) -> None:
    made.learn(SCENARIOS)
    sweep(made, what, writes(made, SCENARIOS, [what]))


@pytest.mark.thorough
def test_any_watch_that_fails_changes_nothing_in_the_end(made: Stage) -> None:
    made.learn(SCENARIOS)
    paths = [EVERY, *(type.path(namespace=None) for type in TYPES)]
    once = [(harm, EVERY) for harm in ("late", "silent", "held back", "older list")]
    harms = ("410", "older list, then")
    whole(made, SCENARIOS, [*once, *((harm, path) for harm in harms for path in paths)])


@pytest.mark.thorough
def test_older_views_change_nothing_in_the_end(made: Stage) -> None:
    made.learn(SCENARIOS)
    look_back(made, SCENARIOS, VIEWS)
