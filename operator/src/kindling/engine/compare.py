"""Does an observed object already hold what is desired? Pure, and aware of how the API server stores things.

Apart from `plan`, which says what to do about it: this file only answers that one question.
"""

from __future__ import annotations

import hashlib
import math
from decimal import Decimal
from typing import Any

import orjson

from kindling.engine.quantity import quantity
from kindling.kube.resources import Object

LAST_APPLIED_HASH = "kindling.dev/last-applied-hash"
"""Annotation of each child with the hash of what was last applied, so that a field which left the desired
state is noticed. After a dot follows the `field_set_hash` of what was created, or `ALL`."""
ALL = "all"
"""Every field of ours is one that we applied: whatever we leave out of an apply goes."""

# Lists that the API merges by a key of their elements: the name of the field that holds them, and the key.
# Others may add elements to these, and defaults appear inside them; every other list is atomic: equal or not.
MAP_LISTS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "volumeMounts": ("mountPath",),
    "ports": ("containerPort", "port", "protocol"),
    "ownerReferences": ("uid",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
# The keys that identify their elements.
LIST_MAP_KEYS = (
    "name",
    "mountPath",
    "uid",
    "ip",
    "topologyKey",
    "whenUnsatisfiable",
    "containerPort",
    "port",
    "protocol",
)
LARGEST = Decimal(2**63 - 1)
QUANTITIES = frozenset({"requests", "limits", "sizeLimit"})
# Switches that are on where they are left out.
DEFAULT_TRUE = frozenset({"automountServiceAccountToken", "enableServiceLinks", "allowPrivilegeEscalation"})
# What the API replaces as a whole: a label more, and it selects something else.
SELECTORS = frozenset({"selector", "podSelector", "namespaceSelector", "labelSelector", "nodeSelector"})

# Maps of names that are ours to choose: here the server keeps a value that is empty.
MAPS = frozenset({"annotations", "data", "labels"})


def satisfies(desired: Any, observed: Any, *, field: str = "", atomic: bool = False) -> bool:
    """Whether every field of `desired` is in `observed` with that value, whatever else is there.

    An empty value counts as present where the server leaves it out, and quantities compare as numbers.
    `atomic` within what the server replaces as a whole: nothing else may be in there.
    """
    if isinstance(desired, dict):
        if not desired and observed is None:
            return True
        if not isinstance(observed, dict):
            return False
        if field in MAPS and not desired.keys() <= observed.keys():
            return False
        atomic = atomic or field in SELECTORS
        if atomic and any(value for name, value in observed.items() if name not in desired):
            return False
        inside = field if field in QUANTITIES else None
        for name, value in desired.items():
            other = observed.get(name)
            # Most fields are texts that are as wanted; a call for each is half the time of a comparison.
            if type(value) is str and value == other:
                continue
            if not satisfies(value, other, field=inside or name, atomic=atomic):
                return False
        return True
    if isinstance(desired, list):
        return _list_satisfies(desired, observed if observed is not None else [], field=field, atomic=atomic)
    if desired == observed and isinstance(desired, bool) == isinstance(observed, bool):
        return True
    if observed is None:
        # None, False, 0 and "" are what omitempty leaves out.
        return not desired and field not in DEFAULT_TRUE
    if field in QUANTITIES:
        try:
            return _stored(desired) == _stored(observed)
        except ValueError:
            return False
    return False


def _stored(value: object) -> int:
    """A quantity in thousandths, as the API server keeps it: rounded up to them, and capped."""
    return math.ceil(min(quantity(value), LARGEST) * 1000)


def _list_satisfies(desired: list[Any], observed: Any, *, field: str, atomic: bool) -> bool:
    if not isinstance(observed, list):
        return False
    if field not in MAP_LISTS or atomic:
        return len(desired) == len(observed) and all(
            satisfies(left, right, field=field, atomic=True)
            for left, right in zip(desired, observed, strict=True)
        )
    keys = MAP_LISTS[field]
    return all(_element_satisfies(item, observed, keys) for item in desired)


def _element_satisfies(desired: Any, observed: list[Any], keys: tuple[str, ...]) -> bool:
    """The API server stores two elements of one key, and of a variable the last one counts: there is one."""
    key = {name: desired[name] for name in keys if name in desired}
    same = [item for item in observed if all(item.get(name) == value for name, value in key.items())]
    return len(same) == 1 and satisfies(desired, same[0])


def merge_patch(*, known: Object, wanted: Object) -> Object:
    """The JSON merge patch (RFC 7386) from one to the other; empty when they are equal."""
    patch: Object = {name: None for name in known if name not in wanted}
    for name, value in wanted.items():
        old = known.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            inner = merge_patch(known=old, wanted=value)
            if inner:
                patch[name] = inner
        elif name not in known or old != value:
            patch[name] = value
    return patch


def last_applied(obj: Object) -> tuple[str, str]:
    """Hash and form in the mark on what we wrote last (LAST_APPLIED_HASH); empty where there is none."""
    mark = (obj["metadata"].get("annotations") or {}).get(LAST_APPLIED_HASH)
    hash_, _, form = str(mark or "").partition(".")
    return hash_, form


def with_mark(obj: Object, hash_: str, form: str) -> Object:
    """The same, with that mark (LAST_APPLIED_HASH)."""
    meta = obj["metadata"]
    notes = {**(meta.get("annotations") or {}), LAST_APPLIED_HASH: f"{hash_}.{form}"}
    return {**obj, "metadata": {**meta, "annotations": notes}}


def fingerprint(body: Object) -> str:
    """A short hash of what would be applied; a Secret's values stay out of it, only their names go in.

    (A hash of a weak password, in an annotation anyone may read, is as good as the password.)
    """
    open_body = {**body, "data": sorted(body["data"])} if _is_secret(body) else body
    return hashlib.sha256(orjson.dumps(open_body, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def field_set_hash(body: Object) -> str:
    """A short hash of which fields there are, whatever is in them: while it stays, no field has gone."""
    return hashlib.sha256(orjson.dumps(_fields(body), option=orjson.OPT_SORT_KEYS)).hexdigest()[:8]


def _fields(value: Any, *, field: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _fields(inner, field=name) for name, inner in value.items()}
    if isinstance(value, list) and field in MAP_LISTS:
        return [[[item.get(key) for key in LIST_MAP_KEYS], _fields(item)] for item in value]
    return None


def _is_secret(body: Object) -> bool:
    return "data" in body and "type" in body
