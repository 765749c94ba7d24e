"""An existing cluster and its registry, looked at before Pulumi is started.

Pulumi would find out too, resource by resource and in its provider's words, half-way through. Here it is
one sentence, and nothing was touched.
"""

from __future__ import annotations

from pathlib import Path

from infra.cli import plain
from infra.cli.backend import StackState
from infra.cli.described import Described
from infra.drivers.access import Access, Right
from infra.drivers.registry import Registry
from infra.errors import KindlingError, listed

VERBS = ("get", "create", "patch", "delete")
# What Pulumi's provider looks at while it waits for a Deployment.
AWAITED = (("apps", "replicasets"), ("", "pods"), ("", "events"))
SHOWN = 12
NAMESPACE = "kindling-system"
RBAC = "rbac.authorization.k8s.io"
ADMISSION = "admissionregistration.k8s.io"


def access(stack: str, *, kubectl: Path) -> Access:
    """The way into the stack's cluster."""
    return Access(kubectl, plain.context(stack), plain.value(stack, "kubeconfig"))


def check(stack: str, settings: Described, state: StackState | None, *, kubectl: Path) -> None:
    """Raise `KindlingError` for the first thing that would stop `up`; `state` is the stack's record."""
    way = access(stack, kubectl=kubectl)
    same_cluster(stack, way, state)
    way.recent()
    lacking = way.lacking(rights(served=settings.served)) or _not_to_be_granted(way, settings)
    if lacking:
        raise KindlingError(
            f"the credentials of context `{way.context}` lack rights that the stack needs",
            why=f"they may not {listed(lacking, most=SHOWN)}",
            remedy="have them granted (docs/guides/environments.md), then run the same command again; "
            "nothing was changed.",
        )
    if settings.registry:
        Registry.of(settings.registry, insecure=settings.insecure_registry).check()


def _not_to_be_granted(way: Access, settings: Described) -> list[Right]:
    """What the stack grants and its user does not have: Kubernetes lets nobody grant that.

    Who may `escalate` the roles may all the same.
    """
    wanted = [Right(verb, name, group, place) for verb, name, group, place in settings.grants]
    lacking = way.lacking(wanted)
    roles = ["clusterroles", *(["roles"] if settings.served is not None else [])]
    if lacking and not way.lacking([Right("escalate", role, RBAC) for role in roles]):
        return []
    return lacking


def same_cluster(stack: str, way: Access, state: StackState | None) -> None:
    """Raise `KindlingError` unless the context leads to where the stack is, if it is anywhere."""
    found = way.uid()
    recorded = state.cluster if state is not None else ""
    if recorded and found != recorded:
        raise KindlingError(
            f"the context `{way.context}` leads to another cluster than the one stack `{stack}` is in",
            why=f"the namespace kube-system there has the uid {found}, not {recorded}",
            remedy="point the context back. If the old cluster is gone for good: "
            f"python3 -m infra exec --stack {stack} pulumi stack rm --force --yes --preserve-config",
        )


def rights(*, served: tuple[str, ...] | None) -> list[Right]:
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
    looked_at = [*AWAITED, ("apps", "deployments")]
    return [
        Right(verb, name, group, namespace)
        for group, name, namespace in [*((group, name, "") for group, name in wide), *places]
        for verb in VERBS
    ] + [Right(verb, name, group, NAMESPACE) for group, name in looked_at for verb in ("list", "watch")]
