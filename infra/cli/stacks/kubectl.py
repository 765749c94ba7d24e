"""kubectl as a stack uses it: its context, its kubeconfig."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from infra import processes
from infra.drivers.cluster_context import IN_CLUSTER
from infra.settings import stack_files

CALL_SECONDS = 60.0


def arguments(stack: str, args: Sequence[str]) -> list[str]:
    """The arguments with the stack's context, where they name no other."""
    # Arguments after `--` belong to a program in a Pod.
    own = args[: args.index("--")] if "--" in args else args
    if any(arg.split("=")[0] in ("--context", "--kubeconfig") for arg in own):
        return list(args)
    context = stack_files.context(stack)
    # kubectl takes a Pod's service account by itself.
    return list(args) if context == IN_CLUSTER else [f"--context={context}", *args]


def call(
    stack: str, program: Path, *args: str, stdin: str | None = None, timeout: float = CALL_SECONDS
) -> str:
    """Run it and return standard output; raises `ProgramError`."""
    return processes.run(
        [program, *arguments(stack, args)],
        timeout=timeout,
        env=stack_files.kubeconfig(stack),
        stdin=stdin,
    )
