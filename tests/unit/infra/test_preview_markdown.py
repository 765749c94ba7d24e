"""The page: found again by its first line, whole for whatever is on it, and short enough for a comment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cli.preview import markdown
from infra.cli.preview.events import Change, Difference, Preview, Verb

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"


def change(number: int, *, verb: Verb = Verb.CREATED, differences: int = 0) -> Change:
    found = tuple(Difference(f"data.{i}", "before", "after" * 40) for i in range(differences))
    return Change(verb, CONFIG_MAP, f"map-{number:04}", found)


def test_nothing_to_do_is_one_plain_sentence() -> None:
    text = markdown.render(Preview(unchanged=43), stack="prod")
    assert "## Preview of stack `prod`: nothing changes\n\n43 resources stay as they are.\n" in text
    assert "<details>" not in text


def test_one_is_reported_in_the_singular() -> None:
    assert "\n1 resource stays as it is.\n" in markdown.render(Preview(unchanged=1), stack="dev")


def test_few_new_resources_are_reported_one_by_one_and_many_are_folded() -> None:
    few = markdown.render(Preview(tuple(map(change, range(markdown.FEW)))), stack="dev")
    many = markdown.render(Preview(tuple(map(change, range(markdown.FEW + 1)))), stack="dev")
    assert few.count("| created |") == markdown.FEW
    assert "<details>" not in few
    assert "| created |" not in many
    assert "<summary>The 11 that are created</summary>" in many
    assert all(f"`map-{number:04}`" in many for number in range(markdown.FEW + 1))


def test_what_is_lost_comes_first_and_many_names_are_counted() -> None:
    lost = tuple(Change(Verb.DELETED, "kubernetes:core/v1:Namespace", f"n{i}") for i in range(7))
    text = markdown.render(Preview((*lost, change(1)), unchanged=2), stack="dev")
    paragraphs = text.split("\n\n")
    assert paragraphs[2].startswith("**Data is lost:** Namespace `n0`, ")
    assert paragraphs[2].endswith("`n4` and 2 more.")


def test_an_error_beside_a_preview_that_went_through_is_no_failure() -> None:
    text = markdown.render(Preview((change(1),), errors=("one", "two")), stack="dev")
    assert "## Preview of stack `dev`: 1 to create" in text
    assert "map-0001" in text
    assert "Pulumi made this preview, and reported beside it:\n\n```text\none\n\ntwo\n```" in text


def test_an_error_cannot_end_its_block() -> None:
    text = markdown.failed("before\n```\n# after", stack="dev")
    assert "````text\nbefore\n```\n# after\n````" in text


@pytest.mark.parametrize("size", [200, 2000])
def test_a_page_fits_into_a_comment(size: int) -> None:
    changes = tuple(change(i, verb=Verb.UPDATED, differences=10) for i in range(size))
    text = markdown.render(Preview(changes, unchanged=1), stack="dev")
    assert len(text) <= markdown.MOST
    assert "What differs is too much for this page" in text or text.endswith("… cut short\n")
    assert len(markdown.failed("x" * 100_000, stack="dev")) <= markdown.MOST


texts = st.text(alphabet="ab`|<>*\n\\[]!@# -_é", max_size=200)


@given(name=texts, path=texts, before=texts, after=texts, verb=st.sampled_from(Verb))
def test_no_text_breaks_out_of_its_place(name: str, path: str, before: str, after: str, verb: Verb) -> None:
    found = Change(verb, CONFIG_MAP, name, (Difference(path, before, after),))
    text = markdown.render(Preview((found,)), stack="dev")
    assert text.startswith(markdown.marker("dev") + "\n")
    (row,) = (line for line in text.splitlines() if line.startswith(f"| {verb.value}"))
    assert row.replace("\\|", "").count("|") == 4
    assert text.count("\n<details>\n") == text.count("\n</details>\n") == 1
    (line,) = (line for line in text.splitlines() if line.startswith("- "))
    assert len(line) < 4 * markdown.MOST_VALUE + 100
    # The same, whenever it is asked for.
    assert text == markdown.render(Preview((found,)), stack="dev")
