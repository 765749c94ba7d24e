"""What the operator may do, and what its users may, as tables: the roles are made from them, tests read them.

Apart from the components because it is the one thing a reviewer of permissions wants to read. Each rule
says what it is for; a verb that nothing needs is a fault, and so is a wildcard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infra import manifests
from infra.errors import KindlingError
from infra.manifests import Manifest
from infra.project import OPERATOR, OPERATOR_NAMESPACE

LIST_WATCH = ("list", "watch")
READ = ("get", *LIST_WATCH)
# Server-side apply needs `patch`, and `create` for an object that is not there yet.
OWN = (*READ, "create", "patch")
LEASES = "coordination.k8s.io"


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


DEPLOYMENTS = Rule("run and repair what keeps nothing", "apps", ("deployments",), OWN)
STATEFUL_SETS = Rule("run and repair what keeps data", "apps", ("statefulsets",), OWN)
EXCHANGED_DEPLOYMENTS, EXCHANGED_STATEFUL_SETS = (
    Rule("run and repair caches; one takes the place of the other", "apps", (plural,), (*OWN, "delete"))
    for plural in ("deployments", "statefulsets")
)
SERVICES = Rule("lead to what runs", "", ("services",), OWN)
SECRETS = Rule("make passwords, and read those that a resource names", "", ("secrets",), OWN)
IMPORTED_SECRETS = Rule(
    "copies of bindings; none is wanted once one side takes it back", "", ("secrets",), (*OWN, "delete")
)
NAMED_SECRETS = Rule("read the token that a resource names", "", ("secrets",), READ)
NAMED_CONFIG_MAPS = Rule("read the code that a resource names", "", ("configmaps",), READ)
CONFIG_MAPS = Rule("the settings of what runs", "", ("configmaps",), OWN)
SERVER_LISTS = Rule(
    "lists of servers for applications; none is wanted where a resource does not ask",
    "",
    ("configmaps",),
    (*OWN, "delete"),
)
VOLUME_CLAIMS = Rule("its volumes, by the data policy", "", ("persistentvolumeclaims",), OWN)
NETWORK_POLICIES = Rule("who may reach what runs", "networking.k8s.io", ("networkpolicies",), OWN)
DISRUPTION_BUDGETS = Rule(
    "how many may go at once; none is wanted where one runs",
    "policy",
    ("poddisruptionbudgets",),
    (*OWN, "delete"),
)
JOBS = Rule("run what ends, and take away what has ended", "batch", ("jobs",), (*OWN, "delete"))
CRON_JOBS = Rule("run it on schedule", "batch", ("cronjobs",), (*OWN, "delete"))
CERTIFICATES = Rule(
    "have cert-manager issue what a database serves; none is wanted where a resource does not ask",
    "cert-manager.io",
    ("certificates",),
    (*OWN, "delete"),
)
PODS = Rule("see what runs and what is ready", "", ("pods",), LIST_WATCH)

EVENTS = Rule("report what happened", "events.k8s.io", ("events",), ("create",))
SAID = Rule(
    "report what happened, and why a Pod is missing",
    "events.k8s.io",
    ("events",),
    ("create", "list"),
)

POSTGRESQL_GROUPS = ("database.technotuesday.io", "database.db.example.com")

NEEDS: Mapping[str, tuple[Rule, ...]] = {
    "Backup": (
        Rule(
            "keep one until what it stored is deleted", "database.technotuesday.io", ("backups",), ("patch",)
        ),
        SECRETS,
        CONFIG_MAPS,
        NETWORK_POLICIES,
        CRON_JOBS,
        JOBS,
        PODS,
        Rule("see the volume that backups go to", "", ("persistentvolumeclaims",), READ),
        *(Rule("see what is backed up", group, ("postgresqls",), READ) for group in POSTGRESQL_GROUPS),
    ),
    "BindingImport": (
        IMPORTED_SECRETS,
        *(Rule("see what gives its binding", group, ("postgresqls",), READ) for group in POSTGRESQL_GROUPS),
    ),
    "Memcached": (
        EXCHANGED_DEPLOYMENTS,
        EXCHANGED_STATEFUL_SETS,
        SERVICES,
        NETWORK_POLICIES,
        DISRUPTION_BUDGETS,
        SERVER_LISTS,
        PODS,
        SAID,
    ),
    "MyCustomResource": (PODS,),
    "Postgresql": (
        *(
            Rule("keep one until its claim is not protected any more", group, ("postgresqls",), ("patch",))
            for group in POSTGRESQL_GROUPS
        ),
        STATEFUL_SETS,
        DEPLOYMENTS,
        SERVICES,
        SECRETS,
        CONFIG_MAPS,
        VOLUME_CLAIMS,
        NETWORK_POLICIES,
        CERTIFICATES,
        PODS,
        SAID,
    ),
    "PulsarConsumer": (
        Rule(
            "keep one until its subscription is deleted",
            "pulsar.pulsarconsumer.krvarma.com",
            ("pulsarconsumers",),
            ("patch",),
        ),
        DEPLOYMENTS,
        NAMED_SECRETS,
        NAMED_CONFIG_MAPS,
        NETWORK_POLICIES,
        PODS,
        SAID,
    ),
    "Restore": (
        Rule("keep one until its run is over", "database.technotuesday.io", ("restores",), ("patch",)),
        SECRETS,
        CONFIG_MAPS,
        Rule("the volume that is restored into", "", ("persistentvolumeclaims",), (*READ, "create")),
        NETWORK_POLICIES,
        JOBS,
        PODS,
        Rule("see what is restored", "database.technotuesday.io", ("backups",), READ),
        *(
            Rule("make what it is restored into", group, ("postgresqls",), (*READ, "create"))
            for group in POSTGRESQL_GROUPS
        ),
    ),
}
"""By kind: what it makes and what it looks at."""


def cluster_rules(kinds: Sequence[str] = ()) -> tuple[Rule, ...]:
    """What an operator of these kinds may do, of all where none is named, in the namespaces it serves.

    Raises KindlingError for a kind that NEEDS does not have.
    """
    definitions = manifests.definitions(kinds)
    seen = [
        Rule(
            "see what users ask for",
            _group(crd),
            (_plural(crd),),
            # One is read by itself only before its first child is made.
            READ if any("create" in rule.verbs for rule in _needs(crd)) else LIST_WATCH,
        )
        for crd in definitions
    ]
    rules = list[Rule]()
    for rule in (*seen, *(rule for crd in definitions for rule in _needs(crd)), EVENTS):
        rules = _with(rules, rule)
    seen, needed = rules[: len(seen)], rules[len(seen) :]
    return (
        *seen,
        *(
            Rule("say how it stands", _group(crd), (f"{_plural(crd)}/status",), ("patch",))
            for crd in definitions
        ),
        *needed,
    )


def diff_rules(kinds: Sequence[str] = ()) -> tuple[Rule, ...]:
    """What `python -m kindling.diff` may do, for an operator of these kinds: read what that reads.

    It does not watch, and writes nothing. Of the kinds' resources it reads by name what another one makes.
    """
    definitions = manifests.definitions(kinds)
    own = {(_group(crd), _plural(crd)) for crd in definitions}
    made = {
        (rule.group, resource)
        for crd in definitions
        for rule in _needs(crd)
        for resource in rule.resources
        if "create" in rule.verbs
    }
    found = list[Rule]()
    for rule in cluster_rules(kinds):
        names = {(rule.group, resource) for resource in rule.resources}
        wanted = {"list"} if names & own - made else {"get", "list"}
        verbs = tuple(verb for verb in rule.verbs if verb in wanted)
        if verbs and rule.group != EVENTS.group:
            found = _with(found, Rule(rule.why, rule.group, rule.resources, verbs))
    return tuple(found)


def _with(rules: Sequence[Rule], rule: Rule) -> list[Rule]:
    """What one kind looks at or makes and another does more with is said once, where the first of them is.

    What neither has whole stays apart: with each kind come the same rules, whatever others there are.
    """
    found = list(rules)
    for number, known in enumerate(found):
        if (known.group, known.resources) == (rule.group, rule.resources):
            if set(rule.verbs) <= set(known.verbs):
                return found
            if set(known.verbs) < set(rule.verbs):
                found[number] = rule
                return found
    return [*found, rule]


OWN_NAMESPACE_RULES: tuple[Rule, ...] = (
    # A name cannot be checked on creation: the object has none yet when that is decided.
    Rule("one replica leads", LEASES, ("leases",), ("create",)),
    Rule("and stays the leader", LEASES, ("leases",), ("get", "patch"), names=(OPERATOR,)),
)

VIEW, EDIT, ADMIN = USER_ROLES = ("view", "edit", "admin")
"""Kubernetes' own roles for users, to which `kindling-view`, `-edit` and `-admin` add the kinds."""
_CHANGE = ("create", "update", "patch", "delete")


