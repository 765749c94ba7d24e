"""Runs of a Backup are begun once and end on record, and a Restore is done once, whatever fails meanwhile."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.metadata import MADE_BY
from kindling.kube.resources import (
    CONFIG_MAP,
    JOB,
    SECRET,
    STATEFUL_SET,
    VOLUME_CLAIM,
    Object,
    Ref,
)

from tests.model.backup_world import (
    BEFORE,
    CLAIM,
    CLONE,
    DATABASE,
    DB,
    FILES,
    KIND,
    NIGHTLY,
    RESTORE,
    URL,
    begun,
    configs,
    made,
    message_of_restore,
    of_a_lost_cluster,
    pass_time,
    ready,
    sampled_faults,
    secret,
    status,
    with_backup,
)
from tests.model.faults import Fault
from tests.model.world import World, resource
from tests.unit.operator import backups


def test_a_database_gets_its_archiver_by_one_restart_and_its_first_backup() -> None:
    world = World()
    begun(world)
    pass_time(world)
    assert made(world) == ["nightly-now-1"]
    assert ready(world, NIGHTLY) == ("True", "Succeeded")
    assert ready(world, DB)[0] == "True"
    pods = [obj for event, type, obj in world.api.events if event == "ADDED" and type.kind == "Pod"]
    starts = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"] == "db-0"]
    assert len(starts) == 2, "its first start, and one for the archiver"
    world.restart()
    pass_time(world)
    assert made(world) == ["nightly-now-1"]


def test_without_its_job_it_is_not_begun_again() -> None:
    world = World()
    begun(world)
    pass_time(world)
    world.api.remove(Ref(JOB, "ns", "nightly-now-1"))
    world.restart()
    pass_time(world)
    assert made(world) == ["nightly-now-1"]
    assert status(world, NIGHTLY)["runs"][0]["phase"] == "Succeeded"


def test_a_view_from_before_its_job_begins_nothing_again() -> None:
    """The operator starts with the resource as it was when the run had begun, and the Job is gone by now."""
    world = World()
    begun(world)
    pass_time(world)
    events = world.api.events
    first = next(at for at, event in enumerate(events) if event[:2] == ("ADDED", JOB))
    stale = [obj for event, type, obj in events[:first] if type == KIND.type][-1]
    assert stale["status"]["attempts"], "the decision is on record"
    world.api.remove(Ref(JOB, "ns", "nightly-now-1"))
    live = world.api.objects[NIGHTLY]
    world.api.objects[NIGHTLY] = stale
    world.restart()
    world.api.objects[NIGHTLY] = live
    pass_time(world)
    assert made(world) == ["nightly-now-1"]
    assert status(world, NIGHTLY)["runs"][0]["phase"] == "Succeeded"


@pytest.mark.parametrize(("far", "fault"), sampled_faults(40, step=3))
def test_whatever_fails_each_run_is_begun_once(far: int, fault: Fault) -> None:
    world = World()
    begun(world, verify={})
    world.faulty.writes.extend([*[None] * far, fault])
    pass_time(world, times=8)
    pass_time(world, times=8)
    assert made(world) == ["nightly-now-1", "nightly-verify-now-1"]
    assert ready(world, NIGHTLY) == ("True", "Succeeded")


def test_a_wrong_key_is_said_and_fixed_at_once() -> None:
    world = World()
    runs = begun(world)
    runs.failing["backup"] = "AccessDenied"
    pass_time(world, times=3)
    assert ready(world, NIGHTLY) == ("False", "AccessDenied")
    jobs = len(made(world))
    assert jobs == 1
    runs.failing.clear()
    world.api.put(SECRET, secret("store", accessKeyId="key", secretAccessKey="right"))
    pass_time(world, times=2, seconds=2)
    assert ready(world, NIGHTLY) == ("True", "Succeeded")
    files = world.api.objects[Ref(SECRET, "ns", "nightly-backup")]["data"]["store.json"]
    assert "right" in base64.b64decode(files).decode()
    assert made(world) == ["nightly-now-1", "nightly-now-2"]


def test_a_failed_run_is_repeated_at_growing_intervals() -> None:
    world = World()
    runs = begun(world)
    runs.failing["backup"] = "StoreUnreachable"
    pass_time(world, times=40)
    few = len(made(world))
    assert 3 <= few <= 5
    runs.failing.clear()
    pass_time(world, times=40)
    assert ready(world, NIGHTLY) == ("True", "Succeeded")


def test_the_backup_goes_and_the_database_stays() -> None:
    world = World()
    begun(world)
    pass_time(world)
    world.api.remove(NIGHTLY)
    pass_time(world)
    template = world.api.objects[Ref(STATEFUL_SET, "ns", "db")]["spec"]["template"]
    assert [each["name"] for each in template["spec"]["containers"]] == ["postgres"]
    assert ready(world, DB)[0] == "True"


def restored(world: World, **spec: Any) -> None:
    given: Object = {"source": {"backupRef": {"name": "nightly"}}, "databaseRef": {"name": "clone"}, **spec}
    world.api.put(RESTORE.type, resource(RESTORE, "before", **given))


def test_a_restore_makes_a_database_of_its_own_and_is_never_done_again() -> None:
    world, _ = with_backup()
    restored(world)
    pass_time(world)
    assert status(world, BEFORE)["phase"] == "Completed"
    assert ready(world, BEFORE) == ("True", "Restored")
    written = [obj for _, type, obj in world.api.events if type == RESTORE.type]
    assert not [obj for obj in written if obj["metadata"].get("finalizers")], (
        "only one in place has to finish"
    )
    clone, claim = world.api.objects[CLONE], world.api.objects[CLAIM]
    assert clone["spec"]["defaultUser"] == "postgres"
    assert "ownerReferences" not in clone["metadata"]
    assert claim["metadata"]["annotations"]["kindling.dev/system-identifier"] == backups.IDENTIFIER
    assert ready(world, CLONE)[0] == "True"
    before = made(world)
    world.api.remove(CLONE)
    world.api.objects.pop(CLAIM)
    world.restart()
    pass_time(world)
    assert made(world) == before, "what its user deleted is not restored again"
    assert CLONE not in world.api.objects


def test_a_restore_is_done_once_its_database_takes_logins() -> None:
    world, _ = with_backup()
    answer = world.answer
    assert callable(answer)
    away = ExternalResult(ok=False, reason="ConnectionFailed", message="m", facts={"login": False})
    world.answer = lambda request: away if request.host.startswith("clone.") else answer(request)
    restored(world)
    pass_time(world)
    assert ready(world, CLONE)[0] == "False"
    assert status(world, BEFORE)["phase"] == "Restored"
    assert ready(world, BEFORE) == ("False", "DatabaseNotReady")
    assert message_of_restore(world).startswith("The data is restored. Postgresql clone is not Ready (")
    assert world.writes_at_rest() == 0
    world.answer = answer
    pass_time(world)
    assert status(world, BEFORE)["phase"] == "Completed"
    assert ready(world, BEFORE) == ("True", "Restored")


def test_another_timeline_than_the_servers_is_asked_for() -> None:
    """No limits are known of it: a time that the server's own does not have may be there."""
    world, _ = with_backup()
    restored(world, recoveryTarget={"targetTime": "2025-12-31T23:59:59Z", "targetTLI": 7})
    pass_time(world)
    assert ready(world, BEFORE) == ("True", "Restored")
    asked = world.api.objects[Ref(CONFIG_MAP, "ns", "before-restore")]["data"]["restore.json"]
    assert '"timeline": 7' in asked


