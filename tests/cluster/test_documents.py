"""Every command that the documents print is run: here, or by the fixture of the stack and by CI."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cluster.stack import ROOT, STACK, Environment

# What brings up, takes down and tests is run by the fixture and by CI itself; timings by hand.
ELSEWHERE = {"up", "destroy", "test", "dev"}
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands() -> list[tuple[str, str]]:
    """(document, command line) of every `$ ` line in a console block."""
    found = []
    for document in DOCUMENTS:
        for block in re.findall(r"```console\n(.*?)```", document.read_text(), re.DOTALL):
            lines = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
            found += [(document.name, line) for line in lines]
    return found


RUN_HERE = [(name, line) for name, line in commands() if shlex.split(line)[3] not in ELSEWHERE]


def test_every_command_is_of_ours() -> None:
    assert len(commands()) > len(RUN_HERE) > 5
    for name, line in commands():
        assert shlex.split(line)[:3] == ["python3", "-m", "infra"], (name, line)


@pytest.mark.parametrize(("document", "line"), RUN_HERE, ids=[line[17:60] for _, line in RUN_HERE])
def test_the_command_works_as_printed(environment: Environment, document: str, line: str) -> None:
    verb, *rest = shlex.split(line)[3:]
    if "psql" in rest and "localhost" in rest:
        # It asks for a password, which is what the document says; without one it must be refused.
        rest = [*rest, "--no-password"]
        done = environment.infra(verb, "--stack", STACK, *rest)
        assert "no password supplied" in done.stderr
        return
    words = ["--stack", STACK, *rest] if verb == "exec" else [*rest, STACK]
    assert environment.ok(verb, *words), document


def test_the_documents_name_no_file_that_is_not_there() -> None:
    for document in DOCUMENTS:
        for path in re.findall(r"`((?:docs|bench|tests|infra|crds|samples)/[\w./-]*)`", document.read_text()):
            assert Path(ROOT, path).exists(), (document.name, path)
