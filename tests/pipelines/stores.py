"""What outlives a job: caches by their keys, and artifacts by their names, each a folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from infra import locks, paths
from infra.bootstrap.toolchain import Toolchain
from infra.bootstrap.toolchain.tools import TOOLS
from infra.progress import Progress
from tests.pipelines import root
from tests.pipelines.root import HOME, UID, Runner

CACHED = HOME / ".cache" / "kindling"
# What a run on this machine may have made, and an earlier run on a hosted runner would have left.
MADE = ("tools", "pulumi-home")
LINTED = "mypy"
"""What `infra test` leaves beside them, if it is that which runs these tests."""
_LOCKS = ("requirements.txt", "requirements-dev.txt")
_ENSURE = "import sys; from infra.bootstrap import virtualenv; virtualenv.ensure(sys.argv[1])"


class Caches:
    """Entries by their keys, each made of layers, the uppermost first; what is there is never written to."""

    def __init__(self, folder: Path, *, earlier: tuple[Path, ...]) -> None:
        """With an entry of an earlier run, whatever is asked for by the beginning of a key."""
        self._folder = folder
        folder.mkdir(parents=True)
        self._earlier = earlier
        self.entries: dict[str, tuple[Path, ...]] = {}

    def find(self, key: str, prefixes: Sequence[str]) -> str | None:
        """That key where there is such an entry, else the newest that begins with one of these."""
        newest = list(reversed(self.entries))
        names = [key] if key in self.entries else [n for p in prefixes for n in newest if n.startswith(p)]
        if not names and prefixes:
            names = [f"{prefixes[0]}earlier"]
            self.entries[names[0]] = self._earlier
        return names[0] if names else None

    def keep(self, key: str, upper: Path, below: tuple[Path, ...]) -> None:
        """What a job wrote over what it had found."""
        target = self._folder / str(len(self.entries))
        shutil.move(upper, target)
        self.entries[key] = (target, *below)


def lend(folder: Path, progress: Progress, *, checkout: Path) -> tuple[Path, ...]:
    """What an earlier run left in its cache, as layers: tools of this machine and packages for its Python.

    The packages are installed by the runner, once, from the index.
    """
    linted = (LINTED,) if (paths.cache_dir() / LINTED).exists() else ()
    for name in (*MADE, *linted):
        # What is at work here is no affair of a runner's.
        shutil.copytree(
            paths.cache_dir() / name,
            folder / name,
            copy_function=os.link,
            ignore=shutil.ignore_patterns("*.lock", "*.partial"),
        )
    for made in (folder, *folder.rglob("*")):
        # The files are this machine's own, whose owner is no concern of a test.
        if made.is_dir():
            os.chown(made, UID, UID)
    return folder, _environments(checkout, progress)


def _environments(checkout: Path, progress: Progress) -> Path:
    """A cache of the runner's with its virtual environments alone, kept between runs."""
    kept = root.location().with_name(f"{root.location().name}-environments")
    kept.mkdir(parents=True, exist_ok=True)
    os.chown(kept, UID, UID)
    log = kept.with_suffix(".log")
    runner = Runner(root.location(), kept.with_suffix(".layers"), lent={"/checkout": str(checkout)})
    runner.lent[str(CACHED)] = str(kept)
    with locks.exclusive(locks.lock_path(kept)):
        log.write_bytes(b"")
        try:
            for name in _LOCKS:
                with progress.step(f"A runner's Python environment ({name})"):
                    words = ["python3", "-c", _ENSURE, name]
                    status = runner.run(words, cwd=Path("/checkout"), env={"PYTHONPATH": "."}, log=log)
                assert status == 0, log.read_text()
        finally:
            shutil.rmtree(kept.with_suffix(".layers"), ignore_errors=True)
    return kept


def missing(names: Sequence[str]) -> list[str]:
    """Which of the tools that jobs find in their cache this machine has not made."""
    return [state.name for state in Toolchain().survey([n for n in names if n in TOOLS]) if not state.path]
