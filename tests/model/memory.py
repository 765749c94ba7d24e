"""An API server in memory: versions, apply, merge patch, status, garbage collection, a watch log.

Beside the tests that use it, since it is no test: the engine's worker runs against it as it would
against the real one, thousands of times a minute. What the model leaves out, the apiserver tier has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Container
from typing import Any, TypeVar

import orjson
from kindling.kube.errors import Conflict, NotFound, Rejected
from kindling.kube.resources import FIELD_MANAGER, ListPage, Object, Ref, ResourceType, ref_of

# Merged by these fields of their elements; any other list is replaced as a whole.
LISTS = {
    "containers": ("name",), "initContainers": ("name",), "volumes": ("name",), "env": ("name",),
    "volumeMounts": ("mountPath",), "ports": ("containerPort", "port", "protocol"),
    "ownerReferences": ("uid",), "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}  # fmt: skip
DELETED_AT = "2026-01-02T00:00:00Z"
ATOMIC = ("selector", "labelSelector", "podSelector", "namespaceSelector", "nodeSelector")
# What would be otherwise if it were left out.
SAID = (
    "automountServiceAccountToken",
    "enableServiceLinks",
    "allowPrivilegeEscalation",
    "replicas",
    "Healthy",
)
VOLATILE = (
    "resourceVersion", "generation", "observedGeneration", "lastTransitionTime", "updateRevision",
    "controller-revision-hash",
)  # fmt: skip
SECRET_KEYS = ("password", "users", "uri", "jdbc-uri", "pgpass", "tls.crt", "tls.key")
"""Of a Secret, those whose value has a password in it, or is a key or the certificate of one."""
T = TypeVar("T")


def copied(found: T) -> T:
    """As it would come over the wire, where nothing but JSON goes."""
    made: T = orjson.loads(orjson.dumps(found))
    return made


class MemoryApi:
    """`events` are those of all watches, in order: (type of event, resource type, object)."""

    def __init__(self) -> None:
        self.objects: dict[Ref, Object] = {}
        self.events: list[tuple[str, ResourceType, Object]] = []
        self.writes: Counter[tuple[str, str]] = Counter()
        # By uid: what is ours because we applied it, and what by creation, which no apply takes away.
        self._applied: dict[str, Object] = {}
        self._created: dict[str, Object] = {}
        self.version = 0
        self.warned: dict[tuple[Ref, str], list[Object]] = {}
        """The Warning Events of objects, by reference and uid."""
        self.refuse: ResourceType | None = None
        self.revisions: dict[str, tuple[str, Object]] = {}
        """By a workload's uid the revision and template that its controller would keep to (`workloads`)."""
        self.job_message: Callable[[Object], tuple[bool, str] | None] = lambda job: None
        """Whether a Job succeeds, and its Pod's termination message; None for one that leaves no Pod."""
        self.clock: Callable[[], str] = lambda: DELETED_AT
        """What a new Job and the condition of its Pod bear as their time."""
        self.unschedulable: set[str] = set()
        """Names of Jobs whose Pods no node takes."""
        self.starting: set[str] = set()
        """Names of Pods that are not ready yet."""
        self.called: set[str] = set()
        """Names of Deployments at whose Pods a connection waits."""

    # What the worker calls.

    async def get(self, ref: Ref) -> Object:
        if ref not in self.objects:
            raise NotFound(status=404, reason="NotFound", message=f"{ref} not found")
        return self._managed(self.objects[ref])

    async def apply(self, type: ResourceType, body: Object) -> Object:
        body = copied(body)
        ref = ref_of(type, {"metadata": {"namespace": "ns", **body["metadata"]}})
        known = self.objects.get(ref)
        self._gate(type, "apply")
        uid = body["metadata"].pop("uid", None)
        if uid is not None and (known is None or known["metadata"]["uid"] != uid):
            raise Conflict(status=409, reason="Conflict", message="uid does not match")
        if known is None:
            made = self._insert(type, body)
            self._applied[made["metadata"]["uid"]] = body
            return self._managed(made)
        uid = known["metadata"]["uid"]
        created = self._created.get(uid, {})
        before = {name: part for name, part in self._applied.get(uid, {}).items() if name not in created}
        self._update(type, known, _laid_over(known, before, body))
        self._applied[uid] = body
        return self._managed(self.objects[ref])

    async def create(self, type: ResourceType, body: Object) -> Object:
        self._gate(type, "create")
        if ref_of(type, body) in self.objects:
            raise Conflict(status=409, reason="AlreadyExists", message=f"{ref_of(type, body)} exists")
        made = self._insert(type, copied(body))
        self._created[made["metadata"]["uid"]] = copied(body)
        return self._managed(made)

    async def merge(self, ref: Ref, patch: Object, *, subresource: str | None = None) -> Object:
        known = await self.get(ref)
        self._gate(ref.type, subresource or "patch")
        if patch.get("metadata", {}).get("uid", known["metadata"]["uid"]) != known["metadata"]["uid"]:
            raise Rejected(status=422, reason="Invalid", message="metadata.uid: field is immutable")
        version = known["metadata"]["resourceVersion"]
        if patch.get("metadata", {}).get("resourceVersion", version) != version:
            raise Conflict(status=409, reason="Conflict", message="the object has been modified")
        if "managedFields" in patch.get("metadata", {}):
            self._own(known["metadata"]["uid"], patch["metadata"]["managedFields"])
        return self._update(ref.type, self.objects[ref], merged(known, patch), spec=subresource is None)

    async def delete(self, ref: Ref, *, uid: str, resource_version: str | None = None) -> None:
        known = await self.get(ref)
        self._gate(ref.type, "delete")
        if known["metadata"]["uid"] != uid:
            raise Conflict(status=409, reason="Conflict", message="uid does not match")
        if resource_version not in (None, known["metadata"]["resourceVersion"]):
            raise Conflict(status=409, reason="Conflict", message="the object has been modified")
        self.remove(ref)

    async def pages(
        self, type: ResourceType, *, namespace: str | None, selector: str = "", metadata: bool = False
    ) -> AsyncIterator[ListPage]:
        label, _, value = selector.partition("=")
        items = [
            copied(obj)
            for ref, obj in self.objects.items()
            if ref.type == type
            and namespace in (None, ref.namespace)
            and (not selector or (obj["metadata"].get("labels") or {}).get(label) == value)
        ]
        half = len(items) // 2
        yield ListPage(self.version, items[:half])
        yield ListPage(self.version, items[half:])

    async def warnings(self, ref: Ref, *, uid: str) -> list[Object]:
        return [copied(event) for event in self.warned.get((ref, uid), ())]

    def _managed(self, obj: Object) -> Object:
        """A copy that says which of its fields are ours, as managedFields does, in fewer words."""
        ours = {"Update": self._created, "Apply": self._applied}
        managers = [
            {"manager": FIELD_MANAGER, "operation": operation, "fieldsV1": {operation: {}}}
            for operation, known in ours.items()
            if obj["metadata"]["uid"] in known
        ]
        found = copied(obj)
        found["metadata"]["managedFields"] = managers
        return found

    def _own(self, uid: str, managers: list[Object]) -> None:
        """Our fields are those that are said to be from now on."""
        fields = {entry["operation"]: entry["fieldsV1"] for entry in managers}
        created = {} if "Update" in fields else self._created.pop(uid, {})
        if "Update" in fields.get("Apply", {}):
            self._applied[uid] = _laid_over(created, {}, self._applied.get(uid, {}))

    def _next(self) -> int:
        self.version += 1
        return self.version

    # What users, controllers and kubelets do.

    def put(self, type: ResourceType, body: Object) -> Object:
        """Create or replace, as a user would."""
        known = self.objects.get(ref_of(type, body))
        if known is None:
            return self._insert(type, copied(body))
        return self._update(type, known, {**copied(known), **copied(body), "metadata": known["metadata"]})

    def edit(self, ref: Ref, patch: Object) -> None:
        self._update(ref.type, self.objects[ref], merged(self.objects[ref], patch))

    def set_status(self, ref: Ref, status: Object) -> None:
        self._update(ref.type, self.objects[ref], {**self.objects[ref], "status": status}, spec=False)

    def change(self, ref: Ref, obj: Object) -> None:
        """Replace, whatever may be in there: all but who it is."""
        self._update(ref.type, self.objects[ref], obj)

    def ours(self, ref: Ref) -> Object:
        """What of it was created by us or last applied."""
        uid = self.objects[ref]["metadata"]["uid"]
        ours: Object = _laid_over(self._created.get(uid, {}), {}, self._applied.get(uid, {}))
        return ours

    def remove(self, ref: Ref, *, collect: bool = True) -> None:
        """Delete, and whatever has no owner left: now, or whenever `collect` is called."""
        meta = self.objects[ref]["metadata"]
        if meta.get("finalizers"):
            if "deletionTimestamp" not in meta:
                self.edit(ref, {"metadata": {"deletionTimestamp": DELETED_AT}})
            return
        gone = self.objects.pop(ref)
        gone["metadata"]["resourceVersion"] = str(self._next())
        self.events.append(("DELETED", ref.type, copied(gone)))
        if collect:
            self.collect()

    def collect(self) -> None:
        """As the garbage collector does: what has no owner left goes; what has one forgets the others."""
        alive = {obj["metadata"]["uid"] for obj in self.objects.values()}
        for ref, obj in list(self.objects.items()):
            owners = obj["metadata"].get("ownerReferences") or []
            left = [owner for owner in owners if owner["uid"] in alive]
            if ref not in self.objects or len(left) == len(owners):
                continue
            if left:
                self.edit(ref, {"metadata": {"ownerReferences": left}})
            else:
                self.remove(ref)

    def state(self, *, remembered: Container[str] = ()) -> dict[Ref, Any]:
        """Everything but uids, versions, times and the fields `remembered`, for comparing two worlds."""
        uids = {obj["metadata"]["uid"]: f"{ref.type.kind}/{ref.name}" for ref, obj in self.objects.items()}
        return {ref: _plain(obj, uids, remembered) for ref, obj in self.objects.items()}

    def _gate(self, type: ResourceType, verb: str) -> None:
        if self.refuse == type:
            raise Rejected(status=403, reason="Forbidden", message="exceeded quota")
        self.writes[verb, type.kind] += 1

    def _insert(self, type: ResourceType, body: Object) -> Object:
        _default_and_check(type, body)
        if "." in type.group and not type.group.endswith(".k8s.io"):  # a CRD's default, as ours have it
            body.setdefault("status", {"observedGeneration": -1})
        number = self._next()
        body["metadata"] = {
            **body["metadata"],
            "uid": f"uid-{number}",
            "generation": 1,
            "resourceVersion": str(number),
            **({"creationTimestamp": self.clock()} if type.plural == "jobs" else {}),
        }
        self.objects[ref_of(type, body)] = body
        self.events.append(("ADDED", type, copied(body)))
        return body

    def _update(self, type: ResourceType, known: Object, wanted: Object, *, spec: bool = True) -> Object:
        wanted = copied(wanted)
        system = {name: known["metadata"][name] for name in ("uid", "generation", "resourceVersion")}
        wanted["metadata"] = {**wanted["metadata"], **system}
        wanted["metadata"].pop("managedFields", None)
        _default_and_check(type, wanted, known)
        if wanted == known:
            return copied(known)
        ends = "deletionTimestamp" in wanted["metadata"] and "deletionTimestamp" not in known["metadata"]
        if ends or (spec and wanted.get("spec") != known.get("spec")):
            wanted["metadata"]["generation"] += 1
        wanted["metadata"]["resourceVersion"] = str(self._next())
        self.objects[ref_of(type, known)] = wanted
        self.events.append(("MODIFIED", type, copied(wanted)))
        held, left = (obj["metadata"].get("finalizers") for obj in (known, wanted))
        if held and not left and "deletionTimestamp" in wanted["metadata"]:
            self.remove(ref_of(type, known))
        return copied(wanted)


