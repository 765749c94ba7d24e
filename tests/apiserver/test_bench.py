"""The measurement's one command, small: it runs from end to end, and what it says fits together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.plan import FLOORS
from tests.apiserver.support.kinds import REPOSITORY
from tests.unit.infra.cli_machine import programs

SECONDS = 1500.0
COUNT = 5


@pytest.mark.thorough
def test_a_small_run_measures_everyone(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    words = ["--sizes", str(COUNT), "--rounds", "1", "--rest", "2", "--results", str(results)]
    ran = subprocess.run(
        [sys.executable, "-m", "bench", *words],
        cwd=REPOSITORY,
        timeout=SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    cells = json.loads(results.read_text())["cells"]
    assert {cell["failed"] for cell in cells} == {None}
    kinds = {(cell["subject"], cell["kind"]) for cell in cells}
    assert len(kinds) == len(cells) == 9
    for cell in cells:
        if cell["subject"] in FLOORS:
            continue
        writes = cell["figures"]["create: writes"]
        assert writes >= COUNT * (cell["figures"]["children"] + 1), cell["subject"]
        assert cell["figures"]["rest: writes"] == 0, cell["subject"]
        assert cell["figures"]["create: cpu s"] > 0
    assert "Our operator beside the Go operators" in results.with_suffix(".html").read_text()


@pytest.mark.thorough
def test_a_signal_ends_it_and_leaves_no_process(tmp_path: Path) -> None:
    """During a trial, with servers and an operator running."""
    words = ["--sizes", "20", "--rounds", "1", "--subjects", "kindling", "--kinds", "memcached"]
    process = subprocess.Popen(
        [sys.executable, "-m", "bench", *words, "--results", str(tmp_path / "results.json")],
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "20 memcached, kindling" in line and "[rest]" in line:
            break
    running = _at_work_in(tmp_path)
    assert len(running) >= 6, running
    process.terminate()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM, out + err
    assert "ended by SIGTERM: what was measured is kept" in err
    assert "Traceback" not in err
    assert _at_work_in(tmp_path) == []


def _at_work_in(folder: Path) -> list[str]:
    """The arguments of each program that has a path in that folder in its arguments or environment."""
    mark = str(folder)
    return [words for _, environment, words in programs() if mark.encode() in environment or mark in words]
