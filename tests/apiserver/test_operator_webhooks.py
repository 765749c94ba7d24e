"""A mutating webhook that changes what the operator writes: it is neither fought nor taken for an edit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from kindling.kube.resources import DEPLOYMENT, EVENT, Ref

from tests.apiserver.conftest import ENVIRONMENT
from tests.apiserver.support.apiclient import Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import Cluster, ref_to
from tests.apiserver.support.kinds import MEMCACHED
from tests.apiserver.support.models import MAKERS
from tests.apiserver.support.operator_process import OperatorProcess, operator
from tests.apiserver.support.webhook import Patches, mutating

RESYNC_SECONDS = 2
RESYNCS = 4
SECONDS = 10.0
# As policies of platforms have it: images of a mirror, another default, a label.
WORKLOAD: list[dict[str, Any]] = [
    {"op": "add", "path": "/spec/template/spec/terminationGracePeriodSeconds", "value": 45},
    {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "mirror.example.com/a:1"},
]
POLICIES: Patches = {
    "Deployment": WORKLOAD,
    "StatefulSet": WORKLOAD,
    "Service": [{"op": "add", "path": "/metadata/labels/app.kubernetes.io~1managed-by", "value": "platform"}],
}
FIELDS = {
    "Deployment": ["spec.template.spec.terminationGracePeriodSeconds", ".image"],
    "StatefulSet": ["spec.template.spec.terminationGracePeriodSeconds", ".image"],
    "Service": ["metadata.labels.app.kubernetes.io/managed-by"],
}


class Hooked(NamedTuple):
    """A namespace in which the webhook is at work, with one resource of each kind, by the name of its CRD."""

    cluster: Cluster
    namespace: str
    refs: dict[str, Ref]

    def notes(self, reason: str) -> list[str]:
        """Of the operator's Events."""
        found: list[Json] = self.cluster.api.get(EVENT.path(namespace=self.namespace)).accepted()["items"]
        return sorted(item["note"] for item in found if item.get("reason") == reason)

    def changed(self) -> dict[Ref, Json]:
        """The children that the webhook changes."""
        return {
            child: body
            for crd, ref in self.refs.items()
            for child, body in self.cluster.children(MAKERS[crd], ref.namespace, ref.name).items()
            if child.type.kind in POLICIES
        }


@pytest.fixture(scope="module")
def hooked(
    running_cluster: Cluster, namespace: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hooked]:
    folder = tmp_path_factory.mktemp("webhook")
    refs = {crd: ref_to(kind, namespace, f"hooked-{n}") for n, (crd, kind) in enumerate(MAKERS.items())}
    with mutating(running_cluster.api, folder, POLICIES, namespace=namespace):
        yield Hooked(running_cluster, namespace, refs)


@pytest.fixture
def running(running_cluster: Cluster) -> Iterator[OperatorProcess]:
    """The operator, started for this test."""
    env = {**ENVIRONMENT, "KINDLING_RESYNC_SECONDS": str(RESYNC_SECONDS)}
    with operator(running_cluster.operator_plane, env=env, kept=True) as process:
        process.wait_ready()
        yield process


def test_it_comes_to_rest_and_says_what_is_changed(hooked: Hooked, running: OperatorProcess) -> None:
    for crd, ref in hooked.refs.items():
        hooked.cluster.create(MAKERS[crd], hooked.namespace, ref.name)
    hooked.cluster.wait_settled(*hooked.refs.values(), seconds=60)
    mark = hooked.cluster.audit.mark()
    time.sleep(RESYNC_SECONDS * RESYNCS)
    assert hooked.cluster.audit.writes(mark, namespace=hooked.namespace) == []
    children = hooked.changed()
    assert {child.type.kind for child in children} == POLICIES.keys()
    notes = hooked.notes("ChangedByAdmission")
    for child in children:
        [note] = [each for each in notes if each.startswith(f"{child.type.kind} {child.name} is changed ")]
        assert all(field in note for field in FIELDS[child.type.kind]), note
    assert len(notes) == len(children)
    assert hooked.notes("Repaired") == []


def test_an_edit_beside_it_is_set_back_and_named_alone(hooked: Hooked, running: OperatorProcess) -> None:
    """A restart has forgotten what the webhook changes: nothing of that is called an edit all the same."""
    [deployment] = [
        child
        for child in hooked.changed()
        if child.type == DEPLOYMENT and child.name == hooked.refs[MEMCACHED.id].name
    ]
    # An edit that meets the first write of all that was forgotten is set back with it, and not named.
    learned = f"Deployment {deployment.name} was changed again after apply"
    wait_until(lambda: learned in running.log(), seconds=SECONDS, what=running.log)
    hooked.cluster.audit.wait_quiet()
    assert hooked.notes("Repaired") == []
    before = len(hooked.notes("ChangedByAdmission"))
    hooked.cluster.merge(deployment, {"spec": {"replicas": 3}})
    wait_until(
        lambda: bool(hooked.notes("Repaired")),
        seconds=SECONDS,
        what=lambda: f"an Event of the repair; {running.log()[-3000:]}",
    )
    [note] = hooked.notes("Repaired")
    assert note.startswith(f"Deployment {deployment.name} was edited: spec.replicas by ")
    found = hooked.cluster.get(deployment)
    assert found is not None
    assert found["spec"]["replicas"] == 1
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "mirror.example.com/a:1"
    hooked.cluster.audit.wait_quiet(seconds=RESYNC_SECONDS * 2)
    assert len(hooked.notes("ChangedByAdmission")) == before
