"""What others say of a resource's children: the API server in its answers, controllers in their Events.

Of an object its newest Warning Event, where a status needs it. Listed live and never watched: Events are
many, and of nearly all of them nobody needs to know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kindling.kinds import reasons
from kindling.kinds.base import Problem, WarningEvent
from kindling.kube.errors import ApiError, Rejected, ServerError
from kindling.kube.resources import Object, Ref


class EventReader(Protocol):
    async def warnings(self, ref: Ref, *, uid: str) -> list[Object]: ...


def rejection(error: Rejected) -> Problem:
    return Problem(reason=reasons.APPLY_REJECTED, message=f"{error.message}; it is retried.")


def server_failure(error: ApiError) -> Problem | None:
    """The problem, if the server failed, which may last: a range of addresses is full, say."""
    if not isinstance(error, ServerError):
        return None
    message = f"The API server fails: {error.message}; it is retried."
    return Problem(reason=reasons.SERVER_ERROR, message=message, transient=True)


async def newest_warnings(api: EventReader, wanted: Mapping[Ref, str]) -> dict[Ref, WarningEvent]:
    """What was said last of each of these objects, given with their uids, where anything was said.

    :raises ApiError: when the Events cannot be read.
    """
    found = {}
    for ref, uid in wanted.items():
        if (warning := newest(await api.warnings(ref, uid=uid))) is not None:
            found[ref] = warning
    return found


def newest(events: Sequence[Object]) -> WarningEvent | None:
    """By the time of its last occurrence, in whichever field its reporter wrote that."""
    found = [
        WarningEvent(str(event.get("reason") or ""), str(event.get("note") or ""), _last(event))
        for event in events
    ]
    return max(found, key=lambda one: one.at, default=None)


def _last(event: Object) -> str:
    series = event.get("series") or {}
    made = (event.get("metadata") or {}).get("creationTimestamp")
    last = series.get("lastObservedTime") or event.get("deprecatedLastTimestamp") or event.get("eventTime")
    return str(last or made or "")
