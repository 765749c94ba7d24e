"""The policies of `infra.admission` and `infra.deletion_protection` in the cluster.

Apart from the definitions because it says nothing of what may be written, only of who may write it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi_kubernetes import meta
from pulumi_kubernetes.admissionregistration.v1 import (
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)

from infra import admission, deletion_protection, manifests


class Admission(pulumi.ComponentResource):
    """The policies and their bindings, in force for every namespace; with `protect` the CRDs stay too."""

    def __init__(
        self,
        name: str,
        *,
        kinds: Sequence[str] = (),
        served: Sequence[str] = (),
        protect: bool = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("kindling:components:Admission", name, {}, opts)
        definitions = manifests.definitions(kinds)
        for policy in (
            *admission.policies(definitions, served=served),
            *deletion_protection.policies(definitions, definitions=protect),
        ):
            metadata = meta.v1.ObjectMetaArgs(name=policy.name)
            # Kubernetes' own form, of which the SDK's types would name each field.
            spec: Any = policy.spec
            binding: Any = policy.binding
            made = ValidatingAdmissionPolicy(
                policy.name, metadata=metadata, spec=spec, opts=pulumi.ResourceOptions(parent=self)
            )
            ValidatingAdmissionPolicyBinding(
                policy.name,
                metadata=metadata,
                spec=binding,
                opts=pulumi.ResourceOptions(parent=self, depends_on=[made]),
            )
        # No `register_outputs`: see Operator.
