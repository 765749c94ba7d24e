"""spec.hba: what is refused beforehand, the file, and what is asked and said of the server that reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kindling.kinds.base import CachedResult, ExternalResult, Observed, RequeueAfter, SyncResult, Terminal
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql import hba, login, reload
from kindling.kinds.postgresql.login import Login
from kindling.kinds.postgresql.reload import Reload
from kindling.kube.resources import Object

from tests.unit.operator.postgresqls import NOW, postgresql, running
from tests.unit.operator.test_postgresql_tls import SHORT, at, desired

LINE = "host all bob 10.0.0.0/8 reject"
RULES = ["local all all scram-sha-256", LINE]


def cr(*lines: str, **spec: Any) -> Object:
    return postgresql(hba=list(lines or (LINE,)), **{"defaultUser": "ada", "tls": {"enabled": False}, **spec})


def seen(resource: Object, **facts: Any) -> Observed:
    """A server without TLS that has answered so."""
    bare = at(NOW, running())
    wanted = SHORT._login(resource, bare)
    assert wanted is not None
    result = ExternalResult(ok=True, facts={"login": True, **facts})
    return replace(
        bare, results={login.SERVER: CachedResult(cache_key=wanted.cache_key, result=result, at=NOW)}
    )


def status(
    resource: Object, observed: Observed, files: ExternalResult | None = None
) -> tuple[Object, str, object]:
    results = {login.SERVER: observed.results[login.SERVER].result}
    results |= {reload.MEMBER: files} if files is not None else {}
    made = SHORT.status(resource, observed, SyncResult(in_sync=True, results=results))
    return made.status, find_condition(made.status, "Ready")["reason"], made.result


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("host all all all trust", ["spec.hba[0] 'host all all all trust'", "scram-sha-256 or reject"]),
        ("local all all reject", ["is no line that is taken"]),
        ("host all all 10.0.0.0/33 reject", ["10.0.0.0/33 is no block of addresses", "ADDRESS/LENGTH"]),
        ("host all bob,ada all reject", ["no effect on 'ada'", "spec.allowedFrom"]),
        ('host "ada" "ada_b" all reject', ["no effect on 'ada_b'"]),
        ("host all all all reject\n", ["is no line that is taken"]),
    ],
)
def test_what_cannot_work_is_refused_with_line_and_remedy(line: str, words: list[str]) -> None:
    problem = SHORT.validate(cr("host all bob all reject", line), at(NOW, {}))
    assert problem is not None
    assert problem.reason == "InvalidSpec"
    assert [
        word for word in (*words, "spec.hba[1]") if word.replace("[0]", "[1]") not in problem.message
    ] == []


def test_lines_that_do_what_they_say_are_taken() -> None:
    lines = [
        "host other ada all reject",
        "host all +ada all reject",
        "host all all all reject",
        "host sameuser bob ::1/128 reject",
    ]
    assert hba.validate(cr(*lines)) is None


def test_without_lines_everything_is_as_it_was() -> None:
    bare = postgresql(tls={"enabled": False})
    for given in (bare, cr("host all x all reject") | {"spec": {**bare["spec"], "hba": []}}):
        assert desired(given, at(NOW, {}))["db-config/ConfigMap"].body["data"]["pg_hba.conf"] == hba.DEFAULT
    asked = SHORT._login(bare, at(NOW, running()))
    assert asked is not None
    assert asked.hba is None
    assert SHORT.external_actions(bare, seen(bare)) == []


def test_the_lines_are_between_the_operators_own_and_change_no_pod() -> None:
    made = desired(cr("host all x all reject"), at(NOW, running()))
    rules = made["db-config/ConfigMap"].body["data"]["pg_hba.conf"]
    assert hba.lines_of(rules) == ["host all x all reject"]
    assert rules.splitlines()[hba.first_line(rules) - 1] == "host all x all reject"
    assert 'host "ada" "ada","ada_a","ada_b" all scram-sha-256' in rules.splitlines()
    assert rules.splitlines()[-1] == "host all all all scram-sha-256"
    workload = made["db/StatefulSet"].body["spec"]["template"]
    bare = desired(postgresql(defaultUser="ada", tls={"enabled": False}), at(NOW, running()))
    assert workload == bare["db/StatefulSet"].body["spec"]["template"]


def test_the_server_is_asked_until_it_has_read_them_and_ready_waits() -> None:
    observed = seen(cr(), rules=False)
    asked = SHORT._login(cr(), observed)
    assert isinstance(asked, Login)
    assert (asked.hba, asked.health_check().hba) == (hba.of(cr()), None)
    [action] = SHORT.external_actions(cr(), observed)
    wanted = action.request
    assert isinstance(wanted, Reload)
    assert (wanted.hba, wanted.ca, wanted.fingerprint) == (hba.of(cr()), None, None)
    found, reason, _ = status(cr(), observed, ExternalResult(ok=True, facts={"rules": False, "done": False}))
    assert (reason, "hba" in found) == ("Reconciling", False)
    done = ExternalResult(ok=True, facts={"rules": True, "done": True, "hba": RULES})
    found, reason, _ = status(cr(), observed, done)
    assert (found["hba"], reason) == (RULES, "LoginSucceeded")
    known = CachedResult(cache_key=wanted.cache_key, result=done, at=NOW)
    after = replace(observed, results={**observed.results, reload.MEMBER: known})
    assert SHORT.external_actions(cr(), after) == []
    # In force from its start on, and nothing is to be read.
    found, reason, _ = status(cr(), seen(cr(), rules=True, hba=RULES))
    assert (found["hba"], reason) == (RULES, "LoginSucceeded")
    assert SHORT.external_actions(cr(), seen(cr(), rules=True, hba=RULES)) == []


def test_a_line_that_the_server_cannot_use_waits_for_an_edit_and_the_rules_before_are_kept() -> None:
    given = cr() | {"status": {"hba": RULES, "active": {"uid": "pod-uid"}}}
    observed = seen(given, rules=False)
    found, reason, result = status(
        given, observed, ExternalResult(ok=False, reason="InvalidHba", message="why")
    )
    assert (reason, result, found["hba"]) == ("InvalidHba", Terminal("InvalidHba"), RULES)
    assert found["pgPhase"] == "up"
    assert find_condition(found, "Degraded")["status"] == "True"
    found, reason, result = status(
        given, observed, ExternalResult(ok=False, reason="NotResponding", message="m")
    )
    assert result == RequeueAfter(reload.RETRY_SECONDS)


def test_rules_that_have_left_the_spec_are_read_again_before_the_status_is_without() -> None:
    bare = postgresql(defaultUser="ada", tls={"enabled": False})
    given = bare | {"status": {"hba": RULES, "active": {"uid": "pod-uid"}}}
    observed = seen(given, rules=False)
    [action] = SHORT.external_actions(given, observed)
    assert isinstance(action.request, Reload)
    assert action.request.hba == hba.DEFAULT
    found, _, _ = status(given, observed)
    assert found["hba"] == RULES
    found, reason, _ = status(given, seen(given, rules=True, hba=["local"]))
    assert ("hba" in found, reason) == (False, "LoginSucceeded")
