"""The server of a Postgresql that databases are loaded into, spoken to as its superuser.

A database is loaded under a temporary name, which follows from the Restore, and all get their own names in
one transaction: a run that ends anywhere leaves none of them, and the next one drops what it left.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from postgres_backup import load_words
from postgres_backup.outcome import INVALID_REQUEST, LOAD_FAILED, TARGET_EXISTS, Failed
from postgres_backup.request import SUPERUSER, TARGET_FILES, Into

PREFIX = "kindling_restore_"
MARK = "kindling.restore"
"""A setting of the superuser in a database that was loaded: the uid of the Restore. By it, a run says that
all is done, where the result of the one before was lost.
"""
OLDEST = 17
"""The release of the run's own programs: an older server need not take what they write."""
_PASSWORDS = Path("/tmp/kindling-load")
_MARKED = (
    "SELECT datname FROM pg_database JOIN pg_db_role_setting ON setdatabase = pg_database.oid"
    " JOIN pg_roles ON pg_roles.oid = setrole WHERE rolname = %s AND %s = ANY (setconfig)"
)


def temporary(uid: str, number: int) -> str:
    """The name of a database of this Restore until all are loaded."""
    return f"{_prefix(uid)}{number}"


def _prefix(uid: str) -> str:
    return f"{PREFIX}{uid.replace('-', '')[:16]}_"


class Destination:
    """What a run asks of that server. Each call raises `Failed`."""

    def __init__(self, into: Into, *, uid: str, files: Path = TARGET_FILES) -> None:
        self._uid = uid
        try:
            _write_password((files / "password").read_text())
        except OSError as error:
            raise Failed(
                INVALID_REQUEST,
                f"the superuser's password cannot be read ({type(error).__name__}): the operator makes its "
                "Secret again",
            ) from None
        tls: dict[str, str] = {"sslmode": "disable"}
        if into.tls:
            tls = {"sslmode": "verify-full", "sslrootcert": str(files / "ca.crt")}
        self._login: Mapping[str, Any] = {
            "host": into.host,
            "port": into.port,
            "user": SUPERUSER,
            "passfile": str(_PASSWORDS / "passfile"),
            "application_name": "kindling-restore",
            "connect_timeout": 10,
            "tcp_user_timeout": 60_000,
            **tls,
        }

    def login(self, database: str) -> str:
        """How a program connects to it; the password is in a file."""
        return make_conninfo(dbname=database, **self._login)

    def done(self) -> list[str]:
        """The databases that an earlier run of this Restore has loaded."""
        with self._asked() as connection:
            return [name for (name,) in connection.execute(_MARKED, (SUPERUSER, f"{MARK}={self._uid}"))]

    def check(self, names: Sequence[str]) -> None:
        """Whether it can take databases of these names."""
        with self._asked() as connection:
            release = connection.info.server_version // 10_000
            if release < OLDEST:
                raise Failed(
                    LOAD_FAILED,
                    f"the Postgresql runs release {release} of PostgreSQL, and the backup is of {OLDEST}: "
                    f"load into one of {OLDEST} or later",
                )
            found = connection.execute(
                "SELECT datname FROM pg_database WHERE datname = ANY (%s)", ([*names],)
            )
            if taken := sorted(name for (name,) in found):
                raise _exists(taken)

    def check_roles(self, roles: Sequence[str]) -> None:
        """Whether it has these roles, without which what they own could not be theirs."""
        with self._asked() as connection:
            present = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
        load_words.check_roles(sorted(set(roles) - present))

    def publish(self, names: Sequence[str]) -> None:
        """Have what was loaded under temporary names bear these: all of them, or none."""
        with self._asked() as connection, connection.transaction():
            for number, name in enumerate(names):
                loaded = sql.Identifier(temporary(self._uid, number))
                connection.execute(
                    sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} TO {}").format(
                        sql.Identifier(SUPERUSER), loaded, sql.SQL(MARK), sql.Literal(self._uid)
                    )
                )
                try:
                    connection.execute(
                        sql.SQL("ALTER DATABASE {} RENAME TO {}").format(loaded, sql.Identifier(name))
                    )
                except psycopg.errors.DuplicateDatabase:
                    raise _exists([name]) from None

    def clean(self) -> None:
        """Drop what bears a temporary name of this Restore."""
        with self._asked() as connection:
            found = connection.execute(
                "SELECT datname FROM pg_database WHERE starts_with(datname, %s)", (_prefix(self._uid),)
            )
            for (name,) in found.fetchall():
                connection.execute(
                    sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
                )

    @contextmanager
    def _asked(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        try:
            with psycopg.connect(self.login("postgres"), autocommit=True) as connection:
                yield connection
        except psycopg.Error as error:
            raise Failed(*load_words.of_destination(error.sqlstate, str(error))) from None

    def close(self) -> None:
        with suppress(OSError):
            shutil.rmtree(_PASSWORDS)


def _exists(names: Sequence[str]) -> Failed:
    what = f"database {names[0]} exists" if len(names) == 1 else f"databases {', '.join(names)} exist"
    return Failed(
        TARGET_EXISTS,
        f"{what} in the Postgresql already: nothing was changed; load under another name (as), or rename or "
        "drop what is there, then create another Restore",
    )


def _write_password(password: str) -> None:
    """Where programs find it, which are not to have it in their arguments."""
    shutil.rmtree(_PASSWORDS, ignore_errors=True)
    _PASSWORDS.mkdir(mode=0o700)
    escaped = password.replace("\\", "\\\\").replace(":", "\\:")
    (_PASSWORDS / "passfile").touch(mode=0o600)
    (_PASSWORDS / "passfile").write_text(f"*:*:*:{SUPERUSER}:{escaped}\n")
