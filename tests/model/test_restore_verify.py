"""A copy that is checked and thrown away: begun with no server, run once, and nothing is touched by it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kindling.kube.resources import CONFIG_MAP, SECRET, STATEFUL_SET, VOLUME_CLAIM, Object, Ref

from tests.model.backup_world import (
    BEFORE,
    DATABASE,
    DB,
    NIGHTLY,
    RESTORE,
    asked_of_restore,
    assert_failed_for_good,
    assert_restored_once,
    edit,
    message_of_restore,
    pass_time,
    pod_of,
    ready,
    runs_of_restore,
    sampled_faults,
    status,
    volume_of_copy,
    with_backup,
)
from tests.model.faults import Fault
from tests.model.world import World, resource

SPEC: dict[str, Any] = {
    "source": {"backupRef": {"name": "nightly"}},
    "databaseRef": {"name": "db"},
    "into": "Verify",
}
QUERY = {"database": "postgres", "sql": "SELECT count(*) FROM item", "expect": "7"}
OTHER = {"database": "postgres", "sql": "SELECT 1", "expect": "1"}
SMALL = {"limits": {"memory": "300Mi"}}


def prove(world: World, **spec: Any) -> None:
    world.api.put(RESTORE.type, resource(RESTORE, "before", **{**SPEC, **spec}))


def test_a_moment_is_proven_and_nothing_is_made_or_touched() -> None:
    world, _ = with_backup()
    before = {ref: obj["metadata"]["resourceVersion"] for ref, obj in world.api.objects.items()}
    prove(world, recoveryTarget={"targetLSN": "0/3000060"})
    pass_time(world)
    assert (status(world, BEFORE)["phase"], ready(world, BEFORE)) == ("Completed", ("True", "Succeeded"))
    assert status(world, BEFORE)["restoreDuration"].keys() == {"download", "replay", "check", "total"}
    assert "has passed its checks" in message_of_restore(world)
    assert asked_of_restore(world)["target"] == {"lsn": "0/3000060", "exclusive": False}
    for ref in (Ref(STATEFUL_SET, "ns", "db"), Ref(SECRET, "ns", "nightly-verify")):
        assert world.api.objects[ref]["metadata"]["resourceVersion"] == before[ref]
    assert world.api.objects[DB].get("spec") == resource(DATABASE, "db").get("spec")
    assert "annotations" not in world.api.objects[DB]["metadata"]
    new = {(ref.type, ref.name) for ref in world.api.objects.keys() - before.keys()}
    assert not [name for type, name in new if type in (DATABASE.type, VOLUME_CLAIM, SECRET)]
    world.restart()
    pass_time(world)
    assert runs_of_restore(world) == ["before-restore-1"]
    assert world.writes_at_rest() == 0


def test_its_run_is_as_the_backups_own() -> None:
    """Only what is asked for differs, and whose labels it has."""
    verify = {"queries": [QUERY], "amcheck": "Indexes", "resources": SMALL, "storage": {"size": "9Gi"}}
    world, _ = with_backup(verify=verify)
    prove(world)
    pass_time(world)
    own, pod = pod_of(world, "nightly-verify-now-1"), pod_of(world, "before-restore-1")
    assert pod["containers"][0].pop("resources")["limits"] == SMALL["limits"]
    own["containers"][0].pop("resources")
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert volume_of_copy(pod)[0] == "9Gi"
    assert volumes["files"]["secret"]["secretName"] == "nightly-verify", "that may only read"
    own["volumes"] = [each for each in own["volumes"] if each["name"] != "request"]
    pod["volumes"] = [each for each in pod["volumes"] if each["name"] != "request"]
    assert pod == own
    theirs = json.loads(world.api.objects[Ref(CONFIG_MAP, "ns", "nightly-backup")]["data"]["verify.json"])
    theirs.pop("uid")
    assert {**theirs, "target": None, "set": None} == asked_of_restore(world)


@pytest.mark.parametrize(
    ("own", "queries", "amcheck"),
    [
        ({}, [QUERY], "Indexes"),
        ({"queries": []}, [], "Indexes"),
        ({"queries": [OTHER]}, [OTHER], "Indexes"),
        ({"amcheck": "Off"}, [QUERY], "Off"),
    ],
)
def test_what_it_does_not_say_is_checked_as_for_the_backup(own: Object, queries: Any, amcheck: str) -> None:
    world, _ = with_backup(verify={"queries": [QUERY], "amcheck": "Indexes"})
    prove(world, verify=own)
    pass_time(world)
    assert (asked_of_restore(world)["queries"], asked_of_restore(world)["amcheck"]) == (queries, amcheck)


def test_its_own_volume_and_resources_come_first() -> None:
    """Each part of the volume that it leaves out is as for the Backup."""
    backups = {"resources": SMALL, "storage": {"size": "9Gi", "storageClassName": "slow"}}
    world, _ = with_backup(verify=backups)
    own = {"limits": {"memory": "400Mi"}}
    prove(world, verify={"storage": {"storageClassName": "fast"}, "resources": own})
    pass_time(world)
    pod = pod_of(world, "before-restore-1")
    assert pod["containers"][0]["resources"] == own
    assert volume_of_copy(pod) == ("9Gi", "fast")
    assert asked_of_restore(world).keys() == {"target", "set", "settings", "timeline", "amcheck", "queries"}


def test_it_needs_no_server() -> None:
    world, _ = with_backup()
    world.api.remove(DB)
    pass_time(world)
    assert DB not in world.api.objects
    prove(world)
    pass_time(world)
    assert (status(world, BEFORE)["phase"], ready(world, BEFORE)) == ("Completed", ("True", "Succeeded"))


@pytest.mark.parametrize(("far", "fault"), sampled_faults(8))
def test_whatever_fails_it_is_run_once(far: int, fault: Fault) -> None:
    world, _ = with_backup()
    world.faulty.writes.extend([*[None] * far, fault])
    prove(world)
    pass_time(world, times=10, seconds=60)
    assert_restored_once(world)


@pytest.mark.parametrize("reason", ["QueryFailed", "ChecksumFailed", "WalGap", "TargetNotReached"])
def test_what_the_checks_found_is_the_result(reason: str) -> None:
    world, runs = with_backup()
    runs.failing["verify"] = reason
    prove(world)
    pass_time(world, times=10, seconds=600)
    assert_failed_for_good(world, reason)
    assert message_of_restore(world).startswith("M. It is not retried, and no server was touched")
    assert ready(world, NIGHTLY) == ("True", "Succeeded"), "the newest moment is another matter"
    assert world.writes_at_rest() == 0


@pytest.mark.parametrize("reason", ["StoreUnreachable", "Interrupted"])
def test_what_ends_by_itself_is_repeated(reason: str) -> None:
    world, runs = with_backup()
    runs.failing["verify"] = reason
    prove(world)
    pass_time(world, times=3, seconds=60)
    assert status(world, BEFORE)["phase"] == "Restoring"
    runs.failing.clear()
    pass_time(world, times=10, seconds=60)
    assert (status(world, BEFORE)["phase"], ready(world, BEFORE)) == ("Completed", ("True", "Succeeded"))
    assert len(runs_of_restore(world)) >= 2


@pytest.mark.parametrize(
    ("time", "reason"),
    [("2001-01-01T00:00:00Z", "TargetTooEarly"), ("2101-01-01T00:00:00Z", "TargetNotReached")],
)
def test_a_time_out_of_reach_is_refused_before_it_begins(time: str, reason: str) -> None:
    world, _ = with_backup()
    prove(world, recoveryTarget={"targetTime": time})
    pass_time(world)
    assert ready(world, BEFORE) == ("False", reason)
    assert "The Backup leads to any moment from" in message_of_restore(world)
    assert runs_of_restore(world) == []


@pytest.mark.parametrize("other", [{"name": "other"}, {"name": "db", "group": "database.db.example.com"}])
def test_it_is_of_the_backups_own_database(other: dict[str, str]) -> None:
    world, _ = with_backup()
    prove(world, databaseRef=other)
    pass_time(world)
    assert ready(world, BEFORE) == ("False", "RepositoryOfAnotherDatabase")
    assert "name db, group database.technotuesday.io" in message_of_restore(world)
    assert runs_of_restore(world) == []


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ({"into": "New", "verify": {}}, "spec.verify is for spec.into Verify"),
        ({"postgresql": {"storage": {"size": "1Gi"}}}, "spec.postgresql is for a Postgresql that is made"),
        ({"databases": [{"name": "a"}]}, "spec.databases is for spec.into Databases"),
        ({"undo": True}, "spec.undo is for a restore in place"),
        (
            {
                "source": {
                    "targetURL": "s3://bucket/prefix/ns/db/7300000000000000001",
                    "credentialsSecretRef": {"name": "store"},
                }
            },
            "spec.verify.storage.size is needed",
        ),
    ],
)
def test_what_the_server_let_through_is_refused_all_the_same(patch: dict[str, Any], said: str) -> None:
    world, _ = with_backup()
    prove(world, **patch)
    pass_time(world)
    assert ready(world, BEFORE) == ("False", "InvalidSpec")
    assert said in message_of_restore(world)
    assert runs_of_restore(world) == []


def test_a_backup_that_is_edited_later_changes_nothing_of_one_that_is_over() -> None:
    world, _ = with_backup()
    prove(world)
    pass_time(world)
    edit(world, NIGHTLY, verify={"queries": [QUERY]})
    pass_time(world, times=6)
    assert runs_of_restore(world) == ["before-restore-1"]
    assert status(world, BEFORE)["phase"] == "Completed"
