"""Specs that wander: after each change all reach a steady state, and the way there leaves no trace.

The real operator and a real API server with controllers. All walks take each step together, so that what
takes long, waiting until nothing happens any more, is shared. `KINDLING_WALKS_SEED` repeats what a run says
it drew.
"""

from __future__ import annotations

import base64
import json
import os
import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from kindling.kinds.base import Kind
from kindling.kinds.postgresql import protection
from kindling.kube.resources import SECRET, Object, Ref

from tests.apiserver.support.cluster import KINDS_BY_NAME, Cluster, cluster, path, ref_to
from tests.apiserver.support.kinds import MINIMAL_SPECS
from tests.apiserver.support.operator_process import operator
from tests.convergence.strategies import KEY, Walk, walks
from tests.convergence.strategies import SECRET as GIVEN
from tests.differences import differences

WANDERING, FRESH = "wandering-there", "made-from-scratch"
SECONDS = 120.0
LONGEST = 300
TELLING = 60
"""A seed of few walks that change much: 73 properties, and take half of them away again."""
ON_THE_WAY = ("Reconciling", "MinimumReplicasUnavailable", "RestartPending", "Terminating", "ApplyRejected")
# What the server and its controllers make of an object, and what a resource remembers by design.
APART = frozenset(
    {
        "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "lastTransitionTime",
        "observedGeneration", "clusterIP", "clusterIPs", "deployment.kubernetes.io/revision",
        "kindling.dev/last-applied-hash", "kindling.dev/parameters", "kindling.dev/postgresql-version",
        "statistics",  # what the programs in Pods answer, of which none runs here, names the Pods
        "at", "nextRotation",  # since when rotations are asked for
        "nodePort", "healthCheckNodePort",
    }
)  # fmt: skip

KEPT = re.compile(
    r"Secret/.*-(server-ca|server-tls|binding|auth|role-.*)$|(Service|NetworkPolicy)/.*-discovery$"
)
"""What the operator made once and does not delete: they go with the resource."""
OF_A_POD = re.compile(r"(?:-[bcdfghjklmnpqrstvwxz2456789]{5,10}){2}\b")
"""What the name of a Deployment's Pod ends with: a message may have it."""
VARYING = frozenset({"password", "uri", "jdbc-uri", "pgpass", "tls.crt", "tls.key", "ca.crt", "ca.key"})
"""Keys of Secrets: a made password is another each time, and a key pair too."""


@dataclass
class Wanderer:
    """One resource on its way."""

    served: Kind
    ref: Ref
    walk: Walk
    first: Object = field(default_factory=dict)
    refused: int = 0
    path: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        way = " -> ".join(word if len(word) < LONGEST else f"{word[:LONGEST]}…" for word in self.path)
        return f"{self.ref.type.group_kind} {self.ref.name}: {way}"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with (
        cluster(directory=tmp_path_factory.mktemp("walks")) as found,
        operator(found.operator_plane, kept=True) as process,
    ):
        process.wait_ready()
        for namespace in (WANDERING, FRESH):
            found.namespace(namespace)
            word = {"metadata": {"name": GIVEN}, "stringData": {KEY: "a word"}}
            found.api.create(SECRET.path(namespace=namespace), word).accepted()
        yield found


def test_every_step_comes_to_rest_and_none_leaves_a_trace(running: Cluster, thorough: bool) -> None:
    seed = int(os.environ.get("KINDLING_WALKS_SEED") or (random.randrange(2**32) if thorough else TELLING))
    count, steps = (12, 12) if thorough else (4, 5)
    print(f"KINDLING_WALKS_SEED={seed}")
    wanderers = [
        Wanderer(served, ref_to(served, WANDERING, f"walk-{number}-{kind}"), walk)
        for kind, served in enumerate(KINDS_BY_NAME.values())
        for number, walk in enumerate(walks(served, count=count, steps=steps, seed=seed))
    ]
    began = time.monotonic()
    for each in wanderers:
        _start(running, each)
    wrong = _rest(running, wanderers)
    for each in wanderers:
        each.first = _state(running, each)
    for step in range(steps):
        for each in wanderers:
            _go(running, each, step)
        wrong += _rest(running, wanderers)
        print(f"step {step + 1} of {steps}, {time.monotonic() - began:.0f} s")
    wrong += _compare_with_scratch(running, wanderers)
    print(f"made from scratch, {time.monotonic() - began:.0f} s")
    wrong += _go_back(running, wanderers)
    taken = sum(len(each.path) for each in wanderers)
    refused = sum(each.refused for each in wanderers)
    print(
        f"{len(wanderers)} walks, {taken} steps admitted, {refused} refused, {time.monotonic() - began:.0f} s"
    )
    assert not wrong, "\n".join(wrong)
    assert taken > refused


def _start(cluster: Cluster, each: Wanderer) -> None:
    """From the first spec, or the least one, where a rule beyond the schema does not admit it."""
    body: Object = {"apiVersion": each.served.type.api_version, "kind": each.served.type.kind}
    body["metadata"] = {"name": each.ref.name}
    collection = each.served.type.path(namespace=each.ref.namespace)
    spec = each.walk.first
    if cluster.api.create(collection, {**body, "spec": spec}, dry_run=True).status == 422:
        spec = MINIMAL_SPECS[f"{each.served.type.plural}.{each.served.type.group}"]
    cluster.api.create(collection, {**body, "spec": spec}).accepted()
    each.path.append(json.dumps(spec))


