"""spec.initSQL: which scripts the server is given, when it is asked again, and what the status says of it."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest
from kindling.kinds.base import CachedResult, ExternalResult, Observed, SyncResult, Terminal
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql import init_sql, login
from kindling.kinds.postgresql.login import Login
from kindling.kube.resources import CONFIG_MAP, SECRET, Object, Ref

from tests.unit.operator.postgresqls import NOW, postgresql, running
from tests.unit.operator.test_postgresql_tls import SHORT, at

FIRST = {"configMapRef": {"name": "first", "key": "a.sql"}}
SECOND = {"secretRef": {"name": "second", "key": "b.sql"}}
SCRIPTS: dict[Ref, Object] = {
    Ref(CONFIG_MAP, "ns", "first"): {
        "metadata": {"namespace": "ns", "name": "first"},
        "data": {"a.sql": "A"},
    },
    Ref(SECRET, "ns", "second"): {
        "metadata": {"namespace": "ns", "name": "second"},
        "data": {"b.sql": base64.b64encode(b"B").decode()},
    },
}


def cr(*items: Object, **spec: Any) -> Object:
    given = {"defaultUser": "ada", "tls": {"enabled": False}, **spec}
    return postgresql(initSQL=list(items or (FIRST, SECOND)), **given)


def world(**content: Object) -> Observed:
    objects = {**running(), **SCRIPTS}
    for name, data in content.items():
        ref = next(ref for ref in SCRIPTS if ref.name == name)
        objects[ref] = {**SCRIPTS[ref], **data}
    return at(NOW, objects)


def asked(resource: Object, observed: Observed) -> Login:
    found = SHORT._login(resource, observed)
    assert found is not None
    return found


def test_the_server_gets_them_in_order_and_is_asked_again_when_one_changes() -> None:
    found = asked(cr(), world())
    assert found.init_sql == [
        ("spec.initSQL[0] (ConfigMap 'first', key 'a.sql')", "A", False),
        ("spec.initSQL[1] (Secret 'second', key 'b.sql')", "B", True),
    ]
    assert found.health_check().init_sql is None
    assert "'A'" not in repr(found)
    changed = asked(cr(), world(first={"data": {"a.sql": "C"}}))
    assert changed.cache_key != found.cache_key
    # Once it is known to have been run, or that there was a database before, an edit is nothing to act on.
    done = cr() | {"status": {"initSQL": {"appliedAt": "2026-01-01T00:00:00Z"}}}
    edited = world(first={"data": {"a.sql": "C"}})
    assert asked(done, world()).cache_key == asked(done, edited).cache_key
    assert asked(postgresql(), world()).init_sql is None
    assert {(ref.type.kind, ref.name) for ref in SHORT.watched_objects(cr())} >= {
        ("ConfigMap", "first"),
        ("Secret", "second"),
    }
    assert (SHORT.config_maps(cr()), "second" in SHORT.secrets(cr())) == (["first"], True)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            {"first": {"data": {}}},
            ["spec.initSQL[0] (ConfigMap 'first', key 'a.sql')", "no text under that key"],
        ),
        ({"first": {"data": {}, "binaryData": {"a.sql": "/w=="}}}, ["no text under that key"]),
        ({"second": {"data": {"b.sql": "AEE="}}}, ["spec.initSQL[1] (Secret 'second'", "no text"]),
        ({"first": {"data": {"a.sql": "x" * 2**20}}}, ["longer than 1048576 bytes"]),
    ],
)
def test_what_cannot_be_read_is_said_and_hinders_only_what_is_to_be_made(
    content: Any, words: list[str]
) -> None:
    found = asked(cr(), world(**content))
    assert [word for word in words if word not in found.init_problem] == []
    assert SHORT.validate(cr(), world(**content)) is None
    missing = asked(cr(), at(NOW, running())).init_problem
    assert "ConfigMap 'first' is not in namespace 'ns': create it" in missing


def test_the_database_that_comes_with_the_server_gets_none() -> None:
    for given in (cr(defaultUser="postgres"), postgresql(initSQL=[FIRST])):
        problem = init_sql.validate(given)
        assert problem is not None
        assert "set spec.defaultUser to another name" in problem.message
    assert init_sql.validate(postgresql(defaultUser="postgres", initSQL=[])) is None


def status(resource: Object, **answer: Any) -> tuple[Any, Object, object]:
    result = ExternalResult(**{"ok": True, **answer})
    seen = replace(
        world(),
        results={
            login.SERVER: CachedResult(cache_key=asked(resource, world()).cache_key, result=result, at=NOW)
        },
    )
    made = SHORT.status(resource, seen, SyncResult(in_sync=True, results={login.SERVER: result}))
    return made.status.get("initSQL"), find_condition(made.status, "Ready"), made.result


def test_the_status_has_the_servers_note() -> None:
    at_that_time = {"appliedAt": "2026-01-01T00:00:00Z"}
    facts = {"login": True, "init_sql": at_that_time["appliedAt"]}
    assert status(cr(), facts=facts)[0] == at_that_time
    before = status(cr(), facts={"login": True, "init_sql": ""})[0]
    assert "Database 'ada' was there before" in before["message"]
    known = cr() | {"status": {"initSQL": at_that_time}}
    assert status(known, facts={"login": True})[0] == at_that_time
    assert status(postgresql(), facts={"login": True})[0] is None


def test_a_failure_waits_for_an_edit() -> None:
    found, ready, result = status(cr(), ok=False, reason="InitSQLFailed", message="why")
    assert found is None
    assert (ready["status"], ready["reason"], ready["message"]) == ("False", "InitSQLFailed", "why")
    assert result == Terminal("InitSQLFailed")
