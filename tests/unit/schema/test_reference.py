"""The reference that is published is that of the CRDs, and names every field of theirs."""

from __future__ import annotations

from infra.paths import REPOSITORY
from tests.unit.schema import metrics, reasons, reference

OTHERS = {metrics.FILE: metrics, reasons.FILE: reasons}
"""The pages that are not of a kind, by what generates them."""


def test_the_published_reference_is_that_of_the_definitions() -> None:
    pages = reference.pages()
    texts = {path: path.read_text() for path in reference.FOLDER.glob("*.md") if path not in OTHERS}
    published = {path: text for path, text in texts.items() if reference.GENERATED in text}
    assert sorted(published) == sorted(pages)
    for path, text in pages.items():
        name = path.relative_to(REPOSITORY)
        assert published[path] == text, f"{name}: python -m tests.unit.schema.reference regenerates it"


def test_the_other_published_pages_are_current() -> None:
    for path, module in OTHERS.items():
        name = path.relative_to(REPOSITORY)
        assert path.read_text() == module.page(), f"{name}: python -m {module.__name__} writes it again"


def test_every_field_has_a_row_with_a_meaning() -> None:
    for path, text in reference.pages().items():
        rows = [line for line in text.splitlines() if line.startswith(("| `spec.", "| `status."))]
        assert len(rows) > 3, path.name
        for row in rows:
            assert row.removesuffix(" |").rpartition("| ")[2], f"{path.name}: {row} says nothing"
