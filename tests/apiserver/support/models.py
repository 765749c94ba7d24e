"""The children that a resource of each kind has, as models for objects that stand in their place."""

from __future__ import annotations

import json

import pytest
from kindling.kinds.base import Kind
from kindling.kube.resources import Ref

from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, ref_to
from tests.apiserver.support.kinds import OF_ANOTHER, POSTGRESQL_EXAMPLE, WITH_A_STORE

# One of each sort: that of the second group differs in nothing that counts here.
MAKERS: dict[str, Kind] = {
    crd: kind
    for crd, kind in KINDS_BY_NAME.items()
    if kind.children and kind.type.kind not in OF_ANOTHER and crd != POSTGRESQL_EXAMPLE.id
}
EACH_KIND = pytest.mark.parametrize("kind", MAKERS.values(), ids=MAKERS.keys())
RUNNERS = {crd: kind for crd, kind in MAKERS.items() if kind.type.kind not in WITH_A_STORE}
EACH_RUNNER = pytest.mark.parametrize("kind", RUNNERS.values(), ids=RUNNERS.keys())
# Of the server's making: a new object must not bring it along.
GIVEN = ("clusterIP", "clusterIPs", "volumeName")


def models(cluster: Cluster, namespace: str) -> dict[str, dict[Ref, Json]]:
    """The children that a resource named `prototype-N` of each kind gets, by its CRD; gone by now."""
    refs = {crd: ref_to(kind, namespace, f"prototype-{n}") for n, (crd, kind) in enumerate(MAKERS.items())}
    for crd, ref in refs.items():
        cluster.create(MAKERS[crd], namespace, ref.name)
    cluster.wait_settled(*refs.values())
    found = {crd: cluster.children(MAKERS[crd], namespace, ref.name) for crd, ref in refs.items()}
    for ref in refs.values():
        cluster.delete(ref)
    return found


def copy_of(child: Json, *, prototype: str, name: str, owner: Json | None) -> Json:
    """An object of another writer, with the name that the child of another resource would have."""
    body: Json = json.loads(json.dumps(child).replace(prototype, name))
    spec = {key: value for key, value in body.get("spec", {}).items() if key not in GIVEN}
    kept = {key: value for key, value in body.items() if key in ("apiVersion", "kind", "type", "data")}
    meta = {"name": body["metadata"]["name"]} | ({"ownerReferences": [owner]} if owner else {})
    return {**kept, "metadata": meta, **({"spec": spec} if spec else {})}
