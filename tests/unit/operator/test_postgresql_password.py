"""The default user's password: where it is from, what is no password, and that it stays in Secrets."""

from __future__ import annotations

import json

import pytest
from kindling.kinds.base import ExternalResult, SyncResult, WatchedObject
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql.password import password_of
from kindling.kube.resources import SECRET, Object, Ref

from tests.unit.operator.postgresqls import KIND, observed, postgresql, request, running, secret

OURS = Ref(SECRET, "ns", "ours")
REFERRING: Object = {"passwordSecretRef": {"name": "ours"}}


def test_each_source_and_which_one_wins() -> None:
    known = {**running(), OURS: secret(password="referred", other="another")}
    cases: list[tuple[Object, str]] = [
        ({}, "made"),
        (REFERRING, "referred"),
        ({"passwordSecretRef": {"name": "ours", "key": "other"}}, "another"),
        ({"password": "plain"}, "plain"),
    ]
    for spec, password in cases:
        assert password_of(postgresql(**spec), observed(known)) == password


def test_secret_referred_to_is_watched_and_read_in_its_namespace() -> None:
    # A Backup has the server archive by one of these, a Restore has it stop by another.
    names = ("db-archive", "db-in-place", "ours")
    assert set(KIND.watched_objects(postgresql(**REFERRING))) == {
        WatchedObject(SECRET, name, "ns") for name in names
    }
    made = {"db-superuser", "db-binding", "db-server-tls", "db-server-ca"}
    assert set(KIND.secrets(postgresql(**REFERRING))) == {*made, "ours"}
    assert [each.name for each in KIND.watched_objects(postgresql())] == ["db-archive", "db-in-place"]


@pytest.mark.parametrize(
    ("content", "reason", "words"),
    [
        (None, "SecretNotFound", ["'ours'", "no such Secret", "kubectl create secret generic ours"]),
        (secret(), "SecretNotFound", ["'password'", "spec.passwordSecretRef.key"]),
        ({"metadata": {}, "data": None}, "SecretNotFound", ["'password'"]),
        ({"metadata": {}, "data": {"password": "/w=="}}, "SecretNotFound", ["no text"]),
        (secret(password=""), "InvalidPassword", ["'password'", "1024"]),
        (secret(password="canary\0"), "InvalidPassword", ["one line"]),
        (secret(password="canary\n"), "InvalidPassword", ["last line break"]),
        (secret(password="canary" * 200), "InvalidPassword", ["1024"]),
        (secret(password="fine"), None, []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_secret_without_a_password_is_reported_and_not_shown(
    content: Object | None, reason: str | None, words: list[str]
) -> None:
    known = {OURS: content} if content is not None else {}
    cr = postgresql(**REFERRING)
    problem = KIND.validate(cr, observed(known))
    assert (problem.reason if problem else None) == reason
    KIND.desired(cr, observed(known))  # never raises, asked for or not
    if problem is not None:
        assert "canary" not in problem.message
        assert [word for word in words if word not in problem.message] == []


@pytest.mark.parametrize("name", ["db-binding", "db-superuser", "db-superuser-ephemeral"])
def test_secret_made_from_the_resource_is_no_source(name: str) -> None:
    problem = KIND.validate(postgresql(passwordSecretRef={"name": name}), observed(running()))
    assert problem is not None
    assert (problem.reason, name in problem.message) == ("InvalidSpec", True)


def test_one_source_at_a_time() -> None:
    problem = KIND.validate(postgresql(password="canary", **REFERRING), observed())
    assert problem is not None
    assert "spec.passwordSecretRef" in problem.message
    assert "canary" not in problem.message


def test_referred_password_goes_into_the_binding_and_the_login_alone() -> None:
    known = {**running(), OURS: secret(password="canary-5e")}
    cr = postgresql(**REFERRING)
    for child in KIND.desired(cr, observed(known)):
        assert "canary" not in json.dumps(child.body)
        if child.ref.name == "db-binding":
            values = observed({child.ref: child.body}).secret(namespace="ns", name="db-binding")
            assert values["password"] == "canary-5e"
    login = request(cr, observed(known))
    assert login is not None
    assert login.password == "canary-5e"
    assert "canary" not in repr(login)


def test_another_password_in_the_secret_calls_for_another_login() -> None:
    def cache_key(password: str) -> object:
        found = request(postgresql(**REFERRING), observed({**running(), OURS: secret(password=password)}))
        assert found is not None
        return found.cache_key

    assert cache_key("one") == cache_key("one") != cache_key("two")


def test_only_a_password_in_the_spec_is_flagged() -> None:
    known = observed({**running(), OURS: secret(password="x")})
    made = KIND.status(
        postgresql(**REFERRING), known, SyncResult(in_sync=True, results={"server": ExternalResult(ok=True)})
    )
    assert find_condition(made.status, "PlaintextPassword") == {}
