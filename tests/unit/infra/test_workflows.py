"""The workflows: valid, pinned, with the least rights, and speaking the command line's own words."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import processes, settings
from infra.bootstrap.toolchain import Toolchain
from infra.cli.arguments import Command, parse
from infra.paths import REPOSITORY

FOLDER = REPOSITORY / ".github" / "workflows"
FILES = sorted(FOLDER.glob("*.yml"))
PREFIX = ["python3", "-m", "infra"]
# Up for as long as a test run.
OF_TESTS = "test"
SHARED = "./.github/workflows/stack.yml"
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
# What a hosted runner has, for the logins of clusters and registries that have no action of ours.
PROVIDERS = {"aws", "az", "kubelogin"}
READ = {"contents": "read"}
LOGIN = {"contents": "read", "id-token": "write"}
PROPOSE = {"contents": "write", "pull-requests": "write", "id-token": "write"}
RIGHTS: dict[tuple[str, str], dict[str, str] | None] = {
    ("ci", "test"): None,
    ("ci", "comment"): {"pull-requests": "write"},
    # A cluster of the runner's own.
    ("ci", "up-dev"): READ,
    ("promote", "promote"): PROPOSE,
    # The caller's.
    ("stack", "stack"): None,
}
"""Of each job but those that run a command on a stack elsewhere, which may log in and nothing else."""

Json = dict[str, Any]


def workflow(name: str) -> Json:
    loaded: Json = yaml.safe_load((FOLDER / f"{name}.yml").read_text())
    return loaded


def jobs(file: Path) -> Iterator[tuple[str, Json]]:
    yield from workflow(file.stem)["jobs"].items()


def steps(file: Path) -> Iterator[Json]:
    for _name, job in jobs(file):
        yield from job.get("steps", [])


def filled(text: str, matrix: Json) -> list[str]:
    """The text for each of the matrix's combinations; other expressions stay."""
    values = {f"matrix.{key}": value for key, value in matrix.items()}
    names = [key for key in values if key in EXPRESSION.findall(text)]
    found = []
    for chosen in itertools.product(*(values[key] for key in names)):
        by = dict(zip(names, chosen, strict=True))
        found.append(EXPRESSION.sub(lambda match, by=by: by.get(match[1], match[0]), text))  # type: ignore[misc]
    return found


def calls() -> Iterator[tuple[str, str, Json]]:
    """Each job that runs a command on a stack, by workflow and name, with its inputs for each stack."""
    for file in FILES:
        for name, job in jobs(file):
            if job.get("uses") == SHARED:
                matrix = job.get("strategy", {}).get("matrix", {})
                columns = {
                    key: filled(str(value), matrix) if isinstance(value, str) else [value]
                    for key, value in job["with"].items()
                }
                for row in range(max(map(len, columns.values()))):
                    inputs = {key: column[row % len(column)] for key, column in columns.items()}
                    yield file.stem, name, inputs


def commands() -> Iterator[tuple[str, Command]]:
    """Every command of ours that a workflow runs, parsed, with the environment it runs in."""
    for _, _, inputs in calls():
        yield inputs["environment"], parse(shlex.split(inputs["command"]))
    for file in FILES:
        for _, job in jobs(file):
            for line in (step["run"] for step in job.get("steps", []) if "run" in step):
                if line.startswith("python3") and "inputs." not in line:
                    yield job.get("environment", ""), parse(shlex.split(line)[len(PREFIX) :])


def stacks_of(verb: str) -> set[str]:
    return {command.stack for _, command in commands() if command.name == verb}


