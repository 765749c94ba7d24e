"""Asking before something is disrupted."""

from __future__ import annotations

import sys

from kubectl_kindling.errors import FAILED, USAGE, PluginError


def confirm(question: str, *, yes: bool) -> None:
    """Raises `PluginError` unless somebody at a terminal says yes, or --yes did."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise PluginError(
            "this disrupts a server, and there is nobody to ask",
            why="standard input is no terminal",
            remedy="pass --yes.",
            status=USAGE,
        )
    sys.stdout.flush()
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise PluginError("nothing was changed", why="the answer was not yes", status=FAILED)
