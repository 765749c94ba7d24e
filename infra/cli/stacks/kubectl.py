"""kubectl as a stack uses it: its context, its kubeconfig."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from infra import processes
from infra.drivers import cluster_context, in_cluster
from infra.drivers.cluster_context import IN_CLUSTER
from infra.settings import stack_files

CALL_SECONDS = 60.0


def arguments(stack: str, args: Sequence[str]) -> list[str]:
    """The arguments with the stack's context, where they name no other."""
    # Arguments after `--` belong to a program in a Pod.
    own = args[: args.index("--")] if "--" in args else args
    if any(arg.split("=")[0] in ("--context", "--kubeconfig") for arg in own):
        return list(args)
    return [f"--context={stack_files.context(stack)}", *args]


def environment(stack: str) -> dict[str, str]:
    """What it needs in its environment to find the stack's context."""
    if stack_files.context(stack) == IN_CLUSTER:
        return cluster_context.env_vars(str(in_cluster.kubeconfig_file()))
    return stack_files.kubeconfig(stack)


def call(
    stack: str, program: Path, *args: str, stdin: str | None = None, timeout: float = CALL_SECONDS
) -> str:
    """Run it and return standard output; raises `ProgramError`."""
    return processes.run(
        [program, *arguments(stack, args)],
        timeout=timeout,
        env=environment(stack),
        stdin=stdin,
    )
