"""What the operator made is set back within a second of an edit or a deletion; what others add is left.

Which fields are ours is read from the server's own book-keeping (managedFields), so that a field
which is applied but never compared shows up here.
"""

from __future__ import annotations

import random
import re
import statistics
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from kindling.engine.compare import LAST_APPLIED_HASH
from kindling.kinds.base import Kind
from kindling.kube.resources import (
    DEPLOYMENT,
    EVENT,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    VOLUME_CLAIM,
    Ref,
)

from tests.apiserver.support.apiclient import MERGE_PATCH, Json
from tests.apiserver.support.audit import wait_until
from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, path, ref_to
from tests.apiserver.support.fields import Path, edited, edits, ours, value_of
from tests.apiserver.support.kinds import KINDS, MEMCACHED, MINIMAL_SPECS
from tests.apiserver.support.models import EACH_KIND, MAKERS
from tests.unit.operator.placement import FULL, SERVED

# A second is what is promised. A login that is being tried holds the next pass up, though, and here it is
# tried against names of which the resolver of the machine takes its time to know nothing.
SECONDS = 10.0
# Longer than the others take, so that it is seen when nothing is done at all.
ADDITIONS_SECONDS = 2.0

# As a user says it; with a PriorityClass that exists, or there would be no Pods.
PLACED = {
    crd: {"podTemplate": {**FULL, "spec": {**FULL["spec"], "priorityClassName": "system-cluster-critical"}}}
    for crd, kind in KINDS.items()
    if "podTemplate" in kind.schema["properties"]["spec"]["properties"]
}
OFFERED = {
    crd: {"serviceTemplate": {"metadata": SERVED["metadata"]} if crd == MEMCACHED.id else SERVED}
    for crd, kind in KINDS.items()
    if "serviceTemplate" in kind.schema["properties"]["spec"]["properties"]
}
# With a password of its own: one that was generated is whatever its Secret says.
SPECS = {
    crd: {
        **spec,
        **({"password": "given"} if "postgresql" in crd else {}),
        **PLACED.get(crd, {}),
        **OFFERED.get(crd, {}),
    }
    for crd, spec in MINIMAL_SPECS.items()
}
# The operator's own notes, which say what was and not what shall be.
MARKS = ("f:kindling.dev/last-applied-hash", "f:kindling.dev/parameters", "f:kindling.dev/default-user")
# They stay as they are until a server accepts those of the spec, and no server runs here.
CREDENTIALS = ("f:data.f:password", "f:data.f:username")
# What nobody can change, or not by itself.
FIXED = re.compile(
    r"\.spec\.selector(\.|$)"
    r"|\.spec\.template\.metadata\.labels\.(app\.kubernetes\.io/instance|kindling\.dev/kind)$"
    r"|\.spec\.(serviceName|podManagementPolicy)$"
    r"|\.spec\.template\.spec\.(volumes\.|.*\.volumeMounts\.).*\.name$"
    r"|\.spec\.strategy\."
    r"|\.spec\.updateStrategy\.type$"  # not beside what belongs to one type alone: see below
    r"|PersistentVolumeClaim\.spec\."
    r"|Service\.spec\.(clusterIP|type|loadBalancerClass)$"
    r"|\.spec\.template\.spec\.serviceAccount$"  # the old name of serviceAccountName, which wins
    r"|Secret\.type$"
)

pytestmark = pytest.mark.usefixtures("replica")


@pytest.fixture(scope="module")
def resources(running_cluster: Cluster, namespace: str, replica: object) -> dict[str, Ref]:
    """One resource of each kind, at rest, by the name of its CRD."""
    refs = {crd: ref_to(kind, namespace, f"drift-{n}") for n, (crd, kind) in enumerate(MAKERS.items())}
    for crd, ref in refs.items():
        running_cluster.create(MAKERS[crd], namespace, ref.name, SPECS[crd])
    running_cluster.wait_settled(*refs.values(), seconds=120)
    return refs


def _ref(resources: dict[str, Ref], kind: Kind) -> Ref:
    return next(ref for ref in resources.values() if ref.type == kind.type)


