"""Packages are installed by root or by passwordless sudo; other users get a list of the missing ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from infra.bootstrap import apt
from infra.errors import KindlingError

SUDO = """\
#!/usr/bin/env python3
import json, pathlib, sys
if {refuses}:
    sys.exit("sudo: a password is required")
with pathlib.Path({log!r}).open("a") as file:
    print(json.dumps(sys.argv[1:]), file=file)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def somebody(monkeypatch: pytest.MonkeyPatch, folder: Path, log: Path, *, refuses: bool) -> None:
    """Not root, with apt and a sudo that writes down what it is to run."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for name, text in (("sudo", SUDO.format(refuses=refuses, log=str(log))), ("apt-get", "#!/bin/true\n")):
        program = folder / name
        program.write_text(text)
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_a_hosted_runners_user_installs_by_sudo(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: Path
) -> None:
    somebody(monkeypatch, tmp_path, log, refuses=False)
    assert apt.available()
    apt.install(["docker-registry"])
    words = [json.loads(line) for line in log.read_text().splitlines()]
    assert all(word[0] == "--non-interactive" for word in words), "nobody is asked for a password"
    apart = [word[3:] for word in words if "apt-get" in word]
    assert apart[0] == ["apt-get", "-q", "update"]
    assert apart[1][-1] == "docker-registry"


def test_anybody_else_learns_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: Path
) -> None:
    somebody(monkeypatch, tmp_path, log, refuses=True)
    assert not apt.available()
    with pytest.raises(KindlingError) as raised:
        apt.install(["docker-registry"])
    assert "docker-registry" in raised.value.what
    assert "sudo without a password" in raised.value.why
