"""What a plan says is what is then written, names the fields that cause it, and is empty where all is so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import find_condition
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
    ref_of,
)

from tests.model import drift
from tests.model.faults import Fault
from tests.model.specs import DATABASES, may_follow
from tests.model.test_postgresql_model import CHILDREN, CR, FIRST, ready, with_database
from tests.model.world import World, resource
from tests.unit.operator import placement
from tests.unit.schema.drawing import OF_THE_SEED

WRITTEN = {"create": "Create", "apply": "Update", "merge": "Update", "delete": "Delete"}
PAUSING = ("paused", "mode")
CHILD_TYPES = (CONFIG_MAP, NETWORK_POLICY, SECRET, SERVICE, STATEFUL_SET, VOLUME_CLAIM)


def plan(world: World) -> Object:
    found: Object = world.status(FIRST, "db")["plan"]
    return found


def items(world: World, **spec: object) -> dict[str, Object]:
    """By object, what the plan has once the spec is edited so."""
    world.api.edit(CR, {"spec": {"mode": "Plan", **spec}})
    world.settle()
    return {item.get("object", item["action"]): item for item in plan(world)["items"]}


def costs(world: World, **spec: object) -> dict[str, tuple[str, list[str]]]:
    return {name: (item["disruption"], item.get("fields", [])) for name, item in items(world, **spec).items()}


def writes_of(world: World) -> set[tuple[str, str]]:
    """What the operator writes of children from now on."""
    found: set[tuple[str, str]] = set()
    api: Any = world.faulty

    def recorded(name: str) -> None:
        real = getattr(api, name)

        async def call(target: Any, *args: Any, **options: Any) -> Any:
            ref = target if isinstance(target, Ref) else ref_of(target, args[0])
            if ref.type in CHILD_TYPES:
                found.add((WRITTEN[name], f"{ref.type.kind}/{ref.name}"))
            return await real(target, *args, **options)

        setattr(api, name, call)

    for name in WRITTEN:
        recorded(name)
    return found


def planned(world: World) -> set[tuple[str, str]]:
    return {
        ("Update" if item["action"] == "Restore" else item["action"], item["object"])
        for item in plan(world)["items"]
        if "/" in item.get("object", "")
    }


@pytest.mark.parametrize("mode", ["Apply", None])
def test_without_the_mode_there_is_no_plan(mode: str | None) -> None:
    world = with_database(mode="Plan")
    world.api.edit(CR, {"spec": {"mode": mode}})
    world.settle()
    assert (ready(world)["status"], "plan" in world.status(FIRST, "db")) == ("True", False)


def test_what_is_settled_has_an_empty_plan_and_costs_nothing() -> None:
    world = with_database(parameters={"work_mem": "5MB"})
    assert items(world) == {}
    assert plan(world) == {"disruption": "None", "items": []}
    assert ready(world)["status"] == "True"
    assert world.writes_at_rest() == 0


def test_a_new_resource_is_planned_whole_and_nothing_is_made() -> None:
    world = World()
    world.api.put(FIRST.type, resource(FIRST, "db", mode="Plan"))
    world.settle()
    assert {item["action"] for item in plan(world)["items"]} == {"Create"}
    assert {item["object"] for item in plan(world)["items"]} == {
        f"{ref.type.kind}/{ref.name}" for ref in CHILDREN
    }
    assert plan(world)["disruption"] == "None"
    assert set(world.api.objects) == {CR}
    assert world.writes_at_rest() == 0


ALWAYS = {"schedule": "* * * * *", "duration": "2m"}
STS, CLAIM, CONF = "StatefulSet/db", "PersistentVolumeClaim/db-data", "ConfigMap/db-config"
BOUND = "Secret/db-binding"
MEMORY = {"limits": {"memory": "1Gi"}}
EDITS: list[tuple[Object, Object, dict[str, tuple[str, list[str]]]]] = [
    ({}, {"image": "postgres:17.2"}, {STS: ("Restart", ["spec.image"])}),
    (
        {"image": "postgres:17.2"},
        {"image": None},
        {STS: ("Restart", ["spec.image"]), CLAIM: ("None", ["spec.image"])},
    ),
    (
        {},
        {"resources": MEMORY},
        {STS: ("Restart", ["spec.resources"]), CONF: ("None", ["spec.resources.limits.memory"])},
    ),
    ({}, {"resources": {"requests": {"cpu": "1"}}}, {STS: ("Restart", ["spec.resources"])}),
    ({}, {"shutdownSeconds": 99}, {STS: ("Restart", ["spec.shutdownSeconds"])}),
    ({"shutdownSeconds": 99}, {"shutdownSeconds": None}, {STS: ("Restart", ["spec.shutdownSeconds"])}),
    (
        {"shutdownSeconds": 99},
        {"resources": {"requests": {"cpu": "1"}}},
        {STS: ("Restart", ["spec.resources"])},
    ),
    ({}, {"hibernate": True}, {STS: ("Stop", ["spec.hibernate"])}),
    ({"hibernate": True}, {"hibernate": False}, {STS: ("None", ["spec.hibernate"])}),
    ({}, {"hibernateWindow": ALWAYS}, {STS: ("Stop", ["spec.hibernateWindow"])}),
    (
        {},
        {"storage": {"size": "2Gi"}},
        {CLAIM: ("None", ["spec.storage.size"]), CONF: ("None", ["spec.storage.size"])},
    ),
    ({}, {"deletionPolicy": "Delete"}, {CLAIM: ("None", ["spec.deletionPolicy"])}),
    ({"deletionPolicy": "Delete"}, {"deletionPolicy": None}, {CLAIM: ("None", ["spec.deletionPolicy"])}),
    ({}, {"deletionProtection": True}, {CLAIM: ("None", ["spec.deletionProtection"])}),
    (
        {"deletionProtection": True},
        {"deletionProtection": False},
        {CLAIM: ("None", ["spec.deletionProtection"])},
    ),
    ({}, {"parameters": {"work_mem": "8MB"}}, {CONF: ("None", ["spec.parameters.work_mem"])}),
    (
        {"parameters": {"work_mem": "8MB", "geqo": "off"}},
        {"parameters": {"work_mem": None, "geqo": "on"}},
        {CONF: ("None", ["spec.parameters.geqo", "spec.parameters.work_mem"])},
    ),
    (
        {"parameters": {"shared_buffers": "32MB"}},
        {"parameters": None},
        {CONF: ("None", ["spec.parameters.shared_buffers"])},
    ),
    ({}, {"password": "canary"}, {"Secret/db-binding": ("None", ["spec.password"])}),
    ({}, {"allowedFrom": [{"namespaceSelector": {}}]}, {"NetworkPolicy/db": ("None", ["spec.allowedFrom"])}),
    (
        {},
        {"serviceTemplate": {"metadata": {"labels": {"a": "b"}}}},
        {"Service/db": ("None", ["spec.serviceTemplate.metadata.labels"])},
    ),
    (
        {"serviceTemplate": {"metadata": {"annotations": {"a": "b"}}}},
        {"serviceTemplate": None},
        {"Service/db": ("None", ["spec.serviceTemplate.metadata.annotations"])},
    ),
    (
        {},
        {"serviceTemplate": {"spec": {"type": "NodePort"}}},
        {"Service/db": ("None", ["spec.serviceTemplate.spec.type"])},
    ),
    (
        {"podTemplate": {"spec": {"nodeSelector": {"a": "b"}}}},
        {"podTemplate": None},
        {STS: ("Restart", ["spec.podTemplate.spec.nodeSelector"])},
    ),
    (
        {"roles": [{"name": "old", "login": True}]},
        {"roles": [{"name": "new_one", "login": True}, {"name": "old", "login": True}]},
        {
            "Secret/db-role-new-one": ("None", ["spec.roles[new_one]"]),
            "objects": ("None", ["spec.roles[new_one]"]),
        },
    ),
    ({}, {"updates": "Manual"}, {}),
    ({}, {"tls": {"enabled": False}}, {STS: ("Restart", ["spec.tls"]), BOUND: ("None", ["spec.tls"])}),
    ({}, {"tls": {"required": True}}, {CONF: ("None", ["spec.tls"]), BOUND: ("None", ["spec.tls"])}),
    ({}, {"tls": {}}, {BOUND: ("None", ["spec.tls"])}),
    (
        {"storage": {"ephemeral": True}},
        {"image": "postgres:17.2"},
        {STS: ("DataLost", ["spec.image"])},
    ),
    (
        {"storage": {"ephemeral": True, "size": "1Gi"}},
        {"storage": {"ephemeral": True, "size": "2Gi"}},
        {STS: ("DataLost", ["spec.storage.size"]), CONF: ("None", ["spec.storage.size"])},
    ),
    ({}, {"imagePullSecrets": [{"name": "key"}]}, {STS: ("Restart", ["spec.imagePullSecrets"])}),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "expected"), EDITS, ids=[str(edit[1]) for edit in EDITS])
def test_each_edit_has_its_fields_and_its_disruption(
    before: Object, after: Object, expected: dict[str, tuple[str, list[str]]]
) -> None:
    assert costs(with_database(**before), **after) == expected


def test_placement_is_named_part_by_part() -> None:
    found = items(with_database(), podTemplate=placement.FULL)[STS]
    given = placement.FULL
    expected = [f"spec.podTemplate.{part}.{name}" for part in ("metadata", "spec") for name in given[part]]
    assert (found["disruption"], found["fields"]) == ("Restart", sorted(expected))


def test_another_writers_edit_is_named_as_such() -> None:
    world = with_database()
    world.api.edit(CR, {"spec": {"mode": "Plan"}})
    world.settle()
    world.api.edit(Ref(SERVICE, "ns", "db"), {"spec": {"selector": {"theirs": "yes"}}})
    world.api.remove(Ref(NETWORK_POLICY, "ns", "db"))
    world.settle()
    found = {item["object"]: item for item in plan(world)["items"]}
    assert found["Service/db"]["message"] == "is updated, which another writer has changed"
    assert ("fields" in found["Service/db"], found["NetworkPolicy/db"]["action"]) == (False, "Create")


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"storage": {"size": "5Gi"}}, "spec.storage.size", "cannot shrink"),
        ({"parameters": {"port": "1"}}, "spec.parameters.port", "set by Kindling"),
        ({"version": "16"}, "spec.version", "holds data of PostgreSQL 17"),
    ],
)
def test_what_is_refused_says_so_in_the_plan(spec: Object, field: str, words: str) -> None:
    found = items(with_database(storage={"size": "10Gi"}), **spec)["Refuse"]
    assert (found["fields"], found["disruption"]) == ([field], "None")
    assert words in found["message"]


def looks(world: World, **facts: object) -> None:
    """The server says to a look what it would to the operator's login."""

    def answer(request: Any) -> ExternalResult:
        if getattr(request, "provision", True):
            return ExternalResult(ok=True, facts={"login": True})
        return ExternalResult(ok=False, reason="Paused", message="m", facts=facts)

    world.answer = answer


