"""An API server in memory: versions, apply, merge patch, status, garbage collection, a watch log.

Beside the tests that use it, since it is no test: the engine's worker runs against it as it would
against the real one, thousands of times a minute. What the model leaves out, the apiserver tier has.
"""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from typing import Any

from kindling.kube.errors import Conflict, NotFound, Refused
from kindling.kube.resources import POD, STATEFUL_SET, Object, Ref, ResourceType, ref_of

LISTS = {
    "containers": "name", "initContainers": "name", "volumes": "name", "env": "name",
    "volumeMounts": "mountPath", "ports": "name", "ownerReferences": "uid",
}  # fmt: skip


class MemoryApi:
    """`events` is what a watch would tell, in order: (type of event, resource type, object)."""

    def __init__(self) -> None:
        self.objects: dict[Ref, Object] = {}
        self.events: list[tuple[str, ResourceType, Object]] = []
        self.writes: Counter[tuple[str, str]] = Counter()
        self._applied: dict[str, Object] = {}
        self._versions = itertools.count(1)
        self.refuse: ResourceType | None = None

    # What the worker calls.

    async def get(self, ref: Ref) -> Object:
        if ref not in self.objects:
            raise NotFound(status=404, reason="NotFound", message=f"{ref} not found")
        return copy.deepcopy(self.objects[ref])

    async def apply(self, type: ResourceType, body: Object) -> Object:
        body = copy.deepcopy(body)
        self._gate(type, "apply")
        ref = ref_of(type, {"metadata": {"namespace": "ns", **body["metadata"]}})
        known = self.objects.get(ref)
        uid = body["metadata"].pop("uid", None)
        if uid is not None and (known is None or known["metadata"]["uid"] != uid):
            raise Conflict(status=409, reason="Conflict", message="uid does not match")
        if known is None:
            made = self._insert(type, body)
            self._applied[made["metadata"]["uid"]] = body
            return copy.deepcopy(made)
        before = self._applied.get(known["metadata"]["uid"], {})
        merged = _overlay(_without(known, removed=_minus(before, body)), body)
        self._applied[known["metadata"]["uid"]] = body
        return self._update(type, known, merged)

    async def create(self, type: ResourceType, body: Object) -> Object:
        self._gate(type, "create")
        if ref_of(type, body) in self.objects:
            raise Conflict(status=409, reason="AlreadyExists", message=f"{ref_of(type, body)} exists")
        return copy.deepcopy(self._insert(type, copy.deepcopy(body)))

    async def merge(self, ref: Ref, patch: Object, *, subresource: str | None = None) -> Object:
        known = await self.get(ref)
        self._gate(ref.type, subresource or "patch")
        if patch.get("metadata", {}).get("uid", known["metadata"]["uid"]) != known["metadata"]["uid"]:
            raise Refused(status=422, reason="Invalid", message="metadata.uid: field is immutable")
        return self._update(ref.type, self.objects[ref], merged(known, patch), spec=subresource is None)

    async def delete(self, ref: Ref, *, uid: str, resource_version: str | None = None) -> None:
        known = await self.get(ref)
        self._gate(ref.type, "delete")
        if known["metadata"]["uid"] != uid:
            raise Conflict(status=409, reason="Conflict", message="uid does not match")
        self.remove(ref)

    # What users, controllers and kubelets do.

    def put(self, type: ResourceType, body: Object) -> Object:
        """Create or replace, as a user would."""
        known = self.objects.get(ref_of(type, body))
        if known is None:
            return self._insert(type, copy.deepcopy(body))
        return self._update(
            type, known, {**copy.deepcopy(known), **copy.deepcopy(body), "metadata": known["metadata"]}
        )

    def edit(self, ref: Ref, patch: Object) -> None:
        self._update(ref.type, self.objects[ref], merged(self.objects[ref], patch))

    def set_status(self, ref: Ref, status: Object) -> None:
        self._update(ref.type, self.objects[ref], {**self.objects[ref], "status": status}, spec=False)

    def remove(self, ref: Ref) -> None:
        """Delete, and whatever has no owner left."""
        gone = self.objects.pop(ref)
        gone["metadata"]["resourceVersion"] = str(next(self._versions))
        self.events.append(("DELETED", ref.type, copy.deepcopy(gone)))
        self.collect()

    def collect(self) -> None:
        alive = {obj["metadata"]["uid"] for obj in self.objects.values()}
        for ref, obj in list(self.objects.items()):
            owners = obj["metadata"].get("ownerReferences")
            if ref in self.objects and owners and not any(owner["uid"] in alive for owner in owners):
                self.remove(ref)

    def run_pods(self) -> None:
        """The StatefulSet controller and a kubelet, at once and perfect: every Pod of every set is ready."""
        for ref, obj in list(self.objects.items()):
            if ref.type != STATEFUL_SET or ref not in self.objects:
                continue
            meta = obj["metadata"]
            revision = f"{ref.name}-{meta['generation']}"
            pod = Ref(POD, ref.namespace, f"{ref.name}-0")
            known = self.objects.get(pod)
            labels = {**obj["spec"]["template"]["metadata"]["labels"], "controller-revision-hash": revision}
            if known is not None and known["metadata"]["labels"] != labels:
                self.remove(pod)
                known = None
            if known is None:
                owner = {
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "name": ref.name,
                    "uid": meta["uid"],
                    "controller": True,
                }
                self.put(
                    POD,
                    {
                        "metadata": {
                            "namespace": ref.namespace,
                            "name": pod.name,
                            "labels": labels,
                            "ownerReferences": [owner],
                        }
                    },
                )
                moment = "2026-01-01T00:00:00Z"
                self.set_status(
                    pod,
                    {
                        "phase": "Running",
                        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": moment}],
                        "containerStatuses": [{"name": "postgres", "restartCount": 0}],
                    },
                )
            status = {"observedGeneration": meta["generation"], "updateRevision": revision}
            if self.objects[ref].get("status") != status:
                self.set_status(ref, status)

    def state(self) -> dict[str, Any]:
        """Everything but uids, versions and times, for comparing two worlds."""
        uids = {obj["metadata"]["uid"]: f"{ref.type.kind}/{ref.name}" for ref, obj in self.objects.items()}
        return {
            str(ref): _plain(obj, uids) for ref, obj in sorted(self.objects.items(), key=lambda i: str(i[0]))
        }

    def _gate(self, type: ResourceType, verb: str) -> None:
        if self.refuse == type:
            raise Refused(status=403, reason="Forbidden", message="exceeded quota")
        self.writes[verb, type.kind] += 1

    def _insert(self, type: ResourceType, body: Object) -> Object:
        number = next(self._versions)
        body["metadata"] = {
            **body["metadata"],
            "uid": f"uid-{number}",
            "generation": 1,
            "resourceVersion": str(number),
        }
        self.objects[ref_of(type, body)] = body
        self.events.append(("ADDED", type, copy.deepcopy(body)))
        return body

    def _update(self, type: ResourceType, known: Object, wanted: Object, *, spec: bool = True) -> Object:
        wanted = copy.deepcopy(wanted)
        system = {name: known["metadata"][name] for name in ("uid", "generation", "resourceVersion")}
        wanted["metadata"] = {**wanted["metadata"], **system}
        if wanted == known:
            return copy.deepcopy(known)
        if spec and wanted.get("spec") != known.get("spec"):
            wanted["metadata"]["generation"] += 1
        wanted["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[ref_of(type, known)] = wanted
        self.events.append(("MODIFIED", type, copy.deepcopy(wanted)))
        return copy.deepcopy(wanted)


def _overlay(known: Any, body: Any, *, field: str = "") -> Any:
    if isinstance(known, dict) and isinstance(body, dict):
        return {
            **known,
            **{name: _overlay(known.get(name), value, field=name) for name, value in body.items()},
        }
    if isinstance(known, list) and isinstance(body, list) and field in LISTS:
        key, rest = LISTS[field], list(known)
        out = []
        for item in body:
            match = next((other for other in rest if other.get(key) == item.get(key)), None)
            if match is not None:
                rest.remove(match)
            out.append(_overlay(match, item))
        return out + rest
    return body


def _minus(before: Any, after: Any) -> Any:
    """Leaves of `before` that `after` no longer has, as a tree with None leaves."""
    if not isinstance(before, dict):
        return {}
    gone: Object = {}
    for name, value in before.items():
        if not isinstance(after, dict) or name not in after:
            gone[name] = None
        elif isinstance(value, dict) and (inner := _minus(value, after[name])):
            gone[name] = inner
    return gone


def _without(known: Object, *, removed: Object) -> Object:
    left: Object = merged(known, removed)
    return left


def merged(known: Any, patch: Any) -> Any:
    """RFC 7386, word for word."""
    if not isinstance(patch, dict):
        return patch
    out = dict(known) if isinstance(known, dict) else {}
    for name, value in patch.items():
        if value is None:
            out.pop(name, None)
        else:
            out[name] = merged(out.get(name), value)
    return out


def _plain(value: Any, uids: dict[str, str]) -> Any:
    volatile = {
        "resourceVersion",
        "generation",
        "observedGeneration",
        "lastTransitionTime",
        "controller-revision-hash",
        "updateRevision",
    }
    if isinstance(value, dict):
        # Passwords are random: that there is one is compared, not which.
        return {
            name: "*" if name in ("password", "uri") else _plain(inner, uids)
            for name, inner in value.items()
            if name not in volatile
        }
    if isinstance(value, list):
        return [_plain(inner, uids) for inner in value]
    return uids.get(value, value) if isinstance(value, str) else value
