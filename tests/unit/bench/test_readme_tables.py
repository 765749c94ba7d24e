"""The figures in bench/README.md are those of the results beside it, without any change."""

from __future__ import annotations

from typing import Any

import pytest

from bench import readme_tables
from bench.results import Results


def cell(subject: str, kind: str, count: int, round: int, **figures: float) -> dict[str, Any]:
    return {
        "subject": subject,
        "kind": kind,
        "count": count,
        "round": round,
        "figures": figures,
        "requests": {},
    }


def test_the_readme_shows_the_results_that_lie_beside_it() -> None:
    readme = readme_tables.README.read_text()
    written = readme_tables.put(readme, readme_tables.load)
    assert written == readme, "python3 -m bench.readme_tables regenerates it"


def test_medians_with_the_least_and_the_greatest_and_what_was_not_measured_is_empty() -> None:
    cells = [
        cell("kindling", "memcached", 1000, round, **{"create: ready s": value, "create: writes": 5000})
        for round, value in enumerate((46.0, 45.04, 48.0), 1)
    ]
    cells.append(cell("floor", "memcached", 1000, 1, **{"create: ready s": 34.0}))
    made = readme_tables.render(Results({"cells": cells}))
    assert "### 1,000 Memcached, 3 rounds" in made
    assert "| all ready after, s | 34.0 | 46.0 (45.0 to 48.0) |" in made
    assert "| writes for each new resource |  | 5.00 |" in made
    assert "p99" not in made


def test_who_did_not_take_part_in_a_size_has_no_column() -> None:
    cells = [
        cell("kindling", "memcached", 100, 1, **{"create: ready s": 5.0}),
        cell("kindling", "memcached", 5000, 1, **{"create: ready s": 200.0}),
        cell("go, 32 workers", "memcached", 100, 1, **{"create: ready s": 4.0}),
    ]
    small, large = readme_tables.render(Results({"cells": cells})).split("### 5,000 Memcached, 1 round")
    assert "go, 32 workers |" in small
    assert "go, 32 workers |" not in large


def test_other_kinds_have_a_table_of_their_own() -> None:
    cells = [
        cell("kindling", "memcached", 100, 1, **{"create: ready s": 5.0}),
        cell("kindling", "postgresql", 100, 1, children=7),
    ]
    made = readme_tables.render(Results({"cells": cells}))
    assert "### 100 of the other kinds: postgresql 1 round" in made
    assert "| children of each | 7 |" in made


def test_each_mark_gets_the_figures_of_its_own_file() -> None:
    files = {
        "one.json": Results({"cells": [cell("kindling", "postgresql", 100, 1, children=7)]}),
        "two.json": Results({"cells": [cell("kindling", "postgresql", 200, 1, children=6)]}),
    }
    marks = [f"<!-- figures of {name}: python3 -m bench.readme_tables -->" for name in files]
    blank = f"a\n{marks[0]}\n{readme_tables.END}\nb\n{marks[1]}\nold figures\n{readme_tables.END}\nc\n"
    made = readme_tables.put(blank, files.__getitem__)
    first, second = made.split("\nb\n")
    assert first.startswith(f"a\n{marks[0]}\n\n| goal")
    assert first.endswith(readme_tables.END)
    assert "| children of each | 7 |" in first
    assert second.startswith(marks[1])
    assert second.endswith(f"{readme_tables.END}\nc\n")
    assert "| children of each | 6 |" in second
    assert "old figures" not in made
    assert readme_tables.put(made, files.__getitem__) == made


@pytest.mark.parametrize(
    ("readme", "said"),
    [
        ("no marks", "no mark"),
        ("<!-- figures of a.json: python3 -m bench.readme_tables -->\n", "of a.json have no end"),
    ],
)
def test_missing_marks_are_an_error(readme: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        readme_tables.put(readme, lambda _: Results({"cells": [cell("kindling", "memcached", 100, 1)]}))
