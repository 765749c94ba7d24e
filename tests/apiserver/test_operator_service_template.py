"""spec.serviceTemplate by the operator's process: it reaches the Service, which others write too."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds.base import Kind
from kindling.kube.resources import SERVICE, Ref

from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, path, ref_to
from tests.apiserver.support.kinds import MEMCACHED, MINIMAL_SPECS, POSTGRESQL
from tests.unit.operator.placement import SERVED

SECONDS = 10.0
METADATA = SERVED["metadata"]
TEMPLATES: dict[str, Json] = {POSTGRESQL.id: SERVED, MEMCACHED.id: {"metadata": METADATA}}
EACH = pytest.mark.parametrize("crd", TEMPLATES)
EDITS: list[Json] = [
    {"metadata": {"labels": {"team": "other"}}},
    {"metadata": {"labels": {"team": None}}},
    {"metadata": {"annotations": dict.fromkeys(METADATA["annotations"])}},
]
EDITS_OF_A_DATABASE: list[Json] = [
    {"spec": {"externalTrafficPolicy": "Cluster"}},
    {"spec": {"loadBalancerSourceRanges": None}},
    {"spec": {"loadBalancerSourceRanges": ["0.0.0.0/0"]}},
    {"spec": {"type": "NodePort", "loadBalancerSourceRanges": None, "loadBalancerClass": None}},
]
CLEANUP = "service.kubernetes.io/load-balancer-cleanup"
"""The finalizer of Kubernetes' own service controller."""

pytestmark = pytest.mark.usefixtures("replica")


def service(cluster: Cluster, ref: Ref) -> Any:
    found = cluster.get(Ref(SERVICE, ref.namespace, ref.name))
    assert found is not None
    return found


def bears(found: Json, template: Json) -> bool:
    """Whether a Service has all of the template."""
    return all(
        (found["metadata"].get(field) or {}).get(name) == value
        for field, names in template["metadata"].items()
        for name, value in names.items()
    ) and all(found["spec"].get(name) == value for name, value in template.get("spec", {}).items())


def made(cluster: Cluster, namespace: str, crd: str, name: str, **spec: Any) -> tuple[Kind, Ref]:
    kind = KINDS_BY_NAME[crd]
    ref = ref_to(kind, namespace, name)
    cluster.create(kind, namespace, name, {**MINIMAL_SPECS[crd], **spec})
    cluster.wait_settled(ref)
    return kind, ref


@EACH
def test_the_service_gets_it_edits_are_set_back_and_it_goes_with_the_field(
    running_cluster: Cluster, namespace: str, crd: str
) -> None:
    template = TEMPLATES[crd]
    _, ref = made(running_cluster, namespace, crd, f"served-{list(TEMPLATES).index(crd)}")
    plain = service(running_cluster, ref)
    running_cluster.merge(ref, {"spec": {"serviceTemplate": template}})
    running_cluster.wait_settled(ref)
    found = service(running_cluster, ref)
    assert bears(found, template)
    assert found["spec"].get("clusterIP") == plain["spec"].get("clusterIP")
    assert plain["metadata"]["labels"].items() <= found["metadata"]["labels"].items()
    for edit in [*EDITS, *(EDITS_OF_A_DATABASE if "spec" in template else [])]:
        edited = running_cluster.merge(Ref(SERVICE, ref.namespace, ref.name), edit)
        assert not bears(edited, template), edit
        wait_until(
            lambda: bears(service(running_cluster, ref), template),
            seconds=SECONDS,
            what=lambda edit=edit: f"{edit} set back",  # type: ignore[misc]
        )
        running_cluster.audit.wait_quiet(seconds=0.3)
    running_cluster.merge(ref, {"spec": {"serviceTemplate": None}})
    running_cluster.wait_settled(ref)
    after = service(running_cluster, ref)
    assert after["spec"] == plain["spec"]
    for field, names in METADATA.items():
        assert not names.keys() & after["metadata"].get(field, {}).keys()