def test_the_server_says_which_parameters_need_a_restart() -> None:
    world = with_database()
    looks(world, login=True, differing={"work_mem": False})
    found = items(world, parameters={"work_mem": "8MB"})["server"]
    assert (found["disruption"], found["fields"]) == ("Reload", ["spec.parameters.work_mem"])
    assert plan(world)["disruption"] == "Reload"
    looks(world, login=True, differing={"work_mem": False, "max_connections": True})
    found = items(world, parameters={"work_mem": "8MB", "max_connections": 50})["server"]
    assert found["fields"] == ["spec.parameters.max_connections", "spec.parameters.work_mem"]
    assert (found["action"], found["disruption"]) == ("Configure", "Restart")
    within_pod = "one restart of the server within its Pod, in about a second"
    assert found["message"] == f"{within_pod}, which max_connections needs"
    assert "seconds" not in found


def test_lines_of_hba_are_read_again_and_so_is_tls() -> None:
    world = with_database()
    looks(world, login=True, rules=False)
    assert costs(world, hba=["host all bob all reject"])["ConfigMap/db-config"] == ("Reload", ["spec.hba"])
    found = costs(world, hba=["host all bob all reject"], tls={"required": True})["ConfigMap/db-config"]
    assert found == ("Reload", ["spec.hba", "spec.tls"])
    assert costs(world, hba=None, tls={"required": True})["ConfigMap/db-config"] == ("None", ["spec.tls"])


