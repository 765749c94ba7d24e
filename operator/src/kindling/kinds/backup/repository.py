"""The repository in the store: its path, and the files by which pgBackRest and a run find and open it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kindling.kinds import reasons
from kindling.kinds.backup import claims, store_options
from kindling.kinds.backup import spec as specs
from kindling.kinds.backup.spec import Access, Spec
from kindling.kinds.backup.stores import (
    ACCESS_KEY,
    ACCOUNT_KEY,
    S3,
    SAS_TOKEN,
    SECRET_KEY,
    SERVICE_ACCOUNT_KEY,
)
from kindling.kinds.base import Observed, Problem
from kindling.kinds.postgresql import archiver
from kindling.kinds.postgresql.initdb import PGDATA, SOCKETS
from kindling.kinds.postgresql.service import PORT
from kindling.kinds.postgresql.spec import SUPERUSER
from kindling.kube.resources import SECRET, Ref

FILES = "/etc/kindling/backup"
CONFIG, STORE, CERTIFICATE, KEY, AUTHORITY = (
    archiver.CONFIG_FILE, "store.json", "tls.crt", "tls.key", "ca.crt"
)  # fmt: skip
LONGEST_SECRET = 65536


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository with what opens it. `path` is absolute in the bucket or volume; the Secrets' values are
    hidden.

    Those of `values` are by the key that the Secret has.
    """

    access: Access
    path: str
    values: Mapping[specs.Reference, str]

    def __repr__(self) -> str:
        return f"Repository(path={self.path!r})"


def path(spec: Spec, *, namespace: str, identifier: str) -> str:
    """Of the data, not of the name alone: other data under an old name has a repository of its own."""
    return f"{spec.store.prefix}/{namespace}/{spec.database}/{identifier}"


def problem(access: Access, observed: Observed, *, namespace: str) -> Problem | None:
    """Which Secret or key is missing, or cannot be a line of a file, never what it holds; or what is wrong
    with the claim that is the store.
    """
    for named in specs.references(access):
        field, wanted = f"{named.field}.name {named.name!r}", repr(named.key)
        wanted += f" or {named.instead!r}" if named.instead else ""
        if Ref(SECRET, namespace, named.name) not in observed.objects:
            return Problem(
                reason=reasons.SECRET_NOT_FOUND,
                message=f"{field}: no such Secret exists in namespace {namespace}; create it with the key "
                f"{wanted} (`kubectl create secret generic {named.name} {_given(named.key)} "
                f"-n {namespace}`).",
            )
        found = _found(named, observed, namespace=namespace)
        if not found:
            return Problem(
                reason=reasons.SECRET_NOT_FOUND,
                message=f"{field}: that Secret has no text under the key {wanted}; put it there.",
            )
        if len(found) > 1:
            return Problem(
                reason=reasons.INVALID_SECRET,
                message=f"{field}: that Secret has both {named.key!r} and {named.instead!r}; keep "
                "one of them.",
            )
        ((key, value),) = found.items()
        if unusable := _unusable(named, key, value, access):
            return Problem(
                reason=reasons.INVALID_SECRET, message=f"{field}: what stands under {key!r} {unusable}"
            )
    return claims.problem(
        access.store, observed, namespace=namespace, field=access.field, writes=isinstance(access, Spec)
    )


def _given(key: str) -> str:
    return f"--from-file={key}=FILE" if key == SERVICE_ACCOUNT_KEY else f"--from-literal={key}=…"


def _found(named: specs.Reference, observed: Observed, *, namespace: str) -> dict[str, str]:
    """The value by its key, and of two that exclude each other both, if both are there."""
    data = observed.secret(namespace=namespace, name=named.name)
    return {key: value for key in (named.key, named.instead) if key and (value := data.get(key))}


def _unusable(named: specs.Reference, key: str, value: str, access: Access) -> str | None:
    """How the message goes on."""
    if named == access.ca:
        if len(value) <= LONGEST_SECRET and "-----BEGIN CERTIFICATE-----" in value:
            return None
        return "is no certificate in PEM; put the authority's certificate there."
    said = store_options.unusable("" if named == access.passphrase else key, value)
    if key == SAS_TOKEN and not access.store.tls:
        said = (
            f"a token that {access.field}.endpointURL {access.store.endpoint!r} would get in clear: use "
            f"https:// there, or {ACCOUNT_KEY!r}, which is never sent."
        )
    if said is None and len(value) > LONGEST_SECRET:
        said = f"longer than {LONGEST_SECRET} characters: write a shorter one."
    return f"(not shown) is {said}" if said else None


def read(access: Access, observed: Observed, *, namespace: str, path: str) -> Repository | None:
    """None where a Secret or a key of it is missing."""
    if problem(access, observed, namespace=namespace) is not None:
        return None
    values = {
        (named._replace(key=key, instead=None) if named.instead else named): value
        for named in specs.references(access)
        for key, value in _found(named, observed, namespace=namespace).items()
    }
    return Repository(access=access, path=path, values=values)


