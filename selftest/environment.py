"""Where the sweep runs: a folder of its own, with a cluster of processes that cannot leave this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from selftest.interrupts import end_children
from tests.apiserver.support.operator_process import SOURCE
from tests.convergence import admin_api, backup_runs
from tests.convergence.harness import Harness, running_harness

SETTLED_SECONDS = 75.0
"""A resource that is not Ready is settled then: the operator asks servers once a minute, some of them."""
GUARD = Path(__file__).with_name("guard.py")
KEPT = ("kube-apiserver.log", "kube-controller-manager.log")
"""Of the control plane's files. The others have Secrets in them, or tokens."""


@contextmanager
def folder() -> Iterator[Path]:
    """For everything that this process and its programs write; gone in the end, as are those programs."""
    before = tempfile.tempdir
    made = Path(tempfile.mkdtemp(prefix="kindling-selftest-"))
    try:
        made.chmod(0o711)  # PostgreSQL runs as another user, if this one is root.
        tempfile.tempdir = str(made)
        yield made
    finally:
        tempfile.tempdir = before
        end_children()
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def environment(
    root: Path, *, keep: Path | None, redact: Callable[[str], str], source: Path = SOURCE
) -> Iterator[Harness]:
    """The harness of the sweeps, with the operator of `source`. Its logs are in `keep` in the end."""
    warnings.filterwarnings("ignore", message="the operator's lease ran out")
    # As for the tests: garbage collection of small heaps is a fifth of the processor time.
    os.environ.setdefault("GOGC", "400")
    plane, site, logs = (root / name for name in ("plane", "site", "logs"))
    for made in (plane, site, logs):
        made.mkdir(mode=0o700)
    shutil.copy(GUARD, site / "sitecustomize.py")
    path = os.pathsep.join([str(site), str(source)])
    try:
        with running_harness(
            directory=plane,
            apart=True,
            end=backup_runs.succeeds,
            env={"PYTHONPATH": path},
            settled_seconds=SETTLED_SECONDS,
            logs=logs if keep is not None else None,
        ) as harness:
            # No resource is there yet, so nobody has been asked anything.
            (site / "stand_in").write_text(admin_api.url())
            yield harness
    finally:
        if keep is not None:
            _keep([*sorted(logs.iterdir()), *(plane / name for name in KEPT)], keep, redact)


def _keep(files: list[Path], keep: Path, redact: Callable[[str], str]) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    for file in files:
        if file.exists():
            (keep / file.name).write_text(redact(file.read_text(errors="replace")))
