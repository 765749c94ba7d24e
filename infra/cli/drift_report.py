"""What a refresh found: which resource, which field, what it was and what it is.

Pure: from the events of Pulumi's refresh to differences. Pulumi says which resources differ; which fields
is read from what the cluster answered. Pulumi's own account counts list elements by their place, so that
one rule taken from the middle reads as a change of every rule behind it, and does not see what was added
to a list; here elements are known by their name, or by what they hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infra import property_paths
from infra.cli.preview.events import SECRET
from infra.cli.stacks.file_backend import CLUSTER

IMAGE = "pulumi-python:dynamic/containers:Image"
LONGEST = 160
MISSING = object()

Event = Mapping[str, Any]


@dataclass(frozen=True)
class DriftedResource:
    """One resource that is not as recorded: what has become of it as a whole, or of which fields.

    `added` are elements that a list of ours holds beyond what is recorded. Pulumi does not see them.
    """

    resource: str
    state: str = ""
    fields: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = f"  {self.resource}" + (f": {self.state}" if self.state else "")
        return "\n".join([head, *(f"    {line}" for line in (*self.fields, *self.added))])


def differences(
    events: Iterable[Event], *, excepted: Mapping[str, Sequence[str]] | None = None
) -> list[DriftedResource]:
    """Every resource that is not as recorded, by name.

    `excepted` has property paths by KIND/NAME that others may change: no difference of them is reported.
    """
    found = [
        _difference((event.get("resOutputsEvent") or {}).get("metadata") or {}, excepted or {})
        for event in events
    ]
    return sorted((item for item in found if item is not None), key=lambda item: item.resource)


def complaints(events: Iterable[Event]) -> list[str]:
    """What Pulumi and its providers complained of, each sentence once."""
    texts = (event.get("diagnosticEvent") or {} for event in events)
    # That a cluster cannot be reached is a warning of the provider's.
    said = (text["message"].strip() for text in texts if text.get("severity") in ("error", "warning"))
    return list(dict.fromkeys(text for text in said if text and text != "preview failed"))


def changed(recorded: Any, found: Any, path: str = "") -> Iterator[str]:
    """A line for each recorded field that `found` does not hold; what it holds besides is no matter."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key, value in recorded.items():
            yield from _changed_item(value, found.get(_answered(key)), f"{path}.{key}" if path else key)
    elif isinstance(recorded, list) and isinstance(found, list):
        for position, (value, other) in enumerate(_pairs(recorded, found)):
            if value is not MISSING:
                yield from _changed_item(value, other, f"{path}[{_label(value, position)}]")
    elif SECRET not in (recorded, found) and recorded != found:
        yield f"{path}: {_shown(found)}, recorded {_shown(recorded)}"


def added(recorded: Any, found: Any, path: str = "") -> Iterator[str]:
    """A line for each element that a recorded list has in `found` and not in the state."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key, value in recorded.items():
            yield from added(value, found.get(_answered(key)), f"{path}.{key}" if path else key)
    elif isinstance(recorded, list) and isinstance(found, list):
        for position, (value, other) in enumerate(_pairs(recorded, found)):
            if value is MISSING:
                yield f"{path}: {_shown(other)} added"
            elif other is not MISSING:
                yield from added(value, other, f"{path}[{_label(value, position)}]")


def _difference(metadata: Mapping[str, Any], excepted: Mapping[str, Sequence[str]]) -> DriftedResource | None:
    old, new = metadata.get("old") or {}, metadata.get("new") or {}
    if metadata.get("op") == "delete":
        return DriftedResource(_named(old), state="not on every node" if old["type"] == IMAGE else "gone")
    if metadata.get("op") not in ("update", "same") or not old.get("custom"):
        return None
    if str(metadata["type"]).startswith("pulumi:providers:"):
        # How a cluster is reached is the program's to say, and nothing that could be damaged.
        return None
    # The cluster's answer holds it all; what Pulumi makes inputs of it has been cut to their shape.
    in_cluster = str(metadata["type"]).startswith("kubernetes:")
    recorded, found = old.get("inputs") or {}, new.get("outputs" if in_cluster else "inputs") or {}
    ignored = [property_paths.steps(path) for path in excepted.get(_kind_and_name(old), ())]
    for way in ignored:
        recorded = property_paths.without(recorded, way)
    more = tuple(sorted(added(recorded, found))) if in_cluster else ()
    if metadata["op"] == "same":
        return DriftedResource(_named(old), added=more) if more else None
    fields = tuple(changed(recorded, found)) or _pointed_at(metadata, ignored)
    if ignored and not fields and not more:
        return None
    return DriftedResource(_named(old), fields=fields, added=more)


def _pairs(recorded: list[Any], found: list[Any]) -> list[tuple[Any, Any]]:
    """Which element of one list is which of the other; MISSING for what has no counterpart."""
    left = list(found)
    pairs: list[tuple[Any, Any]] = []
    for value in recorded:
        same = next((item for item in left if _same(value, item)), MISSING)
        if same is not MISSING:
            left.remove(same)
        pairs.append((value, same))
    lost = [value for value, other in pairs if other is MISSING]
    if len(lost) == len(left) == 1 and not _name(lost[0]):
        # One in the place of one is the same element, changed.
        return [(value, left[0] if other is MISSING else other) for value, other in pairs]
    return pairs + [(MISSING, item) for item in left]


def _same(value: Any, item: Any) -> bool:
    if _name(value):
        return _name(value) == _name(item)
    return not any(changed(value, item)) and not any(added(value, item))


def _name(value: Any) -> str:
    return str(value.get("name") or "") if isinstance(value, dict) else ""


def _label(value: Any, position: int) -> str:
    return _name(value) or str(position)


def _changed_item(recorded: Any, found: Any, path: str) -> Iterator[str]:
    if found is not None and found is not MISSING:
        yield from changed(recorded, found, path)
    elif recorded:
        # The API leaves out what is empty.
        yield f"{path}: gone, recorded {_shown(recorded)}"


def _answered(key: str) -> str:
    """The key in what Pulumi records of an answer: of the schema's extensions it makes names of Python's."""
    return key.replace("-", "_") if key.startswith("x-kubernetes-") else key


def _named(resource: Mapping[str, Any]) -> str:
    """As a user knows it: `Deployment kindling-system/kindling-operator`."""
    if resource["type"] == CLUSTER:
        return f"kind cluster {resource['inputs']['name']}"
    kind = str(resource["type"]).rpartition(":")[2]
    return f"{kind} {resource.get('id') or str(resource['urn']).rpartition('::')[2]}"


def _kind_and_name(resource: Mapping[str, Any]) -> str:
    """As a stack's exceptions name it: `Deployment/kindling-operator`."""
    name = ((resource.get("inputs") or {}).get("metadata") or {}).get("name")
    return f"{str(resource['type']).rpartition(':')[2]}/{name}"


def _pointed_at(metadata: Mapping[str, Any], ignored: Sequence[property_paths.Way]) -> tuple[str, ...]:
    """What Pulumi alone can distinguish: secrets, and results that no input shows."""
    paths = sorted(metadata.get("detailedDiff") or {})
    differing = [
        path
        for path in paths
        if not any(property_paths.covers(way, property_paths.steps(path)) for way in ignored)
    ]
    return tuple(f"{path}: another value" for path in differing)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
