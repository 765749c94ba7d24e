"""The program that prepares a server's start: killed at any instant, called wrongly, kept waiting."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from kindling.kinds.postgresql.initdb import INITDB, INSTALL, KEEP_PREVIOUS, PGDATA, PROGRAM

from tests.unit.operator import postgres_init
from tests.unit.operator.conftest import Files
from tests.unit.operator.test_postgres_port import as_superuser


def killed_after(files: Files, seconds: float) -> bool:
    """Whether the init container's end came before its program's."""
    process = files.start(INITDB)
    try:
        code = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # what it started too, as a container's end does
        process.wait()
        return True
    assert code == 0
    return False


def kills(files: Files, *, step: float) -> Iterator[None]:
    """Runs that are killed after one step of so many seconds, two steps and so on, until one ends."""
    for number in count(1):
        if not killed_after(files, number * step):
            break
        yield


def test_killed_at_any_instant_there_is_all_of_the_data_or_none(files: Files) -> None:
    killed, entries = 0, set[str]()
    for _ in kills(files, step=0.15):
        killed += 1
        found = set(os.listdir(files.mount))
        assert found <= {"pgdata", "pgdata.partial"}
        if "pgdata" in found:
            assert found == {"pgdata"}
            assert files.start(["pg_controldata", PGDATA]).wait(timeout=30) == 0
        entries |= found
    assert killed >= 2
    assert "pgdata.partial" in entries
    assert os.listdir(files.mount) == ["pgdata"]
    with files.running():
        assert as_superuser(files, "SELECT 1") == 1


@pytest.mark.parametrize("bad", [False, True], ids=["good", "refused"])
def test_killed_at_any_instant_the_parameters_are_those_before_or_the_new_ones(
    files: Files, bad: bool
) -> None:
    """In the end there is no trace of the runs that were killed."""
    data = files.mount / "pgdata"
    in_place, refused = data / "postgresql.auto.conf", data / "parameters.refused"
    files.configure({"max_connections": "50"})
    assert files.run(INITDB) == 0
    before, entries = in_place.read_text(), set(os.listdir(data))
    files.configure({"max_connections": "60", **({"work_mem": "banana"} if bad else {})})
    wanted = (files.root / "config" / "parameters.conf").read_text()
    killed = 0
    for _ in kills(files, step=0.003):
        killed += 1
        assert in_place.read_text() in ({before} if bad else {before, wanted})
        assert not refused.exists() or (bad and refused.read_text() == wanted)
    assert killed >= 5
    assert in_place.read_text() == (before if bad else wanted)
    assert set(os.listdir(data)) == entries | ({"parameters.refused"} if bad else set())
    files.configure({"max_connections": "55"})
    assert files.run(INITDB) == 0
    assert "55" in in_place.read_text()
    assert set(os.listdir(data)) == entries


def test_files_of_a_killed_run_are_replaced(files: Files) -> None:
    data = files.mount / "pgdata"
    assert files.run(INITDB) == 0
    entries = set(os.listdir(data))
    for name in ("postgresql.auto.conf.new", "parameters.refused.new"):
        (data / name).write_text("max_conn")
    files.configure({"max_connections": "60"})
    assert files.run(INITDB) == 0
    assert "60" in (data / "postgresql.auto.conf").read_text()
    assert set(os.listdir(data)) == entries


def test_an_empty_directory_in_the_datas_place_is_taken(files: Files) -> None:
    (files.mount / "pgdata").mkdir()
    (files.mount / "pgdata").chmod(0o777)
    assert files.run(INITDB) == 0
    assert (files.mount / "pgdata").stat().st_mode & 0o777 == 0o700


def test_what_was_there_before_a_restore_goes_once_nobody_keeps_it_and_the_server_has_answered(
    files: Files,
) -> None:
    previous, keep = files.mount / "pgdata.previous", files.root / "config" / KEEP_PREVIOUS
    with files.running():
        pass
    subprocess.run(["cp", "-a", files.mount / "pgdata", previous], check=True, timeout=60)
    keep.write_text("true")
    with files.running():
        assert previous.exists()
    keep.unlink()
    (files.mount / "pgdata" / "kindling.answered").unlink()
    assert files.run(INITDB) == 0
    assert previous.exists(), "no server has answered with the data that took its place"
    with files.running():
        assert previous.exists()
    keep.write_text("true")
    assert files.run(INITDB) == 0
    assert previous.exists()
    keep.unlink()
    with files.running():
        assert not previous.exists()
        assert as_superuser(files, "SELECT 1") == 1


def test_what_a_failed_restore_left_goes_with_the_next_start(files: Files) -> None:
    assert files.run(INITDB) == 0
    for name in ("pgdata.partial", "pgdata.restored"):
        subprocess.run(["cp", "-a", files.mount / "pgdata", files.mount / name], check=True, timeout=60)
    assert files.run(INITDB) == 0
    assert os.listdir(files.mount) == ["pgdata"]


def test_trial_that_cannot_be_made_leaves_the_parameters_as_they_are(files: Files) -> None:
    """A node's disk that is full, say: whether they are good is not known then."""
    files.configure({"max_connections": "50"})
    assert files.run(INITDB) == 0
    before = (files.mount / "pgdata" / "postgresql.auto.conf").read_text()
    files.configure({"max_connections": "60"})
    (files.root / "tmp").chmod(0o555)
    (files.root / "tmp" / "trial").rename(files.root / "tmp" / "other")
    assert files.run(INITDB) == 0
    assert (files.mount / "pgdata" / "postgresql.auto.conf").read_text() == before
    assert not (files.mount / "pgdata" / "parameters.refused").exists()


def test_it_is_installed_again_while_it_runs(files: Files) -> None:
    """Init containers run again in a Pod whose sandbox was created again."""
    program = Path(*files.words([PROGRAM]))
    running = files.start(INITDB)
    files.install()
    assert running.wait(timeout=60) == 0
    assert os.listdir(program.parent) == [program.name]
    assert program.stat().st_mode & 0o777 == 0o555


def test_wrong_calls_name_what_is_wrong(files: Files) -> None:
    program, *_ = files.words([PROGRAM])
    for args, expected in (
        ([], "name one of install, initdb, serve"),
        (["start"], '"start" is none of install, initdb, serve'),
        (["initdb", "--data=/x"], "give --username, the superuser"),
        (["install", "/x"], '"/x": only flags are understood'),
        (["serve", "--what"], "flag provided but not defined: -what"),
    ):
        done = subprocess.run([program, *args], capture_output=True, text=True, timeout=10)
        assert done.returncode != 0
        assert expected in done.stderr


def test_it_is_installed_from_where_its_image_has_it() -> None:
    containerfile = (postgres_init.FOLDER / "Containerfile").read_text()
    assert f"FROM scratch\nCOPY --from=build /postgres-init {INSTALL[0]}\n" in containerfile
