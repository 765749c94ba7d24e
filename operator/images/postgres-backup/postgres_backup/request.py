"""What a run is asked for, and what it finds mounted; read and judged in one place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from postgres_backup.outcome import INVALID_REQUEST, Failed
from postgres_backup.targets import Target

BACKUP_FILES = Path("/etc/kindling/backup")
CONFIG = BACKUP_FILES / "pgbackrest.conf"
STORE = BACKUP_FILES / "store.json"
CA = BACKUP_FILES / "ca.crt"
REQUEST = Path("/etc/kindling/request/request.json")
SUPERUSER_PASSWORD = Path("/etc/kindling/superuser/password")
"""Only where a restore is to set it: the new Postgresql has a Secret of its own."""

S3, CLAIM = "s3", "pvc"
SCHEMES = (S3, "gs", "azblob", CLAIM)
VOLUME = Path("/var/lib/kindling/store")
"""Where the volume of a store is mounted that is one."""
TARGET_FILES = Path("/etc/kindling/target")
"""Of a run that loads databases into a Postgresql: the superuser's password, and with TLS the authority of
the server's certificate.
"""

SUPERUSER = "kindling"
AMCHECK = ("Off", "Indexes", "Heap")
SECONDS = 6 * 3600
# What a server must have at least as large as the one whose WAL it replays, or the same as it.
SETTINGS = (
    "max_connections",
    "max_worker_processes",
    "max_wal_senders",
    "max_prepared_transactions",
    "max_locks_per_transaction",
    "shared_preload_libraries",
)


@dataclass(frozen=True)
class Query:
    database: str
    sql: str
    expect: str | None


@dataclass(frozen=True)
class Database:
    """One to be loaded, as `alias`. With `tables`, pairs of schema and name, it has no others."""

    name: str
    alias: str
    tables: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Into:
    """The server that databases are loaded into. With `tls`, it has to prove to be this host."""

    host: str
    port: int
    tls: bool


@dataclass(frozen=True)
class Request:
    """The parts that an action has no use for are empty.

    `prepares` alone: the place in the store is made ready, and the backup waits for its schedule.
    `timeline` is the source's own, where it is not that of the backup: after an in-place restore. `in_place`:
    what is restored takes the place of what the volume has, and `uid` is the Restore's; so it is where
    `databases` are loaded `into` a server. `wake` is the host of a server that starts for a connection.
    """

    full: bool = False
    prepares: bool = False
    full_every: int | None = None
    uid: str = ""
    amcheck: str = "Off"
    queries: tuple[Query, ...] = ()
    query_seconds: int = 60
    settings: Mapping[str, str] = field(default_factory=dict)
    target: Target | None = None
    label: str | None = None
    timeline: int | None = None
    in_place: bool = False
    databases: tuple[Database, ...] = ()
    into: Into | None = None
    wake: str = ""
    seconds: int = SECONDS

    @staticmethod
    def read(given: Mapping[str, Any]) -> Request:
        """:raises Failed: for the first part that cannot be used."""
        target = given.get("target")
        kind = _one_of(given, "type", ("full", "incremental", "none"))
        return Request(
            full=kind == "full",
            prepares=kind == "none",
            full_every=_number(given, "fullEverySeconds"),
            uid=str(given.get("uid", "")),
            amcheck=_one_of(given, "amcheck", AMCHECK),
            queries=tuple(_query(number, each) for number, each in enumerate(given.get("queries") or [])),
            query_seconds=_number(given, "querySeconds") or 60,
            settings={
                name: str(value) for name, value in (given.get("settings") or {}).items() if name in SETTINGS
            },
            # Of a backup it is the name of the database.
            target=None if isinstance(target, str) else Target.read(target),
            label=given.get("set") or None,
            timeline=_number(given, "timeline"),
            in_place=given.get("inPlace") is True,
            databases=tuple(
                _database(number, each) for number, each in enumerate(given.get("databases") or [])
            ),
            into=_into(given.get("into")),
            wake=str(given.get("wake") or ""),
            seconds=_number(given, "timeoutSeconds") or SECONDS,
        )

    @staticmethod
    def load(file: Path = REQUEST) -> Request:
        return Request.read(_json(file))


@dataclass(frozen=True)
class Folder:
    """Where the backups are on a volume that is mounted at `volume`."""

    volume: Path
    path: Path


@dataclass(frozen=True)
class S3Store:
    """Where the backups are. `endpoint` empty is the real cloud's; `path` is the key of the repository."""

    bucket: str
    path: str
    endpoint: str
    region: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    ca: str | None


