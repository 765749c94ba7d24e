"""`exec`: a tool as the stack uses it, in place of this process.

Replacing the process gives the tool the terminal, the signals and the exit status as they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from infra import project
from infra.bootstrap import Toolchain
from infra.cli.arguments import Command
from infra.cli.stacks import kubectl, profile, pulumi_stack, tempdir
from infra.drivers.engine import ContainerEngine
from infra.progress import Progress
from infra.project import cluster_name

# What would write the passphrase's salt into the tracked settings file if it were not given the copy.
OPERATIONS = ("up", "update", "preview", "pre", "refresh", "destroy", "down", "dn", "import", "watch")


def run(command: Command) -> NoReturn:
    """Find or build the tool and become it."""
    project.require_stack(command.stack)
    toolchain = Toolchain(progress=Progress())
    program = toolchain.ensure(command.tool)
    environment = dict(os.environ)
    if command.tool == "pulumi":
        pulumi_stack.copy_settings(command.stack)
        environment |= pulumi_stack.env_vars(
            command.stack, toolchain=toolchain, tools=profile.of(command.stack).tools
        )
        os.set_inheritable(tempdir.enter(pulumi_stack.scratch_folder(command.stack)), True)
    elif command.tool == "kubectl":
        environment |= kubectl.environment(command.stack)
    elif command.tool == "kind":
        environment |= {
            **ContainerEngine.detect().env_vars(),
            "KIND_CLUSTER_NAME": cluster_name(command.stack),
        }
    _become(program, tool_args(command.tool, command.rest, stack=command.stack), environment)


def tool_args(tool: str, rest: Sequence[str], *, stack: str) -> list[str]:
    """The tool's arguments, with the stack's context or settings file where they name no other."""
    verb = next((word for word in rest if not word.startswith("-")), "")
    if tool == "pulumi" and verb in OPERATIONS and not any(w.startswith("--config-file") for w in rest):
        return [*rest, f"--config-file={pulumi_stack.settings_file(stack)}"]
    return kubectl.arguments(stack, rest) if tool == "kubectl" else list(rest)


def _become(program: Path, arguments: list[str], environment: dict[str, str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(program, [str(program), *arguments], environment)  # noqa: S606  (no shell is the point)
