"""A fifth kind costs one room, one CRD, one test and a line in two tables: as the guide has it, done.

The files come from the guide itself, so it is the guide that is tested. They are added to a copy of the
working tree, whose operator then serves the new kind on the real API server.
"""

from __future__ import annotations

import filecmp
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.apiserver.apiclient import Answer, Api, Json
from tests.apiserver.controlplane import ControlPlane
from tests.apiserver.kinds import CRD_COLLECTION
from tests.apiserver.operator_process import REPOSITORY, OperatorProcess, operator

GUIDE = REPOSITORY / "docs" / "adding-a-kind.md"
BLOCK = re.compile(r"^```(\w+)\n# (\S+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COPIED = ("operator/src", "infra", "crds", "samples", "tests", "pyproject.toml")
CRD = "crds/greetings.toys.example.com.yaml"
ROOM = "operator/src/kindling/kinds/greeting/__init__.py"
REGISTRY = "operator/src/kindling/kinds/registry.py"
RIGHTS = "infra/rbac.py"
TEST = "tests/unit/operator/test_greeting.py"
SECONDS = 30.0
NAMESPACE = "toys"
GREETINGS = f"/apis/toys.example.com/v1/namespaces/{NAMESPACE}/greetings"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the working tree with the guide's kind in it."""
    root = tmp_path_factory.mktemp("house")
    for name in COPIED:
        source, target = REPOSITORY / name, root / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    for language, name, text in BLOCK.findall(GUIDE.read_text()):
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(patched(file.read_text(), text) if language == "diff" else text)
    return root


def patched(text: str, diff: str) -> str:
    """The text with each added line of the diff below its line of context, which must be there once."""
    for hunk in diff.split("@@\n"):
        context, *added = hunk.splitlines()
        assert text.count(f"{context[1:]}\n") == 1, context
        below = "".join(f"{line.removeprefix('+')}\n" for line in added)
        text = text.replace(f"{context[1:]}\n", f"{context[1:]}\n{below}")
    return text


def test_nothing_changes_but_the_tables(house: Path) -> None:
    files = {str(path.relative_to(house)) for path in house.rglob("*") if path.is_file()}
    files = {name for name in files if not re.search(r"__pycache__|_cache/|\.hypothesis", name)}
    added = {name for name in files if not (REPOSITORY / name).exists()}
    assert added == {CRD, ROOM, TEST}
    changed = [
        name for name in files - added if not filecmp.cmp(house / name, REPOSITORY / name, shallow=False)
    ]
    assert sorted(changed) == [RIGHTS, REGISTRY]
    lines = {
        name: [line for line in after if line not in before]
        for name in changed
        for before, after in [[(root / name).read_text().splitlines() for root in (REPOSITORY, house)]]
    }
    assert lines == {
        REGISTRY: [
            "from kindling.kinds.greeting import Greeting",
            '    ("Greeting", lambda _: Greeting()),',
        ],
        RIGHTS: ['    "Greeting": (CONFIG_MAPS,),'],
    }


@pytest.mark.parametrize(
    "words",
    [
        ["pytest", "-q", "-p", "no:cacheprovider", TEST, "tests/unit/schema", "-k", "greeting and not claim"],
        ["mypy", "--cache-dir=.mypy_cache", ROOM, TEST],
        ["ruff", "check", "--no-cache", ROOM, TEST, REGISTRY, RIGHTS],
        ["ruff", "format", "--no-cache", "--check", ROOM, TEST, REGISTRY, RIGHTS],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_it_stands_up_to_what_every_kind_must(house: Path, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=house, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]


def test_its_rights_are_those_of_its_line(house: Path) -> None:
    rules = "((rule.resources[0], *rule.verbs) for rule in rbac.cluster_rules(['Greeting']))"
    code = f"from infra import rbac; print(*{rules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=house, capture_output=True, text=True, timeout=60)
    assert "('configmaps', 'get', 'list', 'watch', 'create', 'patch')" in done.stdout, done.stderr
    assert "('greetings', 'get', 'list', 'watch')" in done.stdout
    assert "secrets" not in done.stdout


@pytest.fixture(scope="module")
def serving(house: Path, plane: ControlPlane, api: Api) -> Iterator[OperatorProcess]:
    """The copy's operator at work, in a namespace of its own."""
    api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).accepted()
    crd: Json = yaml.safe_load((house / CRD).read_text())
    api.create(CRD_COLLECTION, crd).accepted()
    within(SECONDS, lambda: api.get(GREETINGS).status == 200)
    environment = {"KINDLING_NAMESPACE": NAMESPACE}
    with operator(plane, namespaces=NAMESPACE, env=environment, source=house / "operator" / "src") as process:
        process.wait_ready()
        yield process
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


def removed(answer: Answer) -> None:
    assert answer.status == 200, answer.message


def within(seconds: float, true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"not so after {seconds:g} s"
        time.sleep(0.02)
