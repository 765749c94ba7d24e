"""Roles and databases of a spec: what is asked of the server, the Secrets of the roles, and the status."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from kindling.kinds.base import CachedResult, Child, ExternalResult, Observed, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql.drops import MOST_DROPPED
from kindling.kinds.postgresql.objects import OBJECTS, Objects
from kindling.kube.resources import SECRET, Object, Ref

from tests.unit.operator.postgresqls import KIND, NOW, observed, postgresql, running, secret

OK = ExternalResult(ok=True)


def world(cr: Object, *results: ExternalResult, **secrets: Object) -> Observed:
    """A running server that let the user in, with these Secrets; `results` is the last answer on objects."""
    named = {Ref(SECRET, "ns", name.replace("_", "-")): made for name, made in secrets.items()}
    seen = observed({**running(), **named})
    (action, *_) = KIND.external_actions(cr, seen)
    known = {"server": CachedResult(cache_key=action.cache_key, result=OK, at=NOW)}
    if results:
        known[OBJECTS] = CachedResult(cache_key=asked(cr, seen).cache_key, result=results[0], at=NOW)
    return replace(seen, results=known)


def asked(cr: Object, seen: Observed) -> Objects:
    found = [action.request for action in KIND.external_actions(cr, seen) if action.member == OBJECTS]
    probe = KIND.probes(cr, seen).get(OBJECTS)
    request = found[0] if found else probe.request if probe is not None else None
    assert isinstance(request, Objects)
    return request


def status(cr: Object, seen: Observed) -> Object:
    results = {name: answer.result for name, answer in seen.results.items()}
    return KIND.status(cr, seen, SyncResult(in_sync=True, results=results)).status


def ready(found: Object) -> tuple[str, str, str]:
    item = find_condition(found, "Ready")
    return item["status"], item["reason"], item["message"]


def role_secrets(children: list[Child]) -> dict[str, Mapping[str, str]]:
    return {
        child.ref.name: {key: base64.b64decode(value).decode() for key, value in child.body["data"].items()}
        for child in children
        if "-role-" in child.ref.name
    }


LOGIN: Object = {"name": "the_app", "login": True}
NAMED: Object = {**LOGIN, "passwordSecretRef": {"name": "mine", "key": "word"}}


def test_without_them_nothing_is_asked_and_nothing_said() -> None:
    cr = postgresql()
    seen = world(cr)
    assert KIND.external_actions(cr, seen) == []
    assert set(KIND.probes(cr, seen)) == {"server"}
    assert not {"roles", "databases"} & set(status(cr, seen))
    assert ready(status(cr, seen))[0] == "True"


def test_the_action_comes_after_the_default_users_and_is_kept_without_being_repeated() -> None:
    cr = postgresql(roles=[{"name": "owner"}], databases=[{"name": "shop"}])
    first = observed(running())
    assert [(action.name, action.member) for action in KIND.external_actions(cr, first)] == [
        ("provision", "server"),
        ("apply", "objects"),
    ]
    assert ready(status(cr, world(cr)))[:2] == ("False", "Reconciling")
    done = world(cr, OK)
    assert KIND.external_actions(cr, done) == []
    assert KIND.probes(cr, done)[OBJECTS].once
    assert ready(status(cr, done))[0] == "True"
    # Compared again once the answer is old: by then somebody may have changed it.
    later = replace(done, now=NOW + timedelta(minutes=11))
    assert [action.member for action in KIND.external_actions(cr, later)] == [OBJECTS]


def test_a_generated_password_is_kept_and_its_secret_has_the_bindings_shape() -> None:
    cr = postgresql(
        defaultUser="ada",
        roles=[{**LOGIN, "memberOf": ["owner"]}, {"name": "owner"}, {"name": "free", "login": True}],
        databases=[{"name": "other"}, {"name": "shop", "owner": "owner"}],
    )
    made = role_secrets(KIND.desired(cr, observed(running())))
    assert set(made) == {"db-role-the-app", "db-role-free"}
    app = made["db-role-the-app"]
    assert (app["username"], app["database"], len(app["password"])) == ("the_app", "shop", 32)
    assert app["uri"] == f"postgresql://the_app:{app['password']}@db.ns.svc:5432/shop"
    assert set(app) == set(made["db-role-free"]) == {
        "type", "provider", "host", "port", "database", "username", "password", "uri", "jdbc-uri", "pgpass",
        "ca.crt",
    }  # fmt: skip
    assert made["db-role-free"]["database"] == "ada"
    assert app["password"] != made["db-role-free"]["password"]
    # Edited there, it is the new one.
    seen = world(cr, db_role_the_app=secret(password="edited"))
    assert role_secrets(KIND.desired(cr, seen))["db-role-the-app"]["password"] == "edited"
    assert [role["password"] for role in asked(cr, seen).roles] == ["edited", None]


def test_the_server_gets_a_new_password_before_the_secret_does() -> None:
    cr = postgresql(roles=[NAMED])
    bound = {"mine": secret(word="second"), "db_role_the_app": secret(password="first")}
    assert "mine" in {watched.name for watched in KIND.watched_objects(cr)}
    assert set(KIND.secrets(cr)) == {
        "db-superuser", "db-binding", "mine", "db-role-the-app", "db-server-tls", "db-server-ca",
    }  # fmt: skip
    before = world(cr, **bound)
    assert asked(cr, before).roles[0]["password"] == "second"
    assert role_secrets(KIND.desired(cr, before))["db-role-the-app"]["password"] == "first"
    refused = ExternalResult(ok=False, reason="StatementRejected", facts={"roles": {"the_app": ("r", "m")}})
    seen = world(cr, refused, **bound)
    assert role_secrets(KIND.desired(cr, seen))["db-role-the-app"]["password"] == "first"
    after = world(cr, OK, **bound)
    assert role_secrets(KIND.desired(cr, after))["db-role-the-app"]["password"] == "second"
    other = ExternalResult(ok=False, reason="StatementRejected", facts={"roles": {}, "databases": {}})
    assert (
        role_secrets(KIND.desired(cr, world(cr, other, **bound)))["db-role-the-app"]["password"] == "second"
    )
    # No password stands in what is kept or printed.
    assert "second" not in repr(asked(cr, before))
    assert "second" not in repr(asked(cr, before).cache_key)


@pytest.mark.parametrize(
    ("given", "reason"),
    [({}, "SecretNotFound"), ({"word": ""}, "InvalidPassword"), ({"word": "a\nb"}, "InvalidPassword")],
)
def test_a_secret_without_a_password_holds_up_this_role_alone(given: dict[str, str], reason: str) -> None:
    cr = postgresql(roles=[NAMED, {"name": "other"}])
    assert KIND.validate(cr, observed(running())) is None
    seen = world(cr, OK, mine=secret(**given), db_role_the_app=secret(password="first"))
    assert [role["name"] for role in asked(cr, seen).roles] == ["other"]
    assert role_secrets(KIND.desired(cr, seen))["db-role-the-app"]["password"] == "first"
    found = status(cr, seen)
    assert [(item["ready"], item["reason"]) for item in found["roles"]] == [
        (False, reason),
        (True, "Applied"),
    ]
    assert ready(found)[:2] == ("False", reason)
    assert "spec.roles[the_app].passwordSecretRef 'mine'" in ready(found)[2]
    assert find_condition(found, "Available")["status"] == "True"


def test_a_secret_whose_role_left_the_spec_is_kept() -> None:
    """The operator deletes no Secret of a server, and the role may be kept too."""
    cr = postgresql()
    owned = secret(password="first") | {
        "metadata": {"uid": "u", "ownerReferences": [{"uid": "cr-uid", "controller": True}]}
    }
    seen = observed({**running(), Ref(SECRET, "ns", "db-role-the-app"): owned})
    (kept,) = [child for child in KIND.desired(cr, seen) if "-role-" in child.ref.name]
    assert (kept.create_only, kept.body["data"]) == (True, {})
    theirs = {**owned, "metadata": {"uid": "u"}}
    seen = observed({**running(), Ref(SECRET, "ns", "db-role-the-app"): theirs})
    assert role_secrets(KIND.desired(cr, seen)) == {}


def test_each_item_has_its_result() -> None:
    cr = postgresql(
        roles=[{"name": "a", "reclaimPolicy": "Delete"}, {"name": "b"}],
        databases=[{"name": "c", "extensions": [{"name": "citext"}]}, {"name": "d"}],
    )
    facts: Any = {
        "roles": {"b": ("NameConflict", "of somebody's")},
        "databases": {"d": ("Reconciling", "its turn comes next; wait")},
        "extensions": {"c": {"citext": "1.6"}},
    }
    refused = ExternalResult(
        ok=False, reason="NameConflict", message="spec.roles[b]: of somebody's", facts=facts
    )
    found = status(cr, world(cr, refused))
    assert found["roles"] == [
        {"name": "a", "ready": True, "reason": "Applied", "reclaimPolicy": "Delete"},
        {
            "name": "b",
            "ready": False,
            "reason": "NameConflict",
            "message": "of somebody's",
            "reclaimPolicy": "Retain",
        },
    ]
    assert [(item["name"], item["reason"], item.get("extensions")) for item in found["databases"]] == [
        ("c", "Applied", [{"name": "citext", "version": "1.6"}]),
        ("d", "Reconciling", None),
    ]
    assert ready(found) == ("False", "NameConflict", "spec.roles[b]: of somebody's")
    assert find_condition(found, "Available")["status"] == "True"
    # The version is asked for until it is known, and then kept.
    assert asked(cr, world(cr)).databases[0]["look"]
    known = postgresql(**cr["spec"], status=found)
    assert not asked(known, world(known)).databases[0]["look"]
    assert status(known, world(known, OK))["databases"][0]["extensions"] == [
        {"name": "citext", "version": "1.6"}
    ]


def listed(*names: str, policy: str = "Delete") -> list[Object]:
    return [{"name": name, "ready": True, "reason": "Applied", "reclaimPolicy": policy} for name in names]


def test_only_what_the_spec_had_under_delete_is_dropped() -> None:
    had = {
        "roles": [*listed("gone", "stays"), *listed("kept", policy="Retain")],
        "databases": listed("shop", "postgres", "kindling", "pg_x"),
    }
    cr = postgresql(roles=[{"name": "stays"}], status=had)
    request = asked(cr, world(cr))
    assert (request.drop_roles, request.drop_databases) == (("gone",), ("shop",))
    blocked = ExternalResult(
        ok=False,
        reason="DropBlocked",
        message="m",
        facts={"roles": {}, "databases": {"shop": ("DropBlocked", "m")}},
    )
    found = status(cr, world(cr, blocked))
    assert [item["name"] for item in found["roles"]] == ["stays"]
    assert [(item["name"], item["reason"]) for item in found["databases"]] == [("shop", "DropBlocked")]
    assert ready(found)[1] == "DropBlocked"
    assert "databases" not in status(cr, world(cr, OK))
    # Nobody has answered yet: what is to be dropped is not forgotten.
    assert {item["name"] for item in status(cr, world(cr))["roles"]} == {"stays", "gone"}
    empty = postgresql(status=found)
    assert asked(empty, world(empty)).drop_databases == ("shop",)


def test_a_paused_one_is_compared_and_left_as_it_is() -> None:
    cr = postgresql(roles=[{"name": "a"}], paused=True, status={"databases": listed("shop")})
    seen = observed(running())
    assert [action.member for action in KIND.external_actions(cr, seen)] == []
    probe = KIND.probes(cr, seen)[OBJECTS]
    assert (probe.once, asked(cr, seen).apply) == (True, False)
    facts: Any = {"roles": {"a": ("Paused", "m")}, "databases": {"shop": ("Paused", "m")}}
    differs = ExternalResult(ok=False, reason="Paused", message="m", facts=facts)
    found = KIND.status(
        cr, seen, SyncResult(in_sync=True, results={"server": OK, OBJECTS: differs}, paused=True)
    )
    assert ready(found.status)[:2] == ("False", "Paused")
    assert [item["reason"] for item in found.status["databases"]] == ["Paused"]


def test_a_binding_is_named_once_it_is_there() -> None:
    cr = postgresql(roles=[LOGIN, {"name": "group"}])
    assert "binding" not in status(cr, world(cr))["roles"][0]
    seen = world(cr, OK, db_role_the_app=secret(password="made"))
    first, second = status(cr, seen)["roles"]
    assert (first["binding"], second.get("binding")) == ({"name": "db-role-the-app"}, None)


def test_the_status_has_no_more_entries_than_the_crd_admits() -> None:
    had = listed(*(f"d{number}" for number in range(400)))
    cr = postgresql(databases=[{"name": "shop"}], status={"databases": had})
    assert len(status(cr, world(cr))["databases"]) == 1 + MOST_DROPPED
    assert len(asked(cr, world(cr)).drop_databases) == MOST_DROPPED


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"roles": [{"name": "pg_x"}]}, ["spec.roles[pg_x]", "use another"]),
        ({"roles": [{"name": "kindling"}]}, ["spec.roles[kindling]"]),
        ({"roles": [{"name": "ada"}], "defaultUser": "ada"}, ["spec.roles[ada]", "spec.defaultUser"]),
        ({"roles": [{"name": "a", "memberOf": ["kindling"]}]}, ["spec.roles[a].memberOf 'kindling'"]),
        (
            {"roles": [{"name": "a", "memberOf": ["pg_execute_server_program"]}]},
            ["pg_execute_server_program"],
        ),
        ({"roles": [{"name": "a", "memberOf": ["a"]}]}, ["memberOf 'a'"]),
        ({"roles": [{**LOGIN, "passwordSecretRef": {"name": "db-role-x"}}]}, ["'db-role-x'", "your own"]),
        ({"databases": [{"name": "template1"}]}, ["spec.databases[template1]"]),
        ({"databases": [{"name": "a", "owner": "kindling"}]}, ["spec.databases[a].owner 'kindling'"]),
        ({"databases": [{"name": "postgres", "owner": "a"}]}, ["spec.databases[postgres].owner 'a'"]),
        ({"databases": [{"name": "postgres", "reclaimPolicy": "Delete"}]}, ["spec.databases[postgres]"]),
    ],
)
def test_what_cannot_work_is_refused_by_name(spec: Object, words: list[str]) -> None:
    problem = KIND.validate(postgresql(**spec), observed(running()))
    assert problem is not None
    assert problem.reason == "InvalidSpec"
    assert [word for word in words if word not in problem.message] == []


def test_an_item_that_is_rejected_keeps_nobody_from_the_default_users_binding() -> None:
    """The default user can log in, so the status names the Secret that says how."""
    refused = ExternalResult(ok=False, reason="StatementRejected", facts={"roles": {}, "databases": {}})
    cr = postgresql(roles=[LOGIN])
    found = status(cr, world(cr, refused, db_binding=secret(username="postgres", password="p")))
    assert ready(found)[0] == "False"
    assert found["pgPhase"] == "up"
    assert found["binding"] == {"name": "db-binding"}


def test_access_roles_come_first_and_whose_tables_they_are_for_follows_from_the_lists() -> None:
    cr = postgresql(
        roles=[
            {"name": "owner"},
            {"name": "dana", "memberOf": ["owner"]},
            {"name": "rita", "login": True, "memberOf": ["shop_reader"]},
        ],
        databases=[
            {"name": "plain"},
            {
                "name": "shop",
                "owner": "owner",
                "accessRoles": True,
                "schemas": [{"name": "s", "owner": "x"}],
            },
        ],
    )
    wanted = asked(cr, world(cr))
    assert [each["name"] for each in wanted.roles[:3]] == ["shop_reader", "shop_writer", "owner"]
    assert wanted.roles[1]["member_of"] == ["shop_reader"]
    assert wanted.databases[0]["access"] == wanted.databases[0]["creators"] == []
    assert wanted.databases[1]["access"] == ["shop_reader", "shop_writer"]
    assert wanted.databases[1]["creators"] == ["dana", "owner", "x"]
    (made,) = role_secrets(KIND.desired(cr, world(cr))).values()
    assert made["database"] == "shop", "where rita may read"
    assert [item["name"] for item in status(cr, world(cr, OK))["roles"]] == ["owner", "dana", "rita"]


@pytest.mark.parametrize(
    ("database", "roles", "words"),
    [
        ({"name": "d" * 57}, [], "characters: leave it out, or use a name of at most 56"),
        ({"name": "shop"}, [{"name": "shop_writer"}], "spec.roles[shop_writer] has the name of a role that"),
    ],
)
def test_access_roles_that_cannot_be(database: Object, roles: list[Object], words: str) -> None:
    cr = postgresql(databases=[{**database, "accessRoles": True}], roles=roles)
    problem = KIND.validate(cr, world(postgresql()))
    assert problem is not None
    assert words in problem.message
