"""Reading a Backup's spec: defaults, where the store is, and what only we can refuse.

The CRD refuses most of it at the door as well; this holds for what was stored before its rules were there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from kindling.kinds import reasons, window
from kindling.kinds.backup import stores
from kindling.kinds.backup.stores import Store
from kindling.kinds.base import Problem
from kindling.kinds.database_types import GROUP, database_type
from kindling.kube.resources import Object, ResourceType

FULL, INCREMENTAL = "full", "incremental"
NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
DURATION = re.compile(r"([1-9][0-9]{0,3})([mhdw])")
_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}
DEFAULT_MAX_AGE = 35 * 86400
DEFAULT_FULLS = 2


class Reference(NamedTuple):
    """A key of a Secret, and the field that names it; `instead`: another key, which may be in its place."""

    field: str
    name: str
    key: str
    instead: str | None = None


@dataclass(frozen=True, kw_only=True)
class Verify:
    """What a verify run checks, and when; `max_age` in seconds. `signing_key` signs the records of proofs."""

    schedule: str | None
    amcheck: str
    queries: Sequence[Mapping[str, str]]
    max_age: int
    size: str | None
    storage_class: str | None
    resources: Object | None
    signing_key: Reference | None = None


@dataclass(frozen=True, kw_only=True)
class Access:
    """A store, and the Secrets that open it; `field` is the one of the resource that all of it is in."""

    field: str
    store: Store
    credentials: str
    ca: Reference | None
    passphrase: Reference | None


@dataclass(frozen=True, kw_only=True)
class Spec(Access):
    """A spec with its defaults; `retention` as pgBackRest has it."""

    database: str
    database_type: ResourceType
    kind: str
    full_every: int | None
    schedule: str | None
    time_zone: str
    suspended: bool
    immediate: bool
    retention: tuple[str, int]
    verify: Verify | None


def read(cr: Object) -> Spec:
    """Total over what the CRD admits."""
    spec = cr.get("spec") or {}
    reference, verify, retention = (spec.get(name) or {} for name in ("databaseRef", "verify", "retention"))
    full_every = _seconds(spec.get("fullEvery"))
    incremental = spec.get("type") == INCREMENTAL
    return Spec(
        **vars(access(spec, field="spec")),
        database=str(reference.get("name") or ""),
        database_type=database_type(str(reference.get("group") or GROUP)),
        kind=INCREMENTAL if incremental else FULL,
        full_every=full_every if incremental else None,
        schedule=spec.get("schedule"),
        time_zone=str(spec.get("timeZone") or "Etc/UTC"),
        suspended=spec.get("suspend") is True,
        immediate=spec.get("immediate") is not False,
        retention=("time", max(1, (_seconds(retention["window"]) or 0) // 86400))
        if retention.get("window")
        else ("count", int(retention.get("full") or DEFAULT_FULLS)),
        verify=read_verify(verify) if spec.get("verify") is not None else None,
    )


def access(given: Object, *, field: str) -> Access:
    """Reads `targetURL`, `endpointURL`, `region`, `credentialsSecretRef`, `caSecretRef` and `encryption`."""
    encryption = given.get("encryption") or {}
    return Access(
        field=field,
        store=stores.read(given),
        credentials=str((given.get("credentialsSecretRef") or {}).get("name") or ""),
        ca=_reference(f"{field}.caSecretRef", given.get("caSecretRef"), key="ca.crt"),
        passphrase=_reference(
            f"{field}.encryption.passphraseSecretRef",
            encryption.get("passphraseSecretRef"),
            key="passphrase",
        ),
    )


def validate(cr: Object) -> Problem | None:
    """The first thing that cannot work, with field, value and remedy."""
    spec, name = cr.get("spec") or {}, cr["metadata"]["name"]
    message = None
    if NAME.fullmatch(name) is None:
        message = (
            f"metadata.name {name!r} must be at most 40 of a-z, 0-9 and '-', starting with a letter: its "
            "runs bear it. Create the resource under another name."
        )
    message = (
        message or stores.wrong(spec, field="spec") or _own_claim(cr) or _own_secret(cr) or _wrong_times(spec)
    )
    return Problem(reason=reasons.INVALID_SPEC, message=message) if message else None


class OwnSecrets(NamedTuple):
    """The Secrets that are made: of the key pair, of backup runs, of verify runs, of the archiver."""

    pair: str
    backup: str
    verify: str
    archive: str


def _own_claim(cr: Object) -> str | None:
    found = read(cr)
    if found.store.scheme == stores.CLAIM and found.store.bucket == f"{found.database}-data":
        return (
            f"spec.targetURL {found.store.url!r} is on the volume of the database itself, and would be lost "
            "with it: name another claim."
        )
    return None


def own_secrets(cr: Object) -> OwnSecrets:
    name, database = cr["metadata"]["name"], ((cr.get("spec") or {}).get("databaseRef") or {}).get("name")
    return OwnSecrets(f"{name}-tls", f"{name}-backup", f"{name}-verify", f"{database or ''}-archive")


def _own_secret(cr: Object) -> str | None:
    for named in all_references(read(cr)):
        if named.name in own_secrets(cr):
            return (
                f"{named.field}.name {named.name!r} names a Secret that is made from this resource: refer "
                "to one of your own."
            )
    return None


def _wrong_times(spec: Object) -> str | None:
    schedules = {
        "spec.schedule": spec.get("schedule"),
        "spec.verify.schedule": (spec.get("verify") or {}).get("schedule"),
    }
    try:
        for field, schedule in schedules.items():
            if schedule is not None:
                window.check_schedule(str(schedule), field=field)
        window.read_zone(spec.get("timeZone"), field="spec.timeZone")
    except ValueError as error:
        return str(error)
    return None


def next_time(schedule: str, zone: str, now: datetime) -> datetime | None:
    """When it comes next.

    :raises ValueError: for what is no schedule, or no zone.
    """
    if len(schedule.split()) != 5:
        raise ValueError("five fields are needed")
    try:
        local = now.astimezone(ZoneInfo(zone)) if now.tzinfo is not None else now
        found: datetime | None = next(CronSim(schedule, local), None)
    except (CronSimError, OSError, KeyError) as error:
        raise ValueError(str(error)) from None
    return found


def references(given: Access) -> list[Reference]:
    """The keys of Secrets that must be there."""
    field = f"{given.field}.credentialsSecretRef"
    keys = stores.KEYS.get(given.store.scheme, stores.KEYS[stores.S3])
    found = [Reference(field, given.credentials, *each) for each in keys]
    return found + [each for each in (given.ca, given.passphrase) if each is not None]


def all_references(given: Spec) -> list[Reference]:
    """With the one that no run needs."""
    signing = given.verify.signing_key if given.verify is not None else None
    return [*references(given), *([signing] if signing is not None else [])]


def _reference(field: str, given: Object | None, *, key: str) -> Reference | None:
    name = (given or {}).get("name")
    return Reference(field, str(name), str((given or {}).get("key") or key)) if name else None


def read_verify(given: Object) -> Verify:
    """Reads `spec.verify`."""
    storage = given.get("storage") or {}
    return Verify(
        schedule=given.get("schedule"),
        amcheck=str(given.get("amcheck") or "Heap"),
        queries=[
            {name: str(query.get(name) or "") for name in ("database", "sql", "expect")}
            for query in given.get("queries") or ()
        ],
        max_age=_seconds(given.get("maxAge")) or DEFAULT_MAX_AGE,
        size=storage.get("size"),
        storage_class=storage.get("storageClassName"),
        resources=given.get("resources"),
        signing_key=_reference(
            "spec.verify.signingKeySecretRef", given.get("signingKeySecretRef"), key="signingKey"
        ),
    )


def _seconds(given: object) -> int | None:
    found = DURATION.fullmatch(str(given or ""))
    return int(found[1]) * _SECONDS[found[2]] if found else None
