"""Which certificate a server is to serve, when it gets the next one, what is said of a bad one: decisions."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from kindling.kinds import certificates, server_tls
from kindling.kinds.base import CachedResult, Child, ExternalResult, Observed, RequeueAfter, SyncResult
from kindling.kinds.certificates import Pair
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql import Postgresql, hba, login, objects, reload, updates
from kindling.kinds.postgresql.login import Login
from kindling.kinds.postgresql.reload import Reload
from kindling.kube.resources import POD, SECRET, STATEFUL_SET, Object, Ref

from tests.unit.operator.postgresqls import KIND, NOW, observed, postgresql, running, secret

HOURS = timedelta(hours=3)
SHORT = Postgresql(
    group="database.db.example.com",
    image="postgres:17",
    init_image="postgres-init:1",
    exporters_image="exporters:1",
    certificate_life=HOURS,
)
OWN = certificates.make_authority(b"own", name="own", now=NOW)
NAMES = ["db", "db.ns", "db.ns.svc", "db.ns.svc.cluster.local"]


def issued(
    *, hosts: list[str] | None = None, now: datetime = NOW, authority: Pair = OWN, entropy: bytes = b"k"
) -> Pair:
    return certificates.make_server(
        entropy, authority=authority, name="db", hosts=hosts or NAMES, now=now, life=HOURS
    )


def values(**changes: str) -> dict[str, str]:
    pair = issued()
    found = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": OWN.certificate}
    return {**found, **{name.replace("_", "."): text for name, text in changes.items()}}


def at(now: datetime, objects: Mapping[Ref, Object] | None = None, entropy: bytes = b"e" * 32) -> Observed:
    return replace(observed(objects), now=now, entropy=entropy)


def named(name: str) -> Ref:
    return Ref(SECRET, "ns", name)


def desired(cr: Object, world: Observed, kind: Postgresql = SHORT) -> dict[str, Child]:
    return {f"{child.ref.name}/{child.type.kind}": child for child in kind.desired(cr, world)}


def text(child: Child) -> dict[str, str]:
    return {name: base64.b64decode(value).decode() for name, value in child.body["data"].items()}


def settled(cr: Object, now: datetime = NOW) -> dict[Ref, Object]:
    """Server, Secrets and binding as they are once all is written."""
    world = running()
    world[Ref(POD, "ns", "db-0")]["metadata"]["annotations"] = {server_tls.ANNOTATION: server_tls.ACTIVE}
    made = desired(cr, at(now, world))
    for name in ("db-server-ca", "db-server-tls", "db-binding"):
        world[named(name)] = {**made[f"{name}/Secret"].body, "metadata": {"uid": name}}
    return world


def mark(child: Child) -> str:
    certificate = certificates.read(text(child)["tls.crt"])
    assert certificate is not None
    return certificate.fingerprint


def test_an_authority_of_its_own_signs_for_every_name_of_the_service() -> None:
    made = desired(postgresql(), at(NOW))
    pair = text(made["db-server-tls/Secret"])
    certificate = certificates.read(pair["tls.crt"])
    assert certificate is not None
    assert certificate.names == set(NAMES)
    assert certificate.not_after == NOW + HOURS
    authority = text(made["db-server-ca/Secret"])
    assert pair["ca.crt"] == authority["ca.crt"] == text(made["db-binding/Secret"])["ca.crt"]
    assert certificates.is_issued_by(pair["tls.crt"], authority["ca.crt"])
    assert certificates.is_pair(Pair(pair["tls.crt"], pair["tls.key"]))
    assert made["db-server-ca/Secret"].create_only
    template = made["db/StatefulSet"].body["spec"]["template"]
    mounted = {volume["name"]: volume for volume in template["spec"]["volumes"]}
    assert mounted["tls"]["secret"] == {"secretName": "db-server-tls", "defaultMode": 0o440}
    assert "db-server-ca" not in str(template)
    assert "ssl=on" in template["spec"]["containers"][0]["command"]


def test_a_certificate_is_kept_until_two_thirds_of_its_life_and_then_exchanged() -> None:
    cr = postgresql()
    world = settled(cr)
    first = mark(desired(cr, at(NOW, world))["db-server-tls/Secret"])
    early = at(NOW + HOURS * 0.6, world, b"f" * 32)
    assert mark(desired(cr, early)["db-server-tls/Secret"]) == first
    late = at(NOW + HOURS * 0.7, world, b"f" * 32)
    made = desired(cr, late)
    assert mark(made["db-server-tls/Secret"]) != first
    # Of the same authority, so that nobody has to learn anything.
    assert text(made["db-binding/Secret"])["ca.crt"] == text(made["db-server-ca/Secret"])["ca.crt"]


def test_the_shortest_life_leaves_the_time_in_which_a_pod_gets_its_files() -> None:
    life = timedelta(seconds=certificates.LEAST_SECONDS)
    pair = certificates.make_server(b"k", authority=OWN, name="db", hosts=NAMES, now=NOW, life=life)
    certificate = certificates.read(pair.certificate)
    assert certificate is not None
    assert certificate.not_after - certificate.renewal >= certificates.DELIVERY
    assert certificate.renewal > NOW


@pytest.mark.parametrize("name", ["db-server-ca", "db-server-tls"])
@pytest.mark.parametrize(
    "change", [None, {"tls.key": "no key"}, {"ca.crt": "x"}, {"tls.crt": "", "ca.key": ""}]
)
def test_a_secret_that_somebody_spoils_is_made_again(name: str, change: dict[str, str] | None) -> None:
    cr = postgresql()
    world = settled(cr)
    if change is None:
        del world[named(name)]
    else:
        known = observed(world).secret(namespace="ns", name=name)
        spoilt = {key: change.get(key, value) for key, value in known.items()}
        world[named(name)] = {**secret(**spoilt), "metadata": {"uid": name}}
    made = desired(cr, at(NOW, world, b"f" * 32))
    ca, pair = made["db-server-ca/Secret"], text(made["db-server-tls/Secret"])
    assert certificates.is_pair(Pair(pair["tls.crt"], pair["tls.key"]))
    assert certificates.is_issued_by(pair["tls.crt"], pair["ca.crt"])
    if name == "db-server-ca" and change != {"tls.key": "no key"}:
        assert ca.restore_data
        assert text(ca)["ca.crt"] == pair["ca.crt"]


def answer(world: Mapping[Ref, Object], cr: Object, served: str, **facts: Any) -> Observed:
    """What is observed once the server has said what it serves."""
    certificate = {"fingerprint": served, "not_after": "2026-01-01T03:01:00Z", "issuer": "CN=x"}
    result = ExternalResult(
        ok=True, facts={"login": True, "certificate": certificate, "rules": True, **facts}
    )
    bare = at(NOW, world)
    wanted = SHORT._login(cr, bare)
    assert wanted is not None
    known = CachedResult(cache_key=wanted.cache_key, result=result, at=NOW)
    seen = replace(bare, results={login.SERVER: known})
    # The key follows from what clients trust, and that from what is served.
    again = SHORT._login(cr, seen)
    assert again is not None
    return replace(seen, results={login.SERVER: replace(known, cache_key=again.cache_key)})


def requests(cr: Object, world: Observed) -> list[object]:
    return [action.request for action in SHORT.external_actions(cr, world)]


def test_while_another_certificate_is_served_both_authorities_are_trusted() -> None:
    cr = postgresql()
    world = settled(cr)
    before = text(desired(cr, at(NOW, world))["db-server-ca/Secret"])["ca.crt"]
    old = mark(desired(cr, at(NOW, world))["db-server-tls/Secret"])
    del world[named("db-server-ca")]
    made = desired(cr, answer(world, cr, old, rules=True))  # another authority
    seen = replace(answer(world, cr, old), entropy=b"f" * 32)
    made = desired(cr, seen)
    after = text(made["db-server-ca/Secret"])["ca.crt"]
    assert after != before
    assert text(made["db-binding/Secret"])["ca.crt"] == after + before
    for name in ("db-server-ca", "db-server-tls", "db-binding"):
        world[named(name)] = {**made[f"{name}/Secret"].body, "metadata": {"uid": name}}
    asked = SHORT._login(cr, answer(world, cr, old))
    assert isinstance(asked, Login)
    assert asked.ca == after + before
    new = mark(made["db-server-tls/Secret"])
    assert text(desired(cr, answer(world, cr, new))["db-binding/Secret"])["ca.crt"] == after


def test_a_server_reads_its_files_again_when_it_serves_another_certificate() -> None:
    cr = postgresql()
    world = settled(cr)
    served = mark(desired(cr, at(NOW, world))["db-server-tls/Secret"])
    assert requests(cr, answer(world, cr, served)) == []
    [asked] = requests(cr, answer(world, cr, "0" * 64))
    assert isinstance(asked, Reload)
    assert (asked.fingerprint, asked.tls_required) == (served, False)
    # A good answer that is not done keeps it in the list; one that is done ends it, and is kept.
    seen = answer(world, cr, "0" * 64)
    for done in (False, True):
        known = CachedResult(
            cache_key=asked.cache_key, result=ExternalResult(ok=True, facts={"done": done}), at=NOW
        )
        after = replace(seen, results={**seen.results, reload.MEMBER: known})
        assert bool(requests(cr, after)) is not done
        assert (reload.MEMBER in SHORT.probes(cr, after)) is done


def test_a_paused_resource_is_asked_nothing_of_the_kind() -> None:
    cr = postgresql(paused=True)
    assert requests(cr, answer(settled(cr), cr, "0" * 64)) == []


def test_an_untrusted_server_reads_its_files_before_anything_else_is_asked() -> None:
    cr = postgresql()
    world = settled(cr)
    bare = at(NOW, world)
    wanted = SHORT._login(cr, bare)
    assert wanted is not None
    refused = ExternalResult(ok=False, reason="CertificateRejected", message="m")
    known = CachedResult(cache_key=wanted.cache_key, result=refused, at=NOW)
    found = requests(cr, replace(bare, results={login.SERVER: known}))
    assert [type(each) for each in found] == [Reload, Login]


def test_the_login_verifies_where_the_pod_has_tls_and_nowhere_else() -> None:
    cr = postgresql()
    world = settled(cr)
    asked = SHORT._login(cr, at(NOW, world))
    assert asked is not None
    assert asked.ca == text(desired(cr, at(NOW, world))["db-server-ca/Secret"])["ca.crt"]
    assert asked.health_check().ca == asked.ca
    without = dict(world)
    del without[named("db-server-tls")], without[named("db-binding")]
    # With nobody to trust, nobody is asked: never without TLS.
    assert SHORT._login(cr, at(NOW, without)) is None
    del world[Ref(POD, "ns", "db-0")]["metadata"]["annotations"]
    plain = SHORT._login(cr, at(NOW, world))
    assert plain is not None
    assert (plain.ca, plain.tls_required) == (None, None)


def test_required_is_a_rule_of_login_and_ready_only_once_the_server_has_read_it() -> None:
    cr = postgresql(tls={"required": True})
    world = settled(cr)
    rules = desired(cr, at(NOW, world))["db-config/ConfigMap"].body["data"]["pg_hba.conf"]
    assert "hostssl all all all scram-sha-256" in rules
    assert "\nhost all" not in rules
    assert "local all all scram-sha-256" in rules
    served = mark(desired(cr, at(NOW, world))["db-server-tls/Secret"])
    seen = answer(world, cr, served, rules=False)
    [asked] = requests(cr, seen)
    assert isinstance(asked, Reload)
    assert asked.tls_required is True
    server = seen.results[login.SERVER].result

    def report(done: bool | None) -> tuple[str, str, object]:
        said = ExternalResult(ok=True, facts={"rules": done is not None, "done": done})
        files = {} if done is None else {reload.MEMBER: said}
        made = SHORT.status(cr, seen, SyncResult(in_sync=True, results={login.SERVER: server, **files}))
        ready = find_condition(made.status, "Ready")
        return ready["status"], ready["reason"], made.result

    assert report(None)[:2] == ("False", "Reconciling")
    # In force, while a certificate is on its way.
    assert report(False) == ("True", "LoginSucceeded", RequeueAfter(reload.RETRY_SECONDS))
    assert report(True)[:2] == ("True", "LoginSucceeded")


def test_rules_without_requirement_are_those_of_before() -> None:
    assert hba.file(tls_required=False) == hba.DEFAULT
    assert hba.file(tls_required=True) != hba.DEFAULT


def test_status_is_what_the_server_serves_and_looks_again_when_a_successor_is_due() -> None:
    cr = postgresql()
    world = settled(cr)
    seen = answer(world, cr, mark(desired(cr, at(NOW, world))["db-server-tls/Secret"]))
    sync = SyncResult(in_sync=True, results={login.SERVER: seen.results[login.SERVER].result})
    made = SHORT.status(cr, seen, sync)
    assert made.status["tls"] == {"active": True, "notAfter": "2026-01-01T03:01:00Z", "issuer": "CN=x"}
    assert isinstance(made.result, RequeueAfter)
    assert HOURS * 0.6 < timedelta(seconds=made.result.seconds) < HOURS * 0.7


def test_a_pod_from_before_serves_without_tls_and_says_so() -> None:
    """An upgrade of the operator restarts nothing: the change is held back, as any of its own."""
    cr = postgresql()
    world = running()
    sync = SyncResult(in_sync=True, results={login.SERVER: ExternalResult(ok=True)})
    made = SHORT.status(cr, at(NOW, world), sync)
    assert find_condition(made.status, "Ready")["status"] == "True"
    assert made.status["tls"]["active"] is False
    assert "kubectl rollout restart statefulset db" in made.status["tls"]["message"]
    assert "notAfter" not in made.status["tls"]


@pytest.mark.parametrize(
    ("given", "held"), [({}, True), ({"tls": {}}, False), ({"tls": {"required": True}}, False)]
)
def test_only_a_spec_that_asks_for_tls_restarts_a_pod_that_has_none(given: Object, held: bool) -> None:
    cr = postgresql(**given)
    world = at(NOW, running())
    workload = desired(postgresql(tls={"enabled": False}), world)["db/StatefulSet"].body
    # As an operator of before left it: no TLS, and of the spec that hash.
    hashed = updates.spec_hash(cr, restart_token=workload["spec"]["template"]["metadata"]["annotations"][
        "kindling.dev/parameters"
    ])  # fmt: skip
    notes = {**workload["metadata"]["annotations"], updates.SPEC_HASH: hashed}
    known = {**workload, "metadata": {"annotations": notes, "generation": 1}}
    known["status"] = {"observedGeneration": 1, "updateRevision": "r1"}
    world = at(NOW, {**running(), Ref(STATEFUL_SET, "ns", "db"): known})
    strategy = desired(cr, world)["db/StatefulSet"].body["spec"]["updateStrategy"]
    assert (strategy["type"] == "OnDelete") is held


def test_switched_off_leaves_nothing_of_it_in_the_pod_and_deletes_no_secret() -> None:
    cr = postgresql()
    world = settled(cr)
    for name in ("db-server-ca", "db-server-tls"):
        owner = {"uid": "cr-uid", "controller": True}
        world[named(name)]["metadata"] = {"uid": name, "ownerReferences": [owner]}
    made = desired(postgresql(tls={"enabled": False}), at(NOW, world))
    template = made["db/StatefulSet"].body["spec"]["template"]
    assert "ssl" not in str(template["spec"])
    assert server_tls.ANNOTATION not in template["metadata"]["annotations"]
    assert "ca.crt" not in made["db-binding/Secret"].body["data"]
    assert all("data" not in made[f"{name}/Secret"].body for name in ("db-server-ca", "db-server-tls"))


def test_the_uris_demand_a_verified_server_where_the_spec_asks_for_tls() -> None:
    cr = postgresql(tls={}, defaultUser="ada", password="a:b\\c")
    made = text(desired(cr, at(NOW))["db-binding/Secret"])
    assert made["sslmode"] == "verify-full"
    assert made["uri"].endswith("@db.ns.svc:5432/ada?sslmode=verify-full")
    expected = "jdbc:postgresql://db.ns.svc:5432/ada?user=ada&password=a%3Ab%5Cc&sslmode=verify-full"
    assert made["jdbc-uri"] == expected
    assert made["pgpass"] == "db.ns.svc:5432:ada:ada:a\\:b\\\\c"
    plain = text(desired(postgresql(), at(NOW))["db-binding/Secret"])
    assert "sslmode" not in plain
    assert "sslmode" not in plain["uri"] + plain["jdbc-uri"]


def test_a_named_pair_is_copied_and_watched() -> None:
    cr = postgresql(tls={"secretName": "mine"})
    assert "mine" in KIND.secrets(cr)
    assert "mine" in {watched.name for watched in KIND.watched_objects(cr)}
    world = at(NOW, {**running(), named("mine"): secret(**values())})
    assert SHORT.validate(cr, world) is None
    assert text(desired(cr, world)["db-server-tls/Secret"]) == values()
    assert "db-server-ca/Secret" not in desired(cr, world)


OTHER = certificates.make_authority(b"other", name="other", now=NOW)


@pytest.mark.parametrize(
    ("given", "reason", "words"),
    [
        (None, "SecretNotFound", "no such Secret"),
        (values(ca_crt=""), "SecretNotFound", "'ca.crt'"),
        (values(tls_crt="x"), "InvalidCertificate", "no certificate in PEM"),
        (values(tls_key=issued(entropy=b"z").key), "InvalidCertificate", "not the key"),
        (values(tls_crt=issued(hosts=["else.ns.svc"]).certificate), "InvalidCertificate", "db.ns.svc"),
        (values(ca_crt=OTHER.certificate), "InvalidCertificate", "not the authority"),
        (values(tls_crt=issued(now=NOW - HOURS).certificate), "CertificateExpired", "has ended at"),
        (values(tls_crt=issued(now=NOW + HOURS).certificate), "InvalidCertificate", "begins at"),
    ],
)
def test_a_bad_pair_is_named_and_the_server_keeps_the_last_good_one(
    given: dict[str, str] | None, reason: str, words: str
) -> None:
    cr = postgresql(tls={"secretName": "mine"})
    there = {named("mine"): secret(**given)} if given is not None else {}
    new = at(NOW, there)
    problem = SHORT.validate(cr, new)
    assert problem is not None
    assert problem.reason == reason
    assert words in problem.message
    assert "spec.tls.secretName 'mine'" in problem.message
    assert "BEGIN" not in problem.message
    good = issued(entropy=b"good")
    kept = {"tls.crt": good.certificate, "tls.key": good.key, "ca.crt": OWN.certificate}
    world = at(NOW, {**running(), **there, named("db-server-tls"): secret(**kept)})
    assert SHORT.validate(cr, world) is None
    assert text(desired(cr, world)["db-server-tls/Secret"]) == kept
    sync = SyncResult(in_sync=True, results={login.SERVER: ExternalResult(ok=True)})
    made = SHORT.status(cr, world, sync)
    ready = find_condition(made.status, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", reason)
    assert find_condition(made.status, "Available")["status"] == "True"


def test_a_chain_and_a_wildcard_are_good() -> None:
    wild = issued(hosts=["*.ns.svc"])
    certificate = certificates.read(wild.certificate)
    assert certificate is not None
    assert certificates.covers(certificate, "db.ns.svc")
    assert not certificates.covers(certificate, "db.other.svc")


def test_another_member_is_no_objects() -> None:
    assert len({login.SERVER, objects.OBJECTS, reload.MEMBER}) == 3
