"""spec.podTemplate by the operator's process: it reaches the Pods, edits are set back, and it goes again."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds.base import Kind
from kindling.kinds.metadata import selector_of
from kindling.kube.resources import DEPLOYMENT, POD, STATEFUL_SET, Ref

from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import Cluster, ref_to
from tests.apiserver.support.kinds import MINIMAL_SPECS
from tests.apiserver.support.models import EACH_RUNNER
from tests.unit.operator.placement import FULL, HOST

SECONDS = 10.0
# A class that every cluster has: with another, the API server refuses the Pods.
TEMPLATE: Json = {**FULL, "spec": {**FULL["spec"], "priorityClassName": "system-cluster-critical"}}
LABELS, ANNOTATIONS = FULL["metadata"]["labels"], FULL["metadata"]["annotations"]

EDITS: list[Json] = [
    {"metadata": {"labels": {"team": "other"}}},
    {"metadata": {"labels": {"team": None}}},
    {"metadata": {"annotations": {"example.com/owner": None}}},
    {"spec": {"nodeSelector": {"disk": "hdd"}}},
    {"spec": {"nodeSelector": {"more": "x"}}},
    {"spec": {"affinity": None}},
    {"spec": {"affinity": {"podAffinity": None}}},
    {"spec": {"tolerations": []}},
    {"spec": {"tolerations": [{"operator": "Exists"}]}},
    {"spec": {"topologySpreadConstraints": None}},
    {"spec": {"priorityClassName": "system-node-critical"}},
    {"spec": {"serviceAccountName": "other"}},
]

pytestmark = pytest.mark.usefixtures("replica")


def workload(cluster: Cluster, kind: Kind, ref: Ref) -> tuple[Ref, Json]:
    """Its Deployment or StatefulSet."""
    ((found, body),) = [
        (child, body)
        for child, body in cluster.children(kind, ref.namespace, ref.name).items()
        if child.type in (DEPLOYMENT, STATEFUL_SET)
    ]
    return found, body


def template(cluster: Cluster, child: Ref) -> Any:
    found = cluster.get(child)
    assert found is not None
    return found["spec"]["template"]


def placed(found: Json) -> Json:
    """What of a template podTemplate may say, and a node selector's default is none."""
    return {name: found["spec"].get(name) for name in TEMPLATE["spec"]}


def bear_the_labels(pods: list[Json]) -> bool:
    """A replaced Pod is missing for a moment: none is not all."""
    return bool(pods) and all(LABELS.items() <= pod["metadata"]["labels"].items() for pod in pods)


@EACH_RUNNER
def test_pods_get_it_edits_are_set_back_and_it_goes_with_the_field(
    running_cluster: Cluster, namespace: str, kind: Kind
) -> None:
    crd = f"{kind.type.plural}.{kind.type.group}"
    ref = ref_to(kind, namespace, f"placed-{kind.type.plural}")
    running_cluster.create(kind, namespace, ref.name, MINIMAL_SPECS[crd])
    running_cluster.wait_settled(ref)
    child, before = workload(running_cluster, kind, ref)
    plain = before["spec"]["template"]

    resource = running_cluster.merge(ref, {"spec": {"podTemplate": TEMPLATE}})
    running_cluster.wait_settled(ref)
    made = template(running_cluster, child)
    assert LABELS.items() <= made["metadata"]["labels"].items()
    assert ANNOTATIONS.items() <= made["metadata"]["annotations"].items()
    assert plain["metadata"]["labels"].items() <= made["metadata"]["labels"].items()
    own = {"labelSelector": {"matchLabels": selector_of(kind.type, resource)}}
    wanted = dict(TEMPLATE["spec"])
    affinity = {**wanted["affinity"]}
    affinity["podAntiAffinity"] = {
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOST, **own}]
    }
    wanted["affinity"] = affinity
    wanted["topologySpreadConstraints"] = [{**wanted["topologySpreadConstraints"][0], **own}]
    assert placed(made) == wanted

    wait_until(
        lambda: bear_the_labels(
            running_cluster.list(POD, namespace, selector=selector_of(kind.type, resource))
        ),
        seconds=3 * SECONDS,
        what=f"Pods of {ref} with the labels",
    )

    for edit in EDITS:
        edited = running_cluster.merge(child, {"spec": {"template": edit}})
        assert edited["spec"]["template"] != made, edit
        wait_until(
            lambda: template(running_cluster, child) == made,
            seconds=SECONDS,
            what=lambda edit=edit: f"{edit} set back",  # type: ignore[misc]
        )
        running_cluster.audit.wait_quiet(seconds=0.3)

    running_cluster.merge(ref, {"spec": {"podTemplate": None}})
    running_cluster.wait_settled(ref)
    assert template(running_cluster, child) == plain


@EACH_RUNNER
def test_at_rest_nothing_is_written_and_what_was_created_with_it_loses_it(
    running_cluster: Cluster, namespace: str, kind: Kind
) -> None:
    """What the server stores of it is what is wanted; and no field stays that was created, not applied."""
    crd = f"{kind.type.plural}.{kind.type.group}"
    ref = ref_to(kind, namespace, f"rests-{kind.type.plural}")
    running_cluster.create(kind, namespace, ref.name, {**MINIMAL_SPECS[crd], "podTemplate": TEMPLATE})
    running_cluster.wait_settled(ref)
    mark = running_cluster.audit.mark()
    running_cluster.merge(ref, {"metadata": {"labels": {"looked": "at"}}})
    running_cluster.audit.wait_quiet()
    assert running_cluster.audit.writes(mark, namespace=namespace) == []
    running_cluster.merge(ref, {"spec": {"podTemplate": None}})
    running_cluster.wait_settled(ref)
    made = workload(running_cluster, kind, ref)[1]["spec"]["template"]
    assert not LABELS.keys() & made["metadata"]["labels"].keys()
    assert not ANNOTATIONS.keys() & made["metadata"].get("annotations", {}).keys()
    default = {"topologySpreadConstraints"}  # other ones, of two kinds
    assert not ({*TEMPLATE["spec"], "serviceAccount"} - default) & made["spec"].keys()
