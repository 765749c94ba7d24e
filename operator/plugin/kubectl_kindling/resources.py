"""Reading by kubectl: one resource by its name, its children and Events, and all resources of a namespace.

No Secret is read here. What may not be read is left out and named, so that a user of few rights has the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from kubectl_kindling import facts, failures
from kubectl_kindling.errors import USAGE, PluginError
from kubectl_kindling.failures import Right
from kubectl_kindling.kinds import CATEGORY, Reference, Type, called, of_kind
from kubectl_kindling.kubectl import Kubectl, Object, Output, items_of
from kubectl_kindling.screen import View

CHILDREN = (
    "statefulsets.apps", "deployments.apps", "services", "configmaps", "persistentvolumeclaims",
    "networkpolicies.networking.k8s.io", "poddisruptionbudgets.policy", "jobs.batch", "cronjobs.batch",
    "pods",
)  # fmt: skip
"""Every type of child but Secrets."""
INSTANCE, NAME, KIND = "app.kubernetes.io/instance", "kindling.dev/name", "kindling.dev/kind"
MOST_ASKED = 5
"""Of how many children the Events are read: of those with a fault."""


def find(kubectl: Kubectl, types: Sequence[Type], wanted: Reference) -> tuple[Type, Object]:
    """The one resource of that name; raises `PluginError` for none, for several, and without the right."""
    return _find(kubectl, called(types, wanted.kind), wanted)


def find_of_kind(kubectl: Kubectl, types: Sequence[Type], kind: str, text: str) -> tuple[Type, Object]:
    """The same for NAME alone, of a kind that the command itself says; KIND/NAME is fine, too."""
    candidates = of_kind(types, kind)
    word, slash, name = text.partition("/")
    if slash:
        candidates = [each for each in called(types, word) if each in candidates]
        if not candidates:
            raise PluginError(
                f"`{text}` is no {kind}",
                why=f"this command is for {kind} alone",
                remedy="name one of that kind.",
                status=USAGE,
            )
    return _find(kubectl, candidates, Reference(kind.lower(), name if slash else text))


def _find(kubectl: Kubectl, candidates: Sequence[Type], wanted: Reference) -> tuple[Type, Object]:
    with ThreadPoolExecutor(len(candidates)) as pool:
        outputs = list(pool.map(lambda each: kubectl.get(each.full, wanted.name), candidates))
    found = [
        (type, object)
        for type, output in zip(candidates, outputs, strict=True)
        if output.status == 0
        for object in items_of(output)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise PluginError(
            f"`{wanted.kind}/{wanted.name}` means {len(found)} resources",
            why=" and ".join(f"{type.full}/{wanted.name}" for type, _ in found),
            remedy="write the one that you mean in this form.",
            status=USAGE,
        )
    for type, output in zip(candidates, outputs, strict=True):
        if output.status != 0 and not failures.is_not_found(output.stderr):
            raise failures.error_of(("get", type.full, wanted.name), output.status, output.stderr)
    raise PluginError(
        f"there is no {' and no '.join(each.full for each in candidates)} `{wanted.name}`",
        why="the namespace, which is the context's unless --namespace names one, has none of that name",
        remedy="`kubectl kindling status --all-namespaces` lists them all.",
    )


def view(kubectl: Kubectl, type: Type, resource: Object, types: Sequence[Type]) -> View:
    """All that the screen of this resource shows."""
    namespace = facts.namespace_of(resource)
    backups = [each for each in types if each.kind == "Backup"] if type.kind == "Postgresql" else []
    with ThreadPoolExecutor(4) as pool:
        owned = pool.submit(children_of, kubectl, type, resource)
        own_events = pool.submit(_events_of, kubectl, namespace, str(facts.meta(resource).get("uid", "")))
        all_backups = [pool.submit(kubectl.get, each.full, f"--namespace={namespace}") for each in backups]
        found, outputs = owned.result()
        uids = [row.uid for row in facts.children(found) if row.fault][:MOST_ASKED]
        more = [pool.submit(_events_of, kubectl, namespace, uid) for uid in uids]
        events = [own_events.result(), *(each.result() for each in more)]
        listed = [each.result() for each in all_backups]
    missing, others = troubles([*outputs, *events, *listed])
    return View(
        type,
        resource,
        children=found,
        events=[item for output in events for item in items_of(output)],
        backups=facts.backups_of(resource, [item for output in listed for item in items_of(output)]),
        missing=missing,
        others=others,
    )


def children_of(kubectl: Kubectl, type: Type, resource: Object) -> tuple[list[Object], list[Output]]:
    """The children that may be read, and how kubectl ended; Secrets are not among them."""
    outputs = [
        kubectl.get(
            ",".join(CHILDREN), f"--namespace={facts.namespace_of(resource)}", f"--selector={selector}"
        )
        for selector in selectors(type, resource)
    ]
    return [item for output in outputs for item in items_of(output)], outputs


def selectors(type: Type, resource: Object) -> list[str]:
    """What selects the children of this resource: those that it owns, and a claim that may outlive it."""
    return [f"{KIND}={type.group_kind},{label}={facts.name_of(resource)}" for label in (INSTANCE, NAME)]


def _events_of(kubectl: Kubectl, namespace: str, uid: str) -> Output:
    return kubectl.get("events", f"--namespace={namespace}", f"--field-selector=involvedObject.uid={uid}")


def troubles(outputs: Sequence[Output]) -> tuple[list[Right], list[str]]:
    """The rights that were missing, each once, and the words of what failed in another way."""
    missing: dict[Right, None] = {}
    others: dict[str, None] = {}
    for output in outputs:
        if output.status == 0:
            continue
        rights = failures.missing_rights(output.stderr)
        missing |= dict.fromkeys(rights)
        if not rights:
            others[failures.error_of(("get",), output.status, output.stderr).why] = None
    return list(missing), [text for text in others if text]


def all_resources(
    kubectl: Kubectl, types: Sequence[Type], *, everywhere: bool
) -> tuple[list[tuple[Type, Object]], Output]:
    """Every resource of the namespace, or of all, that may be read; and how kubectl ended.

    Raises `PluginError` where none may be.
    """
    output = kubectl.get(CATEGORY, *(("--all-namespaces",) if everywhere else ()))
    found = []
    for item in items_of(output):
        group, _, _ = str(item.get("apiVersion", "")).partition("/")
        found += [(type, item) for type in types if (type.group, type.kind) == (group, item.get("kind"))]
    if output.status != 0 and not found:
        raise failures.error_of(("get", CATEGORY), output.status, output.stderr)
    return found, output