@pytest.mark.parametrize(("far", "fault"), sampled_faults(14))
def test_whatever_fails_it_is_restored_once(far: int, fault: Fault) -> None:
    world, _ = with_backup()
    world.faulty.writes.extend([*[None] * far, fault])
    restored(world)
    pass_time(world, times=10, seconds=60)
    assert [name for name in made(world) if name.startswith("before")] == ["before-restore-1"]
    assert status(world, BEFORE)["phase"] == "Completed"
    assert world.api.objects[CLONE]["metadata"]["annotations"][MADE_BY]
    assert ready(world, CLONE)[0] == "True"


@pytest.mark.parametrize("name", ["db"])
def test_what_exists_is_not_restored_into(name: str) -> None:
    world, _ = with_backup()
    claims = {ref: obj for ref, obj in world.api.objects.items() if ref.type == VOLUME_CLAIM}
    restored(world, databaseRef={"name": name})
    pass_time(world)
    assert ready(world, BEFORE) == ("False", "TargetExists")
    assert claims == {ref: obj for ref, obj in world.api.objects.items() if ref.type == VOLUME_CLAIM}
    assert not [job for job in made(world) if job.startswith("before")]


def test_a_volume_that_exists_is_left_alone() -> None:
    world, _ = with_backup()
    kept: Object = {"metadata": {"namespace": "ns", "name": "clone-data"}, "spec": {"kept": True}}
    world.api.put(VOLUME_CLAIM, kept)
    restored(world)
    pass_time(world)
    assert ready(world, BEFORE) == ("False", "NameConflict")
    assert world.api.objects[CLAIM]["spec"] == {"kept": True}
    assert not [job for job in made(world) if job.startswith("before")]
    assert CLONE not in world.api.objects


