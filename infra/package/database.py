"""The component `Database`: a Postgresql, and where applications find it."""

from typing import Any, TypedDict

import pulumi

from infra.package.resource import Kind, declare

PORT = 5432
KIND = Kind(
    "database.technotuesday.io",
    "Postgresql",
    {
        "version": "version",
        "default_user": "defaultUser",
        "password_secret_name": "passwordSecretRef.name",
        "storage_size": "storage.size",
        "storage_class_name": "storage.storageClassName",
        "cpu_request": "resources.requests.cpu",
        "cpu_limit": "resources.limits.cpu",
        "memory_request": "resources.requests.memory",
        "memory_limit": "resources.limits.memory",
        "deletion_policy": "deletionPolicy",
        "deletion_protection": "deletionProtection",
    },
)


class DatabaseArgs(TypedDict, total=False):
    """What a Database can be given; every input is optional."""

    name: pulumi.Input[str]
    """The name of the Postgresql in the cluster. By default the name in the program."""
    namespace: pulumi.Input[str]
    """The namespace of the Postgresql. By default that of the Kubernetes provider."""
    labels: pulumi.Input[dict[str, pulumi.Input[str]]]
    """Labels of the Postgresql."""
    version: pulumi.Input[str]
    """The major version of PostgreSQL, such as "17"."""
    default_user: pulumi.Input[str]
    """The user that can log in and owns a database of its own name."""
    password_secret_name: pulumi.Input[str]
    """A Secret of the same namespace that has the user's password. By default one is generated."""
    storage_size: pulumi.Input[str]
    """The size of the volume, such as "10Gi". It can grow and not shrink."""
    storage_class_name: pulumi.Input[str]
    """The StorageClass of the volume. By default the cluster's."""
    cpu_request: pulumi.Input[str]
    """Processor time that the server reserves, such as "500m"."""
    cpu_limit: pulumi.Input[str]
    """Processor time that the server may use at most."""
    memory_request: pulumi.Input[str]
    """Memory that the server reserves, such as "1Gi"."""
    memory_limit: pulumi.Input[str]
    """Memory that the server may use at most."""
    deletion_policy: pulumi.Input[str]
    """What becomes of the data when the Postgresql is deleted: "Retain" or "Delete"."""
    deletion_protection: pulumi.Input[bool]
    """Whether the API server refuses to delete the Postgresql."""
    spec: pulumi.Input[dict[str, pulumi.Input[Any]]]
    """Every other field of a Postgresql's spec, as its definition has them."""
    wait_for_ready: bool
    """Whether to wait for the condition Ready. By default true; a hibernated database is never Ready."""
    timeout_seconds: int
    """How long to wait for it, 600 by default."""


class Database(pulumi.ComponentResource):
    """A PostgreSQL server with its volume, its Service, and a user that can log in and owns a database."""

    host: pulumi.Output[str]
    """The host name of the server, from every namespace of the cluster."""
    port: pulumi.Output[int]
    """The port of the server."""
    secret_name: pulumi.Output[str]
    """The Secret with host, port, database, username, password and uri, in the Postgresql's namespace."""
    name: pulumi.Output[str]
    """The name of the Postgresql."""
    namespace: pulumi.Output[str]
    """The namespace of the Postgresql."""

    def __init__(self, name: str, args: DatabaseArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("kindling:index:Database", name, {}, opts)
        found = declare(KIND, name, args, parent=self)
        self.name, self.namespace, self.host = found.name, found.namespace, found.host
        self.port = found.name.apply(lambda _: PORT)
        self.secret_name = pulumi.Output.concat(found.name, "-binding")
        self.register_outputs(
            {
                "name": self.name,
                "namespace": self.namespace,
                "host": self.host,
                "port": self.port,
                "secretName": self.secret_name,
            }
        )
