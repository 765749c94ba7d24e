"""The manifests under samples/, applied as they are: what a new user sees running.

Also where their passwords become secrets of the state, which the documents' manifests hold in plain text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource

from infra import manifests
from infra.manifests import Manifest
from infra.settings import BROKER_USER

NAMESPACE = "default"
SECRET_FIELDS = ("password",)
POSTGRES_PORT = 5432


@dataclass(frozen=True)
class Connection:
    """How a client in the cluster reaches a sample; the password is in the Secret the operator makes."""

    resource: str
    namespace: str
    host: str
    port: int
    user: str
    database: str


class Samples(pulumi.ComponentResource):
    """One custom resource per manifest; each is waited for until it is Ready."""

    connections: list[Connection]

    def __init__(
        self,
        name: str,
        *,
        kinds: Sequence[str] = (),
        broker: pulumi.Resource | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Those of the kinds, of all where none is named.

        Only those that use the `broker` wait for it: it is the last to be there.
        """
        super().__init__("kindling:components:Samples", name, {}, opts)
        samples = [item for item in manifests.load("samples") if not kinds or item["kind"] in kinds]
        for sample in samples:
            CustomResource(
                resource_name(sample),
                api_version=sample["apiVersion"],
                kind=sample["kind"],
                metadata=manifests.metadata(sample, wait_for="Ready", namespace=NAMESPACE),
                spec=_with_secrets(sample["spec"]),
                opts=pulumi.ResourceOptions(
                    parent=self,
                    depends_on=[broker] if broker is not None and sample["kind"] == BROKER_USER else None,
                    custom_timeouts=pulumi.CustomTimeouts(create="10m", update="10m"),
                ),
            )
        self.connections = [connection(sample) for sample in samples if sample["kind"] == "Postgresql"]
        # No `register_outputs`: see Operator.


def resource_name(sample: Manifest) -> str:
    """The name in Pulumi: two groups have a kind of the same name, so the group is part of it."""
    group, kind = _group_kind(sample)
    return f"{kind.lower()}.{group}-{sample['metadata']['name']}"


def connection(sample: Manifest) -> Connection:
    """The way into a Postgresql sample, whose user owns a database of its own name."""
    group, _kind = _group_kind(sample)
    name, spec = sample["metadata"]["name"], sample["spec"]
    namespace = sample["metadata"].get("namespace", NAMESPACE)
    user = spec.get("defaultUser") or spec["defaultuser"]
    return Connection(
        resource=f"postgresqls.{group}/{name}",
        namespace=namespace,
        host=f"{name}.{namespace}.svc",
        port=POSTGRES_PORT,
        user=user,
        database=user,
    )


def _group_kind(sample: Manifest) -> tuple[str, str]:
    return str(sample["apiVersion"]).rpartition("/")[0], str(sample["kind"])


def _with_secrets(spec: dict[str, Any]) -> dict[str, Any]:
    return {
        key: pulumi.Output.secret(value) if key in SECRET_FIELDS else value for key, value in spec.items()
    }
