"""The engine and the Postgresql kind in a modelled cluster: numbers of writes, ownership, drift, deletion."""

from __future__ import annotations

import base64
import json

import pytest
from kindling.engine.plan import Apply, plan
from kindling.kinds.base import Child, ExternalResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.metadata import labels_of
from kindling.kube.resources import (
    CONFIG_MAP,
    NETWORK_POLICY,
    POD,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    VOLUME_CLAIM,
    Object,
    Ref,
    ResourceType,
)

from tests.model.world import KINDS, World, resource
from tests.unit.schema.worlds import at_once

FIRST, SECOND = KINDS[:2]
CHILDREN = {
    Ref(VOLUME_CLAIM, "ns", "db-data"),
    Ref(SECRET, "ns", "db-superuser"),
    Ref(SECRET, "ns", "db-binding"),
    Ref(SECRET, "ns", "db-server-ca"),
    Ref(SECRET, "ns", "db-server-tls"),
    Ref(CONFIG_MAP, "ns", "db-config"),
    Ref(SERVICE, "ns", "db"),
    Ref(NETWORK_POLICY, "ns", "db"),
    Ref(STATEFUL_SET, "ns", "db"),
}
CR = Ref(FIRST.type, "ns", "db")


def with_database(**spec: object) -> World:
    world = World()
    world.api.put(FIRST.type, resource(FIRST, "db", **spec))
    world.settle()
    return world


def ready(world: World) -> Object:
    return find_condition(world.status(FIRST, "db"), "Ready")


def decoded(world: World, name: str) -> dict[str, str]:
    data = world.api.objects[Ref(SECRET, "ns", name)]["data"]
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


@pytest.mark.parametrize("data", [None, {"password": None}, {"password": ""}])
def test_emptied_superuser_secret_is_created_again(data: Object | None) -> None:
    world = with_database()
    before, secret = decoded(world, "db-superuser"), Ref(SECRET, "ns", "db-superuser")
    world.api.edit(secret, {"data": data})
    world.settle()
    after = decoded(world, "db-superuser")
    assert after["username"] == before["username"]
    assert len(after["password"]) == 32
    assert after["password"] != before["password"]
    assert (ready(world)["status"], world.writes_at_rest()) == ("True", 0)


def test_superusers_password_that_somebody_set_is_left_alone() -> None:
    world = with_database()
    another = base64.b64encode(b"of theirs").decode()
    world.api.edit(Ref(SECRET, "ns", "db-superuser"), {"data": {"password": another}})
    world.settle()
    assert (decoded(world, "db-superuser")["password"], world.writes_at_rest()) == ("of theirs", 0)


def test_new_resource_costs_its_children_and_two_statuses() -> None:
    world = with_database(password="pw", defaultUser="ada")
    assert set(world.api.objects) == CHILDREN | {CR, Ref(POD, "ns", "db-0")}
    assert ready(world)["status"] == "True"
    assert world.api.writes["status", "Postgresql"] == 2
    assert world.api.writes.total() == len(CHILDREN) + 2
    assert world.status(FIRST, "db")["pgPhase"] == "up"
    assert world.status(FIRST, "db")["active"]["name"] == "db-0"
    assert world.status(FIRST, "db")["binding"] == {"name": "db-binding"}


def test_rest_and_restart_write_nothing_and_log_in_once() -> None:
    world = with_database()
    assert world.writes_at_rest() == 0
    assert len(world.logins) == 1
    before = world.api.writes.total()
    world.restart()
    world.settle()
    assert world.api.writes.total() == before
    assert len(world.logins) == 2


@pytest.mark.parametrize("ref", sorted(CHILDREN - {Ref(VOLUME_CLAIM, "ns", "db-data")}, key=str), ids=str)
def test_deleted_child_comes_back(ref: Ref) -> None:
    world = with_database()
    world.api.remove(ref)
    world.settle()
    assert ref in world.api.objects
    assert world.writes_at_rest() == 0


@pytest.mark.parametrize("ref", sorted(CHILDREN, key=str), ids=str)
def test_labels_taken_off_come_back(ref: Ref) -> None:
    world = with_database(deletionPolicy="Delete")
    labels = world.api.objects[ref]["metadata"]["labels"]
    world.api.edit(ref, {"metadata": {"labels": dict.fromkeys(labels)}})
    world.settle()
    assert world.api.objects[ref]["metadata"]["labels"] == labels
    assert world.writes_at_rest() == 0


