"""Reading a Restore's spec: from which Backup, to which moment, into which Postgresql."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kindling.kinds import reasons
from kindling.kinds.backup import stores
from kindling.kinds.backup.archive import LSN
from kindling.kinds.backup.spec import Access, access, references
from kindling.kinds.base import Problem
from kindling.kinds.database_types import GROUP, database_type
from kindling.kinds.postgresql import identity
from kindling.kinds.postgresql import spec as databases
from kindling.kinds.times import moment
from kindling.kube.resources import Object, ResourceType

DATABASES = "Databases"
"""Of spec.into: databases are loaded into a Postgresql that is there."""
VERIFY = "Verify"
"""Of spec.into: a copy is checked, and thrown away."""
NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
TARGETS = {
    "targetTime": "time",
    "targetLSN": "lsn",
    "targetXID": "xid",
    "targetName": "name",
    "immediate": "immediate",
}
"""The fields of spec.recoveryTarget, one of which says the moment, and what a run calls them."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """`target` is what a run is asked for; None: all of the log that there is. `database` is what is made.

    `timeline` is the one to recover along, None for the server's own.

    The source is a Backup by its name, or a `repository` by itself, with the default user of its data. With
    `in_place` the database is there, and with `undo` gets back what it had. With `loads` it is there too, and
    `databases` of the backup are loaded into it: each its `name`, what it is loaded `as`, and `tables`, empty
    for all. With `proves` nothing gets the data, and `verify` has what is checked, and with what, otherwise
    than for the Backup, if there is one.
    """

    backup: str
    repository: Access | None
    default_user: str | None
    target: Object | None
    time: str | None
    database: str
    database_type: ResourceType
    postgresql: Object
    timeline: int | None
    in_place: bool
    undo: bool
    loads: bool = False
    databases: tuple[Object, ...] = ()
    proves: bool = False
    verify: Object | None = None

    @property
    def aside(self) -> bool:
        """Whether the run restores into a volume that goes with its Pod."""
        return self.loads or self.proves

    @property
    def of_store_alone(self) -> bool:
        """Whether a copy is checked of which there is no Backup to ask."""
        return self.proves and self.repository is not None

    @property
    def copy_size(self) -> str | None:
        """Of the volume of a copy that is checked, where this resource says it."""
        size: str | None = ((self.verify or {}).get("storage") or {}).get("size")
        return size


def read(cr: Object) -> Spec:
    """Total over what the CRD admits."""
    spec = cr.get("spec") or {}
    into, given = spec.get("databaseRef") or {}, spec.get("recoveryTarget") or {}
    target: Object | None = None
    for field, name in TARGETS.items():
        value = given.get(field)
        if value not in (None, False):
            target = {name: value, "exclusive": given.get("exclusive") is True}
    source = spec.get("source") or {}
    return Spec(
        backup=str((source.get("backupRef") or {}).get("name") or ""),
        repository=access(source, field="spec.source") if source.get("targetURL") is not None else None,
        default_user=(spec.get("postgresql") or {}).get("defaultUser"),
        target=target,
        time=given.get("targetTime"),
        database=str(into.get("name") or ""),
        database_type=database_type(str(into.get("group") or GROUP)),
        postgresql=dict(spec.get("postgresql") or {}),
        timeline=given.get("targetTLI"),
        in_place=spec.get("into") == "InPlace",
        undo=spec.get("undo") is True,
        loads=spec.get("into") == DATABASES,
        databases=tuple(_database(item) for item in spec.get("databases") or ()),
        proves=spec.get("into") == VERIFY,
        verify={name: value for name, value in (spec.get("verify") or {}).items() if value is not None},
    )


def _database(item: Object) -> Object:
    name = str(item.get("name") or "")
    return {"name": name, "as": str(item.get("as") or name), "tables": list(item.get("tables") or ())}


def identifier(repository: Access) -> str | None:
    """PostgreSQL's system identifier of the data: the last part of the repository's path."""
    last = repository.store.prefix.rpartition("/")[2]
    return last if identity.FORM.fullmatch(last) else None


def own_name(cr: Object) -> str:
    """Of the ConfigMap, the NetworkPolicy and the Secret that are made from it."""
    return f"{cr['metadata']['name']}-restore"


def files_secret(cr: Object) -> str:
    """The Secret with what opens the repository: the Backup's own of runs that only read, or one of ours."""
    found = read(cr)
    return own_name(cr) if found.repository is not None else f"{found.backup}-verify"


