"""The custom resource definitions, from the files that are the API's source of truth.

One typed resource each, so that a changed column shows as that in a preview.
"""

from __future__ import annotations

import pulumi
from pulumi_kubernetes.apiextensions.v1 import CustomResourceDefinition

from infra.components import manifests


class Crds(pulumi.ComponentResource):
    """Everything under crds/; whoever depends on it starts when the API server serves the kinds."""

    definitions: list[CustomResourceDefinition]

    def __init__(self, name: str, *, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("kindling:components:Crds", name, {}, opts)
        self.definitions = [
            CustomResourceDefinition(
                crd["metadata"]["name"],
                metadata=manifests.metadata(crd, wait_for="Established"),
                spec=crd["spec"],
                opts=pulumi.ResourceOptions(parent=self),
            )
            for crd in manifests.load("crds")
        ]
        self.register_outputs({})
