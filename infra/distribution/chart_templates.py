"""The templates of the Helm chart, made of renderings in which marks stand for values.

The settings are those of a stack, so the components themselves say where a value goes. What marks cannot
say, which objects and rules there are for which kinds and namespaces, is found by comparing renderings.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra import admission
from infra.distribution import rendering, variants, yaml_writer
from infra.distribution.rendering import Request
from infra.distribution.variants import Places
from infra.distribution.yaml_writer import Block, Either, Text, Value, When, With
from infra.manifests import Manifest
from infra.project import OPERATOR_NAMESPACE
from infra.settings import CLUSTER_WIDE, NAMESPACES, validators

VALUES = "$.Values"
HELPERS = """\
{{- define "kindling.pullSecrets" -}}
{{- range $i, $secret := $.Values.imagePullSecrets }}{{ if $i }},{{ end }}{{ $secret.name }}{{ end }}
{{- end }}
"""
PLACE = "marked-place"
"""A namespace that is served."""
_PLACES = "MARKED-PLACES"
KEEP = {"helm.sh/resource-policy": "keep"}
"""Helm's mark of what an uninstall leaves: with a definition all of its resources would go."""
_POD = f"{VALUES}.operatorPod"
_PULL_SECRET = "marked-pull-secret"
_IMAGE, _DIGEST = "marked-image-", f"@sha256:{'0' * 64}"
_REPLICAS = 987654321


@dataclass(frozen=True)
class _Mark:
    """What stands for a mark: an expression, and the condition under which its entry is there at all."""

    expression: str
    when: str = ""


_TEXTS = {
    "MARKED-LOG-LEVEL": _Mark(f"upper {VALUES}.logLevel"),
    _PLACES: _Mark(f'join "," {VALUES}.watchNamespaces', when=f"{VALUES}.watchNamespaces"),
    "MARKED-KINDS": _Mark(f'join "," {VALUES}.kinds', when=f"{VALUES}.kinds"),
    "MARKED-PRIORITY": _Mark(f"{_POD}.priorityClassName", when=f"{_POD}.priorityClassName"),
    _PULL_SECRET: _Mark('include "kindling.pullSecrets" $', when=f"{VALUES}.imagePullSecrets"),
    PLACE: _Mark("."),
    OPERATOR_NAMESPACE: _Mark("$.Release.Namespace"),
    # What Helm would read as the beginning of an expression.
    "{{": _Mark('"{{"'),
}
# Of the operator's environment, by the name: what is a list there.
_LISTS = {"KINDLING_WATCH_NAMESPACES": _PLACES, "KINDLING_KINDS": "MARKED-KINDS"}


def marked_images(names: Sequence[str]) -> dict[str, str]:
    """A mark for each image, by digest as the policies ask for it."""
    return {name: f"{_IMAGE}{name}{_DIGEST}" for name in names}


def _marked_pod() -> dict[str, Any]:
    """A mark for all that a stack may say of the operator's Pods, by the shapes that it has."""
    pod: dict[str, Any] = {}
    for name in validators.OPERATOR_POD:
        if name == "resources":
            pod[name] = {
                # The policies ask for these two.
                container: {
                    part: {f"MARKED-{container}.{part}": "", "cpu": "1", "memory": "1"}
                    for part in ("requests", "limits")
                }
                for container in validators.CONTAINERS
            }
        elif name == "priorityClassName":
            pod[name] = "MARKED-PRIORITY"
        elif name != "imagePullSecrets":  # They stand in for those of all Pods, which have a mark.
            pod[name] = [{f"MARKED-{name}": ""}] if name in ("tolerations", "env") else {f"MARKED-{name}": ""}
    return pod


def requests(kinds: Sequence[str], images: Sequence[str]) -> dict[tuple[str, variants.Kinds], Request]:
    """What is to be rendered, by scope and kinds: all kinds, each alone, each two."""
    some = [kinds, *itertools.combinations(kinds, 1), *itertools.combinations(kinds, 2)]
    return {
        (scope, frozenset(served)): Request(
            rendering.default_operator(
                replicas=_REPLICAS,
                log_level="MARKED-LOG-LEVEL",
                watch_namespaces=() if scope == CLUSTER_WIDE else (PLACE,),
                scope=scope,
                # As most have it: none named, which means all.
                kinds=() if len(served) == len(kinds) else tuple(served),
                pod=_marked_pod(),
            ),
            marked_images(images),
            (_PULL_SECRET,),
        )
        for scope in (CLUSTER_WIDE, NAMESPACES)
        for served in some
    }


