"""A database as large as fits here, up to 10 GB: backed up, restored and proven, each beside a plain copy.

The figures of docs/reliability.md are from it. `KINDLING_LARGE_GB` sets another size.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.backup_images import S3, Pod, new_pod, s3

GB = 10**9
MOST = 10
# The data, its backup at worst, a restored copy, and the copy of a proof; and what else the machine needs.
COPIES, SPARE = 4, 6 * GB
ROWS_PER_GB = 3_400_000
SECONDS = 3600.0
# Hexadecimal digits of chance: they take half of themselves when they are compressed, as text does.
_ROWS = """
    CREATE TABLE rows AS
    SELECT n AS id, md5(random()::text) || md5(random()::text) || md5(random()::text) || md5(random()::text)
    || md5(random()::text) || md5(random()::text) || md5(random()::text) || md5(random()::text) AS text
    FROM generate_series(1, {count}) AS n
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3(tmp_path_factory.mktemp("store")) as made:
        yield made


def fits(folder: Path) -> int:
    """GB; AssertionError where not even one does."""
    asked = os.environ.get("KINDLING_LARGE_GB")
    found = int(asked) if asked else min(MOST, (shutil.disk_usage(folder).free - SPARE) // COPIES // GB)
    assert found >= 1, f"{folder} has not enough space for a database of 1 GB and its copies"
    return found


@pytest.fixture
def pod(store: S3, tmp_path: Path) -> Iterator[Pod]:
    """Filled without a log of it, which would be archived too, and be measured with the backup."""
    made = new_pod(store, tmp_path)
    try:
        made.create()
        made.start(archive=False)
        made.sql("ALTER SYSTEM SET wal_level = minimal")
        made.sql("ALTER SYSTEM SET max_wal_senders = 0")
        made.stop()
        made.start(archive=False)
        made.sql(_ROWS.format(count=fits(tmp_path) * ROWS_PER_GB))
        made.sql("ALTER TABLE rows ADD PRIMARY KEY (id)")
        made.sql("VACUUM (FREEZE, ANALYZE) rows")
        made.sql("ALTER SYSTEM RESET ALL")
        made.stop()
        made.start()
        yield made
    finally:
        made.destroy()


def seconds(act: Callable[[], Any]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def copied(pod: Pod) -> None:
    """The data, from volume to volume, on the disk at the end."""
    mounts = ["--volume", f"{pod.name}-data:/from:ro", "--volume", f"{pod.name}-copy:/to"]
    run = ["run", "--rm", "--user=0:0", *mounts, pod.postgres]
    pod.engine.run(*run, "cp", "--archive", "/from/pgdata", "/to", timeout=SECONDS)
    pod.engine.run(*run, "sync", "/to", timeout=SECONDS)


def ended(pod: Pod, action: str, request: dict[str, Any], **how: Any) -> Callable[[], None]:
    def act() -> None:
        done = pod.run(action, request, seconds=SECONDS, **how)
        assert done.reason == "Succeeded", done.log

    return act


@pytest.mark.thorough
def test_a_large_database_is_backed_up_restored_and_proven(pod: Pod, store: S3) -> None:
    size = int(pod.sql("SELECT pg_database_size('postgres')"))
    rows = pod.sql("SELECT count(*) FROM rows")
    plain = seconds(lambda: copied(pod))
    pod.engine.run("volume", "rm", "--force", f"{pod.name}-copy")
    took = {"plain copy": plain}
    took["backup"] = seconds(ended(pod, "backup", {"type": "full", "uid": "1" * 8, "target": "ns/db"}))
    pod.sql("INSERT INTO rows VALUES (0, 'after the backup')")
    pod.switch()
    took["restore"] = seconds(ended(pod, "restore", {"target": None}, volume="large"))
    with pod.serving("large") as port:
        assert pod.sql("SELECT count(*) FROM rows", port=port) == rows + 1
    pod.engine.run("volume", "rm", "--force", f"{pod.name}-large")
    took["proof"] = seconds(ended(pod, "verify", {"amcheck": "Heap"}))
    stored = sum(path.stat().st_size for path in store.folder.rglob("*") if path.is_file())
    print(f"{size / GB:.1f} GB on the volume, {stored / GB:.1f} GB stored")
    for name, each in took.items():
        print(f"{name}: {each:.0f} s, {each / size * GB:.1f} s/GB, {each / plain:.1f} of a plain copy")
