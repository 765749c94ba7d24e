"""The login to a running PostgreSQL, and what makes it possible: the role, its password, its database.

The rest of the operator's SQL is in `parameters`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import psycopg

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult
from kindling.kinds.postgresql import identity
from kindling.kinds.postgresql.init_sql import FACT
from kindling.kinds.postgresql.login import Login
from kindling.kinds.postgresql.serve import RESTARTED
from kindling.kinds.postgresql.spec import MODE, resumed
from kindling.prober import activity, hba, init_sql, logins, parameters, restart, tls
from kindling.prober.results import (
    disk_full,
    failed,
    init_sql_failed,
    not_responding,
    other_data,
    superuser_rejected,
    too_many,
    unsafe,
    untrusted,
)
from kindling.prober.scram import verifier
from kindling.prober.sessions import (
    CONNECT_SECONDS,
    FAILURES,
    TEMPLATE,
    WHOSE,
    Address,
    LoginRejected,
    Session,
    UnsafeAuthentication,
    UntrustedCertificate,
    admits_plain,
    certificate_of,
    execute,
    fetchval,
    identifier,
    session,
)
from kindling.prober.tls import trust_of

OWNS = "SELECT pg_get_userbyid(datdba) = current_user FROM pg_database WHERE datname = current_database()"
# What provisioning can fix: wrong password, no such role or not admitted, no such database, no right.
WRONG_PASSWORD, NOT_ADMITTED, NO_RIGHT = "28P01", "28000", "42501"
PROVISIONABLE = frozenset({WRONG_PASSWORD, NOT_ADMITTED, "3D000", NO_RIGHT})
TOO_MANY = "53300"
RETRY_SECONDS = 0.5
_VERSION = re.compile(r"[1-9][0-9]{0,2}([^0-9\s]\S{0,58})?")


class _SuperuserRejected(Exception):
    """The superuser's login was refused."""


class _OtherData(Exception):
    """The server has data of this system identifier, and should have another's."""


def sync(address: Address, login: Login, *, provision_first: bool = False) -> ExternalResult:
    """Log in as the user; where that fails, make role and database as they should be and log in again. Where
    nothing is known of the data, or with `provision_first`, these are made first.

    Then bring the parameters. Where the login says not to provision, it is only looked at.
    Never raises for what a server may answer: it comes back as an Answer, whose facts are `login`
    (whether the user gets in), `system_identifier` (a number, as text), `version`, `init_sql` (when it was
    run), `rules` (whether the rules of login are in force), `hba` (what they are), `pending_restart`,
    `restarted` (the parameters that it was restarted for) and, of what is only looked at, `differing`: the
    parameters that differ, each with whether it needs a restart.
    """
    facts: dict[str, Any] = {}
    try:
        try:
            problem = _logged_in(address, login, facts, provision_first=provision_first)
        except LoginRejected as error:
            if error.state != TOO_MANY:
                raise
            return _by_the_reserve(address, login, facts)
        if problem is not None and not login.provision and login.paused_by == MODE:
            # What is planned is more than the login: the parameters are compared all the same.
            return replace(problem, reason=reasons.PAUSED, facts=_parameters(address, login, facts).facts)
        return problem or _parameters(address, login, facts)
    except _OtherData as error:
        return other_data(login, str(error))
    except _SuperuserRejected:
        return superuser_rejected(login, facts=facts)
    except logins.NotOurs as error:
        return ExternalResult(ok=False, reason=reasons.NAME_CONFLICT, message=f"{error}.", facts=facts)
    except init_sql.InitSQLFailed as error:
        return init_sql_failed(login, error, facts=facts)
    except UnsafeAuthentication:
        return unsafe(login)
    except UntrustedCertificate as error:
        return untrusted(login, error)
    except TimeoutError:
        return replace(not_responding(login, CONNECT_SECONDS), facts=facts)
    except FAILURES as error:
        return _failure(login, error, facts)


