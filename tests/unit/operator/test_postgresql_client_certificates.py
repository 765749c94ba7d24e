"""spec.roles[].clientCertificate: the pair in a role's Secret, when the next one comes, rules and status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from kindling.kinds import certificates, server_tls
from kindling.kinds.base import CachedResult, ExternalResult, Observed, RequeueAfter, SyncResult
from kindling.kinds.certificates import Certificate, Pair
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql import client_certificates, hba, login, objects, reload, updates
from kindling.kinds.postgresql.initdb import PARAMETERS
from kindling.kube.resources import POD, SECRET, STATEFUL_SET, Object, Ref
from kindling.prober.results import invalid_hba

from tests.unit.operator.postgresqls import NOW, postgresql, running, secret
from tests.unit.operator.test_postgresql_tls import HOURS, SHORT, at, desired, named, text

ALONE: Object = {"name": "the_app", "login": True, "clientCertificate": {"enabled": True}}
CAREFUL: Object = {
    "name": "careful",
    "login": True,
    "clientCertificate": {"enabled": True, "passwordRequired": True},
}
SECRET_NAME = "db-role-the-app"
LATER = b"f" * 32
RULES = ["hostssl all the_app all cert"]


def cr(*roles: Object, **spec: Any) -> Object:
    return postgresql(roles=list(roles or (ALONE,)), **{"defaultUser": "ada", **spec})


def settled(resource: Object) -> dict[Ref, Object]:
    """Server, Secrets and binding as they are once all is written."""
    world = running()
    world[Ref(POD, "ns", "db-0")]["metadata"]["annotations"] = {server_tls.ANNOTATION: server_tls.ACTIVE}
    made = desired(resource, at(NOW, world))
    for key, child in made.items():
        if key.endswith("/Secret") and key != "db-superuser/Secret":
            world[child.ref] = {**child.body, "metadata": {"uid": key}}
    return world


def serving(resource: Object, world: Mapping[Ref, Object], fingerprint: str, now: timedelta) -> Observed:
    """What is observed where the server shows that certificate."""
    bare = at(NOW + now, world, LATER)
    asked = SHORT._login(resource, bare)
    assert asked is not None
    result = ExternalResult(ok=True, facts={"login": True, "certificate": {"fingerprint": fingerprint}})
    known = CachedResult(cache_key=asked.cache_key, result=result, at=bare.now)
    return replace(bare, results={login.SERVER: known})


def pair_of(resource: Object, observed: Observed) -> Pair:
    found = text(desired(resource, observed)[f"{SECRET_NAME}/Secret"])
    return Pair(found["tls.crt"], found["tls.key"])


def read(pair: Pair) -> Certificate:
    found = certificates.read(pair.certificate)
    assert found is not None
    return found


def mark(world: Mapping[Ref, Object], name: str = "db-server-tls") -> str:
    found = at(NOW, world).secret(namespace="ns", name=name)
    return read(Pair(found["tls.crt"], found["tls.key"])).fingerprint


def test_the_roles_secret_has_a_pair_of_the_resources_own_authority() -> None:
    made = desired(cr(ALONE, CAREFUL, {"name": "bob", "login": True}), at(NOW))
    found = text(made[f"{SECRET_NAME}/Secret"])
    pair = Pair(found["tls.crt"], found["tls.key"])
    certificate = read(pair)
    assert (certificate.common_name, certificate.not_after) == ("the_app", NOW + HOURS)
    assert certificate.names == frozenset()
    assert certificates.is_pair(pair)
    assert certificates.is_issued_by(pair.certificate, text(made["db-server-ca/Secret"])["ca.crt"])
    assert found["ca.crt"] == text(made["db-binding/Secret"])["ca.crt"]
    # It has no other way in than TLS; whoever has the default user's may have one.
    assert found["uri"].endswith("?sslmode=verify-full")
    assert (found["sslmode"], found["username"]) == ("verify-full", "the_app")
    assert "sslmode" not in text(made["db-binding/Secret"])
    other = text(made["db-role-careful/Secret"])
    assert other["tls.key"] != found["tls.key"]
    assert not {"tls.crt", "tls.key", "sslmode"} & text(made["db-role-bob/Secret"]).keys()


def test_no_key_is_anywhere_but_in_a_secret_and_the_pod_is_the_same() -> None:
    observed = at(NOW, settled(cr()))
    made = desired(cr(), observed)
    keys = {line for line in pair_of(cr(), observed).key.splitlines() if "PRIVATE" not in line}
    others = [child.body for child in made.values() if child.type != SECRET]
    said = SHORT.status(cr(), observed, SyncResult(in_sync=True)).status
    asked = [action.cache_key for action in SHORT.external_actions(cr(), observed)]
    assert asked
    assert [key for key in keys if key in str([others, said, asked])] == []
    bare = desired(cr({"name": "the_app", "login": True}), observed)
    assert made["db/StatefulSet"].body == bare["db/StatefulSet"].body
    for name in ("enabled", "passwordRequired"):
        off = cr({**ALONE, "clientCertificate": {"enabled": False, name: False}})
        assert [child.body for child in desired(off, observed).values()] == [
            child.body for child in bare.values()
        ]


def test_a_pair_is_kept_until_two_thirds_of_its_life_and_then_exchanged() -> None:
    world = settled(cr())
    first = mark(world, SECRET_NAME)
    # The successor of the server's own is of the same authority.
    for served in (mark(world), "another", ""):
        early = serving(cr(), world, served, HOURS * 0.6)
        assert read(pair_of(cr(), early)).fingerprint == first
        late = serving(cr(), world, served, HOURS * 0.7)
        assert read(pair_of(cr(), late)).not_after == NOW + HOURS * 1.7
    [left] = client_certificates.seconds_left(
        at(NOW, world).secret(namespace="ns", name=SECRET_NAME), at(NOW)
    )
    assert HOURS * 0.6 < timedelta(seconds=left) < HOURS * 0.7


def test_the_next_reconciliation_is_when_the_first_successor_is_due() -> None:
    world = settled(cr())
    known = at(NOW, world).secret(namespace="ns", name=SECRET_NAME)
    authority = at(NOW, world).secret(namespace="ns", name="db-server-ca")
    older = certificates.make_client(
        b"o", authority=Pair(authority["ca.crt"], authority["ca.key"]), name="the_app",
        now=NOW - HOURS / 2, life=HOURS,
    )  # fmt: skip
    world[named(SECRET_NAME)] = secret(**{**known, "tls.crt": older.certificate, "tls.key": older.key})
    facts = {"login": True, "rules": True, "hba": RULES}
    results = {
        login.SERVER: ExternalResult(ok=True, facts=facts),
        objects.OBJECTS: ExternalResult(ok=True),
    }
    made = SHORT.status(cr(), at(NOW, world), SyncResult(in_sync=True, results=results))
    assert isinstance(made.result, RequeueAfter)
    # It is valid from when the authority is, so its life is half of the usual.
    assert HOURS * 0.3 < timedelta(seconds=made.result.seconds) < HOURS * 0.4


@pytest.mark.parametrize("change", [{"tls.key": "x"}, {"tls.crt": "x"}, {"tls.crt": "", "tls.key": ""}, None])
def test_a_pair_that_somebody_spoils_is_made_again(change: dict[str, str] | None) -> None:
    world = settled(cr())
    known = at(NOW, world).secret(namespace="ns", name=SECRET_NAME)
    if change is None:
        found = at(NOW, settled(cr(CAREFUL))).secret(namespace="ns", name="db-role-careful")
        change = {name: found[name] for name in ("tls.crt", "tls.key")}
    world[named(SECRET_NAME)] = secret(**{**known, **change})
    pair = pair_of(cr(), at(NOW, world, LATER))
    assert certificates.is_pair(pair)
    assert read(pair).common_name == "the_app"
    assert read(pair).fingerprint not in (mark(settled(cr()), SECRET_NAME),)


def test_another_authority_is_the_servers_first() -> None:
    world = settled(cr())
    before = mark(world, SECRET_NAME)
    del world[named("db-server-ca")]
    made = desired(cr(), serving(cr(), world, mark(world), timedelta()))
    assert certificates.read(text(made["db-server-tls/Secret"])["tls.crt"]) is not None
    for name in ("db-server-ca", "db-server-tls", "db-binding"):
        world[named(name)] = {**made[f"{name}/Secret"].body, "metadata": {"uid": name}}
    # Until the server shows that it has read the new files, the old pair is what it takes.
    for served in ("the one before", ""):
        assert read(pair_of(cr(), serving(cr(), world, served, timedelta()))).fingerprint == before
    after = pair_of(cr(), serving(cr(), world, mark(world), timedelta()))
    assert read(after).fingerprint != before
    authority = at(NOW, world).secret(namespace="ns", name="db-server-ca")["ca.crt"]
    assert certificates.is_issued_by(after.certificate, authority)


def test_the_rules_ask_these_roles_before_all_others() -> None:
    lines = {"hba": ["host all all 10.0.0.0/8 reject"], "tls": {"required": True}}
    asked = [
        'hostssl all "the_app" all cert',
        'hostssl all "careful" all scram-sha-256 clientcert=verify-full',
        'hostnossl all "the_app","careful" all reject',
    ]
    for spec in ({}, lines):
        made = desired(cr(ALONE, CAREFUL, **spec), at(NOW))["db-config/ConfigMap"].body["data"]
        rules = made["pg_hba.conf"]
        assert rules.splitlines()[2:5] == asked
        assert rules.splitlines()[:2] == hba.DEFAULT.splitlines()[:2]
        assert hba.lines_of(rules) == list(spec.get("hba", ()))
        assert hba.demands_tls(rules) is bool(spec)
        assert hba.certified_in(rules) == {"the_app": "cert", "careful": asked[1].rpartition(" all ")[2]}
        assert "ssl_ca_file = '/etc/kindling/tls/ca.crt'" in made[PARAMETERS]
    off = desired(cr({"name": "the_app"}), at(NOW))["db-config/ConfigMap"].body["data"]
    assert off["pg_hba.conf"] == hba.DEFAULT
    assert "ssl_ca_file" not in str(off)


def test_ready_waits_until_the_rules_are_in_force_and_again_once_the_option_goes() -> None:
    world = settled(cr())
    observed = serving(cr(), world, mark(world), timedelta())
    asked = SHORT._login(cr(), observed)
    assert asked is not None
    assert (asked.hba, asked.parameters) == (hba.of(cr()), {"ssl_ca_file": "/etc/kindling/tls/ca.crt"})

    def status(resource: Object, files: ExternalResult | None, **facts: Any) -> tuple[Object, str, object]:
        results = {login.SERVER: ExternalResult(ok=True, facts={"login": True, **facts})}
        results[objects.OBJECTS] = ExternalResult(ok=True)
        results |= {reload.MEMBER: files} if files is not None else {}
        made = SHORT.status(resource, observed, SyncResult(in_sync=True, results=results))
        return made.status, find_condition(made.status, "Ready")["reason"], made.result

    waits = ExternalResult(ok=True, facts={"rules": False, "done": False})
    done = ExternalResult(ok=True, facts={"rules": True, "done": True, "hba": RULES})
    found, reason, _ = status(cr(), waits, rules=False)
    assert (reason, "hba" in found) == ("Reconciling", False)
    found, reason, result = status(cr(), done, rules=False)
    assert (reason, found["hba"]) == ("LoginSucceeded", RULES)
    [role] = found["roles"]
    assert role["clientCertificate"] == {"notAfter": "2026-01-01T03:01:00Z"}
    assert isinstance(result, RequeueAfter)
    assert HOURS * 0.6 < timedelta(seconds=result.seconds) < HOURS * 0.7

    gone = cr({"name": "the_app", "login": True}) | {"status": {"hba": RULES, "active": {"uid": "pod-uid"}}}
    asked = SHORT._login(gone, observed)
    assert asked is not None
    assert (asked.hba, asked.parameters) == (hba.DEFAULT, {})
    found, reason, _ = status(gone, waits, rules=False)
    assert (reason, found["hba"]) == ("Reconciling", RULES)
    found, reason, _ = status(gone, done, rules=False)
    assert (reason, "hba" in found, "clientCertificate" in found["roles"][0]) == (
        "LoginSucceeded", False, False,
    )  # fmt: skip
    assert not {"tls.crt", "tls.key"} & text(desired(gone, observed)[f"{SECRET_NAME}/Secret"]).keys()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (cr(tls={"enabled": False}), ["spec.roles[the_app].clientCertificate", "spec.tls.enabled", "true"]),
        (cr(tls={"secretName": "mine"}), ["spec.roles[the_app].clientCertificate", "'mine'", "leave one"]),
        (
            cr(hba=["host all all all reject", "host shop the_app 10.0.0.0/8 scram-sha-256"]),
            ["spec.hba[1]", "no effect on 'the_app'", "spec.roles[the_app].clientCertificate", "leave one"],
        ),
    ],
    ids=["no TLS", "another authority", "a line that has no effect"],
)
def test_what_cannot_work_is_refused_with_field_and_remedy(given: Object, words: list[str]) -> None:
    problem = SHORT.validate(given, at(NOW))
    assert problem is not None
    assert problem.reason == "InvalidSpec"
    assert [word for word in words if word.lower() not in problem.message.lower()] == []


@pytest.mark.parametrize("role", [{"name": "the_app", "login": True}, {**ALONE, "login": False}])
def test_what_needs_no_certificate_is_not_refused(role: Object) -> None:
    for tls in ({"enabled": False}, {}):
        assert SHORT.validate(cr(role, tls=tls, hba=["host all the_app all reject"]), at(NOW)) is None


def test_what_a_server_without_tls_says_of_these_lines_is_no_fault_of_a_line_of_the_spec() -> None:
    said = invalid_hba(["host all all all reject"], -3, "hostssl record cannot match", facts={})
    assert "spec.hba" not in said.message
    assert "spec.roles or spec.tls asks for: PostgreSQL says 'hostssl record cannot match'" in said.message


def test_a_pod_without_tls_is_restarted_for_it() -> None:
    world = at(NOW, running())
    workload = desired(cr(tls={"enabled": False}), world)["db/StatefulSet"].body
    token = workload["spec"]["template"]["metadata"]["annotations"]["kindling.dev/parameters"]
    for role, held in ((ALONE, False), ({"name": "the_app", "login": True}, True)):
        hashed = updates.spec_hash(cr(role), restart_token=token)
        notes = {**workload["metadata"]["annotations"], updates.SPEC_HASH: hashed}
        known = {**workload, "metadata": {"annotations": notes, "generation": 1}}
        known["status"] = {"observedGeneration": 1, "updateRevision": "r1"}
        seen = at(NOW, {**running(), Ref(STATEFUL_SET, "ns", "db"): known})
        strategy = desired(cr(role), seen)["db/StatefulSet"].body["spec"]["updateStrategy"]
        assert (strategy["type"] == "OnDelete") is held
