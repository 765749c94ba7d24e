"""The repository in the store: its path, and the files by which pgBackRest and a run find and open it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kindling.kinds import reasons
from kindling.kinds.backup import spec as specs
from kindling.kinds.backup.spec import ACCESS_KEY, SECRET_KEY, Access, Spec
from kindling.kinds.base import Observed, Problem
from kindling.kinds.postgresql import archiver
from kindling.kinds.postgresql.initdb import PGDATA
from kindling.kinds.postgresql.service import PORT
from kindling.kinds.postgresql.spec import SUPERUSER
from kindling.kinds.postgresql.started import SOCKETS
from kindling.kube.resources import SECRET, Ref

FILES = "/etc/kindling/backup"
CONFIG, STORE, CERTIFICATE, KEY, AUTHORITY = (
    archiver.CONFIG_FILE, "store.json", "tls.crt", "tls.key", "ca.crt"
)  # fmt: skip
LONGEST_SECRET = 65536


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A repository with what opens it. `path` is absolute in the bucket; the Secrets' values are hidden."""

    access: Access
    path: str
    values: Mapping[specs.Reference, str]

    def __repr__(self) -> str:
        return f"Repository(path={self.path!r})"


def path(spec: Spec, *, namespace: str, identifier: str) -> str:
    """Of the data, not of the name alone: other data under an old name has a repository of its own."""
    return f"{spec.store.prefix}/{namespace}/{spec.database}/{identifier}"


def problem(access: Access, observed: Observed, *, namespace: str) -> Problem | None:
    """Which Secret or key is missing, or cannot be a line of a file; never what it holds."""
    for named in specs.references(access):
        field = f"{named.field}.name {named.name!r}"
        if Ref(SECRET, namespace, named.name) not in observed.objects:
            return Problem(
                reason=reasons.SECRET_NOT_FOUND,
                message=f"{field}: no such Secret exists in namespace {namespace}; create it with the key "
                f"{named.key!r} (`kubectl create secret generic {named.name} --from-literal={named.key}=… "
                f"-n {namespace}`).",
            )
        value = observed.secret(namespace=namespace, name=named.name).get(named.key)
        if not value:
            return Problem(
                reason=reasons.SECRET_NOT_FOUND,
                message=f"{field}: that Secret has no text under the key {named.key!r}; put it there.",
            )
        if len(value) > LONGEST_SECRET or (named != access.ca and not _is_line(value)):
            return Problem(
                reason=reasons.INVALID_SECRET,
                message=f"{field}: what stands under {named.key!r} (not shown) is not one line of text; a "
                "file's last line break counts too. Write it without one.",
            )
        if named == access.ca and "-----BEGIN CERTIFICATE-----" not in value:
            return Problem(
                reason=reasons.INVALID_SECRET,
                message=f"{field}: what stands under {named.key!r} is no certificate in PEM; put the "
                "authority's certificate there.",
            )
    return None


def read(access: Access, observed: Observed, *, namespace: str, path: str) -> Repository | None:
    """None where a Secret or a key of it is missing."""
    if problem(access, observed, namespace=namespace) is not None:
        return None
    values = {
        named: observed.secret(namespace=namespace, name=named.name)[named.key]
        for named in specs.references(access)
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
        **_authority(repository),
    }


def reading_files(repository: Repository) -> dict[str, str]:
    """What a run has that only reads from the repository, and has its data beside it."""
    options = {**_repository(repository, files=FILES), **_COMMON, "process-max": "2"}
    return {
        CONFIG: _conf(options, {"pg1-path": PGDATA}),
        STORE: _store(repository, read_only=True),
        **_authority(repository),
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
        **_authority(repository),
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
    access, store = repository.access, repository.access.store
    found = {
        "repo1-type": "s3",
        "repo1-path": repository.path,
        "repo1-s3-bucket": store.bucket,
        "repo1-s3-endpoint": store.host if store.tls else f"http://{store.host}",
        "repo1-s3-region": store.region,
        "repo1-s3-uri-style": "path" if store.endpoint else "host",
        "repo1-s3-key": _credential(repository, ACCESS_KEY),
        "repo1-s3-key-secret": _credential(repository, SECRET_KEY),
        "repo1-storage-port": str(store.port),
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
    store = repository.access.store
    return json.dumps(
        {
            "url": store.url,
            "endpoint": store.endpoint,
            "region": store.region,
            "accessKeyId": _credential(repository, ACCESS_KEY),
            "secretAccessKey": _credential(repository, SECRET_KEY),
            "ca": repository.access.ca is not None,
            "path": repository.path,
            "readOnly": read_only,
        }
    )


def _credential(repository: Repository, key: str) -> str:
    (found,) = (
        value
        for named, value in repository.values.items()
        if named.field == f"{repository.access.field}.credentialsSecretRef" and named.key == key
    )
    return found


def _authority(repository: Repository) -> dict[str, str]:
    ca = repository.access.ca
    return {} if ca is None else {AUTHORITY: repository.values[ca]}


def _conf(options: Mapping[str, str], stanza: Mapping[str, str]) -> str:
    sections: Sequence[tuple[str, Mapping[str, str]]] = (("global", options), (archiver.STANZA, stanza))
    return "\n".join(
        f"[{name}]\n" + "".join(f"{option}={value}\n" for option, value in sorted(values.items()))
        for name, values in sections
    )


def _is_line(value: str) -> bool:
    """Whether pgBackRest reads it as it is written: it takes spaces at the ends away."""
    return value.isprintable() and value == value.strip()
