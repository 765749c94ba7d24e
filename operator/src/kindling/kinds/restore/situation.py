"""What a Restore finds: the Backup, the moments that it leads to, and what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass

from kindling.kinds import reasons
from kindling.kinds.backup import claims, repository
from kindling.kinds.backup import spec as backups
from kindling.kinds.backup.claims import Mount
from kindling.kinds.backup.repository import Repository
from kindling.kinds.base import Observed, Problem
from kindling.kinds.conditions import find_condition
from kindling.kinds.database_types import GROUP
from kindling.kinds.metadata import MADE_BY
from kindling.kinds.postgresql import identity
from kindling.kinds.postgresql import spec as databases
from kindling.kinds.restore import spec as specs
from kindling.kinds.restore.spec import Spec
from kindling.kinds.times import moment
from kindling.kube.resources import SECRET, Object, Ref, ResourceType

BACKUP = ResourceType(GROUP, "v1", "Backup", "backups")


@dataclass(frozen=True, kw_only=True)
class Situation:
    """`problem`: why nothing is begun. `data` is what is known of the database: its identifier and user, of a
    Backup also size, timeline and settings. `repository` opens a source that is no Backup, where its Secrets
    are there. `database`: the Postgresql, if it is there; `made`: by this resource.
    """

    spec: Spec
    data: Object
    repository: Repository | None
    problem: Problem | None
    database: Object | None
    made: bool


def read(cr: Object, observed: Observed) -> Situation:
    spec, namespace = specs.read(cr), cr["metadata"]["namespace"]
    found = observed.watched.get(Ref(spec.database_type, namespace, spec.database))
    made = found is not None and _maker(found) == cr["metadata"]["uid"]
    status: Object = {}
    opened = None
    if spec.repository is not None:
        data: Object = {
            "systemIdentifier": specs.identifier(spec.repository),
            "defaultUser": spec.default_user,
        }
        path = spec.repository.store.prefix
        opened = repository.read(spec.repository, observed, namespace=namespace, path=path)
        problem = repository.problem(spec.repository, observed, namespace=namespace)
    else:
        backup = observed.watched.get(Ref(BACKUP, namespace, spec.backup))
        status = (backup or {}).get("status") or {}
        data = status.get("database") or {}
        problem = _no_backup(cr, spec, backup, observed=observed)
    if problem is None and found is not None and not made and not (spec.in_place or spec.aside):
        problem = Problem(
            reason=reasons.TARGET_EXISTS,
            message=f"spec.databaseRef.name {spec.database!r}: a Postgresql of that name exists already; "
            "nothing was changed. Create the Restore with another name, or with spec.into InPlace, which "
            "gives that one the data, or Databases, which adds databases to it.",
        )
    problem = problem or _out_of_reach(spec, status)
    return Situation(spec=spec, data=data, repository=opened, problem=problem, database=found, made=made)


def mount(cr: Object, spec: Spec, observed: Observed) -> Mount | None:
    """How a run reads from a store that is a volume; None where it is another. One node may have it at a
    time: that of the server which writes there.
    """
    namespace = cr["metadata"]["namespace"]
    if spec.repository is not None:
        store = spec.repository.store
        return claims.mount(store, observed, namespace=namespace, writes=False, beside=None)
    backup = observed.watched.get(Ref(BACKUP, namespace, spec.backup))
    if backup is None:
        return None
    of = backups.read(backup)
    beside = Ref(of.database_type, namespace, of.database)
    return claims.mount(of.store, observed, namespace=namespace, writes=False, beside=beside)


def is_up(database: Object | None) -> bool:
    """Whether the server of the Postgresql takes logins, or is to stay down by its own spec."""
    ready = find_condition((database or {}).get("status") or {}, "Ready")
    return ready.get("status") == "True" or ready.get("reason") == reasons.HIBERNATED


def default_user(data: Object) -> str:
    return str(data.get("defaultUser") or databases.DEFAULT_USER)


def _maker(obj: Object) -> str | None:
    found: str | None = (obj["metadata"].get("annotations") or {}).get(MADE_BY)
    return found


def _no_backup(cr: Object, spec: Spec, backup: Object | None, *, observed: Observed) -> Problem | None:
    namespace = cr["metadata"]["namespace"]
    field = f"spec.source.backupRef.name {spec.backup!r}"
    if backup is None:
        return Problem(
            reason=reasons.BACKUP_NOT_FOUND,
            message=f"{field}: there is no Backup of that name in namespace {namespace}. Create it, with the "
            "targetURL of the backups.",
        )
    status = backup.get("status") or {}
    identifier = str((status.get("database") or {}).get("systemIdentifier") or "")
    opens = Ref(SECRET, namespace, specs.files_secret(cr)) in observed.watched
    if identity.FORM.fullmatch(identifier) is None or not status.get("lastSuccessfulBackupTime") or not opens:
        return Problem(
            reason=reasons.BACKUP_NOT_FOUND,
            message=f"{field} has no backup yet: wait for its first one, which begins the restore.",
            transient=True,
        )
    of = backups.read(backup)
    ready = find_condition(status, "Ready")
    if claims.ref(of.store, namespace=namespace) is not None and ready.get("reason") in claims.UNUSABLE:
        # Its Pod would wait for it, and a server that is restored in place would be stopped meanwhile.
        return Problem(
            reason=ready["reason"], message=f"{field} cannot be read: {ready['message']}", transient=True
        )
    if spec.proves and (spec.database, spec.database_type) != (of.database, of.database_type):
        return Problem(
            reason=reasons.REPOSITORY_OF_ANOTHER_DATABASE,
            message=f"spec.databaseRef.name {spec.database!r} of group {spec.database_type.group} is not "
            f"what Backup {spec.backup} is of; nothing was begun. Create the Restore with the Backup's own: "
            f"name {of.database}, group {of.database_type.group}.",
        )
    return None


def _out_of_reach(spec: Spec, status: Object) -> Problem | None:
    """A time that no backup leads to, with both limits."""
    first, last = status.get("firstRecoverabilityPoint"), status.get("latestRestorableTime")
    wanted, earliest, latest = moment(spec.time), moment(first), moment(last)
    if wanted is None or spec.timeline is not None:
        return None  # what there is of another timeline, the run finds out
    limits = (
        f"The Backup leads to any moment from {first or 'its first backup'} to {last or 'its last backup'}"
    )
    field = f"spec.recoveryTarget.targetTime {spec.time!r}"
    if earliest is not None and wanted < earliest:
        return Problem(
            reason=reasons.TARGET_TOO_EARLY,
            message=f"{field} is before the oldest backup. {limits}; nothing was changed.",
        )
    if latest is not None and wanted > latest:
        return Problem(
            reason=reasons.TARGET_NOT_REACHED,
            message=f"{field} is not in the archive yet. {limits}; nothing was changed. It begins by itself "
            "once the archive has that moment.",
        )
    return None
