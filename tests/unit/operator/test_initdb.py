"""The init container's command on real files: complete or not there, healed after a kill, loud on failure."""

from __future__ import annotations

import os
import time
from pathlib import Path

from kindling.kinds.postgresql.workload import INITDB

from tests.unit.operator.conftest import Files


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


def test_killed_half_way_it_begins_anew(files: Files) -> None:
    process = files.start(INITDB)
    partial = files.mount / "pgdata.partial" / "PG_VERSION"
    deadline = time.monotonic() + 30
    while not partial.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not (files.mount / "pgdata").exists()
    time.sleep(2)  # initdb itself, which a container's end would have killed too
    assert files.run(INITDB) == 0
    assert entries(files) == {"pgdata"}


def test_failure_is_told_and_leaves_no_data(files: Files) -> None:
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