@pytest.mark.parametrize(
    ("ref", "patch"),
    [
        (Ref(SERVICE, "ns", "db"), {"spec": {"selector": {"app.kubernetes.io/instance": "other"}}}),
        (Ref(STATEFUL_SET, "ns", "db"), {"spec": {"replicas": 0}}),
        (
            Ref(STATEFUL_SET, "ns", "db"),
            {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}},
        ),
        (Ref(CONFIG_MAP, "ns", "db-config"), {"data": {"pg_hba.conf": "host all all all trust"}}),
        (Ref(SECRET, "ns", "db-binding"), {"data": {"username": "bm9ib2R5"}}),
    ],
)
def test_edited_child_is_repaired(ref: Ref, patch: Object) -> None:
    world = with_database()
    before = world.api.state()
    world.api.edit(ref, patch)
    world.settle()
    assert world.api.state() == before
    assert world.writes_at_rest() == 0


def test_superusers_password_is_never_written_twice() -> None:
    world = with_database()
    password = decoded(world, "db-superuser")["password"]
    assert len(password) == 32
    world.api.edit(
        Ref(SECRET, "ns", "db-superuser"), {"metadata": {"labels": {"app.kubernetes.io/name": "x"}}}
    )
    world.settle()
    world.restart()
    world.settle()
    assert decoded(world, "db-superuser")["password"] == password


def test_retained_volume_is_taken_up_by_the_next_of_its_name_and_group() -> None:
    world = with_database(storage={"size": "5Gi"})
    uid = world.api.objects[Ref(VOLUME_CLAIM, "ns", "db-data")]["metadata"]["uid"]
    superuser, old = decoded(world, "db-superuser"), decoded(world, "db-binding")
    world.api.remove(CR)
    world.settle()
    assert {ref.name for ref in world.api.objects} == {"db-data", "db-superuser"}
    world.api.put(FIRST.type, resource(FIRST, "db"))  # asks for 1Gi: no reason to shrink
    world.settle()
    volume = world.api.objects[Ref(VOLUME_CLAIM, "ns", "db-data")]
    assert volume["metadata"]["uid"] == uid
    assert volume["spec"]["resources"]["requests"]["storage"] == "5Gi"
    assert decoded(world, "db-superuser") == superuser
    assert decoded(world, "db-binding")["password"] != old["password"]
    assert world.logins[-1].password == decoded(world, "db-binding")["password"]
    assert ready(world)["status"] == "True"


def test_volume_labelled_by_an_earlier_operator_is_relabelled_and_no_server_restarts() -> None:
    """As the commit before created it: by those labels a tool that goes by them took it for its own."""
    world = World()
    meta = {
        "namespace": "ns",
        "name": "db-data",
        "labels": labels_of(FIRST.type, {"metadata": {"name": "db"}}),
    }
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    before = Child(type=VOLUME_CLAIM, body={"metadata": meta, "spec": spec})
    (action,) = plan(type=FIRST.type, cr={"metadata": {"uid": "u"}}, desired=[before], observed={}).actions
    assert isinstance(action, Apply)
    at_once(world.api.create(VOLUME_CLAIM, action.body))
    uid = world.api.objects[Ref(VOLUME_CLAIM, "ns", "db-data")]["metadata"]["uid"]
    world.restart()
    world.api.put(FIRST.type, resource(FIRST, "db"))
    world.settle()
    claim = world.api.objects[Ref(VOLUME_CLAIM, "ns", "db-data")]["metadata"]
    assert (claim["uid"], ready(world)["status"]) == (uid, "True")
    assert claim["labels"] == {
        "app.kubernetes.io/managed-by": "kindling",
        "app.kubernetes.io/name": "postgresql",
        "kindling.dev/kind": FIRST.type.group_kind,
        "kindling.dev/name": "db",
        "kindling.dev/postgresql-version": "17",
    }
    assert "Prune=false" in claim["annotations"].values()
    assert world.writes_at_rest() == 0


def test_retained_volume_is_not_the_other_groups() -> None:
    world = with_database()
    world.api.remove(CR)
    world.settle()
    before = world.api.state()
    world.api.put(SECOND.type, resource(SECOND, "db"))
    world.settle()
    assert find_condition(world.status(SECOND, "db"), "Ready")["reason"] == "NameConflict"
    world.api.remove(Ref(SECOND.type, "ns", "db"))
    assert world.api.state() == before


def test_policy_delete_leaves_nothing() -> None:
    world = with_database(deletionPolicy="Delete")
    world.api.remove(CR)
    world.settle()
    assert world.api.objects == {}


