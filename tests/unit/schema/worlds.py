"""What a kind may meet: resources drawn from its CRD, and worlds in every state between nothing and done.

Worlds start from the kind's own children, applied; then some are lost, half made, edited, being deleted
or have a status of any shape that the API knows. So a new kind is covered without a word about it here.
"""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st
from kindling.engine.plan import Create, Delete, Plan, RestoreData, Update, plan
from kindling.kinds.base import Kind, Observed
from kindling.kinds.metadata import labels_of
from kindling.kinds.registry import kinds
from kindling.kube.resources import CONFIG_MAP, SECRET, Object, Ref, ResourceType

from infra import yaml_text
from tests.model.memory import MemoryApi
from tests.unit.schema.drawing import Json, drawn_from
from tests.unit.schema.statuses import statuses

T = TypeVar("T")

REPOSITORY = Path(__file__).resolve().parents[3]
NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
ROUNDS = 4


class AnyImage(dict[str, str]):
    """An image for whatever folder a kind asks for."""

    def __missing__(self, name: str) -> str:
        return f"registry.example/{name}:1"


def _read(path: Path) -> Json:
    loaded: Json = yaml_text.load(path.read_text())
    return loaded


KINDS: Mapping[str, Kind] = {kind.type.group_kind: kind for kind in kinds(AnyImage())}
CRDS: Mapping[str, Json] = {
    f"{crd['spec']['names']['kind'].lower()}.{crd['spec']['group']}": crd
    for crd in map(_read, sorted((REPOSITORY / "crds").glob("*.yaml")))
}
SAMPLES: Mapping[str, Json] = {
    path.stem: _read(path) for path in sorted((REPOSITORY / "samples").glob("*.yaml"))
}


def schema_of(kind: Kind, *part: str) -> Json:
    """The schema of the kind's resources, or of a part of them: `spec` say."""
    versions = CRDS[kind.type.group_kind]["spec"]["versions"]
    found: Json = next(each for each in versions if each["name"] == kind.type.version)
    found = found["schema"]["openAPIV3Schema"]
    for name in part:
        found = found["properties"][name]
    return found


def names(kind: Kind) -> st.SearchStrategy[str]:
    """Names of resources that the API server and the CRD's rules on metadata.name admit, long ones often."""
    rules = " ".join(rule["rule"] for rule in schema_of(kind).get("x-kubernetes-validations", ()))
    longest = min([int(size) for size in re.findall(r"metadata\.name\.size\(\) <= (\d+)", rules)] or [253])
    part = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    patterns = [rf"^{part}(\.{part})*\Z"]
    patterns += [
        found.replace("$", r"\Z") for found in re.findall(r"metadata\.name\.matches\('(.*?)'\)", rules)
    ]

    def admitted(name: str) -> bool:
        return all(re.search(pattern, name) for pattern in patterns)

    short = st.from_regex(patterns[-1], alphabet=st.characters(codec="ascii"))
    return (
        short.filter(lambda name: len(name) <= longest and admitted(name))
        | st.sampled_from(["a" * longest, f"a{'-' * (longest - 2)}0"]).filter(admitted)
        | st.sampled_from(["0", "1.2", f"a.{'b' * (longest - 2)}", "a"]).filter(admitted)
    )


@cache
def resources(kind: Kind) -> st.SearchStrategy[Object]:
    """Any resource that the schema admits, as the store would have it; with any status, or none yet."""
    metadata = st.fixed_dictionaries(
        {
            "namespace": st.sampled_from(["ns", "n" * 63]),
            "name": names(kind),
            "uid": st.just("cr-uid"),
            "resourceVersion": st.just("1"),
            "generation": st.integers(1, 3),
        }
    )
    fields: dict[str, st.SearchStrategy[Any]] = {
        "apiVersion": st.just(kind.type.api_version),
        "kind": st.just(kind.type.kind),
        "metadata": metadata,
        "spec": drawn_from(schema_of(kind, "spec")),
    }
    return st.fixed_dictionaries(
        fields, optional={"status": st.just({}) | drawn_from(schema_of(kind, "status"))}
    )


def nothing() -> Observed:
    return Observed(objects={}, now=NOW, entropy=b"e" * 32)


