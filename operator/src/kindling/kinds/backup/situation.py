"""What a Backup finds: its database, whose data it is, what opens the store, and what stands in the way."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from kindling.kinds import reasons
from kindling.kinds.backup import archive, claims, repository
from kindling.kinds.backup import spec as specs
from kindling.kinds.backup.archive import Facts
from kindling.kinds.backup.repository import Repository
from kindling.kinds.backup.spec import Spec
from kindling.kinds.base import Observed, Problem
from kindling.kinds.conditions import find_condition, is_current
from kindling.kinds.metadata import INSTANCE_LABEL, KIND_LABEL
from kindling.kinds.postgresql import archiver, hibernation, identity, idle
from kindling.kinds.postgresql import parameters as database_parameters
from kindling.kinds.postgresql import spec as databases
from kindling.kube.resources import SECRET, Object, Ref, ResourceType


@dataclass(frozen=True, kw_only=True)
class Situation:
    """`refusal`: what only an edit can change. `wait`: what may end by itself. `inputs` is a digest of which
    versions of the user's Secrets there are, or of the claim.
    """

    namespace: str
    spec: Spec
    database: Object | None
    identifier: str | None
    repository: Repository | None
    facts: Facts | None
    refusal: Problem | None
    wait: Problem | None
    inputs: str

    @property
    def database_ref(self) -> Ref:
        return Ref(self.spec.database_type, self.namespace, self.spec.database)

    def is_stopped(self, now: datetime) -> bool:
        """Whether the database's spec has its server stopped."""
        return self.database is not None and hibernation.is_hibernated(self.database, now)

    @property
    def wakes_on_connection(self) -> bool:
        """Whether a connection starts it, once it is stopped because nobody used it."""
        return self.database is not None and idle.wakes_on_connection(self.database)

    @property
    def may_run(self) -> bool:
        """Whether a run can be begun: the server archives, and serves pgBackRest."""
        clear = self.refusal is None and self.wait is None and self.repository is not None
        return clear and not self.spec.suspended and self.facts is not None and self.facts.mode == "on"


def read(type: ResourceType, cr: Object, observed: Observed) -> Situation:
    spec, namespace = specs.read(cr), cr["metadata"]["namespace"]
    database = observed.watched.get(Ref(spec.database_type, namespace, spec.database))
    identifier = _identifier(database) or _known(cr)
    if "deletionTimestamp" in cr["metadata"]:
        identifier = _known(cr) or identifier  # what it stored last
    found = None
    if identifier:
        path = repository.path(spec, namespace=namespace, identifier=identifier)
        found = repository.read(spec, observed, namespace=namespace, path=path)
    return Situation(
        namespace=namespace,
        spec=spec,
        database=database,
        identifier=identifier,
        repository=found,
        facts=archive.facts(cr, database, observed),
        refusal=_refusal(type, cr, spec, database, observed),
        wait=repository.problem(spec, observed, namespace=namespace) or _not_ready(cr, spec, database),
        inputs=_inputs(cr, spec, observed),
    )


def _identifier(database: Object | None) -> str | None:
    found = str(((database or {}).get("status") or {}).get("systemIdentifier") or "")
    return found if identity.FORM.fullmatch(found) else None


def _known(cr: Object) -> str | None:
    """Whose data was backed up last, for a database that is gone."""
    found = ((cr.get("status") or {}).get("database") or {}).get("systemIdentifier")
    return str(found) if found and identity.FORM.fullmatch(str(found)) else None


def _refusal(
    type: ResourceType, cr: Object, spec: Spec, database: Object | None, observed: Observed
) -> Problem | None:
    namespace, name = cr["metadata"]["namespace"], spec.database
    field = f"spec.databaseRef.name {name!r}"
    if database is None:
        return Problem(
            reason=reasons.DATABASE_NOT_FOUND,
            message=f"{field}: there is no such Postgresql of group {spec.database_type.group} in "
            f"namespace {namespace}. Create it; backups in the store are kept.",
        )
    wants = database.get("spec") or {}
    if databases.is_ephemeral(database):
        return Problem(
            reason=reasons.DATABASE_UNSUITABLE,
            message=f"{field}: its spec.storage.ephemeral is true, so its data is meant to go with its Pod. "
            "Back up a Postgresql that has a volume.",
        )
    if wants.get("image"):
        return Problem(
            reason=reasons.IMAGE_WITHOUT_PGBACKREST,
            message=f"{field}: its spec.image is {wants['image']!r}, and a backup needs the pgBackRest of "
            "the operator's image. Remove spec.image from the Postgresql, or delete this Backup.",
        )
    if database_parameters.read(database).get("wal_level", "").lower() == "minimal":
        return Problem(
            reason=reasons.DATABASE_UNSUITABLE,
            message=f"{field}: its spec.parameters.wal_level is 'minimal', with which no log is archived. "
            "Remove it from the Postgresql.",
        )
    taken = observed.watched.get(Ref(SECRET, namespace, archiver.secret_name(database)))
    labels = ((taken or {}).get("metadata") or {}).get("labels") or {}
    other = labels.get(INSTANCE_LABEL)
    if labels.get(KIND_LABEL) == type.group_kind and other != cr["metadata"]["name"]:
        return Problem(
            reason=reasons.BACKUP_CONFLICT,
            message=f"{field} is backed up by Backup {other!r} already. Delete one of the two.",
        )
    return None


def _not_ready(cr: Object, spec: Spec, database: Object | None) -> Problem | None:
    if database is None:
        return None
    where = Ref(spec.database_type, cr["metadata"]["namespace"], spec.database)
    return database_not_ready(where, database, known=_identifier(database) is not None)


def database_not_ready(ref: Ref, database: Object, *, known: bool = True) -> Problem | None:
    """None where the Postgresql is Ready and what is needed of it is `known`."""
    ready = find_condition(database.get("status") or {}, "Ready")
    if known and ready.get("status") == "True" and is_current(database):
        return None
    return Problem(
        reason=reasons.DATABASE_NOT_READY,
        message=f"Postgresql {ref.name} is not Ready ({ready.get('reason') or 'not seen yet'}): "
        f"wait, or see its conditions (`kubectl describe postgresqls.{ref.type.group} "
        f"{ref.name} -n {ref.namespace}`).",
        transient=True,
    )


def _inputs(cr: Object, spec: Spec, observed: Observed) -> str:
    names = dict.fromkeys(named.name for named in specs.references(spec))
    versions = []
    for name in names:
        meta = observed.objects.get(Ref(SECRET, cr["metadata"]["namespace"], name), {}).get("metadata") or {}
        versions.append((name, str(meta.get("uid")), str(meta.get("resourceVersion"))))
    versions.append((spec.store.url, str(spec.store.endpoint), spec.store.region))
    versions += claims.versions(spec.store, observed, namespace=cr["metadata"]["namespace"])
    return hashlib.sha256(repr(versions).encode()).hexdigest()[:16]
