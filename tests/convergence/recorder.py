"""What the API holds and how it came to: every object of our types, each coming and going counted.

Watched straight from the API server, beside the proxy and its faults, so that it is the truth to compare
with. What differs from run to run by nature (uids, versions, times, made passwords) is put into one form,
so that two runs that ended alike compare as equal.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from kindling.engine.compare import LAST_APPLIED_HASH
from kindling.kinds.metadata import MANAGED_BY_LABEL
from kindling.kinds.server_tls import AUTHORITY
from kindling.kube.resources import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    POD,
    SECRET,
    STATEFUL_SET,
    Ref,
    ResourceType,
)

from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.controlplane import ControlPlane

REPLICA_SET = ResourceType("apps", "v1", "ReplicaSet", "replicasets")
# Whose status counts writes by their generation; ours is to be of the very generation.
BUILT_IN = (DEPLOYMENT, STATEFUL_SET, DISRUPTION_BUDGET)
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
WATCH_SECONDS = 86400
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
# A ReplicaSet's hash, which is another where the name was still taken by one that is on its way out
# (`collisionCount`), and what each of its Pods gets by chance. The template itself is compared.
BY_CHANCE = re.compile(r"(?:-[bcdfghjklmnpqrstvwxz2456789]{5,10}){1,2}(?=-?$|\")")
# The same within a message about a Pod.
OF_A_NAMED_POD = re.compile(
    r"((?:Pod|logs) [a-z][-a-z0-9.]*?)(?:-[bcdfghjklmnpqrstvwxz2456789]{5,10}){1,2}(?=[ `,;:.)])"
)
# The name of what waits for an approval is a hash with uids in it.
OF_AN_ACT = re.compile(r"(?<=kindling\.dev/approved=)[0-9a-f]{10}|^[0-9a-f]{10}$")
# Given by the server, or counting how often something was written, or a hash of what has a uid in it
# (`inputs`), or following a server's archive, minute by minute (the two of a Backup), or measured.
GIVEN = frozenset(
    {
        "resourceVersion",
        "generation",
        "managedFields",
        "creationTimestamp",
        "clusterIP",
        "clusterIPs",
        "collisionCount",
        "pod-template-hash",
        LAST_APPLIED_HASH,
        "inputs",
        "latestRestorableTime",
        "dataLossWindow",
        "lastRestartSeconds",
        "kindling.dev/awaits-approval",
    }
)
# A Pod is what its controller made of its template, which is compared: whether it is there is what counts.
OF_A_POD = frozenset({"metadata"})
PAIR = ("-tls", "-server-ca")
"""Secrets with a key pair that was made end so."""

LifecycleEvent = tuple[str, str, str]
"""ADDED, DELETED or, of a Secret's content, MODIFIED; the resource's name in the API, the object's."""


@dataclass(frozen=True)
class Difference:
    """The first field in which an object is otherwise, where None is nothing; of the `lifecycle`, how often
    an event was seen.
    """

    object: str
    field: str
    found: Any
    expected: Any
    lifecycle: bool = False

    def __str__(self) -> str:
        if self.lifecycle:
            return f"{self.field} {self.object}: {self.found} times, not {self.expected}"
        found, expected = (json.dumps(value)[:300] for value in (self.found, self.expected))
        return f"{self.object}: {self.field or 'it'} is {found}, not {expected}"


@dataclass(frozen=True)
class Snapshot:
    """How things stand in a namespace and what came and went until then."""

    objects: dict[str, Any]
    lifecycle: Counter[LifecycleEvent]

    def differs(self, other: Snapshot) -> list[str]:
        """What is otherwise there, each in a line; empty if nothing is."""
        return [str(difference) for difference in self.differences(other)]

    def differences(self, other: Snapshot) -> list[Difference]:
        found = [
            _first_difference(name, self.objects.get(name), other.objects.get(name))
            for name in sorted(self.objects.keys() | other.objects.keys())
            if self.objects.get(name) != other.objects.get(name)
        ]
        for event in sorted(self.lifecycle.keys() | other.lifecycle.keys()):
            here, there = self.lifecycle[event], other.lifecycle[event]
            if here != there:
                what, *name = event
                found.append(Difference(" ".join(name), what, here, there, lifecycle=True))
        return found

    def repeated(self) -> list[str]:
        """The Jobs that were made again, and the key pairs that were made again or changed."""
        return [
            f"{' '.join(event)}: {times} times"
            for event, times in sorted(self.lifecycle.items())
            for what, plural, name in [event]
            if (what, plural) == ("ADDED", "jobs")
            or (what != "DELETED" and plural == "secrets" and name.endswith(PAIR))
            if times > 1 or what == "MODIFIED"
        ]