@EACH
def test_what_was_created_with_it_loses_it(running_cluster: Cluster, namespace: str, crd: str) -> None:
    """No field stays that was created, not applied."""
    number = list(TEMPLATES).index(crd)
    _, ref = made(running_cluster, namespace, crd, f"born-{number}", serviceTemplate=TEMPLATES[crd])
    _, other = made(running_cluster, namespace, crd, f"plain-{number}")
    assert bears(service(running_cluster, ref), TEMPLATES[crd])
    running_cluster.merge(ref, {"spec": {"serviceTemplate": None}})
    running_cluster.wait_settled(ref)
    after, plain = service(running_cluster, ref), service(running_cluster, other)
    assert after["spec"].keys() == plain["spec"].keys()
    assert after["spec"]["type"] == "ClusterIP"
    assert [port.keys() for port in after["spec"]["ports"]] == [
        port.keys() for port in plain["spec"]["ports"]
    ]
    for field, names in METADATA.items():
        assert not names.keys() & after["metadata"].get(field, {}).keys()


def test_what_other_controllers_write_stays_and_costs_nothing(
    running_cluster: Cluster, namespace: str
) -> None:
    """Ports of the nodes, an address, a finalizer, a cloud's annotation: nothing is written for them."""
    _, ref = made(running_cluster, namespace, POSTGRESQL.id, "cloud", serviceTemplate=SERVED)
    child = Ref(SERVICE, namespace, "cloud")
    first = service(running_cluster, ref)
    assert first["spec"]["ports"][0]["nodePort"]
    assert "loadBalancer" not in running_cluster.ready(ref).get("message", "")
    running_cluster.audit.wait_quiet()
    mark = running_cluster.audit.mark()
    cloud: Json = {"annotations": {"cloud.example.com/id": "lb-1"}, "finalizers": [CLEANUP]}
    running_cluster.merge(child, {"metadata": cloud})
    address = {"status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}}}
    running_cluster.api.merge(f"{path(child)}/status", address).accepted()
    try:
        running_cluster.audit.wait_quiet()
        writes = running_cluster.audit.writes(mark, namespace=namespace)
        assert [request for request in writes if request.resource == SERVICE.plural] == []
        assert [request for request in writes if request.status] == []
        # An edit of the spec changes what is ours, and nothing beside it.
        running_cluster.merge(
            ref, {"spec": {"serviceTemplate": {"spec": {"externalTrafficPolicy": "Cluster"}}}}
        )
        running_cluster.wait_settled(ref)
        found = service(running_cluster, ref)
        assert found["spec"]["externalTrafficPolicy"] == "Cluster"
        assert found["spec"]["ports"] == first["spec"]["ports"]
        assert found["spec"]["clusterIP"] == first["spec"]["clusterIP"]
        assert found["metadata"]["annotations"]["cloud.example.com/id"] == "lb-1"
        assert found["metadata"]["finalizers"] == [CLEANUP]
        assert found["status"]["loadBalancer"]["ingress"][0]["ip"] == "203.0.113.7"
    finally:
        running_cluster.merge(child, {"metadata": {"finalizers": None}})


def test_a_type_comes_and_goes_and_the_address_within_the_cluster_stays(
    running_cluster: Cluster, namespace: str
) -> None:
    _, ref = made(running_cluster, namespace, POSTGRESQL.id, "typed")
    plain = service(running_cluster, ref)["spec"]
    for type in ("NodePort", "LoadBalancer", "NodePort", "ClusterIP"):
        running_cluster.merge(ref, {"spec": {"serviceTemplate": {"spec": {"type": type}}}})
        running_cluster.wait_settled(ref)
        found = service(running_cluster, ref)["spec"]
        assert (found["type"], found["clusterIP"]) == (type, plain["clusterIP"])
        assert ("nodePort" in found["ports"][0]) is (type != "ClusterIP")
    assert found == plain
