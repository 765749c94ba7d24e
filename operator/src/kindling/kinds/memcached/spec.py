"""Reading a Memcached's spec: defaults, and the memory that follows from them.

The CRD's rule on spec.resources.limits.memory is `needed_mebibytes` again; a test holds them together.
"""

from __future__ import annotations

from dataclasses import dataclass

from kindling.engine.quantity import quantity
from kindling.kube.resources import Object

DEFAULT_SIZE = 1
DEFAULT_PORT = 11211
DEFAULT_MEMORY = 64
DEFAULT_CONNECTIONS = 1024
DEFAULT_CPU = "50m"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A spec with its defaults. `connections` and `threads` are None where memcached decides."""

    size: int
    port: int
    memory: int
    connections: int | None
    threads: int | None
    resources: Object


def read(cr: Object) -> Spec:
    """Total over what the CRD admits, an empty spec and nulls included."""
    spec = cr.get("spec") or {}
    memory = spec.get("memoryMB") or DEFAULT_MEMORY
    connections = spec.get("maxConnections")
    needed = f"{needed_mebibytes(memory=memory, connections=connections or DEFAULT_CONNECTIONS)}Mi"
    return Spec(
        size=spec.get("size") or DEFAULT_SIZE,
        port=spec.get("containerPort") or DEFAULT_PORT,
        memory=memory,
        connections=connections,
        threads=spec.get("threads"),
        resources=_resources(spec.get("resources") or {}, needed=needed),
    )


def needed_mebibytes(*, memory: int, connections: int) -> int:
    """What memcached takes at most when its cache is full, as measured (docs/decisions/0007).

    Beside the items: the hash table, one page for each of 39 item sizes, and each connection's buffers.
    """
    return memory + memory // 4 + connections // 128 + 64


def _resources(given: Object, *, needed: str) -> Object:
    """What is given, and beside it what memcached needs; a default never contradicts what is given."""
    requests, limits = dict(given.get("requests") or {}), dict(given.get("limits") or {})
    if "cpu" not in requests and "cpu" not in limits:
        requests["cpu"] = DEFAULT_CPU
    limits.setdefault("memory", max(needed, requests.get("memory", needed), key=quantity))
    requests.setdefault("memory", min(needed, limits["memory"], key=quantity))
    return {"requests": requests, "limits": limits}
