"""Where a restore is to stop, which backup it has to begin with, and PostgreSQL's settings for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from postgres_backup import wal
from postgres_backup.engine import BackupSet
from postgres_backup.outcome import BACKUP_NOT_FOUND, INVALID_REQUEST, TARGET_TOO_EARLY, Failed, rfc3339

KINDS = ("time", "lsn", "xid", "name", "immediate")


@dataclass(frozen=True)
class Target:
    """`kind` is one of `KINDS`. An `exclusive` target stops just before what it names."""

    kind: str
    value: str
    exclusive: bool = False

    @staticmethod
    def read(given: Mapping[str, Any] | None) -> Target | None:
        """None is the end of what is archived.

        :raises Failed: for what is no target.
        """
        if given is None:
            return None
        named = [kind for kind in KINDS if given.get(kind) not in (None, False)]
        if len(named) != 1:
            raise Failed(INVALID_REQUEST, f"the target must have exactly one of {', '.join(KINDS)}")
        kind, value = named[0], str(given[named[0]])
        try:
            if kind == "time":
                when = datetime.fromisoformat(value.replace("Z", "+00:00"))
                if when.tzinfo is None:
                    raise ValueError
            elif kind == "lsn":
                wal.lsn(value)
            elif kind == "xid":
                int(value)
        except ValueError:
            remedy = {
                "time": "write it as 2026-11-24T07:00:00.5Z, with its zone",
                "lsn": "write it as 0/5000060",
            }.get(kind, "write it as a number")
            raise Failed(INVALID_REQUEST, f"the target's {kind} cannot be read: {remedy}") from None
        return Target(kind, value, bool(given.get("exclusive")))

    @property
    def when(self) -> datetime:
        return datetime.fromisoformat(self.value.replace("Z", "+00:00")).astimezone(UTC)

    def __str__(self) -> str:
        return "the end of the backup" if self.kind == "immediate" else f"the {self.kind} {self.value}"


def settings(target: Target | None) -> dict[str, str]:
    """PostgreSQL's settings: where to stop, and to take writes from there on."""
    if target is None:
        return {}
    if target.kind == "immediate":
        stop = {"recovery_target": "immediate"}
    elif target.kind == "time":
        stop = {"recovery_target_time": target.when.strftime("%Y-%m-%d %H:%M:%S.%f+00")}
    else:
        stop = {f"recovery_target_{target.kind}": target.value}
    return {
        **stop,
        "recovery_target_inclusive": "off" if target.exclusive else "on",
        "recovery_target_action": "promote",
    }


def choose(sets: Sequence[BackupSet], target: Target | None, *, label: str | None = None) -> BackupSet:
    """The backup to begin with: the newest that was complete before the target; `sets` are oldest first, and
    lead to the timeline that is recovered along.

    Nothing says when a transaction or a named point was, so those begin with the oldest, and replay more.
    Raises `Failed` when there is none.
    """
    if not sets:
        raise Failed(BACKUP_NOT_FOUND, "there is no backup at this place: let a Backup succeed first")
    if label is not None:
        for each in sets:
            if each.label == label:
                return each
        raise Failed(BACKUP_NOT_FOUND, f"there is no backup {label}; the newest is {sets[-1].label}")
    if target is None or target.kind == "immediate":
        return sets[-1]
    if target.kind in ("xid", "name"):
        return sets[0]
    if target.kind == "time":
        # Ends are known by the second: one within the target's second may be after it.
        moment = target.when.timestamp()
        fitting = [each for each in sets if each.stopped + 1 <= moment]
    else:
        fitting = [each for each in sets if each.end_lsn <= wal.lsn(target.value)]
    if fitting:
        return fitting[-1]
    first = sets[0]
    raise Failed(
        TARGET_TOO_EARLY,
        f"{target} is before the first moment that can be restored: ask for {rfc3339(first.stopped + 1)} "
        f"({wal.text(first.end_lsn)}) or later",
    )
