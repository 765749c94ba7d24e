"""What is restored aside, into a volume that goes with its Pod: when the run may begin, and what it gets.

One that loads databases logs in to the Postgresql as its superuser, by its Service: what it makes has owners,
extensions and privileges as it had them. One that proves a moment is as the Backup's own verify run, and asks
no server: that of the Postgresql may be down, or gone. Of a repository by itself there is no Backup, and a
Postgresql of that name is another one.
"""

from __future__ import annotations

from kindling.kinds import reasons, server_tls
from kindling.kinds.backup import runs
from kindling.kinds.backup import spec as backups
from kindling.kinds.backup.situation import database_not_ready
from kindling.kinds.base import Observed, Problem
from kindling.kinds.postgresql import secrets, service, tls
from kindling.kinds.postgresql import spec as databases
from kindling.kinds.restore import situation
from kindling.kinds.restore.situation import Situation
from kindling.kinds.restore.spec import Spec
from kindling.kinds.service_template import host_of
from kindling.kube.resources import Object, Ref


def problem(found: Situation, *, namespace: str) -> Problem | None:
    """Why it does not begin: the Postgresql is not there, or takes nothing."""
    name, database = found.spec.database, found.database
    field = f"spec.databaseRef.name {name!r}"
    if database is None:
        return Problem(
            reason=reasons.DATABASE_NOT_FOUND,
            message=f"{field}: there is no such Postgresql in this namespace to load databases into. Create "
            "it, or delete this Restore and create one without spec.into.",
            transient=True,
        )
    if paused := databases.paused_by(database):
        return Problem(
            reason=reasons.PAUSED,
            message=f"{field} is only observed ({paused}), so nothing is loaded into it: "
            f"{databases.resumed(paused)}.",
            transient=True,
        )
    return database_not_ready(Ref(found.spec.database_type, namespace, name), database)


def request(cr: Object, found: Spec, observed: Observed) -> Object:
    """What the run is asked for beside the moment."""
    if found.proves:
        return runs.checks(_verify(cr, found, observed))
    target = _target(cr, found, observed)
    return {
        "uid": cr["metadata"]["uid"],
        "databases": [
            {name: value for name, value in item.items() if value != []} for item in found.databases
        ],
        "into": {"host": host_of(target), "port": service.PORT, "tls": tls.is_enabled(target)},
    }


def volume(cr: Object, found: Spec, observed: Observed) -> Object:
    """The source of a volume with what opens the Postgresql: its superuser's password, and its authority."""
    target = _target(cr, found, observed)
    keys = [(secrets.superuser_name(target), "password")]
    if tls.is_enabled(target):
        keys.append((server_tls.secret_name(target), server_tls.AUTHORITY))
    sources = [{"secret": {"name": name, "items": [{"key": key, "path": key}]}} for name, key in keys]
    return {"projected": {"sources": sources, "defaultMode": 0o440}}


def scratch(cr: Object, found: Spec, observed: Observed) -> tuple[Object, Object]:
    """The source of the volume for the copy, and the run's resources: as for a verify run of the Backup,
    unless the Restore has others.
    """
    verify = _verify(cr, found, observed)
    source = (cr.get("status") or {}).get("source") or {}
    size = str(source.get("size") or runs.DEFAULT_SIZE)
    target = _target(cr, found, observed)
    return runs.scratch(verify, size=size), runs.replaying(target, verify.resources)


def _verify(cr: Object, found: Spec, observed: Observed) -> backups.Verify:
    """That of the Restore; what it leaves out as the Backup has it, if there is one."""
    backup = observed.watched.get(Ref(situation.BACKUP, cr["metadata"]["namespace"], found.backup)) or {}
    theirs, own = (backup.get("spec") or {}).get("verify") or {}, found.verify or {}
    storage = {**(theirs.get("storage") or {}), **(own.get("storage") or {})}
    return backups.read_verify({**theirs, **own, "storage": storage})


def _target(cr: Object, found: Spec, observed: Observed) -> Object:
    """The Postgresql; by its name alone where it is not seen any more."""
    namespace = cr["metadata"]["namespace"]
    seen = observed.watched.get(Ref(found.database_type, namespace, found.database))
    return seen or {"metadata": {"namespace": namespace, "name": found.database}}


def loaded(found: Spec, *, reached: str | None) -> str:
    """What is said in the end, with the databases by the names that they got."""
    names = [item["as"] for item in found.databases]
    moment = f", as of {reached}," if reached else ""
    if len(names) == 1:
        return f"Database {names[0]}{moment} is loaded into Postgresql {found.database}."
    return f"Databases {', '.join(names)}{moment} are loaded into Postgresql {found.database}."
