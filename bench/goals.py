"""What was to be reached, and whether it was: ratios within one run, which the machine's pace cancels out of.

Pure; each goal is judged by medians.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.plan import CREATED, FLOOR
from bench.results import Results
from bench.stats import Summary, slope
from bench.svg import said, short

OURS = "kindling"
# The kind that others than ours are there for.
COMPARED = "memcached"
SCAFFOLDED, TUNED = "go, as scaffolded", "go, 32 workers"
EXIST = "create: children exist s"
PEAK, PEAK_AGAIN = "first process: peak MiB", "second process: peak MiB"
STATUS_WRITES = 2
# The size that the goals are about; so much memory is for so many or fewer.
RESOURCES = 1000
MEBIBYTES, KIBIBYTES = 80.0, 20.0
# Twice the resources may cost a quarter more than twice: the store's and the server's own growth.
BENT = 1.25


@dataclass(frozen=True, kw_only=True)
class Goal:
    """`met` is None where this run did not measure it."""

    text: str
    measured: str
    met: bool | None


def goals(results: Results) -> Iterator[Goal]:
    count = results.at(RESOURCES)
    if COMPARED in results.kinds:
        yield from _beside(results, count)
    for kind in results.kinds:
        yield from _of_kind(results, kind, count)
    yield from _growth(results)


def _beside(results: Results, count: int) -> Iterator[Goal]:
    floor = results.ratio(EXIST, over=OURS, under=FLOOR, count=count)
    alone = results.ratio(EXIST, over=OURS, under=FLOOR, count=count, other="create: children alone s")
    yield _ratio(f"children of {count} exist within 1.5 times the floor's time", floor, most=1.5)
    yield _ratio("the same, by the floor's time for the children alone (no goal)", alone, most=None)
    created = results.ratio(EXIST, over=OURS, under=CREATED, count=count)
    yield _ratio("the same, by a floor that creates them, as we do (no goal)", created, most=None)
    scaffolded = results.ratio(EXIST, over=SCAFFOLDED, under=OURS, count=count)
    yield _ratio(f"{count}: at least 10 times faster than the scaffolded operator", scaffolded, least=10)
    tuned = results.ratio(EXIST, over=OURS, under=TUNED, count=count)
    yield _ratio(f"{count}: not slower than the tuned operator (ours by theirs)", tuned, most=1.0)


def _of_kind(results: Results, kind: str, count: int) -> Iterator[Goal]:
    def figure(name: str) -> Summary | None:
        return results.figure(name, subject=OURS, count=count, kind=kind)

    children, writes = figure("children"), figure("create: writes")
    text = f"{kind}: writes for each new resource, beyond its children"
    beyond = None
    if children is not None and writes is not None:
        beyond = writes.greatest / count - children.median
    yield _most(text, beyond, most=STATUS_WRITES)
    for name in ("ready before its Pods", "ready before its Deployment said so"):
        if (early := figure(name)) is not None:
            yield _most(f"{kind}: called {name}", early.greatest, most=0)
    rest, restart = figure("rest: writes"), figure("restart: writes")
    yield _most(f"{kind}: writes at rest", rest.greatest if rest else None, most=0)
    if restart is not None and children is not None:
        # One was made while it was away, whose own writes are no fault.
        more = max(0.0, restart.greatest - children.median - STATUS_WRITES)
        yield _most(f"{kind}: writes on restart, beyond those for one new resource", more, most=0)
    for name, when in ((PEAK, ""), (PEAK_AGAIN, " after a restart and all that follows")):
        peak = figure(name)
        text = f"{kind}: memory with {count}{when}, MiB"
        yield _most(text, peak.median if peak else None, most=MEBIBYTES if count <= RESOURCES else None)


def _growth(results: Results) -> Iterator[Goal]:
    low, high = results.at(RESOURCES), results.counts[-1]
    if low == high > RESOURCES:
        return  # Measured to be compared with others: there is nothing to grow from.
    for kind in results.kinds:
        found = {
            count: results.figure(PEAK, subject=OURS, count=count, kind=kind) for count in results.counts
        }
        points = {count: item.median for count, item in found.items() if item is not None}
        grown = slope(points) * 1024 if len(points) > 1 else None
        yield _most(f"{kind}: growth for each resource, KiB", grown, most=KIBIBYTES)
        before = results.figure("create: cpu s", subject=OURS, count=low, kind=kind, each=True)
        after = results.figure("create: cpu s", subject=OURS, count=high, kind=kind, each=True)
        bent = after.median / before.median if before and after and low < high and before.median else None
        by = f"of {high} by of {low} (linear: 1)"
        yield _most(f"{kind}: processor time for a resource, {by}", bent, most=BENT)
        asked = [results.asked(subject=OURS, count=count, kind=kind, phase="create") for count in (low, high)]
        more = asked[1] / asked[0] if all(asked) and low < high else None
        yield _most(f"{kind}: API requests for a new resource, {by}", more, most=BENT)


def _ratio(text: str, item: Summary | None, *, most: float | None = None, least: float | None = None) -> Goal:
    if item is None:
        return Goal(text=text, measured="not measured", met=None)
    met = (most is None or item.median <= most) and (least is None or item.median >= least)
    return Goal(text=text, measured=said(item), met=met if (most, least) != (None, None) else None)


def _most(text: str, value: float | None, *, most: float | None) -> Goal:
    if value is None:
        return Goal(text=text, measured="not measured", met=None)
    if most is None:
        return Goal(text=f"{text} (no goal)", measured=short(value), met=None)
    return Goal(text=f"{text}: at most {short(most)}", measured=short(value), met=value <= most)
