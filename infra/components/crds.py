"""The custom resource definitions of the stack's kinds, from the files that are the API's source of truth.

One typed resource each, so that a changed column shows as that in a preview.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pulumi
from pulumi_kubernetes.apiextensions.v1 import CustomResourceDefinition

from infra import manifests


class Crds(pulumi.ComponentResource):
    """Those of the kinds, of all where none is named; whoever depends on it starts when they are served."""

    definitions: list[CustomResourceDefinition]

    def __init__(
        self, name: str, *, kinds: Sequence[str] = (), opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("kindling:components:Crds", name, {}, opts)
        self.definitions = [
            CustomResourceDefinition(
                crd["metadata"]["name"],
                metadata=cast("Any", manifests.metadata(crd, wait_for="Established")),
                spec=crd["spec"],
                opts=pulumi.ResourceOptions(parent=self),
            )
            for crd in manifests.definitions(kinds)
        ]
        self.register_outputs({})