def _by_the_reserve(address: Address, login: Login, facts: dict[str, Any]) -> ExternalResult:
    """The server is full, but for a few places that are the superuser's, who can make sure of the role."""
    facts["login"] = True
    try:
        with _superuser(address, login) as connection:
            _compare(connection, login, facts)
            _note_version(connection, facts)
            if login.provision:
                _provision(connection, login)
        found = _parameters(address, login, facts)
    except LoginRejected as error:
        if error.state != TOO_MANY:
            raise
        return too_many(login, facts=facts, ok=False)
    return too_many(login, facts=facts, ok=login.provision) if found.ok else found


def check_health(address: Address, login: Login) -> ExternalResult:
    """Whether the server still answers, lets the user in, has its database, and gets it onto the disk.

    What it costs the server: one login, and where nothing is paused a few dozen bytes of WAL, a transaction
    id and one flush. What failed other than by a time-out is tried once more.
    """
    result = _check_once(address, login)
    if not result.ok and result.reason != reasons.NOT_RESPONDING:
        time.sleep(RETRY_SECONDS)
        result = _check_once(address, login)
    return result


def _check_once(address: Address, login: Login) -> ExternalResult:
    facts: dict[str, Any] = {}
    try:
        with _as_user(address, login) as connection:
            _compare(connection, login, facts)
            _note_certificate(connection, facts)
            facts["login"] = bool(fetchval(connection, OWNS))
            _note_version(connection, facts)
            if not facts["login"]:
                raise LoginRejected(
                    "", f"database {login.database!r} is not owned by {login.database!r} any more"
                )
            if login.provision and not fetchval(connection, "SELECT pg_is_in_recovery()"):
                _flush(connection)
            if login.looks:
                # After a first statement: the server has counted this session by then.
                facts[activity.LOOKED] = activity.look(connection, login)
            return ExternalResult(ok=True, facts=facts)
    except LoginRejected as error:
        if error.state == TOO_MANY:
            return too_many(login, facts={"login": True}, ok=True)
        return _failure(login, error, facts)
    except _OtherData as error:
        return other_data(login, str(error))
    except UnsafeAuthentication:
        return unsafe(login)
    except UntrustedCertificate as error:
        return untrusted(login, error)
    except TimeoutError:
        return not_responding(login, CONNECT_SECONDS)
    except FAILURES as error:
        return _failure(login, error, facts)


def _flush(connection: Session) -> None:
    """A commit that must reach the disk here, whether or not it is copied elsewhere."""
    try:
        execute(
            connection,
            "BEGIN; SET LOCAL synchronous_commit = local; "
            "SELECT pg_logical_emit_message(true, 'kindling', ''); COMMIT",
        )
    except psycopg.Error as error:
        if error.sqlstate not in ("42501", "42883"):  # a server where nobody may, or which has none
            raise


def warm_up(port: int) -> None:
    """Load what a login loads, by one at a port of this machine where nobody listens."""
    verifier("")
    tls.warm_up()
    for ca in (None, ""):
        sync(
            ("localhost", port),
            Login(
                host="localhost", port=0, namespace="", pod="", user="-", password="-", superuser="-",
                superuser_password=None, ca=ca, cache_key=None,
            ),
        )  # fmt: skip


def _logged_in(
    address: Address, login: Login, facts: dict[str, Any], *, provision_first: bool
) -> ExternalResult | None:
    """None once the user gets in, and then `facts` say so."""
    made = login.provision and (
        _made(address, login, facts) if provision_first else _made_new(address, login, facts)
    )
    if _can_log_in(address, login, facts):
        return None
    if not login.provision:
        return ExternalResult(
            ok=False,
            reason=reasons.LOGIN_FAILED,
            message=f"The server does not let {login.user!r} in, and {login.paused_by} keeps that from "
            f"being fixed: {resumed(login.paused_by)}.",
        )
    if not made and _made(address, login, facts) and _can_log_in(address, login, facts):
        return None
    return ExternalResult(
        ok=False,
        reason=reasons.LOGIN_FAILED,
        message=f"The server does not let {login.user!r} in though its role was just set: "
        f"check what else changes roles or pg_hba.conf on {login.host}.",
    )