def validate(cr: Object) -> Problem | None:
    """The first thing that cannot work, with field, value and remedy."""
    spec, name = cr.get("spec") or {}, cr["metadata"]["name"]
    given = {field: value for field, value in (spec.get("recoveryTarget") or {}).items() if value is not None}
    said = [field for field in TARGETS if given.get(field) not in (None, False)]
    into, wants = read(cr).database, read(cr).postgresql
    message = None
    if NAME.fullmatch(name) is None:
        message = (
            f"metadata.name {name!r} must be at most 40 of a-z, 0-9 and '-', starting with a letter: its "
            "runs bear it. Create the resource under another name."
        )
    elif databases.NAME.fullmatch(into) is None:
        message = (
            f"spec.databaseRef.name {into!r} cannot name a Postgresql: use at most 52 of a-z, 0-9 and '-', "
            "starting with a letter."
        )
    elif len(said) > 1:
        message = f"spec.recoveryTarget has {' and '.join(said)}: keep one of them."
    elif "targetTime" in said and moment(given["targetTime"]) is None:
        message = (
            f"spec.recoveryTarget.targetTime {given['targetTime']!r} is no moment: write it with its time "
            "zone, 2026-11-24T06:45:00Z for one."
        )
    elif "targetLSN" in said and LSN.fullmatch(str(given["targetLSN"])) is None:
        message = (
            f"spec.recoveryTarget.targetLSN {given['targetLSN']!r} is no place in the log: write it as "
            "PostgreSQL does, 0/3000060 for one."
        )
    elif (wants.get("passwordSecretRef") or {}).get("name") in (f"{into}-binding", f"{into}-superuser"):
        message = (
            f"spec.postgresql.passwordSecretRef.name {wants['passwordSecretRef']['name']!r} names a Secret "
            "that is made from that Postgresql: refer to one of your own."
        )
    message = message or _wrong_source(cr) or _wrong_in_place(cr) or _wrong_databases(cr)
    message = message or _wrong_proof(cr)
    return Problem(reason=reasons.INVALID_SPEC, message=message) if message else None


def _wrong_in_place(cr: Object) -> str | None:
    spec, found = cr.get("spec") or {}, read(cr)
    if found.undo and not found.in_place:
        return "spec.undo is for a restore in place: leave it out, or set spec.into InPlace."
    if found.in_place and found.repository is not None:
        return (
            "spec.into InPlace needs a Backup of the Postgresql, which has its log in the store: use "
            "spec.source.backupRef, or leave out spec.into."
        )
    if found.in_place and spec.get("postgresql"):
        return "spec.postgresql is for a Postgresql that is made, and spec.into is InPlace: leave it out."
    return None


def _wrong_databases(cr: Object) -> str | None:
    found, given = read(cr), (cr.get("spec") or {}).get("databases") is not None
    names = [item["as"] for item in found.databases]
    if given and not found.loads:
        return "spec.databases is for spec.into Databases: leave it out, or set spec.into Databases."
    if not found.loads:
        return None
    if not found.databases:
        return "spec.into Databases needs spec.databases: name those that are loaded."
    if found.repository is not None:
        return "spec.into Databases needs a Backup: use spec.source.backupRef."
    if found.postgresql:
        return (
            "spec.postgresql is for a Postgresql that is made, and spec.into is Databases, which loads into "
            "one that is there: leave it out."
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        return f"spec.databases has several that become {twice[0]!r}: give each a name of its own in as."
    return None


def _wrong_proof(cr: Object) -> str | None:
    found = read(cr)
    if (cr.get("spec") or {}).get("verify") is not None and not found.proves:
        return "spec.verify is for spec.into Verify: leave it out, or set spec.into Verify."
    if found.of_store_alone and found.copy_size is None:
        return (
            "spec.verify.storage.size is needed with spec.into Verify and a targetURL, which does not say "
            "how large the data is: name a size that holds it, 10Gi for one."
        )
    if found.proves and found.postgresql:
        return (
            "spec.postgresql is for a Postgresql that is made, and spec.into is Verify, which makes none: "
            "leave it out."
        )
    return None


def _wrong_source(cr: Object) -> str | None:
    source, found = (cr.get("spec") or {}).get("source") or {}, read(cr)
    if (found.repository is None) == (not found.backup):
        return "spec.source must have either backupRef or targetURL: keep one of them."
    if found.repository is None:
        return (
            "spec.postgresql.defaultUser is known from the Backup: leave it out."
            if found.default_user is not None
            else None
        )
    if wrong := stores.wrong(source, field="spec.source"):
        return wrong
    if identifier(found.repository) is None:
        return (
            f"spec.source.targetURL {source['targetURL']!r} does not end with a system identifier: use the "
            f"whole path of the backups, {stores.form(source)}/NAMESPACE/DATABASE/IDENTIFIER."
        )
    for named in references(found.repository):
        if not named.name or named.name == files_secret(cr):
            return (
                f"{named.field}.name {named.name!r} cannot be used, since a Secret of that name is made from "
                "this resource: refer to one of your own."
            )
    return None
