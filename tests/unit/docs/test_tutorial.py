"""docs/tutorial.md, carried out: its files in their order, its Python sessions, its test.

It ends with the files of docs/adding-a-kind.md, which tests/apiserver/test_added_kinds.py serves.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from infra.cli.arguments import parse
from infra.paths import REPOSITORY
from tests.guides import blocks, copy, patched, write
from tests.unit.docs.pages import strings, text, trees

COPIED = ("operator/src", "infra/rbac.py", "pyproject.toml")
SESSION = """import doctest, sys
found = doctest.DocTestParser().get_doctest(sys.stdin.read(), {}, "tutorial", None, 0)
sys.exit(min(1, doctest.DocTestRunner().run(found).failed))
"""
TEST = "tests/unit/operator/test_greeting.py"


def python(root: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root / "operator" / "src")},
        input=given,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the tutorial touches, with its steps taken; each session ran where it stands."""
    root = tmp_path_factory.mktemp("tutorial")
    copy(root, COPIED)
    sessions, earlier = 0, ""
    for language, name, body in blocks(text("tutorial.md")):
        if name:
            write(root, name, language=language, body=body)
            earlier = ""  # a changed file wants a new session
        elif language == "python":
            earlier += body
            ran = python(root, "-c", SESSION, given=earlier)
            assert ran.returncode == 0, ran.stdout + ran.stderr
            sessions += 1
    assert sessions == 3
    return root


def test_it_ends_with_the_files_of_the_guide(done: Path) -> None:
    for language, name, body in blocks(text("adding-a-kind.md")):
        if name.startswith("crds/"):
            continue
        expected = patched((REPOSITORY / name).read_text(), body) if language == "diff" else body
        assert (done / name).read_text() == expected, name


def test_its_test_passes_as_it_says(done: Path) -> None:
    ran = python(done, "-m", "pytest", "-q", "-p", "no:cacheprovider", TEST)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (said,) = re.findall(r"^\d+ passed$", text("tutorial.md"), flags=re.MULTILINE)
    assert said in ran.stdout


def test_what_the_commands_print_is_what_the_definition_and_the_operator_say() -> None:
    page = text("tutorial.md")
    (crd,) = (
        yaml.safe_load(body) for _, name, body in blocks(text("adding-a-kind.md")) if name.startswith("crds/")
    )
    columns = [one["name"].upper() for one in crd["spec"]["versions"][0]["additionalPrinterColumns"]]
    assert re.search(r"\s+".join(["^NAME", *columns]) + "$", page, flags=re.MULTILINE)
    (sample,) = (
        yaml.safe_load(body) for language, _, body in blocks(text("tutorial.md")) if language == "yaml"
    )
    assert sample["kind"] == crd["spec"]["names"]["kind"]
    assert sample["apiVersion"] == f"{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}"
    (repaired,) = re.findall(r"ConfigMap morning-greeting was (.*)\.$", page, flags=re.MULTILINE)
    assert repaired in {found for _, tree in trees("engine/events.py") for found in strings(tree)}


def test_its_commands_are_those_of_the_command_line() -> None:
    lines = re.findall(r"^\$ python3 -m infra (.*)$", text("tutorial.md"), flags=re.MULTILINE)
    assert len(lines) > 8
    for line in lines:
        assert parse(line.split()).name == line.split()[0]
