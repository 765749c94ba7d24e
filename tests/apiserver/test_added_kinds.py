"""A new kind costs a package, a CRD, a test and a line in two tables: as two guides have it, done.

The files come from the guide itself, so it is the guide that is tested. They are added to a copy of the
working tree, whose operator then serves the new kind on the real API server.
"""

from __future__ import annotations

import filecmp
import itertools
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.apiserver.support.apiclient import MERGE_PATCH, Api, Json, Response
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.http_members import DOWN_SECONDS, servers
from tests.apiserver.support.kinds import CRD_COLLECTION
from tests.apiserver.support.operator_process import REPOSITORY, OperatorProcess, operator
from tests.guides import add_kinds, copy

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
ENSEMBLE = CRD_3, PACKAGE_3, TEST_3 = (
    "crds/ensembles.toys.example.com.yaml",
    "operator/src/kindling/kinds/ensemble/__init__.py",
    "tests/model/test_ensemble.py",
)
"""The kind that asks and changes servers outside of the cluster."""
NAMES = "greeting or errand or ensemble"
QUIET = ["-q", "-p", "no:cacheprovider"]
ADDED = [PACKAGE, TEST, PACKAGE_2, TEST_2, PACKAGE_3, TEST_3]
SECONDS = 30.0
NAMESPACE = "toys"
GREETINGS = f"/apis/toys.example.com/v1/namespaces/{NAMESPACE}/greetings"
ERRANDS = f"/apis/toys.example.com/v1/namespaces/{NAMESPACE}/errands"
ENSEMBLES = f"/apis/toys.example.com/v1/namespaces/{NAMESPACE}/ensembles"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the working tree with the guide's kind in it."""
    root = tmp_path_factory.mktemp("checkout")
    copy(root, COPIED)
    add_kinds(root)
    return root


def test_nothing_changes_but_the_tables(checkout: Path) -> None:
    files = {str(path.relative_to(checkout)) for path in checkout.rglob("*") if path.is_file()}
    files = {name for name in files if not re.search(r"__pycache__|_cache/|\.hypothesis", name)}
    added = {name for name in files if not (REPOSITORY / name).exists()}
    assert added == {CRD, PACKAGE, TEST, *ERRAND, *ENSEMBLE}
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
            "from kindling.kinds.ensemble import Ensemble",
            "from kindling.kinds.errand import Errand",
            "from kindling.kinds.greeting import Greeting",
            '    ("Ensemble", lambda _: Ensemble()),',
            '    ("Errand", lambda _: Errand()),',
            '    ("Greeting", lambda _: Greeting()),',
        ],
        RIGHTS: [
            '    "Ensemble": (CONFIG_MAPS,),',
            '    "Errand": (',
            '        Rule("run what ends", "batch", ("jobs",), (*OWN, "delete")),',
            '        Rule("hold it back until it is done", "toys.example.com", ("errands",), ("patch",)),',
            '    "Greeting": (CONFIG_MAPS,),',
        ],
        REASONS: [
            'MEMBERS_READY = _reason("MembersReady", "Ensemble", "every member is as the spec has it")',
            "MEMBERS_UNKNOWN = _reason("
            '"MembersUnknown", "Ensemble", "a member does not answer", "see what runs there")',
            "MEMBERS_DIFFER = _reason("
            '"MembersDiffer", "Ensemble", "a member is not yet as the spec has it", "wait")',
            'FAILED = _reason("Failed", "Errand", "the run has failed", "set another spec.run")',
            'WRITTEN = _reason("Written", "Greeting", "the ConfigMap has the greeting")',
        ],
    }


@pytest.mark.parametrize(
    "words",
    [
        [
            "pytest",
            *QUIET,
            TEST,
            TEST_2,
            TEST_3,
            "tests/unit/schema",
            "-k",
            "(greeting or errand or ensemble) and not claim",
        ],
        pytest.param(["pytest", *QUIET, "tests/model/test_any_history.py"], marks=pytest.mark.thorough),
        ["mypy", "--cache-dir=.mypy_cache", *ADDED],
        ["ruff", "check", "--no-cache", *ADDED, REGISTRY, REASONS, RIGHTS],
        ["ruff", "format", "--no-cache", "--check", *ADDED, REGISTRY, REASONS, RIGHTS],
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
    crds: list[Json] = [yaml.safe_load((checkout / name).read_text()) for name in (CRD, CRD_2, CRD_3)]
    for crd in crds:
        api.create(CRD_COLLECTION, crd).accepted()
    within(SECONDS, lambda: {api.get(path).status for path in (GREETINGS, ERRANDS, ENSEMBLES)} == {200})
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


def test_one_primary_and_one_restart_at_a_time(serving: OperatorProcess, api: Api) -> None:
    body = {"apiVersion": "toys.example.com/v1", "kind": "Ensemble", "metadata": {"name": "trio"}}
    ensemble, address = f"{ENSEMBLES}/trio", f"{CONFIG_MAPS}/trio-primary"
    with servers(3) as listening:
        listed = [
            {"name": f"m{number}", "host": "127.0.0.1", "port": server.server_port}
            for number, server in enumerate(listening)
        ]
        members = [server.members[""] for server in listening]
        spec = {"members": listed, "primary": "m0", "version": "1"}

        def ready() -> tuple[str, str]:
            conditions = api.get(ensemble).accepted().get("status", {}).get("conditions") or [{}]
            return str(conditions[0].get("status")), str(conditions[0].get("reason"))

        def points_to(number: int) -> bool:
            data = api.get(address).body.get("data") or {}
            return data.get("port") == str(listening[number].server_port)

        wrong = {**spec, "primary": "m9"}
        refused = api.create(ENSEMBLES, {**body, "spec": wrong})
        assert "spec.primary 'm9' is no member: use the name of one of spec.members" in refused.message
        api.create(ENSEMBLES, {**body, "spec": spec}).accepted()
        try:
            within(SECONDS, lambda: points_to(0) and ready() == ("True", "MembersReady"))
            api.merge(ensemble, {"spec": {"primary": "m2"}}).accepted()
            within(SECONDS, lambda: points_to(2) and ready() == ("True", "MembersReady"))
            api.merge(ensemble, {"spec": {"version": "2"}}).accepted()
            within(3 * SECONDS, lambda: {member.version for member in members} == {"2"})
            within(SECONDS, lambda: ready() == ("True", "MembersReady"))
            assert [member.changes for member in members] == [
                ["promote", "demote", "restart?version=2"],
                ["restart?version=2"],
                ["promote", "restart?version=2"],
            ]
            restarts = sorted(member.restarted for member in members)
            assert members[2].restarted == restarts[2], "the primary comes last"
            assert all(b - a > DOWN_SECONDS for a, b in itertools.pairwise(restarts)), "one at a time"

            members[1].hangs.set()
            within(SECONDS, lambda: ready() == ("False", "MembersUnknown"))
            api.merge(ensemble, {"spec": {"primary": "m0"}}).accepted()
            time.sleep(2.0)
            assert points_to(2), "it may be the primary for all that is known"
            members[1].hangs.clear()
            within(SECONDS, lambda: points_to(0) and ready() == ("True", "MembersReady"))
            count = serving.value("kindling_external_actions_total", action="restart", result="success")
            assert count == len(members)
            removed(api.delete(ensemble))
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
