"""docs/troubleshooting.md explains every reason that a condition can have, and quotes what users see."""

from __future__ import annotations

import difflib
import re
from functools import cache

import pytest
from kindling.kinds.reasons import CATALOGUE

from tests.unit.docs.pages import rows, sections, slug, strings, text, trees

PAGE = "troubleshooting.md"
POINTS = ("Message", "Meaning", "Cause", "Do")
SECTIONS = sections(PAGE)


def test_each_reason_has_a_section_and_each_section_a_reason() -> None:
    assert set(SECTIONS) == set(CATALOGUE)


def test_the_index_links_each_reason_once_in_order() -> None:
    index = [row for row in rows(text(PAGE)) if row[0].startswith("[")]
    assert [row[0] for row in index] == [f"[{name}](#{slug(name)})" for name in sorted(CATALOGUE)]
    assert all(row[1] and row[2] and row[3] for row in index)


@pytest.mark.parametrize("reason", sorted(SECTIONS))
def test_a_section_answers_the_four_questions(reason: str) -> None:
    found = re.findall(r"^- \*\*(\w+):\*\* \S", SECTIONS[reason], flags=re.MULTILINE)
    assert tuple(found) == POINTS


@cache
def source() -> frozenset[str]:
    """Each text of the operator's source; seconds, which no other test is to wait for."""
    texts = (found for _, tree in trees("") for found in strings(tree) if len(found) > 10)
    return frozenset(" ".join(found.split()) for found in texts)


def quoted(reason: str) -> list[str]:
    """The literals of a section's message, in the pieces that the operator puts together.

    `…` is what it fills in; a name alone is none of its words.
    """
    message = SECTIONS[reason].split("- **Meaning:**")[0]
    literals = [" ".join(found.split()) for found in re.findall(r"`([^`]+)`", message)]
    pieces = [piece.strip() for literal in literals for piece in literal.split("…")]
    return [piece for piece in pieces if " " in piece and len(piece) > 6]


@pytest.mark.parametrize("reason", sorted(SECTIONS))
def test_the_quoted_messages_are_in_the_source(reason: str) -> None:
    assert quoted(reason)
    for piece in quoted(reason):
        if not any(piece in found for found in source()):
            near = difflib.get_close_matches(piece, source(), n=1, cutoff=0.0)
            pytest.fail(f"{piece!r} is in no message; the nearest: {near}")
