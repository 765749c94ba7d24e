"""The Python environment, made once per lock file and shared by every checkout that has the same lock.

It lives in the cache, not in the checkout: the key is the lock's content and the Python that runs it,
so a changed lock makes a new environment and an old checkout keeps its own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path

from infra import cache, locks, paths, processes
from infra.bootstrap import apt
from infra.errors import KindlingError
from infra.progress import Progress

REQUIREMENTS = "requirements.txt"
PAUSES_SECONDS = (5.0, 15.0, 30.0, 60.0)
NOTHING = "(from versions: none)"
"""What pip says of a package that the index has no page of, be it for a moment: it tries no page twice."""
UNREACHABLE = "after connection broken by"
"""What it says before that where the index cannot be reached: that it has tried more than once."""
SECONDS = {REQUIREMENTS: 45.0, "requirements-dev.txt": 70.0}


def location(requirements: str = REQUIREMENTS) -> Path:
    """Where the environment for this lock is or would be."""
    lock = (paths.REPOSITORY / requirements).read_bytes()
    key = hashlib.sha256(lock + sys.version.encode() + sys.base_prefix.encode()).hexdigest()[:12]
    return paths.cache_dir() / "python" / f"{Path(requirements).stem}-{key}"


def present(requirements: str = REQUIREMENTS) -> bool:
    """Whether the environment is complete; starts no program."""
    return (location(requirements) / "complete").exists()


def ensure(requirements: str = REQUIREMENTS, *, progress: Progress | None = None) -> Path:
    """The environment's interpreter, installed first where it is missing.

    Raises `KindlingError` when the packages cannot be fetched or a hash does not match.
    """
    home = location(requirements)
    python = home / "bin" / "python"
    if present(requirements):
        cache.used(home)
        return python
    progress = progress or Progress()
    with progress.step(step_name(requirements)) as say, locks.exclusive(locks.lock_path(home), say=say):
        if present(requirements):
            return python
        shutil.rmtree(home, ignore_errors=True)
        _create(home)
        # pip stays out of date on purpose: the lock's hashes are what is trusted, not pip's version.
        _pip(
            python,
            [
                "install",
                "--require-hashes",
                "--only-binary=:all:",
                "-r",
                str(paths.REPOSITORY / requirements),
            ],
        )
        # Made in place, since an environment cannot be moved; this file says that it is whole.
        (home / "complete").touch()
    return python


def link() -> None:
    """Have the project's `.venv`, which Pulumi.yaml names, be the ordinary environment.

    One that a person or `pulumi install` has made there stays; so does a checkout that cannot be written.
    """
    place, home = paths.REPOSITORY / ".venv", location()
    if (place.exists() and not place.is_symlink()) or place.resolve() == home.resolve():
        return
    partial = place.with_name(f".venv.{os.getpid()}")
    with suppress(OSError):
        partial.symlink_to(home)
        os.replace(partial, place)


def step_name(requirements: str) -> str:
    """The name under which `ensure` reports itself."""
    return f"Python environment ({requirements})"


def pip_install_into(*, target: Path, requirements: Path) -> None:
    """Install locked requirements as plain files under `target`."""
    home = location()
    python = home / "bin" / "python" if present() else Path(sys.executable)
    _pip(
        python,
        [
            "install",
            "--no-deps",
            "--require-hashes",
            "--only-binary=:all:",
            "--no-compile",
            "--target",
            str(target),
            "-r",
            str(requirements),
        ],
    )


def _create(home: Path) -> None:
    try:
        processes.run([sys.executable, "-m", "venv", home], timeout=300)
    except processes.ProgramError as error:
        shutil.rmtree(home, ignore_errors=True)
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise KindlingError(
                "this Python cannot make virtual environments",
                why=error.why,
                remedy="install the package `python3-venv` (Debian, Ubuntu) or your system's equivalent",
            ) from None
        # Debian splits ensurepip off into a package of its own.
        apt.install(["python3-venv"])
        processes.run([sys.executable, "-m", "venv", home], timeout=300)


def _pip(python: Path, arguments: list[str]) -> None:
    for pause in (*PAUSES_SECONDS, None):
        try:
            processes.run(
                [python, "-m", "pip", "--disable-pip-version-check", *arguments],
                timeout=1800,
                env={"PIP_NO_INPUT": "1", "PIP_REQUIRE_VIRTUALENV": "0"},
            )
        except processes.ProgramError as error:
            if NOTHING in error.why and UNREACHABLE not in error.why and pause is not None:
                time.sleep(pause)
                continue
            output = error.why.splitlines()
            lines = [line for line in output if "ERROR" in line] or output[-3:]
            raise KindlingError(
                "the Python packages could not be installed",
                why="\n       ".join(line.strip() for line in lines[:4]),
                remedy="check that the Python package index can be reached (a proxy goes into pip's own "
                "configuration), then run the same command again",
            ) from None
        return
