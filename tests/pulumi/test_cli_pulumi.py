"""`up` and `destroy` with a real Pulumi and a program of one slow resource: state, locks, interruptions.

The program stands in for ours so that no cluster is needed: what is tested is how the command line
drives Pulumi. Pulumi, kind and the Python environment must be in the cache (`python3 -m infra test`
puts them there).
"""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.unit.infra.cli_machine import Machine, machine_with_pulumi, programs_of

PROGRAM = """\
import pulumi
from infra.slow import Slow

Slow("slow", seconds=float(pulumi.Config("kindling").require("workers")))
pulumi.export("secret", pulumi.Output.secret("canary-5f1c"))
"""
RESOURCE = """\
import time
from pathlib import Path

from pulumi.dynamic import CreateResult, Resource, ResourceProvider


class Provider(ResourceProvider):
    serialize_as_secret_always = False

    def create(self, props):
        Path("started").touch()
        time.sleep(props["seconds"])
        return CreateResult("slow", props)


class Slow(Resource, module="slow", name="Slow"):
    def __init__(self, name, *, seconds):
        super().__init__(Provider(), name, {"seconds": seconds})
"""
# Long enough to be interrupted in the middle of, short enough to wait for.
SECONDS = 3


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = machine_with_pulumi(tmp_path)
    (machine.checkout / "__main__.py").write_text(PROGRAM)
    (machine.checkout / "infra" / "slow.py").write_text(RESOURCE)
    settings = machine.checkout / "Pulumi.dev.yaml"
    settings.write_text(settings.read_text() + "  kindling:workers: 0\n")
    return machine


def slow(machine: Machine) -> None:
    settings = machine.checkout / "Pulumi.dev.yaml"
    settings.write_text(settings.read_text().replace("workers: 0", f"workers: {SECONDS}"))


def latest(machine: Machine) -> dict[str, Any]:
    record = machine.home / "state/pulumi/.pulumi/stacks/kindling/dev.json"
    found: dict[str, Any] = json.loads(record.read_text())["checkpoint"]["latest"]
    return found


def resources(machine: Machine) -> list[str]:
    return [resource["urn"].rsplit("::", 1)[1] for resource in latest(machine)["resources"]]


def locks(machine: Machine) -> list[Path]:
    return list((machine.home / "state/pulumi/.pulumi/locks").rglob("*.json"))


