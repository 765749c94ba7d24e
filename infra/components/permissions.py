"""The operator's rights: the table of `infra.rbac` as roles, bound to its account.

Apart from the operator's component because how far they reach is a setting: the whole cluster, or the
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

    own = within("role", namespace, called, rbac.OWN_NAMESPACE_RULES)
    if settings.scope != CLUSTER_WIDE:
        served = [
            within(f"role-in-{place}", place, f"{called}-served", rbac.CLUSTER_RULES)
            for place in settings.watch_namespaces
        ]
        return [own, *served]
    wide = meta.v1.ObjectMetaArgs(name=called, labels=labels)
    role = access.v1.ClusterRole(
        f"{name}-cluster-role", metadata=wide, rules=_rules(rbac.CLUSTER_RULES), opts=opts
    )
    binding = access.v1.ClusterRoleBinding(
        f"{name}-cluster-role",
        metadata=wide,
        role_ref=_reference("ClusterRole", role.metadata),
        subjects=[subject],
        opts=opts,
    )
    return [own, binding]


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
