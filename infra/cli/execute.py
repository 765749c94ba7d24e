"""`exec`: a tool as the stack uses it, in place of this process.

Replacing the process gives the tool the terminal, the signals and the exit status as they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from infra.cli import machine as looking
from infra.cli import plain, scratch
from infra.cli import stack as stacks
from infra.cli.arguments import Command
from infra.drivers.engine import ContainerEngine
from infra.progress import Progress
from infra.settings import cluster_name
from infra.toolchain import Toolchain, venv

# What would write the passphrase's salt into the tracked settings file if it were not given the copy.
OPERATIONS = ("up", "update", "preview", "pre", "refresh", "destroy", "down", "dn", "import", "watch")


def run(command: Command) -> NoReturn:
    """Find or build the tool and become it."""
    looking.known(command.stack)
    toolchain = Toolchain(progress=Progress())
    program = toolchain.ensure(command.tool)
    environment = dict(os.environ)
    if command.tool == "pulumi":
        venv.ensure(progress=Progress())
        stacks.copy_settings(command.stack)
        environment |= stacks.environment(
            command.stack, toolchain=toolchain, tools=looking.tools(command.stack)
        )
        os.set_inheritable(scratch.enter(stacks.scratch_folder(command.stack)), True)
    elif command.tool == "kubectl":
        environment |= plain.kubeconfig(command.stack)
    elif command.tool == "kind":
        environment |= {
            **ContainerEngine.detect().environment(),
            "KIND_CLUSTER_NAME": cluster_name(command.stack),
        }
    _become(program, words(command.tool, command.rest, stack=command.stack), environment)


def words(tool: str, rest: Sequence[str], *, stack: str) -> list[str]:
    """The tool's arguments, with the stack's context or settings file where they name no other."""
    verb = next((word for word in rest if not word.startswith("-")), "")
    if tool == "pulumi" and verb in OPERATIONS and not any(w.startswith("--config-file") for w in rest):
        return [*rest, f"--config-file={stacks.settings_file(stack)}"]
    chosen = any(word.split("=")[0] in ("--context", "--kubeconfig") for word in _own_options(rest))
    if tool != "kubectl" or chosen:
        return list(rest)
    return [f"--context={plain.context(stack)}", *rest]


def _own_options(rest: Sequence[str]) -> Sequence[str]:
    """What stands before `--`: behind it are the words of a program in a Pod."""
    return rest[: rest.index("--")] if "--" in rest else rest


def _become(program: Path, arguments: list[str], environment: dict[str, str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(program, [str(program), *arguments], environment)  # noqa: S606  (no shell is the point)
