"""Reading a Memcached's spec: defaults, and the memory that follows from them.

The CRD's rule on spec.resources.limits.memory is `needed_mebibytes` again; a test holds them together.
"""

from __future__ import annotations

from dataclasses import dataclass

from kindling.kinds.amounts import merged
from kindling.kube.resources import Object

DEFAULT_SIZE = 1
DEFAULT_PORT = 11211
DEFAULT_MEMORY = 64
DEFAULT_CONNECTIONS = 1024
DEFAULT_CPU = "50m"
CONFIG_MAP_BINDING = "ConfigMap"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A spec with its defaults. `connections` and `threads` are None where memcached decides, `deadline`
    where Kubernetes does. `binding`: the servers are listed in a ConfigMap, too. `statistics`: each is asked.
    """

    size: int
    port: int
    memory: int
    connections: int | None
    threads: int | None
    resources: Object
    deadline: int | None
    binding: bool
    statistics: bool


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
        resources=merged(spec.get("resources"), cpu=DEFAULT_CPU, memory=needed, memory_limit=needed),
        deadline=spec.get("progressDeadlineSeconds"),
        binding=spec.get("binding") == CONFIG_MAP_BINDING,
        statistics=bool(spec.get("statistics")),
    )


def needed_mebibytes(*, memory: int, connections: int) -> int:
    """What memcached takes at most when its cache is full, as measured (docs/decisions/0007).

    Beside the items: the hash table, one page for each of 39 item sizes, and each connection's buffers.
    """
    return memory + memory // 4 + connections // 128 + 64
