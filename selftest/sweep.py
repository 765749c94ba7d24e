"""The sweep: each resource undisturbed, then once more for each kill at one of its writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kindling.kinds.conditions import find_condition

from selftest.manifests import Resource
from selftest.results import Finding, Result, Secrets
from selftest.scenarios import scenarios
from tests.convergence.crashes import Point, crash, points
from tests.convergence.harness import STILL_SECONDS, Harness, ScenarioRun
from tests.convergence.progress import few_of, in_chunks
from tests.convergence.recorder import Snapshot
from tests.convergence.scenario import Scenario

AT_ONCE = 8
"""The weight of the runs that are prepared at once: each database has a server of its own."""
TRIES = 3
LONGEST = 2000
"""Characters of what the harness says, the operator's log included."""
END_SECONDS = 300.0
DIFFERENT_SECONDS = 75.0
"""A run is different once nothing has changed in it for so long: what the operator asks of servers in the
background, it asks once a minute.
"""


@dataclass(frozen=True)
class Todo:
    resource: Resource
    scenarios: Sequence[Scenario]
    result: Result


def learn(
    harness: Harness, resources: Sequence[tuple[Resource, Resource | None]], secrets: Secrets
) -> list[Todo]:
    """Let each scenario go undisturbed; a resource for which that fails has a finding, and nothing to do."""
    todo = [
        Todo(one, tuple(scenarios(one, to)), Result(name=str(one), file=one.document.where))
        for one, to in resources
    ]
    try:
        harness.learn([scenario for each in todo for scenario in each.scenarios])
    except AssertionError:
        for each in todo:
            _learn_alone(harness, each, secrets)
    for each in todo:
        if not each.result.findings:
            each.result.settled = _settled(harness, each)
    return todo


def _learn_alone(harness: Harness, each: Todo, secrets: Secrets) -> None:
    """Each by itself, to know which of them it is."""
    for scenario in each.scenarios:
        began = time.monotonic()
        try:
            harness.learn([scenario])
        except AssertionError as error:
            why = secrets.redact(str(error))[:LONGEST]
            problem = f"undisturbed, it comes to no end that is the same twice: {why}"
            each.result.findings.append(Finding(scenario=scenario.name, problem=problem))
        each.result.seconds += time.monotonic() - began


def _settled(harness: Harness, each: Todo) -> str:
    """The condition Ready in the end of the creation."""
    end = harness.references[each.scenarios[0].name].end
    found = end.objects.get(f"{each.resource.kind.type.plural} {each.resource.document.name}") or {}
    ready = find_condition(found.get("status") or {}, "Ready")
    if not ready:
        return "no condition Ready"
    return "Ready" if ready.get("status") == "True" else f"not Ready: {ready.get('reason')}"


def kill_points(harness: Harness, each: Todo, *, writes: int | None) -> list[Point]:
    """Two for each write, before and after; of few `writes`, spread over all."""
    known = [scenario for scenario in each.scenarios if scenario.name in harness.references]
    found = [point for point in points(harness, known) if point.write]
    pairs = [(found[at], found[at + 1]) for at in range(0, len(found), 2)]
    if writes is not None and writes < len(pairs):
        pairs = few_of(pairs, writes)[:writes]
    return [point for pair in pairs for point in pair]


def sweep(
    harness: Harness, each: Todo, todo: Sequence[Point], secrets: Secrets, say: Callable[[Result], None]
) -> None:
    """Each point until it is met, but no oftener than that."""
    began, result = time.monotonic(), each.result
    before = result.seconds
    result.writes = len(todo) // 2
    missed = list(todo)
    for _ in range(TRIES):
        left, missed = missed, []
        for chunk in in_chunks(left, AT_ONCE, weight=lambda point: point.scenario.weight):
            missed += _chunk(harness, result, chunk, secrets, lambda: say(result))
            result.seconds = before + time.monotonic() - began
    result.missed = len(missed)


def _chunk(
    harness: Harness, result: Result, chunk: Sequence[Point], secrets: Secrets, step: Callable[[], None]
) -> list[Point]:
    """Return those that were not met: their write did not come."""
    runs = {point: harness.open(point.scenario) for point in chunk}
    missed = []
    try:
        for point, run in runs.items():
            _wait(harness, run, harness.references[point.scenario.name].before)
        for point, run in runs.items():
            if not crash(harness, run, point):
                missed.append(point)
            elif point.committed:
                result.kills_after += 1
            else:
                result.kills_before += 1
            _wait(harness, run, harness.references[point.scenario.name].end)
            step()
        harness.check_alive()
        steady = harness.wait_quiet(list(runs.values()))
        for point, run in runs.items():
            _wait(harness, run, harness.references[point.scenario.name].end)
            if finding := _finding(harness, point, run, secrets, steady=steady):
                result.findings.append(finding)
    except AssertionError as error:
        problem = secrets.redact(str(error))[:LONGEST]
        result.findings.append(Finding(scenario=chunk[0].scenario.name, problem=problem))
        # Not `restart`, which asserts that it runs: it may have ended by itself.
        harness.stop()
        harness.start()
    finally:
        harness.close(list(runs.values()))
    return missed


def _wait(harness: Harness, run: ScenarioRun, wanted: Snapshot) -> None:
    """Until it is so, or nothing changes any more, or for long enough."""
    began = time.monotonic()
    while harness.recorder.end(run.namespace).differs(wanted):
        waited = time.monotonic() - began
        if waited > END_SECONDS or min(waited, harness.recorder.still_for(run.namespace)) > DIFFERENT_SECONDS:
            return
        time.sleep(0.1)


def _finding(
    harness: Harness, point: Point, run: ScenarioRun, secrets: Secrets, *, steady: bool
) -> Finding | None:
    reference = harness.references[point.scenario.name]
    differences = harness.recorder.end(run.namespace).differences(reference.end)
    if not differences and steady:
        return None
    return Finding(
        scenario=point.scenario.name,
        write=f"{point.write} ({reference.writes[point.write - 1]})",
        killed="after" if point.committed else "before",
        differences=[secrets.described(difference) for difference in differences],
        problem="" if differences else f"it writes on, and was not still for {STILL_SECONDS:g} s",
    )
