"""spec.tls of a Memcached: what is served, when the next certificate comes, what clients trust meanwhile."""

from __future__ import annotations

from datetime import timedelta

import pytest
from kindling.kinds import certificates
from kindling.kinds.base import ExternalResult, RequeueAfter
from kindling.kinds.memcached.access import AccessRequest
from kindling.kinds.memcached.spec import needed_mebibytes
from kindling.kinds.memcached.stats import StatsRequest
from kindling.kinds.registry import kinds
from kindling.kinds.server_tls import DEFAULT_LIFE
from kindling.kube.resources import CONFIG_MAP, DEPLOYMENT, SECRET, Object, Ref

from tests.unit.operator.memcacheds import KIND, NOW, memcached, observed
from tests.unit.operator.secured import ON, Cache, answered, mark

NAMES = ["cache", "cache.ns", "cache.ns.svc", "cache.ns.svc.cluster.local"]
OWN = certificates.make_authority(b"own", name="own", now=NOW)


def made(**spec: object) -> Cache:
    """With a certificate that all caches serve."""
    cache = Cache(tls={**ON, **spec})
    cache.settle()
    served = answered(fingerprint=mark(cache.secret("server-tls")))
    cache.say(served, served)
    cache.settle()
    return cache


def own(cache: Cache, *, names: list[str] | None = None, entropy: bytes = b"k") -> None:
    """A pair of the user's own in the Secret `mine`."""
    pair = certificates.make_server(
        entropy, authority=OWN, name="cache", hosts=names or NAMES, now=NOW, life=timedelta(days=2)
    )
    cache.put("mine", tls_crt=pair.certificate, tls_key=pair.key, ca_crt=OWN.certificate)


@pytest.mark.parametrize("spec", [{}, {"tls": None}, {"tls": {"enabled": False}}])
def test_without_it_there_is_nothing_of_it(spec: Object) -> None:
    assert [child.body for child in KIND.desired(memcached(**spec), observed())] == [
        child.body for child in KIND.desired(memcached(), observed())
    ]


def test_a_certificate_of_its_own_authority_names_the_service() -> None:
    cache = made()
    pair, authority, binding = (cache.secret(name) for name in ("server-tls", "server-ca", "binding"))
    found = certificates.read(pair["tls.crt"])
    assert found is not None
    assert found.names == {*NAMES}
    assert found.not_after == NOW + DEFAULT_LIFE
    assert certificates.is_issued_by(pair["tls.crt"], binding["ca.crt"])
    assert binding["ca.crt"] == authority["ca.crt"] == pair["ca.crt"]
    assert {*binding} == {"type", "provider", "host", "port", "ca.crt"}


def test_the_pod_has_the_pair_and_what_reads_it_again() -> None:
    cache = made()
    (workload,) = (child for child in cache.desired() if child.type == DEPLOYMENT)
    pod = workload.body["spec"]["template"]["spec"]
    server, reload = pod["containers"]
    assert "--enable-ssl" in server["command"]
    assert "ssl_chain_cert=/etc/kindling/tls/tls.crt,ssl_key=/etc/kindling/tls/tls.key" in server["command"]
    assert "--certificate=/etc/kindling/tls/tls.crt" in reload["command"]
    assert "shareProcessNamespace" not in pod
    (volume,) = pod["volumes"]
    assert [item["key"] for item in volume["secret"]["items"]] == ["tls.crt", "tls.key"]
    assert "cache-server-ca" not in str(workload.body)
    assert (
        server["resources"]["limits"]["memory"] == f"{needed_mebibytes(memory=64, connections=1024) + 32}Mi"
    )


def test_the_exporter_has_no_key() -> None:
    cache = Cache(tls=ON, auth=ON, exporter=ON)
    (workload,) = (child for child in cache.desired() if child.type == DEPLOYMENT)
    *_, exporter = workload.body["spec"]["template"]["spec"]["containers"]
    assert exporter["command"][2:] == [
        "--memcached=localhost:11211",
        "--tls",
        "--users=/etc/kindling/auth/users",
    ]
    assert [mount["name"] for mount in exporter["volumeMounts"]] == ["auth"]


def test_a_renewed_certificate_replaces_no_pod() -> None:
    cache = made()
    before = [child.body for child in cache.desired() if child.type == DEPLOYMENT]
    first = mark(cache.secret("server-tls"))
    cache.now = NOW + DEFAULT_LIFE * 0.6
    assert cache.step() == []
    result = cache.report().result
    assert isinstance(result, RequeueAfter)
    assert result.seconds < DEFAULT_LIFE.total_seconds() * 0.1
    cache.now = NOW + DEFAULT_LIFE * 0.7
    cache.settle()
    assert mark(cache.secret("server-tls")) != first
    assert [child.body for child in cache.desired() if child.type == DEPLOYMENT] == before


