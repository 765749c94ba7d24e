"""What a reconciliation writes of the children: what differs, until nothing does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from kindling.engine import apply, finalizers
from kindling.engine.changes import change
from kindling.engine.decisions import CHILDREN, Asking, of_plan
from kindling.engine.edits import Edit, edit, listed_paths
from kindling.engine.plan import Action, Apply, Create, Delete, Plan, Update, plan
from kindling.engine.resource_writer import Outdated, ResourceDeleted, ResourceWriter
from kindling.engine.warnings import rejection
from kindling.kinds.base import Child, Problem, SyncResult
from kindling.kinds.conditions import is_current, status_of
from kindling.kinds.planned import Disruption, of_change
from kindling.kube.errors import ApiError, Conflict, NotFound, Rejected
from kindling.kube.resources import SECRET, Object, Ref, ref_of, version_of

MAX_ROUNDS = 4
"""A child may need another's uid. More rounds than that takes mean that another writer reverts ours."""


@dataclass(kw_only=True)
class ChildWriter(ResourceWriter):
    """`_converge` writes the children that the kind desires, or for a deleted resource those that finish."""

    _watched: Mapping[Ref, Object] = field(default_factory=dict)
    """What of those the last decision was taken from."""
    _asked: Asking = field(init=False)
    """All that it was taken from."""

    async def _converge(self) -> tuple[Problem | None, Rejected | None]:
        """Write what differs until nothing does; returns the problem, and the rejection if that is it."""
        written: list[Action] = []
        accepted: list[Action] = []
        refusal: Rejected | None = None
        was_current = is_current(self.cr)
        check_existing = was_current
        asked: set[Ref] = set()
        for _ in range(MAX_ROUNDS):
            decided = await self._decide(check_existing=check_existing, asked=asked)
            if decided.problem is not None:
                return decided.problem, None
            self._learn_admission([action for action in decided.actions if action in accepted])
            actions = [action for action in decided.actions if self._is_due(action, written)]
            if not actions:
                break
            repairing = was_current and not written
            if not written:
                self._record(CHILDREN, of_plan(decided, self._objects), self._asked)
                await self._verify_current()
            for action in actions:
                written.append(action)
                repair = repairing and isinstance(action, Apply) and self._is_repair(action)
                edited = await self._edit(action) if repair and isinstance(action, Apply) else None
                try:
                    await self._act(action)
                except Conflict:
                    if check_existing or not isinstance(action, Apply) or not action.new:
                        raise
                    check_existing = True
                    asked.clear()  # it has been made since
                    written.remove(action)
                    break
                except Rejected as error:
                    refusal = refusal or error
                    if not isinstance(action, Apply) or action.new:
                        return rejection(refusal), refusal  # what comes after may need it
                else:
                    accepted.append(action)
                    if repair and isinstance(action, Apply):
                        self._report_repair(action, edited)
        else:
            self._log(logging.WARNING, f"children still differ after {MAX_ROUNDS} rounds")
        return (rejection(refusal), refusal) if refusal is not None else (None, None)

    def _is_due(self, action: Action, written: list[Action]) -> bool:
        known = self.dependencies.admission.is_known(self.key, action, self._objects)
        return action not in written and not known

    def _learn_admission(self, again: list[Action]) -> None:
        """What was accepted, and is due again: the cluster changes it on its way, as a webhook does."""
        for action in again:
            if not isinstance(action, Apply):
                continue
            paths = self.dependencies.admission.learn(self.key, action, self._objects)
            if paths:
                name = f"{action.type.kind} {action.body['metadata']['name']}"
                self._log(logging.WARNING, f"{name} was changed again after apply: {listed_paths(paths)}")
                self.dependencies.changed_by_admission(self.kind.type, self.cr, action, paths)

    def _report_repair(self, action: Apply, edited: Edit | None) -> None:
        """What was set back, if the cluster has let it be."""
        if edited is not None and edited.paths:
            left = change(action, self._objects).paths
            edited = edited._replace(paths=[path for path in edited.paths if path not in left])
            if not edited.paths:
                return
        self.dependencies.repaired(self.kind.type, self.cr, action, edited)

    def _is_repair(self, action: Apply) -> bool:
        """Not of a child whose time has only come: that was never there."""
        deleted = self.dependencies.store.was_deleted(ref_of(action.type, action.body))
        return action.drift or (action.new and deleted)

    async def _edit(self, action: Apply) -> Edit | None:
        """What another writer made of the child, while that is still to be seen; None if it was deleted.

        The cache is without the server's record of it, so it costs a read, and only where there is an edit.
        """
        if action.new:
            return None
        ref = ref_of(action.type, action.body)
        try:
            live = await self._live(ref)
        except ApiError:
            live = None
        found = edit(live or {"metadata": {}}, change(action, self._objects).paths)
        self.dependencies.recorder.record(
            self.key, "edited", {"message": f"{ref.type.kind} {ref.name}: {found}"}
        )
        self._log(logging.INFO, f"edited: {ref.type.kind} {ref.name}, {found}")
        return found

    async def _decide(self, *, check_existing: bool, asked: set[Ref] | None = None) -> Plan:
        """What to write. If `check_existing`, children that are not in the cache are read from the API
        first, but for those in `asked`, which have been and are added to it.

        That costs a new resource a request for each child, and the server rejects creating an existing name
        in any case. So it is done only if nothing may be created before all names are known to be free.
        """
        with self._step("decide children"):
            deleted = finalizers.is_deleted(self.cr)
            wanted = self._wanted(deleted=deleted)
            check_existing = check_existing or any(child.create_only for child in wanted)
            asked = set() if asked is None else asked
            while check_existing and await self._fetch_missing(wanted, asked):
                wanted = self._wanted(deleted=deleted)  # a volume says what is to be kept of it
            return plan(
                type=self.kind.type, cr=self.cr, desired=wanted, observed=self._objects, prune=not deleted
            )

    def _wanted(self, *, deleted: bool) -> list[Child]:
        observed = self._asked = self._observed()
        self._watched = observed.watched
        if deleted:
            return list(self.kind.finish(self.cr, observed).children)
        return self.kind.desired(self.cr, observed)

    async def _fetch_missing(self, wanted: list[Child], asked: set[Ref]) -> bool:
        """An object that is not in the cache may exist without our label: read it before writing.

        Returns whether any does. Each is read once: those in `asked`, which grows, have been.
        """
        refs = [child.ref for child in wanted if child.type != SECRET]
        missing = [ref for ref in refs if ref not in self._objects and ref not in asked]
        asked.update(missing)
        found = zip(missing, await asyncio.gather(*map(self._live, missing)), strict=True)
        existing = {ref: obj for ref, obj in found if obj is not None}
        self._objects.update(existing)
        return bool(existing)

    async def _verify_current(self) -> None:
        """Before the first write: read the resource again, and report a new spec in its status, if it has
        one.

        A watch that was cut may have missed its deletion, and then the children would be orphaned. And
        children have watches of their own: if those are ahead, the result of a newer spec looks like drift.
        """
        meta = self.cr["metadata"]
        live: Object | None = None
        if not is_current(self.cr) and status_of(self.cr) and not finalizers.is_deleted(self.cr):
            # The response is the resource as it is: no other request is needed.
            live = await self._report(self.kind.status(self.cr, self._observed(), SyncResult(in_sync=False)))
        live = live or await self._live(self._ref)
        if live is None:
            raise self._deleted()
        if live["metadata"]["uid"] != meta["uid"]:
            raise ResourceDeleted
        if finalizers.is_deleted(live) != finalizers.is_deleted(self.cr):
            if not finalizers.has_finalizer(self.kind, live):
                self.dependencies.store.upsert(self.kind.type, live)
                raise ResourceDeleted
            raise self._outdated(live, "it was deleted meanwhile")
        if live["metadata"].get("generation") != meta.get("generation"):
            raise self._outdated(live, "its spec has changed meanwhile")
        if status_of(live) != status_of(self.cr):
            # Ours is from before the last report: what was found and decided by then would be taken back, or
            # begun again.
            raise self._outdated(live, "its status has changed meanwhile")
        if outdated := await self._refresh_watched():
            raise Outdated(f"what it watches has changed meanwhile: {', '.join(map(str, outdated))}")

    async def _refresh_watched(self) -> list[Ref]:
        """Compare the watched objects that the children were decided from with those of the API server;
        returns those that differ, which the cache has by then.

        Not those that are watched in all namespaces: where they are, a list alone would show.
        """
        watched = self.kind.watched_objects(self.cr)
        refs = [Ref(type, namespace, name) for type, name, namespace in watched if namespace is not None]
        unread = [ref for ref in refs if ref not in self._read]
        live = dict(zip(unread, await asyncio.gather(*map(self._live, unread)), strict=True))
        outdated = []
        for ref in refs:
            found, known = live.get(ref, self._objects.get(ref)), self._watched.get(ref)
            if _version(found) == _version(known):
                continue
            outdated.append(ref)
            if found is not None:
                self.dependencies.store.upsert(ref.type, found)
            elif known is not None:
                self.dependencies.store.delete(ref.type, known)
        return outdated

    async def _act(self, action: Action) -> None:
        disruption = of_change(change(action, self._objects))
        if disruption != Disruption.NONE:
            self._log(logging.INFO, f"disruption of what follows: {disruption}")
        if isinstance(action, Delete):
            await self._delete(action)
            return
        if isinstance(action, Apply):
            verb, type = "create" if action.new else "apply", action.type
            written = await apply.apply_child(self.dependencies.api, action)
        elif isinstance(action, Create):
            verb, type = "create", action.type
            written = await self.dependencies.api.create(type, action.body)
        else:
            verb, type = "update" if isinstance(action, Update) else "restore", action.ref.type
            written = await self.dependencies.api.merge(action.ref, action.patch)
        self.dependencies.store.upsert(type, written)
        self._objects[ref_of(type, written)] = written
        self._log(logging.INFO, f"{verb} {type.kind} {written['metadata']['name']}")

    async def _delete(self, action: Delete) -> None:
        with contextlib.suppress(NotFound):
            await self.dependencies.api.delete(
                action.ref, uid=action.uid, resource_version=action.resource_version
            )
        deleted = self._objects.pop(action.ref)
        self.dependencies.store.delete(action.ref.type, deleted)
        self._log(logging.INFO, f"delete {action.ref.type.kind} {action.ref.name}")


def _version(obj: Object | None) -> int | None:
    return None if obj is None else version_of(obj)