def _default_and_check(type: ResourceType, obj: Object, known: Object | None = None) -> None:
    """:raises Refused: for what the API server would not have, as far as it matters here."""
    owners = obj["metadata"].get("ownerReferences") or ()
    spec = obj.get("spec") or {}
    template = spec.get("template")
    listed = [spec.get("ports") or ()]
    wrong = None
    if type.plural == "jobs":
        if known is not None and known["spec"]["template"] != spec.get("template"):
            raise Rejected(status=422, reason="Invalid", message="spec.template: field is immutable")
        return
    if sum(bool(owner.get("controller")) for owner in owners) > 1:
        wrong = "only one reference can have controller set to true"
    if isinstance(template, dict):
        spec.setdefault("replicas", 1)
    if isinstance(template, dict) or isinstance(((known or {}).get("spec") or {}).get("template"), dict):
        selector = (spec.get("selector") or {}).get("matchLabels") or {}
        labels = ((template or {}).get("metadata") or {}).get("labels") or {}
        containers = ((template or {}).get("spec") or {}).get("containers") or ()
        listed += [container.get("ports") or () for container in containers]
        named = [container.get("name") for container in containers]
        if not named or not all(named) or not selector or not selector.items() <= labels.items():
            wrong = "a template whose Pods the selector selects is required"
        elif known is not None and known["spec"]["selector"] != spec["selector"]:
            wrong = "spec.selector: field is immutable"
    for ports in listed:
        names = [port.get("name") for port in ports]
        if len(names) > len(set(names)):
            wrong = f"duplicate port name in {names}"
    if wrong:
        raise Rejected(status=422, reason="Invalid", message=wrong)