def test_a_certificate_of_a_role_is_put_into_force_by_a_reload() -> None:
    world = with_database()
    looks(world, login=True, rules=False, differing={"ssl_ca_file": False})
    asked = {"name": "app", "login": True, "clientCertificate": {"enabled": True}}
    found = items(world, roles=[asked])
    for name in ("ConfigMap/db-config", "server"):
        assert (found[name]["disruption"], found[name]["fields"]) == ("Reload", ["spec.roles[app]"])
    assert found["Secret/db-role-app"]["fields"] == ["spec.roles[app]"]
    assert STS not in found


def test_parameters_come_with_a_restart_that_has_another_cause() -> None:
    world = with_database()
    looks(world, login=True, differing={"max_connections": True})
    found = costs(world, parameters={"max_connections": 50}, image="postgres:17.2")
    assert (found["server"][0], found[STS][0]) == ("None", "Restart")


def test_a_password_that_is_planned_does_not_make_the_server_unavailable() -> None:
    world = with_database(password="one")
    looks(world)
    found = items(world, password="canary-two")
    assert found["server"]["fields"] == found["Secret/db-binding"]["fields"] == ["spec.password"]
    assert world.status(FIRST, "db")["pgPhase"] == "up"
    assert "canary" not in str(world.status(FIRST, "db"))


