"""A reconciliation when the server rejects a part of it, and its reports of other writers' changes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from kindling.engine.external import WAIT_SECONDS, ExternalState
from kindling.engine.metrics import Metrics
from kindling.engine.queue import Queue
from kindling.engine.store import Key
from kindling.engine.worker import Reconciler, work
from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import find_condition
from kindling.kube.resources import (
    CONFIG_MAP,
    POD,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    VOLUME_CLAIM,
    Object,
    Ref,
    ResourceType,
)

from tests.model.world import KINDS, KINDS_BY_NAME, World, resource

KIND = KINDS[0]
MEMCACHED = KINDS_BY_NAME["memcached.cache.example.com"]


def with_database() -> World:
    world = World()
    world.api.put(KIND.type, resource(KIND, "db"))
    world.settle()
    assert ready(world)["status"] == "True"
    return world


def ready(world: World) -> Object:
    return find_condition(world.status(KIND, "db"), "Ready")


def test_a_refused_change_does_not_keep_the_others_from_being_repaired(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = with_database()
    world.api.refuse = CONFIG_MAP
    world.api.edit(Ref(CONFIG_MAP, "ns", "db-config"), {"data": {"pg_hba.conf": "host all all all trust"}})
    world.api.edit(Ref(STATEFUL_SET, "ns", "db"), {"spec": {"replicas": 0}})
    world.settle()
    assert world.api.objects[Ref(STATEFUL_SET, "ns", "db")]["spec"]["replicas"] == 1
    assert ready(world)["reason"] == "ApplyRejected"
    assert "was changed again after apply" not in caplog.text
    world.api.refuse = None
    world.resync()
    world.settle()
    assert "trust" not in world.api.objects[Ref(CONFIG_MAP, "ns", "db-config")]["data"]["pg_hba.conf"]
    assert ready(world)["status"] == "True"


def test_what_may_need_a_refused_new_child_is_not_made() -> None:
    world = World()
    world.api.refuse = CONFIG_MAP
    world.api.put(KIND.type, resource(KIND, "db"))
    world.settle()
    assert Ref(SECRET, "ns", "db-binding") in world.api.objects
    assert Ref(STATEFUL_SET, "ns", "db") not in world.api.objects


def test_repairs_are_reported_and_our_own_changes_are_not() -> None:
    world = with_database()
    assert world.repaired == []
    world.api.edit(Ref(KIND.type, "ns", "db"), {"spec": {"image": "postgres:17.1"}})
    world.settle()
    assert world.repaired == []
    world.api.edit(Ref(STATEFUL_SET, "ns", "db"), {"spec": {"replicas": 3}})
    world.settle()
    world.api.remove(Ref(SERVICE, "ns", "db"))
    world.settle()
    assert world.repaired == [("StatefulSet", "edited"), ("Service", "new")]


def test_a_rotated_password_is_no_repair() -> None:
    world = with_database()
    world.api.edit(Ref(KIND.type, "ns", "db"), {"spec": {"password": "another"}})
    world.settle()
    world.api.edit(Ref(SECRET, "ns", "db-binding"), {"data": {"host": "bm93aGVyZQ=="}})
    world.settle()
    assert world.repaired == []


def test_a_good_answer_is_believed_however_long_it_was_given() -> None:
    """What changes inside a server the health checks find."""
    world = with_database()
    asked = len(world.logins)
    world.now += timedelta(days=1)
    assert world.writes_at_rest() == 0
    assert len(world.logins) == asked


def test_no_pass_waits_for_a_server_that_hangs_and_its_answer_names_the_key() -> None:
    world = with_database()
    key, service = Key(KIND.type.group_kind, "ns", "db"), Ref(SERVICE, "ns", "db")

    async def run() -> None:
        answer: asyncio.Future[ExternalResult] = asyncio.get_running_loop().create_future()

        async def hang(_: object) -> ExternalResult:
            return await answer

        queue: Queue[Key] = Queue()
        external_state = ExternalState(send=hang, run=hang, requeue=queue.add)
        dependencies = replace(world.reconciler.dependencies, external_state=external_state)
        reconciler = Reconciler(dependencies=dependencies, kinds=world.reconciler.kinds)
        working = asyncio.create_task(work(reconciler, queue, Metrics()))
        queue.add(key)
        for _ in range(2):
            async with asyncio.timeout(3 * WAIT_SECONDS):
                while not queue.idle:
                    await asyncio.sleep(0.01)
            assert ready(world)["status"] == "True", "nothing is known yet that would change it"
            removed = world.api.objects[service]
            world.api.remove(service)
            for named in world.store.delete(SERVICE, removed):
                queue.add(named)
            async with asyncio.timeout(1):
                while service not in world.api.objects:
                    await asyncio.sleep(0.001)
        answer.set_result(ExternalResult(ok=False, reason="LoginFailed", message="m"))
        async with asyncio.timeout(2 * WAIT_SECONDS):
            while ready(world)["status"] != "False":
                await asyncio.sleep(0.01)
        working.cancel()
        queue.shut_down()

    asyncio.run(run())


def test_a_child_that_is_seen_ahead_of_its_resource_is_not_set_back() -> None:
    """Each watch has its own delay: a child of a new spec can be seen before the spec itself."""
    world = with_database()
    cr, workload = Ref(KIND.type, "ns", "db"), Ref(STATEFUL_SET, "ns", "db")
    before = world.api.objects[workload]
    spec = {"spec": {"resources": {"limits": {"memory": "1Gi"}}}}
    world.api.edit(cr, spec)
    world.settle()
    after = world.api.objects[workload]
    assert after["spec"] != before["spec"]
    world.api.edit(cr, {"spec": {"resources": None}})
    world.settle()

    world.api.edit(cr, spec)
    world.api.edit(workload, {"metadata": {"annotations": after["metadata"]["annotations"]}})
    world.api.put(STATEFUL_SET, after)
    writes = world.api.writes["apply", "StatefulSet"]
    for named in world.store.upsert(STATEFUL_SET, world.api.objects[workload]):
        world.queue.add(named)
    world.work()
    assert world.api.writes["apply", "StatefulSet"] == writes
    world.wait_long()
    assert world.api.writes["apply", "StatefulSet"] == writes
    assert world.api.objects[workload]["spec"] == after["spec"]


@pytest.mark.parametrize("fate", ["deleted", "being deleted", "created again"])
def test_nothing_is_written_for_a_resource_whose_deletion_was_missed(fate: str) -> None:
    """A child created for it would belong to nobody, or to the next resource of its name."""
    world, cr = with_database(), Ref(KIND.type, "ns", "db")
    if fate == "being deleted":
        world.api.edit(cr, {"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}})
    else:
        world.api.remove(cr, collect=False)
    if fate == "created again":
        world.api.put(KIND.type, resource(KIND, "db"))
    world.forget(KIND.type)
    world.api.remove(Ref(SERVICE, "ns", "db"), collect=False)
    writes = world.api.writes.total()
    world.deliver()
    world.work()
    assert (world.api.writes.total(), world.failures) == (writes, 0)
    assert Ref(SERVICE, "ns", "db") not in world.api.objects


@pytest.mark.parametrize("edited", [False, True])
def test_a_resource_whose_end_the_watch_has_hidden_is_forgotten(edited: bool) -> None:
    """Whichever request finds out: the question whether it is there, or the patch of its status."""
    world, cr = with_database(), Ref(KIND.type, "ns", "db")
    if edited:
        world.api.edit(cr, {"spec": {"users": ["ada"]}})
        world.deliver()
    world.api.remove(Ref(SERVICE, "ns", "db"), collect=False)
    world.api.remove(cr, collect=False)
    world.forget(KIND.type)
    world.deliver()
    world.work()
    assert world.store.resource(Key(KIND.type.group_kind, "ns", "db")) is None


def test_a_resource_that_is_being_deleted_is_left_alone() -> None:
    world = with_database()
    world.api.edit(Ref(KIND.type, "ns", "db"), {"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}})
    world.api.set_status(Ref(POD, "ns", "db-0"), {})
    writes, asked = world.api.writes.total(), len(world.logins)
    world.now += timedelta(days=1)
    world.settle(pods=False)
    assert (world.api.writes.total(), len(world.logins)) == (writes, asked)


def test_of_a_refused_spec_nothing_is_asked() -> None:
    """A login by a name that the operator keeps to itself, say."""
    world = with_database()
    asked = len(world.logins)
    world.api.edit(Ref(KIND.type, "ns", "db"), {"spec": {"defaultUser": "kindling"}})
    world.settle()
    assert ready(world)["reason"] == "InvalidSpec"
    assert len(world.logins) == asked


def test_a_resource_is_asked_for_once_before_all_rounds_of_writing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, asked = World(), list[Ref]()
    get = world.faulty.get

    async def counted(ref: Ref) -> Object:
        asked.append(ref)
        return await get(ref)

    monkeypatch.setattr(world.faulty, "get", counted)
    world.api.put(KIND.type, resource(KIND, "db"))
    world.settle()
    assert asked.count(Ref(KIND.type, "ns", "db")) == 1
    children = [ref for ref in asked if ref.type not in (KIND.type, SECRET)]
    assert len(children) == len(set(children)) == 5, "nor is a child that is to be created looked for twice"
    world.api.remove(Ref(VOLUME_CLAIM, "ns", "db-data"))  # It comes first, then what waits for its uid.
    world.api.remove(Ref(STATEFUL_SET, "ns", "db"))
    world.deliver()
    world.work()
    assert Ref(STATEFUL_SET, "ns", "db") in world.api.objects
    assert asked.count(Ref(KIND.type, "ns", "db")) == 2


def test_a_webhook_that_changes_applied_fields_is_reported_and_not_fought(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    for verb in ("create", "apply"):
        write = getattr(world.api, verb)

        async def changed(type: ResourceType, body: Object, write: Any = write) -> Object:
            spec = {"spec": {**body["spec"], "replicas": 2}} if type == STATEFUL_SET else {}
            written: Object = await write(type, {**body, **spec})
            return written

        monkeypatch.setattr(world.api, verb, changed)
    world.answer = ExternalResult(ok=False, reason="LoginFailed", message="m")
    world.api.put(KIND.type, resource(KIND, "db"))
    world.settle()
    assert "was changed again after apply" in caplog.text
    assert world.logins  # what comes after the children goes on


def test_a_resource_that_is_reconciled_often_is_probed_at_the_usual_times() -> None:
    """Its probe follows from its last answer, which a reconciliation must know before it lists its probes."""
    world = with_database()
    [due] = world.reconciler.dependencies.external_state._due._due.items()
    for _ in range(3):
        world.queue.add(Key(KIND.type.group_kind, "ns", "db"))
        world.work()
    assert list(world.reconciler.dependencies.external_state._due._due.items()) == [due]