def _made_new(address: Address, login: Login, facts: dict[str, Any]) -> bool:
    """The same for a server whose data nobody has seen yet. Most likely it is new and has no such role: the
    user's login would be a FATAL error, the first thing in its log. False where the superuser is rejected:
    of data from elsewhere, the user's password may be right.
    """
    if login.identifier is not None:
        return False
    with suppress(_SuperuserRejected):
        return _made(address, login, facts)
    return False


def _made(address: Address, login: Login, facts: dict[str, Any]) -> bool:
    """True once role and database are as they should be; what is wrong is raised."""
    with _superuser(address, login) as connection:
        _compare(connection, login, facts)
        is_new = _provision(connection, login)
    if is_new:
        _run_init_sql(address, login)
    return True


def _can_log_in(address: Address, login: Login, facts: dict[str, Any]) -> bool:
    try:
        with _as_user(address, login) as connection:
            _compare(connection, login, facts)
            _note_certificate(connection, facts)
            owns = bool(fetchval(connection, OWNS))
            facts["login"] = owns
            _note_version(connection, facts)
            return owns
    except (LoginRejected, psycopg.Error) as error:
        if _state(error) not in PROVISIONABLE:
            raise
        return False


def _failure(login: Login, error: Exception, facts: dict[str, Any]) -> ExternalResult:
    if _state(error) == parameters.DISK_FULL:
        return disk_full(error, facts=facts)
    return failed(login, error, facts=facts)


def _state(error: Exception) -> str | None:
    """The SQLSTATE, of an error that has one."""
    if isinstance(error, LoginRejected):
        return error.state
    return error.sqlstate if isinstance(error, psycopg.Error) else None


def _note_version(connection: Session, facts: dict[str, Any]) -> None:
    """`17.12` of `17.12 (Debian 17.12-1)`; what is no version is not passed on."""
    said = (connection.pgconn.parameter_status(b"server_version") or b"").decode("ascii", "replace")
    if (word := said.partition(" ")[0]) and _VERSION.fullmatch(word):
        facts["version"] = word


def _note_certificate(connection: Session, facts: dict[str, Any]) -> None:
    if (found := certificate_of(connection)) is not None:
        facts["certificate"] = found


def _compare(connection: Session, login: Login, facts: dict[str, Any]) -> None:
    """See whose data it is, before anything is made in it.

    :raises _OtherData: where it is not as it should be.
    """
    try:
        found = str(fetchval(connection, WHOSE))
    except psycopg.Error as error:
        if error.sqlstate != NO_RIGHT:
            raise
        return  # taken from the users; the superuser's session sees it
    if identity.FORM.fullmatch(found) is None:
        return
    if login.identifier not in (None, found):
        raise _OtherData(found)
    facts["system_identifier"] = found


def _provision(connection: Session, login: Login) -> bool:
    """Whether the database waits for its first SQL, and has another name until then."""
    database, secret = identifier(login.database), verifier(login.password)
    exists = fetchval(connection, "SELECT 1 FROM pg_roles WHERE rolname = %s", login.database)
    if login.owner:
        if not exists:
            execute(connection, f"CREATE ROLE {database} NOLOGIN")
        logins.provision(connection, login, secret)
    else:
        verb = "ALTER" if exists else "CREATE"
        execute(connection, f"{verb} ROLE {database} LOGIN PASSWORD '{secret}' VALID UNTIL 'infinity'")
    exists = fetchval(connection, "SELECT 1 FROM pg_database WHERE datname = %s", login.database)
    if not exists and login.init_sql is not None:
        init_sql.prepare(connection, login)
        return True
    execute(
        connection,
        f"ALTER DATABASE {database} OWNER TO {database}"
        if exists
        else f"CREATE DATABASE {database} OWNER {database}",
    )
    return False


