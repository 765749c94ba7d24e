"""`kindling.diff` where servers answer and Pods get Ready: what is settled stays, what it names then rolls.

tests/apiserver/test_operator_diff.py has the real API server, on which no server is ever Ready.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from kindling.diff.decision import Decision
from kindling.diff.effects import ResourceDiff, effects
from kindling.diff.reading import ReadOnlyApi, dependencies
from kindling.engine.store import key_of
from kindling.kinds.base import ExternalResult, Kind
from kindling.kinds.conditions import find_condition
from kindling.kube.client import Client
from kindling.kube.resources import CONFIG_MAP, POD, SECRET, Object, Ref

from tests.model import backup_world
from tests.model.specs import ANSWERS, SPECS, may_follow
from tests.model.test_operator_upgrades import FIRST, NEW, operator, upgrade
from tests.model.test_operator_upgrades import SPECS as LEAST
from tests.model.world import KINDS, World, resource

KEYS = backup_world.secret("ours", password="canary-three", username="ada", token="t")
EXAMPLES = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
ALWAYS: Object = {"schedule": "* * * * *", "duration": "2m"}


def diff(world: World, kinds: dict[str, Kind] | None = None) -> dict[str, ResourceDiff]:
    """By name, of every resource; the operator's kinds are those of the world, or others."""
    kinds, found = kinds or world.kinds_by_name, {}
    api = ReadOnlyApi(cast(Client, world.api))
    given = replace(dependencies(api, world.store), clock=lambda: world.now)
    for ref in sorted((ref for ref in world.api.objects if ref.type.group_kind in kinds), key=str):
        key, kind = key_of(ref), kinds[ref.type.group_kind]
        cr = world.store.resource(key)
        assert cr is not None
        decision = Decision(dependencies=given, key=key, kind=kind, cr=cr)
        found[ref.name] = effects(kind, asyncio.run(decision.decide()))
    return found


def pods(world: World) -> dict[str, str]:
    return {ref.name: obj["metadata"]["uid"] for ref, obj in world.api.objects.items() if ref.type == POD}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.type.group_kind)
@EXAMPLES
@given(data=st.data())
def test_of_what_is_settled_nothing_changes(kind: Kind, data: st.DataObject) -> None:
    world = World()
    # One that wants a restart after each restart is never settled.
    world.answer = data.draw(ANSWERS.filter(lambda answer: not answer.facts.get("pending_restart")), "answer")
    world.api.put(SECRET, KEYS)
    world.api.put(CONFIG_MAP, {"metadata": {"namespace": "ns", "name": "code"}, "data": {"orders.py": "x"}})
    spec = may_follow(data.draw(SPECS[kind.type.group_kind], "spec"), None)
    # Nor is one whose server waits for a certificate that nobody issues here.
    assume("issuerRef" not in (spec.get("tls") or {}))
    world.api.put(kind.type, resource(kind, "x", **spec))
    world.settle()
    world.wait_long()
    writes = world.api.writes.total()
    (found,) = diff(world).values()
    assert not found.changes, found
    assert world.api.writes.total() == writes


def test_of_a_settled_backup_and_its_restore_nothing_changes() -> None:
    world = World()
    backup_world.begun(world)
    backup_world.pass_time(world)
    backup_world.restored_in_place(world)
    backup_world.pass_time(world, times=12)
    found = diff(world)
    assert not [each for each in found.values() if each.changes]
    assert {"db", "nightly"} <= found.keys()


DATABASES: dict[str, Object] = {
    "a": {},
    "b": {"updates": "Auto"},
    "c": {"updates": "Manual"},
    "d": {"updates": "OnRestart"},
    "e": {"storage": {"ephemeral": True}},
    "f": {"storage": {"ephemeral": True}, "updates": "Auto"},
    "g": {"maintenanceWindow": ALWAYS},
    "h": {"maintenanceWindow": {"schedule": "0 0 29 2 *", "duration": "1m"}},
    "i": {"hibernate": True},
    "j": {"paused": True},
    "k": {"image": "postgres:16"},
    "l": {"mode": "Plan"},
}


def test_the_pods_that_it_names_are_those_that_the_queue_comes_to() -> None:
    """To its end: the model's servers get Ready again, and it is never February the 29th here."""
    world = World()
    for name, spec in DATABASES.items():
        if name not in "jl":
            world.api.put(FIRST.type, resource(FIRST, name, **spec))
    for name in "jl":
        world.api.put(FIRST.type, resource(FIRST, name))
    world.settle()
    for name in "jl":
        world.api.edit(Ref(FIRST.type, "ns", name), {"spec": DATABASES[name]})
    world.settle()
    before = pods(world)
    found = diff(world, operator(NEW))
    listed = [effect for each in found.values() for effect in each.effects]
    when = {pod: effect.when for effect in listed for pod in effect.rolls}
    assert when == {
        "a-0": "InTurn", "b-0": "InTurn", "f-0": "InTurn", "g-0": "InTurn", "h-0": "AwaitingWindow"
    }  # fmt: skip
    stays = {pod: effect.when for effect in listed for pod in effect.stays}
    assert stays == {"c-0": "Manual", "d-0": "NextRestart", "e-0": "NextRestart"}
    assert {effect.object for effect in listed if effect.data} == {"StatefulSet/f"}
    assert not {name for name in "jkl" if found[name].changes}
    upgrade(world)
    world.settle()
    after = pods(world)
    rolled = {name for name, uid in before.items() if after.get(name) != uid}
    assert rolled == {name for name, moment in when.items() if moment == "InTurn"}
    pending = {name: find_condition(world.status(FIRST, name), "RestartPending") for name in "cdeh"}
    assert {f"{name}-0": item["reason"] for name, item in pending.items()} == {
        **stays,
        "h-0": "AwaitingWindow",
    }
    assert not [each for each in diff(world).values() if each.changes]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.type.group_kind)
def test_what_has_no_children_yet_is_made_as_it_says(kind: Kind) -> None:
    world = World()
    world.api.put(kind.type, resource(kind, "x", **LEAST[kind.type.kind]))
    world.deliver()
    (found,) = diff(world).values()
    said = {effect.object for effect in found.effects}
    before = set(world.api.objects)
    world.settle()
    made = {f"{ref.type.kind}/{ref.name}" for ref in set(world.api.objects) - before if ref.type != POD}
    assert said == made


def test_a_server_that_is_not_asked_is_said_to_be_unknown() -> None:
    world = World()
    world.answer = ExternalResult(ok=True, facts={"login": True})
    world.api.put(FIRST.type, resource(FIRST, "db", parameters={"work_mem": "5MB"}))
    world.settle()
    logins: list[Any] = list(world.logins)
    (found,) = diff(world).values()
    assert (found.changes, bool(found.unknown)) == (False, True)
    assert world.logins == logins