def test_a_database_that_would_be_dropped_is_data_lost() -> None:
    world = World()

    def answer(request: Any) -> ExternalResult:
        if getattr(request, "apply", None) is False and request.drop_databases:
            facts = {"databases": dict.fromkeys(request.drop_databases, ("Paused", "m"))}
            return ExternalResult(ok=False, reason="Paused", message="m", facts=facts)
        return ExternalResult(ok=True, facts={"login": True})

    world.answer = answer
    world.api.put(FIRST.type, resource(FIRST, "db", databases=[{"name": "x", "reclaimPolicy": "Delete"}]))
    world.settle()
    found = items(world, databases=[])["objects"]
    assert (found["disruption"], found["fields"]) == ("DataLost", ["spec.databases[x]"])
    assert found["message"] == "is dropped, with all of its data"


def test_a_server_that_cannot_be_asked_leaves_it_open() -> None:
    world = with_database()
    world.api.set_status(Ref(POD, "ns", "db-0"), {"phase": "Running", "conditions": []})
    world.api.edit(CR, {"spec": {"mode": "Plan", "parameters": {"max_connections": 50}}})
    world.settle(pods=False)
    found = {item.get("object"): item for item in plan(world)["items"]}["server"]
    assert (found["action"], found["disruption"]) == ("Compare", "Unknown")
    assert found["fields"] == ["spec.parameters.max_connections"]


def proposal(world: World, **spec: object) -> dict[str, tuple[str, list[str]]]:
    """What a plan for the database has, which is a resource of its own."""
    world.api.put(FIRST.type, resource(FIRST, "plan-1", mode="Plan", planFor="db", **spec))
    world.settle()
    found = world.status(FIRST, "plan-1")
    conditions = {item["type"]: (item["status"], item["reason"]) for item in found["conditions"]}
    assert conditions.pop("Paused") == ("True", "Paused")
    assert {status for status, _ in conditions.values()} == {"False"}
    return {item["object"]: (item["disruption"], item.get("fields", [])) for item in found["plan"]["items"]}


def test_a_plan_for_another_resource_is_that_of_its_edit_and_changes_nothing() -> None:
    world = with_database(password="canary", image="postgres:17.1")
    before = {ref: obj for ref, obj in world.api.objects.items() if ref != CR}
    database = world.api.objects[CR]
    written = writes_of(world)
    found = proposal(world, image="postgres:17.2")
    assert found == {STS: ("Restart", ["spec.image"])}
    assert (written, world.writes_at_rest()) == (set(), 0)
    assert world.api.objects[CR] == database
    assert {ref: world.api.objects.get(ref) for ref in before} == before
    assert set(world.api.objects) - set(before) == {CR, Ref(FIRST.type, "ns", "plan-1")}
    world.api.remove(Ref(FIRST.type, "ns", "plan-1"))
    world.settle()
    assert {ref: obj for ref, obj in world.api.objects.items() if ref != CR} == before
    assert costs(world, image="postgres:17.2") == found


def test_a_plan_for_what_is_not_there_is_to_make_it() -> None:
    world = World()
    found = proposal(world)
    assert set(found) == {f"{ref.type.kind}/{ref.name}" for ref in CHILDREN}
    assert set(world.api.objects) == {Ref(FIRST.type, "ns", "plan-1")}


def test_a_plan_for_a_server_is_compared_with_it_and_its_probes_go_on() -> None:
    world = with_database()
    looks(world, login=True, differing={"max_connections": True})
    found = proposal(world, parameters={"max_connections": 50})
    assert found["server"] == ("Restart", ["spec.parameters.max_connections"])
    world.answer = ExternalResult(ok=False, reason="NotResponding", message="m")
    world.repeat_probes()
    world.settle()
    assert ready(world)["reason"] == "NotResponding"


