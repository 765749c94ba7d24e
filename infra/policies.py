"""What no resource of a stack may be, whoever wrote it: judged from its properties alone.

Pure, and apart from `policy_enforcement`, which asks at each registration: so every rule is a test of a few
lines. A preview knows not every value; what is not known yet is judged when it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

Props = Mapping[str, Any]


class Unknown(Enum):
    """The value of what another resource has still to compute."""

    UNKNOWN = "known later"


UNKNOWN: Final = Unknown.UNKNOWN


class Secret(str):
    """A secret: judged, never shown."""


@dataclass(frozen=True)
class Violation:
    """A value that a rule forbids: `field` is its path in the resource, None means that it is not set."""

    type: str
    name: str
    field: str
    value: Any
    remedy: str

    def __str__(self) -> str:
        state = "is not set" if self.value is None else f"cannot be `{_shown(self.value)}`"
        return f"{self.type} `{self.name}`: {self.field} {state}\n  remedy: {self.remedy}"

    @property
    def without_value(self) -> str:
        """The same where it is not known whether the value is a secret."""
        state = "is not set" if self.value is None else "has a value that is not allowed"
        return f"{self.field} {state}; {self.remedy}"


def concern(type: str) -> bool:
    """Whether any rule is about resources of this type token; the properties of others need not be read."""
    return type.startswith("kubernetes:") and type.rpartition(":")[2] in _RULES


def violations(type: str, name: str, props: Props) -> list[Violation]:
    """All that is wrong with a resource of this type token, of Kubernetes or not; nothing is raised."""
    if not concern(type):
        return []
    found = _RULES[type.rpartition(":")[2]](props)
    return [Violation(type, name, field, value, remedy) for field, value, remedy in found]


# Field, value, remedy.
_Fault = tuple[str, Any, str]

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def _pod(spec: Any, path: str) -> Iterator[_Fault]:
    if not isinstance(spec, Mapping):
        return
    yield from _host(spec, path)
    for group in _CONTAINERS:
        for place, container in _each(spec, group, path):
            yield from _image(container.get("image"), f"{place}.image")
            if group != "ephemeralContainers":  # These can have none.
                yield from _resources(container, place)
            yield from _container_security(container, place)
            yield from _either(spec, container, path, place)
    for place, volume in _each(spec, "volumes", path):
        if "image" in volume:
            yield from _image(_at(volume, "image", "reference"), f"{place}.image.reference")


def _image(image: Any, field: str) -> Iterator[_Fault]:
    """Tags other than `latest` are taken on trust; no tag means `latest`."""
    if image is UNKNOWN or (isinstance(image, str) and "@sha256:" in image):
        return
    tag = str(image).rpartition("/")[2].partition(":")[2] if image else ""
    if tag in ("", "latest"):
        yield field, image or None, "name a tag that means one content, or a digest (@sha256:...)."


def _resources(container: Props, path: str) -> Iterator[_Fault]:
    for which in ("requests", "limits"):
        for resource in ("cpu", "memory"):
            value = _at(container, "resources", which, resource)
            if value is None or str(value) in ("", "0"):
                remedy = f"say how much {resource} it {'is sure of' if which == 'requests' else 'may take'}."
                yield f"{path}.resources.{which}.{resource}", value, remedy


def _host(spec: Props, path: str) -> Iterator[_Fault]:
    remedy = "a Pod has namespaces of its own: leave it out."
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field) is True:
            yield f"{path}.{field}", True, remedy
    for place, volume in _each(spec, "volumes", path):
        if volume.get("hostPath") is not None and volume["hostPath"] is not UNKNOWN:
            value = _at(volume, "hostPath", "path")
            yield f"{place}.hostPath", value, "use a volume claim or an emptyDir."
    for group in _CONTAINERS:
        for place, container in _each(spec, group, path):
            for port_place, port in _each(container, "ports", place):
                if port.get("hostPort") not in (None, 0, UNKNOWN):
                    remedy = "reach it through a Service: leave it out."
                    yield f"{port_place}.hostPort", port["hostPort"], remedy


def _container_security(container: Props, path: str) -> Iterator[_Fault]:
    """What the restricted pod security standard asks of each container for itself."""
    context = f"{path}.securityContext"
    privileged = _at(container, "securityContext", "privileged")
    if privileged is True:
        yield f"{context}.privileged", True, "leave it out: it is the node's root."
    escalation = _at(container, "securityContext", "allowPrivilegeEscalation")
    if escalation not in (False, UNKNOWN):
        yield f"{context}.allowPrivilegeEscalation", escalation, "set it to false."
    capabilities = _at(container, "securityContext", "capabilities")
    drop = _at(capabilities, "drop")
    if drop is not UNKNOWN and not {"ALL", UNKNOWN} & set(_entries(drop)):
        yield f"{context}.capabilities.drop", drop, "drop ALL."
    for added in _entries(_at(capabilities, "add")):
        if added not in ("NET_BIND_SERVICE", UNKNOWN):
            remedy = "leave it out; NET_BIND_SERVICE alone may be added."
            yield f"{context}.capabilities.add", added, remedy


def _either(spec: Props, container: Props, path: str, place: str) -> Iterator[_Fault]:
    """What a container has of its own or, where it says nothing, of its Pod."""
    non_root = _at(container, "securityContext", "runAsNonRoot")
    where = place
    if non_root is None:
        non_root, where = _at(spec, "securityContext", "runAsNonRoot"), path
    if non_root not in (True, UNKNOWN):
        yield f"{where}.securityContext.runAsNonRoot", non_root, "set it to true, and run as another user."
    for owner, where in ((spec, path), (container, place)):
        user = _at(owner, "securityContext", "runAsUser")
        if user == 0 and user is not False:
            yield f"{where}.securityContext.runAsUser", user, "any user but 0, which is root."
    profile, where = _at(container, "securityContext", "seccompProfile", "type"), place
    if profile is None:
        profile, where = _at(spec, "securityContext", "seccompProfile", "type"), path
    if profile not in ("RuntimeDefault", "Localhost", UNKNOWN):
        yield f"{where}.securityContext.seccompProfile.type", profile, "set it to RuntimeDefault."


def _rules(props: Props) -> Iterator[_Fault]:
    for place, rule in _each(props, "rules", ""):
        for field in ("apiGroups", "resources", "verbs", "nonResourceURLs"):
            for entry in _entries(rule.get(field)):
                if isinstance(entry, str) and "*" in entry:
                    remedy = "name each that is needed: a wildcard also grants what comes later."
                    yield f"{place}.{field}", entry, remedy


def _binding(props: Props) -> Iterator[_Fault]:
    if _at(props, "roleRef", "name") == "cluster-admin":
        yield "roleRef.name", "cluster-admin", "bind a role that names what is needed."


def _admission(props: Props) -> Iterator[_Fault]:
    failure = _at(props, "spec", "failurePolicy")
    if failure not in (None, "Fail", UNKNOWN):
        yield "spec.failurePolicy", failure, "set it to Fail: what cannot be judged is refused."


def _enforcement(props: Props) -> Iterator[_Fault]:
    actions = _at(props, "spec", "validationActions")
    if actions is not UNKNOWN and not {"Deny", UNKNOWN} & set(_entries(actions)):
        yield "spec.validationActions", actions, "add Deny: else the policy only warns."


def _at(value: Any, *keys: str) -> Any:
    """The value at the path: None where there is none, UNKNOWN where it is not known yet."""
    for key in keys:
        if value is UNKNOWN:
            return UNKNOWN
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _entries(value: Any) -> list[Any]:
    """A list's entries that can be compared; nothing of what is no list."""
    return [entry for entry in value if isinstance(entry, str | Unknown)] if isinstance(value, list) else []


