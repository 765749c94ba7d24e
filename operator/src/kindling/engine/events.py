"""Kubernetes Events on what a user would ask about: became ready, stopped, went wrong, shows a password.

Ours rather than kopf's, which posts one per log line. Derived from the change of status, so that
there are never more Events than changes; named by what they say, so that a restart repeats none.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

from kindling.engine.edits import Edit, listed_paths
from kindling.engine.plan import Apply
from kindling.kinds import reasons
from kindling.kinds.base import Notice
from kindling.kinds.conditions import POSITIVE, find_condition
from kindling.kinds.planned import Path
from kindling.kube.errors import ApiError, Conflict
from kindling.kube.resources import EVENT, Object, ResourceType

log = logging.getLogger(__name__)

WAITING = 1000
AT_ONCE = 2
"""Events that are being posted: one by one, those of a thousand resources would last come minutes late."""
REPAIR_SECONDS = 600
INCIDENTS = 10_000
"""As many as are remembered: of a node that failed, all containers."""
COMPONENT = "kindling.dev/operator"
# What is usual, or says what another condition says in the same words.
NOT_RECORDED = frozenset({"Available", "Progressing", "Healthy", "RestartPending", "Stalled"})


class Creator(Protocol):
    async def create(self, type: ResourceType, body: Object) -> Object: ...


def changed_conditions(before: Object, after: Object) -> list[Object]:
    """The conditions of `after` that a user should hear of: Ready or a fault or flag that came up, and Ready
    where the server has been stopped, by the clock say.
    """
    found = []
    for item in after.get("conditions") or ():
        old = find_condition(before, item["type"])
        changed = (old.get("status"), old.get("reason")) != (item["status"], item["reason"])
        stopped = item["type"] == "Ready" and item["reason"] == reasons.HIBERNATED
        if changed and (item["status"] == "True" or stopped) and item["type"] not in NOT_RECORDED:
            found.append(item)
    return found


def event_for(type: ResourceType, cr: Object, item: Object, *, instance: str, now: datetime) -> Object:
    """The Event for a condition."""
    identity = (str(item["observedGeneration"]), item["type"], item["reason"], item["message"])
    kind = "Normal" if item["type"] in POSITIVE else "Warning"
    return _event(
        type,
        cr,
        kind=kind,
        reason=item["reason"],
        note=item["message"],
        identity=identity,
        instance=instance,
        now=now,
    )


def repair_for(
    type: ResourceType, cr: Object, action: Apply, edit: Edit | None, *, instance: str, now: datetime
) -> Object:
    """The Event for a child that was set back; one per child and window, however long a fight lasts."""
    name = action.body["metadata"]["name"]
    done = "edited by another writer; it was set back"
    if action.new:
        done = "deleted; it was created again"
    elif edit is not None and edit.paths:
        done = f"edited: {edit}; it was set back"
    identity = (reasons.REPAIRED, action.type.group_kind, name, str(int(now.timestamp() // REPAIR_SECONDS)))
    note = f"{action.type.kind} {name} was {done}."
    return _event(
        type,
        cr,
        kind="Normal",
        reason=reasons.REPAIRED,
        note=note,
        identity=identity,
        instance=instance,
        now=now,
    )


def changed_by_admission_for(
    type: ResourceType, cr: Object, action: Apply, paths: Sequence[Path], *, instance: str, now: datetime
) -> Object:
    """The Event for a child that the cluster changes as it is written; one for each set of fields."""
    name, said = action.body["metadata"]["name"], listed_paths(paths)
    return _event(
        type,
        cr,
        kind="Normal",
        reason=reasons.CHANGED_BY_ADMISSION,
        note=f"{action.type.kind} {name} is changed as it is written, by an admission webhook or policy of "
        f"the cluster: {said}. It is left so; exempt it from that policy if it should not be.",
        identity=(reasons.CHANGED_BY_ADMISSION, action.type.group_kind, name, said),
        instance=instance,
        now=now,
    )


def notice_for(
    type: ResourceType, cr: Object, found: Notice, *, incident: bool, instance: str, now: datetime
) -> Object:
    """The Event for an action that has ended, each time; or for an `incident`, one for each note."""
    return _event(
        type,
        cr,
        kind="Warning" if incident else "Normal",
        reason=found.reason,
        note=found.note,
        identity=found if incident else (*found, now.isoformat()),
        instance=instance,
        now=now,
    )


def _event(
    type: ResourceType,
    cr: Object,
    *,
    kind: str,
    reason: str,
    note: str,
    identity: tuple[str, ...],
    instance: str,
    now: datetime,
) -> Object:
    """`identity` is what makes it the same Event as another."""
    meta = cr["metadata"]
    digest = hashlib.sha256("|".join((meta["uid"], *identity)).encode()).hexdigest()[:16]
    return {
        "metadata": {
            "namespace": meta["namespace"],
            "name": f"{meta['name']}.{digest}",
        },
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "type": kind,
        "reason": reason,
        "note": note[:1024],
        "action": "Reconcile",
        "reportingController": COMPONENT,
        "reportingInstance": instance,
        "regarding": {
            "apiVersion": type.api_version,
            "kind": type.kind,
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
        },
    }


class EventRecorder:
    """What happened never waits; `run` posts in the background, and drops what the server rejects."""

    def __init__(
        self,
        *,
        api: Creator,
        instance: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api = api
        self._instance = instance
        self._clock = clock
        self._waiting: asyncio.Queue[Object] = asyncio.Queue(WAITING)
        self._incidents: OrderedDict[str, None] = OrderedDict()

    def status_changed(self, type: ResourceType, cr: Object, before: Object, after: Object) -> None:
        for item in changed_conditions(before, after):
            self._post(event_for(type, cr, item, instance=self._instance, now=self._clock()))

    def repaired(self, type: ResourceType, cr: Object, action: Apply, edit: Edit | None) -> None:
        self._post(repair_for(type, cr, action, edit, instance=self._instance, now=self._clock()))

    def changed_by_admission(
        self, type: ResourceType, cr: Object, action: Apply, paths: Sequence[Path]
    ) -> None:
        self._post(
            changed_by_admission_for(type, cr, action, paths, instance=self._instance, now=self._clock())
        )

    def acted(self, type: ResourceType, cr: Object, found: Notice) -> None:
        self._post(notice_for(type, cr, found, incident=False, instance=self._instance, now=self._clock()))

    def incident(self, type: ResourceType, cr: Object, found: Notice) -> None:
        """Post it if it is new to this process; the server knows those of the one before by their names."""
        event = notice_for(type, cr, found, incident=True, instance=self._instance, now=self._clock())
        name = f"{event['metadata']['namespace']}/{event['metadata']['name']}"
        if name in self._incidents or not self._post(event):
            return
        self._incidents[name] = None
        if len(self._incidents) > INCIDENTS:
            self._incidents.popitem(last=False)

    def _post(self, event: Object) -> bool:
        """Whether it waits to be posted; of what is dropped, the status and the log say it too."""
        with contextlib.suppress(asyncio.QueueFull):
            self._waiting.put_nowait(event)
            return True
        return False

    async def run(self) -> None:
        await asyncio.gather(*(self._post_waiting() for _ in range(AT_ONCE)))

    async def _post_waiting(self) -> None:
        while True:
            event = await self._waiting.get()
            try:
                await self._api.create(EVENT, event)
            except Conflict:
                pass  # said before
            except ApiError as error:
                log.info(f"Event {event['reason']} not posted: {error}")
