"""What nobody used for a month goes, and nothing else."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from infra import cache

OLD = time.time() - 40 * 86_400


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KINDLING_CACHE", str(tmp_path))
    return tmp_path


def made(home: Path, name: str, *, old: bool) -> Path:
    path = home / name
    if path.suffix == ".tar":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 1000)
    else:
        (path / "bin").mkdir(parents=True)
        (path / "bin" / "tool").write_bytes(b"x" * 1000)
    lock = path.with_name(f"{path.name}.lock")
    lock.touch()
    if old:
        os.utime(lock, (OLD, OLD))
    return path


def test_what_is_old_goes_and_what_was_used_stays(home: Path) -> None:
    going = [made(home, name, old=True) for name in ("tools/kind-1", "images/a-1.tar", "python/dev-1")]
    staying = [made(home, name, old=False) for name in ("tools/kind-2", "images/a-2.tar")]
    again = made(home, "tools/etcd-1", old=True)
    cache.used(again)
    unmarked = home / "tools" / "older"
    unmarked.mkdir()
    assert cache.prune() == (["a-1.tar", "dev-1", "kind-1"], 3000)
    assert [path for path in going if path.exists()] == []
    assert all(path.exists() for path in [*staying, again, unmarked])
    assert cache.prune() == ([], 0)


def test_what_another_command_is_making_stays(home: Path) -> None:
    making = made(home, "tools/kind-1", old=True)
    with making.with_name("kind-1.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert cache.prune() == ([], 0)
    assert making.exists()


def test_a_cache_that_is_not_there_has_nothing_to_prune(home: Path) -> None:
    assert cache.prune() == ([], 0)
