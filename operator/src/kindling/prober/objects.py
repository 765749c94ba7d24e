"""Roles and databases of the spec, made so on a running server: one query reads all that is known of them.

What the operator made bears a comment of NOTE (`Note`): without that, with another server's, or by whoever
else made it, an object is left as it is. Only what differs costs a statement, and only a database whose
contents differ a session of its own, one at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult
from kindling.kinds.postgresql import identity
from kindling.kinds.postgresql.objects import Objects
from kindling.kinds.postgresql.roles import POWERFUL, path_of
from kindling.prober import databases, roles
from kindling.prober.items import Items, State
from kindling.prober.parameters import DISK_FULL
from kindling.prober.results import (
    disk_full,
    failed,
    not_responding,
    other_data,
    superuser_rejected,
    unsafe,
    untrusted,
)
from kindling.prober.sessions import (
    CONNECT_SECONDS,
    FAILURES,
    Address,
    LoginRejected,
    Session,
    UnsafeAuthentication,
    UntrustedCertificate,
    fetchval,
    session,
)
from kindling.prober.tls import trust_of

_REJECTED = ("28P01", "28000")

_READ = """
SELECT json_build_object(
  'identifier', (SELECT system_identifier::text FROM pg_control_system()),
  'roles', (
    SELECT json_object_agg(r.rolname, json_build_object(
      'login', r.rolcanlogin, 'limit', r.rolconnlimit, 'verifier', r.rolpassword,
      'note', shobj_description(r.oid, 'pg_authid'),
      'member_of', (SELECT coalesce(json_agg(g.rolname), '[]') FROM pg_auth_members m
        JOIN pg_authid g ON g.oid = m.roleid WHERE m.member = r.oid)))
    FROM pg_authid r WHERE r.rolname::text IN (SELECT json_array_elements_text(%s::json))),
  'databases', (
    SELECT json_object_agg(d.datname, json_build_object(
      'owner', pg_get_userbyid(d.datdba), 'note', shobj_description(d.oid, 'pg_database'),
      'encoding', pg_encoding_to_char(d.encoding), 'collation', d.datcollate,
      'icu_locale', coalesce(to_jsonb(d) ->> 'datlocale', to_jsonb(d) ->> 'daticulocale')))
    FROM pg_database d WHERE d.datname::text IN (SELECT json_array_elements_text(%s::json))),
  'powerful', (
    SELECT coalesce(json_agg(t.rolname), '[]') FROM pg_authid t
    WHERE t.rolname::text IN (SELECT json_array_elements_text(%s::json)) AND (t.rolsuper OR EXISTS (
      SELECT FROM pg_authid s WHERE (s.rolsuper OR s.rolname::text IN
        (SELECT json_array_elements_text(%s::json))) AND pg_has_role(t.oid, s.oid, 'MEMBER'))))
)"""


class _SuperuserRejected(Exception):
    """The superuser's login was refused."""


class _OtherData(Exception):
    """The server has data of this system identifier, and should have another's."""


def sync(address: Address, request: Objects) -> ExternalResult:
    """Make all so, as far as the time of one job goes. Never raises for what a server may answer.

    The facts are `roles` and `databases`, with reason and message of each that is not as wanted, and
    `extensions`, by database and name, the versions that were seen.
    """
    try:
        with _superuser(address, request, "template1") as connection:
            state = _read(connection, request)
            items = Items(connection, state, apply=request.apply, paused_by=request.paused_by)
            _work(request, items)
        for database in request.databases:
            databases.fill(items, database, request, lambda name: _superuser(address, request, name))
    except _OtherData as error:
        return other_data(request, str(error))
    except _SuperuserRejected:
        return superuser_rejected(request, facts={})
    except UnsafeAuthentication:
        return unsafe(request)
    except UntrustedCertificate as error:
        return untrusted(request, error)
    except TimeoutError:
        return not_responding(request, CONNECT_SECONDS)
    except FAILURES as error:
        if isinstance(error, psycopg.Error) and error.sqlstate == DISK_FULL:
            return disk_full(error, facts={})
        return failed(request, error, facts={})
    return _result(items)


def _work(request: Objects, items: Items) -> None:
    """Databases go before their owners do, and groups come before their members."""
    for name in request.drop_databases:
        databases.drop(items, name, request)
    for role in request.roles:
        roles.provision(items, role)
    for role in request.roles:
        roles.provision_memberships(items, role)
    for database in request.databases:
        databases.provision(items, database, request)
    for name in request.drop_roles:
        roles.drop(items, name, request)


def _result(items: Items) -> ExternalResult:
    facts: dict[str, Any] = {"roles": items.roles, "databases": items.databases}
    if items.extensions:
        facts["extensions"] = items.extensions
    said = [
        (path_of(name) if what == "roles" else f"spec.{what}[{name}]", *found)
        for what, of in (("roles", items.roles), ("databases", items.databases))
        for name, found in of.items()
    ]
    if not said:
        return ExternalResult(ok=True, facts=facts)
    # What only takes its time is said where nothing else is to be said.
    said.sort(key=lambda each: each[1] in (reasons.RECONCILING, reasons.PAUSED))
    where, reason, message = said[0]
    others = f" ({len(said) - 1} more in status.roles and status.databases)" if len(said) > 1 else ""
    return ExternalResult(ok=False, reason=reason, message=f"{where}: {message}{others}", facts=facts)


def _read(connection: Session, request: Objects) -> State:
    """:raises _OtherData: where it is not the data that it should be."""
    named = [role["name"] for role in request.roles]
    listed = [database["name"] for database in request.databases]
    groups = sorted({group for role in request.roles for group in role["member_of"]})
    found: Mapping[str, Any] = fetchval(
        connection,
        _READ,
        json.dumps([*named, *request.drop_roles]),
        json.dumps([*listed, *map(databases.unfinished, listed), *request.drop_databases]),
        json.dumps(groups),
        json.dumps(POWERFUL),
    )
    mine = str(found["identifier"])
    if identity.FORM.fullmatch(mine) is None:
        raise ValueError("the server has no system identifier")
    if request.identifier not in (None, mine):
        raise _OtherData(mine)
    return State(
        identifier=mine,
        roles=dict(found["roles"] or {}),
        databases=dict(found["databases"] or {}),
        powerful=frozenset(found["powerful"]),
    )


@contextmanager
def _superuser(address: Address, request: Objects, database: str) -> Iterator[Session]:
    """:raises _SuperuserRejected: when the superuser is refused."""
    if request.superuser_password is None:
        raise _SuperuserRejected
    try:
        with session(
            address,
            user=request.superuser,
            password=request.superuser_password,
            database=database,
            trust=trust_of(request),
            quiet=True,
        ) as connection:
            yield connection
    except LoginRejected as error:
        if error.state not in _REJECTED:
            raise
        raise _SuperuserRejected from error
