"""The component `Cache`: a Memcached, and where applications find it."""

from typing import Any, TypedDict

import pulumi

from infra.package.resource import Kind, declare

DEFAULT_PORT = 11211
KIND = Kind(
    "cache.example.com",
    "Memcached",
    {
        "size": "size",
        "port": "containerPort",
        "memory_mb": "memoryMB",
        "max_connections": "maxConnections",
        "binding": "binding",
        "tls": "tls.enabled",
        "auth": "auth.enabled",
    },
)


class CacheArgs(TypedDict, total=False):
    """What a Cache can be given; every input is optional."""

    name: pulumi.Input[str]
    """The name of the Memcached in the cluster. By default the name in the program."""
    namespace: pulumi.Input[str]
    """The namespace of the Memcached. By default that of the Kubernetes provider."""
    labels: pulumi.Input[dict[str, pulumi.Input[str]]]
    """Labels of the Memcached."""
    size: int
    """How many caches run, 1 to 100."""
    port: int
    """The port of each cache, 11211 by default."""
    memory_mb: int
    """Memory for items, in MiB."""
    max_connections: int
    """How many clients can be connected to each cache."""
    binding: pulumi.Input[str]
    """Where applications read which caches are ready: "ConfigMap"."""
    tls: bool | None
    """Whether connections are encrypted. By default false."""
    auth: bool | None
    """Whether clients log in with a password. By default false."""
    spec: pulumi.Input[dict[str, pulumi.Input[Any]]]
    """Every other field of a Memcached's spec, as its definition has them."""
    wait_for_ready: bool
    """Whether to wait for the condition Ready. By default true."""
    timeout_seconds: int
    """How long to wait for it, 600 by default."""


class Cache(pulumi.ComponentResource):
    """One to a hundred memcached servers behind a Service."""

    host: pulumi.Output[str]
    """The host name of the caches, from every namespace of the cluster."""
    port: pulumi.Output[int]
    """The port of each cache."""
    config_map_name: pulumi.Output[str] | None
    """The ConfigMap that lists the caches that are ready, if `binding` asks for one."""
    secret_name: pulumi.Output[str] | None
    """The Secret by which clients get in, with `tls` or `auth`: `password`, `ca.crt` and the others."""
    name: pulumi.Output[str]
    """The name of the Memcached."""
    namespace: pulumi.Output[str]
    """The namespace of the Memcached."""

    def __init__(self, name: str, args: CacheArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("kindling:index:Cache", name, {}, opts)
        found = declare(KIND, name, args, parent=self)
        self.name, self.namespace, self.host = found.name, found.namespace, found.host
        self.port = found.field("containerPort", DEFAULT_PORT)
        self.config_map_name = pulumi.Output.concat(found.name, "-servers") if found.has("binding") else None
        secured = found.is_on("tls.enabled") or found.is_on("auth.enabled")
        self.secret_name = pulumi.Output.concat(found.name, "-binding") if secured else None
        self.register_outputs({"name": self.name, "host": self.host, "port": self.port})
