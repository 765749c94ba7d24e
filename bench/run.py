"""The measurement from its words to its results; `bench.__main__` brings it into its environment."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import signal
import sys
import tempfile
import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvloop
from kindling.kube.resources import VOLUME_CLAIM

from bench import calibration, gooperator, report, resume
from bench.baseline import Baseline, best_in_flight
from bench.load import namespace
from bench.machine import machine
from bench.plan import CREATED, FLOORS, LARGEST, TrialSpec, seconds, turns
from bench.result import Result
from bench.subjects import Subject, subjects
from bench.testbed import TOOLS, Testbed, stage
from bench.trial import Say, Settings, TooSlow, Trial
from bench.volumes import volumes
from infra.bootstrap.toolchain import TOOLS as VERSIONS
from infra.bootstrap.toolchain import Toolchain
from infra.drivers.images import content_hash
from infra.errors import KindlingError
from infra.progress import Progress, Step

FOLDER = Path(__file__).parent
OPERATOR = FOLDER.parent / "operator" / "src"
RESULTS = FOLDER / "results.json"
SIZES, ROUNDS, REST_SECONDS = (100, 1000, 5000), 5, 60.0


@dataclass(frozen=True, kw_only=True)
class Options:
    """What was asked for on the command line; `results` is the JSON file, its page stands beside it."""

    sizes: Sequence[int]
    rounds: int
    rest_seconds: float
    subjects: Sequence[str]
    kinds: Sequence[str]
    results: Path
    resume: bool
    create_only: bool


def read(words: Sequence[str]) -> Options:
    """SystemExit for wrong words and `--help`."""
    parser = argparse.ArgumentParser(prog="python3 -m bench", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N", help="resources at once")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N")
    parser.add_argument("--rest", type=float, default=REST_SECONDS, metavar="SECONDS", help="steady state")
    parser.add_argument("--subjects", nargs="+", default=(), metavar="NAME", help="these alone")
    parser.add_argument("--kinds", nargs="+", default=(), metavar="KIND", help="these alone")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--resume", action="store_true", help="go on with these results, round by round")
    parser.add_argument("--create-only", action="store_true", help="the first phase alone, to other results")
    found = parser.parse_args(words)
    if found.create_only and found.results.resolve() == RESULTS.resolve():
        parser.error("--create-only leaves most figures out: name other --results")
    return Options(
        sizes=sorted(found.sizes),
        rounds=found.rounds,
        rest_seconds=found.rest,
        subjects=found.subjects,
        kinds=found.kinds,
        results=found.results,
        resume=found.resume,
        create_only=found.create_only,
    )


def choose(known: Mapping[str, Subject], words: Options) -> dict[str, list[str]]:
    """The kinds to measure of each subject, the floors among them; SystemExit for a name that is unknown."""
    offered = {floor: ["memcached"] for floor in FLOORS} | {
        name: list(subject.kinds) for name, subject in known.items()
    }
    kinds = {kind for names in offered.values() for kind in names}
    for chosen, there in ((words.subjects, set(offered)), (words.kinds, kinds)):
        if unknown := set(chosen) - there:
            sys.exit(f"error: nothing is called {', '.join(sorted(unknown))}: there are {sorted(there)}")
    return {
        subject: [kind for kind in names if not words.kinds or kind in words.kinds]
        for subject, names in offered.items()
        if not words.subjects or subject in words.subjects
    }


async def measure(words: Options, *, directory: Path, progress: Progress) -> dict[str, Any]:
    """Everything, in order; what is found so far is written after each turn."""
    toolchain = Toolchain(progress=progress)
    progress.plan(toolchain.plan(TOOLS))
    known = subjects(gooperator.program(progress))
    plan = list(turns(sizes=words.sizes, rounds=words.rounds, subjects=choose(known, words), largest=LARGEST))
    results: dict[str, Any] = {
        "machine": machine(),
        "versions": {name: VERSIONS[name].version for name in TOOLS}
        | {"go operator": gooperator.versions(), "kindling": content_hash(OPERATOR)},
        "cells": [],
    }
    if words.resume and words.results.exists():
        found = json.loads(words.results.read_text())
        resume.check(found, results)
        results["in_flight"] = found["in_flight"]
        results["cells"], plan = resume.left(plan, found["cells"])
    progress.plan([Step(str(turn), seconds(turn, rest_seconds=words.rest_seconds)) for turn in plan])
    with stage(directory=directory, toolchain=toolchain) as running:
        if "in_flight" not in results:
            with progress.step("Best concurrency of a bare client") as say:
                results["in_flight"] = await best_in_flight(running, say=say)
        settings = Settings(
            rest_seconds=words.rest_seconds,
            in_flight=results["in_flight"],
            create_only=words.create_only,
        )
        for number, turn in enumerate(plan):
            with progress.step(str(turn)) as say:
                name = f"bench-{number}"
                cell = await _turn(
                    running, turn, known, name, settings=settings, directory=directory, say=say
                )
            results["cells"].append(cell)
            write(results, words.results)
    return results


async def _turn(
    stage: Testbed,
    turn: TrialSpec,
    known: Mapping[str, Subject],
    name: str,
    *,
    settings: Settings,
    directory: Path,
    say: Say,
) -> dict[str, Any]:
    """One measurement, with the machine's speed right before it, in a namespace of its own."""
    say("calibrate")
    speed = await calibration.calibrate(stage)
    began, failed = time.monotonic(), None
    claims = turn.count if _has_claims(known, turn) else 0
    async with volumes(stage.admin, prefix=name, count=claims), namespace(stage.admin, name):
        stage.log.more()
        current: Trial | Baseline
        if turn.subject in FLOORS:
            current = Baseline(
                stage=stage,
                count=turn.count,
                namespace=name,
                in_flight=settings.in_flight,
                say=say,
                create=turn.subject == CREATED,
            )
        else:
            subject = known[turn.subject]
            current = Trial(
                stage=stage,
                subject=subject,
                asked=subject.kinds[turn.kind],
                count=turn.count,
                namespace=name,
                settings=settings,
                directory=directory,
                say=say,
            )
        try:
            await current.run()
        except TooSlow as error:
            failed = str(error)
        taken = time.monotonic() - began
        say("clear away")
    result: Result = current.result
    return {
        **dataclasses.asdict(turn),
        "rest_seconds": settings.rest_seconds,
        "seconds": round(taken, 1),
        "failed": failed,
        "calibration": {name: round(value, 4) for name, value in dataclasses.asdict(speed).items()},
        "figures": {name: round(value, 3) for name, value in result.figures.items()},
        "requests": result.requests,
    }


