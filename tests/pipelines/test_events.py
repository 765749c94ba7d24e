"""Who runs, and with what, whatever happens: by the workflows themselves, each job said to succeed or fail.

What the jobs do is run in `test_jobs.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pytest

from infra.paths import REPOSITORY
from tests.pipelines import github, workflow
from tests.pipelines.expressions import Open, Scope
from tests.pipelines.github import Environment, Event, Repository
from tests.pipelines.workflow import Job, Result, Run

SHA = "0" * 40
WORKFLOWS = workflow.load(REPOSITORY)
STACKS = ("dev", "staging", "prod")
READING, WRITING = ("dev-read", "staging-read", "prod-read"), ("staging", "prod")
SETTINGS = Repository(
    environments={
        **{name: Environment({"PULUMI_BACKEND_URL": f"of {name}"}) for name in READING},
        **{
            name: Environment(
                {"PULUMI_BACKEND_URL": f"of {name}", "KUBECONFIG": f"{name}'s"}, branches=["main"]
            )
            for name in (*WRITING, "staging-drift", "prod-drift")
        },
    }
)
BROUGHT_UP = ("test", "up-dev", "up-staging")
PREVIEWS = {f"preview ({stack})" for stack in STACKS}
OF_PROD = ("releases/prod.json", "Pulumi.prod.yaml")


@dataclass
class Seen:
    """Jobs that ran, by their ids; those of `failing` are said to have failed."""

    failing: Iterable[str] = ()
    jobs: dict[str, Job] = field(default_factory=dict)

    def __call__(self, job: Job) -> Result:
        self.jobs[job.id] = job
        failed = any(job.id == name or job.id.startswith(f"{name} / ") for name in self.failing)
        return Result("failure" if failed else "success", dict.fromkeys(job.outputs, "made"))

    def job(self, id: str) -> Job:
        """The job, or the one that it calls."""
        [found] = [job for name, job in self.jobs.items() if name == id or name.startswith(f"{id} / ")]
        return found

    def secrets(self, id: str) -> set[str]:
        """What the job's steps could read, and that is not GitHub's own."""
        return set(self.job(id).contexts["secrets"]) - {workflow.TOKEN}


def happen(event: Event, *failing: str) -> tuple[dict[str, str], Seen]:
    """How the jobs of the workflows' files ended, and what ran."""
    seen = Seen(failing)
    results = Run(WORKFLOWS, SETTINGS, event, seen).everything()
    return {id: result for id, result in results.items() if " / " not in id}, seen


def ran(results: dict[str, str]) -> set[str]:
    return {id for id, result in results.items() if result != "skipped"}


def test_a_push_to_main_brings_the_stacks_up_one_after_the_other() -> None:
    results, seen = happen(github.push(SHA))
    assert set(results.values()) == {"success", "skipped"}
    assert [id.partition(" / ")[0] for id in seen.jobs][:3] == list(BROUGHT_UP)
    assert seen.job("up-staging").environment == "staging"
    assert seen.job("up-staging").contexts["secrets"]["KUBECONFIG"] == "staging's"
    assert [seen.job(f"up-{stack}").group for stack in ("dev", "staging")] == ["stack-dev", "stack-staging"]
    assert seen.secrets("test") == set()
    assert seen.secrets("up-dev") == set()


@pytest.mark.parametrize("broken", BROUGHT_UP)
def test_nothing_is_brought_up_behind_a_job_that_failed(broken: str) -> None:
    results, seen = happen(github.push(SHA), broken)
    assert next(reversed(seen.jobs)).partition(" / ")[0] == broken
    assert {results[id] for id in BROUGHT_UP[BROUGHT_UP.index(broken) + 1 :]} <= {"skipped"}


