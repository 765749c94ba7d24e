"""Edits of a Postgresql in a modelled cluster: what each costs, what it touches, and what undoes it."""

from __future__ import annotations

import base64
from datetime import timedelta

import pytest
from kindling.engine.store import Key
from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql.login import Login
from kindling.kinds.postgresql.volume import USER_ANNOTATION
from kindling.kinds.postgresql.workload import PARAMETERS_HASH
from kindling.kube.resources import POD, SECRET, SERVICE, STATEFUL_SET, VOLUME_CLAIM, Object, Ref

from tests.model.test_postgresql_model import CHILDREN, CR, FIRST, decoded, ready, with_database
from tests.model.workloads import run_pods
from tests.model.world import World, resource

WORKLOAD = Ref(STATEFUL_SET, "ns", "db")
THE_POD = Ref(POD, "ns", "db-0")
SECRET_REF = Ref(SECRET, "ns", "ours")


def test_policy_can_change_both_ways() -> None:
    world = with_database(deletionPolicy="Delete")
    volume = Ref(VOLUME_CLAIM, "ns", "db-data")
    assert len(world.api.objects[volume]["metadata"]["ownerReferences"]) == 1
    world.api.edit(CR, {"spec": {"deletionPolicy": "Retain"}})
    world.settle()
    assert not world.api.objects[volume]["metadata"].get("ownerReferences")
    world.api.edit(CR, {"spec": {"deletionPolicy": "Delete"}})
    world.settle()
    assert len(world.api.objects[volume]["metadata"]["ownerReferences"]) == 1
    assert ready(world)["status"] == "True"


def test_bad_edit_leaves_what_runs_and_mending_it_heals() -> None:
    world = with_database(defaultUser="ada")
    running = {ref: world.api.objects[ref] for ref in CHILDREN}
    world.api.edit(CR, {"spec": {"defaultUser": "kindling"}})
    world.settle()
    status = world.status(FIRST, "db")
    assert ready(world)["reason"] == "InvalidSpec"
    assert find_condition(status, "Available")["status"] == "True"
    assert (status["pgPhase"], status["active"]["name"]) == ("up", "db-0")
    assert {ref: world.api.objects[ref] for ref in CHILDREN} == running
    world.api.edit(CR, {"spec": {"defaultUser": "ada"}})
    world.settle()
    assert ready(world)["status"] == "True"


def test_change_is_owned_up_to_before_anything_is_written() -> None:
    world = with_database(image="postgres:17.1")
    start = len(world.api.events)
    world.api.edit(CR, {"spec": {"image": "postgres:17.2"}})
    world.settle()
    after = world.api.events[start + 1 :]
    _, kind, first = after[0]
    assert kind == FIRST.type
    assert find_condition(first["status"], "Ready")["status"] == "False"
    assert first["status"]["observedGeneration"] == 2
    assert first["status"]["pgPhase"] == "up"  # the old Pod still serves
    assert ready(world)["status"] == "True"


def test_own_write_is_known_before_its_watch_event() -> None:
    world = with_database(image="postgres:17.1")
    world.api.edit(CR, {"spec": {"image": "postgres:17.2"}})
    world.deliver()
    world.work()
    written = world.api.writes.total()
    world.queue.add(Key(FIRST.type.group_kind, "ns", "db"))
    world.work()
    assert world.api.writes.total() == written


def test_a_new_password_and_a_restarted_server_need_another_login() -> None:
    world = with_database(password="one")
    world.api.edit(CR, {"spec": {"password": "two"}})
    world.settle()
    assert [login.password for login in world.logins] == ["one", "two"]
    pod = Ref(POD, "ns", "db-0")
    status = world.api.objects[pod]["status"]
    world.api.set_status(pod, {**status, "containerStatuses": [{"name": "postgres", "restartCount": 1}]})
    world.settle()
    assert len(world.logins) == 3


def put_secret(world: World, password: str) -> None:
    data = {"password": base64.b64encode(password.encode()).decode()}
    world.api.put(SECRET, {"metadata": {"namespace": "ns", "name": "ours"}, "data": data})


