"""The tables of `infra.rbac` as roles: the operator's, bound to its account, and its users', bound to nobody.

Apart from the operator's component because how far its rights reach is a setting: the whole cluster, or the
namespaces that are served and no other.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
from pulumi_kubernetes import meta
from pulumi_kubernetes import rbac as access

from infra import rbac
from infra.rbac import Rule
from infra.settings import CLUSTER_WIDE, OperatorSettings

GROUP = "rbac.authorization.k8s.io"


def grant(
    name: str,
    *,
    called: str,
    labels: dict[str, str],
    namespace: pulumi.Input[str],
    account: pulumi.Input[str],
    settings: OperatorSettings,
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Roles from the table, bound to the account; returns what must be there before it is used.

    All are `called` the same, but for those in served namespaces, one of which may be the operator's own.
    """
    subject = access.v1.SubjectArgs(kind="ServiceAccount", name=account, namespace=namespace)

    def within(part: str, place: pulumi.Input[str], title: str, rules: Sequence[Rule]) -> pulumi.Resource:
        metadata = meta.v1.ObjectMetaArgs(name=title, namespace=place, labels=labels)
        role = access.v1.Role(f"{name}-{part}", metadata=metadata, rules=_rules(rules), opts=opts)
        return access.v1.RoleBinding(
            f"{name}-{part}",
            metadata=metadata,
            role_ref=_reference("Role", role.metadata),
            subjects=[subject],
            opts=opts,
        )

    rules = rbac.cluster_rules(settings.kinds)
    own = within("role", namespace, called, rbac.OWN_NAMESPACE_RULES)
    if settings.scope != CLUSTER_WIDE:
        served = [
            within(f"role-in-{place}", place, f"{called}-served", rules)
            for place in settings.watch_namespaces
        ]
        return [own, *served]
    wide = meta.v1.ObjectMetaArgs(name=called, labels=labels)
    role = access.v1.ClusterRole(f"{name}-cluster-role", metadata=wide, rules=_rules(rules), opts=opts)
    binding = access.v1.ClusterRoleBinding(
        f"{name}-cluster-role",
        metadata=wide,
        role_ref=_reference("ClusterRole", role.metadata),
        subjects=[subject],
        opts=opts,
    )
    return [own, binding]


class UserRoles(pulumi.ComponentResource):
    """What Kubernetes' own view, edit and admin are given of the kinds, wherever somebody binds those."""

    def __init__(
        self, name: str, *, kinds: Sequence[str] = (), opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("kindling:components:UserRoles", name, {}, opts)
        for role in rbac.USER_ROLES:
            access.v1.ClusterRole(
                f"{name}-{role}",
                metadata=meta.v1.ObjectMetaArgs(name=f"kindling-{role}", labels=rbac.aggregated(role)),
                rules=_rules(rbac.user_rules(role, kinds)),
                opts=pulumi.ResourceOptions(parent=self),
            )
        # No `register_outputs`: see Operator.


def _reference(kind: str, metadata: pulumi.Output[meta.v1.outputs.ObjectMeta]) -> access.v1.RoleRefArgs:
    return access.v1.RoleRefArgs(
        api_group=GROUP, kind=kind, name=metadata.apply(lambda found: str(found.name))
    )


def _rules(rules: Sequence[Rule]) -> list[access.v1.PolicyRuleArgs]:
    return [
        access.v1.PolicyRuleArgs(
            api_groups=[rule.group],
            resources=list(rule.resources),
            verbs=list(rule.verbs),
            resource_names=list(rule.names) or None,
        )
        for rule in rules
    ]
