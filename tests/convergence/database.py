"""A few real PostgreSQL servers for all the Postgresql resources of a sweep, each with a user of its own.

Every resource has another generated password for the operator's own role, and another certificate;
`ForwardTarget` sets those that are needed now. The servers archive their log from their start, by their
command line, which no resource changes, and into a store that takes everything: one server cannot archive for
some and not for others.
"""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from kindling.kinds import certificates, server_tls
from kindling.kinds.certificates import Pair
from kindling.kinds.postgresql import tls
from kindling.kinds.postgresql.config import HBA_FILE
from kindling.kinds.postgresql.initdb import PARAMETERS
from kindling.kinds.postgresql.spec import SUPERUSER
from psycopg import sql

from tests.apiserver.support.apiclient import Json
from tests.unit.operator.conftest import USER, Files, files_of_a_pod

ARCHIVING = ("archive_mode=on", "archive_command=true", "archive_timeout=15s")
# The rules of login are the operator's own. The tests come in by the socket, as the server's own user does.
IDENT = f"kindling {getpass.getuser()} {SUPERUSER}\n"
HOST = "localhost"
SERVED_SECONDS = 5.0
IDENT_FILE = "pg_ident.conf"
AGE_SECONDS = 60.0
SERVERS = 8
"""At most. One login at a time takes a server, and of 20 databases that share one some wait for longer than a
login may take.
"""


@contextmanager
def database() -> Iterator[Files]:
    """One server, by itself."""
    with _files() as files, _running(files):
        yield files


@dataclass
class Databases:
    """Servers that are copies of one another, started as they are needed. A namespace stays with the one that
    it has, until it is dropped. Its methods may be called from any thread.

    Where they are `apart`, each Pod of a namespace has a server of its own, which ends when that is dropped.
    """

    identifier: str
    version: str
    _template: Files
    _stack: ExitStack
    apart: bool = False
    _own: dict[str, OwnServer] = field(default_factory=dict)
    _servers: list[Files] = field(default_factory=list)
    _assigned: dict[str, Files] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, namespace: str, pod: str = "") -> Files:
        place = f"{namespace}/{pod}" if self.apart else namespace
        with self._lock:
            if place not in self._assigned:
                self._assigned[place] = self._start_own(place) if self.apart else self._next()
            return self._assigned[place]

    def assign_own(self, namespace: str) -> None:
        """It shares its server with no other namespace; where each Pod has one, that is so anyway."""
        if not self.apart:
            with self._lock:
                self._assigned[namespace] = self._start_own(namespace)

    def drop(self, *namespaces: str) -> None:
        """Drop what the operator created in them for their users, because each database takes disk space."""
        for namespace in namespaces:
            with self._lock:
                places = [place for place in self._assigned if place.partition("/")[0] == namespace]
                found = [(self._assigned.pop(place), self._own.pop(place, None)) for place in places]
            for files, own in found:
                if own is not None:
                    own.stack.close()
                else:
                    drop(files, namespace)

    def _next(self) -> Files:
        load = Counter(files.port for files in self._assigned.values())
        least = min(self._servers, key=lambda files: load[files.port], default=None)
        if least is not None and (load[least.port] == 0 or len(self._servers) == SERVERS):
            return least
        files = self._copy(self._stack)
        self._stack.enter_context(_running(files))
        self._servers.append(files)
        return files

    def mount(self, namespace: str, pod: Json, config: Mapping[str, str]) -> None:
        """The Pod has this ConfigMap; of consequence only where the servers are apart."""
        if (own := self._own.get(f"{namespace}/{pod['metadata']['name']}")) is not None:
            own.mount(pod, config)

    def _start_own(self, place: str) -> Files:
        # The stack of all ends those that nobody drops.
        stack = self._stack.enter_context(ExitStack())
        own = self._own[place] = OwnServer(self._copy(stack), stack)
        own.start()
        return own.files

    def _copy(self, stack: ExitStack) -> Files:
        files = stack.enter_context(_files())
        source, target = f"{self._template.mount}/.", str(files.mount)
        subprocess.run(["cp", "--archive", source, target], check=True, timeout=60)
        return files


@dataclass
class OwnServer:
    """A server of one Pod, with its ConfigMap: it reads a changed one again, and starts again with each Pod
    that is new.
    """

    files: Files
    stack: ExitStack
    _life: ExitStack = field(default_factory=ExitStack)
    _uid: str = ""
    _config: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> None:
        self.stack.push(self._life)
        self._life.enter_context(_running(self.files))

    def mount(self, pod: Json, config: Mapping[str, str]) -> None:
        uid = pod["metadata"]["uid"]
        if (uid, config) == (self._uid, self._config):
            return
        new = uid != self._uid
        self._uid, self._config = uid, config
        self._write(config)
        if not new:
            _execute(self.files, "SELECT pg_reload_conf()")
            return
        self._life.close()
        try:
            self._life.enter_context(_running(self.files))
        except AssertionError:
            # More memory, or a library, than this machine has.
            self._write({**config, PARAMETERS: ""})
            self._life.enter_context(_running(self.files))

    def _write(self, config: Mapping[str, str]) -> None:
        """Not whose data it has to be: it is a copy of the one that all have."""
        for name in (HBA_FILE, IDENT_FILE, PARAMETERS):
            text = config.get(name, "")
            if name == IDENT_FILE:
                text = text.replace(" postgres ", f" {USER} ") + IDENT
            path = self.files.root / "config" / name
            path.write_text(text)
            # PostgreSQL compares whole seconds with that of its last reload, which comes right now.
            os.utime(path, times=(time.time() - AGE_SECONDS,) * 2)


