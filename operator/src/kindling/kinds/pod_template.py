"""What users add to the Pods of a resource, by `spec.podTemplate`: labels, annotations, placement, account.

One shape for every kind that runs Pods, with the names of Kubernetes' PodTemplateSpec. What the operator
decides itself (containers, volumes, security, that no token is mounted) is no part of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kindling.kinds.metadata import (
    INSTANCE_LABEL,
    KIND_LABEL,
    MANAGED_BY_LABEL,
    NAME_LABEL,
    OWN_DOMAIN,
    selector_of,
    unreserved,
)
from kindling.kube.resources import Object, ResourceType

RESERVED_LABELS = frozenset(
    {
        MANAGED_BY_LABEL,
        NAME_LABEL,
        INSTANCE_LABEL,
        KIND_LABEL,
        "pod-template-hash",
        "controller-revision-hash",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
    }
)
"""The operator's own, and those that the controllers of Deployments and StatefulSets set."""
RESERVED_ANNOTATIONS = (
    OWN_DOMAIN,
    "kubectl.kubernetes.io/",
    "container.apparmor.security.beta.kubernetes.io/",
)
"""What their names may not start with: `kubectl rollout restart` writes one, and one weakens security."""
SPREAD = "topologySpreadConstraints"
ACCOUNT = "serviceAccountName"
_ACCOUNTS_OLD_NAME = "serviceAccount"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def read(cr: Object) -> dict[str, Any]:
    """What of `spec.podTemplate` enters the Pods: by part, without what is empty or reserved.

    An empty list of spread constraints stays: it stands for none where a kind has one by default.
    """
    given = (cr.get("spec") or {}).get("podTemplate") or {}
    metadata, spec = given.get("metadata") or {}, given.get("spec") or {}
    parts = {
        "labels": unreserved(metadata.get("labels"), RESERVED_LABELS, (OWN_DOMAIN,)),
        "annotations": unreserved(metadata.get("annotations"), frozenset(), RESERVED_ANNOTATIONS),
        "nodeSelector": spec.get("nodeSelector"),
        "affinity": _affinity(spec.get("affinity") or {}),
        "tolerations": spec.get("tolerations"),
        "priorityClassName": spec.get("priorityClassName"),
        ACCOUNT: spec.get(ACCOUNT),
    }
    found = {name: value for name, value in parts.items() if value}
    return found if spec.get(SPREAD) is None else {**found, SPREAD: spec[SPREAD]}


def applied(type: ResourceType, cr: Object, template: Object) -> Object:
    """A Pod's template with that; the very one where there is nothing of it, so that no Pod is replaced.

    What the operator sets wins over a label or an annotation of the same name. Spread constraints take the
    place of the template's.
    """
    given = read(cr)
    if not given:
        return template
    metadata, spec = dict(template["metadata"]), dict(template["spec"])
    for name in ("labels", "annotations"):
        if name in given:
            metadata[name] = {**given.pop(name), **(metadata.get(name) or {})}
    selector = {"matchLabels": selector_of(type, cr)}
    if SPREAD in given:
        spec.pop(SPREAD, None)
        constraints = [_selecting(item, selector) for item in given.pop(SPREAD)]
        spec |= {SPREAD: constraints} if constraints else {}
    if "affinity" in given:
        spec["affinity"] = _with_selectors(given.pop("affinity"), selector)
    if ACCOUNT in given:
        # The API server keeps the account under both names. If only one were ours, an apply without it would
        # leave the other, and the account would stay.
        spec[_ACCOUNTS_OLD_NAME] = given[ACCOUNT]
    return {**template, "metadata": metadata, "spec": {**spec, **given}}


def placing(cr: Object, said: str) -> list[str]:
    """The fields that keep a Pod from nodes, where the scheduler found none and says this of it."""
    given = read(cr)
    found = [name for name in ("nodeSelector", "affinity", SPREAD) if given.get(name)]
    if "taint" in said:
        found.append("tolerations")
    return [f"spec.podTemplate.spec.{name}" for name in found]


def _affinity(given: Mapping[str, Any]) -> Object:
    """Without the parts that say nothing, which the API server would not keep."""
    parts = {
        part: {name: value for name, value in (rules or {}).items() if value} for part, rules in given.items()
    }
    return {part: rules for part, rules in parts.items() if rules}


def _with_selectors(affinity: Object, selector: Object) -> Object:
    """With the resource's own Pods wherever a term says not which it means: in Kubernetes that is none."""
    found = dict(affinity)
    for part in ("podAffinity", "podAntiAffinity"):
        rules = dict(found.get(part) or {})
        if _REQUIRED in rules:
            rules[_REQUIRED] = [_selecting(term, selector) for term in rules[_REQUIRED]]
        if _PREFERRED in rules:
            rules[_PREFERRED] = [
                {**item, "podAffinityTerm": _selecting(item["podAffinityTerm"], selector)}
                for item in rules[_PREFERRED]
            ]
        if rules:
            found[part] = rules
    return found


def _selecting(item: Object, selector: Object) -> Object:
    return item if item.get("labelSelector") is not None else {**item, "labelSelector": selector}
