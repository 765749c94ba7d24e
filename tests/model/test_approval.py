"""What waits for an approval, what is done meanwhile, and that what was approved is what is done."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql.approval import APPROVED, AWAITED
from kindling.kinds.postgresql.objects import Objects
from kindling.kube.resources import POD, STATEFUL_SET, Object, Ref

from tests.model.test_operator_upgrades import NEW, OLD, pending, ready, runs, uid, upgrade, world
from tests.model.test_postgresql_objects import Server
from tests.model.world import KINDS, World, resource

FIRST = KINDS[0]
CR, WORKLOAD, THE_POD = Ref(FIRST.type, "ns", "a"), Ref(STATEFUL_SET, "ns", "a"), Ref(POD, "ns", "a-0")
RELOAD, RESTART = {"above": "Reload"}, {"above": "Restart"}
BEFORE = "512Mi"
"""The default."""
MORE: Object = {"limits": {"memory": "1Gi"}}
OPEN = {"schedule": "* * * * *", "duration": "1h"}
CLOSED = {"schedule": "0 0 30 6 *", "duration": "1h"}


def edit(made: World, **spec: object) -> None:
    made.api.edit(CR, {"spec": spec})
    made.settle()


def approvals(made: World) -> list[Object]:
    found: list[Object] = made.status(FIRST, "a").get("approvals", [])
    return found


def approve(made: World, *names: str) -> None:
    made.api.edit(CR, {"metadata": {"annotations": {APPROVED: ",".join(names)}}})
    made.settle()


def said(made: World, type: str) -> tuple[str, str]:
    item = find_condition(made.status(FIRST, "a"), type)
    return item["status"], item["reason"]


def memory(made: World) -> Any:
    return made.api.objects[THE_POD]["spec"]["containers"][0]["resources"].get("limits", {}).get("memory")


def test_an_edit_that_restarts_waits_for_its_name_and_is_then_done() -> None:
    made = world("a", approval=RELOAD)
    before = uid(made, "a")
    edit(made, resources=MORE)
    (act,) = approvals(made)
    assert act["disruption"] == "Restart"
    assert said(made, "Ready") == ("False", "ApprovalPending")
    assert said(made, "Available")[0] == "True"
    assert said(made, "Progressing") == ("False", "ApprovalPending")
    assert said(made, "RestartPending") == ("True", "ApprovalPending")
    assert f"{APPROVED}={act['name']}`" in find_condition(made.status(FIRST, "a"), "Ready")["message"]
    assert uid(made, "a") == before
    assert made.writes_at_rest() == 0
    approve(made, "0123456789")
    assert uid(made, "a") == before
    approve(made, "0123456789", act["name"])
    assert uid(made, "a") != before
    assert memory(made) == "1Gi"
    assert (approvals(made), said(made, "Ready")[0]) == ([], "True")
    assert AWAITED not in made.api.objects[WORKLOAD]["metadata"]["annotations"]
    assert made.writes_at_rest() == 0


def test_what_was_approved_once_is_not_approved_for_ever() -> None:
    made = world("a", approval=RELOAD)
    edit(made, resources=MORE)
    approve(made, approvals(made)[0]["name"])
    edit(made, resources=None)
    approve(made, approvals(made)[0]["name"])
    before = uid(made, "a")
    edit(made, resources=MORE)
    assert (len(approvals(made)), uid(made, "a")) == (1, before)


def test_another_edit_is_another_act() -> None:
    made = world("a", approval=RELOAD)
    edit(made, resources=MORE)
    first = approvals(made)[0]["name"]
    before = uid(made, "a")
    edit(made, resources={"limits": {"memory": "2Gi"}})
    assert approvals(made)[0]["name"] != first
    approve(made, first)
    assert uid(made, "a") == before


def test_an_edit_that_is_taken_back_leaves_nothing() -> None:
    made = world("a", approval=RELOAD)
    before, template = uid(made, "a"), made.api.objects[WORKLOAD]["spec"]["template"]
    edit(made, resources=MORE)
    assert approvals(made)
    edit(made, resources=None)
    assert (approvals(made), uid(made, "a"), said(made, "Ready")[0]) == ([], before, "True")
    assert made.api.objects[WORKLOAD]["spec"]["template"] == template
    assert made.writes_at_rest() == 0


def test_what_does_not_restart_is_done_meanwhile_and_drift_is_repaired() -> None:
    made = world("a", approval=RELOAD)
    edit(made, resources=MORE)
    edit(made, deletionPolicy="Delete")
    assert made.status(FIRST, "a")["observedGeneration"] == 3
    made.api.edit(WORKLOAD, {"spec": {"replicas": 0}})
    made.settle()
    assert made.api.objects[WORKLOAD]["spec"]["replicas"] == 1
    assert memory(made) == BEFORE
    assert len(approvals(made)) == 1


def test_a_pod_that_is_created_again_meanwhile_is_as_it_was() -> None:
    made = world("a", approval=RELOAD)
    edit(made, resources=MORE)
    made.api.remove(THE_POD)
    made.settle()
    assert (memory(made), len(approvals(made))) == (BEFORE, 1)
    assert said(made, "Available")[0] == "True"
    made.restart()
    made.settle()
    assert (memory(made), len(approvals(made))) == (BEFORE, 1)
    approve(made, approvals(made)[0]["name"])
    assert memory(made) == "1Gi"


def test_an_open_window_approves_and_a_closed_one_says_when_it_opens() -> None:
    made = world("a", approval=RELOAD, maintenanceWindow=CLOSED)
    edit(made, resources=MORE)
    assert memory(made) == BEFORE
    message = find_condition(made.status(FIRST, "a"), "Ready")["message"]
    assert "the maintenance window has it restarted" in message
    edit(made, maintenanceWindow=OPEN)
    assert (memory(made), approvals(made)) == ("1Gi", [])


def test_no_window_approves_a_loss_of_data() -> None:
    made = world("a", approval=RELOAD, maintenanceWindow=OPEN, storage={"ephemeral": True})
    before = uid(made, "a")
    edit(made, resources=MORE)
    assert (len(approvals(made)), uid(made, "a")) == (1, before)
    assert "window" not in find_condition(made.status(FIRST, "a"), "Ready")["message"]


def test_without_the_field_and_below_it_nothing_waits() -> None:
    for approval in (None, RESTART):
        made = world("a", approval=approval) if approval else world("a")
        edit(made, resources=MORE)
        assert (memory(made), approvals(made)) == ("1Gi", [])


def test_a_restart_that_loses_data_waits_above_restart_too() -> None:
    made = world("a", approval=RESTART, storage={"ephemeral": True})
    before = uid(made, "a")
    edit(made, resources=MORE)
    (act,) = approvals(made)
    assert (act["disruption"], uid(made, "a")) == ("DataLost", before)
    approve(made, act["name"])
    assert uid(made, "a") != before


def test_a_server_that_does_not_serve_waits_for_nobody() -> None:
    """An image that cannot be pulled is corrected without an approval."""
    made = world("a", approval=RELOAD)
    unready = {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]}
    made.api.set_status(THE_POD, unready)
    made.deliver()
    made.work()
    made.api.edit(CR, {"spec": {"image": "own:9"}})
    made.deliver()
    made.work()
    assert made.api.objects[WORKLOAD]["spec"]["updateStrategy"]["rollingUpdate"] == {"partition": 0}


def test_a_later_operators_image_waits_and_holds_up_no_other() -> None:
    made = world("a", "b")
    edit(made, approval=RELOAD)
    before = uid(made, "a")
    upgrade(made)
    made.settle()
    assert (runs(made, "a"), runs(made, "b"), uid(made, "a")) == (OLD, NEW, before)
    (act,) = approvals(made)
    assert ready(made, "a"), "the spec is as it is to be"
    assert pending(made, "a")[0] == "ApprovalPending"
    assert made.writes_at_rest() == 0
    approve(made, act["name"])
    assert (runs(made, "a"), approvals(made)) == (NEW, [])


def test_a_parameter_that_needs_a_restart_waits_too() -> None:
    made = World()
    waiting = ExternalResult(
        ok=False,
        reason="RestartPending",
        message="max_connections waits for a restart",
        facts={"login": True, "pending_restart": ["max_connections"]},
    )
    made.api.put(FIRST.type, resource(FIRST, "a", approval=RELOAD))
    made.settle()
    before = uid(made, "a")

    restarts = list[str]()

    def answer(request: Any) -> ExternalResult:
        if getattr(request, "restart", False):
            restarts.append(request.pod)
        return ExternalResult(ok=True) if restarts else waiting

    made.answer = answer
    edit(made, parameters={"max_connections": "50"})
    made.repeat_probes()
    made.settle()
    (act,) = approvals(made)
    assert said(made, "Ready") == ("False", "ApprovalPending")
    assert made.status(FIRST, "a")["pendingRestart"] == ["max_connections"]
    assert (act["disruption"], act["message"]) == (
        "Restart",
        "Parameters wait for approval: one restart of the server within its Pod, in about a second.",
    )
    assert made.writes_at_rest() == 0
    made.restart()  # what it had in memory is gone, and the name is the same
    made.settle()
    assert approvals(made) == [act]
    assert restarts == []
    approve(made, act["name"])
    assert (restarts, uid(made, "a")) == (["a-0"], before)
    assert said(made, "Ready")[0] == "True"
    assert AWAITED not in made.api.objects[WORKLOAD]["metadata"]["annotations"]
    assert made.writes_at_rest() == 0


def test_a_restart_within_the_pod_is_approved_by_an_open_window() -> None:
    made, restarts = World(), list[str]()
    made.api.put(FIRST.type, resource(FIRST, "a", approval=RELOAD, maintenanceWindow=CLOSED))
    made.settle()
    facts = {"login": True, "pending_restart": ["max_connections"]}

    def answer(request: Any) -> ExternalResult:
        if getattr(request, "restart", False):
            restarts.append(request.pod)
        if restarts:
            return ExternalResult(ok=True)
        return ExternalResult(ok=False, reason="RestartPending", message="it follows", facts=facts)

    made.answer = answer
    edit(made, parameters={"max_connections": "50"})
    assert restarts == []
    edit(made, maintenanceWindow=OPEN)
    assert restarts == ["a-0"]


def test_while_other_rules_are_unread_no_restart_is_said_to_follow() -> None:
    """A line of the same edit takes the kubelet two minutes, and the restart waits all the while."""
    made = World()
    made.api.put(FIRST.type, resource(FIRST, "a", approval=RELOAD))
    made.settle()
    facts = {"login": True, "pending_restart": ["max_connections"], "rules": False}
    made.answer = lambda request: ExternalResult(
        ok=False, reason="RestartPending", message="it follows by itself", facts=facts
    )
    edit(made, parameters={"max_connections": "50"})
    made.repeat_probes()
    made.settle()
    assert len(approvals(made)) == 1
    assert said(made, "Ready") == ("False", "ApprovalPending")


@pytest.mark.parametrize("above", ["Reload", "Restart"])
def test_a_database_is_dropped_once_that_is_approved(above: str) -> None:
    made, server = World(), Server()
    made.answer = server.answer
    shop: Object = {"name": "shop", "owner": "owner", "reclaimPolicy": "Delete"}
    made.api.put(
        FIRST.type,
        resource(FIRST, "a", approval={"above": above}, roles=[{"name": "owner"}], databases=[shop]),
    )
    made.settle()
    edit(made, databases=None)
    (act,) = approvals(made)
    assert (act["disruption"], "shop" in act["message"]) == ("DataLost", True)
    (item,) = made.status(FIRST, "a")["databases"]
    assert (item["name"], item["ready"], item["reason"]) == ("shop", False, "ApprovalPending")
    assert dropped(server) == set()
    edit(made, progressDeadlineSeconds=60)  # and it stays so
    (act,) = approvals(made)
    made.restart()
    made.settle()
    assert dropped(server) == set()
    approve(made, act["name"])
    assert dropped(server) == {"shop"}
    assert "databases" not in made.status(FIRST, "a")
    assert (approvals(made), said(made, "Ready")[0]) == ([], "True")


def dropped(server: Server) -> set[str]:
    asked: list[Objects] = server.requests
    return {name for request in asked for name in request.drop_databases}


def test_a_plan_says_that_it_waits() -> None:
    made = world("a", approval=RELOAD)
    edit(made, mode="Plan", resources=MORE)
    (item,) = [each for each in made.status(FIRST, "a")["plan"]["items"] if "StatefulSet" in each["object"]]
    assert (item["disruption"], item["fields"]) == ("Restart", ["spec.resources"])
    assert item["message"].endswith(", once it is approved")


@pytest.mark.parametrize("rule", [None, RESTART])
def test_a_plan_without_the_approval_says_that_this_lets_the_edit_through(rule: Object | None) -> None:
    made = world("a", approval=RELOAD)
    edit(made, resources=MORE)
    edit(made, mode="Plan", approval=rule)
    (item,) = [each for each in made.status(FIRST, "a")["plan"]["items"] if "StatefulSet" in each["object"]]
    assert (item["disruption"], item["fields"]) == ("Restart", ["spec.approval"])
