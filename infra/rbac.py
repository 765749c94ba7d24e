"""What the operator may do, as one table: the Role objects are made from it, and tests read it.

Apart from the operator's component because it is the one thing a reviewer of permissions wants to read.
Each rule says what it is for; a verb that nothing needs is a fault, and so is a wildcard.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.components import manifests

SEE = ("list", "watch")
READ = ("get", *SEE)
LEASES = "coordination.k8s.io"

KINDS = [(crd["spec"]["group"], str(crd["spec"]["names"]["plural"])) for crd in manifests.load("crds")]
"""Group and plural of each kind: whatever has a definition under crds/ is the operator's to serve."""


MAKES_NOTHING = frozenset({"poc.test.domain"})
"""Groups whose resources have no children: one is read by itself only before the first child is made."""


@dataclass(frozen=True)
class Rule:
    """One row: these verbs on these resources of one group (empty for the core group).

    With `names`, on the objects of these names alone.
    """

    why: str
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()


# Server-side apply needs `patch`, and `create` for an object that is not there yet.
CLUSTER_RULES: tuple[Rule, ...] = (
    *(
        Rule("see what users ask for", group, (plural,), SEE if group in MAKES_NOTHING else READ)
        for group, plural in KINDS
    ),
    *(Rule("say how it stands", group, (f"{plural}/status",), ("patch",)) for group, plural in KINDS),
    Rule("run and repair the workloads", "apps", ("deployments", "statefulsets"), (*READ, "create", "patch")),
    Rule(
        "the Services, Secrets and settings of what runs, and its volumes by the data policy",
        "",
        ("services", "secrets", "configmaps", "persistentvolumeclaims"),
        (*READ, "create", "patch"),
    ),
    Rule("who may reach what runs", "networking.k8s.io", ("networkpolicies",), (*READ, "create", "patch")),
    Rule(
        "how many may go at once; none is wanted where one runs",
        "policy",
        ("poddisruptionbudgets",),
        (*READ, "create", "patch", "delete"),
    ),
    Rule("see what runs and what is ready", "", ("pods",), SEE),
    Rule("tell users what happened", "events.k8s.io", ("events",), ("create",)),
)

OWN_NAMESPACE_RULES: tuple[Rule, ...] = (
    # A name can not be checked on creation: the object has none yet when that is decided.
    Rule("one replica leads", LEASES, ("leases",), ("create",)),
    Rule("and stays the leader", LEASES, ("leases",), ("get", "patch"), names=("kindling-operator",)),
)
