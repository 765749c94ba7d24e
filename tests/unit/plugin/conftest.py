"""What all tests of the plugin share: a program in kubectl's place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.plugin.fake_kubectl import FakeKubectl


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeKubectl:
    """The only kubectl on PATH; the working directory is an empty folder."""
    fake = FakeKubectl(tmp_path / "fake")
    monkeypatch.setenv("PATH", f"{fake.bin}{os.pathsep}/usr/bin")
    monkeypatch.chdir(tmp_path)
    return fake
