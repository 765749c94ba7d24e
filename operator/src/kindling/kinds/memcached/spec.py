"""Reading a Memcached's spec: defaults, and the memory that follows from them.

The CRD's rule on spec.resources.limits.memory is `needed_mebibytes` again; a test holds them together.
"""

from __future__ import annotations

from dataclasses import dataclass

from kindling.kinds import reasons
from kindling.kinds.amounts import merged
from kindling.kinds.base import Problem
from kindling.kinds.memcached import auth, tls
from kindling.kube.resources import DEPLOYMENT, STATEFUL_SET, Object, ResourceType

DEFAULT_SIZE = 1
DEFAULT_PORT = 11211
DEFAULT_MEMORY = 64
DEFAULT_CONNECTIONS = 1024
DEFAULT_CPU = "50m"
CONFIG_MAP_BINDING = "ConfigMap"
MADE_SECRETS = ("auth", "binding", "server-tls", "server-ca")
"""What follows the resource's name in the names of the Secrets that are made from it."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A spec with its defaults. `connections` and `threads` are None where memcached decides, `deadline`
    where Kubernetes does. `binding`: the servers are listed in a ConfigMap, too. `discovery`: a program gives
    that list. `statistics`: each is asked. `tls`, `auth`: connections are encrypted, and begin with a login.
    `workload` makes the Pods. `min_hit_ratio` is what a roll-out leaves of 100 reads, None where it is not
    held for that.
    """

    size: int
    workload: ResourceType
    min_hit_ratio: int | None
    port: int
    memory: int
    connections: int | None
    threads: int | None
    resources: Object
    deadline: int | None
    binding: bool
    discovery: bool
    statistics: bool
    tls: bool
    auth: bool


def read(cr: Object) -> Spec:
    """Total over what the CRD admits, an empty spec and nulls included."""
    spec = cr.get("spec") or {}
    memory = spec.get("memoryMB") or DEFAULT_MEMORY
    connections = spec.get("maxConnections")
    encrypts = tls.is_enabled(cr)
    most = connections or DEFAULT_CONNECTIONS
    discovery = spec.get("discovery") is True
    needed = f"{needed_mebibytes(memory=memory, connections=most, tls=encrypts)}Mi"
    return Spec(
        size=spec.get("size") or DEFAULT_SIZE,
        workload=STATEFUL_SET if spec.get("workload") == STATEFUL_SET.kind else DEPLOYMENT,
        min_hit_ratio=(spec.get("rollout") or {}).get("minHitRatioPercent"),
        port=spec.get("containerPort") or DEFAULT_PORT,
        memory=memory,
        connections=connections,
        threads=spec.get("threads"),
        resources=merged(spec.get("resources"), cpu=DEFAULT_CPU, memory=needed, memory_limit=needed),
        deadline=spec.get("progressDeadlineSeconds"),
        binding=spec.get("binding") == CONFIG_MAP_BINDING or discovery,
        discovery=discovery,
        statistics=bool(spec.get("statistics")),
        tls=encrypts,
        auth=auth.is_enabled(cr),
    )


def needed_mebibytes(*, memory: int, connections: int, tls: bool = False) -> int:
    """What memcached takes at most when its cache is full, as measured (docs/decisions/0007 and 0074).

    Beside the items: the hash table, one page for each of 39 item sizes, and each connection's buffers, of
    which TLS has its own.
    """
    return memory + memory // 4 + connections // 128 + (connections // 32 if tls else 0) + 64


def validate(cr: Object) -> Problem | None:
    """The first Secret that is named and cannot be the user's own."""
    made = {f"{cr['metadata']['name']}-{suffix}" for suffix in MADE_SECRETS}
    password, certificate = auth.reference(cr), tls.reference(cr)
    message = None
    if password is not None and password.name in made:
        message = (
            f"{auth.PATH}.name {password.name!r} names a Secret that is made from this resource: refer to "
            "one of your own, or leave it out to have a password made."
        )
    elif certificate in made:
        message = (
            f"spec.tls.secretName {certificate!r} names a Secret that is made from this resource: refer to "
            "one of your own, or leave it out to have a certificate made."
        )
    return Problem(reason=reasons.INVALID_SPEC, message=message) if message else None