def wait_for_creation(machine: Machine) -> None:
    """Until the provider is at work and Pulumi has written down that it is."""
    deadline = time.monotonic() + 60
    while not ((machine.checkout / "started").exists() and latest(machine).get("pending_operations")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_up_leaves_the_checkout_clean_and_destroy_leaves_nothing(machine: Machine) -> None:
    settings = machine.checkout / "Pulumi.dev.yaml"
    before = settings.read_text()
    done = machine.cli("up")
    assert done.returncode == 0, done.stderr
    assert "slow" in resources(machine)
    assert "Stack dev is up." in done.stdout
    assert "Time taken:" in done.stderr
    assert settings.read_text() == before
    assert sorted(machine.checkout.glob("Pulumi.*")) == sorted(
        [machine.checkout / f"Pulumi.{name}yaml" for name in ("", "dev.", "prod.", "staging.", "test.")]
    )
    passphrase = machine.home / "state" / "passphrase"
    assert stat.S_IMODE(passphrase.stat().st_mode) == 0o600
    assert passphrase.read_text() not in done.stdout + done.stderr
    assert "canary-5f1c" not in done.stdout + done.stderr

    again = machine.cli("up")
    assert again.returncode == 0, again.stderr
    assert "unchanged" in again.stdout

    gone = machine.cli("destroy")
    assert gone.returncode == 0, gone.stderr
    assert "Stack dev is gone." in gone.stdout
    assert not (machine.home / "state").exists()
    assert settings.read_text() == before
    assert "nothing to destroy" in machine.cli("destroy").stdout


def test_a_passphrase_of_the_users_is_used_and_none_is_made(machine: Machine) -> None:
    machine.extra["PULUMI_CONFIG_PASSPHRASE"] = "correct horse"
    assert machine.cli("up").returncode == 0
    assert not (machine.home / "state" / "passphrase").exists()
    machine.extra["PULUMI_CONFIG_PASSPHRASE"] = "another"
    done = machine.cli("up")
    assert done.returncode == 1
    assert "incorrect passphrase" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("number", "status", "send"),
    [
        # A terminal signals the whole group, `kill` one process: Pulumi must get the signal once either way.
        pytest.param(signal.SIGINT, 130, os.killpg, id="Ctrl-C"),
        pytest.param(signal.SIGINT, 130, os.kill, id="kill -INT", marks=pytest.mark.thorough),
        pytest.param(signal.SIGTERM, 143, os.kill, id="kill", marks=pytest.mark.thorough),
    ],
)
def test_interrupted_once_pulumi_finishes_what_it_is_at(
    machine: Machine, number: signal.Signals, status: int, send: Callable[[int, int], None]
) -> None:
    assert machine.cli("preview").returncode == 0
    slow(machine)
    process = machine.start("up")
    wait_for_creation(machine)
    send(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == status, out + err
    assert out.count("received; cancelling") == 1
    assert "received; terminating" not in out
    assert "interrupted: what was finished is kept" in err.splitlines()[-1]
    assert "slow" in resources(machine)
    assert not latest(machine).get("pending_operations")
    assert locks(machine) == []
    assert programs_of(machine) == {}

    done = machine.cli("up")
    assert done.returncode == 0, done.stderr


def kill_in_creation(machine: Machine) -> None:
    """Leave what an `up` leaves that was killed while it created something."""
    assert machine.cli("preview").returncode == 0
    slow(machine)
    process = machine.start("up")
    wait_for_creation(machine)
    kill_everything(machine)
    process.communicate(timeout=60)


def test_a_killed_run_is_taken_up_by_the_next(machine: Machine) -> None:
    kill_in_creation(machine)
    assert locks(machine)
    assert latest(machine)["pending_operations"]

    done = machine.cli("up")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cleared up after a run that was cut off" in done.stderr
    assert "pending operations" not in done.stdout
    assert "slow" in resources(machine)
    assert not latest(machine).get("pending_operations")
    assert locks(machine) == []


def test_what_a_killed_run_left_can_be_destroyed(machine: Machine) -> None:
    kill_in_creation(machine)

    done = machine.cli("destroy")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (machine.home / "state").exists()


def test_a_second_run_beside_the_first_is_refused_and_does_no_harm(machine: Machine) -> None:
    assert machine.cli("preview").returncode == 0
    slow(machine)
    process = machine.start("up")
    wait_for_creation(machine)
    second = machine.cli("up")
    out, err = process.communicate(timeout=60)
    assert second.returncode == 1
    assert "stack `dev` is being changed by another run" in second.stderr
    assert "Traceback" not in second.stderr
    assert process.returncode == 0, out + err
    assert "slow" in resources(machine)


def test_a_failing_program_ends_with_its_message_and_1(machine: Machine) -> None:
    (machine.checkout / "__main__.py").write_text("raise ValueError('the program is broken')\n")
    done = machine.cli("up")
    assert done.returncode == 1
    assert "the program is broken" in done.stdout
    assert "`pulumi up` of stack `dev` ended with status" in done.stderr
    assert "Traceback" not in done.stderr
    assert locks(machine) == []


def test_exec_runs_pulumi_with_the_stacks_settings(machine: Machine) -> None:
    assert machine.cli("up").returncode == 0
    done = machine.cli("exec", "pulumi", "stack", "--show-name")
    assert (done.returncode, done.stdout.strip()) == (0, "dev"), done.stderr
    missing = machine.cli("exec", "pulumi", "stack", "output", "nothing")
    assert missing.returncode != 0


@pytest.mark.parametrize("words", [("preview",), ("refresh", "--yes"), ("config",), ("stack", "output")])
def test_exec_pulumi_leaves_the_checkout_clean(machine: Machine, words: tuple[str, ...]) -> None:
    settings = machine.checkout / "Pulumi.dev.yaml"
    before = settings.read_text()
    assert machine.cli("up").returncode == 0
    done = machine.cli("exec", "pulumi", *words)
    assert done.returncode == 0, done.stderr
    assert settings.read_text() == before


def kill_everything(machine: Machine) -> None:
    """As a machine that loses power would, to the processes of this machine alone."""
    for pid in programs_of(machine):
        with suppress(ProcessLookupError):  # One may end because another did.
            os.kill(pid, signal.SIGKILL)
