"""Data is checked from the store alone: without Backup or server, and nothing stays that opens the store."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds.postgresql.spec import resources_of
from kindling.kube.resources import SECRET, VOLUME_CLAIM, Object

from tests.model.backup_world import (
    BEFORE,
    CLONE,
    DATABASE,
    DB,
    FILES,
    RESTORE,
    URL,
    asked_of_restore,
    assert_failed_for_good,
    assert_restored_once,
    configs,
    message_of_restore,
    of_a_lost_cluster,
    pass_time,
    pod_of,
    ready,
    runs_of_restore,
    sampled_faults,
    secret,
    status,
    volume_of_copy,
)
from tests.model.faults import Fault
from tests.model.world import World, resource
from tests.unit.operator import backups

SOURCE: dict[str, Any] = {"targetURL": URL, "credentialsSecretRef": {"name": "store"}}
QUERY = {"database": "postgres", "sql": "SELECT count(*) FROM item", "expect": "7"}
SMALL = {"limits": {"memory": "300Mi"}}
RUN = "before-restore-1"


def prove(world: World, *, source: Object | None = None, target: Object | None = None, **verify: Any) -> None:
    """With a volume of 7Gi."""
    spec: Object = {
        "source": source or SOURCE,
        "databaseRef": {"name": "db"},
        "into": "Verify",
        "verify": {"storage": {"size": "7Gi"}, **verify},
        **({"recoveryTarget": target} if target else {}),
    }
    world.api.put(RESTORE.type, resource(RESTORE, "before", **spec))


def test_a_store_is_proven_where_there_is_nothing_else() -> None:
    world, _ = of_a_lost_cluster()
    prove(world)
    pass_time(world)
    assert ready(world, BEFORE) == ("True", "Succeeded")
    said = status(world, BEFORE)
    assert (said["phase"], said["reachedLSN"]) == ("Completed", "0/3000060")
    assert said["source"] == {"systemIdentifier": backups.IDENTIFIER}, "nothing else is known"
    assert said["restoreDuration"].keys() == {"download", "replay", "check", "total"}
    assert f"was restored from {URL} and has passed its checks" in message_of_restore(world)
    assert asked_of_restore(world) == {
        "target": None,
        "set": None,
        "settings": {},
        "timeline": None,
        "amcheck": "Heap",
        "queries": [],
    }
    (config,) = configs(world)
    assert f"repo1-path=/prefix/shop/db/{backups.IDENTIFIER}\n" in config
    assert "pg1-host" not in config
    assert not world.api.objects[FILES].get("data"), "nothing opens the store once it is done"
    assert not [ref for ref in world.api.objects if ref.type in (DATABASE.type, VOLUME_CLAIM)]
    world.restart()
    pass_time(world)
    assert_restored_once(world)


def test_what_a_backup_would_know_is_said() -> None:
    world, _ = of_a_lost_cluster()
    verify: Object = {"amcheck": "Indexes", "queries": [QUERY], "resources": SMALL}
    storage = {"size": "7Gi", "storageClassName": "fast"}
    prove(world, target={"targetLSN": "0/3000060"}, **verify, storage=storage)
    pass_time(world)
    assert ready(world, BEFORE) == ("True", "Succeeded")
    assert asked_of_restore(world)["target"] == {"lsn": "0/3000060", "exclusive": False}
    assert (asked_of_restore(world)["amcheck"], asked_of_restore(world)["queries"]) == ("Indexes", [QUERY])
    assert volume_of_copy(pod_of(world, RUN)) == ("7Gi", "fast")
    (container,) = pod_of(world, RUN)["containers"]
    assert container["resources"] == SMALL
    assert container["command"][-1] == "verify"


def test_a_postgresql_of_that_name_has_nothing_to_do_with_it() -> None:
    """It may be there, of whatever size, and may come and go."""
    world, _ = of_a_lost_cluster()
    spec = {"resources": SMALL, "storage": {"size": "90Gi"}}
    world.api.put(DATABASE.type, resource(DATABASE, "db", **spec))
    pass_time(world)
    before = world.api.objects[DB]["metadata"]["resourceVersion"]
    prove(world)
    pass_time(world)
    assert ready(world, BEFORE) == ("True", "Succeeded")
    assert volume_of_copy(pod_of(world, RUN)) == ("7Gi", None)
    assert pod_of(world, RUN)["containers"][0]["resources"] == resources_of({})
    assert world.api.objects[DB]["metadata"]["resourceVersion"] == before
    assert CLONE not in world.api.objects


@pytest.mark.parametrize(("far", "fault"), sampled_faults(10))
def test_whatever_fails_it_is_run_once(far: int, fault: Fault) -> None:
    world, _ = of_a_lost_cluster()
    world.faulty.writes.extend([*[None] * far, fault])
    prove(world)
    pass_time(world, times=10, seconds=60)
    assert_restored_once(world)
    assert not world.api.objects[FILES].get("data")


@pytest.mark.parametrize("reason", ["QueryFailed", "ChecksumFailed", "WalGap", "TargetNotReached"])
def test_what_the_checks_found_is_the_result(reason: str) -> None:
    world, runs = of_a_lost_cluster()
    runs.failing["verify"] = reason
    prove(world)
    pass_time(world, times=10, seconds=600)
    assert_failed_for_good(world, reason)
    assert message_of_restore(world).startswith("M. It is not retried, and no server was touched")
    assert not world.api.objects[FILES].get("data")
    assert world.writes_at_rest() == 0


def test_a_volume_that_was_too_small_is_not_tried_again() -> None:
    """Its size cannot change."""
    world, runs = of_a_lost_cluster()
    runs.failing["verify"] = "VolumeFull"
    prove(world)
    pass_time(world, times=10, seconds=600)
    assert_failed_for_good(world, "RunFailed")


@pytest.mark.parametrize("reason", ["WrongPassphrase", "AccessDenied", "StoreUnreachable", "Interrupted"])
def test_what_can_be_fixed_is_repeated_with_the_secrets_as_they_are_then(reason: str) -> None:
    world, runs = of_a_lost_cluster()
    runs.failing["verify"] = reason
    prove(world)
    pass_time(world, times=3, seconds=5)
    assert status(world, BEFORE)["phase"] == "Restoring"
    assert ready(world, BEFORE)[1] == ("RunFailed" if reason == "Interrupted" else reason)
    world.api.put(SECRET, secret("store", accessKeyId="key", secretAccessKey="another"))
    runs.failing.clear()
    pass_time(world, times=10, seconds=60)
    assert ready(world, BEFORE) == ("True", "Succeeded")
    assert "repo1-s3-key-secret=another\n" in configs(world)[-1]
    assert not world.api.objects[FILES].get("data")


def test_it_waits_for_a_passphrase_by_its_field() -> None:
    world, _ = of_a_lost_cluster()
    prove(world, source={**SOURCE, "encryption": {"passphraseSecretRef": {"name": "words"}}})
    pass_time(world)
    assert (status(world, BEFORE)["phase"], ready(world, BEFORE)) == ("Pending", ("False", "SecretNotFound"))
    assert "spec.source.encryption.passphraseSecretRef.name 'words'" in message_of_restore(world)
    assert runs_of_restore(world) == []
    world.api.put(SECRET, secret("words", passphrase="open"))
    pass_time(world)
    assert ready(world, BEFORE) == ("True", "Succeeded")
    assert "repo1-cipher-pass=open\n" in configs(world)[-1]


@pytest.mark.parametrize("storage", [None, {}, {"storageClassName": "fast"}])
def test_without_a_size_it_is_refused(storage: Object | None) -> None:
    """What the server lets through of a CRD before this one."""
    world, _ = of_a_lost_cluster()
    prove(world, storage=storage)
    pass_time(world)
    assert ready(world, BEFORE) == ("False", "InvalidSpec")
    assert "spec.verify.storage.size is needed" in message_of_restore(world)
    assert runs_of_restore(world) == []
