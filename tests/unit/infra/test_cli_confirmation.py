"""What cannot be taken back is asked about on a terminal, and said beforehand where there is none."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infra.cli import confirmation
from tests.unit.infra.cli_machine import Machine, new_machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = new_machine(tmp_path)
    machine.engine(containers={})
    return machine


def test_what_goes_is_said_by_definition_and_namespace() -> None:
    objects = {
        "postgresqls.database.db.example.com": ["shop/a", "shop/b", "default/c"],
        "memcacheds.cache.example.com": [],
    }
    reported = confirmation.destruction(
        "prod", place="the cluster of context `p`", resources=23, objects=objects
    )
    assert "Stack prod is to be removed from the cluster of context `p`: 23 resources" in reported
    assert "  postgresqls.database.db.example.com: 2 in shop, 1 in default" in reported
    assert "memcacheds" not in reported


def test_of_many_namespaces_the_fullest_are_named() -> None:
    objects = {"memcacheds.cache.example.com": [f"ns-{n}/a" for n in range(20)] + ["full/a", "full/b"]}
    reported = confirmation.destruction("prod", place="p", resources=1, objects=objects)
    assert "memcacheds.cache.example.com: 2 in full, " in reported
    assert "and 13 more namespaces" in reported


@pytest.mark.parametrize("verb", ["up"])
def test_without_a_terminal_an_existing_cluster_is_not_touched(machine: Machine, verb: str) -> None:
    (machine.checkout / "Pulumi.staging.yaml").write_text(
        "config:\n  kindling:cluster: existing\n  kindling:context: ours\n"
    )
    done = machine.cli(verb, "staging")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "nobody can be asked" in done.stderr
    assert f"python3 -m infra {verb} staging --yes" in done.stderr


@pytest.mark.parametrize(("typed", "goes"), [("dev\n", True), ("yes\n", False), ("\n", False)])
def test_on_a_terminal_the_stacks_name_is_asked_for(typed: str, goes: bool) -> None:
    """On a real one, as `destroy` asks."""
    ours, theirs = pty.openpty()
    program = (
        "from infra.cli import confirmation\n"
        "assert confirmation.interactive()\n"
        "confirmation.ask('dev')\n"
        "print('gone on')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=theirs, stdout=theirs, stderr=theirs
    ) as asking:
        os.close(theirs)
        seen = b""
        deadline = time.monotonic() + 20
        while b"Type `dev` to go on: " not in seen:
            assert time.monotonic() < deadline, seen
            if select.select([ours], [], [], 1)[0]:
                seen += os.read(ours, 1000)
        os.write(ours, typed.encode())
        assert asking.wait(timeout=20) == (0 if goes else 1)
    os.close(ours)
