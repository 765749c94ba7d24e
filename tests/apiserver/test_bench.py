"""The measurement's one command, small: it runs from end to end, and what it says fits together."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.plan import FLOORS
from tests.apiserver.kinds import REPOSITORY

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
