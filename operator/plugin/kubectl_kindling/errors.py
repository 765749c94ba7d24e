"""Exit statuses, and the one exception that users are meant to see."""

from __future__ import annotations

FINE = 0
NOT_READY = 1
"""What was asked for is known, and it is not well: a resource that is not Ready."""
USAGE = 2
FAILED = 3
"""It could not be done: no cluster, no right, no such resource."""
INTERRUPTED = 130


class PluginError(Exception):
    """A failure that a person can act on: what it is, why, and the next step; `status` to exit with."""

    def __init__(self, what: str, *, why: str = "", remedy: str = "", status: int = FAILED) -> None:
        self.what, self.why, self.remedy, self.status = what, why, remedy, status
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [self.what]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.remedy:
            lines.append(f"  remedy: {self.remedy}")
        return "\n".join(lines)
