"""The workflows: valid, pinned, with the least rights, and speaking the command line's own words."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import processes, settings
from infra.cli.arguments import parse
from infra.paths import REPOSITORY
from infra.toolchain import Toolchain

FOLDER = REPOSITORY / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
PREFIX = ["python3", "-m", "infra"]
# Up for as long as a test run.
OF_TESTS = "test"
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")

Json = dict[str, Any]


def workflow(name: str) -> Json:
    loaded: Json = yaml.safe_load((FOLDER / f"{name}.yml").read_text())
    return loaded


def jobs(file: Path) -> Iterator[tuple[str, Json]]:
    yield from workflow(file.stem)["jobs"].items()


def steps(file: Path) -> Iterator[Json]:
    for _name, job in jobs(file):
        yield from job.get("steps", [])


def commands(name: str) -> list[list[str]]:
    """The command lines of a workflow with their expressions filled in, each for all that call it."""
    found = []
    stacks = [job["with"]["stack"] for _, job in jobs(FOLDER / "ci.yml") if "with" in job]
    for job in workflow(name)["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        values = {f"matrix.{key}": value for key, value in matrix.items()} | {"inputs.stack": stacks}
        for line in (step["run"] for step in job.get("steps", []) if "run" in step):
            names = [key for key in values if key in EXPRESSION.findall(line)]
            for chosen in itertools.product(*(values[key] for key in names)):
                filled = dict(zip(names, chosen, strict=True))
                found.append(EXPRESSION.sub(lambda match, by=filled: by[match[1]], line).split())  # type: ignore[misc]
    return found


def stacks_of(name: str, verb: str) -> set[str]:
    parsed = [parse(words[len(PREFIX) :]) for words in commands(name)]
    return {command.stack for command in parsed if command.verb == verb}


def test_they_are_there() -> None:
    assert [file.stem for file in FILES] == ["ci", "drift", "up"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_action_is_pinned_by_its_commit_and_says_its_version(file: Path) -> None:
    used = re.findall(r"uses: *(.*)", file.read_text())
    assert used
    for action in used:
        assert re.fullmatch(
            r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|\./\.github/workflows/up\.yml", action
        )


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_rights_are_the_least(file: Path) -> None:
    assert workflow(file.stem)["permissions"] == {"contents": "read"}
    for name, job in jobs(file):
        wanted = {"pull-requests": "write"} if name == "comment" else None
        assert job.get("permissions") == wanted, name
        uses = [step.get("uses", "") for step in job.get("steps", [])]
        # Where something may be written, no code of the pull request's runs.
        assert name != "comment" or not any("checkout" in action for action in uses)
    for step in steps(file):
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_line_is_one_command_of_ours(file: Path) -> None:
    for step in steps(file):
        if "run" in step:
            assert "\n" not in step["run"].strip()
            assert not set("|&;<>$`") & set(EXPRESSION.sub("", step["run"]))
    for words in commands(file.stem):
        assert words[: len(PREFIX)] == PREFIX
        assert parse(words[len(PREFIX) :]).verb == words[len(PREFIX)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_secrets_stand_in_the_environment_of_a_step_alone(file: Path) -> None:
    """And nothing that a stranger writes, such as a title, is part of a program."""
    for _, job in jobs(file):
        assert "secrets." not in str({key: value for key, value in job.items() if key != "steps"})
    for step in steps(file):
        assert "secrets." not in str({key: value for key, value in step.items() if key != "env"})
        for program in (step.get("run", ""), step.get("with", {}).get("script", "")):
            assert {name.partition(".")[0] for name in EXPRESSION.findall(program)} <= {"matrix", "inputs"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_job_runs_for_ever(file: Path) -> None:
    for name, job in jobs(file):
        assert "timeout-minutes" in job or "uses" in job, name


def test_every_stack_is_previewed_and_brought_up() -> None:
    stacks = {"dev", *settings.stacks()} - {OF_TESTS}
    assert stacks <= stacks_of("ci", "preview")
    assert stacks <= stacks_of("up", "up")
    assert stacks - {"dev"} <= stacks_of("drift", "drift")
    pages = re.findall(r"\[('\w+'(?:, '\w+')*)\]\.map\(page\)", (FOLDER / "ci.yml").read_text())
    assert stacks <= {name.strip(" '") for page in pages for name in page.split(",")}


def test_stacks_follow_each_other_and_one_run_has_a_stack_at_a_time() -> None:
    ci = workflow("ci")["jobs"]
    assert ci["up-dev"]["needs"] == "test"
    assert ci["up-dev"]["if"] == "github.event_name == 'push'"
    assert (ci["up-staging"]["needs"], ci["up-prod"]["needs"]) == ("up-dev", "up-staging")
    up = workflow("up")["jobs"]["up"]
    assert up["environment"] == "${{ inputs.stack }}"
    assert up["concurrency"] == {"group": "stack-${{ inputs.stack }}", "cancel-in-progress": False}


def test_a_run_that_waits_for_a_reviewer_holds_no_other_up() -> None:
    """A group of the whole workflow would be held until somebody approves."""
    group = workflow("ci")["concurrency"]["group"]
    assert group == "ci-${{ github.event_name == 'pull_request' && github.ref || github.run_id }}"


def test_what_a_pull_request_runs_has_no_way_into_a_cluster() -> None:
    preview = workflow("ci")["jobs"]["preview"]
    assert preview["environment"] == "${{ matrix.stack }}-read"
    assert "KUBECONFIG" not in str(preview)
    drift = workflow("drift")["jobs"]["drift"]
    assert drift["environment"] == "${{ matrix.stack }}-drift"


def test_a_strangers_pull_request_meets_no_secret() -> None:
    # YAML reads the word `on` as true.
    triggers = workflow("ci")[True]  # type: ignore[index]
    assert set(triggers) == {"pull_request", "push"}
    for _name, job in jobs(FOLDER / "ci.yml"):
        if "secrets." in str(job):
            assert "head.repo.full_name == github.repository" in job["if"]
            assert "github.actor != 'dependabot[bot]'" in job["if"]


def test_one_comment_is_edited_in_place() -> None:
    [script] = [
        step["with"]["script"]
        for step in workflow("ci")["jobs"]["comment"]["steps"]
        if "script" in step["with"]
    ]
    assert script.count("<!-- kindling preview -->") == 1
    assert script.index("updateComment") < script.index("createComment")


def test_actionlint_finds_nothing_in_them_and_something_in_a_broken_one(tmp_path: Path) -> None:
    """`infra test` runs it with the linters."""
    program = Toolchain().ensure("actionlint")
    processes.run([program, *FILES], timeout=60)
    broken = tmp_path / "broken.yml"
    broken.write_text(FILES[0].read_text().replace("github.run_id", "github.runid"))
    with pytest.raises(processes.ProgramError):
        processes.run([program, broken], timeout=60)
