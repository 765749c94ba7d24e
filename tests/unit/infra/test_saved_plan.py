"""Plans: what was previewed is what `up` does, and what does not fit any more is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.cli.stacks import file_backend, saved_plan
from infra.errors import KindlingError
from tests.unit.infra.cli_machine import Machine, machine_with_pulumi

# The second depends on an output that only the first's creation returns, as ours do on the cluster.
PROGRAM = """\
import pulumi
from infra.made import Made

first = Made("first", value=FIRST)
Made("second", value=first.output)
"""
RESOURCE = """\
import pulumi
from pulumi.dynamic import CreateResult, Resource, ResourceProvider, UpdateResult


class Provider(ResourceProvider):
    serialize_as_secret_always = False

    def create(self, props):
        return CreateResult("made", {**props, "output": "canary-" + str(props["value"])})

    def update(self, id, olds, news):
        return UpdateResult({**news, "output": "canary-" + str(news["value"])})


class Made(Resource, module="made", name="Made"):
    output: pulumi.Output[str]

    def __init__(self, name, *, value):
        opts = pulumi.ResourceOptions(additional_secret_outputs=["output"])
        super().__init__(Provider(), name, {"value": value, "output": None}, opts)
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = machine_with_pulumi(tmp_path)
    (machine.checkout / "infra" / "made.py").write_text(RESOURCE)
    return machine


def declare(machine: Machine, first: int) -> None:
    (machine.checkout / "__main__.py").write_text(PROGRAM.replace("FIRST", str(first)))


def planned(machine: Machine) -> str:
    file = str(machine.home / "plan.json")
    done = machine.cli("preview", "--save-plan", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith(f"python3 -m infra up dev --plan {file}\n")
    return file


def recorded_state(machine: Machine) -> str:
    return (machine.home / "state/pulumi/.pulumi/stacks/kindling/dev.json").read_text()


def test_a_plan_is_carried_out_on_a_new_stack_and_on_one_that_exists(machine: Machine) -> None:
    declare(machine, 1)
    done = machine.cli("up", "--plan", planned(machine))
    assert done.returncode == 0, done.stdout + done.stderr
    declare(machine, 2)
    file = planned(machine)
    assert "canary" not in Path(file).read_text()
    done = machine.cli("up", "--plan", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"value":2' in recorded_state(machine).replace(" ", "")
    # One that changes nothing.
    assert machine.cli("up", "--plan", planned(machine)).returncode == 0


def test_another_program_than_the_planned_one_is_refused(machine: Machine) -> None:
    declare(machine, 1)
    assert machine.cli("up").returncode == 0
    declare(machine, 2)
    file = planned(machine)
    declare(machine, 3)
    done = machine.cli("up", "--plan", file)
    assert done.returncode == 1
    assert "violates plan" in done.stdout
    assert f"python3 -m infra preview dev --save-plan {file}" in done.stderr
    assert '"value":1' in recorded_state(machine).replace(" ", "")
    # The stack stays usable.
    assert machine.cli("up").returncode == 0
    assert '"value":3' in recorded_state(machine).replace(" ", "")


def test_a_plan_older_than_the_stacks_last_change_is_refused_before_anything_is_done(
    machine: Machine,
) -> None:
    declare(machine, 1)
    file = planned(machine)
    assert machine.cli("up").returncode == 0
    before = recorded_state(machine)
    done = machine.cli("up", "--plan", file)
    assert done.returncode == 1
    assert f"error: the plan `{file}` cannot be carried out on stack `dev`" in done.stderr
    assert "why: the stack was last changed 20" in done.stderr
    assert "remedy: make and read a new one" in done.stderr
    assert recorded_state(machine) == before


def refusal(file: Path, state: file_backend.StackState | None) -> str:
    with pytest.raises(KindlingError) as caught:
        saved_plan.check(file, stack="dev", state=state)
    return str(caught.value)


GOOD = {
    "manifest": {"time": "2026-01-02T03:04:05.123456789Z"},
    "resourcePlans": {"urn:pulumi:dev::k::t::n": {}},
}
STANDING = file_backend.StackState(changed="2026-01-02T05:04:04+02:00")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", "null", '{"manifest": {}}', '{"manifest": {"time": "x"}, "resourcePlans": {}}'],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    assert "it is no plan of Pulumi's" in refusal(file, STANDING)


def test_a_plan_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "No such file or directory" in refusal(tmp_path / "none.json", STANDING)


def test_another_stacks_plan_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({**GOOD, "resourcePlans": {"urn:pulumi:prod::k::t::n": {}}}))
    assert "it was made for stack `prod`" in refusal(file, STANDING)


def test_a_plan_for_a_stack_that_is_gone_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(GOOD))
    assert "the stack was destroyed" in refusal(file, None)


@pytest.mark.parametrize("state", [STANDING, file_backend.StackState(known=False), file_backend.StackState()])
def test_a_plan_made_after_the_last_change_passes(tmp_path: Path, state: file_backend.StackState) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(GOOD))
    saved_plan.check(file, stack="dev", state=state)
