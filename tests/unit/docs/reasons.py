"""The reasons that a condition can have, as the operator's catalogue has them."""

from __future__ import annotations

from kindling.kinds.reasons import CATALOGUE


def reasons() -> set[str]:
    """All of them, by the names that users see."""
    return set(CATALOGUE)