def user_rules(role: str, kinds: Sequence[str] = ()) -> tuple[Rule, ...]:
    """What a user of one of USER_ROLES may do with the kinds; each role is whole by itself.

    The status is the operator's to write, Secrets are none of these roles' business.
    """
    verbs = {VIEW: READ, EDIT: (*READ, *_CHANGE), ADMIN: (*READ, *_CHANGE, "deletecollection")}[role]
    scale = ("get",) if role == VIEW else ("get", "update", "patch")
    found = []
    for crd in manifests.definitions(kinds):
        group, plural = _group(crd), _plural(crd)
        found.append(Rule(f"{role} the resources", group, (plural,), verbs))
        found.append(Rule("how it stands", group, (f"{plural}/status",), ("get",)))
        if any("scale" in version.get("subresources", {}) for version in crd["spec"]["versions"]):
            found.append(Rule("how many run", group, (f"{plural}/scale",), scale))
    return tuple(found)


def grants(kinds: Sequence[str], *, namespaces: Sequence[str] | None) -> list[tuple[str, str, str, str]]:
    """All that is granted to the operator and by users' roles: verb, resource, group, namespace, each once.

    Nobody can grant a permission that they do not have. `namespaces` None for an operator of the whole
    cluster; an empty namespace means everywhere.
    """
    places = [""] if namespaces is None else list(namespaces)
    found = [(rule, place) for rule in cluster_rules(kinds) for place in places]
    found += [(rule, OPERATOR_NAMESPACE) for rule in OWN_NAMESPACE_RULES]
    # Users' roles are ClusterRoles, whatever the operator serves.
    found += [(rule, "") for role in USER_ROLES for rule in user_rules(role, kinds)]
    return list(
        dict.fromkeys(
            (verb, resource, rule.group, place)
            for rule, place in found
            for resource in rule.resources
            for verb in rule.verbs
        )
    )


def aggregated(role: str) -> dict[str, str]:
    """The label by which Kubernetes adds a role to its own of that name."""
    return {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true"}


def _needs(crd: Manifest) -> tuple[Rule, ...]:
    kind = str(crd["spec"]["names"]["kind"])
    if kind not in NEEDS:
        raise KindlingError(
            f"nothing says what an operator of {kind} may do",
            why="the kind has a definition under crds/ and no line in NEEDS",
            remedy="add one to infra/rbac.py, with what the kind makes and looks at.",
        )
    return NEEDS[kind]


def _group(crd: Manifest) -> str:
    return str(crd["spec"]["group"])


def _plural(crd: Manifest) -> str:
    return str(crd["spec"]["names"]["plural"])
