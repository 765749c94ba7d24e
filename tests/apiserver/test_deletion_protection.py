"""What is protected is deleted by nobody, root included, before somebody takes the protection off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra import deletion_protection
from infra.deletion_protection import LABEL
from tests.apiserver.support.apiclient import Api, Json, Response
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.kinds import CRD_COLLECTION, KINDS, POSTGRESQL, POSTGRESQL_EXAMPLE, Kind
from tests.apiserver.support.policed import created

NAMESPACE = "deletion-protection"
CLAIMS = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
SECONDS = 30.0
BOTH = pytest.mark.parametrize("kind", [POSTGRESQL, POSTGRESQL_EXAMPLE], ids=lambda kind: kind.id)


def path(kind: Kind, name: str = "") -> str:
    collection = kind.collection.replace("/namespaces/default/", f"/namespaces/{NAMESPACE}/")
    return f"{collection}/{name}" if name else collection


def makes(api: Api, kind: Kind, name: str, *, protected: bool) -> None:
    body = kind.resource(name, {"deletionProtection": protected})
    body["metadata"]["namespace"] = NAMESPACE
    api.create(path(kind), body).accepted()


def dry_deletes(api: Api, of: str) -> Response:
    return api.request("DELETE", of, query={"dryRun": "All"})


def refused(answer: Response, *words: str) -> None:
    assert answer.status == 403, f"{answer.status}: {answer.message}"
    for word in words:
        assert word in answer.message


@pytest.fixture(scope="module", autouse=True)
def in_force(api: Api) -> Iterator[None]:
    """Every policy, those for the definitions too; gone again before the next module."""
    crds = [kind.manifest for kind in KINDS.values()]
    api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": {LABEL: "true"}}}).accepted()
    makes(api, POSTGRESQL, "first", protected=True)
    all_of_them = [
        path(POSTGRESQL, "first"),
        f"/api/v1/namespaces/{NAMESPACE}",
        f"{CRD_COLLECTION}/{POSTGRESQL.manifest['metadata']['name']}",
    ]

    def statuses() -> set[int]:
        return {dry_deletes(api, of).status for of in all_of_them}

    try:
        with created(api, deletion_protection.policies(crds, definitions=True)):
            wait_until(lambda: statuses() == {403}, seconds=SECONDS, what="the policies being in force")
            yield
    finally:
        wait_until(lambda: statuses() == {200}, seconds=SECONDS, what="the policies being gone")


@BOTH
def test_what_is_only_a_plan_for_a_protected_resource_is_not_protected(api: Api, kind: Kind) -> None:
    """Or `kubectl kindling plan` could not delete it."""
    spec = {"deletionProtection": True, "mode": "Plan", "planFor": "kept"}
    body = kind.resource("plan-1", spec)
    body["metadata"]["namespace"] = NAMESPACE
    api.create(path(kind), body).accepted()
    api.delete(path(kind, "plan-1")).accepted()


@BOTH
def test_a_protected_resource_stays_until_the_protection_is_taken_off(api: Api, kind: Kind) -> None:
    makes(api, kind, "kept", protected=True)
    refused(
        api.delete(path(kind, "kept")),
        f"spec.deletionProtection 'true' keeps Postgresql {NAMESPACE}/kept from being deleted",
        "set it to false first",
    )
    refused(api.delete(path(kind)))  # As a namespace's end deletes them, and `kubectl delete --all`.
    assert "deletionTimestamp" not in api.get(path(kind, "kept")).accepted()["metadata"]
    api.merge(path(kind, "kept"), {"spec": {"deletionProtection": False}}).accepted()
    api.delete(path(kind, "kept")).accepted()


@BOTH
def test_what_is_not_protected_goes(api: Api, kind: Kind) -> None:
    makes(api, kind, "free", protected=False)
    api.create(path(kind), kind.resource("unsaid", {}) | {"metadata": {"name": "unsaid"}}).accepted()
    api.delete(path(kind, "free")).accepted()
    api.delete(path(kind, "unsaid")).accepted()


def claim(name: str, *, labels: Json) -> Json:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    return {"metadata": {"name": name, "labels": labels}, "spec": spec}


def test_the_claim_of_a_protected_database_stays(api: Api) -> None:
    api.create(CLAIMS, claim("db-data", labels={LABEL: "true"})).accepted()
    api.create(CLAIMS, claim("other-data", labels={})).accepted()
    words = f"kubectl label persistentvolumeclaims db-data -n {NAMESPACE} {LABEL}-"
    refused(api.delete(f"{CLAIMS}/db-data"), f"label {LABEL} keeps PersistentVolumeClaim db-data", words)
    api.delete(f"{CLAIMS}/other-data").accepted()
    api.merge(f"{CLAIMS}/db-data", {"metadata": {"labels": {LABEL: None}}}).accepted()
    api.delete(f"{CLAIMS}/db-data").accepted()


def test_a_namespace_with_the_label_stays(api: Api) -> None:
    words = f"`kubectl label namespaces {NAMESPACE} {LABEL}-`"
    refused(api.delete(f"/api/v1/namespaces/{NAMESPACE}"), f"keeps Namespace {NAMESPACE}", words)
    api.create("/api/v1/namespaces", {"metadata": {"name": "deletion-free"}}).accepted()
    api.delete("/api/v1/namespaces/deletion-free").accepted()


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.id)
def test_a_protected_stack_keeps_its_definitions(api: Api, kind: Kind) -> None:
    name = kind.manifest["metadata"]["name"]
    refused(api.delete(f"{CRD_COLLECTION}/{name}"), f"keeps definition {name}", "python3 -m infra up")


def test_only_a_protected_stack_does() -> None:
    crds = [kind.manifest for kind in KINDS.values()]
    names = [policy.name for policy in deletion_protection.policies(crds, definitions=False)]
    assert names == ["kindling-protected-resources", "kindling-protected-data"]


def test_nothing_is_asked_where_no_kind_has_data() -> None:
    memcached = [
        kind.manifest for kind in KINDS.values() if kind.manifest["spec"]["names"]["kind"] == "Memcached"
    ]
    assert deletion_protection.policies(memcached, definitions=False) == []