@pytest.mark.parametrize(
    ("time", "reason"),
    [("2025-12-31T23:59:59Z", "TargetTooEarly"), ("2027-01-01T00:00:00Z", "TargetNotReached")],
)
def test_a_time_out_of_reach_is_refused_before_anything_is_touched(time: str, reason: str) -> None:
    world, _ = with_backup()
    restored(world, recoveryTarget={"targetTime": time})
    pass_time(world)
    assert ready(world, BEFORE) == ("False", reason)
    message = find_condition(status(world, BEFORE), "Ready")["message"]
    backup = status(world, NIGHTLY)
    assert backup["firstRecoverabilityPoint"] in message
    assert CLAIM not in world.api.objects
    assert status(world, BEFORE)["phase"] == "Pending"
    assert "startedAt" not in status(world, BEFORE)


def test_what_only_another_moment_helps_is_not_tried_again() -> None:
    world, runs = with_backup()
    runs.failing["restore"] = "TargetNotReached"
    restored(world, recoveryTarget={"targetXID": "4000000000"})
    pass_time(world, times=10, seconds=600)
    assert status(world, BEFORE)["phase"] == "Failed"
    assert ready(world, BEFORE) == ("False", "TargetNotReached")
    assert [name for name in made(world) if name.startswith("before")] == ["before-restore-1"]
    assert CLONE not in world.api.objects


def test_a_store_that_comes_back_is_restored_from() -> None:
    world, runs = with_backup()
    runs.failing["restore"] = "StoreUnreachable"
    restored(world)
    pass_time(world, times=2)
    assert ready(world, BEFORE) == ("False", "StoreUnreachable")
    runs.failing.clear()
    pass_time(world, times=10, seconds=60)
    assert ready(world, BEFORE) == ("True", "Restored")


def test_a_restore_waits_for_the_first_backup() -> None:
    world = World()
    restored(world)
    pass_time(world)
    assert ready(world, BEFORE) == ("False", "BackupNotFound")
    begun(world)
    pass_time(world, times=8)
    assert ready(world, BEFORE) == ("True", "Restored")
    asked = world.api.objects[Ref(CONFIG_MAP, "ns", "before-restore")]["data"]["restore.json"]
    assert '"timeline": 1' in asked


FROM_STORE: Object = {
    "source": {"targetURL": URL, "credentialsSecretRef": {"name": "store"}},
    "postgresql": {"defaultUser": "ada"},
}
ACCOUNT = {
    "client_email": "kindling@shop.iam.gserviceaccount.com",
    "private_key": "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n",
    "token_uri": "https://oauth2.googleapis.com/token",
}


def test_a_repository_is_restored_where_there_is_no_backup() -> None:
    world, _ = of_a_lost_cluster()
    restored(world, **FROM_STORE)
    pass_time(world)
    (config,) = configs(world)
    assert f"repo1-path=/prefix/shop/db/{backups.IDENTIFIER}\n" in config
    assert "repo1-s3-key-secret=secret\n" in config
    assert "pg1-host" not in config
    assert ready(world, BEFORE) == ("True", "Restored")
    clone, claim = world.api.objects[CLONE], world.api.objects[CLAIM]
    assert clone["spec"]["defaultUser"] == "ada"
    assert claim["metadata"]["annotations"]["kindling.dev/system-identifier"] == backups.IDENTIFIER
    assert ready(world, CLONE)[0] == "True"
    assert not world.api.objects[FILES].get("data"), "nothing opens the store once it is done"


