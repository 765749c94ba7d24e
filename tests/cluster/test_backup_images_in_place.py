"""A restore in place and the way back, by the images alone: real server, engine and store.

Each is on a timeline of its own, so what is asked here is also whether backups lead there afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.backup_images import DATA, INCREMENTAL, S3, Ended, Pod, new_pod, running_pod, s3

ROWS = "SELECT array_agg(id ORDER BY id) FROM note"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3(tmp_path_factory.mktemp("store")) as made:
        yield made


@pytest.fixture
def pod(store: S3, tmp_path: Path) -> Iterator[Pod]:
    """A server with a backup, and a row that only its log has."""
    with running_pod(store, tmp_path) as made:
        made.sql("CREATE TABLE note (id int PRIMARY KEY)")
        assert made.run("backup", INCREMENTAL).reason == "Succeeded"
        insert(made, 1)
        yield made


def insert(pod: Pod, number: int) -> str:
    """A row; returns where the log is then."""
    pod.sql(f"INSERT INTO note VALUES ({number})")
    return str(pod.sql("SELECT pg_current_wal_lsn()::text"))


def timeline(pod: Pod) -> int:
    return int(pod.sql("SELECT timeline_id FROM pg_control_checkpoint()"))


def in_place(pod: Pod, uid: str, **more: Any) -> Ended:
    return pod.run("restore", {"inPlace": True, "uid": uid, **more}, volume="data")


def proven(pod: Pod, rows: list[int]) -> Ended:
    """A verify run that has these rows, as the operator asks for it: along the server's own timeline."""
    expected = "{" + ",".join(map(str, rows)) + "}"
    query = {"database": "postgres", "sql": f"SELECT ({ROWS})::text", "expect": expected}
    done = pod.run("verify", {"queries": [query], "timeline": timeline(pod)})
    assert done.reason == "Succeeded", done.log
    return done


def test_it_goes_back_and_forth_and_backups_lead_to_each(pod: Pod) -> None:
    moment = insert(pod, 2)
    insert(pod, 3)
    # Of the branch that is left: neither it nor its log may be taken for the server's.
    assert pod.run("backup", INCREMENTAL).reason == "Succeeded"
    insert(pod, 4)
    pod.switch()
    insert(pod, 5)
    pod.stop()
    asked = {"target": {"lsn": moment}, "timeline": 1}
    done = in_place(pod, "first", **asked)
    assert done.reason == "Succeeded", done.log
    assert done.said["timeline"] == 2
    listed = pod.listing("data")
    assert {"pgdata", "pgdata.previous"} <= set(listed)
    assert not [name for name in listed if name.endswith((".partial", ".restored", ".new", "-1", "-2"))]
    # A run whose message was lost says the same again.
    again = in_place(pod, "first", **asked)
    assert {**again.said, "startedAt": 0, "stoppedAt": 0} == {**done.said, "startedAt": 0, "stoppedAt": 0}

    pod.start()
    assert (pod.sql(ROWS), timeline(pod)) == ([1, 2], 2)
    insert(pod, 12)
    pod.switch()
    proven(pod, [1, 2, 12])
    assert pod.run("backup", INCREMENTAL).reason == "Succeeded"
    insert(pod, 13)
    pod.switch()
    proven(pod, [1, 2, 12, 13])

    # What the server has left is in the store all the same.
    left = pod.run("restore", {"target": None, "timeline": 1}, volume="left")
    assert left.reason == "Succeeded", left.log
    with pod.serving("left") as port:
        assert pod.sql(ROWS, port=port) == [1, 2, 3, 4, 5]

    pod.stop()
    for _ in range(2):
        undone = pod.run("undo", {"uid": "first"}, volume="data")
        assert undone.reason == "Succeeded", undone.log
    pod.start()
    assert (pod.sql(ROWS), timeline(pod)) == ([1, 2, 3, 4, 5], 1)
    insert(pod, 6)
    pod.switch()
    proven(pod, [1, 2, 3, 4, 5, 6])

    # Another one takes the place of what the last one left, and of its timeline.
    pod.stop()
    done = in_place(pod, "second", target=None, timeline=1)
    assert (done.reason, done.said["timeline"]) == ("Succeeded", 3), done.log
    assert pod.run("undo", {"uid": "first"}, volume="data").reason == "RestoreFailed"
    pod.start()
    assert (pod.sql(ROWS), timeline(pod)) == ([1, 2, 3, 4, 5, 6], 3)
    pod.switch()
    proven(pod, [1, 2, 3, 4, 5, 6])


@pytest.mark.thorough
def test_a_server_that_did_not_end_in_good_order_is_left_as_it_is(pod: Pod) -> None:
    pod.engine.run("kill", "--signal=KILL", f"{pod.name}-server")
    pod.stop()
    before = pod.listing("data")
    done = in_place(pod, "first", target=None)
    assert (done.status, done.reason) == (1, "ArchivingBehind"), done.log
    assert pod.listing("data") == before
    pod.start()
    assert pod.sql(ROWS) == [1]


@pytest.mark.thorough
def test_a_server_whose_log_is_not_all_in_the_store_is_left_as_it_is(pod: Pod) -> None:
    pod.engine.run("stop", "--time", "30", f"{pod.name}-server")
    waits = f"{DATA}/pgdata/pg_wal/archive_status/000000010000000000000001.ready"
    volume = ["--volume", f"{pod.name}-data:{DATA}"]
    pod.engine.run("run", "--rm", *volume, pod.runner, "touch", waits)
    done = in_place(pod, "first", target=None)
    assert (done.status, done.reason) == (1, "ArchivingBehind"), done.log
    assert "000000010000000000000001" in done.said["message"]
    assert "pgdata.previous" not in pod.listing("data")


@pytest.mark.thorough
def test_a_target_out_of_reach_leaves_the_data_as_it_is(pod: Pod) -> None:
    pod.stop()
    done = in_place(pod, "first", target={"xid": "4000000000"})
    assert (done.status, done.reason) == (1, "TargetNotReached"), done.log
    pod.start()
    assert pod.sql(ROWS) == [1]
    assert pod.run("undo", {"uid": "first"}, volume="data").reason == "RestoreFailed"


def test_a_restored_database_has_backups_of_its_own(pod: Pod, store: S3, tmp_path_factory: Any) -> None:
    """It is on a timeline that only its own archive can say anything of."""
    pod.switch()
    clone = new_pod(store, tmp_path_factory.mktemp("clone"))
    try:
        clone.create()
        volume = ["--volume", f"{clone.name}-data:{DATA}"]
        clone.engine.run("run", "--rm", *volume, clone.runner, "rm", "-r", f"{DATA}/pgdata")
        done = clone.run("restore", {"target": None}, config={"repo1-path": pod.path}, volume="data")
        assert (done.reason, done.said["timeline"]) == ("Succeeded", 2), done.log
        clone.start()
        assert clone.run("backup", INCREMENTAL).reason == "Succeeded"
        insert(clone, 2)
        clone.switch()
        proven(clone, [1, 2])
        # One that was restored by an earlier version has no history file in the store.
        (history,) = store.folder.glob(f"{clone.path[1:]}/archive/main/*/00000002.history*")
        history.unlink()
        proven(clone, [1, 2])
    finally:
        clone.destroy()
