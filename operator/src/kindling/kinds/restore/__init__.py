"""Restore: the data of a Backup, or of a repository in a store, as it was at a moment, in a new Postgresql.

Done once, and never again.

`spec` reads the resource, `situation` what it meets, `decisions` are kept on record: first that it was begun,
then that the data is there, then that the Postgresql is made. The volume and the Postgresql belong to nobody:
they stay when this resource goes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kindling.kinds import pods, reasons
from kindling.kinds.backup import repository, results, runs
from kindling.kinds.backup.spec import DATABASE_TYPES, GROUP, references
from kindling.kinds.base import (
    Child,
    Done,
    Kind,
    Observed,
    Problem,
    RequeueAfter,
    Result,
    StatusReport,
    SyncResult,
    Terminal,
    WatchedObject,
)
from kindling.kinds.conditions import standard_conditions
from kindling.kinds.metadata import MADE_BY, child_metadata, secret_data
from kindling.kinds.network import policy
from kindling.kinds.postgresql import spec as databases
from kindling.kinds.postgresql import version, volume
from kindling.kinds.restore import decisions, situation, spec
from kindling.kinds.restore.decisions import COMPLETED, GAVE_UP, RESTORED, RESTORING
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
_EPOCH = datetime.fromtimestamp(0, UTC)
"""No moment is a matter here."""


class Restore(Kind):
    """`image` is that of the run; with `pull_secrets` nodes pull it."""

    type = ResourceType(GROUP, "v1", "Restore", "restores")
    children = (SECRET, NETWORK_POLICY, CONFIG_MAP, VOLUME_CLAIM, JOB, POD, *DATABASE_TYPES)
    watches = (SECRET, situation.BACKUP, *DATABASE_TYPES)
    durable = decisions.DURABLE

    def __init__(self, *, image: str, pull_secrets: Sequence[str] = ()) -> None:
        self._image, self._pull_secrets = image, pull_secrets

    def watched_objects(self, cr: Object) -> Sequence[WatchedObject]:
        read, namespace = spec.read(cr), cr["metadata"]["namespace"]
        database = WatchedObject(read.database_type, read.database, namespace)
        if read.repository is not None:
            names = dict.fromkeys(named.name for named in references(read.repository))
            return [database, *(WatchedObject(SECRET, name, namespace) for name in names if name)]
        return [
            database,
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
        return decisions.decide(cr, observed, situation.read(cr, observed))

    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        read, phase = spec.read(cr), decisions.phase_of(cr)
        children = [policy(self.type, cr, name=spec.own_name(cr), allow_egress=True)]
        if phase is None:
            return children
        children += self._files(cr, observed)
        if phase == RESTORING:
            children += [self._request(cr, read), self._claim(cr, read), self._job(cr, read)]
            return children
        children += [self._request(cr, read), self._job(cr, read, ended=True)]
        if phase == RESTORED:
            children.append(self._database(cr, read))
        return children

    def status(self, cr: Object, observed: Observed, sync: SyncResult) -> StatusReport:
        found = situation.read(cr, observed)
        ready, problem = self._judged(cr, observed, sync, found)
        generation, phase = int(cr["metadata"].get("generation", 0)), decisions.phase_of(cr)
        conditions = standard_conditions(
            ready=ready,
            available=phase in (RESTORED, COMPLETED),
            broken=not ready and not problem.transient,
            reason=problem.reason,
            message=problem.message,
            serving="The data is restored.",
            generation=generation,
        )
        status = {"observedGeneration": generation, "conditions": conditions}
        return StatusReport(status=status, result=_result(cr, observed, sync, phase))

    def _judged(
        self, cr: Object, observed: Observed, sync: SyncResult, found: situation.Situation
    ) -> tuple[bool, Problem]:
        """Whether it is done, and what is to be said."""
        phase, status, name = decisions.phase_of(cr), cr.get("status") or {}, found.spec.database
        if sync.problem is not None:
            return False, sync.problem
        if phase is None:
            starting = Problem(
                reason=reasons.RECONCILING, message="The restore is about to begin.", transient=True
            )
            return False, found.problem or starting
        failure = status.get("failure")
        if phase == GAVE_UP and failure is not None:
            claim = f"{name}-data"
            return False, Problem(
                reason=failure["reason"],
                message=f"{failure['message']} It is not retried, and no Postgresql was made: delete "
                f"this Restore and claim {claim}, then create another Restore.",
            )
        if phase == COMPLETED:
            reached = status.get("reachedTime") or status.get("reachedLSN") or "the end of the log"
            message = (
                f"The data as of {reached} is in Postgresql {name}, whose password is in Secret "
                f"{name}-binding, unless spec.postgresql names another."
            )
            return sync.in_sync, Problem(reason=reasons.RESTORED, message=message, transient=True)
        if phase == RESTORING and failure is not None and failure["attempt"] == status.get("attempt"):
            message = f"{failure['message']} It is retried by itself."
            return False, Problem(reason=failure["reason"], message=message)
        for run, job in sorted(results.jobs(cr, observed).items()):
            pod = results.pod_of(run, observed) if results.ended(job) is None else None
            if pod is not None and (stuck := pods.pod_problem(pod, now=observed.now)) is not None:
                return False, stuck
        job_name = decisions.job_name(cr, decisions.attempt_of(cr))
        where = f"`kubectl logs job/{job_name} -n {cr['metadata']['namespace']}`"
        message = f"The data is being restored into volume {name}-data; {where} says how far it is."
        if phase == RESTORED:
            message = f"The data is restored, and Postgresql {name} is being made."
        return False, Problem(reason=reasons.RUNNING, message=message, transient=True)

    def _files(self, cr: Object, observed: Observed) -> list[Child]:
        """What opens the repository: emptied once no run needs it, and left as it is while a Secret of the
        user is gone.
        """
        found, name = situation.read(cr, observed), spec.files_secret(cr)
        present = Ref(SECRET, cr["metadata"]["namespace"], name) in observed.objects
        running = decisions.phase_of(cr) == RESTORING
        if found.spec.repository is None or not (present or (running and found.repository is not None)):
            return []
        body: Object = {"metadata": child_metadata(self.type, cr, name=name), "type": "Opaque"}
        if running and found.repository is not None:
            body["data"] = secret_data(repository.reading_files(found.repository))
        return [Child(type=SECRET, body=body, frozen=running and found.repository is None)]

    def _request(self, cr: Object, read: spec.Spec) -> Child:
        source = (cr.get("status") or {}).get("source") or {}
        request = {
            "target": read.target,
            "set": None,
            "settings": source.get("settings") or {},
            "timeline": source.get("timeline"),
        }
        data = {REQUEST: json.dumps(request, sort_keys=True)}
        body = {"metadata": child_metadata(self.type, cr, name=spec.own_name(cr)), "data": data}
        return Child(type=CONFIG_MAP, body=body)

    def _claim(self, cr: Object, read: spec.Spec) -> Child:
        """The volume as the Postgresql has it. With the data's identifier, nothing else is begun there."""
        made = self._postgresql(cr, read)
        source = (cr.get("status") or {}).get("source") or {}
        built = volume.build(
            read.database_type,
            made,
            databases.read(made, default_image=""),
            Observed(objects={}, now=_EPOCH, entropy=b""),
            version=version.BUNDLED,
            identifier=str(source.get("systemIdentifier") or "") or None,
        ).body
        metadata = built["metadata"]
        annotations = {**metadata["annotations"], MADE_BY: cr["metadata"]["uid"]}
        body = {**built, "metadata": {**metadata, "annotations": annotations}}
        body["metadata"].pop("ownerReferences", None)
        return Child(type=VOLUME_CLAIM, body=body, create_only=True, handed_over=True)

    def _database(self, cr: Object, read: spec.Spec) -> Child:
        return Child(
            type=read.database_type, body=self._postgresql(cr, read), create_only=True, handed_over=True
        )

    def _postgresql(self, cr: Object, read: spec.Spec) -> Object:
        """The Postgresql: what is given, with the user of the data, and at least as much storage."""
        source = (cr.get("status") or {}).get("source") or {}
        given = {name: value for name, value in read.postgresql.items() if value is not None}
        storage = {"size": str(source.get("size") or databases.DEFAULT_SIZE), **(given.get("storage") or {})}
        return {
            "metadata": {
                "namespace": cr["metadata"]["namespace"],
                "name": read.database,
                "annotations": {MADE_BY: cr["metadata"]["uid"]},
            },
            "spec": {**given, "defaultUser": situation.default_user(source), "storage": storage},
        }

    def _job(self, cr: Object, read: spec.Spec, *, ended: bool = False) -> Child:
        template = runs.template(
            self.type,
            cr,
            action=runs.RESTORE,
            image=self._image,
            pull_secrets=self._pull_secrets,
            config=spec.own_name(cr),
            secret=spec.files_secret(cr),
            request=REQUEST,
            data={"persistentVolumeClaim": {"claimName": f"{read.database}-data"}},
            resources=databases.resources_of({"spec": read.postgresql}),
        )
        name = decisions.job_name(cr, decisions.attempt_of(cr))
        return runs.job(self.type, cr, action=runs.RESTORE, name=name, template=template, ended=ended)


def _result(cr: Object, observed: Observed, sync: SyncResult, phase: str | None) -> Result:
    if sync.problem is not None and sync.problem.reason == reasons.INVALID_SPEC:
        return Terminal(sync.problem.reason)
    if sync.problem is not None:
        return RequeueAfter(5.0 if sync.problem.transient else 30.0)
    if phase == GAVE_UP:
        failure = (cr.get("status") or {}).get("failure") or {}
        return Terminal(str(failure.get("reason") or reasons.RUN_FAILED))
    if phase == COMPLETED:
        return Done()
    # The end of an attempt is an event; only the beginning of the next has a time.
    waits = phase == RESTORING and decisions.has_failed(cr)
    return RequeueAfter(min(30.0, max(0.5, decisions.wait(cr, observed))) if waits else 30.0)