def templates(rendered: Mapping[tuple[str, variants.Kinds], Sequence[Manifest]]) -> dict[str, str]:
    """The chart's templates by file name, of the renderings of `requests`."""
    wide, narrow = (
        variants.of_kinds(
            {kinds: _by_key(objects) for (of, kinds), objects in rendered.items() if of == scope}, served
        )
        for scope in (CLUSTER_WIDE, NAMESPACES)
    )
    places = Places(over=_places(), mark=PLACE, listed=_PLACES)
    files: dict[str, str] = {}
    for key in dict.fromkeys([*wide, *narrow]):
        if key in wide and key in narrow:
            found = places.of(wide[key], narrow[key])
            conditions = []
        else:
            scope = CLUSTER_WIDE if key in wide else NAMESPACES
            found, conditions = (wide | narrow)[key], [f'if eq {VALUES}.scope "{scope}"']
        if isinstance(found, When):
            conditions.append(f"if {found.condition}")
            found = found.value
        if found["kind"] == "Namespace":
            # Helm keeps its own record in there, so that it has to be there before the chart's objects are.
            continue
        if found["kind"] == "CustomResourceDefinition":
            conditions.insert(0, f"if {VALUES}.crds.enabled")
            metadata = found["metadata"]
            annotations = {**metadata.get("annotations", {}), **KEEP}
            found = {**found, "metadata": {**metadata, "annotations": annotations}}
        if found["metadata"].get("namespace") == PLACE:
            conditions.append(f"range {VALUES}.watchNamespaces")
        name = f"{found['kind'].lower()}.yaml"
        files[name] = files.get(name, "") + _document(_marked(found), conditions)
    return files


def served(kinds: Sequence[str]) -> str:
    """The condition that one of these kinds is served; none named in the values means all."""
    return " ".join(["or", f"(not {VALUES}.kinds)", *(f'(has "{kind}" {VALUES}.kinds)' for kind in kinds)])


def _places() -> str:
    """The namespaces for which the right to get a Pod is asked one by one."""
    few = f"le (len {VALUES}.watchNamespaces) {admission.NAMESPACES}"
    return f"(ternary {VALUES}.watchNamespaces list ({few}))"


def document(found: Manifest, conditions: Sequence[str]) -> str:
    """A template of one object, which is there under the conditions; what stands for a value becomes one."""
    return _document(_marked(found), conditions)


def _document(found: Any, conditions: Sequence[str]) -> str:
    before = "".join(f"{{{{- {condition} }}}}\n" for condition in conditions)
    return f"{before}---\n{yaml_writer.document(found)}" + "{{- end }}\n" * len(conditions)


def _by_key(objects: Sequence[Manifest]) -> dict[str, Manifest]:
    return {" ".join(rendering.key(found)): _with_lists(found) for found in objects}


def _with_lists(value: Any) -> Any:
    """With marks in place of the lists in the operator's environment, which differ with the rendering."""
    if isinstance(value, dict):
        if value.keys() == {"name", "value"} and value["name"] in _LISTS:
            return {**value, "value": _LISTS[value["name"]]}
        return {name: _with_lists(item) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    items = [_with_lists(item) for item in value if item != {**_named(item), "name": "KINDLING_KINDS"}]
    names = [_named(item).get("name") for item in items]
    if "KINDLING_PROBER" in names:
        # Where the operator's Pod has it, if kinds are named.
        items.insert(names.index("KINDLING_PROBER"), {"name": "KINDLING_KINDS", "value": "MARKED-KINDS"})
    return items


def _named(item: Any) -> dict[str, Any]:
    return item if isinstance(item, dict) else {}


def _marked(value: Any) -> Any:
    """With expressions in place of the marks."""
    if isinstance(value, When):
        return When(value.condition, _marked(value.value))
    if isinstance(value, Either):
        each, otherwise = (tuple(map(_marked, items)) for items in (value.each, value.otherwise))
        return Either(value.over, each, otherwise)
    if isinstance(value, dict):
        return _marked_mapping(value)
    if isinstance(value, list):
        if value == [{"name": _PULL_SECRET}]:
            return Block(f"({_POD}.imagePullSecrets | default {VALUES}.imagePullSecrets)")
        if len(value) == 1 and isinstance(value[0], dict) and (block := _block(value[0])):
            return Block(block)
        return [_marked(item) for item in value]
    if value == _REPLICAS and not isinstance(value, bool):
        return Value(f"{VALUES}.replicas")
    return _marked_text(value) if isinstance(value, str) else value


def _marked_mapping(value: dict[str, Any]) -> Any:
    if block := _block(value):
        rest = {name: item for name, item in value.items() if not name.startswith("MARKED-")}
        if not rest or block.startswith(f"{_POD}.resources."):
            return Block(block)
        ours = " ".join(f'"{name}"' for name in rest)
        return With(f"omit {block} {ours}", _marked(rest))
    entries = {name: _marked(item) for name, item in value.items()}
    conditions = {name: _TEXTS[item].when for name, item in value.items() if _is_mark(item)}
    if entries.keys() == {"name", "value"} and conditions.get("value"):
        return When(conditions["value"], entries)
    return {
        name: When(conditions[name], item) if conditions.get(name) else item for name, item in entries.items()
    }


def _block(value: Mapping[str, Any]) -> str:
    """The expression of a mapping that has the mark of one, else nothing."""
    marks = [name for name in value if name.startswith("MARKED-")]
    if not marks:
        return ""
    path = marks[0].removeprefix("MARKED-")
    return f"{_POD}.{path}" if path in validators.OPERATOR_POD else f"{_POD}.resources.{path}"


def _is_mark(value: Any) -> bool:
    return isinstance(value, str) and value in _TEXTS


def _marked_text(value: str) -> str | Text:
    found = {mark: known.expression for mark, known in _TEXTS.items() if mark in value}
    found |= dict(_images(value))
    return Text(value, found) if found else value


def _images(value: str) -> Iterator[tuple[str, str]]:
    if value.startswith(_IMAGE):
        yield value, f'index {VALUES}.images "{value.removeprefix(_IMAGE).removesuffix(_DIGEST)}"'
