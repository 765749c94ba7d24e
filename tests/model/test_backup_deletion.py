"""What a deleted Backup does before it goes, with `deletionPolicy: Delete`."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds.conditions import find_condition
from kindling.kube.errors import Rejected
from kindling.kube.resources import JOB, POD, SECRET, Object, Ref, ref_of

from tests.model.backup_world import (
    DB,
    EACH_FAULT,
    KIND,
    NIGHTLY,
    Runs,
    begun,
    made,
    pass_time,
    ready,
    secret,
    status,
)
from tests.model.faults import Fault
from tests.model.world import World, resource
from tests.unit.operator import backups


def deleted(world: World, **spec: Any) -> Runs:
    """A Backup that has run and is then deleted, with what it stored."""
    runs = begun(world, deletionPolicy="Delete", **spec)
    pass_time(world)
    assert world.api.objects[NIGHTLY]["metadata"]["finalizers"] == ["kindling.dev/stored-backups"]
    world.api.remove(NIGHTLY)
    return runs


def rejected(world: World) -> Runs:
    """A Backup that is deleted, and whose store rejects the keys."""
    runs = deleted(world)
    runs.failing["delete"] = "AccessDenied"
    pass_time(world, times=6)
    return runs


def test_what_is_stored_is_deleted_once_the_database_has_stopped_archiving() -> None:
    world = World()
    deleted(world, verify={})
    files = world.api.objects[Ref(SECRET, "ns", "db-archive")]["data"]
    pass_time(world)
    assert made(world) == ["nightly-now-1", "nightly-verify-now-1", "nightly-delete-1"]
    before: dict[Ref, Object] = {}
    for _, type, obj in world.api.events:
        if type == JOB and obj["metadata"]["name"] == "nightly-delete-1":
            break
        before[ref_of(type, obj)] = obj
    assert len(before[Ref(POD, "ns", "db-0")]["spec"]["containers"]) == 1
    assert before[Ref(SECRET, "ns", "db-archive")]["data"] == files, "it opens the store until the end"
    assert NIGHTLY not in world.api.objects
    assert ready(world, DB)[0] == "True"


@EACH_FAULT
@pytest.mark.parametrize("far", range(0, 16, 2))
def test_whatever_fails_it_is_deleted_by_one_run(far: int, fault: Fault) -> None:
    world = World()
    deleted(world)
    world.faulty.writes.extend([*[None] * far, fault])
    pass_time(world, times=8)
    pass_time(world, times=8)
    assert made(world) == ["nightly-now-1", "nightly-delete-1"]
    assert NIGHTLY not in world.api.objects


def test_a_store_that_rejects_the_keys_keeps_it_until_they_are_right() -> None:
    world = World()
    runs = rejected(world)
    assert ready(world, NIGHTLY) == ("False", "AccessDenied")
    message = find_condition(status(world, NIGHTLY), "Ready")["message"]
    assert message == (
        "What is stored could not be deleted: M. It is repeated by itself. To keep what is stored and let "
        "this Backup go, set spec.deletionPolicy to Retain."
    )
    tried = made(world)
    runs.failing.clear()
    world.api.put(SECRET, secret("store", accessKeyId="key", secretAccessKey="right"))
    pass_time(world, times=3, seconds=2)
    assert NIGHTLY not in world.api.objects
    assert made(world) == [*tried, f"nightly-delete-{len(tried)}"]


def test_a_paused_database_archives_on_and_is_waited_for() -> None:
    world = World()
    begun(world, deletionPolicy="Delete")
    pass_time(world)
    world.api.edit(DB, {"spec": {"paused": True}})
    pass_time(world)
    world.api.remove(NIGHTLY)
    pass_time(world)
    found = status(world, NIGHTLY)
    said = find_condition(found, "Ready")["message"]
    assert said.startswith(
        "Postgresql db stops archiving first, which takes a restart of its server, and that waits "
        "(its condition Paused); see its conditions"
    )
    assert find_condition(found, "Archiving")["status"] == "True"
    assert made(world) == ["nightly-now-1"]
    world.api.edit(DB, {"spec": {"paused": False}})
    pass_time(world)
    assert NIGHTLY not in world.api.objects


def test_one_that_is_to_keep_what_is_stored_after_all_goes_at_once() -> None:
    world = World()
    rejected(world)
    world.api.edit(NIGHTLY, {"spec": {"deletionPolicy": "Retain"}})
    pass_time(world, times=1)
    assert NIGHTLY not in world.api.objects


def test_without_its_database_it_deletes_what_is_stored() -> None:
    world = World()
    begun(world, deletionPolicy="Delete")
    pass_time(world)
    world.api.remove(DB)
    pass_time(world, times=1)
    world.api.remove(NIGHTLY)
    pass_time(world)
    assert made(world)[-1] == "nightly-delete-1"
    assert NIGHTLY not in world.api.objects


def test_one_that_lost_against_another_deletes_nothing_of_it() -> None:
    """The place in the store is the same."""
    world = World()
    begun(world)
    pass_time(world)
    other = Ref(KIND.type, "ns", "weekly")
    world.api.put(KIND.type, resource(KIND, "weekly", **{**backups.SPEC, "deletionPolicy": "Delete"}))
    pass_time(world)
    assert ready(world, other) == ("False", "BackupConflict")
    world.api.remove(other)
    pass_time(world)
    assert other not in world.api.objects
    assert made(world) == ["nightly-now-1"]
    assert ready(world, NIGHTLY) == ("True", "Succeeded")


def test_in_a_namespace_that_is_deleted_it_goes_too() -> None:
    """Nothing can be created there any more, so what is stored stays."""
    world = World()
    deleted(world)

    def refuse() -> None:
        raise Rejected(
            status=403,
            reason="Forbidden",
            message='jobs.batch "nightly-delete-1" is forbidden: unable to create new content in namespace '
            "ns because it is being terminated",
        )

    world.faulty.refuse_new = refuse
    pass_time(world, times=8)
    assert NIGHTLY not in world.api.objects
    assert made(world) == ["nightly-now-1"]
