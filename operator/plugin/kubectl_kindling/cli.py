"""How a command starts and ends: the only place that prints errors and decides on the exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence

from kubectl_kindling import table
from kubectl_kindling.arguments import Command, parse
from kubectl_kindling.commands import (
    approve,
    backup,
    dead_letters,
    logs,
    plan,
    psql,
    replay,
    report,
    restore,
    rotate,
    server,
    status,
    version,
)
from kubectl_kindling.errors import INTERRUPTED, PluginError
from kubectl_kindling.kubectl import Kubectl

COMMANDS: Mapping[str, Callable[[Command, Kubectl], int]] = {
    "status": status.run,
    "logs": logs.run,
    "plan": plan.run,
    "psql": psql.run,
    "restart": server.restart,
    "hibernate": server.hibernate,
    "wake": server.wake,
    "rotate": rotate.run,
    "approve": approve.run,
    "backup": backup.run,
    "drill": backup.drill,
    "restore": restore.restore,
    "undo": restore.undo,
    "dead-letters": dead_letters.show,
    "redrive": dead_letters.redrive,
    "replay": replay.run,
    "report": report.run,
    "version": version.run,
}


def run(args: Sequence[str]) -> int:
    """Carry out what was typed; returns the exit status. Raises `SystemExit` as argparse does."""
    command = parse(args)
    try:
        ended = COMMANDS[command.name](command, Kubectl(command.options))
        sys.stdout.flush()
        return ended
    except PluginError as error:
        sys.stdout.flush()
        sys.stderr.write("\n".join(error_lines(error)) + "\n")
        return error.status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read this has read enough, as `head` does; Python would complain at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED


def error_lines(error: PluginError) -> list[str]:
    """What happened, why and what to do, each wrapped."""
    lines = table.wrapped(f"error: {error.what}", indent="       ", first="")
    if error.why:
        lines += table.wrapped(f"why: {error.why}", indent="       ", first="  ")
    if error.remedy:
        lines += table.wrapped(f"remedy: {error.remedy}", indent="       ", first="  ")
    return lines
