"""What is asked for, kind by kind: the resource, the field that is changed later, how readiness is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kindling.kinds.base import Kind
from kindling.kinds.registry import kinds
from kindling.kube.resources import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    NETWORK_POLICY,
    POD,
    SERVICE,
    Object,
    ResourceType,
)

from bench.testbed import GO_GROUP

FOLDERS = ("postgres", "postgres-init", "postgres-backup", "memcached", "exporters", "pulsar-consumer")
IMAGES = {name: f"bench.invalid/{name}:1" for name in FOLDERS}
KINDS_BY_NAME: Mapping[str, Kind] = {kind.type.group_kind: kind for kind in kinds(IMAGES)}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """`condition` calls it ready. `reachable` is False where only a real server behind it would make it so:
    then nobody waits for that. `children` are the types that it may have, Pods not among them.
    """

    type: ResourceType
    spec: Mapping[str, Any]
    change: Mapping[str, Any]
    children: tuple[ResourceType, ...]
    condition: str = "Ready"
    reachable: bool = True

    def body(self, *, namespace: str, name: str) -> Object:
        return {"metadata": {"namespace": namespace, "name": name}, "spec": dict(self.spec)}


def _ours(label: str, spec: Mapping[str, Any], change: Mapping[str, Any], *, reachable: bool = True) -> Asked:
    kind = KINDS_BY_NAME[label]
    children = tuple(type for type in kind.children if type != POD)
    return Asked(type=kind.type, spec=spec, change=change, children=children, reachable=reachable)


MEMCACHED = _ours("memcached.cache.example.com", {}, {"size": 2})
CONSUMER = {
    "serverAddress": "pulsar://broker.invalid:6650",
    "topic": "orders",
    "subscriptionName": "printers",
    "replicas": 1,
}
OURS: Mapping[str, Asked] = {
    "memcached": MEMCACHED,
    "postgresql": _ours(
        "postgresql.database.technotuesday.io",
        {},
        {"resources": {"limits": {"memory": "640Mi"}}},
        reachable=False,
    ),
    "pulsarconsumer": _ours(
        "pulsarconsumer.pulsar.pulsarconsumer.krvarma.com", CONSUMER, {"topic": "invoices"}
    ),
    "mycustomresource": _ours("mycustomresource.poc.test.domain", {"name": "friend"}, {"name": "other"}),
}
GO_MEMCACHED = Asked(
    type=ResourceType(GO_GROUP, "v1alpha1", "Memcached", "memcacheds"),
    spec={},
    change=MEMCACHED.change,
    children=(NETWORK_POLICY, SERVICE, DISRUPTION_BUDGET, DEPLOYMENT),
    condition="Available",
)
