"""`refresh`: Pulumi's state brought in line with the actual resources."""

from __future__ import annotations

from infra import project
from infra.cli import prepare
from infra.cli.arguments import Command


def run(command: Command) -> int:
    """Needs no cluster and no engine, so it looks for neither."""
    project.require_stack(command.stack)
    prepare.existing_state(command.stack)
    target = prepare.ready_stack(command.stack)
    target.prepare()
    target.recover()
    target.operate("refresh", "--yes", "--skip-preview")
    return 0
