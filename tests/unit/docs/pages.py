"""The documents as the tests read them: pages, links, sections, and the strings of the operator's source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from infra.paths import REPOSITORY

DOCS = REPOSITORY / "docs"
SOURCE = REPOSITORY / "operator" / "src" / "kindling"
PAGES = [
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md")),
    *sorted(DOCS.rglob("*.md")),
]


def text(page: str) -> str:
    """The text of a page below docs/."""
    return (DOCS / page).read_text()


def sections(page: str) -> dict[str, str]:
    """Text of each `###` section by its heading."""
    found = re.split(
        r"^### (.+)\n", re.split(r"^# ", text(page), maxsplit=1, flags=re.MULTILINE)[1], flags=re.M
    )
    bodies = (re.split(r"^## ", body, maxsplit=1, flags=re.MULTILINE)[0] for body in found[2::2])
    return dict(zip(found[1::2], bodies, strict=True))


def rows(text: str) -> list[list[str]]:
    """The cells of each row of each table, without headings and rulers."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]
    rulers = {number for number, row in enumerate(cells) if set("".join(row)) <= set("-:")}
    return [row for number, row in enumerate(cells) if number not in rulers and number + 1 not in rulers]


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    bare = re.sub(r"[^\w\- ]", "", heading.replace("`", "").strip().lower())
    return bare.replace(" ", "-")


def trees(*parts: str) -> Iterator[tuple[Path, ast.Module]]:
    """Each module below these folders or files of the operator's source."""
    for part in parts:
        place = SOURCE / part
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            yield path, ast.parse(path.read_text())


def strings(tree: ast.AST) -> Iterator[str]:
    """Every string of a module; what a format string fills in is a NUL."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)
            yield "".join(map(str, parts))
