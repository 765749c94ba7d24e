"""Backup: backups of one Postgresql in an object store or on a volume, its log archived without a gap, and
restores that are tried.

`spec` reads the resource, `situation` what it meets: database, Secrets, the server's word (`archive`).
`stores` reads where backups go, `claims` has what is a volume, `repository` and `store_options` have the
files for pgBackRest, `keys` the pair that runs and server know each other by, `runs` the Jobs and CronJobs,
`results` what became of them. `decisions` are kept on record, `status` reports, `proofs` are signed, and
`metrics` has it for Prometheus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kindling.kinds.backup import (
    archive,
    claims,
    decisions,
    deletion,
    keys,
    proofs,
    repository,
    runs,
    situation,
    spec,
    status,
    store_options,
)
from kindling.kinds.backup.metrics import METRICS
from kindling.kinds.backup.runs import BACKUP, DELETE, VERIFY
from kindling.kinds.backup.situation import Situation
from kindling.kinds.base import (
    Child,
    Finish,
    Kind,
    Observed,
    Probe,
    Problem,
    StatusReport,
    SyncResult,
    WatchedObject,
)
from kindling.kinds.database_types import DATABASE_TYPES, GROUP
from kindling.kinds.metadata import child_metadata, secret_data
from kindling.kinds.network import policy
from kindling.kinds.postgresql import activator, archiver
from kindling.kube.resources import (
    CONFIG_MAP,
    CRON_JOB,
    JOB,
    NETWORK_POLICY,
    POD,
    SECRET,
    VOLUME_CLAIM,
    Object,
    Ref,
    ResourceType,
)


class Backup(Kind):
    """`image` is that of the runs; with `pull_secrets` nodes pull it."""

    type = ResourceType(GROUP, "v1", "Backup", "backups")
    children = (SECRET, NETWORK_POLICY, CONFIG_MAP, CRON_JOB, JOB, POD)
    watches = (SECRET, VOLUME_CLAIM, *DATABASE_TYPES)
    durable = decisions.DURABLE
    finalizer = deletion.FINALIZER
    metrics = METRICS

    def __init__(self, *, image: str, pull_secrets: Sequence[str] = ()) -> None:
        self._image, self._pull_secrets = image, pull_secrets

    def watched_objects(self, cr: Object) -> Sequence[WatchedObject]:
        read, namespace = spec.read(cr), cr["metadata"]["namespace"]
        names = dict.fromkeys(named.name for named in spec.all_references(read))
        mine = (spec.own_secrets(cr).archive, archive.superuser_secret(read.database))
        claim = claims.ref(read.store, namespace=namespace)
        return [
            WatchedObject(read.database_type, read.database, namespace),
            *([WatchedObject(VOLUME_CLAIM, claim.name, namespace)] if claim is not None else []),
            *(WatchedObject(SECRET, name, namespace) for name in (*names, *mine) if name),
        ]

    def secrets(self, cr: Object) -> Sequence[str]:
        read = spec.read(cr)
        database = archive.superuser_secret(read.database), archive.binding_secret(read.database)
        names = [*spec.own_secrets(cr), *database]
        names += [named.name for named in spec.all_references(read)]
        return [name for name in dict.fromkeys(names) if name]

    def validate(self, cr: Object, observed: Observed) -> Problem | None:
        return spec.validate(cr)

    def probes(self, cr: Object, observed: Observed) -> Mapping[str, Probe]:
        found = situation.read(self.type, cr, observed)
        # A server that is being set up is not asked yet, and one that is stopped would be started by it.
        ready = found.database is not None and found.refusal is None and found.identifier is not None
        asked = found.database if ready and not found.is_stopped(observed.now) else None
        return archive.probes(cr, asked, observed)

    def durable_state(self, cr: Object, observed: Observed) -> Mapping[str, Any]:
        return decisions.decide(cr, observed, situation.read(self.type, cr, observed))

    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        """The key pair and the network's rule come first and are always there. All else waits for the
        database and the Secrets, and stays as it is while one of them is gone.
        """
        found = situation.read(self.type, cr, observed)
        return [
            self._pair(cr, found, observed),
            self._network(cr, found),
            *self._files(cr, found, observed),
            *self._runs(cr, found, observed),
            *proofs.children(self.type, cr, found.spec, observed),
        ]

    def must_finish(self, cr: Object) -> bool:
        return deletion.is_wanted(cr)

    def finish(self, cr: Object, observed: Observed) -> Finish:
        found = situation.read(self.type, cr, observed)
        done = deletion.is_done(cr)
        children = [] if done else self.desired(cr, observed)
        return Finish(done=done, children=children, report=status.report_deleted(cr, observed, found))

    def status(self, cr: Object, observed: Observed, sync: SyncResult) -> StatusReport:
        return status.report(cr, observed, sync, situation.read(self.type, cr, observed))

    def _network(self, cr: Object, found: Situation) -> Child:
        """Runs reach the store and the server; where the store is a volume, the server alone."""
        child = policy(self.type, cr, name=runs.config_name(cr), allow_egress=True)
        if claims.ref(found.spec.store, namespace=found.namespace) is None:
            return child
        others = [activator.reached(found.database_ref)] if found.wakes_on_connection else []
        return archiver.only_to_server(child, found.database_ref, *others)

    def _pair(self, cr: Object, found: Situation, observed: Observed) -> Child:
        """Made once; where somebody emptied it, another one."""
        namespace, name = cr["metadata"]["namespace"], spec.own_secrets(cr).pair
        lost = not self._known_pair(cr, observed)
        exists = Ref(SECRET, namespace, name) in observed.objects
        database = found.spec.database
        data: dict[str, str] = {}
        if lost or not exists:
            hosts = [f"{database}.{namespace}.svc", database]
            made = keys.make(observed.entropy, hosts=hosts)
            data = secret_data({repository.CERTIFICATE: made.certificate, repository.KEY: made.key})
        body = {
            "metadata": child_metadata(self.type, cr, name=name),
            "type": "Opaque",
            **({"data": data} if data else {}),
        }
        return Child(type=SECRET, body=body, create_only=True, restore_data=exists and lost)

    def _known_pair(self, cr: Object, observed: Observed) -> dict[str, str]:
        found = observed.secret(namespace=cr["metadata"]["namespace"], name=spec.own_secrets(cr).pair)
        pair = {name: found.get(name) or "" for name in (repository.CERTIFICATE, repository.KEY)}
        return pair if all(pair.values()) else {}

    def _files(self, cr: Object, found: Situation, observed: Observed) -> list[Child]:
        """The Secrets of the runs and of the archiver."""
        namespace, names = cr["metadata"]["namespace"], spec.own_secrets(cr)
        if found.refusal is not None or found.repository is None:
            return self._kept(cr, observed, [names.backup, names.verify, names.archive])
        pair = self._known_pair(cr, observed)
        host = f"{found.spec.database}.{namespace}.svc"
        backup = (
            repository.backup_files(found.repository, retention=found.spec.retention, host=host, pair=pair)
            if pair
            else {}
        )
        contents = {
            names.backup: backup,
            names.verify: repository.reading_files(found.repository),
            names.archive: repository.archive_files(found.repository, pair=pair) if pair else {},
        }
        made = []
        for name, files in contents.items():
            metadata = child_metadata(self.type, cr, name=name)
            if name == names.archive and "deletionTimestamp" not in cr["metadata"]:
                # Without it, the database does not archive.
                ports = store_options.ports(found.spec.store)
                metadata["annotations"] = {archiver.STORE_PORT: ",".join(map(str, ports))}
                if (claim := claims.ref(found.spec.store, namespace=namespace)) is not None:
                    metadata["annotations"] = {archiver.STORE_CLAIM: claim.name}
            body = {"metadata": metadata, "type": "Opaque", "data": secret_data(files)}
            made.append(Child(type=SECRET, body=body, blocked=not pair))
        return made

    def _runs(self, cr: Object, found: Situation, observed: Observed) -> list[Child]:
        wanted = found.spec
        present = {ref.name for ref in observed.objects if ref.type == CRON_JOB}
        begun = (cr.get("status") or {}).get("attempts") or {}
        if (found.refusal is not None or found.repository is None) and not present and not begun:
            return []
        children = [
            runs.config_map(
                self.type, cr, wanted, facts=found.facts, wakes=found.wakes_on_connection, observed=observed
            )
        ]
        schedules = [(BACKUP, wanted.schedule), (VERIFY, wanted.verify.schedule if wanted.verify else None)]
        for action, schedule in schedules:
            if schedule is not None:
                children.append(
                    runs.cron_job(
                        self.type,
                        cr,
                        wanted,
                        action=action,
                        schedule=schedule,
                        template=self._template(cr, found, observed, action),
                        suspend=wanted.suspended or found.refusal is not None or deletion.is_due(cr),
                    )
                )
        for action, attempt in sorted(begun.items()):
            request = attempt["request"]
            children.append(
                runs.job(
                    self.type,
                    cr,
                    action=request,
                    name=runs.job_name(cr, action, attempt["number"]),
                    template=self._template(cr, found, observed, request),
                    ended=attempt["result"] != decisions.STARTED,
                )
            )
        return children

    def _template(self, cr: Object, found: Situation, observed: Observed, action: str) -> Object:
        verify = found.spec.verify
        copies = action == VERIFY
        known = (cr.get("status") or {}).get("database") or {}
        size = str(known.get("size") or runs.DEFAULT_SIZE)
        return runs.template(
            self.type,
            cr,
            action=action,
            image=self._image,
            pull_secrets=self._pull_secrets,
            config=runs.config_name(cr),
            secret=spec.own_secrets(cr).verify if copies else spec.own_secrets(cr).backup,
            request=f"{action}.json",
            data=runs.scratch(verify, size=size) if copies else None,
            store=claims.mount(
                found.spec.store,
                observed,
                namespace=found.namespace,
                writes=not copies,
                beside=None if action == DELETE else found.database_ref,
            ),
            resources=runs.replaying(found.database, verify.resources if verify else None)
            if copies
            else runs.SMALL,
        )

    def _kept(self, cr: Object, observed: Observed, names: Sequence[str]) -> list[Child]:
        """Those Secrets that are ours and there, as they are."""
        namespace, found = cr["metadata"]["namespace"], []
        for name in names:
            known = observed.objects.get(Ref(SECRET, namespace, name))
            owners = ((known or {}).get("metadata") or {}).get("ownerReferences") or ()
            if any(owner["uid"] == cr["metadata"]["uid"] for owner in owners):
                body = {"metadata": child_metadata(self.type, cr, name=name)}
                found.append(Child(type=SECRET, body=body, frozen=True))
        return found
