"""`python3 -m bench.readme_tables`: the figures in `bench/README.md`, from the results beside it.

A mark in the text names the file whose figures follow. The pages have all of them; these are the ones that a
reader compares. Pure but for `main`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.goals import COMPARED, OURS, goals
from bench.results import Results

FOLDER = Path(__file__).parent
README = FOLDER / "README.md"
BEGIN = re.compile(r"(<!-- figures of (\S+): python3 -m bench\.readme_tables -->)")
END = "<!-- end of the figures -->"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure: as it is, `each` by the number of resources, `times` a factor, with so many `digits`."""

    text: str
    figure: str
    each: bool = False
    times: float = 1.0
    digits: int = 1


ROWS = (
    Row(text="all children exist after, s", figure="create: children exist s"),
    Row(text="of one resource, from when it was there: p50, s", figure="create: children exist p50 s"),
    Row(text="p99, s", figure="create: children exist p99 s"),
    Row(text="all ready after, s", figure="create: ready s"),
    Row(text="children of each", figure="children", digits=0),
    Row(text="writes for each new resource", figure="create: writes", each=True, digits=2),
    Row(text="called ready before its Pods were", figure="ready before its Pods", digits=0),
    Row(text="before its Deployment said so", figure="ready before its Deployment said so", digits=0),
    Row(
        text="processor time for each until its children exist, ms",
        figure="create: cpu s until children exist",
        each=True,
        times=1000,
    ),
    Row(text="until it is ready and at rest, ms", figure="create: cpu s", each=True, times=1000),
    Row(text="writes at rest", figure="rest: writes", digits=0),
    Row(text="writes on restart, one resource being new by then", figure="restart: writes", digits=0),
    Row(text="back at work after a restart, s", figure="restart: back at work s"),
    Row(text="a field changed on all: children changed after, s", figure="change: children changed s"),
    Row(text="children of 100 deleted: back after, s", figure="restore: children exist s"),
    Row(text="all deleted: resources gone after, s", figure="delete: resources gone s"),
    Row(text="and their children, s", figure="delete: all gone s"),
    Row(text="memory with none, MiB", figure="idle MiB"),
    Row(text="memory at most, MiB", figure="first process: peak MiB"),
    Row(text="after the restart and all that follows, MiB", figure="second process: peak MiB"),
)
MET = {True: "yes", False: "**no**", None: ""}


def render(results: Results) -> str:
    """Markdown: the goals, then a table for each size, then one of the other kinds."""
    return "\n".join(_parts(results))


def _parts(results: Results) -> Iterator[str]:
    yield from _table(
        ["goal", "measured", "met"], [[goal.text, goal.measured, MET[goal.met]] for goal in goals(results)]
    )
    subjects = results.subjects(COMPARED)
    for count in results.counts:
        here = [who for who in subjects if results.rounds_of(COMPARED, count, subject=who)]
        if not here:
            continue
        yield f"### {count:,} Memcached, {results.rounds_said(COMPARED, count)}\n"
        yield from _figures(results, count, [(who, COMPARED) for who in here], here)
    for count in results.counts:
        kinds = [kind for kind in results.kinds if kind != COMPARED and results.rounds_of(kind, count)]
        if kinds:
            rounds = ", ".join(f"{kind} {results.rounds_said(kind, count)}" for kind in kinds)
            yield f"### {count:,} of the other kinds: {rounds}\n"
            yield from _figures(results, count, [(OURS, kind) for kind in kinds], kinds)


def _figures(
    results: Results, count: int, columns: Sequence[tuple[str, str]], head: Sequence[str]
) -> Iterator[str]:
    rows = []
    for row in ROWS:
        cells = [_cell(results, row, subject=subject, kind=kind, count=count) for subject, kind in columns]
        if any(cells):
            rows.append([row.text, *cells])
    yield from _table(["", *head], rows)


def _cell(results: Results, row: Row, *, subject: str, kind: str, count: int) -> str:
    found = results.figure(row.figure, subject=subject, count=count, kind=kind, each=row.each)
    if found is None:
        return ""
    middle, least, greatest = (
        f"{value * row.times:,.{row.digits}f}" for value in (found.median, found.least, found.greatest)
    )
    return middle if least == greatest else f"{middle} ({least} to {greatest})"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def put(readme: str, load: Callable[[str], Results]) -> str:
    """The text with the figures of each file that a mark names between that mark and the next end.

    ValueError where there is no mark, or one has no end.
    """
    before, *blocks = BEGIN.split(readme)
    if not blocks:
        raise ValueError("no mark says whose figures belong where")
    parts = [before]
    for mark, name, block in zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True):
        _, end, after = block.partition(END)
        if not end:
            raise ValueError(f"the figures of {name} have no end: {END} is missing")
        parts.append(f"{mark}\n\n{render(load(name))}\n{END}{after}")
    return "".join(parts)


def load(name: str) -> Results:
    return Results(json.loads((FOLDER / name).read_text()))


def main() -> int:
    README.write_text(put(README.read_text(), load))
    return 0


if __name__ == "__main__":
    sys.exit(main())
