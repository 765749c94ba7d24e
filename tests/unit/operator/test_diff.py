"""What `kindling.diff` makes of a decision: Pods, data, no content of a Secret; and that it cannot write."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from kindling.config import Config
from kindling.diff.decision import Decided, Decision
from kindling.diff.effects import ABSENT, HIDDEN, ResourceDiff, effects
from kindling.diff.reading import ReadOnlyApi, WriteAttempted, dependencies, refuse
from kindling.diff.report import Differences, summary, text, written
from kindling.engine.plan import Apply, Delete
from kindling.engine.store import Store, key_of
from kindling.kinds.base import Problem
from kindling.kinds.planned import UPDATE, Change, Disruption
from kindling.kube.client import Client
from kindling.kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    POD,
    SECRET,
    STATEFUL_SET,
    VOLUME_CLAIM,
    Object,
    Ref,
    ResourceType,
)
from kindling.served import served

IMAGES = {
    f"KINDLING_IMAGE_{name}": "image:1"
    for name in ("POSTGRES", "POSTGRES_INIT", "POSTGRES_BACKUP", "MEMCACHED", "EXPORTERS", "PULSAR_CONSUMER")
}
SERVED = served(Config.load(IMAGES))
KIND = SERVED.by_name["postgresql.database.db.example.com"]
CR: Object = {"metadata": {"namespace": "ns", "name": "db", "uid": "u", "generation": 1}, "spec": {}}


def workload(image: str = "a:1", *, type: ResourceType = DEPLOYMENT, replicas: int = 2) -> dict[Ref, Object]:
    """A workload with its Pods, one of them done and one of another."""
    container = {"name": "main", "image": image, "env": [{"name": "API_TOKEN", "value": "canary"}]}
    objects: dict[Ref, Object] = {
        Ref(type, "ns", "db"): {
            "metadata": {"name": "db"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "db"}},
                "template": {"spec": {"containers": [container]}},
            },
        }
    }
    for name, label, phase in (
        ("db-0", "db", "Running"),
        ("db-1", "db", "Pending"),
        ("db-2", "db", "Failed"),
    ):
        pod = {"metadata": {"name": name, "labels": {"app": label, "x": "y"}}, "status": {"phase": phase}}
        objects[Ref(POD, "ns", name)] = pod
    objects[Ref(POD, "ns", "other")] = {"metadata": {"name": "other", "labels": {"app": "other"}}}
    return objects


def applied(
    type: ResourceType, body: Object, *paths: str, held: bool = False, left: tuple[str, ...] = ()
) -> tuple[Apply, Change]:
    whole = {"metadata": {"namespace": "ns", "name": "db"}, **body}
    change = Change(
        action=UPDATE,
        ref=Ref(type, "ns", "db"),
        paths=[tuple(path.split(".")) for path in paths],
        left=[tuple(path.split(".")) for path in left],
        held=held,
    )
    return Apply(type, whole, new=False), change


TEMPLATE: Object = {
    "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "main", "image": "a:2"}]}}}
}
IMAGE = "spec.template.spec.containers.main.image"


def decided(objects: Mapping[Ref, Object], *changes: Any, **more: Any) -> ResourceDiff:
    return effects(KIND, Decided(cr=CR, objects=objects, changes=changes, **more))


def test_pods_roll_that_run_by_the_selector() -> None:
    found = decided(workload(), (*applied(DEPLOYMENT, TEMPLATE, IMAGE), Disruption.RESTART))
    (effect,) = found.effects
    assert (effect.rolls, effect.when, effect.stops) == (["db-0", "db-1"], "AtOnce", 0)
    assert [(field.path, field.old, field.new) for field in effect.fields] == [(IMAGE, "a:1", "a:2")]


@pytest.mark.parametrize(
    ("pending", "rolls", "stays", "data"),
    [
        ({"reason": "AwaitingWindow"}, 2, 0, "is lost"),
        ({"reason": "Manual"}, 0, 2, ""),
        (None, 0, 2, ""),
    ],
)
def test_pods_that_are_held_back_follow_by_the_condition(
    pending: Object | None, rolls: int, stays: int, data: str
) -> None:
    found = decided(
        workload(type=STATEFUL_SET),
        (*applied(STATEFUL_SET, TEMPLATE, IMAGE, held=True), Disruption.NONE),
        pending=pending,
        restarted={Ref(STATEFUL_SET, "ns", "db"): Disruption.DATA_LOST},
    )
    (effect,) = found.effects
    assert (len(effect.rolls), len(effect.stays), effect.data) == (rolls, stays, data)


def test_the_restart_queue_comes_to_what_was_held_before() -> None:
    change = applied(STATEFUL_SET, TEMPLATE, "spec.updateStrategy")
    found = decided(workload(type=STATEFUL_SET), in_turn=[(*change, Disruption.RESTART)])
    assert [(effect.when, len(effect.rolls)) for effect in found.effects] == [("InTurn", 2)]


def test_fewer_replicas_and_a_deleted_workload_stop_pods() -> None:
    less = {"spec": {**TEMPLATE["spec"], "replicas": 1}}
    found = decided(workload(), (*applied(DEPLOYMENT, less, "spec.replicas"), Disruption.NONE))
    assert found.effects[0].stops == 1
    ref = Ref(DEPLOYMENT, "ns", "db")
    gone = (Delete(ref, "u", "1"), Change(action="Delete", ref=ref), Disruption.STOP)
    assert decided(workload(), gone).effects[0].stops == 2


def test_a_volume_is_touched_by_its_size_alone() -> None:
    ref = Ref(VOLUME_CLAIM, "ns", "db")
    known = {ref: {"metadata": {}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}}
    larger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    size = applied(VOLUME_CLAIM, larger, "spec.resources.requests.storage")
    assert decided(known, (*size, Disruption.NONE)).effects[0].data == "the volume is resized: 1Gi → 2Gi"
    label = applied(VOLUME_CLAIM, {}, "metadata.labels.x")
    assert decided(known, (*label, Disruption.NONE)).effects[0].data == ""


def test_no_secret_is_shown() -> None:
    known = {Ref(SECRET, "ns", "db"): {"metadata": {}, "data": {"word": "canary"}}}
    secret = (*applied(SECRET, {"data": {"word": "canary-2"}}, "data.word"), Disruption.NONE)
    token = "spec.template.spec.containers.main.env.API_TOKEN"
    variable = (*applied(DEPLOYMENT, TEMPLATE, left=(token,)), Disruption.RESTART)
    found = Differences(resources=[decided(known, secret), decided(workload(), variable)])
    assert "canary" not in text(found) + str(written(found))
    sides = {field.old for each in found.resources for effect in each.effects for field in effect.fields}
    assert sides == {HIDDEN}


def test_long_and_missing_values_are_said_so() -> None:
    known = {Ref(CONFIG_MAP, "ns", "db"): {"metadata": {}, "data": {"a": "x" * 500}}}
    change = applied(CONFIG_MAP, {"data": {"b": "one\ntwo"}}, "data.a", "data.b")
    fields = decided(known, (*change, Disruption.NONE)).effects[0].fields
    assert [(field.old, field.new) for field in fields] == [
        ("(500 characters)", ABSENT),
        (ABSENT, "(7 characters)"),
    ]


INVALID = Problem(reason="InvalidSpec", message="spec.size '0' is too small: use 1")


@pytest.mark.parametrize(
    ("ready", "problem", "paused", "becomes"),
    [
        ("Ready", INVALID, False, True),
        ("InvalidSpec", INVALID, False, False),
        ("Ready", INVALID, True, False),
        ("Ready", Problem(reason="Terminating", message="wait", transient=True), False, False),
    ],
)
def test_a_resource_becomes_invalid_once(ready: str, problem: Problem, paused: bool, becomes: bool) -> None:
    cr = {**CR, "status": {"conditions": [{"type": "Ready", "reason": ready}]}}
    found = effects(KIND, Decided(cr=cr, objects={}, problem=problem, paused=paused))
    assert (found.becomes_invalid, found.changes) == (becomes, becomes)
    assert bool(found.unknown) == problem.transient


def test_the_sentence() -> None:
    assert summary(Differences(resources=[])) == "nothing changes, 0 resources stay as they are"
    invalid = ResourceDiff(kind="Postgresql", group="g", namespace="n", name="a", becomes_invalid=True)
    same = ResourceDiff(kind="Postgresql", group="g", namespace="n", name="b", unknown=["what is done"])
    rolled = decided(workload(), (*applied(DEPLOYMENT, TEMPLATE, IMAGE), Disruption.DATA_LOST))
    assert summary(Differences(resources=[same])) == (
        "nothing changes, 1 resource stays as it is; not known of 1 resource: what servers say"
    )
    assert summary(Differences(resources=[invalid, same, rolled])) == (
        "2 Pods roll, 1 of 3 Postgresql becomes invalid, the data of 1 resource is touched; "
        "not known of 1 resource: what servers say"
    )


def test_nothing_can_be_written() -> None:
    """Neither by the decision's way to the API, nor by the client below it; and no server is asked."""

    async def attempts() -> None:
        client = Client.__new__(Client)
        api = ReadOnlyApi(client)
        ref = Ref(DEPLOYMENT, "ns", "db")
        for write in (
            api.apply(DEPLOYMENT, {}),
            api.create(DEPLOYMENT, {}),
            api.merge(ref, {}),
            api.delete(ref, uid="u"),
        ):
            with pytest.raises(WriteAttempted):
                await write
        store = Store(SERVED.resources)
        key = key_of(Ref(KIND.type, "ns", "db"))
        decision = Decision(dependencies=dependencies(api, store), key=key, kind=KIND, cr=CR)
        with pytest.raises(WriteAttempted):
            await decision._patch({})
        with pytest.raises(WriteAttempted):
            await decision.dependencies.external_state._send(object())

    asyncio.run(attempts())
    with pytest.raises(WriteAttempted):
        refuse()
