"""Every command that the documents print is run: here, or by the fixture of the stack and by CI."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from infra.cli.commands.up import next_steps
from infra.settings import stacks
from tests import guides
from tests.cluster.stack import ROOT, STACK, Environment

# What brings up, takes down and tests is run by the fixture and by CI itself; timings by hand; a release is
# made by tests/apiserver/test_release.py; `selftest` is run by tests/convergence/test_selftest.py.
ELSEWHERE = {"up", "destroy", "test", "dev", "promote", "checkout", "release", "selftest"}
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md")
DOCUMENTS = [*(ROOT / name for name in PAGES), *sorted((ROOT / "docs").rglob("*.md"))]


def commands() -> list[tuple[str, str]]:
    """(document, command line) of every `$ ` line in a console block.

    Without those of OpenSSL, which tests/unit/infra/test_release_signature.py runs.
    """
    found = []
    for document in DOCUMENTS:
        for block in re.findall(r"```console\n(.*?)```", document.read_text(), re.DOTALL):
            lines = [line.strip()[2:] for line in block.splitlines() if line.lstrip().startswith("$ ")]
            found += [(document.name, line) for line in lines if shlex.split(line) not in guides.openssl()]
    return found


# What needs an object store is run by test_object_store.
RUN_HERE = [
    (name, line)
    for name, line in commands()
    if shlex.split(line)[3] not in ELSEWHERE and f"$ {line}\n" not in guides.FIRST_BACKUP
]


def test_every_command_is_of_ours() -> None:
    assert len(commands()) > len(RUN_HERE) > 5
    for name, line in commands():
        assert shlex.split(line)[:3] == ["python3", "-m", "infra"], (name, line)


# The longest, and tests/apiserver/test_preview_live.py reads its page each time.
LIVE = " --live "


@pytest.mark.parametrize(
    ("document", "line"),
    [
        pytest.param(*each, id=each[1][17:60], marks=pytest.mark.thorough if LIVE in each[1] else ())
        for each in RUN_HERE
    ],
)
def test_the_command_works_as_printed(
    environment: Environment, document: str, line: str, tmp_path: Path
) -> None:
    verb, *rest = shlex.split(line)[3:]
    if "psql" in rest and "localhost" in rest:
        # It asks for a password, which is what the document says; without one it must be refused.
        rest = [*rest, "--no-password"]
        done = environment.infra(verb, "--stack", STACK, *rest)
        assert "no password supplied" in done.stderr
        return
    if verb == "exec":
        words = ["--stack", STACK, *rest]
    else:
        # On this stack, whichever is printed; what it writes goes elsewhere.
        rest = [str(tmp_path / word) if word.endswith((".md", ".json")) else word for word in rest]
        words = [STACK, *(word for word in rest if word not in stacks())]
    assert environment.ok(verb, *words), document


def test_the_login_that_up_prints_works(environment: Environment) -> None:
    """With the password that its second command prints, which psql would ask for."""
    printed = [line.strip() for line in next_steps(STACK, samples=True).splitlines()]
    login, secret = (
        shlex.split(line)[3:] for line in printed if line.startswith("python3") and "mydb" in line
    )
    words = [word for word in login if word != "-it"]
    at = words.index("psql")
    words[at:at] = ["env", f"PGPASSWORD={environment.ok(*secret)}"]
    assert environment.ok(*words, "-Atc", "select current_user").strip() == "pgowner"


def test_the_documents_name_no_file_that_is_not_there() -> None:
    for document in DOCUMENTS:
        for path in re.findall(r"`((?:docs|bench|tests|infra|crds|samples)/[\w./-]*)`", document.read_text()):
            assert Path(ROOT, path).exists(), (document.name, path)
