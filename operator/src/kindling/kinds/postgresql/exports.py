"""spec.bindingExports: which BindingImport of another namespace may have a copy of which binding.

The copy is the import's child (`kinds.bindingimport`): it is there while both sides say so. Here is what the
giver says, and what its status says of each import.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from kindling.kinds import reasons
from kindling.kinds.base import Observed
from kindling.kinds.conditions import find_condition, is_current
from kindling.kinds.database_types import GROUP, database_type
from kindling.kinds.network import NAMESPACE_LABEL
from kindling.kinds.postgresql import roles
from kindling.kinds.postgresql.secrets import binding_name
from kindling.kube.resources import Object, Ref, ResourceType

BINDING_IMPORT = ResourceType(GROUP, "v1", "BindingImport", "bindingimports")
FIELD = "bindingExports"
LONGEST_MESSAGE = 1024
"""What the CRD admits in an item."""


@dataclass(frozen=True)
class Export:
    """One item: the BindingImport that gets it, and the role whose binding that is; empty: the default
    user's.
    """

    namespace: str
    name: str
    role: str = ""

    @property
    def ref(self) -> Ref:
        return Ref(BINDING_IMPORT, self.namespace, self.name)


def read(cr: Object) -> tuple[Export, ...]:
    """In the order of the spec."""
    return tuple(
        Export(str(item["namespace"]), str(item["name"]), str(item.get("role") or ""))
        for item in (cr.get("spec") or {}).get(FIELD) or ()
    )


def secret_name(database: str, role: str) -> str:
    """The Secret with the binding of a Postgresql of that name: of the default user, or of a role."""
    named: Object = {"metadata": {"name": database}}
    return roles.secret_of(named, role) if role else binding_name(named)


def permits(cr: Object, export: Export) -> bool:
    """Whether this Postgresql gives that import the binding that it asks for, as its spec stands."""
    return export in read(cr) and _has_role(cr, export.role)


def admits(cr: Object, namespace: str) -> bool:
    """Whether spec.allowedFrom may admit Pods of that namespace; of labels that are not its name, nobody
    here knows.
    """
    if namespace == cr["metadata"]["namespace"]:
        return True
    for peer in (cr.get("spec") or {}).get("allowedFrom") or ():
        selector = peer.get("namespaceSelector")
        if selector is not None:
            named = (selector.get("matchLabels") or {}).get(NAMESPACE_LABEL)
            if named in (None, namespace):
                return True
    return False


def status(cr: Object, observed: Observed, *, served: bool, namespaces: Collection[str]) -> Object:
    """status.bindingExports; nothing where the spec has none.

    `served`: the operator knows BindingImports; in these `namespaces` alone, if there are any.
    """
    items = [
        _item(cr, export, observed, served=served and (not namespaces or export.namespace in namespaces))
        for export in read(cr)
    ]
    return {FIELD: items} if items else {}


def _item(cr: Object, export: Export, observed: Observed, *, served: bool) -> Object:
    reason, message = _why(cr, export, observed, served=served)
    item: Object = {
        "namespace": export.namespace,
        "name": export.name,
        "ready": reason == reasons.IMPORTED,
        "reason": reason,
    }
    if export.role:
        item["role"] = export.role
    return {**item, "message": message[:LONGEST_MESSAGE]} if message else item


def _why(cr: Object, export: Export, observed: Observed, *, served: bool) -> tuple[str, str]:
    if not _has_role(cr, export.role):
        return reasons.INVALID_SPEC, (
            f"Nothing is written to namespace {export.namespace}: spec.roles has no role {export.role} with "
            f"`login: true`. Add it, or correct spec.{FIELD}."
        )
    if not served:
        return reasons.NOT_SERVED, (
            f"Nothing is written to namespace {export.namespace}: the operator serves no BindingImports "
            "there. Whoever set it up names the namespace in `kindling:watchNamespaces`, and BindingImport "
            "in `kindling:kinds`."
        )
    found = observed.watched.get(export.ref)
    if found is None or not _asks(found, cr, export):
        return reasons.IMPORT_MISSING, (
            f"Nothing is written to namespace {export.namespace} before its owner consents, by this: "
            f"`echo '{consent(cr, export)}' | kubectl apply -f -`"
        )
    ready = find_condition(found.get("status") or {}, "Ready")
    if ready.get("status") != "True" or not is_current(found):
        words = str(ready.get("message") or "")
        return reasons.BINDING_PENDING, f"{export.ref} is not ready{f': {words}' if words else '; wait.'}"
    if not admits(cr, export.namespace):
        return reasons.IMPORTED, (
            f"The copy does not open the network: add `namespaceSelector: {{matchLabels: "
            f"{{{NAMESPACE_LABEL}: {export.namespace}}}}}` to spec.allowedFrom."
        )
    return reasons.IMPORTED, ""


def consent(cr: Object, export: Export) -> str:
    """The BindingImport that the receiving side creates, as JSON."""
    group = str(cr.get("apiVersion") or GROUP).partition("/")[0]
    meta = cr["metadata"]
    database = {"namespace": meta["namespace"], "name": meta["name"]}
    if group != GROUP:
        database["group"] = group
    return json.dumps(
        {
            "apiVersion": BINDING_IMPORT.api_version,
            "kind": BINDING_IMPORT.kind,
            "metadata": {"namespace": export.namespace, "name": export.name},
            "spec": {"databaseRef": database, **({"role": export.role} if export.role else {})},
        }
    )


def _has_role(cr: Object, name: str) -> bool:
    return not name or any(role.name == name and role.login for role in roles.read(cr))


def asked(found: Object) -> tuple[ResourceType, str, str, str]:
    """What a BindingImport names: type, namespace and name of the Postgresql, and the role."""
    spec = found.get("spec") or {}
    named = spec.get("databaseRef") or {}
    type = database_type(str(named.get("group") or GROUP))
    return type, str(named.get("namespace") or ""), str(named.get("name") or ""), str(spec.get("role") or "")


def _asks(found: Object, cr: Object, export: Export) -> bool:
    type, namespace, name, role = asked(found)
    group = str(cr.get("apiVersion") or GROUP).partition("/")[0]
    meta = cr["metadata"]
    return (type.group, namespace, name, role) == (group, meta["namespace"], meta["name"], export.role)
