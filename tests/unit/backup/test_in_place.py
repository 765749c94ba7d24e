"""A restore in place that is ended at any of its steps: both are there, and the next run ends well."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from postgres_backup import files, in_place, recovery, timelines
from postgres_backup.outcome import Failed
from postgres_backup.request import Request

REQUEST = Request(uid="u", in_place=True)
OLD, NEW = "the old data", "the new data"


class Ended(BaseException):
    """SIGKILL, as far as a test can send itself one."""


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A volume with a data directory of a server that has ended."""
    for module, name, value in (
        (recovery, "VOLUME", ""), (recovery, "PARTIAL", "pgdata.partial"), (files, "PGDATA", "pgdata"),
        (in_place, "PGDATA", "pgdata"), (in_place, "RESULT", "restore.json"),
        (in_place, "RESTORED", "pgdata.restored"), (in_place, "PREVIOUS", "pgdata.previous"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, tmp_path / value)
    monkeypatch.setattr(in_place, "_state", lambda: "shut down")
    data(tmp_path / "pgdata", OLD)
    return tmp_path


def data(directory: Path, text: str) -> None:
    (directory / "pg_wal").mkdir(parents=True)
    (directory / "PG_VERSION").write_text(text)


def recovered() -> dict[str, Any]:
    in_place.check_space(1)
    data(recovery.PARTIAL, NEW)
    return {"message": "done"}


def content(directory: Path) -> str:
    return (directory / "PG_VERSION").read_text()


def ended_at(step: int, monkeypatch: pytest.MonkeyPatch, do: Callable[[], Any]) -> bool:
    """Whether it was ended just before this step, of those that change something on the volume."""
    count = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count > step:
                raise Ended
            return real(*args, **named)

        return called

    with monkeypatch.context() as patched:
        for holder, name in (
            (Path, "rename"), (Path, "mkdir"), (Path, "rmdir"), (Path, "touch"), (in_place, "write"),
            (in_place, "exchange"), (in_place, "sync"), (shutil, "rmtree"),
        ):  # fmt: skip
            patched.setattr(holder, name, counted(getattr(holder, name)))
        try:
            do()
        except Ended:
            return True
    return False


@pytest.mark.parametrize("step", range(24))
def test_ended_at_any_step_both_are_there_and_the_next_run_ends_well(
    step: int, volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = ended_at(step, monkeypatch, lambda: in_place.restore(REQUEST, recovered))
    assert step < 23 or not ended, "there are more steps than are tried"
    whole = [content(path) for path in volume.glob("pgdata*") if (path / "PG_VERSION").exists()]
    assert OLD in whole
    assert (volume / "pgdata/PG_VERSION").exists()
    assert in_place.restore(REQUEST, recovered) == {"message": "done"}
    assert content(volume / "pgdata") == NEW
    assert content(volume / "pgdata.previous") == OLD
    assert sorted(os.listdir(volume)) == ["pgdata", "pgdata.previous", "restore.json"]


@pytest.mark.parametrize("step", range(4))
def test_undone_once_however_often(step: int, volume: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_place.restore(REQUEST, recovered)
    ended_at(step, monkeypatch, lambda: in_place.undo(REQUEST))
    for _ in range(2):
        in_place.undo(REQUEST)
    assert content(volume / "pgdata") == OLD
    assert content(volume / "pgdata.previous") == NEW


def test_only_the_last_restore_can_be_undone(volume: Path) -> None:
    in_place.restore(REQUEST, recovered)
    with pytest.raises(Failed):
        in_place.undo(Request(uid="another"))
    in_place.restore(Request(uid="another", in_place=True), recovered)
    with pytest.raises(Failed):
        in_place.undo(REQUEST)
    assert content(volume / "pgdata") == NEW
    for _ in range(2):
        in_place.undo(Request(uid="another"))
    with pytest.raises(Failed):
        in_place.undo(REQUEST)


def test_a_volume_without_a_database_is_refused(volume: Path) -> None:
    shutil.rmtree(volume / "pgdata")
    with pytest.raises(Failed) as raised:
        in_place.restore(REQUEST, recovered)
    assert raised.value.reason == "InvalidRequest"


def test_a_volume_without_space_is_refused_before_the_download(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = shutil.disk_usage(volume)._replace(free=(512 << 20) - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: free)
    in_place.check_space(255 << 20)
    with pytest.raises(Failed) as raised:
        in_place.check_space(256 << 20)
    assert raised.value.reason == "VolumeFull"
    assert "511 MiB free" in raised.value.message


def test_a_file_system_that_cannot_exchange_is_said(volume: Path) -> None:
    with pytest.raises(Failed) as raised:
        in_place.exchange(volume / "not-there", volume / "pgdata")
    assert "exchange two directories" in raised.value.message
    assert content(volume / "pgdata") == OLD


def test_that_a_server_has_answered_does_not_come_with_the_backup(volume: Path) -> None:
    """The data from before would be removed at the first start, before an answer with the new one."""

    def of_one_that_answered() -> dict[str, Any]:
        said = recovered()
        (recovery.PARTIAL / "kindling.answered").touch()
        return said

    in_place.restore(REQUEST, of_one_that_answered)
    assert not (volume / "pgdata/kindling.answered").exists()


def test_the_log_is_handed_over_again(volume: Path) -> None:
    def promoted() -> dict[str, Any]:
        said = recovered()
        (recovery.PARTIAL / "pg_wal/00000002.history").touch()
        return said

    in_place.restore(REQUEST, promoted)
    assert timelines.waiting(volume / "pgdata") == ["00000002.history"]