def backup_files(
    repository: Repository, *, retention: tuple[str, int], host: str, pair: Mapping[str, str]
) -> dict[str, str]:
    """What a backup run has; `host` is the database's, `pair` has tls.crt and tls.key."""
    kind, amount = retention
    tls = {
        "pg1-host": host,
        "pg1-host-type": "tls",
        "pg1-host-port": str(archiver.PORT),
        "pg1-host-ca-file": f"{FILES}/{CERTIFICATE}",
        "pg1-host-cert-file": f"{FILES}/{CERTIFICATE}",
        "pg1-host-key-file": f"{FILES}/{KEY}",
    }
    options = {
        **_repository(repository, files=FILES),
        **_COMMON,
        "repo1-retention-full": str(amount),
        "repo1-retention-full-type": kind,
        "archive-timeout": "60",
        "process-max": "2",
        "start-fast": "y",
    }
    return {
        CONFIG: _conf(options, {**tls, **_server()}),
        STORE: _store(repository, read_only=False),
        CERTIFICATE: pair[CERTIFICATE],
        KEY: pair[KEY],
        **_opening(repository),
    }


def reading_files(repository: Repository) -> dict[str, str]:
    """What a run has that only reads from the repository, and has its data beside it."""
    options = {**_repository(repository, files=FILES), **_COMMON, "process-max": "2"}
    return {
        CONFIG: _conf(options, {"pg1-path": PGDATA}),
        STORE: _store(repository, read_only=True),
        **_opening(repository),
    }


def archive_files(repository: Repository, *, pair: Mapping[str, str]) -> dict[str, str]:
    """What the server has: to hand over its log, and to serve the runs."""
    files = archiver.FILES
    options = {
        **_repository(repository, files=files),
        **_COMMON,
        "archive-async": "y",
        "archive-timeout": "5",
        "tls-server-address": "*",
        "tls-server-port": str(archiver.PORT),
        "tls-server-ca-file": f"{files}/{CERTIFICATE}",
        "tls-server-cert-file": f"{files}/{CERTIFICATE}",
        "tls-server-key-file": f"{files}/{KEY}",
        "tls-server-auth": f"{archiver.STANZA}={archiver.STANZA}",
    }
    return {
        CONFIG: _conf(options, _server()),
        CERTIFICATE: pair[CERTIFICATE],
        KEY: pair[KEY],
        **_opening(repository),
    }


_COMMON = {
    "compress-type": "zst",
    # An unanswering store is reported within seconds, not within the minute that is the default.
    "io-timeout": "5",
    "lock-path": "/tmp/pgbackrest/lock",
    "log-level-console": "warn",
    "log-level-file": "off",
    "spool-path": "/tmp/pgbackrest/spool",
}


def _server() -> dict[str, str]:
    return {
        "pg1-path": PGDATA,
        "pg1-socket-path": SOCKETS,
        "pg1-port": str(PORT),
        "pg1-user": SUPERUSER,
        "pg1-database": "postgres",
    }


def _repository(repository: Repository, *, files: str) -> dict[str, str]:
    access = repository.access
    found = {
        **store_options.options(access.store, _credentials(repository), files=files),
        "repo1-path": store_options.path(access.store, repository.path),
        "repo1-bundle": "y",
        "repo1-block": "y",
    }
    if access.ca is not None:
        found["repo1-storage-ca-file"] = f"{files}/{AUTHORITY}"
    if access.passphrase is not None:
        passphrase = repository.values[access.passphrase]
        found |= {"repo1-cipher-type": "aes-256-cbc", "repo1-cipher-pass": passphrase}
    return found


def _store(repository: Repository, *, read_only: bool) -> str:
    """Of S3 with its keys: a run asks such a store itself, and any other by pgBackRest."""
    store, keys = repository.access.store, _credentials(repository)
    signed = {
        "region": store.region,
        "accessKeyId": keys.get(ACCESS_KEY),
        "secretAccessKey": keys.get(SECRET_KEY),
    }
    return json.dumps(
        {
            "url": store.url,
            "endpoint": store.endpoint,
            **(signed if store.scheme == S3 else {}),
            "ca": repository.access.ca is not None,
            "path": repository.path,
            "readOnly": read_only,
        }
    )


def _credentials(repository: Repository) -> dict[str, str]:
    """The store's, by the keys of their Secret."""
    field = f"{repository.access.field}.credentialsSecretRef"
    return {named.key: value for named, value in repository.values.items() if named.field == field}


def _opening(repository: Repository) -> dict[str, str]:
    """The files that the options of the repository refer to."""
    ca, store = repository.access.ca, repository.access.store
    found = store_options.files_of(store, _credentials(repository))
    return found if ca is None else {**found, AUTHORITY: repository.values[ca]}


def _conf(options: Mapping[str, str], stanza: Mapping[str, str]) -> str:
    sections: Sequence[tuple[str, Mapping[str, str]]] = (("global", options), (archiver.STANZA, stanza))
    return "\n".join(
        f"[{name}]\n" + "".join(f"{option}={value}\n" for option, value in sorted(values.items()))
        for name, values in sections
    )