@contextmanager
def databases(*, apart: bool = False) -> Iterator[Databases]:
    with _files() as template, ExitStack() as stack:
        with _running(template):
            identifier = str(_fetchval(template, "SELECT system_identifier::text FROM pg_control_system()"))
            version = str(_fetchval(template, "SHOW server_version")).partition(" ")[0]
        made = Databases(identifier, version, template, stack, apart)
        _RUNNING.append(made)
        yield made
        _RUNNING.remove(made)


@contextmanager
def _files() -> Iterator[Files]:
    with files_of_a_pod() as files:
        with (files.root / "config" / IDENT_FILE).open("a") as ident:
            ident.write(IDENT)
        _write(files, *_first())
        yield files


def _running(files: Files) -> AbstractContextManager[None]:
    return files.running(*ARCHIVING, *files.words(tls.SETTINGS[1::2]))


_RUNNING: list[Databases] = []


def identifier() -> str:
    """PostgreSQL's system identifier of all the servers that run."""
    return _RUNNING[0].identifier


def lets_in(files: Files, *, user: str, password: str) -> bool:
    """Whether the user can log in to the database of that name."""
    try:
        _execute(files, "SELECT 1", user, password=password, database=user)
    except psycopg.OperationalError:
        return False
    return True


def drop(files: Files, *users: str) -> None:
    """Drop what the operator created for these users, because each database takes disk space."""
    for user in users:
        for name in (user, f"{user}.more"):
            _execute(files, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        _execute(files, f'DROP ROLE IF EXISTS "{user}", "{user}_a", "{user}_b"')


def set_superuser_password(files: Files, password: str) -> None:
    """From now on the operator's own role has this one."""
    _execute(files, f"ALTER ROLE {SUPERUSER} PASSWORD {sql.quote(password)}")


def set_certificate(files: Files, pair: Pair, authority: str) -> None:
    """From now on the server serves this one."""
    if (files.root / "tls" / server_tls.CERTIFICATE).read_text() == pair.certificate:
        return
    _write(files, pair, authority)
    _execute(files, "SELECT pg_reload_conf()")
    deadline = time.monotonic() + SERVED_SECONDS
    while not _serves(files) and time.monotonic() < deadline:
        time.sleep(0.05)


def _first() -> tuple[Pair, str]:
    """What is served before any resource has a server."""
    now = datetime.now(UTC)
    made = certificates.make_authority(b"first", name="first", now=now)
    life = timedelta(days=1)
    pair = certificates.make_server(b"first", authority=made, name=HOST, hosts=[HOST], now=now, life=life)
    return pair, made.certificate


def _write(files: Files, pair: Pair, authority: str) -> None:
    texts = {
        server_tls.CERTIFICATE: pair.certificate,
        server_tls.KEY: pair.key,
        server_tls.AUTHORITY: authority,
    }
    for name, text in texts.items():
        path = files.root / "tls" / name
        path.write_text(text)
        path.chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(path, USER)


def _serves(files: Files) -> bool:
    """Whether it serves one by the present authority: no earlier does it ask for a password."""
    try:
        psycopg.connect(
            host="127.0.0.1", port=files.port, user="nobody-of-this-name", password="x", dbname="template1",
            sslmode="verify-ca", sslrootcert=str(files.root / "tls" / server_tls.AUTHORITY),
        ).close()  # fmt: skip
    except psycopg.OperationalError as error:
        return "password authentication failed" in str(error)
    return True


def _execute(
    files: Files, statement: str, user: str = SUPERUSER, *, password: str = "", database: str = "template1"
) -> None:
    with _connection(files, user, password=password, database=database) as connection:
        connection.execute(statement.encode())


def _fetchval(files: Files, query: str) -> object:
    with _connection(files, SUPERUSER, password="", database="template1") as connection:
        row = connection.execute(query.encode()).fetchone()
        return row[0] if row else None


def _connection(
    files: Files, user: str, *, password: str, database: str
) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(
        host="127.0.0.1" if password else str(files.root / "sockets"),
        port=files.port,
        user=user,
        password=password,
        dbname=database,
        sslmode="disable",
        autocommit=True,
    )