@pytest.mark.parametrize(
    ("scheme", "keys", "file"),
    [
        ("azblob", {"accountName": "shop", "sasToken": "sig=x"}, "pgbackrest.conf"),
        ("gs", {"serviceAccountKey": json.dumps(ACCOUNT)}, "service-account.json"),
    ],
)
def test_a_repository_in_another_cloud_is_restored_with_its_keys(
    scheme: str, keys: dict[str, str], file: str
) -> None:
    world, _ = of_a_lost_cluster()
    world.api.put(SECRET, secret("store", **keys))
    source = {**FROM_STORE["source"], "targetURL": URL.replace("s3", scheme)}
    restored(world, **{**FROM_STORE, "source": source})
    pass_time(world)
    assert ready(world, BEFORE) == ("True", "Restored")
    (config,) = configs(world)
    assert f"repo1-path=/prefix/shop/db/{backups.IDENTIFIER}\n" in config
    secrets = [obj for _, type, obj in world.api.events if type == SECRET]
    (written,) = (obj for obj in secrets if file in (obj.get("data") or {}))
    assert written["metadata"]["name"] == FILES.name
    assert not world.api.objects[FILES].get("data"), "nothing opens the store once it is done"


@pytest.mark.parametrize(("far", "fault"), sampled_faults(14))
def test_whatever_fails_a_repository_is_restored_once(far: int, fault: Fault) -> None:
    world, _ = of_a_lost_cluster()
    world.faulty.writes.extend([*[None] * far, fault])
    restored(world, **FROM_STORE)
    pass_time(world, times=10, seconds=60)
    assert made(world) == ["before-restore-1"]
    assert status(world, BEFORE)["phase"] == "Completed"
    assert ready(world, CLONE)[0] == "True"
    assert not world.api.objects[FILES].get("data")


def test_a_repository_waits_for_the_stores_keys() -> None:
    world, _ = of_a_lost_cluster()
    keys = world.api.objects.pop(Ref(SECRET, "ns", "store"))
    restored(world, **FROM_STORE)
    pass_time(world)
    assert ready(world, BEFORE) == ("False", "SecretNotFound")
    message = find_condition(status(world, BEFORE), "Ready")["message"]
    assert "spec.source.credentialsSecretRef.name 'store'" in message
    assert CLAIM not in world.api.objects
    world.api.put(SECRET, keys)
    pass_time(world)
    assert ready(world, BEFORE) == ("True", "Restored")


def test_keys_that_were_wrong_are_exchanged_for_the_next_attempt() -> None:
    world, runs = of_a_lost_cluster()
    runs.failing["restore"] = "AccessDenied"
    restored(world, **FROM_STORE)
    pass_time(world, times=2)
    assert ready(world, BEFORE) == ("False", "AccessDenied")
    world.api.put(SECRET, secret("store", accessKeyId="key", secretAccessKey="another"))
    runs.failing.clear()
    pass_time(world, times=10, seconds=60)
    first, *_, last = configs(world)
    assert "repo1-s3-key-secret=secret\n" in first
    assert "repo1-s3-key-secret=another\n" in last
    assert ready(world, BEFORE) == ("True", "Restored")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"source": {}}, "either backupRef or targetURL"),
        ({**FROM_STORE, "source": {"targetURL": "s3://bucket/db"}}, "does not end with a system identifier"),
        ({**FROM_STORE, "source": {"targetURL": "ftp://bucket/7"}}, "spec.source.targetURL 'ftp://bucket/7'"),
        ({**FROM_STORE, "source": {"targetURL": "gs://bucket/db"}}, "gs://BUCKET/PREFIX/NAMESPACE/DATABASE"),
        (
            {**FROM_STORE, "source": {"targetURL": URL, "credentialsSecretRef": {"name": "before-restore"}}},
            "spec.source.credentialsSecretRef.name 'before-restore'",
        ),
        ({"postgresql": {"defaultUser": "ada"}}, "known from the Backup"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_source_that_the_door_let_through_is_refused_in_words(spec: Object, said: str) -> None:
    world, _ = of_a_lost_cluster()
    restored(world, **spec)
    pass_time(world)
    assert ready(world, BEFORE) == ("False", "InvalidSpec")
    assert said in find_condition(status(world, BEFORE), "Ready")["message"]
    assert not made(world)


def test_an_operator_that_starts_with_an_older_view_leaves_the_archiver_where_it_is() -> None:
    """As an API server may answer that lags behind: of whichever moment since there is a database."""
    world = World()
    begun(world)
    pass_time(world)
    past = list(world.api.events)
    shape = len(world.api.objects[Ref(STATEFUL_SET, "ns", "db")]["spec"]["template"]["spec"]["containers"])
    assert shape == 2
    for moment in range(1, len(past)):
        began = len(world.api.events)
        world.restart_as_of(past[:moment])
        world.work()
        pass_time(world, times=2)
        written = [
            (type.kind, what) for what, type, _ in world.api.events[began:] if type in DATABASE.children
        ]
        assert not written, moment