@dataclass
class Recorder:
    """Begins with what is there; safe to be asked from any thread."""

    _objects: dict[str, dict[Ref, Json]] = field(default_factory=dict)
    _lifecycle: dict[str, Counter[LifecycleEvent]] = field(default_factory=dict)
    _changed: dict[str, float] = field(default_factory=dict)
    _versions: dict[str, list[int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def end(self, namespace: str) -> Snapshot:
        with self._lock:
            objects = dict(self._objects.get(namespace, {}))
            lifecycle = Counter(self._lifecycle.get(namespace, ()))
        found: dict[str, Any] = {}
        pairs = _pairs(objects)
        for ref, obj in objects.items():
            name = f"{ref.type.plural} {_steady(ref)}"
            also = sum(1 for key in found if key.split("#")[0] == name)
            found[f"{name}#{also}" if also else name] = _normal(ref.type, obj, namespace, pairs)
        return Snapshot(found, lifecycle)

    def still_for(self, namespace: str) -> float:
        """For how many seconds nothing at all has changed there."""
        return time.monotonic() - self._changed.get(namespace, 0.0)

    def versions(self, namespace: str) -> list[int]:
        """Of every change there, in order they arrived."""
        with self._lock:
            return list(self._versions.get(namespace, ()))

    def take(self, type: ResourceType, event: Json) -> None:
        meta = event["object"]["metadata"]
        namespace = meta.get("namespace", "")
        ref = Ref(type, namespace, meta["name"])
        if type == SECRET and MANAGED_BY_LABEL not in (meta.get("labels") or {}):
            return
        with self._lock:
            self._changed[namespace] = time.monotonic()
            self._versions.setdefault(namespace, []).append(int(meta["resourceVersion"]))
            objects = self._objects.setdefault(namespace, {})
            known = objects.get(ref, {})
            if event["type"] == "DELETED":
                objects.pop(ref, None)
            else:
                objects[ref] = event["object"]
            # A Secret's content is distinguished by its change alone: what was made looks all the same.
            changed = event["type"] == "MODIFIED" and _content(event["object"]) != _content(known)
            if event["type"] != "MODIFIED" or (type == SECRET and changed):
                seen = (event["type"], type.plural, _steady(ref))
                self._lifecycle.setdefault(namespace, Counter())[seen] += 1


def _content(secret: Json) -> dict[str, str]:
    """Without the authorities that clients of a server trust: while one is replaced, they trust both, and
    whether they have to depends on which of its Secrets was deleted first. The end is compared whole.
    """
    return {
        key: value
        for key, value in (secret.get("data") or {}).items()
        if key != AUTHORITY or _is_pair(secret)
    }


def _is_pair(secret: Json) -> bool:
    return str(secret.get("metadata", {}).get("name", "")).endswith(PAIR)


def _steady(ref: Ref) -> str:
    name = ref.name.replace(ref.namespace, "NAMESPACE")
    return BY_CHANCE.sub("-*", name) if ref.type in (POD, REPLICA_SET) else name


def _pairs(objects: dict[Ref, Json]) -> dict[str, str]:
    """Each text of the key pairs that were made, and a word for it: whoever has it has the same one."""
    return {
        _text(value): f"MADE {ref.name} {key}"
        # In an order of their own: an authority is in two of them.
        for ref, obj in sorted(objects.items(), key=lambda item: item[0].name)
        if ref.type == SECRET and ref.name.endswith(PAIR)
        for key, value in (obj.get("data") or {}).items()
    }


def _text(value: str) -> str:
    return base64.b64decode(value).decode()


def _normal(type: ResourceType, obj: Json, namespace: str, pairs: dict[str, str]) -> Any:
    body = {key: value for key, value in obj.items() if type != POD or key in OF_A_POD}
    if type == REPLICA_SET:
        del body["status"]
    if type in BUILT_IN and "status" in body:
        body["status"] = {key: value for key, value in body["status"].items() if key != "observedGeneration"}
    if type == SECRET:
        values = {key: _text(value) for key, value in (obj.get("data") or {}).items()}
        body["data"] = {key: pairs.get(value) or _word(value, values) for key, value in values.items()}
    found = _plain(body, namespace)
    return {**found, "written": obj["metadata"]["generation"]} if type == STATEFUL_SET else found


def _word(value: str, values: dict[str, str]) -> str:
    """A made password, which is long, by a word for it; one that was given stays."""
    password = values.get("password", "")
    return value.replace(password, "MADE") if len(password) == 32 else value


def _plain(value: Any, namespace: str) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item, namespace) for key, item in value.items() if key not in GIVEN}
    if isinstance(value, list):
        items = [_plain(item, namespace) for item in value]
        conditions = all(isinstance(item, dict) and "type" in item for item in items)
        return sorted(items, key=lambda item: str(item["type"])) if conditions else items
    if isinstance(value, str):
        here = OF_A_NAMED_POD.sub(r"\1-*", value.replace(namespace, "NAMESPACE"))
        return MOMENT.sub("TIME", UUID.sub("UID", BY_CHANCE.sub("-*", OF_AN_ACT.sub("ACT", here))))
    return value


def _first_difference(name: str, here: Any, there: Any, at: str = "") -> Difference:
    if isinstance(here, dict) and isinstance(there, dict):
        for key in sorted(here.keys() | there.keys()):
            if here.get(key) != there.get(key):
                return _first_difference(name, here.get(key), there.get(key), f"{at}.{key}")
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for number, (one, other) in enumerate(zip(here, there, strict=True)):
            if one != other:
                return _first_difference(name, one, other, f"{at}[{number}]")
    return Difference(name, at, here, there)


@contextmanager
def recorder(plane: ControlPlane, types: Sequence[ResourceType]) -> Iterator[Recorder]:
    """One watch for each type, from the list on, each on a thread of its own."""
    running, stopping = Recorder(), threading.Event()
    clients: list[Api] = []
    with closing(Api(plane)) as api:
        since = {
            type: api.get(type.path(namespace=None)).accepted()["metadata"]["resourceVersion"]
            for type in types
        }

    def watch(type: ResourceType) -> None:
        client = Api(plane)
        clients.append(client)
        for event in client.watch(type.path(namespace=None), since=since[type], seconds=WATCH_SECONDS):
            assert event["type"] != "ERROR", event
            running.take(type, event)
        assert stopping.is_set(), f"the watch on {type.plural} ended"

    threads = [threading.Thread(target=watch, args=(type,), daemon=True) for type in types]
    for thread in threads:
        thread.start()
    try:
        yield running
    finally:
        stopping.set()
        for client in clients:
            client.cut()
        for thread in threads:
            thread.join(5)
