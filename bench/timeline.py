"""When each resource was created, had its children and was ready: from watch events and their times. Pure.

Times are by this machine's clock; the order of events is by their resourceVersions, which the API
server counts through all types (they are etcd's revisions), so no clock can mislead there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Mapping[str, Any]

INSTANCE_LABEL = "app.kubernetes.io/instance"
RESOURCE_LABEL = "kindling.dev/name"  # on what outlives its resource
WORKLOADS = frozenset({"Deployment", "StatefulSet"})


@dataclass
class ObjectTimes:
    """One resource. Times are None until it came to that; versions are those of the first such state."""

    created_at: float | None = None
    complete_at: float | None = None
    """All of its children exist."""
    ready_at: float | None = None
    """Its status said so."""
    changed_at: float | None = None
    """Its workload has a new spec; without children, its status is of its own new spec."""
    called_ready: int | None = None
    pods_ready: int | None = None
    available: int | None = None
    exists: bool = False
    ready: bool = False
    faulty: bool = False
    """Its status says so now: of a server that nobody can log in to, say."""
    children: dict[tuple[str, str], str] = field(default_factory=dict)
    _pods: set[str] = field(default_factory=set)


class Timeline:
    """`condition` is the one that calls a resource ready; `expected` how many children each has."""

    def __init__(self, *, kind: str, condition: str, expected: int, replicas: int = 1) -> None:
        self.lives: dict[str, ObjectTimes] = {}
        self.expected = expected
        self.removed = 0
        """Children that were deleted, ever."""
        self._kind = kind
        self._condition = condition
        self._replicas = replicas

    def life(self, name: str) -> ObjectTimes:
        return self.lives.setdefault(name, ObjectTimes())

    def see(self, kind: str, event: str, obj: Json, at: float) -> None:
        """Take in an event of a watch: the kind of its object, what happened, the object, when."""
        labels = obj["metadata"].get("labels") or {}
        named = labels.get(RESOURCE_LABEL) or labels.get(INSTANCE_LABEL)
        name = obj["metadata"]["name"] if kind == self._kind else named
        if name is None:
            return
        if kind == self._kind:
            self._see_resource(self.life(name), event, obj, at)
        elif kind == "Pod":
            self._see_pod(self.life(name), event, obj)
        else:
            self._see_child(self.life(name), kind, event, obj, at)

    def complete(self) -> int:
        """How many resources have all of their children now."""
        return sum(life.exists and len(life.children) >= self.expected for life in self.lives.values())

    def ready(self) -> int:
        return sum(life.exists and life.ready for life in self.lives.values())

    def faulty(self) -> int:
        return sum(life.exists and life.faulty for life in self.lives.values())

    def changed(self) -> int:
        return sum(life.changed_at is not None for life in self.lives.values())

    def remaining(self) -> int:
        """Resources and children that are still there."""
        return sum(life.exists + len(life.children) for life in self.lives.values())

    def existing(self) -> int:
        return sum(life.exists for life in self.lives.values())

    def _see_resource(self, life: ObjectTimes, event: str, obj: Json, at: float) -> None:
        life.exists = event != "DELETED"
        if life.exists and life.created_at is None:
            life.created_at = at
        life.ready, life.faulty = says_ready(obj, self._condition), says_ready(obj, "Degraded")
        if life.ready and life.ready_at is None:
            life.ready_at, life.called_ready = at, version(obj)
        if life.ready and not life.children and obj["metadata"].get("generation", 1) > 1:
            life.changed_at = life.changed_at or at

    def _see_pod(self, life: ObjectTimes, event: str, obj: Json) -> None:
        conditions = (obj.get("status") or {}).get("conditions") or ()
        ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
        if ready and event != "DELETED":
            life._pods.add(obj["metadata"]["name"])
        else:
            life._pods.discard(obj["metadata"]["name"])
        if life.pods_ready is None and len(life._pods) >= self._replicas:
            life.pods_ready = version(obj)

    def _see_child(self, life: ObjectTimes, kind: str, event: str, obj: Json, at: float) -> None:
        meta = obj["metadata"]
        if event == "DELETED":
            if life.children.pop((kind, meta["name"]), None) is not None:
                self.removed += 1
            return
        life.children[kind, meta["name"]] = meta["uid"]
        if life.complete_at is None and len(life.children) >= self.expected:
            life.complete_at = at
        if kind in WORKLOADS:
            if meta.get("generation", 1) > 1 and life.changed_at is None:
                life.changed_at = at
            if life.available is None and is_available(obj):
                life.available = version(obj)


def says_ready(resource: Json, condition: str) -> bool:
    """Whether its status says so of its present generation (a status that names none is believed)."""
    status = resource.get("status") or {}
    for item in status.get("conditions") or ():
        if item["type"] == condition:
            said = item.get("observedGeneration", status.get("observedGeneration"))
            generation = resource["metadata"].get("generation", 1)
            return item["status"] == "True" and said in (None, generation)
    return False


def is_available(workload: Json) -> bool:
    """Whether a Deployment or StatefulSet says that all its replicas, of its present spec, are available."""
    status = workload.get("status") or {}
    current = status.get("observedGeneration", 0) >= workload["metadata"].get("generation", 1)
    return bool(current and status.get("availableReplicas", 0) >= workload["spec"].get("replicas", 1))


def called_early(called: int | None, true: int | None) -> bool:
    """Whether a resource was called ready before it was, or that never was (versions)."""
    return called is not None and (true is None or called < true)


def version(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])
