"""The policies of `infra.admission` in the cluster: what a requester must be allowed beside our kinds.

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

from infra import admission, manifests


class Admission(pulumi.ComponentResource):
    """A policy and its binding for each kind that needs one, in force for every namespace."""

    def __init__(
        self,
        name: str,
        *,
        kinds: Sequence[str] = (),
        served: Sequence[str] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("kindling:components:Admission", name, {}, opts)
        for policy in admission.policies(manifests.definitions(kinds), served=served):
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
