"""What of a spec is a user's word about the Pod, and what the status says of an update that waits."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, given
from kindling.kinds.base import Done, ExternalResult, RequeueAfter, RestartSlot, StatusReport, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql import Postgresql, spec, updates, workload
from kindling.kube.resources import POD, STATEFUL_SET, Object, Ref

from tests.unit.operator.placement import FULL
from tests.unit.operator.postgresqls import KIND, SPECS, observed, postgresql, running
from tests.unit.schema.drawing import drawn_from
from tests.unit.schema.worlds import schema_of

WORKLOAD, THE_POD = Ref(STATEFUL_SET, "ns", "db"), Ref(POD, "ns", "db-0")
GOOD = SyncResult(in_sync=True, results={"server": ExternalResult(ok=True)})
SUNDAYS = {"schedule": "0 3 * * 0", "duration": "2h"}
ANY = SPECS | drawn_from(schema_of(KIND, "spec"))


def template(given: Object) -> Object:
    cr = postgresql(**given)
    return workload.template(
        KIND.type,
        cr,
        spec.read(cr, default_image="own:1"),
        init_image="postgres-init:1",
        exporters_image="exporters:1",
        restart_token="same",
    )


@given(ANY, ANY)
def test_the_users_word_is_what_changes_the_pod_and_nothing_else(one: Object, other: Object) -> None:
    said = (
        updates.spec_hash(postgresql(**one), restart_token="same"),
        updates.spec_hash(postgresql(**other), restart_token="same"),
    )
    if template(one) != template(other):
        assert said[0] != said[1], "what enters the Pod is to be added to updates.asked"


@given(ANY, ANY)
def test_what_is_not_in_the_pod_is_no_word_about_it(one: Object, other: Object) -> None:
    about = ("image", "imagePullSecrets", "podTemplate", "resources", "shutdownSeconds", "storage")
    mixed = {**one, **{name: other[name] for name in other if name not in about}}
    assume(template(one) == template(mixed))
    assert updates.spec_hash(postgresql(**one), restart_token="m") == updates.spec_hash(
        postgresql(**mixed), restart_token="m"
    )


def hash_of(**given: Any) -> str:
    return updates.spec_hash(postgresql(**given), restart_token="same")


@pytest.mark.parametrize(
    ("part", "field"), [(part, field) for part, fields in FULL.items() for field in fields]
)
def test_each_field_of_the_pod_template_is_the_users_word(part: str, field: str) -> None:
    """So its change restarts the server at once, and is not held back as an operator's would be."""
    given = {"podTemplate": {part: {field: FULL[part][field]}}}
    assert template(given) != template({})
    assert hash_of(**given) != hash_of()


@pytest.mark.parametrize(
    "nothing",
    [
        {},
        {"metadata": {}, "spec": {}},
        {"metadata": {"labels": {}, "annotations": {}}},
        {"metadata": {"labels": {"app.kubernetes.io/instance": "other"}}},  # refused by the CRD
        {"spec": {"nodeSelector": {}, "tolerations": [], "topologySpreadConstraints": []}},
        {
            "spec": {
                "affinity": {
                    "nodeAffinity": {},
                    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []},
                }
            }
        },
    ],
    ids=str,
)
def test_a_pod_template_that_says_nothing_restarts_nothing(nothing: Object) -> None:
    assert template({"podTemplate": nothing}) == template({})
    assert hash_of(podTemplate=nothing) == hash_of()


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


def report(
    known: dict[Ref, Object], *, restart_slot: RestartSlot | None = None, **given: Any
) -> StatusReport:
    return KIND.status(
        postgresql(**given), replace(observed(known), restart_slot=restart_slot or RestartSlot()), GOOD
    )


@pytest.mark.parametrize(
    ("given", "restart_slot", "reason", "said"),
    [
        ({}, RestartSlot(place=3, length=20), "Queued", "3 of 20"),
        ({}, RestartSlot(), "Queued", "place not known yet"),
        ({}, RestartSlot(place=3, length=20, halted=True), "RestartsHalted", "ten minutes"),
        ({"updates": "OnRestart"}, RestartSlot(), "NextRestart", "Pod db-0 is next created"),
        ({"storage": {"ephemeral": True}}, RestartSlot(), "NextRestart", "next created"),
        ({"updates": "Manual"}, RestartSlot(), "Manual", "restart yourself"),
        ({"maintenanceWindow": SUNDAYS}, RestartSlot(), "AwaitingWindow", "2026-01-04 03:00+00:00"),
    ],
)
def test_condition_says_what_waits_for_what(
    given: Object, restart_slot: RestartSlot, reason: str, said: str
) -> None:
    made = report(held(), restart_slot=restart_slot, **given)
    item = find_condition(made.status, "RestartPending")
    assert (item["status"], item["reason"]) == ("True", reason)
    assert said in item["message"]
    assert "runs own:1; the operator has own:2" in item["message"]
    assert "kubectl rollout restart statefulset db" in item["message"]
    assert made.status["image"] == "own:1"
    assert find_condition(made.status, "Ready")["status"] == "True"  # nothing is wrong
    until = datetime(2026, 1, 4, 3, tzinfo=UTC) - observed().now
    assert made.result == (RequeueAfter(until.total_seconds()) if reason == "AwaitingWindow" else Done())


def test_other_template_alone_waits_for_the_next_restart() -> None:
    item = find_condition(report(held(comes="own:1")).status, "RestartPending")
    assert (item["reason"], "newer Pod" in item["message"]) == ("NextRestart", True)


def test_image_in_force() -> None:
    known = held()
    known[THE_POD]["metadata"]["labels"]["controller-revision-hash"] = "r1"
    made = report(known)
    assert (made.status["image"], find_condition(made.status, "RestartPending")) == ("own:2", {})
    known[WORKLOAD]["metadata"]["generation"] = 2  # its controller has not seen that yet
    assert report(known).status["image"] == "own:1"
    down = held(ready=False)
    kept = KIND.status(postgresql(status={"image": "own:0"}), observed(down), SyncResult(in_sync=True))
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
    problem = KIND.validate(cr, observed())
    assert problem is not None
    assert (problem.reason, "spec.maintenanceWindow." in problem.message) == ("InvalidSpec", True)
    assert KIND.disruptions(cr, observed(held())) == []


def test_turns_are_taken_by_auto_alone() -> None:
    other = Postgresql(
        group="database.db.example.com",
        image="own:2",
        init_image="postgres-init:1",
        exporters_image="exporters:1",
    )
    assert other.disruptions(postgresql(), observed(held())) == ["server"]
    unnoted = held()
    unnoted[WORKLOAD] = {**held(comes="own:1")[WORKLOAD], "metadata": {"generation": 1}}
    assert other.disruptions(postgresql(), observed(unnoted)) == ["server"]
    assert other.disruptions(postgresql(updates="OnRestart"), observed(held())) is None
    assert other.disruptions(postgresql(maintenanceWindow=SUNDAYS), observed(held())) == []
    assert other.disruptions(postgresql(), observed()) == []