def decide(kind: Kind, cr: Object, observed: Observed) -> Plan:
    return plan(type=kind.type, cr=cr, desired=kind.desired(cr, observed), observed=observed.objects)


def applied(kind: Kind, cr: Object, observed: Observed) -> Observed:
    """What is there once all that the kind desires is applied, in as many rounds as the engine takes."""
    api = MemoryApi()
    api.objects.update(observed.objects)
    for _ in range(ROUNDS):
        for action in decide(kind, cr, replace(observed, objects=dict(api.objects))).actions:
            assert not isinstance(action, Delete), action
            if isinstance(action, RestoreData | Update):
                at_once(api.merge(action.ref, action.patch))
                continue
            at_once((api.create if isinstance(action, Create) else api.apply)(action.type, action.body))
    return replace(observed, objects=dict(api.objects))


def at_once(waiting: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never really waits."""
    try:
        waiting.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits")


def secrets_for(
    kind: Kind, cr: Object, value: st.SearchStrategy[str]
) -> st.SearchStrategy[dict[Ref, Object]]:
    """The Secrets that the kind reads: there with all the keys that the spec names, or not there.

    Labelled as children, since some are; on a user's own the labels do nothing.
    """
    usual = {"password", "token", "accessKeyId", "secretAccessKey", "passphrase", "tls.crt", "tls.key"}
    usual |= {"accountName", "accountKey", "serviceAccountKey"}
    keys = sorted({*usual, *_named_keys(cr["spec"])})
    encoded = value.map(lambda text: base64.b64encode(text.encode()).decode())
    full: st.SearchStrategy[Object] = st.fixed_dictionaries(
        {"data": st.fixed_dictionaries(dict.fromkeys(keys, encoded))}
    )
    odd: st.SearchStrategy[Object] = st.sampled_from(
        [{}, {"data": None}, {"data": {}}, {"data": {keys[0]: "!"}}]
    )
    contents = full | odd

    def secret(ref: Ref) -> st.SearchStrategy[Object]:
        where = {"namespace": ref.namespace, "name": ref.name}
        system = {"uid": f"{ref.name}-uid", "resourceVersion": "1", "generation": 1}
        meta = {**where, **system, "labels": labels_of(kind.type, cr)}
        return contents.map(lambda content: {"metadata": meta, **content})

    refs = [Ref(SECRET, cr["metadata"]["namespace"], name) for name in kind.secrets(cr)]
    return st.fixed_dictionaries({}, optional={ref: secret(ref) for ref in refs})


def config_maps_for(kind: Kind, cr: Object) -> st.SearchStrategy[dict[Ref, Object]]:
    """Others' ConfigMaps that the kind reads: there with what the spec names, without it, or not there."""
    keys = sorted({"handler.py", *_named_keys(cr["spec"]), *(f"{name}.py" for name in _modules(cr["spec"]))})
    contents: st.SearchStrategy[Object] = st.sampled_from(
        [{"data": dict.fromkeys(keys, "x")}, {"binaryData": dict.fromkeys(keys, "eA==")}, {"data": None}, {}]
    )

    def config_map(ref: Ref) -> st.SearchStrategy[Object]:
        meta = {
            "namespace": ref.namespace,
            "name": ref.name,
            "uid": f"{ref.name}-uid",
            "resourceVersion": "1",
        }
        return contents.map(lambda content: {"metadata": meta, **content})

    refs = [Ref(CONFIG_MAP, cr["metadata"]["namespace"], name) for name in kind.config_maps(cr)]
    return st.fixed_dictionaries({}, optional={ref: config_map(ref) for ref in refs})


def given_for(kind: Kind, cr: Object, value: st.SearchStrategy[str]) -> st.SearchStrategy[dict[Ref, Object]]:
    """All objects whose content the kind reads, with a Secret's values as drawn."""
    secrets, config_maps = secrets_for(kind, cr, value), config_maps_for(kind, cr)
    return st.builds(lambda first, second: {**first, **second}, secrets, config_maps)


def _modules(value: Any) -> Iterator[str]:
    """Of each field `handler`, MODULE:NAME, the module."""
    if isinstance(value, dict):
        for name, below in value.items():
            if name == "handler" and isinstance(below, str):
                yield below.partition(":")[0]
            yield from _modules(below)


def _named_keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, below in value.items():
            if name == "key" and isinstance(below, str):
                yield below
            yield from _named_keys(below)
    elif isinstance(value, list):
        for below in value:
            yield from _named_keys(below)


@st.composite
def worlds(draw: st.DrawFn, kind: Kind, cr: Object) -> Observed:
    """A world for this resource, in any state."""
    found = draw(given_for(kind, cr, st.text(max_size=8)))
    world = replace(nothing(), objects=found, watched=draw(watched(kind, cr)))
    if kind.validate(cr, world) is not None or draw(st.integers(0, 4)) == 0:
        return world
    done = applied(kind, cr, world).objects
    children = {}
    for ref, obj in done.items():
        if draw(st.integers(0, 9)) > 0:
            children[ref] = draw(_disturbed(ref, obj))
    for type in kind.children:
        if type not in {ref.type for ref in done}:
            for _ in range(draw(st.integers(0, 3))):
                made = draw(_made_by_children(kind, cr, type, list(done)))
                children[Ref(type, made["metadata"]["namespace"], made["metadata"]["name"])] = made
    return replace(world, objects=children)


def watched(kind: Kind, cr: Object, *, all: bool = False) -> st.SearchStrategy[dict[Ref, Object]]:
    """The objects that the resource looks at: each there or not, or `all` of them there."""
    fields = {}
    for look in kind.watched_objects(cr):
        for namespace in [look.namespace] if look.namespace else ["ns", "far"]:
            meta = {"namespace": namespace, "name": look.name, "uid": "watched-uid", "resourceVersion": "1"}
            fields[Ref(look.type, namespace, look.name)] = st.just({"metadata": meta})
    return st.fixed_dictionaries(fields) if all else st.fixed_dictionaries({}, optional=fields)


@st.composite
def _disturbed(draw: st.DrawFn, ref: Ref, obj: Object) -> Object:
    """The object with fields lost, a status of any kind, perhaps being deleted."""
    found: Object = copy.deepcopy(obj)
    if ref.type == SECRET and "data" in found and draw(st.booleans()):
        found["data"] = None
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        paths = list(_removable(found))
        if paths:
            path = draw(st.sampled_from(paths))
            inside: Any = found
            for step in path[:-1]:
                inside = inside[step]
            del inside[path[-1]]
    if draw(st.integers(0, 4)) > 0:
        found["status"] = draw(statuses(ref.type))
    if draw(st.integers(0, 9)) == 0:
        found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return found


def _removable(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Paths of what may be missing: anything but who the object is and whole owner references."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, below in items:
        here = (*path, step)
        if path == ("metadata",) and step in ("namespace", "name", "uid", "resourceVersion"):
            continue
        if here != ("metadata",):
            yield here
        if here != ("metadata", "ownerReferences"):
            yield from _removable(below, *here)


@st.composite
def _made_by_children(
    draw: st.DrawFn, kind: Kind, cr: Object, type: ResourceType, makers: list[Ref]
) -> Object:
    """A Pod, say, as a controller of Kubernetes makes it for one of the children."""
    base = draw(st.sampled_from([ref.name for ref in makers] or [cr["metadata"]["name"]]))
    ref = Ref(type, cr["metadata"]["namespace"], f"{base}-{draw(st.sampled_from(['0', '1', 'abcde']))}")
    revision = draw(st.sampled_from([{}, {"controller-revision-hash": "r1"}]))
    labels = {**labels_of(kind.type, cr), **revision}
    owner = {"apiVersion": "apps/v1", "kind": "Set", "name": base, "uid": f"{base}-uid", "controller": True}
    meta = {"labels": labels, "ownerReferences": [owner], "uid": f"{ref.name}-uid", "resourceVersion": "1"}
    made = {"metadata": {**meta, "namespace": ref.namespace, "name": ref.name}}
    return draw(_disturbed(ref, made))


def as_created(sample: Json) -> Object:
    """A sample as the API server would hand it out."""
    meta = {"namespace": "default", "uid": "cr-uid", "resourceVersion": "1", "generation": 1}
    return {**sample, "metadata": {**meta, **sample["metadata"]}}
