"""Databases loaded out of a backup: begun once the Postgresql takes them, loaded once, whatever fails."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds.restore import REQUEST
from kindling.kube.resources import CONFIG_MAP, JOB, VOLUME_CLAIM, Ref

from tests.model.backup_world import (
    BEFORE,
    DATABASE,
    DB,
    RESTORE,
    assert_restored_once,
    edit,
    message_of_restore,
    pass_time,
    ready,
    runs_of_restore,
    sampled_faults,
    status,
    with_backup,
)
from tests.model.faults import Fault
from tests.model.world import World, resource

SPEC: dict[str, Any] = {
    "source": {"backupRef": {"name": "nightly"}},
    "databaseRef": {"name": "db"},
    "into": "Databases",
    "databases": [{"name": "shop"}, {"name": "shop-2", "as": "old", "tables": ["public.item"]}],
}


def load(world: World, **spec: Any) -> None:
    world.api.put(RESTORE.type, resource(RESTORE, "before", **{**SPEC, **spec}))


def test_databases_are_loaded_and_nothing_is_made() -> None:
    world, _ = with_backup()
    load(world)
    pass_time(world)
    assert (status(world, BEFORE)["phase"], ready(world, BEFORE)) == ("Completed", ("True", "Restored"))
    assert "shop, old" in message_of_restore(world)
    assert not [
        ref for ref in world.api.objects if ref.type == VOLUME_CLAIM and ref.name.startswith("before")
    ]
    asked = world.api.objects[Ref(CONFIG_MAP, "ns", "before-restore")]["data"][REQUEST]
    assert '"host": "db.ns.svc"' in asked
    assert '"as": "old"' in asked
    world.restart()
    pass_time(world)
    assert runs_of_restore(world) == ["before-restore-1"]
    assert world.writes_at_rest() == 0


def test_the_run_opens_the_server_and_writes_to_no_volume_of_it() -> None:
    world, _ = with_backup()
    load(world)
    pass_time(world)
    pod = world.api.objects[Ref(JOB, "ns", "before-restore-1")]["spec"]["template"]["spec"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    named = [each["secret"] for each in volumes["target"]["projected"]["sources"]]
    assert named == [
        {"name": "db-superuser", "items": [{"key": "password", "path": "password"}]},
        {"name": "db-server-tls", "items": [{"key": "ca.crt", "path": "ca.crt"}]},
    ]
    assert volumes["files"]["secret"]["secretName"] == "nightly-verify", "that may only read"
    assert "ephemeral" in volumes["data"], "a volume that goes with the Pod"


@pytest.mark.parametrize(("far", "fault"), sampled_faults(10))
def test_whatever_fails_they_are_loaded_once(far: int, fault: Fault) -> None:
    world, _ = with_backup()
    world.faulty.writes.extend([*[None] * far, fault])
    load(world)
    pass_time(world, times=10, seconds=60)
    assert_restored_once(world)


@pytest.mark.parametrize("reason", ["TargetExists", "NotInBackup", "RoleNotFound", "LoadFailed"])
def test_what_another_run_would_not_change_is_not_repeated(reason: str) -> None:
    world, runs = with_backup()
    runs.failing["load"] = reason
    load(world)
    pass_time(world, times=10, seconds=600)
    assert runs_of_restore(world) == ["before-restore-1"]
    assert (status(world, BEFORE)["phase"], ready(world, BEFORE)) == ("Failed", ("False", reason))
    assert "no database was made" in message_of_restore(world)
    assert world.writes_at_rest() == 0


@pytest.mark.parametrize("reason", ["StoreUnreachable", "DatabaseUnreachable", "Interrupted"])
def test_what_ends_by_itself_is_repeated(reason: str) -> None:
    world, runs = with_backup()
    runs.failing["load"] = reason
    load(world)
    pass_time(world, times=3, seconds=60)
    assert status(world, BEFORE)["phase"] == "Restoring"
    runs.failing.clear()
    pass_time(world, times=10, seconds=60)
    assert (status(world, BEFORE)["phase"], ready(world, BEFORE)) == ("Completed", ("True", "Restored"))
    assert len(runs_of_restore(world)) >= 2


def test_it_waits_for_a_server_that_is_there_and_takes_it() -> None:
    world, _ = with_backup()
    load(world, databaseRef={"name": "other"})
    pass_time(world)
    assert ready(world, BEFORE) == ("False", "DatabaseNotFound")
    world.api.put(DATABASE.type, resource(DATABASE, "other", paused=True))
    pass_time(world)
    assert ready(world, BEFORE) == ("False", "Paused")
    assert runs_of_restore(world) == []
    edit(world, Ref(DATABASE.type, "ns", "other"), paused=False)
    pass_time(world, times=8)
    assert ready(world, BEFORE) == ("True", "Restored")
    assert runs_of_restore(world) == ["before-restore-1"]


def test_it_does_not_begin_while_the_server_is_down() -> None:
    world, _ = with_backup()
    edit(world, DB, hibernate=True)
    pass_time(world)
    load(world)
    pass_time(world)
    assert ready(world, BEFORE) == ("False", "DatabaseNotReady")
    assert runs_of_restore(world) == []
    edit(world, DB, hibernate=False)
    pass_time(world, times=8)
    assert ready(world, BEFORE) == ("True", "Restored")


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ({"into": "New"}, "spec.databases is for spec.into Databases"),
        ({"databases": None}, "spec.into Databases needs spec.databases"),
        ({"databases": []}, "spec.into Databases needs spec.databases"),
        ({"postgresql": {"storage": {"size": "1Gi"}}}, "spec.postgresql is for a Postgresql that is made"),
        ({"databases": [{"name": "a"}, {"name": "b", "as": "a"}]}, "several that become 'a'"),
        ({"undo": True}, "spec.undo is for a restore in place"),
    ],
)
def test_what_the_server_let_through_is_refused_all_the_same(patch: dict[str, Any], said: str) -> None:
    world, _ = with_backup()
    load(world, **patch)
    pass_time(world)
    assert ready(world, BEFORE) == ("False", "InvalidSpec")
    assert said in message_of_restore(world)
    assert runs_of_restore(world) == []
