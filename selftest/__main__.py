"""`python -m selftest`: what `python3 -m infra selftest` becomes, with the same arguments.

Exit status: 0 all ended as without a kill, 1 a run did not, 2 usage or bad input, 130 and 143 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from infra import bootstrap
from infra.cli import arguments
from infra.cli.arguments import Command
from infra.errors import KindlingError
from selftest import manifests, report, stand_ins
from selftest.admission import check
from selftest.environment import environment, folder
from selftest.interrupts import Interrupted, interruptible
from selftest.manifests import BadInput, Manifests, Resource
from selftest.results import Result, Secrets
from selftest.sweep import kill_points, learn, sweep
from tests.convergence.harness import Harness

Pairs = Sequence[tuple[Resource, Resource | None]]


def pairs(command: Command) -> tuple[Manifests, Pairs]:
    """The resources to try, each with its next spec where `--to` has one.

    :raises BadInput: with all that is wrong.
    """
    found = manifests.read(command.files)
    chosen = [one for one in found.resources if not command.only or command.only in _names(one)]
    if not chosen:
        names = ", ".join(map(str, found.resources))
        raise BadInput(f"--only {command.only}: there is no such resource: use one of {names}")
    if not command.to:
        return found, [(one, None) for one in chosen]
    after = manifests.read([command.to])
    if unknown := [one for one in after.resources if found.find(one.document) is None]:
        raise BadInput(
            *(
                f"{one.document.where}: {one} is in no FILE, so it has no spec before this one"
                for one in unknown
            )
        )
    return found, [(one, after.find(one.document)) for one in chosen]


def _names(resource: Resource) -> tuple[str, ...]:
    document = resource.document
    return document.name, f"{document.kind}/{document.name}", str(resource)


def run(command: Command) -> int:
    """:raises BadInput: before anything is started, or once the API server has read the files."""
    found, todo = pairs(command)
    everything = [one for pair in todo for one in pair if one is not None]
    secrets = Secrets(
        {
            (*document.id, document.where): document
            for one in everything
            for document in (one.document, *one.content, *(other for _, other in one.beside))
        }.values()
    )
    if not bootstrap.apt.has_postgresql():
        raise KindlingError(
            "PostgreSQL's server programs are not on this machine",
            why="the sweep starts servers of its own",
            remedy="on Debian `python3 -m infra selftest` installs them; elsewhere install them yourself",
        )
    with folder() as root, environment(root, keep=command.keep, redact=secrets.redact) as harness:
        check(harness.cluster, todo, secrets.redact)
        return tried(harness, command, found, todo, secrets)


def tried(harness: Harness, command: Command, found: Manifests, todo: Pairs, secrets: Secrets) -> int:
    """The sweep, and what is printed of it."""
    kinds = [one.document.kind for one, _ in todo]
    real, simulated = stand_ins.real(kinds, postgresql=harness.databases.version), stand_ins.simulated(kinds)
    said = sys.stderr if command.json else sys.stdout
    for title, lines in (("Skipped", found.skipped), ("Real", real), ("Simulated", simulated)):
        for line in lines:
            print(f"{title}: {line}.", file=said)
    print(f"\n{len(todo)} to try, each undisturbed at first, twice ...", file=said, flush=True)
    each = learn(harness, todo, secrets)
    points = [
        kill_points(harness, one, writes=command.writes) if not one.result.findings else [] for one in each
    ]
    results: list[Result] = [one.result for one in each]
    progress = report.Progress(sys.stderr, total=sum(map(len, points)))

    def say(result: Result) -> None:
        done, different = sum(one.kills for one in results), sum(one.different for one in results)
        progress.step(result, done=done, different=different)

    for one, kills in zip(each, points, strict=True):
        sweep(harness, one, kills, secrets, say)
    progress.end()
    text = report.as_json(results, real=real, simulated=simulated, skipped=found.skipped)
    if command.keep is not None:
        command.keep.mkdir(parents=True, exist_ok=True)
        (command.keep / "report.json").write_text(text + "\n")
    if command.json:
        print(text)
    else:
        wrong = report.findings(results)
        print(
            "\n".join(("", report.table(results), *((wrong,) if wrong else ()), "", report.summary(results)))
        )
    return 1 if any(result.findings for result in results) else 0


def main(args: Sequence[str]) -> int:
    command = arguments.parse(["selftest", *args])
    try:
        with interruptible():
            return run(command)
    except BadInput as error:
        for finding in error.findings:
            print(f"error: {finding}", file=sys.stderr)
        return 2
    except KindlingError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except Interrupted as interrupt:
        print("interrupted: all that it had started has ended, and nothing is left of it", file=sys.stderr)
        return interrupt.status


def run_and_exit() -> NoReturn:
    """Without the interpreter's own end, which may wait for a thread of the harness that nobody ends."""
    status: str | int | None = 1
    try:
        status = main(sys.argv[1:])
    except SystemExit as exit:
        status = exit.code
    except BaseException:  # noqa: BLE001  (what Python would print, with its exit status)
        traceback.print_exc()
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    run_and_exit()
