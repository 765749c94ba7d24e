"""What a workflow says and this reading of it does not know is an error that names it, never passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pipelines import github
from tests.pipelines.actions import ActionError, Call, perform
from tests.pipelines.github import Repository
from tests.pipelines.stores import Caches
from tests.pipelines.workflow import Job, Result, Run, WorkflowError

SHA = "0" * 40
STEPS: list[Any] = []
CALLED = {
    "on": {"workflow_call": {"inputs": {"stack": {"type": "string", "required": True}}}},
    "permissions": {"contents": "write"},
    "jobs": {"up": {"runs-on": "ubuntu-24.04", "steps": STEPS}},
}


def run(*, trigger: object = None, **job: object) -> None:
    workflow = {"on": {"push": trigger}, "permissions": {"contents": "read"}, "jobs": {"one": job}}

    def perform(_: Job) -> Result:
        return Result("success")

    Run({"ci": workflow, "up": CALLED}, Repository(), github.push(SHA), perform).everything()


@pytest.mark.parametrize(
    ("job", "named"),
    [
        ({"steps": STEPS, "continue": True}, "ci.yml, job one: continue is not known here"),
        ({"steps": STEPS, "needs": "two"}, "of one none can begin"),
        ({"steps": STEPS, "strategy": {"matrix": {"include": []}}}, "matrix: include"),
        ({"steps": STEPS, "permissions": "write-all"}, "write-all: name each"),
        ({"uses": "other/repository/.github/workflows/up.yml@main"}, "is no workflow of this repository"),
        ({"uses": "./.github/workflows/down.yml"}, "there is no ./.github/workflows/down.yml"),
        ({"uses": "./.github/workflows/up.yml"}, "up.yml wants the input stack"),
        ({"uses": "./.github/workflows/up.yml", "with": {"stak": "dev"}}, "up.yml has no input stak"),
        (
            {"uses": "./.github/workflows/up.yml", "with": {"stack": "dev"}},
            "it asks for contents: write, which its caller has not",
        ),
    ],
)
def test_a_job_that_is_not_understood_ends_the_run(job: dict[str, object], named: str) -> None:
    with pytest.raises(WorkflowError) as caught:
        run(**job)
    assert named in str(caught.value)


def test_so_does_a_filter_of_an_event() -> None:
    with pytest.raises(NotImplementedError, match=r"on\.push: paths-ignore"):
        run(trigger={"paths-ignore": ["docs/**"]}, steps=STEPS)


def test_an_action_or_input_that_is_not_known_is_named(tmp_path: Path) -> None:
    call = Call({"fetch-dpth": "2"}, *[None] * 9)  # type: ignore[arg-type]
    with pytest.raises(ActionError, match="the action azure/login is not known here"):
        perform("azure/login@" + SHA, call)
    with pytest.raises(ActionError, match="actions/checkout: the input fetch-dpth is not known here"):
        perform("actions/checkout@" + SHA, call)


def test_of_caches_the_key_itself_is_found_before_the_newest_that_begins_so(tmp_path: Path) -> None:
    caches = Caches(tmp_path / "caches", earlier=(tmp_path,))
    assert caches.find("up-1", []) is None
    assert caches.find("up-1", ["up-"]) == "up-earlier"
    for key in ("up-1", "up-2"):
        (tmp_path / "upper").mkdir()
        caches.keep(key, tmp_path / "upper", (tmp_path,))
    assert caches.find("up-1", ["up-"]) == "up-1"
    assert caches.find("up-3", ["up-"]) == "up-2"
