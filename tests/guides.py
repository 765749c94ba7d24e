"""The files of a guide, carried out: each block that begins with a path is a file, or a diff of one."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterable
from pathlib import Path

from infra.paths import REPOSITORY

KINDS = ("adding-a-kind.md", "work-that-ends.md", "work-on-members.md")
"""The guides that add a kind each."""
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"# (\S+/\S+)\n")


def blocks(text: str) -> list[tuple[str, str, str]]:
    """Language, path (of those that begin with one) and content of each block of a document."""
    found = []
    for language, body in BLOCK.findall(text):
        named = NAMED.match(body)
        found.append((language, named[1] if named else "", body[named.end() :] if named else body))
    return found


def copy(root: Path, names: Iterable[str]) -> None:
    """Copy these files and folders of the working tree to the same places below `root`."""
    for name in names:
        source, target = REPOSITORY / name, root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)


def write(root: Path, name: str, *, language: str, body: str) -> None:
    """Write one block to its path below `root`, or change the file there if the block is a diff."""
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(patched(file.read_text(), body) if language == "diff" else body)


def add_kinds(root: Path) -> None:
    """Carry out the guides of `KINDS` in the copy at `root`."""
    for guide in KINDS:
        for language, name, body in blocks((REPOSITORY / "docs" / guide).read_text()):
            if name:
                write(root, name, language=language, body=body)


def patched(text: str, diff: str) -> str:
    """The text with each added line of the diff below its line of context, which must be there once."""
    for hunk in diff.split("@@\n"):
        context, *added = hunk.splitlines()
        assert text.count(f"{context[1:]}\n") == 1, context
        below = "".join(f"{line.removeprefix('+')}\n" for line in added)
        text = text.replace(f"{context[1:]}\n", f"{context[1:]}\n{below}")
    return text


def section(text: str, heading: str) -> str:
    """What is below a `##` heading of a document, which must be there once."""
    (found,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return str(found)


INSTALL = (REPOSITORY / "docs/guides/install.md").read_text()


def openssl(first: str = "openssl ") -> list[list[str]]:
    """The commands of the blocks of guides/install.md that begin with this one, by their words."""
    found = re.findall(r"^```console\n(.*?)^```", INSTALL, re.DOTALL | re.MULTILINE)
    lines = [line for block in found if block.startswith(f"$ {first}") for line in block.splitlines()]
    return [shlex.split(line[2:]) for line in lines if line.startswith("$ ")]


FIRST_BACKUP = section(
    (REPOSITORY / "docs/guides/backup.md").read_text(), "Your first proven backup in five minutes"
)
"""What a stranger follows to a backup that was restored: settings, commands, one manifest."""