def test_they_are_there() -> None:
    assert [file.stem for file in FILES] == ["ci", "drift", "prod", "promote", "stack"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_action_is_pinned_by_its_commit_and_says_its_version(file: Path) -> None:
    used = re.findall(r"uses: *(.*)", file.read_text())
    assert used
    for action in used:
        assert action == SHARED or re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+(\.\d+)+", action)


def test_newer_versions_are_proposed_for_all_that_is_pinned() -> None:
    found = yaml.safe_load((REPOSITORY / ".github" / "dependabot.yml").read_text())
    known: dict[str, set[str]] = {}
    for update in found["updates"]:
        for pattern in update.get("directories", [update.get("directory")]):
            places = REPOSITORY.glob(pattern.strip("/")) if pattern != "/" else [REPOSITORY]
            known.setdefault(update["package-ecosystem"], set()).update(
                str(place.relative_to(REPOSITORY)) for place in places if place.is_dir()
            )
    locks = [*REPOSITORY.glob("requirements.txt"), *REPOSITORY.glob("operator/**/requirements.txt")]
    locks += REPOSITORY.glob("infra/**/requirements.txt")
    pinned = [file for file in locks if "==" in file.read_text()]  # others refer to one of these
    assert {str(file.parent.relative_to(REPOSITORY)) for file in pinned} <= known["pip"]
    modules = [*REPOSITORY.glob("infra/**/go.mod"), *REPOSITORY.glob("tests/**/go.mod")]
    assert {str(file.parent.relative_to(REPOSITORY)) for file in modules} <= known["gomod"]
    packages = [file for file in REPOSITORY.glob("tests/**/package.json") if "node_modules" not in file.parts]
    assert {str(file.parent.relative_to(REPOSITORY)) for file in packages} == known["npm"]
    assert known["github-actions"] == {"."}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_rights_are_the_least(file: Path) -> None:
    shared = file.stem == "stack"
    assert workflow(file.stem).get("permissions") == (None if shared else READ)
    for name, job in jobs(file):
        shared_job = job.get("uses") == SHARED and (file.stem, name) not in RIGHTS
        wanted = LOGIN if shared_job else RIGHTS[file.stem, name]
        assert job.get("permissions") == wanted, name
        uses = [step.get("uses", "") for step in job.get("steps", [])]
        # Where something may be written, no code of the pull request's runs.
        assert name != "comment" or not any("checkout" in action for action in uses)
    for step in steps(file):
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_line_is_one_command(file: Path) -> None:
    for step in steps(file):
        if "run" not in step:
            continue
        line = EXPRESSION.sub("word", step["run"]).strip()
        variables = re.findall(r'"\$(\w+)"', line)
        # What somebody types is no part of a program: the shell puts it in as one word.
        assert set(variables) <= set(step.get("env", {}))
        assert not set("\n|&;<>$`") & set(re.sub(r'"\$\w+"', "", line))
        words = shlex.split(line)
        assert words[: len(PREFIX)] == PREFIX or words[0] in PROVIDERS
        # None of them runs without being asked for.
        assert words[0] not in PROVIDERS or "vars." in step["if"]
    assert all(command.name in ("preview", "up", "drift", "promote", "test") for _, command in commands())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_secrets_are_in_the_environment_of_a_step_alone(file: Path) -> None:
    """And nothing that a stranger writes, such as a title, is part of a program."""
    for _, job in jobs(file):
        assert "secrets." not in str({key: value for key, value in job.items() if key != "steps"})
    for step in steps(file):
        assert "secrets." not in str({key: value for key, value in step.items() if key != "env"})
        for program in (step.get("run", ""), step.get("with", {}).get("script", "")):
            named = set(EXPRESSION.findall(program))
            assert named <= {"runner.temp", "inputs.stack", "inputs.command"} | {
                name for name in named if name.startswith("vars.")
            }
    # A workflow's caller is a file of this repository; a person who starts one types what `inputs` holds.
    if "workflow_dispatch" in (workflow(file.stem)[True] or {}):  # type: ignore[index]
        assert not [step for step in steps(file) if "inputs." in step.get("run", "")]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_job_runs_for_ever(file: Path) -> None:
    for name, job in jobs(file):
        assert "timeout-minutes" in job or "uses" in job, name


def test_every_stack_is_previewed_and_brought_up() -> None:
    stacks = {"dev", "staging", "prod"}
    assert stacks <= set(settings.stacks())
    assert stacks == stacks_of("preview") == stacks_of("up")
    assert stacks - {"dev"} == stacks_of("drift")
    pages = re.findall(r"\[('\w+'(?:, '\w+')*)\]\.map\(page\)", (FOLDER / "ci.yml").read_text())
    assert stacks == {name.strip(" '") for page in pages for name in page.split(",")}


def test_stacks_follow_each_other_and_one_run_has_a_stack_at_a_time() -> None:
    ci = workflow("ci")["jobs"]
    assert ci["up-dev"]["needs"] == "test"
    assert ci["up-dev"]["if"] == "github.event_name == 'push'"
    assert ci["up-staging"]["needs"] == "up-dev"
    for stack in ("dev", "staging"):
        assert ci[f"up-{stack}"]["concurrency"] == {"group": f"stack-{stack}", "cancel-in-progress": False}
        assert ci[f"up-{stack}"]["with"]["environment"] == stack


def test_a_run_that_waits_for_a_reviewer_holds_no_other_up() -> None:
    """A group would be held until somebody approves: one of the whole workflow, or one of prod's job."""
    group = workflow("ci")["concurrency"]["group"]
    assert group == "ci-${{ github.event_name == 'pull_request' && github.ref || github.run_id }}"
    prod = workflow("prod")
    assert "concurrency" not in prod
    assert not [name for name, job in prod["jobs"].items() if "concurrency" in job]


def test_what_prods_reviewers_approve_is_a_plan_and_what_runs_is_that_plan() -> None:
    jobs = workflow("prod")["jobs"]
    planned = parse(shlex.split(jobs["plan"]["with"]["command"]))
    carried = parse(shlex.split(jobs["up"]["with"]["command"]))
    # It is made without the environment that has reviewers, and read on the run's page.
    assert jobs["plan"]["with"]["environment"] == "prod-read"
    assert jobs["up"]["with"]["environment"] == "prod"
    assert (planned.stack, carried.stack, carried.yes) == ("prod", "prod", True)
    assert planned.save_plan == carried.plan == Path("plan.json")
    assert planned.markdown == Path("preview-prod.md")
    assert jobs["up"]["needs"] == "plan"
    assert jobs["up"]["if"] == "needs.plan.outputs.plan != ''"
    kept = {
        step["with"]["path"]: step for step in steps(FOLDER / "stack.yml") if "path" in step.get("with", {})
    }
    assert kept["stack/plan.json"]["with"]["name"] == "plan-${{ inputs.stack }}"
    assert kept["stack/plan.json"]["id"] == "plan"
    assert jobs["up"]["with"]["take"] == "plan-prod"
    # Whatever is approved is of the release that the merge wrote down, and of prod's settings.
    assert workflow("prod")[True]["push"] == {  # type: ignore[index]
        "branches": ["main"],
        "paths": ["releases/prod.json", "Pulumi.prod.yaml"],
    }


def test_a_command_runs_in_a_checkout_of_what_the_stack_runs() -> None:
    lines = [step for step in steps(FOLDER / "stack.yml") if step.get("run", "").startswith("python3")]
    assert [step["run"] for step in lines] == [
        "python3 -m infra checkout ${{ inputs.stack }} stack",
        "python3 -m infra ${{ inputs.command }}",
    ]
    assert lines[1]["working-directory"] == "stack"
    assert next(steps(FOLDER / "stack.yml"))["with"]["fetch-depth"] == 0
    for _, _, inputs in calls():
        assert parse(shlex.split(inputs["command"])).stack == inputs["stack"]


def test_who_may_do_what() -> None:
    """A pull request's code has no way into a cluster; what looks at one, and what changes it, are others."""
    for environment, command in commands():
        suffix = {"preview": "-read", "drift": "-drift", "up": "", "promote": "-read"}.get(command.name)
        if suffix is not None:
            stack = command.source or command.stack
            assert environment == f"{stack}{suffix}", command
    for file, name, inputs in calls():
        assert inputs.get("cluster", False) is (inputs["environment"] in CLUSTERS), (file, name)
    inside = [step for step in steps(FOLDER / "stack.yml") if "inputs.cluster" in str(step.get("if"))]
    ways = (
        "secrets.KUBECONFIG",
        "secrets.DOCKER_CONFIG",
        "EKS_CLUSTER",
        "GKE_CLUSTER",
        "AKS_CLUSTER",
        "ACR_NAME",
    )
    text = str(list(steps(FOLDER / "stack.yml")))
    for way in ways:
        assert text.count(way) == str(inside).count(way) > 0, way


CLUSTERS = {"staging", "prod", "staging-drift", "prod-drift"}


def test_logins_are_made_where_the_environments_variables_say_so() -> None:
    """The same in both files; each is skipped where its variable is not set."""
    found = {}
    for name in ("stack", "promote"):
        logins = [
            step for step in steps(FOLDER / f"{name}.yml") if "inputs.cluster" not in str(step.get("if"))
        ]
        found[name] = [step for step in logins if "vars." in str(step)]
    assert found["stack"] == found["promote"]
    assert {step["uses"].partition("@")[0]: step["if"] for step in found["stack"]} == {
        "aws-actions/configure-aws-credentials": "vars.AWS_ROLE_ARN != ''",
        "google-github-actions/auth": "vars.GOOGLE_WORKLOAD_IDENTITY_PROVIDER != ''",
        "azure/login": "vars.AZURE_CLIENT_ID != ''",
    }
    for step in found["stack"]:
        assert "secrets" not in str(step)


def test_what_a_workflow_asks_to_be_set_the_guide_explains() -> None:
    guide = (REPOSITORY / "docs/guides/ci.md").read_text()
    for file in FILES:
        for name in re.findall(r"(?:vars|secrets)\.(\w+)", file.read_text()):
            assert f"`{name}`" in guide, name


def test_every_command_reaches_the_backend() -> None:
    wanted = {"PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN", "PULUMI_CONFIG_PASSPHRASE"}
    for name in ("stack", "promote"):
        last = [step for step in steps(FOLDER / f"{name}.yml") if step.get("run", "").startswith("python3")][
            -1
        ]
        for variable in wanted:
            assert last["env"][variable] == f"${{{{ secrets.{variable} }}}}"


def test_jobs_that_need_other_tools_have_other_caches() -> None:
    """A cache's key is written once: a preview's, which has no kubectl, would be drift's for good."""
    for name in ("stack", "promote"):
        [cache] = [step for step in steps(FOLDER / f"{name}.yml") if "actions/cache" in step.get("uses", "")]
        assert cache["with"]["key"].startswith(cache["with"]["restore-keys"])
        first = cache["with"]["restore-keys"].partition("-${{ runner.os }}")[0]
        assert first == {"stack": "${{ inputs.environment }}", "promote": "staging-read"}[name]


def test_a_strangers_pull_request_meets_no_secret() -> None:
    for file in FILES:
        # YAML reads the word `on` as true.
        triggers = workflow(file.stem)[True]  # type: ignore[index]
        if "pull_request" not in triggers:
            assert set(triggers) <= {"push", "schedule", "workflow_dispatch", "workflow_call"}
            continue
        for name, job in jobs(file):
            if "secrets" in job and job.get("needs") is None:
                assert "head.repo.full_name == github.repository" in job["if"], name
                assert "github.actor != 'dependabot[bot]'" in job["if"], name
    ci = workflow("ci")["jobs"]
    assert [name for name, job in ci.items() if "secrets" in job] == ["preview", "up-dev", "up-staging"]


def test_one_comment_is_edited_in_place() -> None:
    [script] = [
        step["with"]["script"]
        for step in workflow("ci")["jobs"]["comment"]["steps"]
        if "script" in step["with"]
    ]
    assert script.count("<!-- kindling preview -->") == 1
    assert script.index("updateComment") < script.index("createComment")
    # The account of an older comment may be gone.
    assert "user?.type" in script


def test_actionlint_finds_nothing_in_them_and_something_in_a_broken_one(tmp_path: Path) -> None:
    """`infra test` runs it with the linters."""
    program = Toolchain().ensure("actionlint")
    processes.run([program, *FILES], timeout=60)
    broken = tmp_path / "broken.yml"
    broken.write_text(FILES[0].read_text().replace("github.run_id", "github.runid"))
    with pytest.raises(processes.ProgramError):
        processes.run([program, broken], timeout=60)
