"""An older Python gets an error of one sentence: that Python must be able to parse the code before it."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

import pytest

from infra import paths

FIRST = (paths.REPOSITORY / "infra" / "__init__.py", paths.REPOSITORY / "infra" / "__main__.py")


@pytest.mark.parametrize("file", FIRST, ids=lambda path: str(path.name))
@pytest.mark.parametrize("minor", [8, 9, 10])
def test_its_first_files_are_read_by_older_ones(file: Path, minor: int) -> None:
    ast.parse(file.read_text(), feature_version=(3, minor))


@pytest.mark.parametrize("version", [(3, 9, 6, "final", 0), (3, 10, 12, "final", 0)])
def test_an_older_one_gets_a_sentence(
    monkeypatch: pytest.MonkeyPatch, version: tuple[int, int, int, str, int]
) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(FIRST[1]), run_name="__main__")
    assert str(ended.value.code).startswith(f"error: Python 3.{version[1]} is too old for Kindling")
