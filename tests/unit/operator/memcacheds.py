"""Memcached resources for tests: one by hand, and a strategy of everything the CRD admits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from hypothesis import strategies as st
from kindling.kinds.base import CachedResult, Observed
from kindling.kinds.memcached import Memcached
from kindling.kinds.memcached.workload import PORT_ANNOTATION, WORKLOAD_LABEL
from kindling.kinds.metadata import labels_of, owner_of
from kindling.kube.resources import DEPLOYMENT, POD, STATEFUL_SET, Object, Ref

KIND = Memcached(image="memcached:1.6", exporters_image="exporters:1")
NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)

AMOUNTS = st.integers(0, 9) | st.sampled_from(["500m", "1", "0.5Gi", "128Mi", "2G"])
LISTS = st.dictionaries(st.sampled_from(["cpu", "memory", "ephemeral-storage"]), AMOUNTS)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "size": st.integers(1, 3),
        "workload": st.sampled_from(["Deployment", "StatefulSet", None]),
        "rollout": st.fixed_dictionaries({}, optional={"minHitRatioPercent": st.integers(1, 99)}) | st.none(),
        "containerPort": st.integers(1, 65535),
        "memoryMB": st.integers(16, 65536),
        "maxConnections": st.integers(512, 65536),
        "threads": st.integers(1, 64),
        "binding": st.sampled_from(["ConfigMap", None]),
        "discovery": st.booleans(),
        "statistics": st.booleans(),
        "tls": st.fixed_dictionaries({"enabled": st.booleans()}) | st.none(),
        "auth": st.fixed_dictionaries({"enabled": st.booleans()}) | st.none(),
        "exporter": st.fixed_dictionaries(
            {"enabled": st.booleans()}, optional={"resources": st.just({"requests": {"memory": "1Gi"}})}
        ),
        "resources": st.fixed_dictionaries({}, optional={"requests": LISTS, "limits": LISTS}),
    },
)
NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?", fullmatch=True)


def memcached(
    *, name: str = "cache", generation: int = 1, status: Object | None = None, **spec: object
) -> Object:
    meta = {"namespace": "ns", "name": name, "uid": "cr-uid", "generation": generation}
    return {"metadata": meta, "spec": spec, "status": status or {}}


def observed(
    children: dict[Ref, Object] | None = None, results: Mapping[str, CachedResult] | None = None
) -> Observed:
    return Observed(objects=children or {}, now=NOW, entropy=b"e" * 32, results=results or {})


def pod(
    name: str,
    *,
    ready: bool = True,
    ip: str | None = "10.0.0.1",
    port: str = "11211",
    since: str = "2025-12-31T00:00:00Z",
    **status: object,
) -> dict[Ref, Object]:
    """One Pod of the resource `cache`, as the store keeps it: without its spec. It is ready `since` then."""
    meta = {
        "namespace": "ns",
        "name": name,
        "labels": labels_of(KIND.type, memcached()),
        "annotations": {PORT_ANNOTATION: port},
    }
    conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": since}]
    return {
        Ref(POD, "ns", name): {"metadata": meta, "status": {"podIP": ip, "conditions": conditions, **status}}
    }


def deployment(
    *, replicas: int, total: int | None = None, updated: int | None = None, seen: int = 1, **status: object
) -> dict[Ref, Object]:
    """The Deployment of generation 1, by default rolled out as far as its own counts go."""
    total = replicas if total is None else total
    body = {
        "metadata": {"namespace": "ns", "name": "cache", "generation": 1},
        "spec": {"replicas": replicas},
        "status": {
            "observedGeneration": seen,
            "replicas": total,
            "updatedReplicas": total if updated is None else updated,
            "availableReplicas": total,
            **status,
        },
    }
    return {Ref(DEPLOYMENT, "ns", "cache"): body}


def named_pod(
    number: int, *, ready: bool = True, since: str = "2025-12-31T00:00:00Z", **more: object
) -> dict[Ref, Object]:
    """The Pod cache-NUMBER of the StatefulSet."""
    found = pod(f"cache-{number}", ready=ready, ip=f"10.0.1.{number}", since=since)
    (body,) = found.values()
    body["metadata"] |= {"labels": {**body["metadata"]["labels"], WORKLOAD_LABEL: "StatefulSet"}, **more}
    return found


def stateful_set(*, replicas: int, **status: object) -> dict[Ref, Object]:
    """The StatefulSet of generation 1, owned, rolled out by its own counts but for those given."""
    (body,) = deployment(replicas=replicas, **status).values()  # type: ignore[arg-type]
    return {Ref(STATEFUL_SET, "ns", "cache"): owned(body)}


def owned(body: Object) -> Object:
    """As the resource's own."""
    owner = owner_of(KIND.type, memcached())
    meta = {**body["metadata"], "uid": "uid", "resourceVersion": "1", "ownerReferences": [owner]}
    return {**body, "metadata": meta}


def running(ips: Sequence[str] = ("10.0.0.1",)) -> dict[Ref, Object]:
    """As many ready replicas as there are addresses."""
    found = deployment(replicas=len(ips))
    for number, ip in enumerate(ips):
        found |= pod(f"cache-{number}", ip=ip)
    return found