def test_password_of_a_secret_is_followed_without_a_restart() -> None:
    world = World()
    world.api.put(FIRST.type, resource(FIRST, "db", passwordSecretRef={"name": "ours"}))
    world.settle()
    assert ready(world)["reason"] == "SecretNotFound"
    assert set(world.api.objects) == {CR}
    put_secret(world, "one")
    world.settle()
    assert ready(world)["status"] == "True"
    pod = world.api.objects[THE_POD]["metadata"]["uid"]
    before = world.api.writes.total()
    put_secret(world, "two")
    world.settle()
    assert decoded(world, "db-binding")["password"] == "two"
    assert [login.password for login in world.logins] == ["one", "two"]
    assert world.api.writes.total() == before + 1  # the binding
    assert world.api.objects[THE_POD]["metadata"]["uid"] == pod
    assert world.writes_at_rest() == 0


@pytest.mark.parametrize(("content", "reason"), [(None, "SecretNotFound"), ("", "InvalidPassword")])
def test_secret_spoilt_leaves_what_runs_and_mending_it_heals(content: str | None, reason: str) -> None:
    world = World()
    put_secret(world, "one")
    world.api.put(FIRST.type, resource(FIRST, "db", passwordSecretRef={"name": "ours"}))
    world.settle()
    running = {ref: world.api.objects[ref] for ref in CHILDREN}
    if content is None:
        world.api.remove(SECRET_REF)
    else:
        put_secret(world, content)
    world.settle()
    assert ready(world)["reason"] == reason
    assert world.status(FIRST, "db")["pgPhase"] == "up"
    assert {ref: world.api.objects[ref] for ref in CHILDREN} == running
    put_secret(world, "two")
    world.settle()
    assert ready(world)["status"] == "True"
    assert decoded(world, "db-binding")["password"] == "two"


def test_reloaded_parameters_do_not_touch_the_pod() -> None:
    world = with_database()
    workload = world.api.objects[WORKLOAD]
    world.api.edit(CR, {"spec": {"parameters": {"work_mem": "5MB"}}})
    world.settle()
    assert world.logins[-1].parameters == {"work_mem": "5MB"}
    assert world.api.objects[WORKLOAD] == workload
    assert ready(world)["status"] == "True"


def pending_until_restarted(world: World) -> list[str]:
    """PostgreSQL as it is: what needs a restart waits until there was one. The restarts within the Pod."""
    old, restarts = world.api.objects[THE_POD]["metadata"]["uid"], list[str]()

    def answer(login: Login) -> ExternalResult:
        if login.restart:
            restarts.append(login.pod)
        if restarts or world.api.objects[THE_POD]["metadata"]["uid"] != old:
            return ExternalResult(ok=True, facts={"login": True, "version": "17.5"})
        facts = {"login": True, "pending_restart": ["max_connections"]}
        return ExternalResult(ok=False, reason="RestartPending", message="It follows.", facts=facts)

    world.answer = answer
    return restarts


