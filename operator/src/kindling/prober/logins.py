"""The two logins of a default user on a running server: made, looked at, disabled.

What is asked for, and when, is in `kinds.postgresql.logins`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult
from kindling.kinds.postgresql import identity
from kindling.kinds.postgresql.login import Login
from kindling.kinds.postgresql.logins import ENABLED, MOST_SESSIONS, SESSIONS, LoginsRequest
from kindling.prober.items import NOTE, State
from kindling.prober.sessions import (
    FAILURES,
    WHOSE,
    Address,
    Session,
    UnsafeAuthentication,
    UntrustedCertificate,
    execute,
    fetch,
    fetchval,
    identifier,
    literal,
)
from kindling.prober.superuser import superuser

_COMMENT = "SELECT shobj_description(oid, 'pg_authid') FROM pg_roles WHERE rolname = %s"
_LIMIT = "SELECT rolconnlimit FROM pg_roles WHERE rolname = %s"
_SETTINGS = """
SELECT d.datname, c.setting FROM pg_db_role_setting s
JOIN pg_roles r ON r.oid = s.setrole
LEFT JOIN pg_database d ON d.oid = s.setdatabase
CROSS JOIN unnest(s.setconfig) AS c(setting)
WHERE r.rolname = %s AND c.setting !~ '^(role|session_authorization)='
  AND (s.setdatabase = 0 OR d.oid IS NOT NULL)
ORDER BY 1 NULLS FIRST, 2"""
# A role by hand, of a name of ours, has no such comment.
_LOOK = f"""
SELECT json_build_object(
  'enabled', (
    SELECT coalesce(json_agg(rolname), '[]') FROM pg_roles
    WHERE rolname::text IN (SELECT json_array_elements_text(%s::json)) AND rolcanlogin AND (
      rolname = %s OR starts_with(shobj_description(oid, 'pg_authid'), {literal(NOTE)}))),
  'sessions', (
    SELECT coalesce(json_agg(s), '[]') FROM (
      SELECT login, address, application, count FROM (
        SELECT usename AS login, coalesce(host(client_addr), 'local') AS address,
          application_name AS application, count(*) AS count,
          row_number() OVER (PARTITION BY usename ORDER BY count(*) DESC) AS place
        FROM pg_stat_activity
        WHERE usename::text IN (SELECT json_array_elements_text(%s::json)) AND usename <> %s
        GROUP BY usename, client_addr, application_name) grouped
      WHERE place <= {MOST_SESSIONS // 2} ORDER BY login, count DESC, address, application) s)
)"""


class NotOurs(Exception):
    """A role of this name is there, and the operator has not made it."""


class _OtherData(Exception):
    """The server has data of another system identifier."""


def provision(connection: Session, login: Login, secret: str) -> None:
    """Make the login, with that verifier; it becomes the owner of the database whenever it logs in.

    :raises NotOurs: where a role of its name is there that the operator has not made.
    """
    name, owner = identifier(login.user), identifier(login.owner)
    found = fetch(connection, _COMMENT, login.user)
    state = _state(connection)
    if found and state.note(found[0][0]) is None:
        raise NotOurs(
            f"role {login.user!r} exists, and the operator has not made it: rename it, or hand it over with "
            f"COMMENT ON ROLE {name} IS {state.noted()}"
        )
    limit, settings = fetchval(connection, _LIMIT, login.owner), fetch(connection, _SETTINGS, login.owner)
    left = {database for database, _ in fetch(connection, _SETTINGS, login.user) if database}
    statements = [
        f"{'ALTER' if found else 'CREATE'} ROLE {name} LOGIN PASSWORD '{secret}' VALID UNTIL 'infinity' "
        f"CONNECTION LIMIT {int(limit)}",
        f"GRANT {owner} TO {name}",
        f"ALTER ROLE {name} RESET ALL",
        *(f"ALTER ROLE {name} IN DATABASE {identifier(database)} RESET ALL" for database in sorted(left)),
        *(statement for setting in settings for statement in _as_the_owner(name, *setting)),
        f"ALTER ROLE {name} SET role = {literal(login.owner)}",
        f"COMMENT ON ROLE {name} IS {state.noted()}",
    ]
    # One transaction: a login is never half of what it is to be.
    execute(connection, "; ".join(statements))


def _as_the_owner(name: str, database: str | None, setting: str) -> list[str]:
    """What was set for the owner with ALTER ROLE … SET is in force for this login too.

    By way of the session, whose value PostgreSQL itself quotes: that of a list cannot be one string.
    """
    word, _, value = setting.partition("=")
    where = f" IN DATABASE {identifier(database)}" if database else ""
    return [
        f"SELECT set_config({literal(word)}, {literal(value)}, true)",
        f"ALTER ROLE {name}{where} SET {'.'.join(map(identifier, word.split('.')))} FROM CURRENT",
    ]


def ask(address: Address, request: LoginsRequest) -> ExternalResult:
    """Disable what is to be, as far as nobody uses it, and look. Never raises for what a server answers."""
    try:
        with superuser(address, request) as connection:
            found = str(fetchval(connection, WHOSE))
            if request.identifier not in (None, found):
                raise _OtherData
            facts = _look(connection, request)
            used = {str(item["login"]) for item in facts[SESSIONS]}
            idle = [name for name in request.disable if name in facts[ENABLED] and name not in used]
            if idle:
                # Without a password as well: whoever enables it again gives it one.
                execute(
                    connection,
                    "; ".join(f"ALTER ROLE {identifier(name)} NOLOGIN PASSWORD NULL" for name in idle),
                )
                facts = _look(connection, request)
    except (UnsafeAuthentication, UntrustedCertificate, TimeoutError, _OtherData, *FAILURES) as error:
        return ExternalResult(ok=False, reason=reasons.NOT_RESPONDING, message=type(error).__name__)
    return ExternalResult(ok=True, facts=facts)


def _look(connection: Session, request: LoginsRequest) -> dict[str, Any]:
    names = json.dumps(request.logins)
    found: Mapping[str, Any] = fetchval(connection, _LOOK, names, request.owner, names, request.login)
    return {ENABLED: list(found["enabled"]), SESSIONS: list(found["sessions"])}


def _state(connection: Session) -> State:
    mine = str(fetchval(connection, WHOSE))
    if identity.FORM.fullmatch(mine) is None:
        raise ValueError("the server has no system identifier")
    return State(identifier=mine, roles={}, databases={}, powerful=frozenset())