def test_one_name_in_both_groups_the_second_touches_nothing() -> None:
    world = with_database()
    before = world.api.state()
    world.api.put(SECOND.type, resource(SECOND, "db"))
    world.settle()
    status = world.status(SECOND, "db")
    assert (find_condition(status, "Ready")["reason"], status["pgPhase"]) == ("NameConflict", "Failed")
    assert "active" not in status
    del world.api.objects[Ref(SECOND.type, "ns", "db")]
    assert world.api.state() == before


@pytest.mark.parametrize("ref", sorted(CHILDREN, key=str), ids=str)
def test_foreign_object_of_any_childs_name_stops_every_write(ref: Ref) -> None:
    world = World()
    foreign = world.api.put(
        ref.type, {"metadata": {"namespace": "ns", "name": ref.name}, "spec": {"mine": True}}
    )
    version = foreign["metadata"]["resourceVersion"]
    world.api.put(FIRST.type, resource(FIRST, "db"))
    world.settle(pods=False)
    assert (ready(world)["status"], ready(world)["reason"]) == ("False", "NameConflict")
    assert ref.name in ready(world)["message"]
    assert set(world.api.objects) == {ref, CR}
    assert world.api.objects[ref]["metadata"]["resourceVersion"] == version
    world.api.remove(CR)
    assert set(world.api.objects) == {ref}


def test_refusal_shows_the_servers_reason_and_heals() -> None:
    world = World()
    world.api.refuse = STATEFUL_SET
    world.api.put(FIRST.type, resource(FIRST, "db"))
    world.settle()
    assert ready(world)["reason"] == "ApplyRejected"
    assert "exceeded quota" in ready(world)["message"]
    assert world.failures > 0  # so it is in the queue's back-off
    world.api.refuse = None
    world.resync()
    world.settle()
    assert ready(world)["status"] == "True"


def test_ready_waits_for_the_login() -> None:
    world = World()
    world.answer = ExternalResult(ok=False, reason="LoginFailed", message="no")
    world.api.put(FIRST.type, resource(FIRST, "db"))
    world.settle()
    assert ready(world)["reason"] == "LoginFailed"
    world.answer = ExternalResult(ok=True)
    world.resync()
    world.settle()
    assert ready(world)["status"] == "True"


def test_nothing_is_created_for_a_resource_whose_deletion_was_missed() -> None:
    world = with_database(deletionPolicy="Delete")
    world.api.remove(CR)
    # The event of its own deletion is missed (a relist replaced it), those of its children are not.
    world.forget(FIRST.type)
    before = world.api.writes.total()
    world.deliver()
    world.work()
    assert world.api.objects == {}
    assert world.api.writes.total() == before


def test_earlier_incarnation_is_waited_for() -> None:
    world = with_database(deletionPolicy="Delete")
    world.api.remove(CR, collect=False)
    world.settle(pods=False)
    world.api.put(FIRST.type, resource(FIRST, "db"))
    world.settle(pods=False)
    assert ready(world)["reason"] == "Terminating"
    world.api.collect()
    world.settle()
    assert ready(world)["status"] == "True"


def test_password_is_in_secrets_alone() -> None:
    canary = "canary-7f3a"
    world = with_database(password=canary, defaultUser="ada")
    encoded = base64.b64encode(canary.encode()).decode()
    everything: list[tuple[ResourceType, Object]] = [(type, obj) for _, type, obj in world.api.events]
    for type, obj in everything:
        text = json.dumps({k: v for k, v in obj.items() if not (type == FIRST.type and k == "spec")})
        if type != SECRET:
            assert canary not in text
            assert encoded not in text
        else:
            assert canary not in json.dumps(obj["metadata"])
    assert canary not in repr(world.logins)
    assert decoded(world, "db-superuser")["password"] not in repr(world.logins)


def test_secret_of_a_claim_that_went_before_it_came_belongs_to_the_next_claim_alone() -> None:
    """The garbage collector takes the reference to the first away; ours stays without it."""
    world = World()
    claim = Ref(VOLUME_CLAIM, "ns", "db-data")
    world.faulty.writes.extend([None] * 3)
    world.faulty.writes.append(lambda: world.api.remove(claim))
    world.api.put(FIRST.type, resource(FIRST, "db"))
    world.settle()
    world.api.collect()
    world.settle()
    owners = world.api.objects[Ref(SECRET, "ns", "db-superuser")]["metadata"]["ownerReferences"]
    assert [owner["uid"] for owner in owners] == [world.api.objects[claim]["metadata"]["uid"]]
    assert world.writes_at_rest() == 0
