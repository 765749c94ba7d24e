"""An existing cluster and its registry, looked at before Pulumi is started.

Pulumi would find out too, resource by resource and in its provider's terms, half-way through. Here it is
one sentence, and nothing was touched.
"""

from __future__ import annotations

from pathlib import Path

from infra import rbac
from infra.cli.stacks.file_backend import StackState
from infra.drivers import in_cluster
from infra.drivers.cluster_context import (
    IN_CLUSTER,
    ClusterAccess,
    ClusterContext,
    Permission,
    another_cluster,
)
from infra.drivers.registry import Registry
from infra.errors import KindlingError, listed
from infra.project import OPERATOR_NAMESPACE as NAMESPACE
from infra.settings import Settings, stack_files

# Pulumi's provider waits for what it creates and for what it deletes by a watch, whatever it is.
VERBS = ("get", "list", "watch", "create", "patch", "delete")
# What it looks at while it waits for a Deployment.
AWAITED = (("apps", "replicasets"), ("", "pods"), ("", "events"), ("", "persistentvolumeclaims"))
SHOWN = 12
RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"


def context_of(stack: str, *, kubectl: Path) -> ClusterAccess:
    """The way into the stack's cluster."""
    if (context := stack_files.context(stack)) == IN_CLUSTER:
        return in_cluster.InCluster()
    return ClusterContext(kubectl, context, stack_files.get(stack, "kubeconfig") or "")


def check(stack: str, settings: Settings, state: StackState | None, *, kubectl: Path) -> None:
    """Raise `KindlingError` for the first thing that would stop `up`; `state` is the stack's state."""
    cluster = context_of(stack, kubectl=kubectl)
    require_same_cluster(stack, cluster, state)
    cluster.recent()
    missing = cluster.missing(required_permissions(served=settings.operator.served)) or _not_to_be_granted(
        cluster, settings
    )
    if missing:
        raise KindlingError(
            f"the credentials of context `{cluster.context}` lack rights that the stack needs",
            why=f"they may not {listed(missing, most=SHOWN)}",
            remedy="have them granted (docs/guides/existing-clusters.md), then run the same command again; "
            "nothing was changed.",
        )
    if settings.images.registry:
        Registry.of(settings.images.registry, insecure=settings.images.insecure).check()


def _not_to_be_granted(cluster: ClusterAccess, settings: Settings) -> list[Permission]:
    """What the stack grants and its user does not have: Kubernetes lets nobody grant that.

    Who may `escalate` the roles and `bind` them may all the same.
    """
    served = settings.operator.served
    grants = rbac.grants(settings.operator.kinds, namespaces=served)
    wanted = [Permission(verb, name, group, place) for verb, name, group, place in grants]
    missing = cluster.missing(wanted)
    roles = ["clusterroles", *(["roles"] if served is not None else [])]
    # The one is for a role, the other for its binding: neither does for both.
    verbs = ("escalate", "bind")
    if missing and not cluster.missing([Permission(verb, role, RBAC) for role in roles for verb in verbs]):
        return []
    return missing


def require_same_cluster(stack: str, cluster: ClusterAccess, state: StackState | None) -> None:
    """Raise `KindlingError` unless the context leads to where the stack is, if it is anywhere."""
    found = cluster.uid()
    recorded = state.cluster if state is not None else ""
    if recorded and found != recorded:
        remedy = f": python3 -m infra exec --stack {stack} pulumi stack rm --force --yes --preserve-config"
        raise another_cluster(cluster.context, found, recorded, stack=f"stack `{stack}`", remedy=remedy)


def required_permissions(*, served: tuple[str, ...] | None) -> list[Permission]:
    """What must be allowed to bring the stack up; `served` None for an operator of the whole cluster."""
    own = [
        ("", ("serviceaccounts", "services")),
        ("apps", ("deployments",)),
        ("policy", ("poddisruptionbudgets",)),
        ("networking.k8s.io", ("networkpolicies",)),
        (RBAC, ("roles", "rolebindings")),
    ]
    wide = [
        ("", "namespaces"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        (ADMISSION, "validatingadmissionpolicies"),
        (ADMISSION, "validatingadmissionpolicybindings"),
    ]
    # Users' roles are for every namespace; the operator's own may be for some.
    wide.append((RBAC, "clusterroles"))
    if served is None:
        wide.append((RBAC, "clusterrolebindings"))
    places = [(group, name, NAMESPACE) for group, names in own for name in names]
    places += [(RBAC, name, place) for place in served or () for name in ("roles", "rolebindings")]
    return [
        Permission(verb, name, group, namespace)
        for group, name, namespace in [*((group, name, "") for group, name in wide), *places]
        for verb in VERBS
    ] + [Permission(verb, name, group, NAMESPACE) for group, name in AWAITED for verb in ("list", "watch")]