def _run_init_sql(address: Address, login: Login) -> None:
    try:
        init_sql.run(address, login)
    except (init_sql.InitSQLFailed, UnsafeAuthentication, UntrustedCertificate, *FAILURES):
        with _superuser(address, login) as connection:
            init_sql.drop(connection)
        raise
    with _superuser(address, login) as connection:
        init_sql.finish(connection, login)


def _parameters(address: Address, login: Login, facts: dict[str, Any]) -> ExternalResult:
    """The rules of login are only looked at: `kindling.prober.reload` has them read again."""
    rules = None
    try:
        with _superuser(address, login) as connection:
            _compare(connection, login, facts)
            rules = hba.look(connection, login.hba) if login.hba is not None else None
            if login.init_sql is not None and (at := init_sql.noted(connection, login)) is not None:
                facts[FACT] = at
            if login.provision:
                wanted = login.parameters, login.defaults
                waiting = parameters.sync(connection, *wanted)
                if waiting and login.restart:
                    renewed = partial(_superuser, address, login)
                    if restart.restart(connection, renewed, *wanted):
                        facts[RESTARTED] = waiting
                        with renewed() as another:
                            waiting = parameters.sync(another, *wanted)
            elif names := parameters.difference(connection, login.parameters, login.defaults):
                message = (
                    f"The server runs with other parameters than the spec ({', '.join(sorted(names))}), and "
                    f"{login.paused_by} keeps it so: {resumed(login.paused_by)}."
                )
                facts["differing"] = parameters.costs(connection, names)
                return ExternalResult(ok=False, reason=reasons.PAUSED, message=message, facts=facts)
            else:
                waiting = parameters.pending(connection)
    except parameters.InvalidParameters as error:
        message = (
            f"{error}. None of the parameters was changed; fix or remove what is wrong "
            f"(`kubectl logs {login.pod} -c initdb -n {login.namespace}` shows a start that failed)."
        )
        return ExternalResult(ok=False, reason=reasons.INVALID_PARAMETER, message=message, facts=facts)
    except _SuperuserRejected:
        if login.parameters or login.hba is not None:
            raise
        return ExternalResult(ok=True, facts=facts)  # nothing is asked that would need it
    if login.tls_required is not None and (admits := admits_plain(address, login.user)) is not None:
        facts["rules"] = admits is not login.tls_required
    if rules is not None:
        facts |= {**rules.facts, "rules": facts.get("rules", True) and rules.in_force}
    if waiting:
        follows = "it follows by itself." if login.provision else f"{resumed(login.paused_by)} to have it."
        message = f"A restart puts {', '.join(waiting)} into effect; {follows}"
        return ExternalResult(
            ok=False,
            reason=reasons.RESTART_PENDING,
            message=message,
            facts={**facts, "pending_restart": waiting},
        )
    return ExternalResult(ok=True, facts=facts)


def _as_user(address: Address, login: Login) -> AbstractContextManager[Session]:
    return session(
        address,
        user=login.user,
        password=login.password,
        database=login.database,
        trust=trust_of(login),
    )


@contextmanager
def _superuser(address: Address, login: Login) -> Iterator[Session]:
    """:raises _CannotEnter: when the superuser is refused."""
    if login.superuser_password is None:
        raise _SuperuserRejected
    try:
        with session(
            address,
            user=login.superuser,
            password=login.superuser_password,
            database=TEMPLATE,
            trust=trust_of(login),
            quiet=True,
        ) as connection:
            yield connection
    except LoginRejected as error:
        if error.state not in (WRONG_PASSWORD, NOT_ADMITTED):
            raise
        raise _SuperuserRejected from error
