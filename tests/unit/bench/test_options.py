"""The command line of the measurement: what it means, and which values are rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.run import RESULTS, read


def test_the_first_phase_alone_does_not_overwrite_what_has_all_of_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for words in ([], ["--results", str(RESULTS.parent / ".." / RESULTS.parent.name / RESULTS.name)]):
        with pytest.raises(SystemExit) as refused:
            read(["--create-only", *words])
        assert refused.value.code == 2
        assert "--results" in capsys.readouterr().err
    assert read(["--create-only", "--results", str(tmp_path / "growth.json")]).create_only


def test_sizes_are_measured_from_the_least() -> None:
    assert read(["--sizes", "1000", "100"]).sizes == [100, 1000]