def of_an_operator_before(world: World) -> None:
    """The Pod runs the server by itself, as it was made so."""
    template = world.api.objects[WORKLOAD]["spec"]["template"]
    command = template["spec"]["containers"][0]["command"]
    before = [*command[command.index("--") + 1 :]]
    world.api.edit(WORKLOAD, {"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}})
    containers = [{**template["spec"]["containers"][0], "command": before}]
    pod = {"metadata": {"labels": {"controller-revision-hash": "before"}}, "spec": {"containers": containers}}
    world.api.edit(THE_POD, pod)
    world.settle()


def test_restart_that_postgresql_needs_happens_within_the_pod_and_once() -> None:
    world = with_database()
    restarts = pending_until_restarted(world)
    workload, pod = world.api.objects[WORKLOAD]["spec"], world.api.objects[THE_POD]["metadata"]["uid"]
    start = len(world.api.events)
    world.api.edit(CR, {"spec": {"parameters": {"max_connections": "50"}}})
    world.settle()
    statuses = [obj["status"] for _, type, obj in world.api.events[start:] if type == FIRST.type]
    assert ready(world)["status"] == "True"
    assert "pendingRestart" not in statuses[-1]
    assert "False" not in [find_condition(status, "Available")["status"] for status in statuses]
    assert restarts == ["db-0"]
    assert world.api.objects[WORKLOAD]["spec"] == workload
    assert world.api.objects[THE_POD]["metadata"]["uid"] == pod
    world.restart()
    world.settle()
    assert restarts == ["db-0"]
    assert world.writes_at_rest() == 0


def test_a_paused_server_is_not_restarted() -> None:
    world = with_database()
    restarts = pending_until_restarted(world)
    world.api.edit(CR, {"spec": {"paused": True, "parameters": {"max_connections": "50"}}})
    world.settle()
    assert restarts == []


def test_a_pod_that_is_not_ready_while_its_server_restarts_is_not_replaced() -> None:
    """A server with much in memory takes its time to end."""
    world = with_database()
    facts = {"login": True, "pending_restart": ["max_connections"]}
    world.answer = ExternalResult(ok=False, reason="RestartPending", message="It follows.", facts=facts)
    world.api.edit(CR, {"spec": {"parameters": {"max_connections": "50"}}})
    for _ in range(3):
        world.deliver()
        world.work()
    assert world.status(FIRST, "db")["pendingRestart"] == ["max_connections"]
    workload = world.api.objects[WORKLOAD]["spec"]
    status = world.api.objects[THE_POD]["status"]
    conditions = [{**item, "status": "False"} for item in status["conditions"]]
    world.api.edit(THE_POD, {"status": {"conditions": conditions}})
    for _ in range(3):
        world.deliver()
        world.work()
    assert world.api.objects[WORKLOAD]["spec"] == workload


def test_a_server_that_nobody_restarts_gets_another_pod_after_the_deadline() -> None:
    world = with_database()
    old = world.api.objects[THE_POD]["metadata"]["uid"]
    facts = {"login": True, "pending_restart": ["max_connections"]}

    def answer(login: Login) -> ExternalResult:
        if world.api.objects[THE_POD]["metadata"]["uid"] != old:
            return ExternalResult(ok=True, facts={"login": True, "version": "17.5"})
        return ExternalResult(ok=False, reason="RestartPending", message="It follows.", facts=facts)

    world.answer = answer
    world.api.edit(CR, {"spec": {"parameters": {"max_connections": "50"}}})
    world.settle()
    world.now += timedelta(minutes=9)
    assert world.writes_at_rest() == 0
    assert world.api.objects[THE_POD]["metadata"]["uid"] == old
    world.now += timedelta(minutes=2)
    world.resync()
    world.settle()
    assert world.api.objects[THE_POD]["metadata"]["uid"] != old
    assert ready(world)["status"] == "True"
    assert world.writes_at_rest() == 0


def test_restart_that_postgresql_needs_replaces_a_pod_of_an_operator_before_once() -> None:
    world = with_database()
    of_an_operator_before(world)
    restarts = pending_until_restarted(world)
    start = len(world.api.events)
    world.api.edit(CR, {"spec": {"parameters": {"max_connections": "50"}}})
    world.settle()
    statuses = [obj["status"] for _, type, obj in world.api.events[start:] if type == FIRST.type]
    assert ["max_connections"] in [status.get("pendingRestart") for status in statuses]
    assert "RestartPending" in [find_condition(status, "Ready")["reason"] for status in statuses]
    assert find_condition(statuses[-1], "Ready")["status"] == "True"
    assert "pendingRestart" not in statuses[-1]
    assert statuses[-1]["version"] == "17.5"
    sets = [obj for _, type, obj in world.api.events[start:] if type == STATEFUL_SET]
    assert len({obj["metadata"]["generation"] for obj in sets}) == 1
    assert restarts == []
    assert world.writes_at_rest() == 0


def test_restart_is_not_repeated_by_an_operator_that_was_away() -> None:
    """Its own last word was that one is pending; the Pod has been replaced since."""
    world = with_database()
    of_an_operator_before(world)
    pending_until_restarted(world)
    world.api.edit(CR, {"spec": {"parameters": {"max_connections": "50"}}})
    for _ in range(2):
        world.deliver()
        world.work()
    template = world.api.objects[WORKLOAD]["spec"]["template"]
    assert "." in template["metadata"]["annotations"][PARAMETERS_HASH]
    run_pods(world.api)
    generation = world.api.objects[WORKLOAD]["metadata"]["generation"]
    world.restart()
    world.settle()
    assert world.api.objects[WORKLOAD]["metadata"]["generation"] == generation
    assert ready(world)["status"] == "True"


def test_parameters_that_the_server_refuses_leave_it_serving() -> None:
    world = with_database()
    world.answer = ExternalResult(ok=False, reason="InvalidParameter", message="no", facts={"login": True})
    world.api.edit(CR, {"spec": {"parameters": {"work_mem": "banana"}}})
    world.settle()
    status = world.status(FIRST, "db")
    assert (ready(world)["reason"], status["pgPhase"]) == ("InvalidParameter", "up")
    assert find_condition(status, "Degraded")["status"] == "True"
    world.answer = ExternalResult(ok=True)
    world.api.edit(CR, {"spec": {"parameters": None}})
    world.settle()
    assert ready(world)["status"] == "True"


def test_paused_writes_nothing_and_says_what_differs() -> None:
    world = with_database(paused=False)
    world.api.edit(CR, {"spec": {"paused": True}})
    world.settle()
    assert find_condition(world.status(FIRST, "db"), "Paused")["status"] == "True"
    assert ready(world)["status"] == "True"
    assert world.logins[-1].provision is False
    world.api.remove(Ref(SERVICE, "ns", "db"))
    world.api.edit(CR, {"spec": {"resources": {"limits": {"cpu": "2"}}}})
    before = {ref: obj for ref, obj in world.api.objects.items() if ref != CR}
    world.settle(pods=False)
    assert {ref: obj for ref, obj in world.api.objects.items() if ref != CR} == before
    status = world.status(FIRST, "db")
    assert (ready(world)["reason"], status["pgPhase"]) == ("Paused", "up")
    assert find_condition(status, "Degraded")["status"] == "False"
    assert find_condition(status, "Progressing")["status"] == "False"
    world.api.edit(CR, {"spec": {"paused": False}})
    world.settle()
    assert ready(world)["status"] == "True"
    assert find_condition(world.status(FIRST, "db"), "Paused") == {}
    assert Ref(SERVICE, "ns", "db") in world.api.objects


def test_version_of_the_data_stops_an_edit_and_nothing_else() -> None:
    world = with_database()
    running = {ref: world.api.objects[ref] for ref in CHILDREN}
    world.api.edit(CR, {"spec": {"version": "16", "image": "postgres:16"}})
    world.settle()
    assert ready(world)["reason"] == "VersionConflict"
    assert world.status(FIRST, "db")["pgPhase"] == "up"
    assert {ref: world.api.objects[ref] for ref in CHILDREN} == running
    world.api.edit(CR, {"spec": {"version": None, "image": None}})
    world.settle()
    assert ready(world)["status"] == "True"


def test_a_kept_volume_is_not_taken_up_by_another_user() -> None:
    """The role of the earlier one would keep its login, and its database stay beside an empty one."""
    world = with_database(defaultUser="ada")
    world.api.remove(CR)
    world.settle()
    kept: dict[Ref, Object] = dict(world.api.objects)
    asked = len(world.logins)
    world.api.put(FIRST.type, resource(FIRST, "db", defaultUser="bob"))
    world.settle()
    assert ready(world)["reason"] == "UserConflict"
    for word in ("'bob'", "'ada'", "db-data", "kubectl delete pvc db-data -n ns"):
        assert word in ready(world)["message"]
    assert {ref: world.api.objects.get(ref) for ref in kept} == kept
    assert len(world.logins) == asked
    # As the message says: the user of the data has it, and without the data anyone may begin.
    world.api.remove(CR)
    world.api.put(FIRST.type, resource(FIRST, "db", defaultUser="ada"))
    world.settle()
    assert ready(world)["status"] == "True"
    world.api.remove(CR)
    world.settle()
    world.api.remove(Ref(VOLUME_CLAIM, "ns", "db-data"))
    world.api.put(FIRST.type, resource(FIRST, "db", defaultUser="bob"))
    world.settle()
    assert ready(world)["status"] == "True"


def test_a_volume_from_before_users_were_recorded_is_taken_up_and_records_its_own() -> None:
    world = with_database(defaultUser="ada")
    claim = Ref(VOLUME_CLAIM, "ns", "db-data")
    world.api.edit(claim, {"metadata": {"annotations": {USER_ANNOTATION: None}}})
    pods = {ref: obj for ref, obj in world.api.objects.items() if ref.type == POD}
    world.settle()
    assert ready(world)["status"] == "True"
    assert world.api.objects[claim]["metadata"]["annotations"][USER_ANNOTATION] == "ada"
    assert {ref: obj for ref, obj in world.api.objects.items() if ref.type == POD} == pods


def test_ephemeral_leaves_nothing_and_takes_nothing_of_an_earlier_one() -> None:
    world = with_database()
    world.api.remove(CR)
    world.settle()
    kept: dict[Ref, Object] = dict(world.api.objects)
    assert {ref.type for ref in kept} == {VOLUME_CLAIM, SECRET}
    world.api.put(FIRST.type, resource(FIRST, "db", storage={"ephemeral": True}))
    world.settle()
    assert ready(world)["status"] == "True"
    assert {ref: world.api.objects[ref] for ref in kept} == kept
    world.api.remove(CR)
    world.settle()
    assert world.api.objects == kept