def _have_applied(cluster: Cluster, kind: Kind, ref: Ref) -> None:
    """What was created is ours with all that the server filled in. Without its mark it is applied."""
    marked = [
        child
        for child, found in cluster.children(kind, ref.namespace, ref.name).items()
        if LAST_APPLIED_HASH in found["metadata"].get("annotations", {})
    ]
    for child in marked:
        cluster.merge(child, {"metadata": {"annotations": {LAST_APPLIED_HASH: None}}})
    # The resource itself is at rest until the operator has noticed, which takes a moment on a busy machine.
    for child in marked:
        wait_until(lambda child=child: _is_marked(cluster, child), seconds=SECONDS, what=f"{child} applied")  # type: ignore[misc]
    cluster.wait_settled(ref)
    for found in cluster.children(kind, ref.namespace, ref.name).values():
        ours = [entry for entry in found["metadata"]["managedFields"] if entry["manager"] == "kindling"]
        assert len(ours) == 1, ours


def _is_marked(cluster: Cluster, child: Ref) -> bool:
    found = cluster.get(child)
    return found is not None and LAST_APPLIED_HASH in found["metadata"].get("annotations", {})


def _say(what: str, took: list[float]) -> None:
    if took:
        print(
            f"{what}: {len(took)} repaired, p50 {statistics.median(took) * 1000:.0f} ms, "
            f"max {max(took) * 1000:.0f} ms"
        )


@EACH_KIND
def test_deleted_child_comes_back(running_cluster: Cluster, resources: dict[str, Ref], kind: Kind) -> None:
    ref, took = _ref(resources, kind), []
    children = running_cluster.children(kind, ref.namespace, ref.name)
    # The binding last: until a server serves by it, a binding that is there has the authority of before, too.
    for child, old in sorted(children.items(), key=lambda item: item[0].name.endswith("-binding")):
        if child.type == VOLUME_CLAIM:
            continue  # It lives as long as its Pod does, and is tested below.
        running_cluster.delete(child)
        took.append(
            wait_until(
                lambda child=child, old=old: _uid(running_cluster, child) not in ("", old["metadata"]["uid"]),  # type: ignore[misc]
                seconds=SECONDS,
                what=f"{child} made again",
            )
        )
        running_cluster.audit.wait_quiet(seconds=0.3)
    _say(f"deleted children of {kind.type.group_kind}", took)
    assert took


def _uid(cluster: Cluster, ref: Ref) -> str:
    found = cluster.get(ref)
    return str(found["metadata"]["uid"]) if found is not None else ""


def _dotted(child: Ref, where: Path) -> str:
    return ".".join((child.type.kind, *(step[2:] for step in where)))


