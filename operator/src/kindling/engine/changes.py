"""From the plan's actions to what they change, field by field, for those who want to read it first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kindling.engine.compare import LAST_APPLIED_HASH, MAP_LISTS, QUANTITIES, SELECTORS, satisfies
from kindling.engine.plan import Action, Apply, Create, Delete, Plan, Update
from kindling.kinds.planned import CREATE, DELETE, RESTORE, UPDATE, Change, Path
from kindling.kube.resources import Object, Ref, ref_of

# Maps and lists whose elements leave with the apply that no longer has them, and fields without a default.
_EMPTIED = frozenset({"labels", "annotations", "nodeSelector", "data"})
_OPTIONAL = frozenset(
    {
        "affinity",
        "externalTrafficPolicy",
        "imagePullSecrets",
        "loadBalancerClass",
        "loadBalancerSourceRanges",
        "nodeSelector",
        "ownerReferences",
        "priorityClassName",
        "serviceAccountName",
        "tolerations",
        "topologySpreadConstraints",
    }
)
_OTHERS = ("kubectl.kubernetes.io/", "deployment.kubernetes.io/")
"""Annotations of others begin so: `kubectl rollout restart` writes one into a template."""


def changes(plan: Plan, observed: Mapping[Ref, Object]) -> list[Change]:
    """What the plan does, in its order; what waits for an earlier child's uid after it."""
    return [change(action, observed) for action in (*plan.actions, *plan.later)]


def change(action: Action, observed: Mapping[Ref, Object]) -> Change:
    if isinstance(action, Create):
        return Change(action=CREATE, ref=ref_of(action.type, action.body))
    if isinstance(action, Apply):
        return _apply(action, observed)
    if isinstance(action, Update):
        fields = {name: value for name, value in action.patch.items() if name != "metadata"}
        paths = list(differing(fields, observed.get(action.ref)))
        return Change(action=UPDATE, ref=action.ref, paths=paths)
    return Change(action=DELETE if isinstance(action, Delete) else RESTORE, ref=action.ref)


def _apply(action: Apply, observed: Mapping[Ref, Object]) -> Change:
    ref = ref_of(action.type, action.body)
    known = observed.get(ref)
    if action.new or known is None:
        return Change(action=CREATE, ref=ref)
    noted = ("metadata", "annotations", LAST_APPLIED_HASH)
    paths = [path for path in differing(action.body, known) if path != noted]
    left: Sequence[Path] = ()
    if not action.drift:
        left = [path for path in leaving(action.body, known) if not paths or path[0] != "metadata"]
    held = _holds(action.body.get("spec") or {})
    return Change(action=UPDATE, ref=ref, paths=paths, left=left, drift=action.drift, held=held)


def _holds(spec: Object) -> bool:
    """Whether a workload of this spec keeps its Pods when its template changes."""
    strategy = spec.get("updateStrategy") or {}
    return strategy.get("type") == "OnDelete" or bool((strategy.get("rollingUpdate") or {}).get("partition"))


def differing(desired: Any, observed: Any, path: Path = (), *, field: str = "") -> Iterator[Path]:
    """Each field of `desired` that `observed` does not have so, as `compare.satisfies` has it."""
    if satisfies(desired, observed, field=field):
        return
    found = False
    for name, value, there, inner in _inside(desired, observed, field):
        for each in differing(value, there, (*path, name), field=inner):
            found = True
            yield each
    if not found:
        yield path


def leaving(desired: Any, observed: Any, path: Path = (), *, field: str = "") -> Iterator[Path]:
    """What of `observed` is in what the operator decides, and is no longer desired."""
    if isinstance(desired, dict) and isinstance(observed, dict):
        for name, value in observed.items():
            gone = field in _EMPTIED or name in _OPTIONAL
            if gone and value and name not in desired and not name.startswith(_OTHERS):
                yield (*path, name)
    elif field in MAP_LISTS and isinstance(desired, list) and isinstance(observed, list):
        wanted = [_key(item, field) for item in desired]
        yield from ((*path, _named(item, field)) for item in observed if _key(item, field) not in wanted)
    for name, value, there, inner in _inside(desired, observed, field):
        yield from leaving(value, there, (*path, name), field=inner)


def value_at(obj: Any, path: Path) -> Any:
    """What an object has at the path of a change; None where nothing is."""
    field = ""
    for name in path:
        if isinstance(obj, dict):
            obj, field = obj.get(name), name
        elif isinstance(obj, list):
            obj = next((item for item in obj if _named(item, field) == name), None)
        else:
            return None
    return obj


def _inside(desired: Any, observed: Any, field: str) -> Iterator[tuple[str, Any, Any, str]]:
    """The fields or elements of both, by name: each of `desired`, what is there of it, and its own field."""
    if isinstance(desired, dict) and isinstance(observed, dict) and field not in SELECTORS:
        for name, value in desired.items():
            yield name, value, observed.get(name), field if field in QUANTITIES else name
    elif field in MAP_LISTS and isinstance(desired, list) and isinstance(observed, list):
        for item in desired:
            key = {name: item[name] for name in MAP_LISTS[field] if name in item}
            same = [other for other in observed if all(other.get(name) == key[name] for name in key)]
            yield _named(item, field), item, same[0] if len(same) == 1 else None, ""


def _key(item: Any, field: str) -> tuple[Any, ...]:
    return tuple(item.get(name) for name in MAP_LISTS[field]) if isinstance(item, dict) else (item,)


def _named(item: Any, field: str) -> str:
    return str(next((part for part in _key(item, field) if part is not None), ""))
