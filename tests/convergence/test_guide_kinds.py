"""The guides' kinds in the sweeps: what a new kind may do stands up to crashes, lost events and older views.

The files of the guides are added to a copy of the working tree, whose own sweeps then try these kinds alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.guides import add_kinds, copy

COPIED = ("operator", "infra", "crds", "samples", "tests", "pyproject.toml", "requirements-dev.txt")
SWEEPS = ("tests/convergence/test_crashes.py", "tests/convergence/test_missed_and_stale.py")
A_FEW = (
    "test_a_crash_at_any_of_a_few_writes_changes_nothing_in_the_end",
    "test_a_few_lost_events_and_refused_writes_change_nothing_in_the_end",
    "test_a_few_older_views_change_nothing_in_the_end",
)
SECONDS = 1800.0
RUN = "import os, sys, pytest; status = pytest.main(sys.argv[1:]); sys.stdout.flush(); os._exit(status)"
"""pytest without the interpreter's own end, which was seen to wait for ever on a lock: a daemon thread of the
harness held it.
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkout")
    copy(root, COPIED)
    add_kinds(root)
    return root


def sweep(checkout: Path, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, "-q", "-p", "no:cacheprovider", "-n", "0", *words],
        cwd=checkout,
        env={**os.environ, "PYTEST_ADDOPTS": "", "KINDLING_SCENARIOS": "Greeting,Errand,Ensemble"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


@pytest.mark.thorough
def test_a_few_crashes_lost_events_and_older_views(checkout: Path) -> None:
    sweep(checkout, *SWEEPS, "-k", " or ".join(A_FEW))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name",
    [
        "test_a_crash_at_any_write_changes_nothing_in_the_end",
        "test_any_lost_event_changes_nothing_in_the_end",
        "test_older_views_change_nothing_in_the_end",
    ],
)
def test_every_crash_lost_event_and_older_view(checkout: Path, name: str) -> None:
    sweep(checkout, *SWEEPS, "--thorough", "-k", name)
