"""What is printed: how far it is, what was real, the table, each difference; the same as JSON. Pure but for
`Progress`, which writes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TextIO

from infra.progress import duration
from selftest.results import Finding, Result

EVERY_SECONDS = 10.0
"""A log gets a line so often; a terminal has one line that changes."""
LONGEST = 200
"""Characters of a value in a line."""


class Progress:
    """One line: the resource at work, how many kills are done of how many, about how long is left."""

    def __init__(self, stream: TextIO, *, total: int) -> None:
        self._stream, self._total = stream, total
        self._began = self._said = time.monotonic()
        self._drawn = stream.isatty()

    def step(self, result: Result, *, done: int, different: int) -> None:
        """`done` and `different` are of all resources."""
        now = time.monotonic()
        last = result.kills == 2 * result.writes
        if not self._drawn and not last and now - self._said < EVERY_SECONDS:
            return
        self._said = now
        left = (now - self._began) / max(1, done) * max(0, self._total - done)
        text = (
            f"{result.name}: write {(result.kills + 1) // 2} of {result.writes}; "
            f"{done} of {self._total} kills, {different} different, about {duration(left)} left"
        )
        self._stream.write(f"\r\x1b[K{text}" if self._drawn else f"{text}\n")
        self._stream.flush()

    def end(self) -> None:
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def table(results: Sequence[Result]) -> str:
    head = ("RESOURCE", "WRITES", "KILLED BEFORE/AFTER", "DIFFERENT", "TIME", "UNDISTURBED")
    rows = [head, *(_row(result) for result in results)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _row(result: Result) -> tuple[str, ...]:
    if not result.kills and result.findings:
        return result.name, "-", "-", "-", duration(result.seconds), "no end to compare with"
    return (
        result.name,
        str(result.writes),
        f"{result.kills_before}/{result.kills_after}",
        f"{result.different}/{result.kills}",
        duration(result.seconds),
        result.settled,
    )


def findings(results: Sequence[Result]) -> str:
    return "\n".join(line for result in results for finding in result.findings for line in _finding(finding))


def _finding(finding: Finding) -> list[str]:
    killed = f", killed {finding.killed} write {finding.write}" if finding.write else ""
    lines = [f"DIFFERENT: {finding.scenario}{killed}"]
    if finding.problem:
        lines.append(f"  {finding.problem}")
    for item in finding.differences:
        where = f"{item['object']}: {item['field']}" if item["field"] else item["object"]
        lines.append(f"  {where}: expected {_short(item['expected'])}, found {_short(item['found'])}")
    return lines


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def summary(results: Sequence[Result]) -> str:
    kills = sum(result.kills for result in results)
    wrong = sum(result.different for result in results)
    missed = sum(result.missed for result in results)
    words = f"{kills} kills, {wrong} different" if wrong else f"{kills} kills, all ended as without"
    more = f"; {missed} kills not tried, because their write did not come again" if missed else ""
    return f"{words}{more}."


def as_json(
    results: Sequence[Result], *, real: Sequence[str], simulated: Sequence[str], skipped: Sequence[str]
) -> str:
    found = {
        "equal": not any(result.findings for result in results),
        "real": list(real),
        "simulated": list(simulated),
        "skipped": list(skipped),
        "resources": [
            {
                "name": result.name,
                "file": result.file,
                "undisturbed": result.settled,
                "writes": result.writes,
                "kills": {
                    "before": result.kills_before,
                    "after": result.kills_after,
                    "missed": result.missed,
                },
                "different": result.different,
                "seconds": round(result.seconds, 1),
                "findings": [asdict(finding) for finding in result.findings],
            }
            for result in results
        ],
    }
    return json.dumps(found, indent=2)
