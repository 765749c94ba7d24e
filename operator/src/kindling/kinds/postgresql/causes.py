"""Which fields of the spec a change of a child comes from: by the child's own fields, once they differ.

A field that none of the spec decides (the operator's version, another writer's edit) has no entry here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kindling.kinds import exporter, pod_template, server_tls
from kindling.kinds.base import Observed
from kindling.kinds.planned import CREATE, Change, Path
from kindling.kinds.postgresql import (
    approval,
    archiver,
    client_certificates,
    config,
    defaults,
    growth,
    hba,
    hibernation,
    idle,
    observation,
    parameters,
    password,
    roles,
    secrets,
    server_log,
    tls,
    updates,
    volume,
)
from kindling.kinds.postgresql.initdb import PARAMETERS
from kindling.kinds.postgresql.spec import is_ephemeral
from kindling.kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    NETWORK_POLICY,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    VOLUME_CLAIM,
    Object,
)

SIZE, MEMORY, TLS = "spec.storage.size", "spec.resources.limits.memory", "spec.tls"
HBA, ROLES = f"spec.{hba.FIELD}", "spec.roles"
_WAL = "max_wal_size"
_POD_FIELDS = ("nodeSelector", "affinity", "tolerations", "priorityClassName", pod_template.SPREAD)
_PARTITION = ("spec", "updateStrategy", "rollingUpdate", "partition")
_ACCOUNT = ("serviceAccountName", "serviceAccount")


def causes(cr: Object, observed: Observed, change: Change) -> list[str]:
    """The fields, sorted; none of another writer's doing. A new child has one where it is a role's Secret."""
    if change.drift:
        return []
    if change.action == CREATE:
        return _of_a_role(cr, change) if change.ref.type == SECRET else []
    found: Iterable[str] = ()
    if change.ref.type == STATEFUL_SET and asks(change):
        found = _workload(cr, observed, change)
    elif change.ref.type == STATEFUL_SET:
        found = _outside_of_the_template(cr, observed, change)
    elif change.ref.type == VOLUME_CLAIM:
        found = _claim(cr, observed, change)
    elif change.ref.type == CONFIG_MAP:
        found = of_parameters(cr, observed, parameters_that_differ(cr, observed))
        found = {*found, *_of_the_rules(cr, observed)} if ("data", config.HBA_FILE) in change.paths else found
    elif change.ref.type == DEPLOYMENT:
        found = _activator(change)
    elif change.ref.type == SERVICE:
        found = _service(change)
    elif change.ref.type == NETWORK_POLICY and any("ingress" in path for path in change.fields):
        found = [exporter.FIELD if _exporter_differs(cr, observed) else "spec.allowedFrom"]
    elif change.ref.type == SECRET:
        found = _secret(cr, change)
    return sorted(set(found))


def asks(change: Change) -> bool:
    """Whether what the spec says about the Pod is another, by the StatefulSet's own note.

    For an edit that waits for an approval the note stays, and a partition keeps the Pod.
    """
    waits = approval.PATH in change.paths and _PARTITION in change.paths
    return waits or ("metadata", "annotations", updates.SPEC_HASH) in change.paths


def replaces_pod(change: Change) -> bool:
    """Whether the Pod is made in another way, of which a field that has left may be all that shows."""
    return change.template or ("metadata", "annotations", updates.TEMPLATE) in change.paths


def parameters_that_differ(cr: Object, observed: Observed) -> set[str]:
    """Those that the next start would have in another way than the ConfigMap says."""
    present = _read(((observed.objects.get(config.ref_of(cr)) or {}).get("data") or {}).get(PARAMETERS) or "")
    wanted = _read(parameters.conf(config.values(cr, observed)))
    return {name for name in {*present, *wanted} if present.get(name) != wanted.get(name)}


def of_parameters(cr: Object, observed: Observed, names: Collection[str]) -> set[str]:
    """The fields that decide these: their own; or the memory if all that follows from it is another; or the
    size, which counts until the volume has one.
    """
    given = parameters.read(cr)
    follow = {name for name, field in defaults.FROM.items() if field == MEMORY and name not in given}
    other = {name for name in names if name not in archiver.PARAMETERS}
    found: set[str] = set()
    if client_certificates.PARAMETER in other:
        found, other = _certified(cr, observed) or {ROLES}, other - {client_certificates.PARAMETER}
    if follow and follow <= other:
        found, other = {*found, MEMORY}, other - follow
    if _WAL in other - given.keys() and volume.capacity(cr, observed) is None:
        found, other = {*found, SIZE}, other - {_WAL}
    return {*found, *(f"spec.parameters.{name}" for name in other)}


def rules_differ(cr: Object, observed: Observed) -> bool:
    """Whether the ConfigMap has other rules than the spec: lines, or who has to show a certificate."""
    return bool(_of_the_spec(cr, observed))


def _of_the_rules(cr: Object, observed: Observed) -> set[str]:
    found = _of_the_spec(cr, observed)
    if hba.demands_tls(_rules(cr, observed)) is not tls.is_required(cr):
        found.add(TLS)
    return found or {exporter.FIELD}


def _of_the_spec(cr: Object, observed: Observed) -> set[str]:
    found = {HBA} if hba.lines_of(_rules(cr, observed)) != list(hba.read(cr)) else set()
    return {*found, *_certified(cr, observed)}


def _certified(cr: Object, observed: Observed) -> set[str]:
    """The roles of which spec and ConfigMap do not say the same about a certificate."""
    before, after = hba.certified_in(_rules(cr, observed)), client_certificates.methods(cr)
    return {roles.path_of(name) for name in {*before, *after} if before.get(name) != after.get(name)}


def _rules(cr: Object, observed: Observed) -> str:
    data = (observed.objects.get(config.ref_of(cr)) or {}).get("data") or {}
    return str(data.get(config.HBA_FILE) or "")


def _read(conf: str) -> dict[str, str]:
    lines = [line.partition(" = ") for line in conf.splitlines() if not line.startswith("#")]
    return {name: value for name, equals, value in lines if equals}


def _exporter_differs(cr: Object, observed: Observed) -> bool:
    """Whether the StatefulSet has an exporter and the spec has none, or the other way round."""
    containers = (_template(cr, observed).get("spec") or {}).get("containers") or ()
    present = any(item.get("name") == exporter.NAME for item in containers)
    return present is not exporter.is_enabled(cr)


def _template(cr: Object, observed: Observed) -> Object:
    found: Object = ((observation.find_workload(cr, observed) or {}).get("spec") or {}).get("template") or {}
    return found


def _workload(cr: Object, observed: Observed, change: Change) -> list[str]:
    found = _outside_of_the_template(cr, observed, change) if ("spec", "replicas") in change.paths else []
    sets_shutdown = (cr.get("spec") or {}).get("shutdownSeconds") is not None
    for path in change.fields:
        inside = path[2:]
        if path[:2] != ("spec", "template"):
            continue
        if exporter.NAME in inside:
            found.append(exporter.FIELD)
        elif "resources" in inside:
            found.append("spec.resources")
        elif inside[-1:] == ("image",) and "install" not in inside:
            found.append("spec.image")
        elif inside[:2] == ("spec", "terminationGracePeriodSeconds") and sets_shutdown:
            found.append("spec.shutdownSeconds")
        elif "emptyDir" in inside and is_ephemeral(cr):
            found.append(SIZE)
        elif inside == ("metadata", "annotations", server_tls.ANNOTATION):
            found.append(TLS)
        elif inside[:2] == ("metadata", "annotations") and inside[-1].startswith("kindling.dev/"):
            continue
        else:
            found += _of_the_pod(inside)
    if not sets_shutdown and any("terminationGracePeriodSeconds" in path for path in change.paths):
        # Without the field it follows from the memory: if that is the same, the field has been taken out.
        found += [] if "spec.resources" in found else ["spec.shutdownSeconds"]
    if _exporter_differs(cr, observed):
        found.append(exporter.FIELD)
    if server_log.differs(cr, _template(cr, observed)):
        found.append(server_log.FORMAT)
    waited = approval.noted(observation.find_workload(cr, observed)) is not None
    if not found and waited and not approval.is_required(cr, updates.restart_disruption(cr)):
        return [approval.FIELD]  # all that has changed since the edit that waits
    if not found and replaces_pod(change):
        return ["spec.podTemplate"]
    return found


def _of_the_pod(inside: Path) -> list[str]:
    if inside[:1] == ("metadata",) and len(inside) > 1:
        return [f"spec.podTemplate.metadata.{inside[1]}"]
    name = inside[1] if inside[:1] == ("spec",) and len(inside) > 1 else ""
    if name in _ACCOUNT:
        return [f"spec.podTemplate.spec.{_ACCOUNT[0]}"]
    if name == "imagePullSecrets":
        return ["spec.imagePullSecrets"]
    return [f"spec.podTemplate.spec.{name}"] if name in _POD_FIELDS else []


def _outside_of_the_template(cr: Object, observed: Observed, change: Change) -> list[str]:
    found = [hibernation.field(cr, observed.now)] if ("spec", "replicas") in change.paths else []
    held = any(path[:2] == ("spec", "updateStrategy") for path in change.fields)
    return [*found, "spec.updates"] if held and not replaces_pod(change) and not asks(change) else found


def _claim(cr: Object, observed: Observed, change: Change) -> list[str]:
    found = []
    for path in change.fields:
        if path[:3] == ("spec", "resources", "requests"):
            grown = growth.size(cr, observed) != volume.size_to_ask(cr, observed)
            found.append(growth.FIELD if grown else SIZE)
        elif path[:2] == ("metadata", "ownerReferences"):
            found.append("spec.deletionPolicy")
        elif path[-1:] == (volume.PROTECTION_LABEL,):
            found.append("spec.deletionProtection")
        elif path[-1:] == (volume.VERSION_LABEL,):
            # Of another image than the operator's, only spec.version says what is in it.
            found.append("spec.version" if (cr.get("spec") or {}).get("version") else "spec.image")
    return found


def _activator(change: Change) -> list[str]:
    found = [cause for path in change.fields for cause in _of_the_pod(path[2:])]
    return [*found, idle.WAKE_PATH] if ("spec", "replicas") in change.paths else found


def _service(change: Change) -> list[str]:
    if any("publishNotReadyAddresses" in path for path in change.fields):
        return [idle.WAKE_PATH]
    return [
        f"spec.serviceTemplate.{path[0]}.{path[1]}"
        for path in change.fields
        if len(path) > 1 and path[1] not in ("ports", "selector", "ownerReferences")
    ]


def _secret(cr: Object, change: Change) -> list[str]:
    if change.ref.name == secrets.binding_name(cr):
        keys = {path[1] for path in change.fields if len(path) > 1}
        found = [TLS] if keys & {"sslmode", server_tls.AUTHORITY} else []
        return found if found and "password" not in keys else [*password_fields(cr), *found]
    return _of_a_role(cr, change)


def _of_a_role(cr: Object, change: Change) -> list[str]:
    names = {roles.secret_name(cr, role): role.name for role in roles.read(cr)}
    return [roles.path_of(names[change.ref.name])] if change.ref.name in names else []


def password_fields(cr: Object) -> list[str]:
    """Where the default user's password comes from."""
    if password.is_plain(cr):
        return ["spec.password"]
    return ["spec.passwordSecretRef"] if password.reference(cr) is not None else []
