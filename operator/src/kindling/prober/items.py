"""What is known of roles and databases on a server, and what is said of each.

The note is a comment on a role, a database or a schema, which only its owner or a superuser can set. It goes
with the data, so it outlives a resource; it names the server's system identifier, so a dump that is restored
elsewhere makes nothing the operator's.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg

from kindling.kinds import reasons
from kindling.kinds.postgresql.objects import LONGEST_MESSAGE
from kindling.kinds.postgresql.spec import PAUSED, resumed
from kindling.prober.parameters import DISK_FULL
from kindling.prober.sessions import Session, execute, hint, literal, summary

NOTE = "kindling.dev/managed "
"""How the comment of what the operator made begins; after it comes an object of JSON."""
BUDGET_SECONDS, BUDGET_CPU_SECONDS = 8.0, 1.5
"""Of a job, after which the rest is left to the next one; a worker is killed after far more."""
_SECRET = "SCRAM-SHA-256$"


@dataclass(frozen=True, kw_only=True)
class State:
    """What the server has, of what is asked for; `powerful` are groups that nobody is to be a member of."""

    identifier: str
    roles: Mapping[str, Mapping[str, Any]]
    databases: Mapping[str, Mapping[str, Any]]
    powerful: frozenset[str]

    def note(self, comment: object) -> dict[str, Any] | None:
        """What the operator noted on an object of this server; None: it has not made it."""
        text = comment if isinstance(comment, str) else ""
        if not text.startswith(NOTE):
            return None
        try:
            found = json.loads(text.removeprefix(NOTE))
        except ValueError:
            return None
        ours = isinstance(found, dict) and found.get("server") == self.identifier
        return found if ours else None

    def noted(self, **values: object) -> str:
        """The comment as a literal."""
        return literal(NOTE + json.dumps({"server": self.identifier, **values}, sort_keys=True))


class _Differs(Exception):
    """It would have to be changed, and nothing is to be changed."""


class _OutOfTime(Exception):
    """The rest is left to the next job."""


@dataclass
class Items:
    """A job's session, and reason and message of each item that is not as wanted, by its name."""

    session: Session
    state: State
    apply: bool
    paused_by: str = PAUSED
    roles: dict[str, tuple[str, str]] = field(default_factory=dict)
    databases: dict[str, tuple[str, str]] = field(default_factory=dict)
    extensions: dict[str, dict[str, str]] = field(default_factory=dict)
    progress: bool = False
    began: float = field(default_factory=time.monotonic)
    cpu_began: float = field(default_factory=time.process_time)

    def execute(self, statement: str, session: Session | None = None, *, goes_on: bool = False) -> None:
        """One round trip; several statements in it are one transaction.

        `goes_on`: what was begun is worth nothing without it, so that it is done whatever the time.
        """
        if not self.apply:
            raise _Differs
        if not goes_on:
            self.check_time()
        self.progress = True
        execute(session or self.session, statement)

    def check_time(self) -> None:
        """In an item: leave it to the next job where the time of this one is over, but for its first."""
        spent = time.monotonic() - self.began, time.process_time() - self.cpu_began
        if self.progress and (spent[0] > BUDGET_SECONDS or spent[1] > BUDGET_CPU_SECONDS):
            raise _OutOfTime

    def item(self, of: dict[str, tuple[str, str]], name: str) -> _Item:
        """A context: what it raises is said of the item, and the next one has its turn.

        What is no fault of the item comes out of it: a broken connection, a full disk.
        """
        return _Item(self, of, name)

    def conflict(self, what: str, name: str, quoted: str) -> tuple[str, str]:
        message = (
            f"the {what} exists, and the operator has not made it, so it is left as it is: use another name, "
            f"or hand it over with COMMENT ON {what.upper()} {quoted} IS {self.state.noted()}"
        )
        return reasons.NAME_CONFLICT, message


class _Item:
    def __init__(self, items: Items, of: dict[str, tuple[str, str]], name: str) -> None:
        self._items, self._of, self._name = items, of, name

    def __enter__(self) -> _Item:
        return self

    def says(self, reason: str, message: str) -> None:
        self._of[self._name] = reason, _clean(message)

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> bool:
        if isinstance(error, _Differs):
            field = self._items.paused_by
            self.says(reasons.PAUSED, f"it differs, and {field} keeps it so: {resumed(field)}")
        elif isinstance(error, _OutOfTime):
            self.says(reasons.RECONCILING, "its turn comes next; wait")
        elif isinstance(error, psycopg.Error) and error.sqlstate not in (None, DISK_FULL):
            blocked = error.sqlstate in (_IN_USE, _DEPENDENT)
            self.says(reasons.DROP_BLOCKED if blocked else reasons.STATEMENT_REJECTED, _words(error))
        else:
            return False
        return True


_IN_USE, _DEPENDENT = "55006", "2BP01"


def _words(error: psycopg.Error) -> str:
    """PostgreSQL's own, with what it names: the objects that a role owns, say."""
    more = [" ".join((error.diag.message_detail or "").split()), hint(error)]
    advice = "; ".join(text.rstrip(".") for text in more if text)
    return f"{summary(error)} ({advice})" if advice else summary(error)


def _clean(message: str) -> str:
    """A server may say anything, even repeat what it was sent."""
    return ("(not shown)" if _SECRET in message else message)[:LONGEST_MESSAGE]
