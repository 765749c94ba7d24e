"""Restore: the data of a Backup, or of a repository in a store, as it was at a moment, in a new Postgresql or
in one that is there; single databases of it, loaded into one that is there; or a copy of it, which is checked
and thrown away.

Done once, and never again.

`spec` reads the resource, `situation` what it meets, `decisions` are kept on record: first that it was begun,
then that the data is there, then that the Postgresql is made, which `new` says; `in_place` has those for one
that is there, and `loading` what is restored aside. The volume and the Postgresql belong to nobody: they
stay when this resource goes. `words` has what is said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kindling.kinds import reasons
from kindling.kinds.backup import claims, repository, results, runs
from kindling.kinds.backup.spec import references
from kindling.kinds.base import (
    Child,
    Done,
    Finish,
    Kind,
    Observed,
    Probe,
    Problem,
    RequeueAfter,
    Result,
    StatusReport,
    SyncResult,
    Terminal,
    WatchedObject,
)
from kindling.kinds.conditions import standard_conditions
from kindling.kinds.database_types import DATABASE_TYPES, GROUP
from kindling.kinds.metadata import child_metadata, secret_data
from kindling.kinds.postgresql import in_place as databases_in_place
from kindling.kinds.postgresql import spec as databases
from kindling.kinds.restore import (
    decisions,
    in_place,
    loading,
    new,
    progress,
    situation,
    spec,
    start_deadline,
    words,
)
from kindling.kinds.restore.decisions import (
    COMPLETED,
    GAVE_UP,
    RESTORED,
    RESTORING,
    STOPPING,
    UNDOING,
    UNDONE,
)
from kindling.kube.resources import (
    CONFIG_MAP,
    JOB,
    NETWORK_POLICY,
    POD,
    SECRET,
    VOLUME_CLAIM,
    Object,
    Ref,
    ResourceType,
)

REQUEST = "restore.json"


class Restore(Kind):
    """`image` is that of the run; with `pull_secrets` nodes pull it. The operator, which asks a run how far
    it is, runs in `operator_namespace`.
    """

    type = ResourceType(GROUP, "v1", "Restore", "restores")
    children = (SECRET, NETWORK_POLICY, CONFIG_MAP, VOLUME_CLAIM, JOB, POD, *DATABASE_TYPES)
    watches = (SECRET, VOLUME_CLAIM, situation.BACKUP, *DATABASE_TYPES)
    durable = decisions.DURABLE
    finalizer = in_place.FINALIZER

    def __init__(
        self,
        *,
        image: str,
        pull_secrets: Sequence[str] = (),
        operator_namespace: str = "kindling-system",
    ) -> None:
        self._image, self._pull_secrets = image, pull_secrets
        self._operator_namespace = operator_namespace

    def watched_objects(self, cr: Object) -> Sequence[WatchedObject]:
        read, namespace = spec.read(cr), cr["metadata"]["namespace"]
        database = [WatchedObject(read.database_type, read.database, namespace)]
        if read.of_store_alone:
            database = []  # one of that name need not have to do with the data
        if read.in_place:
            database.append(WatchedObject(SECRET, databases_in_place.secret_name(read.database), namespace))
        if read.repository is not None:
            names = dict.fromkeys(named.name for named in references(read.repository))
            claim = claims.ref(read.repository.store, namespace=namespace)
            database += [WatchedObject(VOLUME_CLAIM, claim.name, namespace)] if claim is not None else []
            return [*database, *(WatchedObject(SECRET, name, namespace) for name in names if name)]
        return [
            *database,
            WatchedObject(situation.BACKUP, read.backup, namespace),
            WatchedObject(SECRET, spec.files_secret(cr), namespace),
        ]

    def secrets(self, cr: Object) -> Sequence[str]:
        read = spec.read(cr)
        if read.repository is None:
            return ()
        names = [spec.files_secret(cr), *(named.name for named in references(read.repository))]
        return [name for name in dict.fromkeys(names) if name]

    def validate(self, cr: Object, observed: Observed) -> Problem | None:
        return spec.validate(cr)

    def durable_state(self, cr: Object, observed: Observed) -> Mapping[str, Any]:
        found = _situation(cr, observed)
        if found.spec.in_place and decisions.phase_of(cr) is not None:
            return in_place.decide(cr, observed, found)
        return decisions.decide(cr, observed, found)

    def must_finish(self, cr: Object) -> bool:
        return spec.read(cr).in_place and decisions.phase_of(cr) in in_place.AT_WORK

    def finish(self, cr: Object, observed: Observed) -> Finish:
        """Until the run is over, nothing of it goes: its server would start beside it. One that has not
        started is ended.
        """
        report = self.status(cr, observed, SyncResult(in_sync=True))
        if not in_place.is_at_work(cr, observed):
            return Finish(done=True, report=report)
        name, phase = in_place.run_name(cr) or "", decisions.phase_of(cr) or ""
        if start_deadline.has_started(name, observed):
            return Finish(done=False, report=report)
        children = [
            replace(child, update=start_deadline.ENDED)
            for child in self._in_place(cr, observed, spec.read(cr), phase)
            if child.ref.type == JOB and child.ref.name == name
        ]
        return Finish(done=False, report=report, children=children)

    def probes(self, cr: Object, observed: Observed) -> Mapping[str, Probe]:
        return progress.probes(cr, observed)

    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        read, phase = spec.read(cr), decisions.phase_of(cr)
        children = [
            progress.policy(
                self.type, cr, name=spec.own_name(cr), operator_namespace=self._operator_namespace
            )
        ]
        if phase is None:
            return children
        if read.in_place:
            return [*children, *self._in_place(cr, observed, read, phase)]
        if read.aside:
            run = self._aside(cr, observed, read, ended=phase != RESTORING)
            return [*children, *self._files(cr, observed), self._request(cr, read, observed), run]
        children += self._files(cr, observed)
        if phase == RESTORING:
            run = self._job(cr, read, observed)
            children += [self._request(cr, read, observed), new.claim(cr, read), run]
            return children
        children += [self._request(cr, read, observed), self._job(cr, read, observed, ended=True)]
        if phase == RESTORED:
            children.append(new.database(cr, read))
        return children

    def _in_place(self, cr: Object, observed: Observed, read: spec.Spec, phase: str) -> list[Child]:
        """The Secret by which the server stops, then the run, and one more if it is undone."""
        children = [in_place.secret(self.type, cr, database=read.database)]
        status = cr.get("status") or {}
        if phase == STOPPING or (phase == GAVE_UP and not results.jobs(cr, observed)):
            return children
        found = observed.watched.get(Ref(read.database_type, cr["metadata"]["namespace"], read.database))
        resources = databases.resources_of(found or {})
        children.append(self._request(cr, read, observed))
        children.append(self._job(cr, read, observed, ended=phase != RESTORING, resources=resources))
        if status.get("undoStartedAt"):
            name = in_place.undo_name(cr)
            ended = phase != UNDOING or bool(status.get("undoStoppedAt"))
            children.append(
                self._run(cr, read, observed, action=runs.UNDO, name=name, resources=runs.SMALL, ended=ended)
            )
        return children

    def status(self, cr: Object, observed: Observed, sync: SyncResult) -> StatusReport:
        found = _situation(cr, observed)
        ready, problem = words.judged(cr, observed, sync, found)
        generation, phase = int(cr["metadata"].get("generation", 0)), decisions.phase_of(cr)
        conditions = standard_conditions(
            ready=ready,
            available=phase in (RESTORED, COMPLETED, UNDONE),
            broken=not ready and not problem.transient,
            reason=problem.reason,
            message=problem.message,
            serving="The data can be restored." if found.spec.proves else "The data is restored.",
            generation=generation,
        )
        status = {"observedGeneration": generation, "conditions": conditions}
        if (at := progress.report(cr, observed)) is not None:
            status["progress"] = at
        return StatusReport(status=status, result=_result(cr, observed, sync, phase))

    def _files(self, cr: Object, observed: Observed) -> list[Child]:
        """What opens the repository: emptied once no run needs it, and left as it is while a Secret of the
        user is gone.
        """
        found, name = _situation(cr, observed), spec.files_secret(cr)
        present = Ref(SECRET, cr["metadata"]["namespace"], name) in observed.objects
        running = decisions.phase_of(cr) == RESTORING
        if found.spec.repository is None or not (present or (running and found.repository is not None)):
            return []
        body: Object = {"metadata": child_metadata(self.type, cr, name=name), "type": "Opaque"}
        if running and found.repository is not None:
            body["data"] = secret_data(repository.reading_files(found.repository))
        return [Child(type=SECRET, body=body, frozen=running and found.repository is None)]

    def _request(self, cr: Object, read: spec.Spec, observed: Observed) -> Child:
        source = (cr.get("status") or {}).get("source") or {}
        request = {
            "target": read.target,
            "set": None,
            "settings": source.get("settings") or {},
            "timeline": read.timeline or source.get("timeline"),
            **({"inPlace": True, "uid": cr["metadata"]["uid"]} if read.in_place else {}),
            **(loading.request(cr, read, observed) if read.aside else {}),
        }
        data = {REQUEST: json.dumps(request, sort_keys=True)}
        body = {"metadata": child_metadata(self.type, cr, name=spec.own_name(cr)), "data": data}
        return Child(type=CONFIG_MAP, body=body)

    def _job(
        self,
        cr: Object,
        read: spec.Spec,
        observed: Observed,
        *,
        ended: bool = False,
        resources: Object | None = None,
    ) -> Child:
        return self._run(
            cr,
            read,
            observed,
            action=runs.RESTORE,
            name=decisions.job_name(cr, decisions.attempt_of(cr)),
            resources=resources or databases.resources_of({"spec": read.postgresql}),
            ended=ended,
        )

    def _aside(self, cr: Object, observed: Observed, read: spec.Spec, *, ended: bool) -> Child:
        data, resources = loading.scratch(cr, read, observed)
        return self._run(
            cr,
            read,
            observed,
            action=runs.LOAD if read.loads else runs.VERIFY,
            name=decisions.job_name(cr, decisions.attempt_of(cr)),
            resources=resources,
            ended=ended,
            data=data,
            target=loading.volume(cr, read, observed) if read.loads else None,
        )

    def _run(
        self,
        cr: Object,
        read: spec.Spec,
        observed: Observed,
        *,
        action: str,
        name: str,
        resources: Object,
        ended: bool,
        data: Object | None = None,
        target: Object | None = None,
    ) -> Child:
        template = runs.template(
            self.type,
            cr,
            action=action,
            image=self._image,
            pull_secrets=self._pull_secrets,
            config=spec.own_name(cr),
            secret=None if action == runs.UNDO else spec.files_secret(cr),
            request=REQUEST,
            data=data or {"persistentVolumeClaim": {"claimName": f"{read.database}-data"}},
            target=target,
            store=None if action == runs.UNDO else situation.mount(cr, read, observed),
            resources=resources,
        )
        over = read.in_place and name == in_place.run_name(cr) and start_deadline.is_over(cr)
        update = start_deadline.ENDED if over else None
        return runs.job(
            self.type, cr, action=action, name=name, template=template, ended=ended, update=update
        )


def _situation(cr: Object, observed: Observed) -> situation.Situation:
    found = situation.read(cr, observed)
    if found.problem is not None or decisions.phase_of(cr) is not None:
        return found
    if found.spec.in_place:
        return replace(found, problem=in_place.problem(cr, found, observed))
    if found.spec.loads:
        return replace(found, problem=loading.problem(found, namespace=cr["metadata"]["namespace"]))
    return found


def _result(cr: Object, observed: Observed, sync: SyncResult, phase: str | None) -> Result:
    if sync.problem is not None and sync.problem.reason == reasons.INVALID_SPEC:
        return Terminal(sync.problem.reason)
    if sync.problem is not None:
        return sync.problem.retry
    if phase == GAVE_UP:
        failure = (cr.get("status") or {}).get("failure") or {}
        return Terminal(str(failure.get("reason") or reasons.RUN_FAILED))
    if phase in (COMPLETED, UNDONE):
        return Done()
    # A server's stop and start and the end of an attempt are events; the beginning of the next has a time.
    waits = phase == RESTORING and decisions.has_failed(cr)
    return RequeueAfter(min(30.0, max(0.5, decisions.wait(cr, observed))) if waits else 30.0)