def _each(owner: Props, field: str, path: str) -> Iterator[tuple[str, Props]]:
    """The known mappings of a list, each with its place; a name says more than a number."""
    entries = owner.get(field)
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, Mapping):
            name = entry.get("name")
            label = name if isinstance(name, str) else str(index)
            yield f"{path}.{field}[{label}]".lstrip("."), entry


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "[]"
    return "[secret]" if isinstance(value, Secret) else str(value)


def _pods(path: str) -> Callable[[Props], Iterator[_Fault]]:
    return lambda props: _pod(_at(props, *path.split(".")), path)


_WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job")
_RULES: Mapping[str, Callable[[Props], Iterator[_Fault]]] = {
    "Pod": _pods("spec"),
    "PodTemplate": _pods("template.spec"),
    **dict.fromkeys(_WORKLOADS, _pods("spec.template.spec")),
    "CronJob": _pods("spec.jobTemplate.spec.template.spec"),
    **dict.fromkeys(("Role", "ClusterRole"), _rules),
    **dict.fromkeys(("RoleBinding", "ClusterRoleBinding"), _binding),
    "ValidatingAdmissionPolicy": _admission,
    "ValidatingAdmissionPolicyBinding": _enforcement,
}
"""By the last part of a type token, which is the kind in every version of its group."""