def store_of(given: Mapping[str, Any], *, ca: Path = CA) -> S3Store | Folder | None:
    """None for a store that the engine is asked about: its configuration has all of it."""
    try:
        url = urlsplit(given["url"])
        if url.scheme not in SCHEMES or not url.netloc:
            raise Failed(
                INVALID_REQUEST,
                "targetURL is none that can be used: write it as s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, "
                "azblob://CONTAINER/PREFIX or pvc://CLAIM/PREFIX",
            )
        if url.scheme == CLAIM:
            return Folder(volume=VOLUME, path=VOLUME / str(given["path"]).strip("/"))
        if url.scheme != S3:
            return None
        return S3Store(
            bucket=url.netloc,
            path=str(given["path"]).strip("/"),
            endpoint=given.get("endpoint") or "",
            region=given.get("region") or "us-east-1",
            access_key=given["accessKeyId"],
            secret_key=given["secretAccessKey"],
            ca=str(ca) if given.get("ca") else None,
        )
    except KeyError as error:
        raise Failed(INVALID_REQUEST, f"store.json lacks {error}: the operator makes it again") from None


def load_store(file: Path = STORE) -> S3Store | Folder | None:
    return store_of(_json(file))


@dataclass(frozen=True)
class EngineConfig:
    """What we need to know of the engine's own configuration: nothing that changes what it does."""

    database: str
    secrets: tuple[str, ...] = field(repr=False)

    @staticmethod
    def load(file: Path = CONFIG) -> EngineConfig:
        parser = ConfigParser(interpolation=None, strict=False, delimiters=("=",))
        try:
            parser.read_string(file.read_text())
        except (OSError, ConfigError) as error:
            raise Failed(INVALID_REQUEST, _unreadable(file, error)) from None
        found = {name: value for section in parser.sections() for name, value in parser.items(section)}
        secret = ("repo1-cipher-pass", "repo1-s3-key", "repo1-s3-key-secret", "repo1-azure-key")
        return EngineConfig(
            found.get("pg1-host", ""), tuple(found[name] for name in secret if found.get(name))
        )


def _unreadable(file: Path, error: Exception) -> str:
    return f"{file.name} cannot be read ({type(error).__name__}): the operator makes it again"


def _json(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise Failed(INVALID_REQUEST, _unreadable(file, error)) from None
    if not isinstance(found, dict):
        raise Failed(INVALID_REQUEST, f"{file.name} is no JSON object: the operator makes it again")
    return found


def _one_of(given: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    """The first of them where it is not given."""
    value = given.get(name) or allowed[0]
    if value not in allowed:
        raise Failed(INVALID_REQUEST, f"{name} is none of {', '.join(allowed)}")
    return str(value)


def _number(given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise Failed(INVALID_REQUEST, f"{name} must be a number from 1 on")
    return value


def _query(number: int, given: Any) -> Query:
    try:
        expect = given.get("expect")
        return Query(str(given["database"]), str(given["sql"]), None if expect is None else str(expect))
    except (KeyError, AttributeError):
        raise Failed(INVALID_REQUEST, f"queries[{number}] needs database and sql") from None


def _database(number: int, given: Any) -> Database:
    try:
        name = str(given["name"])
        tables = [str(table).partition(".") for table in given.get("tables") or []]
    except (KeyError, AttributeError, TypeError):
        raise Failed(INVALID_REQUEST, f"databases[{number}] needs name") from None
    if not all(schema and table for schema, _, table in tables):
        raise Failed(INVALID_REQUEST, f"databases[{number}].tables has one without its schema")
    pairs = tuple((schema, table) for schema, _, table in tables)
    return Database(name, str(given.get("as") or name), pairs)


def _into(given: Any) -> Into | None:
    if given is None:
        return None
    try:
        return Into(str(given["host"]), int(given.get("port") or 5432), given.get("tls") is not False)
    except (KeyError, AttributeError, TypeError, ValueError):
        raise Failed(INVALID_REQUEST, "into needs host, and its port is a number") from None
