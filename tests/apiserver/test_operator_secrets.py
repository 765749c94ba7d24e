"""A password is nowhere but in Secrets: all that the API holds, log, pages and requests are searched."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from kindling.kube.resources import SECRET, Ref

from tests.apiserver.conftest import Replica
from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, ref_to
from tests.apiserver.support.kinds import MINIMAL_SPECS, POSTGRESQL, POSTGRESQL_EXAMPLE, PULSAR_CONSUMER

IN_SPEC, IN_SECRET, TOKEN, CHANGED = (
    "canary/in:spec-8Zq1",
    "canary/in:secret-4Xw7",
    "canary.token.2Vb9",
    "canary/changed-6Kd3",
)
DATABASES = (POSTGRESQL.id, POSTGRESQL_EXAMPLE.id)

pytestmark = pytest.mark.usefixtures("replica")


@pytest.fixture(scope="module")
def canaries(running_cluster: Cluster, namespace: str, replica: Replica) -> list[str]:
    """Passwords and tokens in use, by every way they come: given, referred to, generated, changed."""
    cluster = running_cluster
    secret = {"metadata": {"name": "given"}, "stringData": {"password": IN_SECRET, "token": TOKEN}}
    cluster.api.create(SECRET.path(namespace=namespace), secret).accepted()
    canaries, refs = [IN_SPEC, IN_SECRET, TOKEN, CHANGED], []
    for number, crd in enumerate(DATABASES):
        kind = KINDS_BY_NAME[crd]
        specs: dict[str, Json] = {
            "spec": {"password": IN_SPEC},
            "reference": {"passwordSecretRef": {"name": "given", "key": "password"}},
            "generated": {},
            "changed": {"password": IN_SPEC},
            "roles": {
                "roles": [
                    {"name": "made", "login": True},
                    {"name": "given", "login": True, "passwordSecretRef": {"name": "given"}},
                ]
            },
        }
        for name, spec in specs.items():
            refs.append(ref_to(kind, namespace, f"{name}-{number}"))
            cluster.create(kind, namespace, f"{name}-{number}", spec)
    cluster.wait_settled(*refs)
    for ref in refs:
        if ref.name.startswith("changed"):
            cluster.merge(ref, {"spec": {"password": CHANGED}})
        # Edited and deleted, so that the reports of repairs are searched too.
        binding = Ref(SECRET, namespace, f"{ref.name}-binding")
        cluster.merge(binding, {"data": {"host": "eA=="}})
        cluster.delete(Ref(SECRET, namespace, f"{ref.name}-superuser"))
    if PULSAR_CONSUMER.id in KINDS_BY_NAME:
        kind = KINDS_BY_NAME[PULSAR_CONSUMER.id]
        auth = {"auth": {"tokenSecretRef": {"name": "given", "key": "token"}}}
        refs.append(ref_to(kind, namespace, "consumer"))
        cluster.create(kind, namespace, "consumer", {**MINIMAL_SPECS[PULSAR_CONSUMER.id], **auth})
    cluster.wait_settled(*refs)
    for secret in cluster.list(SECRET, namespace, selector={}):
        password = secret.get("data", {}).get("password")
        if password:
            canaries.append(base64.b64decode(password).decode())
    return sorted(set(canaries))


def _spellings(canary: str) -> Iterator[str]:
    """As it is, and as it looks in JSON, in a URI and in a Secret."""
    yield canary
    yield json.dumps(canary)[1:-1]
    yield quote(canary, safe="")
    yield base64.b64encode(canary.encode()).decode()


def _found(text: str, canaries: list[str]) -> list[str]:
    return [spelling for canary in canaries for spelling in _spellings(canary) if spelling in text]


def _searched(item: Json) -> Json:
    """Without what a Secret is for, and without the words in which a user asked for a password."""
    if item["kind"] == "Secret":
        return {key: value for key, value in item.items() if key not in ("data", "stringData")}
    if item["kind"] == "Postgresql":
        return {**item, "spec": {key: value for key, value in item["spec"].items() if key != "password"}}
    return item


def test_canaries_are_in_use(running_cluster: Cluster, namespace: str, canaries: list[str]) -> None:
    """Otherwise the tests below would find nothing and mean nothing."""
    bindings = [
        item
        for item in running_cluster.list(SECRET, namespace, selector={})
        if item["type"] == "servicebinding.io/postgresql"
    ]
    used = {base64.b64decode(item["data"]["password"]).decode() for item in bindings}
    # One that has changed gets there once a server lets it in, and here is none.
    assert {IN_SPEC, IN_SECRET} <= used
    generated = set(canaries) - {IN_SPEC, IN_SECRET, CHANGED, TOKEN}
    assert len(generated) >= 2 * len(DATABASES)
    assert all(len(password) >= 20 for password in generated)


def test_no_object_holds_a_password_but_secrets(running_cluster: Cluster, canaries: list[str]) -> None:
    """Status, Events, annotations, Pod specs, managedFields, revisions of workloads: all there is."""
    found, kinds = [], set()
    for item in running_cluster.everything():
        kinds.add(item["kind"])
        spellings = _found(json.dumps(_searched(item)), canaries)
        found += [(item["kind"], item["metadata"]["name"], spelling) for spelling in spellings]
    assert found == []
    assert {"Event", "Pod", "StatefulSet", "ControllerRevision", "ConfigMap", "Postgresql"} <= kinds


def test_log_contains_no_password(replica: Replica, canaries: list[str]) -> None:
    """At the most detailed level."""
    log = replica.process.log()
    assert "became leader" in log
    assert _found(log, canaries) == []


def test_pages_contain_no_password(replica: Replica, canaries: list[str]) -> None:
    for page in ("/metrics", "/healthz", "/readyz", "/debug/store"):
        assert _found(replica.process.get(page)[1], canaries) == []


def test_records_of_decisions_contain_no_password(
    replica: Replica, namespace: str, canaries: list[str]
) -> None:
    for number, crd in enumerate(DATABASES):
        group_kind = KINDS_BY_NAME[crd].type.group_kind
        for name in ("spec", "reference", "generated", "changed", "roles"):
            key = f"{group_kind}/{namespace}/{name}-{number}"
            status, text = replica.process.get(f"/debug/decisions?key={quote(key, safe='')}")
            assert status == 200, text
            assert {"children", "status"} <= {entry["what"] for entry in json.loads(text)["entries"]}
            assert _found(text, canaries) == []


def test_requests_name_no_password(running_cluster: Cluster, canaries: list[str]) -> None:
    """Their addresses and agents, as any log on the way to the server would have them."""
    text = running_cluster.audit.text()
    assert "postgresqls" in text
    assert _found(text, canaries) == []


def test_process_shows_no_password(replica: Replica, canaries: list[str]) -> None:
    process = Path("/proc") / str(replica.process.process.pid)
    shown = b"\n".join((process / name).read_bytes() for name in ("cmdline", "environ"))
    assert b"kindling" in shown
    assert _found(shown.decode(errors="replace"), canaries) == []