@EACH_KIND
def test_edited_field_is_set_back(
    running_cluster: Cluster, resources: dict[str, Ref], kind: Kind, thorough: bool
) -> None:
    """Each of our fields changed, and each removed, with what is below it; one at a time.

    A sixth of them, drawn for each run, where it is not asked to be thorough.
    """
    ref = _ref(resources, kind)
    _have_applied(running_cluster, kind, ref)
    took: list[float] = []
    fixed, lost = [], []
    for child, first in running_cluster.children(kind, ref.namespace, ref.name).items():
        applied = list(ours(first, once=_made_once(first)))
        drawn = set(applied if thorough else random.sample(applied, -(-len(applied) // 6)))
        for where in (each for each in applied if each in drawn):
            if where == ("f:metadata",) or where[-1] in MARKS:
                continue
            if child.name.endswith("-binding") and ".".join(where) in CREDENTIALS:
                continue
            if "f:labels" in where and "ownerReferences" not in first["metadata"]:
                continue  # Without an owner, it is by its labels that it is ours: see below.
            now = running_cluster.get(child)
            assert now is not None
            value = value_of(now, where)
            whole = not any(other[: len(where)] == where for other in applied if other != where)
            changed = not whole or not value
            for edit in edits(value, field=where[-1][2:], whole=whole):
                if changed and edit is not None and not isinstance(value, list | dict):
                    continue
                stored = _edit(running_cluster, child, edited(now, where, edit))
                if stored is None or value_of(stored, where) == value:
                    continue  # It cannot be so, or that is the server's default.
                changed = changed or edit is not None
                seconds = _set_back(running_cluster, child, where, value)
                if seconds is None:
                    lost.append(f"{_dotted(child, where)} = {edit!r}")
                    running_cluster.replace(child, now)
                else:
                    took.append(seconds)
                _tidy(running_cluster, child, now)
            if not changed:
                fixed.append(_dotted(child, where))
    _say(f"edited fields of {kind.type.group_kind}", took)
    assert not lost, "\n".join(lost)
    fixed = [field for field in fixed if not FIXED.search(field)]
    assert not fixed, "\n".join(fixed)


def test_edited_update_strategy_is_set_back(running_cluster: Cluster, resources: dict[str, Ref]) -> None:
    """By it restarts are held back (decision 0020): another one would hold what nobody asked to hold."""
    for ref in resources.values():
        for child, first in running_cluster.children(_kind_of(ref), ref.namespace, ref.name).items():
            if child.type == STATEFUL_SET:
                other = {"type": "OnDelete", "rollingUpdate": None}
                running_cluster.merge(child, {"spec": {"updateStrategy": other}})
                strategy = ("f:spec", "f:updateStrategy")
                assert (
                    _set_back(running_cluster, child, strategy, first["spec"]["updateStrategy"]) is not None
                )


def _edit(cluster: Cluster, child: Ref, body: Json) -> Json | None:
    """What the server made of it, if it takes it at all."""
    answer = cluster.replace(child, body)
    return answer.body if answer.status == 200 else None


def _set_back(cluster: Cluster, child: Ref, where: Path, value: Any) -> float | None:
    """In how many seconds the field had its value again; None if it took too long."""
    try:
        return wait_until(
            lambda: value_of(cluster.get(child), where) == value, seconds=SECONDS, what="set back"
        )
    except AssertionError:
        return None


def _made_once(child: Json) -> bool:
    return str(child["metadata"]["name"]).endswith(("-superuser", "-tls", "-server-ca"))


def _tidy(cluster: Cluster, child: Ref, as_it_was: Json) -> None:
    """Take away what an edit left beside ours: an element of a list under another key."""
    now = cluster.get(child)
    if now is not None and now.get("spec") != as_it_was.get("spec"):
        cluster.replace(child, {**now, "spec": as_it_was["spec"]})


@EACH_KIND
def test_what_others_add_stays_and_costs_nothing(
    running_cluster: Cluster, resources: dict[str, Ref], kind: Kind
) -> None:
    ref = _ref(resources, kind)
    added = {"metadata": {"labels": {"colour": "blue"}, "annotations": {"example.com/note": "kept"}}}
    children = running_cluster.children(kind, ref.namespace, ref.name)
    running_cluster.audit.wait_quiet()
    mark = running_cluster.audit.mark()
    for child in children:
        running_cluster.merge(child, added)
        if child.type == SERVICE:
            now = running_cluster.get(child)
            assert now is not None
            now["spec"]["ports"].append({"name": "more", "port": 9999, "protocol": "TCP"})
            running_cluster.replace(child, now).accepted()
        if child.type in (DEPLOYMENT, STATEFUL_SET):
            now = running_cluster.get(child)
            assert now is not None
            now["spec"]["template"]["spec"]["containers"].append({"name": "sidecar", "image": "sidecar:1"})
            now["spec"]["template"]["metadata"]["annotations"] = {
                **now["spec"]["template"]["metadata"].get("annotations", {}),
                "kubectl.kubernetes.io/restartedAt": "now",
            }
            running_cluster.replace(child, now).accepted()
    time.sleep(ADDITIONS_SECONDS)
    running_cluster.audit.wait_quiet()
    assert [
        request
        for request in running_cluster.audit.writes(mark, namespace=ref.namespace)
        if not request.status
    ] == []
    for child in children:
        now = running_cluster.get(child)
        assert now is not None
        assert now["metadata"]["labels"]["colour"] == "blue"
        assert now["metadata"]["annotations"]["example.com/note"] == "kept"
        if child.type in (DEPLOYMENT, STATEFUL_SET):
            names = [item["name"] for item in now["spec"]["template"]["spec"]["containers"]]
            assert "sidecar" in names


@EACH_KIND
def test_repair_is_reported_by_an_event(
    running_cluster: Cluster, resources: dict[str, Ref], namespace: str, kind: Kind
) -> None:
    """After the edits above each child has been repaired, many times over, and was reported once or twice.

    Not so of Secrets, where an edit may be the user's wish, nor of volumes, in which little can be edited.
    """
    ref = _ref(resources, kind)
    events = running_cluster.api.get(EVENT.path(namespace=namespace)).accepted()["items"]
    notes = [
        event["note"]
        for event in events
        if event["reason"] == "Repaired" and event["regarding"]["name"] == ref.name
    ]
    children = running_cluster.children(kind, ref.namespace, ref.name)
    untold = [
        child
        for child in children
        if not any(note.startswith(f"{child.type.kind} {child.name} was ") for note in notes)
        and child.type not in (SECRET, VOLUME_CLAIM)
    ]
    assert untold == []
    assert len(notes) <= 2 * len(children)


def test_who_edited_is_named(running_cluster: Cluster, namespace: str) -> None:
    """As the API server has it: by the name under which the writer wrote, and when."""
    kind = KINDS_BY_NAME[MEMCACHED.id]
    running_cluster.create(kind, namespace, "edited")
    ref = ref_to(kind, namespace, "edited")
    running_cluster.wait_settled(ref)
    (deployment,) = (
        child for child in running_cluster.children(kind, namespace, "edited") if child.type == DEPLOYMENT
    )
    began = datetime.now(UTC).replace(microsecond=0)
    running_cluster.api.request(
        "PATCH",
        path(deployment),
        body={"spec": {"replicas": 3}},
        query={"fieldManager": "kubectl-edit"},
        content_type=MERGE_PATCH,
    ).accepted()

    def notes() -> list[str]:
        events = running_cluster.api.get(EVENT.path(namespace=namespace)).accepted()["items"]
        mine = [event for event in events if event["regarding"]["name"] == "edited"]
        return [event["note"] for event in mine if event["reason"] == "Repaired"]

    wait_until(lambda: bool(notes()), seconds=SECONDS, what="reported")
    (note,) = notes()
    who = "spec.replicas by kubectl-edit at"
    said = re.fullmatch(f"Deployment {deployment.name} was edited: {who} (.*); it was set back[.]", note)
    assert said, note
    assert began <= datetime.fromisoformat(said[1]) <= datetime.now(UTC)


def test_volume_without_its_labels_is_not_ours_until_it_has_them_again(
    running_cluster: Cluster, resources: dict[str, Ref]
) -> None:
    """A volume that is kept has no owner: its labels alone say whose it is, and nothing else is guessed."""
    for ref in resources.values():
        children = running_cluster.children(_kind_of(ref), ref.namespace, ref.name).items()
        for child, claim in children:
            if child.type == VOLUME_CLAIM and "ownerReferences" not in claim["metadata"]:
                running_cluster.merge(child, {"metadata": {"labels": None}})
                running_cluster.wait_ready_reason(ref, "NameConflict")
                running_cluster.merge(child, {"metadata": {"labels": claim["metadata"]["labels"]}})
                running_cluster.wait_settled(ref)
                assert running_cluster.ready(ref)["reason"] != "NameConflict"


def test_lost_volume_brings_a_new_one(
    running_cluster: Cluster, resources: dict[str, Ref], namespace: str
) -> None:
    """A deleted claim stays until its Pod is gone; then its data is created again, and this is reported."""
    for ref in resources.values():
        claims = [
            child
            for child in running_cluster.children(_kind_of(ref), ref.namespace, ref.name)
            if child.type == VOLUME_CLAIM
        ]
        for claim in claims:
            before = _uid(running_cluster, claim)
            running_cluster.delete(claim)
            running_cluster.wait_ready_reason(ref, "VolumeDeleting")
            # What the claim's protection does once no Pod uses it any more.
            running_cluster.api.merge(path(claim), {"metadata": {"finalizers": None}})
            wait_until(
                lambda claim=claim, before=before: _uid(running_cluster, claim) not in ("", before),  # type: ignore[misc]
                seconds=SECONDS,
                what=f"{claim} made again",
            )


def _kind_of(ref: Ref) -> Kind:
    return next(kind for kind in KINDS_BY_NAME.values() if kind.type == ref.type)
