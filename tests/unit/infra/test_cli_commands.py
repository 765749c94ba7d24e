"""The real command line on machines that lack something: what it says, where, and how it ends.

Each runs `python3 -m infra` as a program with a PATH, a cache and a state of its own, in a copy of the
checkout. The engine, where there is one, is a small program that answers as Podman does.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.bootstrap.toolchain import Toolchain
from infra.components.images import OBJECT_STORE
from tests.unit.infra.cli_machine import Machine, new_machine, programs_of


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return new_machine(tmp_path)


@pytest.fixture
def bare(tmp_path: Path) -> Machine:
    """Where the Python environment is still to be made."""
    return new_machine(tmp_path, environment=False)


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def is_message(text: str, *, what: str) -> bool:
    """What, why and remedy, and no traceback."""
    return what in text and "why: " in text and "remedy: " in text and "Traceback" not in text


def test_no_engine_and_no_way_to_install_one_blocks_before_anything_is_touched(machine: Machine) -> None:
    done = machine.cli("up")
    assert done.returncode == 1
    assert is_message(done.stderr, what="error: no container engine answers")
    assert machine.made == set()


def test_doctor_says_the_same_and_touches_nothing_either(machine: Machine) -> None:
    done = machine.cli("doctor")
    assert done.returncode == 1
    assert is_message(done.stdout, what="blocked: no container engine answers")
    assert done.stderr == ""
    assert machine.made == set()


def test_without_an_environment_doctor_says_so_and_makes_none(bare: Machine) -> None:
    done = bare.cli("doctor", "staging")
    assert (done.returncode, done.stderr) == (1, "")
    assert is_message(done.stdout, what="blocked: no container engine answers")
    assert "settings cannot be read yet: this is for a kind cluster" in done.stdout
    assert not (bare.home / "cache").exists()
    assert not (bare.home / "state").exists()


def test_usage_errors_and_help_need_no_environment(bare: Machine) -> None:
    assert bare.cli("nix").returncode == 2
    assert bare.cli("up", "--help").returncode == 0
    assert not (bare.home / "cache").exists()


@pytest.mark.parametrize("environment", [True, False])
def test_doctor_lists_what_is_there_and_what_would_be_done(tmp_path: Path, environment: bool) -> None:
    machine = new_machine(tmp_path, environment=environment)
    machine.engine(containers={})
    done = machine.cli("doctor")
    assert done.returncode == 0
    lines = {line.split("  ")[1]: line for line in done.stdout.splitlines() if line.startswith("  ")}
    assert "podman, on PATH" in lines["Container engine"]
    assert ("missing" in lines["Python packages"]) is not environment
    assert "missing" in lines["pulumi"]
    assert "build" in lines["pulumi"]
    assert "download pulsar-server-distribution 4.0.4, 228 MiB" in lines["Pulsar broker"]
    assert "Nothing is in the way" in done.stdout


def test_a_disk_that_is_too_small_is_refused_before_a_tool_is_built(machine: Machine) -> None:
    machine.engine(containers={})
    machine.free_disk(gib=2)
    for verb in ("up", "doctor"):
        done = machine.cli(verb)
        assert done.returncode == 1
        shown = done.stdout if verb == "doctor" else done.stderr
        assert is_message(shown, what="too little disk space for")
        assert "2.0 GiB are free" in shown
    assert not (machine.home / "cache" / "tools").exists()


def test_doctor_says_nothing_of_a_broker_that_the_stack_does_not_have(machine: Machine) -> None:
    machine.engine(containers={})
    settings = machine.checkout / "Pulumi.dev.yaml"
    settings.write_text(
        settings.read_text()
        .replace("kindling:broker: true", "kindling:broker: false # true")
        .replace("kindling:samples: true", "kindling:samples: false")
    )
    assert "Pulsar" not in machine.cli("doctor").stdout


def test_doctor_sees_the_brokers_download_in_the_cache(machine: Machine) -> None:
    machine.engine(containers={})
    folder = machine.home / "cache/maven/org/apache/pulsar/pulsar-server-distribution/4.0.4"
    folder.mkdir(parents=True)
    (folder / "pulsar-server-distribution-4.0.4-bin.tar.gz").touch()
    (line,) = (line for line in machine.cli("doctor").stdout.splitlines() if "Pulsar broker" in line)
    assert line.split() == ["Pulsar", "broker", "in", "the", "cache", "-"]


def with_object_store(machine: Machine) -> None:
    machine.engine(containers={})
    settings = machine.checkout / "Pulumi.dev.yaml"
    settings.write_text(settings.read_text() + "  kindling:objectStore: true\n")


def line_of(machine: Machine, name: str) -> str:
    """The line of `doctor` about this part; empty where there is none."""
    found = [line for line in machine.cli("doctor").stdout.splitlines() if line.startswith(f"  {name}  ")]
    return "".join(found)


def test_doctor_says_what_the_object_store_of_a_stack_will_take_and_nothing_of_one_it_has_not(
    machine: Machine,
) -> None:
    machine.engine(containers={})
    assert line_of(machine, "Object store") == ""
    before = machine.cli("doctor").stdout
    with_object_store(machine)
    assert line_of(machine, "Object store").split("  ")[-1].strip() == (
        "build versitygw 1.8.0 from its pinned Go module (about 1 min 0 s)"
    )
    after = machine.cli("doctor").stdout
    # It is the one part more, and counted in what all takes.
    assert len(after.splitlines()) == len(before.splitlines()) + 1
    assert [line for line in before.splitlines() if "in all" in line] != [
        line for line in after.splitlines() if "in all" in line
    ]


def test_doctor_sees_the_object_stores_program_in_the_cache(machine: Machine) -> None:
    with_object_store(machine)
    program = machine.home / "cache/tools" / Toolchain().build_key("versitygw") / "versitygw"
    program.parent.mkdir(parents=True)
    program.touch()
    assert line_of(machine, "Object store").split() == [
        "Object",
        "store",
        "1.8.0,",
        "in",
        "the",
        "cache",
        "-",
    ]


def test_doctor_sees_the_object_stores_image_in_the_cache(machine: Machine) -> None:
    with_object_store(machine)
    archive = machine.home / "cache/images" / f"{OBJECT_STORE.image}-{OBJECT_STORE.digest()}.tar"
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert line_of(machine, "Object store").split() == ["Object", "store", "in", "the", "cache", "-"]


@pytest.mark.parametrize("verb", ["up", "preview", "refresh", "destroy", "doctor"])
def test_an_unknown_stack_is_named_with_the_known_ones(machine: Machine, verb: str) -> None:
    done = machine.cli(verb, "dve")
    assert done.returncode == 1
    assert is_message(done.stderr, what="there is no stack `dve`")
    assert "dev, prod, staging, test" in done.stderr


def node(*, state: Path | None, running: bool) -> dict[str, object]:
    """What an engine says of a node container; `state` is the state folder of whoever made it."""
    mounts = []
    if state is not None:
        mounts = [{"Destination": "/kind/kindling-incarnation", "Source": f"{state.resolve()}/clusters/0a1b"}]
    return {"Mounts": mounts, "Running": "true" if running else "false"}


@pytest.mark.parametrize("state", [None, Path("/somebody/kindling")])
def test_a_foreign_cluster_of_that_name_blocks(machine: Machine, state: Path | None) -> None:
    machine.engine(containers={"kindling-dev-control-plane": node(state=state, running=True)})
    done = machine.cli("up")
    assert done.returncode == 1
    assert is_message(done.stderr, what="`kindling-dev`")
    assert not machine.made & {"tools", "images", "stacks"}


def test_destroy_leaves_a_foreign_cluster_alone(machine: Machine) -> None:
    machine.engine(containers={"kindling-dev-control-plane": node(state=None, running=True)})
    done = machine.cli("destroy")
    assert (done.returncode, done.stdout) == (0, "Stack dev: there is nothing to destroy.\n")


def test_a_stopped_cluster_blocks_with_the_way_to_start_it(machine: Machine) -> None:
    machine.engine(
        containers={"kindling-dev-control-plane": node(state=machine.home / "state", running=False)}
    )
    done = machine.cli("up")
    assert done.returncode == 1
    assert is_message(done.stderr, what="the cluster `kindling-dev` is stopped")
    assert "podman start" in done.stderr


def test_destroy_of_what_never_was_needs_no_tool(machine: Machine) -> None:
    for _ in range(2):
        done = machine.cli("destroy")
        assert (done.returncode, done.stdout) == (0, "Stack dev: there is nothing to destroy.\n")
    assert machine.made == set()


def test_refresh_of_what_never_was_says_so(machine: Machine) -> None:
    done = machine.cli("refresh")
    assert done.returncode == 1
    assert is_message(done.stderr, what="stack `dev` has no state to compare")


@pytest.mark.parametrize(
    "verb",
    ["up", *(pytest.param(verb, marks=pytest.mark.thorough) for verb in ("preview", "exec"))],
)
def test_without_a_network_the_first_fetch_says_so(bare: Machine, verb: str) -> None:
    machine = bare
    machine.extra["PIP_RETRIES"] = "1"
    began = time.monotonic()
    done = machine.cli(verb, *(["kubectl", "version"] if verb == "exec" else []))
    assert done.returncode == 1
    # As for an index that has no page for a moment, it would wait for minutes.
    assert time.monotonic() - began < 60
    assert is_message(done.stderr, what="the Python packages could not be installed")
    assert not list((machine.home / "state").glob("*"))


def test_a_broken_setting_is_refused_before_a_tool_is_built(machine: Machine) -> None:
    machine.engine(containers={})
    with (machine.checkout / "Pulumi.dev.yaml").open("a") as file:
        file.write("  kindling:workers: many\n")
    for verb in ("up", "preview", "doctor"):
        done = machine.cli(verb)
        assert done.returncode == 1
        shown = done.stdout if verb == "doctor" else done.stderr
        assert is_message(shown, what="kindling:workers of stack `dev` cannot be `many`")
    assert not (machine.home / "cache" / "tools").exists()


def test_a_taken_port_is_refused_before_a_tool_is_built(machine: Machine, taken_port: int) -> None:
    machine.engine(containers={})
    with (machine.checkout / "Pulumi.dev.yaml").open("a") as file:
        file.write(f"  kindling:apiServerPort: {taken_port}\n")
    for verb in ("up", "doctor"):
        done = machine.cli(verb)
        assert done.returncode == 1
        shown = done.stdout if verb == "doctor" else done.stderr
        assert is_message(shown, what=f"port {taken_port} (kindling:apiServerPort)")
    assert not (machine.home / "cache" / "tools").exists()


def test_a_run_at_work_is_reported_by_doctor(machine: Machine) -> None:
    machine.engine(containers={})
    folder = machine.home / "state/pulumi/.pulumi/locks/organization/kindling/dev"
    folder.mkdir(parents=True)
    content = {"pid": 1, "username": "somebody", "hostname": "elsewhere", "timestamp": "2026-01-02T03:04:05Z"}
    (folder / "0.json").write_text(json.dumps(content))
    done = machine.cli("doctor")
    assert done.returncode == 1
    assert is_message(done.stdout, what="stack `dev` is being changed by another run")


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.thorough),
        pytest.param(signal.SIGHUP, 143, marks=pytest.mark.thorough),
    ],
)
def test_an_interrupted_step_ends_its_programs_and_says_how_to_go_on(
    bare: Machine, number: signal.Signals, status: int
) -> None:
    machine = bare
    # pip asks again and again with growing pauses, so the step lasts until it is interrupted.
    machine.extra |= {"PIP_RETRIES": "50"}
    process = machine.start("up")
    assert process.stderr is not None
    shown = ""
    while "Python environment" not in shown:
        shown += process.stderr.readline()
    wait_for_pip(machine)
    process.send_signal(number)
    _, rest = process.communicate(timeout=30)
    assert process.returncode == status
    assert "interrupted" in rest.splitlines()[-1]
    assert "python3 -m infra up" in rest.splitlines()[-1]
    assert "Traceback" not in rest
    assert programs_of(machine) == {}


def test_an_interrupt_between_the_two_processes_waits_for_the_second(machine: Machine) -> None:
    """It comes while one is becoming the other, when nobody could say how it ended."""
    code = (
        "import os, signal\nfrom infra.cli import exit_status, launcher\nhold = exit_status.hold_interrupts\n"
        "def holding():\n    hold()\n    os.kill(os.getpid(), signal.SIGINT)\n"
        "exit_status.hold_interrupts = holding\nlauncher.start(['up'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=machine.checkout,
        env=machine.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.startswith("interrupted: ")
    assert len(done.stderr.splitlines()) == 1


def test_standard_input_and_exit_status_are_the_commands_own(machine: Machine) -> None:
    """What `exec` becomes is the third program in one process."""
    machine.engine(containers={})
    kubectl = machine.home / "bin" / "kubectl"
    kubectl.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        "if 'version' in sys.argv:\n    sys.exit(print('Client Version: v1.34.4'))\n"
        "print(os.getpid(), sys.stdin.read())\nsys.exit(7)\n"
    )
    kubectl.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "infra", "exec", "kubectl", "apply"],
        cwd=machine.checkout,
        env=machine.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    out, _ = process.communicate("words", timeout=60)
    assert (process.returncode, out) == (7, f"{process.pid} words\n")


def wait_for_pip(machine: Machine) -> None:
    deadline = time.monotonic() + 60
    while not any(" pip " in words for words in programs_of(machine).values()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
