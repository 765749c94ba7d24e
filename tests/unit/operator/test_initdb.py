"""The init container's command on real files: data complete or absent, parameters tried before they count."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from kindling.kinds.postgresql.initdb import IDENTIFIER, INITDB, LOST, REFUSED

from tests.unit.operator.conftest import Files
from tests.unit.operator.test_postgres_port import as_superuser


def log_of_failed_start(files: Files) -> str:
    """The log of a start that fails, and so the container's termination message."""
    log = files.root / "init.log"
    with log.open("wb") as out:
        assert files.start(INITDB, log=out.fileno()).wait(timeout=60) != 0
    return log.read_text()


def entries(files: Files) -> set[str]:
    return set(os.listdir(files.mount))


def test_makes_it_once(files: Files) -> None:
    assert files.run(INITDB) == 0
    assert entries(files) == {"pgdata"}
    control = (files.mount / "pgdata" / "global" / "pg_control").read_bytes()
    assert files.run(INITDB) == 0
    assert (files.mount / "pgdata" / "global" / "pg_control").read_bytes() == control


def test_narrows_what_a_volumes_group_change_widened(files: Files) -> None:
    assert files.run(INITDB) == 0
    (files.mount / "pgdata").chmod(0o2770)
    assert files.run(INITDB) == 0
    assert (files.mount / "pgdata").stat().st_mode & 0o777 == 0o700


def test_killed_half_way_it_starts_over(files: Files) -> None:
    process = files.start(INITDB)
    partial = files.mount / "pgdata.partial" / "PG_VERSION"
    deadline = time.monotonic() + 30
    while not partial.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)  # initdb too, as a container's end does
    process.wait()
    assert not (files.mount / "pgdata").exists()
    assert files.run(INITDB) == 0
    assert entries(files) == {"pgdata"}


def test_failure_leaves_no_data(files: Files) -> None:
    (files.root / "superuser" / "password").unlink()
    assert files.run(INITDB) != 0
    assert "pgdata" not in entries(files)


def test_what_is_not_ours_is_not_overwritten(files: Files) -> None:
    stranger: Path = files.mount / "pgdata" / "precious"
    stranger.parent.mkdir()
    stranger.parent.chmod(0o777)  # so that nothing but care keeps it
    stranger.write_text("mine")
    assert files.run(INITDB) != 0
    assert stranger.read_text() == "mine"
    assert os.listdir(stranger.parent) == ["precious"]


@pytest.mark.parametrize("left", [None, "pgdata.partial", "pgdata"])
def test_where_there_was_data_none_is_made_in_its_place(files: Files, left: str | None) -> None:
    """Not in an empty volume, nor beside what an initdb or a person has left there."""
    if left is not None:
        (files.mount / left).mkdir()
        (files.mount / left).chmod(0o777)
        (files.mount / left / "precious").write_text("mine")
    (files.root / "config" / IDENTIFIER).write_text("7412345678901234567")
    for _ in range(2):
        assert LOST in log_of_failed_start(files)
        assert entries(files) == ({left} if left else set())
    (files.root / "config" / IDENTIFIER).write_text("")
    if left != "pgdata":
        assert files.run(INITDB) == 0
        assert entries(files) == {"pgdata"}
    else:
        assert LOST not in log_of_failed_start(files)
        assert (files.mount / left / "precious").read_text() == "mine"


def test_where_the_data_is_it_is_started_with(files: Files) -> None:
    assert files.run(INITDB) == 0
    control = (files.mount / "pgdata" / "global" / "pg_control").read_bytes()
    (files.root / "config" / IDENTIFIER).write_text("7412345678901234567")
    assert start_with(files, max_connections="50") == ("max_connections = '50'", False)
    assert (files.mount / "pgdata" / "global" / "pg_control").read_bytes() == control


def in_place(files: Files) -> tuple[str, bool]:
    """The parameters that the server would start with, and whether others were refused."""
    text = (files.mount / "pgdata" / "postgresql.auto.conf").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return ", ".join(lines), (files.mount / "pgdata" / REFUSED).exists()


def start_with(files: Files, **values: str) -> tuple[str, bool]:
    files.configure(values)
    assert files.run(INITDB) == 0
    return in_place(files)


@pytest.mark.parametrize(
    "bad",
    [
        {"work_mem": "banana"},
        {"wrk_mem": "4MB"},
        {"max_connections": "99999999"},
        {"max_connections": "3"},  # no more than what is kept for superusers
        {"wal_level": "minimal"},  # by itself fine; max_wal_senders is not 0
        {"min_wal_size": "2MB"},
        {"shared_preload_libraries": "no_such_library"},
        {"server_version": "1.0"},
    ],
    ids=str,
)
def test_parameters_with_which_no_server_starts_do_not_count(files: Files, bad: dict[str, str]) -> None:
    """And never keep it from starting: the first time with none, later with those before."""
    assert start_with(files, **bad) == ("", True)
    assert start_with(files, max_connections="50") == ("max_connections = '50'", False)
    assert start_with(files, **bad) == ("max_connections = '50'", True)
    assert start_with(files, max_connections="60") == ("max_connections = '60'", False)


def test_parameters_made_unfit_by_hand_are_left_out(files: Files) -> None:
    start_with(files)
    (files.mount / "pgdata" / "postgresql.auto.conf").write_text("shared_preload_libraries = 'gone'\n")
    assert start_with(files, work_mem="banana") == ("", True)


def test_every_character_of_a_value_arrives(files: Files) -> None:
    value = r"it's a \ \n %t 'x' é"
    files.configure({"log_line_prefix": value, "search_path": '"$user", a_b'})
    with files.running():
        show = "SELECT current_setting('log_line_prefix') || current_setting('search_path')"
        assert as_superuser(files, show) == value + '"$user", a_b'


def test_trial_changes_nothing_else_and_is_repeated(files: Files) -> None:
    assert start_with(files, max_connections="50")[1] is False
    before = entries(files) | set(os.listdir(files.mount / "pgdata"))
    trial = files.root / "tmp" / "trial"
    (trial / "postmaster.pid").write_text("1\n")  # killed in the middle of one
    assert start_with(files, max_connections="60") == ("max_connections = '60'", False)
    assert entries(files) | set(os.listdir(files.mount / "pgdata")) == before
    assert (files.mount / "pgdata" / "postgresql.auto.conf").stat().st_mode & 0o777 == 0o600
