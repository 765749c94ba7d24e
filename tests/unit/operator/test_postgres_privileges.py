"""The access roles of a database on a real PostgreSQL: what they may do with what is there, and comes."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.unit.operator.conftest import Files
from tests.unit.operator.test_postgres_objects import (
    PASSWORD,
    apply,
    database,
    group,
    ready,
    role,
    running,
    said,
    within,
)
from tests.unit.operator.test_postgres_port import as_superuser, sql

__all__ = ["ready", "running"]

ACCESS = (group("shop_reader"), group("shop_writer", member_of=["shop_reader"]))
PEOPLE = (
    group("owner"),
    role("dana", member_of=["owner"]),
    role("rita", member_of=["shop_reader"]),
    role("will", member_of=["shop_writer"]),
)
READS, WRITES = "SELECT count(*) FROM {}", "INSERT INTO {} (word) VALUES ('x') RETURNING id"


def shop(**item: Any) -> dict[str, Any]:
    return database("shop", creators=["dana", "owner"], owner="owner", accessRoles=True, **item)


def asked(server: Files, user: str, statement: str) -> Any:
    return sql(server, statement, user=user, password=PASSWORD, database="shop")


def may(server: Files, user: str, statement: str) -> bool:
    try:
        asked(server, user, statement)
    except psycopg.errors.InsufficientPrivilege:
        return False
    return True


def assert_access(server: Files, table: str) -> None:
    assert may(server, "rita", READS.format(table))
    assert not may(server, "rita", WRITES.format(table))
    assert may(server, "will", READS.format(table))
    assert may(server, "will", WRITES.format(table)), "with its sequence"
    assert not may(server, "will", f"DROP TABLE {table}")
    assert not may(server, "rita", f"TRUNCATE {table}")


def test_readers_read_and_writers_write_what_is_there_and_what_comes(ready: Files) -> None:
    server = ready
    assert apply(server, roles=PEOPLE[:2], databases=(database("shop", owner="owner"),)).ok
    table = "CREATE TABLE {} (id serial, word text)"
    asked(server, "dana", f"CREATE SCHEMA before; {table.format('before.orders')}")
    wanted = {"roles": (*ACCESS, *PEOPLE), "databases": (shop(schemas=[{"name": "made"}]),)}
    assert said(apply(server, **wanted)) == {}
    assert_access(server, "before.orders")
    # A member of the owner makes more, in schemas that are there, that come, and that the operator makes.
    asked(server, "dana", table.format("before.later"))
    asked(server, "dana", f"CREATE SCHEMA after; {table.format('after.orders')}")
    asked(server, "dana", f"SET ROLE owner; {table.format('made.orders')}")
    for name in ("before.later", "after.orders", "made.orders"):
        assert_access(server, name)
    assert not may(server, "will", "CREATE TABLE before.mine ()")
    assert may(server, "rita", "SELECT last_value FROM after.orders_id_seq")


def test_nothing_is_given_twice_and_what_was_revoked_stays_so(ready: Files) -> None:
    wanted = {"roles": (*ACCESS, *PEOPLE), "databases": (shop(),)}
    assert said(apply(ready, **wanted)) == {}
    asked(ready, "dana", "CREATE SCHEMA s; CREATE TABLE s.t (id serial, word text)")
    within(ready, "shop", "REVOKE SELECT ON s.t FROM shop_reader")
    assert said(apply(ready, **wanted)) == {}
    assert not may(ready, "rita", READS.format("s.t"))
    # Another schema in the list, and all is given once more.
    assert said(apply(ready, **{**wanted, "databases": (shop(schemas=[{"name": "more"}]),)})) == {}
    assert may(ready, "rita", READS.format("s.t"))


def test_a_role_of_such_a_name_by_hand_is_left_alone_and_said_of_the_database(ready: Files) -> None:
    as_superuser(ready, "CREATE ROLE shop_reader")
    found = apply(ready, roles=(*ACCESS, *PEOPLE[:2]), databases=(shop(),))
    assert said(found) == {"shop": "NameConflict"}
    assert "role 'shop_reader' of accessRoles: the role exists" in found.message
    assert as_superuser(ready, "SELECT count(*) FROM pg_auth_members WHERE roleid = 'owner'::regrole") == 1


def test_the_default_users_database_has_them_too(ready: Files) -> None:
    access = (group("ada_reader"), group("ada_writer", member_of=["ada_reader"]))
    wanted = {
        "roles": (*access, role("rita", member_of=["ada_reader"])),
        "databases": (database("ada", accessRoles=True, creators=["ada"]),),
    }
    assert said(apply(ready, **wanted)) == {}
    sql(ready, "CREATE SCHEMA s; CREATE TABLE s.t ()", user="ada", password="lovelace-1815", database="ada")
    assert sql(ready, "SELECT count(*) FROM s.t", user="rita", password=PASSWORD, database="ada") == 0
    assert said(apply(ready, **wanted)) == {}


def test_without_apply_it_is_said_that_it_differs(ready: Files) -> None:
    assert apply(ready, roles=PEOPLE[:2], databases=(database("shop", owner="owner"),)).ok
    found = apply(ready, roles=(*ACCESS, *PEOPLE[:2]), databases=(shop(),), apply=False)
    assert said(found)["shop"] == "Paused"
    assert as_superuser(ready, "SELECT count(*) FROM pg_roles WHERE rolname ~ '^shop_'") == 0
