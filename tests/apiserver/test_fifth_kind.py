"""A new kind costs a package, a CRD, a test and a line in two tables: as two guides have it, done.

The files come from the guide itself, so it is the guide that is tested. They are added to a copy of the
working tree, whose operator then serves the new kind on the real API server.
"""

from __future__ import annotations

import filecmp
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.apiserver.apiclient import MERGE_PATCH, Api, Json, Response
from tests.apiserver.controlplane import ControlPlane
from tests.apiserver.kinds import CRD_COLLECTION
from tests.apiserver.operator_process import REPOSITORY, OperatorProcess, operator
from tests.guides import blocks, copy, write

GUIDES = [REPOSITORY / "docs" / name for name in ("adding-a-kind.md", "work-that-ends.md")]
COPIED = ("operator/src", "infra", "crds", "samples", "tests", "pyproject.toml")
CRD = "crds/greetings.toys.example.com.yaml"
PACKAGE = "operator/src/kindling/kinds/greeting/__init__.py"
REASONS = "operator/src/kindling/kinds/reasons.py"
REGISTRY = "operator/src/kindling/kinds/registry.py"
RIGHTS = "infra/rbac.py"
TEST = "tests/unit/operator/test_greeting.py"
ERRAND = CRD_2, PACKAGE_2, TEST_2 = (
    "crds/errands.toys.example.com.yaml",
    "operator/src/kindling/kinds/errand/__init__.py",
    "tests/model/test_errand.py",
)
"""The kind whose work ends, and which has something to do before it goes."""
QUIET = ["-q", "-p", "no:cacheprovider"]
BOTH = [PACKAGE, TEST, PACKAGE_2, TEST_2]
SECONDS = 30.0
NAMESPACE = "toys"
GREETINGS = f"/apis/toys.example.com/v1/namespaces/{NAMESPACE}/greetings"
ERRANDS = f"/apis/toys.example.com/v1/namespaces/{NAMESPACE}/errands"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the working tree with the guide's kind in it."""
    root = tmp_path_factory.mktemp("checkout")
    copy(root, COPIED)
    for guide in GUIDES:
        for language, name, body in blocks(guide.read_text()):
            if name:
                write(root, name, language=language, body=body)
    return root


def test_nothing_changes_but_the_tables(checkout: Path) -> None:
    files = {str(path.relative_to(checkout)) for path in checkout.rglob("*") if path.is_file()}
    files = {name for name in files if not re.search(r"__pycache__|_cache/|\.hypothesis", name)}
    added = {name for name in files if not (REPOSITORY / name).exists()}
    assert added == {CRD, PACKAGE, TEST, *ERRAND}
    changed = [
        name for name in files - added if not filecmp.cmp(checkout / name, REPOSITORY / name, shallow=False)
    ]
    assert sorted(changed) == [RIGHTS, REASONS, REGISTRY]
    lines = {
        name: [line for line in after if line not in before]
        for name in changed
        for before, after in [[(root / name).read_text().splitlines() for root in (REPOSITORY, checkout)]]
    }
    assert lines == {
        REGISTRY: [
            "from kindling.kinds.errand import Errand",
            "from kindling.kinds.greeting import Greeting",
            '    ("Errand", lambda _: Errand()),',
            '    ("Greeting", lambda _: Greeting()),',
        ],
        RIGHTS: [
            '    "Errand": (',
            '        Rule("run what ends", "batch", ("jobs",), (*OWN, "delete")),',
            '        Rule("hold it back until it is done", "toys.example.com", ("errands",), ("patch",)),',
            '    "Greeting": (CONFIG_MAPS,),',
        ],
        REASONS: [
            'SUCCEEDED = _reason("Succeeded", "Errand", "the run that the spec asks for has succeeded")',
            'RUNNING = _reason("Running", "Errand", "a run is under way", "wait")',
            'FAILED = _reason("Failed", "Errand", "the run has failed", "set another spec.run")',
            'WRITTEN = _reason("Written", "Greeting", "the ConfigMap has the greeting")',
        ],
    }


