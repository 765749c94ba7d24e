"""What the API server refuses to delete, as ValidatingAdmissionPolicies: pure.

Whoever deletes, with kubectl, by pruning or with a whole namespace, is refused by the same rule. Which kinds
have the field is read from the CRDs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infra.admission import Manifest, Policy, properties_of_spec

FIELD = "deletionProtection"
"""In the spec of the kinds that can be protected."""
LABEL = "kindling.dev/deletion-protection"
"""On the claim of a protected database, by the operator, and on namespaces, by whoever owns them."""
PROTECTED = "true"

# The claim of a database with deletionPolicy Delete goes with its owner, which was not protected any more.
_COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
_WORD = f"kubectl label ' + request.resource.resource + ' ' + oldObject.metadata.name + '%s {LABEL}-"
_IN_NAMESPACE = " -n ' + request.namespace + '"


def policies(crds: Sequence[Manifest], *, definitions: bool) -> list[Policy]:
    """For the resources of these kinds, and what holds their data; with `definitions`, for the CRDs too.

    With a CRD go all its resources, and no policy is asked about those.
    """
    protected = [crd for crd in crds if FIELD in properties_of_spec(crd)]
    found = []
    if protected:
        found.append(Policy("kindling-protected-resources", _resources(protected)))
        found.append(Policy("kindling-protected-data", _labelled()))
    if definitions:
        found.append(Policy("kindling-protected-definitions", _definitions(crds)))
    return found


def _resources(crds: Sequence[Manifest]) -> dict[str, Any]:
    rules = [
        {
            "apiGroups": [crd["spec"]["group"]],
            "apiVersions": [version["name"] for version in crd["spec"]["versions"]],
            "resources": [crd["spec"]["names"]["plural"]],
            "operations": ["DELETE"],
        }
        for crd in crds
    ]
    return _policy(
        {"resourceRules": rules},
        # One that is only a plan has nothing to protect.
        f"!oldObject.?spec.?{FIELD}.orValue(false) || oldObject.?spec.?planFor.hasValue()",
        f"\"spec.{FIELD} 'true' keeps \" + request.kind.kind + ' ' + request.namespace + '/'"
        f' + oldObject.metadata.name + " from being deleted: set it to false first"',
        f"spec.{FIELD} keeps it from being deleted: set it to false first",
    )


def _labelled() -> dict[str, Any]:
    """The claim, whose loss would lose the data; and a namespace, with which claims would go."""
    rules = [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["persistentvolumeclaims", "namespaces"],
            "operations": ["DELETE"],
        }
    ]
    return _policy(
        {"resourceRules": rules, "objectSelector": {"matchLabels": {LABEL: PROTECTED}}},
        f"request.userInfo.username == '{_COLLECTOR}'",
        f"'label {LABEL} keeps ' + request.kind.kind + ' ' + oldObject.metadata.name"
        " + ' from being deleted: '"
        f" + (request.kind.kind == 'Namespace' ? 'remove it first (`{_WORD % ''}`)'"
        f" : 'set spec.{FIELD} of its resource to false first, or without a resource remove the label"
        f" (`{_WORD % _IN_NAMESPACE}`)')",
        f"label {LABEL} keeps it from being deleted: set spec.{FIELD} to false, or remove the label",
    )


def _definitions(crds: Sequence[Manifest]) -> dict[str, Any]:
    rule = {
        "apiGroups": ["apiextensions.k8s.io"],
        "apiVersions": ["v1"],
        "resources": ["customresourcedefinitions"],
        "resourceNames": sorted(str(crd["metadata"]["name"]) for crd in crds),
        "operations": ["DELETE"],
    }
    return _policy(
        {"resourceRules": [rule]},
        "false",
        "'kindling:protect keeps definition ' + oldObject.metadata.name + ' from being deleted, and all its"
        " resources with it: set it to false in the stack and run `python3 -m infra up` first'",
        "kindling:protect keeps the definition from being deleted: set it to false in the stack first",
    )


def _policy(
    constraints: Mapping[str, Any], expression: str, message_expression: str, message: str
) -> dict[str, Any]:
    validation = {
        "expression": expression,
        "messageExpression": message_expression,
        "message": message,  # where the other cannot be made
        "reason": "Forbidden",
    }
    return {"failurePolicy": "Fail", "matchConstraints": constraints, "validations": [validation]}