def test_clients_trust_both_authorities_until_all_serve_the_new_certificate() -> None:
    cache = made()
    old = cache.secret("binding")["ca.crt"]
    cache.cr["spec"]["tls"]["secretName"] = "mine"
    own(cache)
    cache.settle()
    new = mark(cache.secret("server-tls"))
    both = certificates.merged(OWN.certificate, old)
    assert cache.secret("binding")["ca.crt"] == both
    request = KIND.probes(cache.cr, cache.world)["access/cache-0"].request
    assert isinstance(request, AccessRequest)
    assert (request.ca, request.name) == (both, "cache.ns.svc")
    cache.say(answered(fingerprint=new), answered(fingerprint="0" * 64))
    cache.settle()
    assert cache.secret("binding")["ca.crt"] == both
    cache.say(answered(fingerprint=new), answered(fingerprint=new))
    cache.settle()
    assert cache.secret("binding")["ca.crt"] == certificates.merged(OWN.certificate)


def test_a_bad_pair_changes_nothing_and_is_named() -> None:
    cache = made()
    before = cache.secret("server-tls")
    cache.cr["spec"]["tls"]["secretName"] = "mine"
    own(cache, names=["other"])
    cache.settle()
    assert KIND.validate(cache.cr, cache.world) is None
    assert cache.secret("server-tls") == before
    served = answered(fingerprint=mark(before))
    cache.say(served, served)
    truth, reason, message = cache.ready()
    assert (truth, reason) == ("False", "InvalidCertificate")
    assert "spec.tls.secretName 'mine'" in message
    fresh = Cache(tls={**ON, "secretName": "mine"})
    own(fresh, names=["other"])
    assert KIND.validate(fresh.cr, fresh.world) is not None


def test_the_status_has_what_ends_first_and_keeps_it_while_nobody_says() -> None:
    cache = made()
    fingerprint = mark(cache.secret("server-tls"))
    early = answered(fingerprint=fingerprint, ends="2026-03-01T00:00:00Z")
    cache.say(answered(fingerprint=fingerprint), early)
    found = cache.report().status
    assert found["tls"] == {"notAfter": "2026-03-01T00:00:00Z", "issuer": "CN=cache-server-ca"}
    assert found["binding"] == {"name": "cache-binding"}
    (metric,) = KIND.metrics
    assert metric.read({"status": found}) == 1772323200.0
    cache.cr["status"] = found
    cache.results = {}
    assert cache.report().status["tls"] == found["tls"]
    assert cache.ready()[:2] == ("False", "Reconciling")


def test_one_that_proves_to_be_nobody_is_not_ready() -> None:
    cache = made()
    rejected = ExternalResult(ok=False, reason="CertificateRejected", message="It is another.")
    cache.say(answered(fingerprint="0" * 64), rejected)
    assert cache.ready() == ("False", "CertificateRejected", "It is another.")


def test_statistics_are_asked_as_clients_are_let_in() -> None:
    cache = Cache(tls=ON, auth=ON, statistics=True)
    assert KIND.probes(cache.cr, cache.world) == {}  # no Secret is read yet, so nobody gets in
    cache.settle()
    asked = KIND.probes(cache.cr, cache.world)
    assert set(asked) == {"access/cache-0", "access/cache-1", "cache-0", "cache-1"}
    for name, probe in asked.items():
        assert isinstance(probe.request, AccessRequest)
        assert isinstance(probe.request, StatsRequest) == probe.background == (not name.startswith("access/"))
        assert probe.request.ca
        assert probe.request.passwords


def test_memcacheds_own_proxy_does_not_get_there() -> None:
    for cache in (Cache(binding="ConfigMap", tls=ON), Cache(binding="ConfigMap", auth=ON)):
        (listed,) = (child for child in cache.desired() if child.type == CONFIG_MAP)
        assert "servers" in listed.body["data"]
        assert "proxy.lua" not in listed.body["data"]


def test_off_again_leaves_the_secrets_as_they_are() -> None:
    cache = made()
    cache.cr["spec"]["tls"] = {"enabled": False}
    found = {child.ref: child for child in cache.desired() if child.type == SECRET}
    assert {ref.name for ref in found} == {"cache-server-tls", "cache-server-ca", "cache-binding"}
    assert all(child.create_only and "data" not in child.body for child in found.values())
    assert Ref(SECRET, "ns", "cache-auth") not in found
    assert "tls" not in cache.report().status


def test_an_operator_without_postgresql_has_no_right_on_secrets_and_says_so() -> None:
    images = {"memcached": "memcached:1.6", "exporters": "exporters:1"}
    (alone,) = kinds(images, only=["Memcached"])
    assert SECRET not in (*alone.children, *alone.watches)
    for field, cr in (("spec.tls.enabled", memcached(tls=ON)), ("spec.auth.enabled", memcached(auth=ON))):
        assert (alone.secrets(cr), alone.watched_objects(cr)) == ((), ())
        problem = alone.validate(cr, observed())
        assert problem is not None
        assert problem.message.startswith(f"{field} 'true' needs Secrets")
        assert KIND.validate(cr, observed()) is None
        assert alone.probes(cr, observed()) == {}
    assert alone.validate(memcached(), observed()) is None
    assert {child.type for child in alone.desired(memcached(), observed())} <= set(alone.children)


def test_beside_postgresql_it_may_keep_them() -> None:
    images = {name: f"{name}:1" for name in ("memcached", "exporters", "postgres", "postgres-init")}
    (cache,) = (
        kind for kind in kinds(images, only=["Memcached", "Postgresql"]) if kind.type.kind == "Memcached"
    )
    assert SECRET in cache.children
    assert cache.validate(memcached(tls=ON), observed()) is None