def test_what_was_planned_is_what_is_then_written(thorough: bool) -> None:
    examples = settings(
        max_examples=2000 if thorough else 60,
        deadline=None,
        derandomize=not thorough,
        backend="hypothesis" if thorough else OF_THE_SEED,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    examples(given(first=DATABASES, second=DATABASES, data=st.data())(_is_written_as_planned))()


def _is_written_as_planned(first: Object, second: Object, data: st.DataObject) -> None:
    first = {name: value for name, value in may_follow(first, None).items() if name not in PAUSING}
    world = with_database(**first)
    known = world.api.objects[CR]
    second = {name: value for name, value in may_follow(second, known).items() if name not in PAUSING}
    world.api.put(FIRST.type, resource(FIRST, "db", **second, mode="Plan"))
    children = [ref for ref in world.api.objects if ref.type in CHILD_TYPES]
    for ref in data.draw(st.lists(st.sampled_from(children), max_size=2, unique=True)) if children else []:
        if paths := drift.fields(world.api, ref):
            drift.edit(world.api, ref, data.draw(st.sampled_from(paths)), gone=data.draw(st.booleans()))
    written = writes_of(world)
    world.settle()
    assert written == set()
    expected = planned(world)
    world.api.edit(CR, {"spec": {"mode": None}})
    world.settle()
    assert written == expected
    if find_condition(world.status(FIRST, "db"), "Stalled") == {}:
        world.api.edit(CR, {"spec": {"mode": "Plan"}})
        world.settle()
        assert planned(world) == set()


def test_a_later_operators_change_waits_and_says_so() -> None:
    """As the StatefulSet is written: held, so the Pod stays."""
    world = with_database(mode="Plan")
    world.api.edit(CR, {"spec": {"mode": None}})
    world.settle()
    workload = Ref(STATEFUL_SET, "ns", "db")
    notes = {"kindling.dev/template": "of-another-operator", "kindling.dev/last-applied-hash": "0.0"}
    world.api.edit(workload, {"metadata": {"annotations": notes}})
    world.api.edit(CR, {"spec": {"mode": "Plan"}})
    world.settle()
    (item,) = plan(world)["items"]
    assert (item["object"], item["disruption"], item.get("fields")) == (STS, "None", None)
    assert item["message"] == "is updated; the Pod stays until it is restarted, as spec.updates says"


def test_the_operator_says_in_its_log_what_its_own_writes_disrupt(caplog: pytest.LogCaptureFixture) -> None:
    said = "disruption of what follows: Restart"
    with caplog.at_level("INFO", "kindling"):
        world = with_database()
        world.api.edit(CR, {"spec": {"parameters": {"work_mem": "8MB"}, "storage": {"size": "2Gi"}}})
        world.settle()
        assert not [text for text in caplog.messages if text.startswith("disruption")]
        world.api.edit(CR, {"spec": {"image": "postgres:17.2"}})
        world.settle()
    place = caplog.messages.index(said)
    assert caplog.messages[place + 1] == "apply StatefulSet db"
    assert caplog.messages.count(said) == 1


SWEPT: Object = {
    "image": "postgres:17.2",
    "parameters": {"work_mem": "8MB"},
    "deletionPolicy": "Delete",
    "password": "canary",
    "allowedFrom": [{"namespaceSelector": {}}],
}


@pytest.mark.parametrize("new", [True, False], ids=["created", "edited"])
@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOST, Fault.SERVER_ERROR])
def test_whatever_write_fails_no_more_and_no_less_than_was_planned_is_written(
    fault: Fault, new: bool
) -> None:
    """The plan itself, too, may be written by an operator that dies of it."""
    for number in range(12):
        world = World()
        if not new:
            world = with_database()
        world.faulty.writes.append(fault if number == 0 else None)
        world.api.put(FIRST.type, resource(FIRST, "db", **SWEPT, mode="Plan"))
        world.settle()
        world.wait_long()
        expected = planned(world)
        assert len(expected) == (9 if new else 5)
        written = writes_of(world)
        world.faulty.writes.extend([*[None] * number, fault])
        world.api.edit(CR, {"spec": {"mode": None}})
        world.settle()
        world.wait_long()
        world.settle()
        assert {name for _, name in written} == {name for _, name in expected}
        assert ready(world)["status"] == "True"
        assert world.writes_at_rest() == 0
