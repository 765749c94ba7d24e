"""A page that says which test proves a claim names one that exists."""

from __future__ import annotations

import re

import pytest

from infra.paths import REPOSITORY
from tests.unit.docs.pages import PAGES, rows, text

NAMED = [
    (str(page.relative_to(REPOSITORY)), file, name)
    for page in PAGES
    for file, name in re.findall(r"`(tests/[\w/.]+\.py)(?:::(\w+))?`", page.read_text())
]


@pytest.mark.parametrize(("page", "file", "name"), NAMED)
def test_it_exists(page: str, file: str, name: str) -> None:
    source = (REPOSITORY / file).read_text()
    assert not name or re.search(rf"^(?:async )?def {name}\(", source, flags=re.MULTILINE), f"{page}: {file}"


def test_every_claim_of_the_security_page_names_its_test() -> None:
    claims = rows(text("security.md"))
    assert len(claims) > 25
    for claim in claims:
        assert re.fullmatch(r"`tests/[\w/]+\.py(::test_\w+)?`", claim[-1]), claim