@pytest.mark.parametrize(
    "words",
    [
        ["pytest", *QUIET, TEST, TEST_2, "tests/unit/schema", "-k", "(greeting or errand) and not claim"],
        pytest.param(["pytest", *QUIET, "tests/model/test_any_history.py"], marks=pytest.mark.thorough),
        ["mypy", "--cache-dir=.mypy_cache", *BOTH],
        ["ruff", "check", "--no-cache", *BOTH, REGISTRY, REASONS, RIGHTS],
        ["ruff", "format", "--no-cache", "--check", *BOTH, REGISTRY, REASONS, RIGHTS],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_it_stands_up_to_what_every_kind_must(checkout: Path, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]


def test_its_rights_are_those_of_its_line(checkout: Path) -> None:
    rules = "((rule.resources[0], *rule.verbs) for rule in rbac.cluster_rules(['Greeting']))"
    code = f"from infra import rbac; print(*{rules})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=checkout, capture_output=True, text=True, timeout=60
    )
    assert "('configmaps', 'get', 'list', 'watch', 'create', 'patch')" in done.stdout, done.stderr
    assert "('greetings', 'get', 'list', 'watch')" in done.stdout
    assert "secrets" not in done.stdout


@pytest.fixture(scope="module")
def serving(checkout: Path, plane: ControlPlane, api: Api) -> Iterator[OperatorProcess]:
    """The copy's operator at work, in a namespace of its own."""
    api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).accepted()
    crds: list[Json] = [yaml.safe_load((checkout / name).read_text()) for name in (CRD, CRD_2)]
    for crd in crds:
        api.create(CRD_COLLECTION, crd).accepted()
    within(SECONDS, lambda: {api.get(path).status for path in (GREETINGS, ERRANDS)} == {200})
    environment = {"KINDLING_NAMESPACE": NAMESPACE}
    with operator(
        plane, namespaces=NAMESPACE, env=environment, source=checkout / "operator" / "src"
    ) as process:
        process.wait_ready()
        yield process
    for crd in crds:
        api.delete(f"{CRD_COLLECTION}/{crd['metadata']['name']}")


def test_the_operator_keeps_it_true(serving: OperatorProcess, api: Api) -> None:
    body = {"apiVersion": "toys.example.com/v1", "kind": "Greeting", "metadata": {"name": "morning"}}
    made = api.create(GREETINGS, {**body, "spec": {"name": "Ada"}}).accepted()
    child = f"{CONFIG_MAPS}/morning-greeting"

    def says(greeting: str) -> Callable[[], bool]:
        return lambda: api.get(child).body.get("data") == {"greeting": greeting}

    def ready(generation: int) -> bool:
        status = api.get(f"{GREETINGS}/morning").accepted().get("status", {})
        return [
            (item["status"], item["reason"], item["observedGeneration"])
            for item in status.get("conditions", ())
        ] == [("True", "Written", generation)]

    try:
        within(SECONDS, says("Hello, Ada!"))
        meta = api.get(child).accepted()["metadata"]
        assert [owner["uid"] for owner in meta["ownerReferences"]] == [made["metadata"]["uid"]]
        assert meta["labels"]["kindling.dev/kind"] == "greeting.toys.example.com"
        within(SECONDS, lambda: ready(1))

        api.merge(child, {"data": {"greeting": "Go away!"}}).accepted()
        within(SECONDS, says("Hello, Ada!"))
        removed(api.delete(child))
        within(SECONDS, says("Hello, Ada!"))
        api.merge(f"{GREETINGS}/morning", {"spec": {"name": "Grace"}}).accepted()
        within(SECONDS, says("Hello, Grace!"))
        within(SECONDS, lambda: ready(2))

        removed(api.delete(f"{GREETINGS}/morning"))
        removed(api.delete(child))  # by the garbage collector, where there is one
        time.sleep(1.0)
        assert api.get(child).status == 404
    except AssertionError as error:
        raise AssertionError(f"{error}\n{serving.log()[-3000:]}") from None


def test_a_run_ends_once_and_the_last_one_lets_the_resource_go(serving: OperatorProcess, api: Api) -> None:
    body = {"apiVersion": "toys.example.com/v1", "kind": "Errand", "metadata": {"name": "walk"}}
    api.create(ERRANDS, {**body, "spec": {"image": "walker:1", "farewell": True}}).accepted()
    errand, run, farewell = f"{ERRANDS}/walk", f"{JOBS}/walk-run-1", f"{JOBS}/walk-farewell"
    try:
        within(SECONDS, lambda: api.get(run).status == 200)
        begun = api.get(errand).accepted()
        assert begun["metadata"]["finalizers"] == ["toys.example.com/farewell"]
        assert begun["status"]["run"] == {"number": 1, "result": "Started"}
        end(api, run)
        within(SECONDS, lambda: api.get(errand).body["status"]["run"]["result"] == "Succeeded")
        # Left out, the policy for a Job is to orphan its Pods first.
        removed(api.request("DELETE", run, body={"propagationPolicy": "Background"}))
        time.sleep(2.0)
        assert api.get(run).status == 404, "a run that has ended is not begun again"

        removed(api.delete(errand))
        within(SECONDS, lambda: api.get(farewell).status == 200)
        assert "deletionTimestamp" in api.get(errand).accepted()["metadata"]
        end(api, farewell)
        within(SECONDS, lambda: api.get(errand).status == 404)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{serving.log()[-3000:]}") from None


def end(api: Api, job: str) -> None:
    """In the words of the controller of Jobs, which is not here."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    conditions = [{"type": name, "status": "True"} for name in ("SuccessCriteriaMet", "Complete")]
    status = {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": conditions}
    api.request("PATCH", f"{job}/status", body={"status": status}, content_type=MERGE_PATCH).accepted()


def removed(answer: Response) -> None:
    assert answer.status == 200, answer.message


def within(seconds: float, true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not so after {seconds:g} s"
        time.sleep(0.02)
