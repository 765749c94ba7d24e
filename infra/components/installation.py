"""The operator with all that it needs in a cluster, in the order in which they can be made.

A function and no component: another parent would give each resource of the existing stacks another name.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from infra.components.admission import Admission
from infra.components.crds import Crds
from infra.components.operator import Operator, References
from infra.components.permissions import UserRoles
from infra.settings import OperatorSettings


def install(
    *,
    parent: pulumi.Resource,
    images: References,
    settings: OperatorSettings,
    local_broker: str = "",
    pull_secrets: Sequence[str] = (),
    protect: bool = False,
    policy: bool = False,
) -> Operator:
    """Definitions, policies, users' roles and the operator, as children of `parent`.

    With `protect` Pulumi keeps what holds data, or takes it along when it goes; with `policy` the API server
    keeps the definitions from everybody.
    """
    kinds = settings.kinds
    crds = Crds("crds", kinds=kinds, opts=pulumi.ResourceOptions(parent=parent, protect=protect))
    # Before the operator: it must not act for somebody who was never asked.
    asked = Admission(
        "admission",
        kinds=kinds,
        served=settings.watch_namespaces,
        protect=policy,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[crds]),
    )
    UserRoles("users", kinds=kinds, opts=pulumi.ResourceOptions(parent=parent))
    return Operator(
        "operator",
        images=images,
        settings=settings,
        local_broker=local_broker,
        pull_secrets=pull_secrets,
        protect=protect,
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[crds, asked]),
    )
