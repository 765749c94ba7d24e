"""One tree of several renderings: what is not in each is under the condition that says in which it is.

Pure. Conditions are found by comparing, so a component that makes something for one kind alone needs no line
here; a difference that is no such condition is an error, and not a chart that says something else.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra.distribution.yaml_writer import Either, When

Kinds = frozenset[str]
Renderings = Mapping[Kinds, Any]
"""Values by the kinds that they are of: of all, of each alone, of each two."""
Condition = Callable[[Sequence[str]], str]
"""Makes the expression for "one of these kinds is served"."""


class VariantError(Exception):
    """Two renderings differ in a way that no condition of the chart expresses."""


def of_kinds(found: Renderings, condition: Condition) -> Any:
    """The value for all kinds, with conditions where the others have something else."""
    values = list(found.values())
    if all(value == values[0] for value in values):
        return values[0]
    # What all have comes first, in its order.
    values.insert(0, found[max(found, key=len)])
    if all(isinstance(value, dict) for value in values):
        names = dict.fromkeys(name for value in values for name in value)
        return {name: _part({k: value.get(name) for k, value in found.items()}, condition) for name in names}
    if all(isinstance(value, list) for value in values):
        by_identity = {kinds: {_identity(item): item for item in value} for kinds, value in found.items()}
        each = dict.fromkeys(_identity(item) for value in values for item in value)
        return [_part({k: items.get(one) for k, items in by_identity.items()}, condition) for one in each]
    raise VariantError(f"the kinds that are served change a value: {values}")


def _part(parts: Renderings, condition: Condition) -> Any:
    """An entry or element; None where there is none."""
    there = {kinds: part for kinds, part in parts.items() if part is not None}
    value = of_kinds(there, condition)
    return value if len(there) == len(parts) else When(_presence(parts, there.keys(), condition), value)


def _presence(all_kinds: Renderings, there: Any, condition: Condition) -> str:
    """The condition that holds for those who have it: some of these kinds, and none of those."""
    if set(there) == {max(all_kinds, key=len)}:
        return condition([])  # Of a kind that there is not yet: where all are served, and none is named.
    some = {kind for kinds in there if len(kinds) == 1 for kind in kinds}
    without = [kinds for kinds in all_kinds if len(kinds) == 2 and kinds & some and kinds not in there]
    none = {kind for kinds in without for kind in kinds - some}
    for kinds in all_kinds:
        if (kinds in there) != (bool(kinds & some) and not kinds & none):
            raise VariantError(f"no condition says of which kinds it is: {sorted(map(sorted, there))}")
    if not none:
        return condition(sorted(some))
    return f"and ({condition(sorted(some))}) (not ({condition(sorted(none))}))"


def _identity(item: Any) -> str:
    """By its name where it has one: what is in a container may differ, and it is the same."""
    if isinstance(item, When):
        return f"{item.condition}: {_identity(item.value)}"
    if isinstance(item, dict) and isinstance(item.get("name"), str):
        return str(item["name"])
    return json.dumps(item, sort_keys=True, default=repr)


@dataclass(frozen=True)
class Places:
    """How two trees become one: of a rendering that names no namespace, and of one that names one.

    List elements of the second, which have the namespace's `mark`, are made for each item of the expression
    `over`; those of the first where that is empty. One that lists all namespaces, by the mark `listed`, is
    there once, under a condition of its own.
    """

    over: str
    mark: str
    listed: str

    def of(self, everywhere: Any, in_places: Any) -> Any:
        """The one tree.

        :raises VariantError: where they differ in anything else than elements of lists
        """
        if everywhere == in_places:
            return everywhere
        if isinstance(everywhere, list) and isinstance(in_places, list):
            return self._list(everywhere, in_places)
        if (
            isinstance(everywhere, dict)
            and isinstance(in_places, dict)
            and everywhere.keys() == in_places.keys()
        ):
            return {name: self.of(value, in_places[name]) for name, value in everywhere.items()}
        if isinstance(everywhere, When) and isinstance(in_places, When):
            return When(everywhere.condition, self.of(everywhere.value, in_places.value))
        raise VariantError(f"the namespaces that are served change a value: {everywhere!r}, {in_places!r}")

    def _list(self, everywhere: list[Any], in_places: list[Any]) -> list[Any]:
        before, after = [_identity(item) for item in everywhere], [_identity(item) for item in in_places]
        merged: list[Any] = []
        for word, i, j, k, m in difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
            old, new = everywhere[i:j], in_places[k:m]
            if word == "equal":
                merged += [self.of(first, second) for first, second in zip(old, new, strict=True)]
            elif word == "insert" and all(self.listed in repr(item) for item in new):
                merged += new
            elif word != "delete" and all(self.mark in repr(item) for item in new):
                merged.append(Either(self.over, tuple(new), tuple(old)))
            else:
                raise VariantError(f"not in every rendering, and of no namespace: {old}, {new}")
        return merged
