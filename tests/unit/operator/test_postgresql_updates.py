"""What of a spec is a user's word about the Pod, and what the status says of an update that waits."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, given
from kindling.kinds.conditions import find
from kindling.kinds.contract import After, Answer, Done, Findings, Report, Turn
from kindling.kinds.postgresql import Postgresql, spec, updates, workload
from kindling.kube.resources import POD, STATEFUL_SET, Object, Ref

from tests.unit.operator.postgresqls import KIND, SPECS, observed, postgresql, running
from tests.unit.schema.drawing import drawn_from
from tests.unit.schema.worlds import schema_of

WORKLOAD, THE_POD = Ref(STATEFUL_SET, "ns", "db"), Ref(POD, "ns", "db-0")
GOOD = Findings(settled=True, answer=Answer(ok=True))
SUNDAYS = {"schedule": "0 3 * * 0", "duration": "2h"}
ANY = SPECS | drawn_from(schema_of(KIND, "spec"))


def template(given: Object) -> Object:
    cr = postgresql(**given)
    return workload.template(KIND.type, cr, spec.read(cr, default_image="own:1"), mark="same")


@given(ANY, ANY)
def test_the_users_word_is_what_changes_the_pod_and_nothing_else(one: Object, other: Object) -> None:
    said = updates.asked(postgresql(**one), mark="same"), updates.asked(postgresql(**other), mark="same")
    if template(one) != template(other):
        assert said[0] != said[1], "what enters the Pod is to be added to updates.asked"


@given(ANY, ANY)
def test_what_is_not_in_the_pod_is_no_word_about_it(one: Object, other: Object) -> None:
    about = ("image", "imagePullSecrets", "resources", "shutdownSeconds", "storage")
    mixed = {**one, **{name: other[name] for name in other if name not in about}}
    assume(template(one) == template(mixed))
    assert updates.asked(postgresql(**one), mark="m") == updates.asked(postgresql(**mixed), mark="m")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "Auto"),
        ({"storage": {"ephemeral": True}}, "OnRestart"),
        ({"storage": {"ephemeral": True}, "updates": "Auto"}, "Auto"),
        ({"updates": "Manual"}, "Manual"),
    ],
)
def test_policy(given: Object, expected: str) -> None:
    assert updates.policy(postgresql(**given)) == expected


def held(*, comes: str = "own:2", **changes: Any) -> dict[Ref, Object]:
    """A server that runs own:1 and is held back."""
    known = running(revision="r0", **changes)
    known[WORKLOAD] |= {
        "spec": {
            "updateStrategy": {"type": "OnDelete"},
            "template": {"spec": {"containers": [{"name": "postgres", "image": comes}]}},
        },
    }
    known[WORKLOAD]["metadata"]["annotations"] = {updates.IMAGE: "own:1"}
    return known


def report(known: dict[Ref, Object], *, turn: Turn | None = None, **given: Any) -> Report:
    return KIND.status(postgresql(**given), replace(observed(known), turn=turn or Turn()), GOOD)


@pytest.mark.parametrize(
    ("given", "turn", "reason", "said"),
    [
        ({}, Turn(place=3, length=20), "InLine", "3 of 20"),
        ({}, Turn(), "InLine", "place not known yet"),
        ({}, Turn(place=3, length=20, halted=True), "LineHalted", "ten minutes"),
        ({"updates": "OnRestart"}, Turn(), "NextRestart", "Pod db-0 is next made anew"),
        ({"storage": {"ephemeral": True}}, Turn(), "NextRestart", "made anew"),
        ({"updates": "Manual"}, Turn(), "Manual", "your word"),
        ({"maintenanceWindow": SUNDAYS}, Turn(), "AwaitingWindow", "2026-01-04 03:00+00:00"),
    ],
)
def test_condition_says_what_waits_for_what(given: Object, turn: Turn, reason: str, said: str) -> None:
    made = report(held(), turn=turn, **given)
    item = find(made.status, "RestartPending")
    assert (item["status"], item["reason"]) == ("True", reason)
    assert said in item["message"]
    assert "runs own:1; the operator has own:2" in item["message"]
    assert "kubectl rollout restart statefulset db" in item["message"]
    assert made.status["image"] == "own:1"
    assert find(made.status, "Ready")["status"] == "True"  # nothing is wrong
    until = datetime(2026, 1, 4, 3, tzinfo=UTC) - observed().now
    assert made.outcome == (After(until.total_seconds()) if reason == "AwaitingWindow" else Done())


def test_other_template_alone_waits_for_the_next_restart() -> None:
    item = find(report(held(comes="own:1")).status, "RestartPending")
    assert (item["reason"], "newer Pod" in item["message"]) == ("NextRestart", True)


def test_image_in_force() -> None:
    known = held()
    known[THE_POD]["metadata"]["labels"]["controller-revision-hash"] = "r1"
    made = report(known)
    assert (made.status["image"], find(made.status, "RestartPending")) == ("own:2", {})
    known[WORKLOAD]["metadata"]["generation"] = 2  # its controller has not seen that yet
    assert report(known).status["image"] == "own:1"
    down = held(ready=False)
    kept = KIND.status(postgresql(status={"image": "own:0"}), observed(down), Findings(settled=True))
    assert kept.status["image"] == "own:0"


def test_longest_image_can_be_written() -> None:
    known = running()
    known[WORKLOAD]["spec"] = {
        "template": {"spec": {"containers": [{"name": "postgres", "image": "i" * 600}]}}
    }
    assert len(report(known).status["image"]) == 512


@pytest.mark.parametrize("window", [{"schedule": "0 3 * * 8", "duration": "2h"}, {"schedule": "0 3 * * 0"}])
def test_bad_window_is_refused(window: Object) -> None:
    cr = postgresql(maintenanceWindow=window)
    problem = KIND.refuse(cr, observed())
    assert problem is not None
    assert (problem.reason, "spec.maintenanceWindow." in problem.message) == ("InvalidSpec", True)
    assert KIND.wants_turn(cr, observed(held())) is False


def test_turns_are_taken_by_auto_alone() -> None:
    other = Postgresql(group="database.db.example.com", image="own:2")
    assert other.wants_turn(postgresql(), observed(held())) is True
    unnoted = held()
    unnoted[WORKLOAD] = {**held(comes="own:1")[WORKLOAD], "metadata": {"generation": 1}}
    assert other.wants_turn(postgresql(), observed(unnoted)) is True
    assert other.wants_turn(postgresql(updates="OnRestart"), observed(held())) is None
    assert other.wants_turn(postgresql(maintenanceWindow=SUNDAYS), observed(held())) is False
    assert other.wants_turn(postgresql(), observed()) is False
