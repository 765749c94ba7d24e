"""A measurement of most of a day, in several sessions: what of the earlier ones stands, what is left. Pure.

Only what followed each other within a round is compared. So a round that was broken off is measured again
as a whole, and nothing is added to what other programs, or another machine, left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bench.plan import TrialSpec
from bench.results import Trial
from infra.errors import KindlingError


def check(found: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """:raises KindlingError: the results `found` are of another machine or other versions than `now`."""
    before = {"machine": found["machine"], **found["versions"]}
    after = {"machine": now["machine"], **now["versions"]}
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name]:
            raise KindlingError(
                f"the results to go on with are of {name} {before[name]}, now it is {after[name]}",
                why="only what was measured of the same on the same is compared.",
                remedy="measure again without --resume, or write to other --results.",
            )


def left(plan: Sequence[TrialSpec], cells: Sequence[Trial]) -> tuple[list[Trial], list[TrialSpec]]:
    """The cells that stand, and the turns of the plan that are not among them.

    Cells that the plan does not ask for stand as they are: other sizes, kinds and subjects.
    """
    measured = {_key(cell) for cell in cells}
    broken = {(turn.count, turn.round) for turn in plan if _key(asdict(turn)) not in measured}
    again = [turn for turn in plan if (turn.count, turn.round) in broken]
    dropped = {_key(asdict(turn)) for turn in again}
    return [cell for cell in cells if _key(cell) not in dropped], again


def _key(cell: Trial) -> tuple[Any, ...]:
    return cell["count"], cell["round"], cell["subject"], cell["kind"]
