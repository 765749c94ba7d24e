"""From arguments to a command, in the virtual environment that `launcher` has made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TextIO

from infra import progress
from infra.cli import arguments, exit_status, prepare
from infra.cli.arguments import Command
from infra.cli.commands import (
    checkout,
    destroy,
    dev,
    doctor,
    drift,
    exec_tool,
    handler,
    preview,
    promote,
    refresh,
    release,
    renew,
    run_tests,
    selftest,
    up,
)
from infra.progress import Display, Progress

COMMANDS: dict[str, Callable[[Command], int]] = {
    "up": up.run,
    "preview": preview.run,
    "drift": drift.run,
    "refresh": refresh.run,
    "destroy": destroy.run,
    "dev": dev.run,
    "handler": handler.run,
    "doctor": doctor.run,
    "exec": exec_tool.run,
    "promote": promote.run,
    "checkout": checkout.run,
    "release": release.run,
    "renew": renew.run,
    "selftest": selftest.run,
    "test": run_tests.run,
}


def main(args: Sequence[str]) -> int:
    """Run one command and return its exit status; `SystemExit` only for usage errors and `--help`."""
    progress.terminal = _drawn
    return exit_status.run(_run, arguments.parse(args))


def _drawn(reported: Progress, stream: TextIO) -> Display:
    # Imported where a terminal is drawn on: it takes 50 ms, and most runs draw nothing.
    from infra.cli import progress_tree

    return progress_tree.LiveTree(reported, stream)


def _run(command: Command) -> int:
    # Pulumi itself is what makes the state that it could be asked for.
    if command.tool != "pulumi":
        prepare.complete_config(command.stack)
        prepare.complete_config(command.source)
    return COMMANDS[command.name](command)
