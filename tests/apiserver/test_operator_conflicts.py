"""What is not the operator's own it leaves alone: objects of a child's name, and others' Pods."""

from __future__ import annotations

import time

import pytest
from kindling.kinds.base import Kind
from kindling.kinds.metadata import INSTANCE_LABEL, KIND_LABEL
from kindling.kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    NETWORK_POLICY,
    POD,
    SERVICE,
    STATEFUL_SET,
    Ref,
)

from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, ref_to
from tests.apiserver.support.kinds import POSTGRESQL, POSTGRESQL_EXAMPLE
from tests.apiserver.support.models import EACH_KIND, MAKERS, RUNNERS, copy_of, models

WORKLOADS = (DEPLOYMENT, STATEFUL_SET)

pytestmark = pytest.mark.usefixtures("replica")


@pytest.fixture(scope="module")
def prototypes(running_cluster: Cluster, namespace: str, replica: object) -> dict[str, dict[Ref, Json]]:
    return models(running_cluster, namespace)


def _essence(obj: Json | None) -> Json:
    """All that is not a controller's word on it."""
    found = {key: value for key, value in (obj or {}).items() if key not in ("status", "metadata")}
    meta = (obj or {}).get("metadata", {})
    notes = meta.get("annotations", {}).items()
    kept = {key: value for key, value in notes if not key.startswith("deployment.kubernetes.io/")}
    return {**found, "notes": kept, **{key: meta.get(key) for key in ("uid", "labels", "ownerReferences")}}


@EACH_KIND
@pytest.mark.parametrize("owned", [False, True], ids=["of nobody", "of another"])
def test_object_of_a_childs_name_is_left_alone(
    running_cluster: Cluster,
    namespace: str,
    prototypes: dict[str, dict[Ref, Json]],
    kind: Kind,
    owned: bool,
) -> None:
    cluster, crd = running_cluster, f"{kind.type.plural}.{kind.type.group}"
    prototype = f"prototype-{list(MAKERS).index(crd)}"
    owner = None
    if owned:
        boss = cluster.api.create(
            CONFIG_MAP.path(namespace=namespace), {"metadata": {"generateName": "boss-"}}
        )
        meta = boss.accepted()["metadata"]
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"], "uid": meta["uid"]}
        owner["controller"] = True
    strangers: dict[Ref, Json] = {}
    refs = []
    for number, (child, body) in enumerate(prototypes[crd].items()):
        name = f"taken-{list(MAKERS).index(crd)}-{number}-{'owned' if owned else 'free'}"
        copy = copy_of(body, prototype=prototype, name=name, owner=owner)
        made = cluster.api.create(child.type.path(namespace=namespace), copy).accepted()
        strangers[Ref(child.type, namespace, made["metadata"]["name"])] = made
        refs.append(ref_to(kind, namespace, name))
    mark = cluster.audit.mark()
    for ref in refs:
        cluster.create(kind, namespace, ref.name)
    for ref, stranger in zip(refs, strangers, strict=True):
        ready = cluster.wait_ready_reason(ref, "NameConflict")
        assert ready["status"] == "False"
        assert f"{stranger.type.kind} {namespace}/{stranger.name}, which " in ready["message"]
    cluster.audit.wait_quiet()
    for ref in refs:
        cluster.delete(ref)
    time.sleep(1)
    writes = [
        (request.resource, request.name)
        for request in cluster.audit.writes(mark, namespace=namespace)
        if not request.status and request.code < 300
    ]
    assert not {(stranger.type.plural, stranger.name) for stranger in strangers} & set(writes)
    if crd == POSTGRESQL.id:  # what it would make first holds data, or opens it
        assert not [name for _, name in writes if any(name.startswith(ref.name) for ref in refs)]
    for stranger, made in strangers.items():
        assert _essence(cluster.get(stranger)) == _essence(made)
        cluster.delete(stranger)


def test_second_postgresql_of_a_name_leaves_the_first_alone(running_cluster: Cluster, namespace: str) -> None:
    cluster = running_cluster
    kinds_by_name = [KINDS_BY_NAME[POSTGRESQL.id], KINDS_BY_NAME[POSTGRESQL_EXAMPLE.id]]
    first, second = [ref_to(kind, namespace, "twin") for kind in kinds_by_name]
    cluster.create(kinds_by_name[0], namespace, "twin")
    cluster.wait_settled(first)
    before = cluster.children(kinds_by_name[0], namespace, "twin")
    mark = cluster.audit.mark()
    cluster.create(kinds_by_name[1], namespace, "twin")
    ready = cluster.wait_ready_reason(second, "NameConflict")
    assert POSTGRESQL.manifest["spec"]["group"] in ready["message"]
    cluster.delete(second)
    time.sleep(1)
    assert {request.resource for request in cluster.audit.writes(mark, namespace=namespace)} == {
        "postgresqls/status"
    }
    after = cluster.children(kinds_by_name[0], namespace, "twin")
    assert {ref: _essence(child) for ref, child in after.items()} == {
        ref: _essence(child) for ref, child in before.items()
    }


def test_no_selector_reaches_anothers_pods(running_cluster: Cluster) -> None:
    """Of names that begin alike, too."""
    cluster, namespace = running_cluster, running_cluster.namespace("selectors")
    refs = [
        ref_to(kind, namespace, f"alike-{number}{ending}")
        for number, kind in enumerate(RUNNERS.values())
        for ending in ("", "-0", "1")
    ]
    for ref in refs:
        cluster.create(_kind_of(ref), namespace, ref.name)
    cluster.wait_settled(*refs)
    pods = cluster.list(POD, namespace, selector={})
    for ref in refs:
        kind = _kind_of(ref)
        mine = {KIND_LABEL: kind.type.group_kind, INSTANCE_LABEL: ref.name}
        own = {pod["metadata"]["name"] for pod in pods if mine.items() <= pod["metadata"]["labels"].items()}
        assert own, f"{ref} has no Pod"
        for child, body in cluster.children(kind, namespace, ref.name).items():
            selector = _selector(child, body)
            if selector is not None:
                assert selector, f"{child} selects everything"
                reached = {
                    pod["metadata"]["name"]
                    for pod in pods
                    if selector.items() <= pod["metadata"]["labels"].items()
                }
                assert reached == own, child


def _selector(child: Ref, body: Json) -> dict[str, str] | None:
    if child.type == SERVICE:
        found: dict[str, str] = body["spec"].get("selector", {})
    elif child.type in (*WORKLOADS, DISRUPTION_BUDGET):
        found = body["spec"]["selector"]["matchLabels"]
    elif child.type == NETWORK_POLICY:
        found = body["spec"]["podSelector"]["matchLabels"]
    else:
        return None
    return found


def _kind_of(ref: Ref) -> Kind:
    return next(kind for kind in KINDS_BY_NAME.values() if kind.type == ref.type)
