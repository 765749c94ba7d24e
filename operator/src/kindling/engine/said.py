"""What others say of a resource's children: the API server in its answers, controllers in their Events.

Of an object its newest Warning Event, where a status needs it. Listed live and never watched: Events are
many, and of nearly all of them nobody needs to know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kindling.kinds.contract import Problem, Said
from kindling.kube.errors import ApiError, Refused, ServerError
from kindling.kube.resources import Object, Ref


class Events(Protocol):
    async def warnings(self, ref: Ref, *, uid: str) -> list[Object]: ...


def refused(error: Refused) -> Problem:
    return Problem(reason="Refused", message=f"{error.message}; it is tried again.")


def failing(error: ApiError) -> Problem | None:
    """Where the server answered that it can not, which may well be for good: a range that is full, say."""
    if not isinstance(error, ServerError):
        return None
    message = f"The API server fails: {error.message}; it is tried again."
    return Problem(reason="ServerError", message=message, passing=True)


async def last_said(api: Events, refs: Sequence[Ref], known: Mapping[Ref, Object]) -> dict[Ref, Said]:
    """What was said last of each of these objects, where they are known and anything was said.

    :raises ApiError: when the server does not tell.
    """
    found = {}
    for ref in refs:
        uid = known[ref]["metadata"].get("uid") if ref in known else None
        said = newest(await api.warnings(ref, uid=uid)) if uid else None
        if said is not None:
            found[ref] = said
    return found


def newest(events: Sequence[Object]) -> Said | None:
    """By the time at which it was said last, wherever its author has put that."""
    said = [
        Said(str(event.get("reason") or ""), str(event.get("note") or ""), _last(event)) for event in events
    ]
    return max(said, key=lambda one: one.at, default=None)


def _last(event: Object) -> str:
    series = event.get("series") or {}
    made = (event.get("metadata") or {}).get("creationTimestamp")
    last = series.get("lastObservedTime") or event.get("deprecatedLastTimestamp") or event.get("eventTime")
    return str(last or made or "")
