"""A custom resource of a component: its spec from flat inputs, checked, declared, and waited for.

Apart from the components, which know their inputs and outputs, because all of them do this alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pulumi
from pulumi.runtime import rpc
from pulumi_kubernetes.apiextensions import CustomResource

from infra import manifests
from infra.manifests import Manifest
from infra.package import rules

NAMES = {
    "type": "string",
    "minLength": 1,
    "maxLength": 253,
    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
}
"""What Kubernetes takes as the name of an object; some kinds take less, as the API server says."""
NAMESPACES = {
    "type": "string",
    "minLength": 1,
    "maxLength": 63,
    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
}
LABELS = {"type": "object", "additionalProperties": {"type": "string"}}
SECONDS = 600
MOST_SECONDS = 86400
SECRET_FIELDS = ("password",)
"""Fields of a spec that are secrets for Pulumi, which encrypts them in its state."""


class Kind:
    """A kind by its definition, and the `fields` of its spec that are inputs of their own, by the input."""

    def __init__(self, group: str, kind: str, fields: Mapping[str, str]) -> None:
        self.group, self.kind, self.fields = group, kind, fields

    @cached_property
    def definition(self) -> Manifest:
        """The definition under crds/."""
        (found,) = [one for one in manifests.definitions([self.kind]) if one["spec"]["group"] == self.group]
        return found

    @cached_property
    def version(self) -> Mapping[str, Any]:
        """The newest, which stands first."""
        found: Mapping[str, Any] = self.definition["spec"]["versions"][0]
        return found

    @property
    def schema(self) -> Mapping[str, Any]:
        """That of a spec."""
        found: Mapping[str, Any] = self.version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        return found

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version['name']}"

    def input_of(self, path: str) -> str:
        """The input that holds a path of the spec."""
        flat = {field: name for name, field in self.fields.items()}
        return pulumi_name(flat[path]) if path in flat else f"spec.{path}" if path else "spec"


@dataclass(frozen=True)
class Declared:
    """What components return of a resource: outputs of what Pulumi has waited for."""

    name: pulumi.Output[str]
    namespace: pulumi.Output[str]
    _spec: dict[str, Any]

    @property
    def host(self) -> pulumi.Output[str]:
        """That of the Service of the same name, from every namespace of the cluster."""
        return pulumi.Output.concat(self.name, ".", self.namespace, ".svc")

    def has(self, path: str) -> bool:
        """Whether the spec has the field."""
        return self._at(path) is not None

    def is_on(self, path: str) -> bool:
        """Whether the field is true; one that Pulumi computes is not."""
        return self._at(path) is True

    def field(self, path: str, default: Any) -> pulumi.Output[Any]:
        """A field of the spec, or what it is when left out; known as the name is."""
        value = default if self._at(path) is None else self._at(path)
        return pulumi.Output.all(self.name, value).apply(lambda found: found[1])

    def _at(self, path: str) -> Any:
        place: Any = self._spec
        for part in path.split("."):
            place = place.get(part) if isinstance(place, dict) else None
        return place


def declare(kind: Kind, name: str, args: Mapping[str, Any], *, parent: pulumi.Resource) -> Declared:
    """The custom resource of a component that is called `name` in the program.

    Unless `wait_for_ready` is false, what depends on it goes on once its condition Ready is true.

    :raises pulumi.InputPropertyError: for the first input that the definition refuses; InputPropertiesError
        where its value must not be shown
    """
    given = args.get("name")
    metadata: dict[str, Any] = {"name": name if given is None else given}
    _check("name (the name in the program)" if given is None else "name", NAMES, metadata["name"])
    for key, schema in (("namespace", NAMESPACES), ("labels", LABELS)):
        if args.get(key) is not None:
            metadata[key] = args[key]
            _check(key, schema, args[key])
    if args.get("wait_for_ready") is not False:
        metadata["annotations"] = {manifests.WAIT_FOR: "condition=Ready"}
    seconds = SECONDS if args.get("timeout_seconds") is None else args["timeout_seconds"]
    _check("timeoutSeconds", {"type": "integer", "minimum": 1, "maximum": MOST_SECONDS}, seconds)
    duration = f"{int(seconds)}s"
    spec = spec_of(kind, args)
    resource: Any = CustomResource(
        name,
        api_version=kind.api_version,
        kind=kind.kind,
        metadata=metadata,
        spec=_checked_spec(kind, spec),
        opts=pulumi.ResourceOptions(
            parent=parent, custom_timeouts=pulumi.CustomTimeouts(create=duration, update=duration)
        ),
    )
    return Declared(
        resource.metadata.apply(lambda meta: str(meta["name"])),
        # The provider fills it in, unless it asks no cluster.
        resource.metadata.apply(lambda meta: str(meta.get("namespace") or "default")),
        spec,
    )


def spec_of(kind: Kind, args: Mapping[str, Any]) -> dict[str, Any]:
    """The input `spec` with every other input at its place in it.

    :raises pulumi.InputPropertyError: where both say something of one field
    """
    given = args.get("spec")
    if isinstance(given, pulumi.Output):
        reason = "cannot be computed as a whole: set it to an object, whose fields can be computed"
        raise pulumi.InputPropertyError("spec", reason)
    spec: dict[str, Any] = _copied(given or {})
    for name, field in kind.fields.items():
        if args.get(name) is None:
            continue
        *above, last = field.split(".")
        place = spec
        for part in above:
            place = place.setdefault(part, {})
            if not isinstance(place, dict):
                break
        if not isinstance(place, dict) or last in place:
            reason = f"cannot be set together with spec.{field}: set only one of them"
            raise pulumi.InputPropertyError(pulumi_name(name), reason)
        place[last] = args[name]
    return spec


def _copied(spec: Any) -> Any:
    return {key: _copied(value) for key, value in spec.items()} if isinstance(spec, dict) else spec


def _checked_spec(kind: Kind, spec: dict[str, Any]) -> Any:
    """The spec itself where all of it is known, else an Output that fails once a value turns out wrong."""
    secret = {
        key: pulumi.Output.secret(value) if key in SECRET_FIELDS else value for key, value in spec.items()
    }
    if not _computed(spec):
        _raise_first(kind, spec, hidden=False)
        return secret

    def checked(known: dict[str, Any]) -> dict[str, Any]:
        # A computed value may be a secret.
        _raise_first(kind, known, hidden=True)
        return known

    return pulumi.Output.from_input(secret).apply(checked)


def _raise_first(kind: Kind, spec: dict[str, Any], *, hidden: bool) -> None:
    for problem in rules.problems(kind.schema, spec):
        name, text = kind.input_of(problem.path), f"{problem.text(hidden=hidden)}: {problem.remedy}"
        if hidden or problem.secret:
            # Of a property that an error is about, Pulumi prints the value.
            raise pulumi.InputPropertiesError(f"{name} {text}")
        raise pulumi.InputPropertyError(name, text)


def _check(name: str, schema: Mapping[str, Any], value: Any) -> None:
    """An input that is no part of the spec; what is computed is left to the API server."""
    if _computed(value):
        return
    for problem in rules.problems(schema, value):
        place = f"{name}.{problem.path}" if problem.path else name
        raise pulumi.InputPropertyError(place, f"{problem.text()}: {problem.remedy}")


def _computed(value: Any) -> bool:
    """Whether a value, or one in it, is known later, or was computed."""
    if isinstance(value, Mapping):
        return any(map(_computed, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_computed, value))
    return isinstance(value, pulumi.Output) or rpc.contains_unknowns(value)


def pulumi_name(name: str) -> str:
    """An input's name in programs: `storage_size` is storageSize."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)
