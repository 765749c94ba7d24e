"""The README names each kind that the operator has, and says how many there are."""

from __future__ import annotations

import re

from kindling.kinds.registry import NAMES

from infra.paths import REPOSITORY

WORDS = dict(
    enumerate(["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], start=1)
)


def test_the_readme_names_every_kind_and_counts_them() -> None:
    text = (REPOSITORY / "README.md").read_text()
    (table,) = re.findall(r"^\| kind \|.*\n\|-.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    named = [name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(NAMES)
    assert f"reconciles {WORDS[len(NAMES)]} kinds of custom resources" in text
