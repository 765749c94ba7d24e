"""Walks through the specs that a CRD admits: a first one, and then one property at a time, at any depth.

Drawn by hypothesis from the schemas, but all beforehand and none made smaller: each step costs seconds on a
real API server, so that many walks are taken at once. A seed gives the same walks again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kindling.kinds.base import Kind

from tests.unit.schema.drawing import OF_THE_SEED, Json, drawn_from
from tests.unit.schema.worlds import schema_of

T = TypeVar("T")

SECRET, KEY = "given", "word"
"""A Secret of the user's and the key in it, to which specs refer now and then."""

MOST_REPLICAS = 3
SIMPLEST = 2
"""How many are drawn at first in which hardly anything happens."""


@dataclass(frozen=True)
class Edit:
    """A property of the spec gets a value, or is taken away with None."""

    path: tuple[str, ...]
    value: Any

    def __str__(self) -> str:
        return f"{'.'.join(self.path)} = {self.value!r}"

    def of(self, spec: Json) -> Json:
        changed = copy.deepcopy(spec)
        inside = changed
        for name in self.path[:-1]:
            inside = inside.setdefault(name, {})
        if self.value is None:
            inside.pop(self.path[-1], None)
        else:
            inside[self.path[-1]] = copy.deepcopy(self.value)
        return changed


@dataclass(frozen=True)
class Walk:
    first: Json
    edits: list[Edit]


def walks(kind: Kind, *, count: int, steps: int, seed: int) -> list[Walk]:
    schema = _describing(schema_of(kind, "spec"))
    paths = list(_paths(schema, ()))
    # Of a property with many others in it no more often than of one with none.
    edits = (
        st.sampled_from(sorted({path[0] for path, _ in paths}))
        .flatmap(lambda name: st.sampled_from([found for found in paths if found[0][0] == name]))
        .flatmap(lambda found: st.builds(Edit, st.just(found[0]), _value(found[1])))
    )
    return _drawn(
        st.builds(Walk, drawn_from(schema), st.lists(edits, min_size=steps, max_size=steps)),
        count=count + SIMPLEST,
        seed=seed,
    )[SIMPLEST:]


def _value(schema: Json) -> st.SearchStrategy[Any]:
    return st.integers(0, 3).flatmap(lambda luck: drawn_from(schema) if luck else st.none())


def _paths(schema: Json, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
    for name, below in schema.get("properties", {}).items():
        # A volume cannot grow where there is no storage, and may do nothing else. What was to be made in a
        # server stays on record until the server has dropped it, and none runs here.
        if (*above, name) not in (("storage",), ("roles",), ("databases",)):
            yield (*above, name), below
            yield from _paths(below, (*above, name))


def _describing(schema: Json, name: str = "") -> Json:
    """The schema with few replicas, and with Secrets that may be there."""
    if name.endswith("SecretRef"):
        words = {"name": [SECRET, "missing"], "key": [KEY, "absent"]}
        known = schema["properties"]
        return {
            **schema,
            "properties": {at: {**known[at], "enum": few} for at, few in words.items() if at in known},
        }
    known = schema.get("properties", {})
    if name == "tls":
        # Without that Secret a server goes on with the certificate that it had, and a new one has none.
        known = {at: below for at, below in known.items() if at not in ("secretName", "issuerRef")}
    found = {**schema, "properties": {at: _describing(below, at) for at, below in known.items()}}
    if name in ("replicas", "size") and schema.get("type") == "integer":
        found["maximum"] = MOST_REPLICAS
    return found if found["properties"] else {at: part for at, part in found.items() if at != "properties"}


def _drawn(strategy: st.SearchStrategy[T], *, count: int, seed: int) -> list[T]:
    found: list[T] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=count,
        phases=[Phase.generate],
        backend=OF_THE_SEED,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: T) -> None:
        found.append(value)

    collect()
    return found
