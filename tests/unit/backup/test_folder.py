"""A volume that is a store: what its errors mean, and what is left in it."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest
from postgres_backup import folder, words
from postgres_backup.outcome import Failed
from postgres_backup.request import VOLUME, Folder

AT = f"{VOLUME}/prefix/ns/db/1/backup/main/bundle/1"


def place(tmp_path: Path) -> Folder:
    return Folder(volume=tmp_path, path=tmp_path / "prefix" / "ns")


def test_a_look_writes_and_leaves_nothing(tmp_path: Path) -> None:
    folder.preflight(place(tmp_path), write=False)
    assert not (tmp_path / "prefix").exists(), "what only reads makes nothing"
    folder.preflight(place(tmp_path), write=True)
    assert folder.left(place(tmp_path)) == []
    assert not (tmp_path / "prefix" / "ns").exists(), "empty folders go"


def test_what_is_left_is_reported_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "prefix" / "ns" / "a" / "empty").mkdir(parents=True)
    (tmp_path / "prefix" / "ns" / "a" / "b").touch()
    assert folder.left(place(tmp_path)) == ["a/b"]
    assert not (tmp_path / "prefix" / "ns" / "a" / "empty").exists()


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "StoreFull"),
        (errno.EDQUOT, "StoreFull"),
        (errno.EACCES, "AccessDenied"),
        (errno.EROFS, "AccessDenied"),
        (errno.ESTALE, "StoreUnreachable"),
        (errno.EIO, "StoreUnreachable"),
        (errno.ENOTDIR, "EngineFailed"),
    ],
)
def test_an_error_of_the_volume_is_one_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    def fails(path: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "listdir", fails)
    with pytest.raises(Failed) as raised:
        folder.preflight(place(tmp_path), write=True)
    assert raised.value.reason == reason


def test_a_volume_that_answers_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(folder, "SECONDS", 0.05)
    monkeypatch.setattr(os, "listdir", lambda path: over.wait(10))
    with pytest.raises(Failed) as raised:
        folder.preflight(place(tmp_path), write=False)
    over.set()
    assert raised.value.reason == "StoreUnreachable"


@pytest.mark.parametrize(
    ("said", "free", "reason"),
    [
        (f"unable to open file '{AT}' for write: [28] No space left on device", 0, "StoreFull"),
        (f"unable to create path '{AT}': [13] Permission denied", 0, "AccessDenied"),
        (f"unable to read '{AT}': [5] Input/output error", 0, "StoreUnreachable"),
        (f"unable to write '{AT}' [FileWriteError] on 2 retries", 4096, "StoreFull"),
        (f"unable to write '{AT}' [FileWriteError] on 2 retries", 2**40, "StoreUnreachable"),
        (f"file '{AT}' is missing", 0, None),
        ("unable to write '/var/lib/postgresql/data/x': [28] No space left on device", 0, None),
    ],
)
def test_the_engines_words_about_the_volume_are_its_reasons(said: str, free: int, reason: str | None) -> None:
    found = folder.said(said, free=lambda: free)
    assert (found[0] if found else None) == reason


def test_a_run_says_so_and_the_servers_own_volume_is_another_matter() -> None:
    full = f"ERROR: [041]: unable to open file '{AT}' for write: [28] No space left on device"
    assert words.reason(41, full, about=words.BACKUP)[0] == "StoreFull"
    other = full.replace(str(VOLUME), "/var/lib/postgresql/data")
    assert words.reason(41, other, about=words.DATA)[0] == "VolumeFull"