def _go(cluster: Cluster, each: Wanderer, step: int) -> None:
    found = cluster.get(each.ref)
    assert found is not None
    edit = each.walk.edits[step]
    if _replace(cluster, each.ref, {**found, "spec": edit.of(found["spec"])}):
        each.path.append(str(edit))
    else:
        each.refused += 1


def _replace(cluster: Cluster, ref: Ref, body: Object) -> bool:
    """Whether the CRD admits it."""
    answer = cluster.api.request("PUT", path(ref), body=body)
    if answer.status != 422:
        answer.accepted()
        return True
    assert "spec" in answer.message, answer.message
    return False


def _rest(cluster: Cluster, wanderers: list[Wanderer]) -> list[str]:
    """Wait until nothing is written any more; what then has no verdict, in words."""
    try:
        cluster.wait_settled(*(each.ref for each in wanderers), seconds=SECONDS)
    except AssertionError as error:
        raise AssertionError(_report(wanderers)) from error
    wrong = []
    for each in wanderers:
        found, ready = cluster.get(each.ref), cluster.ready(each.ref)
        assert found is not None
        good = ready["status"] == "True" or (ready["reason"] not in ON_THE_WAY and ready["message"])
        if not good or ready["observedGeneration"] != found["metadata"]["generation"]:
            wrong.append(f"{each} came to {ready}")
    return wrong


def _report(wanderers: list[Wanderer]) -> str:
    return "\n".join(map(str, wanderers))


def _compare_with_scratch(cluster: Cluster, wanderers: list[Wanderer]) -> list[str]:
    """Each as it is now beside one that was never anything else."""
    fresh = []
    for each in wanderers:
        found = cluster.get(each.ref)
        assert found is not None
        ref = ref_to(each.served, FRESH, each.ref.name)
        cluster.create(each.served, FRESH, ref.name, found["spec"])
        fresh.append(Wanderer(each.served, ref, each.walk, path=each.path))
    wrong = _rest(cluster, fresh)
    for each, other in zip(wanderers, fresh, strict=True):
        then, now = (_state(cluster, one) for one in (each, other))
        paused = each.served.paused(cluster.get(each.ref) or {})
        if paused or cluster.ready(each.ref)["reason"] == "VersionConflict":
            pass  # the one does nothing, the other is about data, which from scratch is not there
        elif cluster.ready(other.ref)["reason"] != cluster.ready(each.ref)["reason"]:
            wrong.append(f"{each}: {cluster.ready(each.ref)} != {cluster.ready(other.ref)}")
        elif len(now) > 1:  # what is refused leaves, by design, what there was
            if cluster.ready(each.ref)["reason"] == "FailedCreate":
                # Where new Pods are rejected, those of the spec before serve on.
                for state in (then, now):
                    state[f"{each.ref.type.kind}/{each.ref.name}"].pop("status")
            wrong += [f"{each}: {difference}" for difference in differences(_without_kept(then, now), now)]
        cluster.delete(other.ref)
    return wrong


def _go_back(cluster: Cluster, wanderers: list[Wanderer]) -> list[str]:
    """To the first spec, and so to the first state."""
    back = []
    for each in wanderers:
        found = cluster.get(each.ref)
        assert found is not None
        if _replace(cluster, each.ref, {**found, "spec": json.loads(each.path[0])}):
            each.path.append("and back")
            back.append(each)
    wrong = _rest(cluster, wanderers)
    for each in back:
        now = _without_kept(_state(cluster, each), each.first)
        wrong += [f"{each}: {d}" for d in differences(each.first, now) if len(each.first) > 1]
    assert len(back) == len(wanderers), "the first spec was not admitted again"
    return wrong


def _without_kept(state: Object, other: Object) -> Object:
    """Without Secrets that stay, and are not in the other."""
    return {name: value for name, value in state.items() if name in other or not KEPT.match(name)}


def _state(cluster: Cluster, each: Wanderer) -> Object:
    """What the resource says and what was made for it, by type and name."""
    ref = each.ref
    found = {ref: cluster.get(ref)} | cluster.children(each.served, ref.namespace, ref.name)
    state: Object = {}
    for child, obj in found.items():
        assert obj is not None
        part = {name: value for name, value in obj.items() if child == ref or name != "status"}
        # A database that was protected once keeps its finalizer (decision 0064).
        names = [name for name in obj["metadata"].get("finalizers") or () if name != protection.FINALIZER]
        part["metadata"] = {**obj["metadata"], "finalizers": names}
        if child.type == SECRET:
            part["data"] = {key: base64.b64decode(value).decode() for key, value in obj["data"].items()}
        text = OF_A_POD.sub("-*", json.dumps(_plain(part))).replace(ref.namespace, "NAMESPACE")
        state[f"{child.type.kind}/{child.name}"] = json.loads(text)
    return state


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: "*" if name in VARYING else _plain(below)
            for name, below in value.items()
            if name not in APART
        }
    return [_plain(item) for item in value] if isinstance(value, list) else value
