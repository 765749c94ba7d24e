"""Backups in a folder on a volume by the images alone: made, proven, restored, refused when full, deleted.

The volume is a small tmpfs, which the server holds: it can be really full. The archiver has no part in it.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kindling.kinds.postgresql import archiver

from infra.drivers.engine import ContainerEngine
from tests.apiserver.support.audit import wait_until
from tests.cluster.backup_images import INCREMENTAL, Ended, Pod, certificate, new_pod

FULL = {**INCREMENTAL, "type": "full"}
FILLED = f"{archiver.STORE}/filling"
FILL = f"""
import os
with open("{FILLED}", "wb", buffering=0) as file:
    try:
        while True:
            file.write(bytes(65536))
    except OSError:
        while True:
            try:
                file.write(bytes(1))
            except OSError:
                break
"""


@dataclass(frozen=True)
class Volume:
    """A store that is a volume of this name."""

    name: str
    ca: Path
    secrets: tuple[str, ...] = ()

    def options(self) -> dict[str, str]:
        return {"repo1-type": "posix"}

    def files(self) -> dict[str, str]:
        return {}

    def store(self, path: str, **changes: Any) -> dict[str, Any]:
        at = path.removeprefix(archiver.STORE)
        return {"url": "pvc://claim/prefix", "ca": False, "path": at, **changes}

    def mount(self, *, writes: bool) -> list[str]:
        return ["--volume", f"{self.name}:{archiver.STORE}{'' if writes else ':ro'}"]

    def segment(self, path: str, name: str) -> Path | None:
        return None


class OnVolume(Pod):
    @property
    def path(self) -> str:
        return f"{archiver.STORE}/prefix/ns/{self.name}/1"


def inside(pod: Pod, code: str, *, user: str = "999:999") -> str:
    """What a program says that has the volume."""
    words = ["run", "--rm", f"--user={user}", *pod.store.mount(writes=True), pod.runner, "python3", "-c"]
    return str(pod.engine.run(*words, code))


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    engine, name = ContainerEngine.detect(), f"kindling-store-{secrets.token_hex(4)}"
    folder = tmp_path_factory.mktemp("store")
    certificate(folder, "store")
    memory = ["type=tmpfs", "device=tmpfs", "o=nr_blocks=12288,uid=0,gid=999,mode=2770"]
    engine.run("volume", "create", *(word for each in memory for word in ("--opt", each)), name)
    plain = new_pod(Volume(name, folder / "tls.crt"), tmp_path_factory.mktemp("pod"))
    made = OnVolume(**vars(plain))
    try:
        made.create()
        made.start()
        made.sql("CREATE TABLE note (id int PRIMARY KEY)")
        yield made
    finally:
        made.destroy()
        engine.run("volume", "rm", "--force", name)


@pytest.fixture(scope="module")
def first(pod: Pod) -> Ended:
    return pod.run("backup", INCREMENTAL)


def at(path: str) -> dict[str, str]:
    """store.json of another place."""
    return {"store.json": json.dumps({"url": "pvc://claim/x", "path": path})}


def test_what_is_backed_up_and_archived_is_proven_and_restored_equal(pod: Pod, first: Ended) -> None:
    assert (first.status, first.reason, first.said["type"]) == (0, "Succeeded", "full"), first.log
    pod.sql("INSERT INTO note VALUES (1)")
    second = pod.run("backup", INCREMENTAL)
    assert (second.reason, second.said["type"]) == ("Succeeded", "incremental"), second.log
    pod.sql("INSERT INTO note VALUES (2)")
    lsn = pod.sql("SELECT pg_current_wal_lsn()::text")
    pod.sql("INSERT INTO note VALUES (3)")
    pod.archived()
    # Both have the volume mounted read-only.
    done = pod.run("verify", {"amcheck": "Heap"})
    assert (done.status, done.reason) == (0, "Succeeded"), done.log
    done = pod.run("restore", {"target": {"lsn": lsn}}, volume="by-lsn")
    assert (done.status, done.reason) == (0, "Succeeded"), done.log
    with pod.serving("by-lsn") as port:
        assert pod.sql("SELECT array_agg(id ORDER BY id) FROM note", port=port) == [1, 2]


def test_what_is_wrong_is_one_reason(pod: Pod, first: Ended) -> None:
    said = {
        "passphrase": pod.run("backup", FULL, config={"repo1-cipher-pass": "another"}).reason,
        "a folder without backups": pod.run(
            "verify",
            {},
            config={"repo1-path": f"{archiver.STORE}/nothing"},
            secret=at("/nothing"),
        ).reason,
    }
    inside(pod, f"import os; os.mkdir('{archiver.STORE}/others', 0o700)", user="0:0")
    others = f"{archiver.STORE}/others/ns/db/1"
    denied = pod.run("backup", FULL, config={"repo1-path": others}, secret=at("/others/ns/db/1"))
    said["owner"] = denied.reason
    assert "group 999" in denied.said["message"]
    assert said == {
        "passphrase": "WrongPassphrase",
        "a folder without backups": "BackupNotFound",
        "owner": "AccessDenied",
    }


def test_a_volume_that_is_full_is_said_loses_nothing_and_heals(pod: Pod, first: Ended) -> None:
    inside(pod, FILL)
    try:
        done = pod.run("backup", FULL)
        assert (done.status, done.reason) == (1, "StoreFull"), done.log
        assert "let its claim ask for more" in done.said["message"]
        pod.sql("INSERT INTO note VALUES (10)")
        pod.sql("SELECT pg_switch_wal()")
        waiting = "SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'"
        wait_until(lambda: pod.sql(waiting) > 0, seconds=30, what=lambda: pod.logs("server")[-2000:])
    finally:
        inside(pod, f"import os; os.unlink('{FILLED}')")
    pod.archived()
    query = {"database": "postgres", "sql": "SELECT count(*) FROM note WHERE id = 10", "expect": "1"}
    done = pod.run("verify", {"queries": [query]})
    assert done.reason == "Succeeded", done.log


def test_a_volume_that_fills_during_a_backup_is_said(pod: Pod, first: Ended) -> None:
    # The look before the backup passes, and the backup does not fit.
    inside(pod, FILL)
    try:
        inside(pod, f"import os; os.truncate('{FILLED}', os.stat('{FILLED}').st_size - 1500000)")
        done = pod.run("backup", FULL)
        assert (done.status, done.reason) == (1, "StoreFull"), done.log
        assert "pgbackrest backup" in done.log
    finally:
        inside(pod, f"import os; os.unlink('{FILLED}')")
    pod.archived()


def test_deleting_leaves_nothing_of_this_database_alone(pod: Pod, first: Ended) -> None:
    pod.stop()
    pod.start(archive=False)
    inside(pod, f"import os; os.makedirs('{archiver.STORE}/prefix/ns/other'); "
           f"open('{archiver.STORE}/prefix/ns/other/kept', 'w').close()")  # fmt: skip
    done = pod.run("delete", {})
    assert (done.status, done.reason) == (0, "Succeeded"), done.log
    listed = inside(pod, f"import os; print(sorted(os.listdir('{archiver.STORE}/prefix/ns')))")
    assert listed.strip() == "['other']"
    again = pod.run("delete", {})
    assert again.reason == "Succeeded", again.log