def _has_claims(known: Mapping[str, Subject], turn: TrialSpec) -> bool:
    return turn.subject not in FLOORS and VOLUME_CLAIM in known[turn.subject].kinds[turn.kind].children


def write(results: dict[str, Any], path: Path) -> None:
    """The results, and the page beside them."""
    path.write_text(json.dumps(results, indent=1) + "\n")
    path.with_suffix(".html").write_text(report.render(results))


class Ended(Exception):
    """Ctrl-C or SIGTERM ended the run."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number)
        self.number = number


async def run_until_signalled(work: Coroutine[Any, Any, Any]) -> None:
    """Run it to its end, or until Ctrl-C or SIGTERM; then it is cancelled and cleans up after itself.

    :raises Ended: a signal ended it; a signal that is ignored, as in the background, stays ignored.
    """
    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
    received: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        received.append(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, end, number)
    try:
        await task
    except asyncio.CancelledError:
        if not received:
            raise
        raise Ended(received[0]) from None


def main(arguments: Sequence[str]) -> int:
    words = read(arguments)
    progress = Progress()
    try:
        with tempfile.TemporaryDirectory(prefix="kindling-bench-") as folder:
            uvloop.run(run_until_signalled(measure(words, directory=Path(folder), progress=progress)))
    except KindlingError as error:
        sys.exit(f"error: {error}")
    except Ended as ended:
        sys.stderr.write(f"ended by {ended.number.name}: what was measured is kept; go on with --resume\n")
        return 128 + ended.number
    progress.say(f"{words.results.with_suffix('.html')} has the figures, {words.results} the same as JSON")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
