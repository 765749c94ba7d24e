"""Every decision has one form: number and title, status, date, context, decision, consequences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.docs.pages import DOCS, rows, text

FILES = sorted((DOCS / "decisions").glob("*.md"))
PARTS = ["Context", "Decision", "Measurements", "Alternatives", "Consequences"]
OPTIONAL = {"Measurements", "Alternatives"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_form(file: Path) -> None:
    title, status, date, *_ = (line for line in file.read_text().splitlines() if line)
    assert re.fullmatch(rf"# {file.name[:4]} [A-Z].*[^.]", title)
    assert re.fullmatch(r"- Status: (proposed|accepted|rejected|superseded).*", status)
    assert re.fullmatch(r"- Date: 20\d\d-\d\d-\d\d", date)
    parts = re.findall(r"^## (.+)$", file.read_text(), flags=re.MULTILINE)
    assert parts == [part for part in PARTS if part in parts or part not in OPTIONAL]


def test_the_list_has_each_with_its_title() -> None:
    titles = [file.read_text().partition("\n")[0].removeprefix(f"# {file.name[:4]} ") for file in FILES]
    links = [f"[{file.name[:4]}](decisions/{file.name})" for file in FILES]
    assert rows(text("decisions.md")) == [list(pair) for pair in zip(links, titles, strict=True)]
