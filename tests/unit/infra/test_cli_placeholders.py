"""A stack that nobody has set up: pipelines skip it and name it; a person gets the settings to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra import settings
from infra.cli.stacks import placeholders
from tests.unit.infra.cli_machine import Machine, new_machine

FILLED = """\
config:
  kindling:cluster: existing
  kindling:context: ours
  kindling:imageSource: promoted
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = new_machine(tmp_path)
    machine.engine(containers={})
    return machine


def test_they_are_where_a_new_repository_has_them() -> None:
    """And nowhere else, or a stack that is in use would be gone round."""
    found = {stack: placeholders.of(stack) for stack in settings.stacks()}
    assert found == {
        "dev": [],
        "test": [],
        "staging": [
            "kindling:context: staging.example.com",
            "kindling:registry: registry.example.com/kindling",
        ],
        "prod": ["kindling:context: prod.example.com"],
    }


@pytest.mark.parametrize("words", [("up", "--yes"), ("preview",), ("drift",)])
@pytest.mark.parametrize("stack", ["staging", "prod"])
def test_a_pipeline_goes_round_it(machine: Machine, stack: str, words: tuple[str, ...]) -> None:
    """Green, without secrets, a cluster, Pulumi or a Python environment, and it says what to fill in."""
    machine.extra |= {"CI": "true", "GITHUB_ACTIONS": "true", "PULUMI_BACKEND_URL": ""}
    done = machine.cli(words[0], stack, *words[1:])
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    reported = f"Stack {stack} is skipped: its file has kindling:context: {stack}.example.com"
    assert line.startswith(f"::notice::{reported}")
    assert line.endswith(f"write yours into Pulumi.{stack}.yaml.")
    assert not (machine.home / "state").exists()


@pytest.mark.parametrize("words", [("up", "--yes"), ("preview",), ("drift",)])
def test_a_person_learns_what_to_write(machine: Machine, words: tuple[str, ...]) -> None:
    done = machine.cli(words[0], "staging", *words[1:])
    assert done.returncode == 1
    assert done.stderr.startswith("error: stack `staging` is not set up yet")
    assert "kindling:registry: registry.example.com/kindling" in done.stderr


def test_its_page_says_so_too(machine: Machine) -> None:
    machine.extra["CI"] = "true"
    done = machine.cli("preview", "staging", "--markdown", str(machine.home / "page.md"))
    assert done.returncode == 0
    page = (machine.home / "page.md").read_text()
    assert page.startswith("<!-- kindling-preview: staging -->\n## Preview of stack `staging`: not made")
    assert "Stack staging is skipped: its file has kindling:context" in page


def test_a_stack_that_waits_for_its_first_promotion_is_gone_round(machine: Machine) -> None:
    """By `up`, and by what makes a plan for it; a preview alone shows all the rest."""
    (machine.checkout / "Pulumi.prod.yaml").write_text(FILLED)
    machine.extra["CI"] = "true"
    plan = machine.home / "plan.json"
    for words in (("up", "prod", "--yes"), ("preview", "prod", "--save-plan", str(plan))):
        done = machine.cli(*words)
        assert (done.returncode, done.stderr) == (0, "")
        assert "nothing was promoted to it yet: python3 -m infra promote STACK prod" in done.stdout
    assert not plan.exists()


def test_a_page_is_the_jobs_summary_too(machine: Machine) -> None:
    """After what other steps wrote there."""
    summary, page = machine.home / "summary.md", machine.home / "page.md"
    summary.write_text("before\n")
    machine.extra |= {"CI": "true", "GITHUB_STEP_SUMMARY": str(summary)}
    assert machine.cli("preview", "prod", "--markdown", str(page)).returncode == 0
    assert summary.read_text() == "before\n" + page.read_text()
