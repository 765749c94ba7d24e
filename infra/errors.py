"""The one exception that users are meant to see.

It is apart from `processes` and the drivers because every layer raises it and only the command
line prints it: three sentences that say what happened, why, and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence


class KindlingError(Exception):
    """A failure that a person can act on.

    `what` names the thing and the value, `why` the cause (a tool's own message where there is one),
    `remedy` the next step. Printed without a traceback; a traceback means a bug of ours.
    """

    def __init__(self, what: str, *, why: str = "", remedy: str = "") -> None:
        self.what = what
        self.why = why
        self.remedy = remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        lines = [self.what]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.remedy:
            lines.append(f"  remedy: {self.remedy}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # Pulumi's dynamic provider process may pickle what it raises; keyword-only
        # arguments need help for that.
        return (_rebuild, (self.what, self.why, self.remedy))


def _rebuild(what: str, why: str, remedy: str) -> KindlingError:
    return KindlingError(what, why=why, remedy=remedy)


def listed(items: Sequence[object], *, most: int) -> str:
    """The first of them in a row, and how many more there are."""
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(map(str, items[:most])) + more