def test_what_brings_prod_up_has_its_secrets_and_nothing_else_has() -> None:
    results, seen = happen(github.push(SHA, changed=OF_PROD))
    assert set(results.values()) == {"success", "skipped"}
    having = {id for id, job in seen.jobs.items() if "prod's" in job.contexts["secrets"].values()}
    [id] = [id for id, job in seen.jobs.items() if job.environment == "prod"]
    assert having == {id}


def test_a_push_to_another_branch_does_nothing() -> None:
    assert happen(github.push(SHA, branch="topic", changed=OF_PROD))[0] == {}


def test_a_pull_request_is_tested_previewed_and_reported() -> None:
    results, seen = happen(github.pull_request(SHA))
    assert ran(results) == {"test", *PREVIEWS, "comment"}
    for stack in STACKS:
        assert seen.job(f"preview ({stack})").environment == f"{stack}-read"
        assert seen.secrets(f"preview ({stack})") == {"PULUMI_BACKEND_URL"}
        assert seen.job(f"preview ({stack})").permissions["contents"] == "read"
    assert seen.secrets("comment") == set()
    assert seen.job("comment").permissions == {"pull-requests": "write"}


@pytest.mark.parametrize("broken", [["preview (staging)"], sorted(PREVIEWS), ["test"]])
def test_previews_do_not_wait_for_each_other_and_are_reported_whatever_became_of_them(
    broken: list[str],
) -> None:
    results, _ = happen(github.pull_request(SHA), *broken)
    assert ran(results) == {"test", *PREVIEWS, "comment"}
    assert results["comment"] == "success"


@pytest.mark.parametrize(
    "event",
    [github.pull_request(SHA, fork=True), github.pull_request(SHA, actor=github.DEPENDABOT)],
    ids=["fork", "dependabot"],
)
def test_a_strangers_pull_request_is_tested_and_no_more(event: Event) -> None:
    results, seen = happen(event)
    assert ran(results) == {"test"}
    assert results["test"] == "success"
    assert seen.secrets("test") == set()
    assert set(seen.job("test").permissions.values()) == {"read"}


@pytest.mark.parametrize(
    "event", [github.schedule(SHA), github.dispatch(SHA, "drift")], ids=["schedule", "by hand"]
)
def test_every_night_the_clusters_that_stay_are_looked_at(event: Event) -> None:
    results, seen = happen(event)
    assert ran(results) == {f"drift ({stack})" for stack in WRITING}
    for stack in WRITING:
        assert seen.secrets(f"drift ({stack})") == {"PULUMI_BACKEND_URL", "KUBECONFIG"}
        assert seen.job(f"drift ({stack})").environment == f"{stack}-drift"


def test_one_stack_that_drifted_keeps_no_other_from_being_looked_at() -> None:
    results, _ = happen(github.schedule(SHA), "drift (staging)")
    assert (results["drift (staging)"], results["drift (prod)"]) == ("failure", "success")


def test_a_way_into_a_cluster_is_for_main_alone() -> None:
    """By the environments' own protection, whoever starts a run by hand."""
    results, seen = happen(github.dispatch(SHA, "drift", branch="topic"))
    assert seen.jobs == {}
    assert {results[f"drift ({stack})"] for stack in WRITING} == {"failure"}


def test_each_expression_has_a_value_and_each_command_is_ours() -> None:
    """Of the steps that run, on whichever event."""
    for event in (github.push(SHA, changed=OF_PROD), github.pull_request(SHA), github.schedule(SHA)):
        _, seen = happen(event)
        for job in seen.jobs.values():
            ids = {step["id"]: {"outputs": Open()} for step in job.steps if "id" in step}
            scope = Scope({**job.contexts, "runner": {"os": "Linux", "temp": "/t"}, "steps": ids, "env": {}})
            scope.workspace = REPOSITORY
            for step in job.steps:
                given = scope.value({key: value for key, value in step.items() if key != "if"})
                if scope.holds(step.get("if")) and "run" in step:
                    assert given["run"].startswith("python3 -m infra "), (job.id, given)