def _laid_over(known: Any, before: Any, body: Any, *, field: str = "") -> Any:
    """Server-side apply of `body` by one who applied `before`: what they no longer say goes."""
    if isinstance(body, dict) and isinstance(known, dict) and field not in ATOMIC:
        before = before if isinstance(before, dict) else {}
        kept = {name: value for name, value in known.items() if name in body or name not in before}
        ours = {n: _laid_over(known.get(n), before.get(n), value, field=n) for n, value in body.items()}
        return {**kept, **ours}
    if isinstance(body, list) and isinstance(known, list) and field in LISTS:
        old = {_key(item, field): item for item in before or ()}
        there = {_key(item, field): item for item in known}
        ours = {
            _key(i, field): _laid_over(there.get(_key(i, field)), old.get(_key(i, field)), i) for i in body
        }
        return [*ours.values(), *(item for key, item in there.items() if key not in ours and key not in old)]
    return body


def _key(item: Object, field: str) -> tuple[Any, ...]:
    return tuple(item.get(name) for name in LISTS[field])


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


def _plain(value: Any, uids: dict[str, str], left_out: Container[str]) -> Any:
    if isinstance(value, dict):
        # Passwords and keys are random: that there is one is compared, not which. Empty is as good as absent.
        plain = {
            name: "*" if name in SECRET_KEYS else _plain(inner, uids, left_out)
            for name, inner in value.items()
            if name not in VOLATILE and name not in left_out
        }
        return {name: inner for name, inner in plain.items() if inner or name in SAID}
    if isinstance(value, list):
        return [_plain(inner, uids, left_out) for inner in value]
    return uids.get(value, value) if isinstance(value, str) else value
