"""A cluster of processes for the operator's tests: API server, controllers, a node's words, and us in it.

The operator comes with the rights of the shipped table and no others, so that a verb that is missing
there fails these tests. What is asked of the cluster is asked through `Cluster`, by resource type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kindling.kinds.base import Kind
from kindling.kinds.metadata import KIND_LABEL, named_in
from kindling.kinds.registry import kinds
from kindling.kube.resources import POD, Ref, ResourceType

from infra import rbac
from tests.apiserver.support import audit
from tests.apiserver.support.accounts import log_in, user_name, with_rights
from tests.apiserver.support.apiclient import Api, Json, Response
from tests.apiserver.support.audit import Audit, wait_until
from tests.apiserver.support.controllers import controllers
from tests.apiserver.support.controlplane import ControlPlane, Program, control_plane
from tests.apiserver.support.kinds import CRD_COLLECTION, KINDS, MINIMAL_SPECS, REPOSITORY
from tests.apiserver.support.kubelet import End, kubelet, succeeds

NAMESPACE, ACCOUNT = "kindling-system", "kindling-operator"
USER = user_name(NAMESPACE, ACCOUNT)
START_SECONDS = 60.0
# A machine that does other things beside this one can be slow; how long it took is printed.
SECONDS = 30.0

IMAGES: Mapping[str, str] = {
    path.parent.name: f"kindling.invalid/{path.parent.name}:1"
    for path in (REPOSITORY / "operator" / "images").glob("*/Containerfile")
}
KINDS_BY_NAME: Mapping[str, Kind] = {f"{kind.type.plural}.{kind.type.group}": kind for kind in kinds(IMAGES)}
"""Every kind of the registry, by the name of its CRD."""


@dataclass(frozen=True)
class Cluster:
    """`plane` is the administrator's way in, `operator_plane` the operator's. `manager`: the controllers."""

    plane: ControlPlane
    operator_plane: ControlPlane
    api: Api
    audit: Audit
    manager: Program

    def log_in(self, name: str) -> ControlPlane:
        """Access for the operator with a token of its own: the audit log distinguishes replicas by it."""
        return log_in(self.plane, self.api, namespace=NAMESPACE, account=ACCOUNT, name=name)

    def namespace(self, name: str, **labels: str) -> str:
        """A new namespace."""
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}}).accepted()
        return name

    def create(self, kind: Kind, namespace: str, name: str, spec: Json | None = None) -> Json:
        """A new resource of that kind, with the least spec it admits if none is given."""
        body = {
            "apiVersion": kind.type.api_version,
            "kind": kind.type.kind,
            "metadata": {"name": name},
            "spec": MINIMAL_SPECS[f"{kind.type.plural}.{kind.type.group}"] if spec is None else spec,
        }
        return self.api.create(kind.type.path(namespace=namespace), body).accepted()

    def get(self, ref: Ref) -> Json | None:
        answer = self.api.get(path(ref))
        return None if answer.status == 404 else answer.accepted()

    def merge(self, ref: Ref, patch: Json) -> Json:
        return self.api.merge(path(ref), patch).accepted()

    def replace(self, ref: Ref, body: Json) -> Response:
        """PUT, whatever version it had."""
        meta = {key: value for key, value in body["metadata"].items() if key != "resourceVersion"}
        return self.api.request("PUT", path(ref), body={**body, "metadata": meta})

    def delete(self, ref: Ref) -> None:
        self.api.delete(path(ref)).accepted()

    def list(self, type: ResourceType, namespace: str, *, selector: Mapping[str, str]) -> list[Json]:
        words = ",".join(f"{label}={value}" for label, value in selector.items())
        listed = self.api.request("GET", type.path(namespace=namespace), query={"labelSelector": words})
        head = {"apiVersion": type.api_version, "kind": type.kind}  # The items of a list do not say it.
        return [{**head, **item} for item in listed.accepted()["items"]]

    def children(self, kind: Kind, namespace: str, name: str) -> dict[Ref, Json]:
        """The objects that the operator wrote for a resource."""
        selector = {KIND_LABEL: kind.type.group_kind}
        return {
            Ref(type, namespace, item["metadata"]["name"]): item
            for type in kind.children
            if type != POD
            for item in self.list(type, namespace, selector=selector)
            if named_in(item["metadata"]["labels"]) == name
            and "kindling" in {entry["manager"] for entry in item["metadata"]["managedFields"]}
        }

    def ready(self, ref: Ref) -> Json:
        """Its condition Ready, empty while there is none."""
        conditions = ((self.get(ref) or {}).get("status") or {}).get("conditions", [])
        return next((item for item in conditions if item["type"] == "Ready"), {})

    def wait_settled(self, *refs: Ref, seconds: float = SECONDS) -> None:
        """Until the status of each is of its generation and says no progress, and nothing is written."""
        for ref in refs:
            wait_until(partial(self._reported, ref), seconds=seconds, what=partial(self._unsettled, ref))
        self.audit.wait_quiet()

    def wait_ready_reason(self, ref: Ref, reason: str, *, seconds: float = SECONDS) -> Json:
        """Until Ready has that reason; returns the condition."""
        wait_until(
            lambda: self.ready(ref).get("reason") == reason,
            seconds=seconds,
            what=lambda: f"{ref}: reason {reason}; Ready is {self.ready(ref)}",
        )
        return self.ready(ref)

    def everything(self) -> Iterator[Json]:
        """Every object that the API holds."""
        versions = ["/api/v1"]
        for group in self.api.get("/apis").accepted()["groups"]:
            versions.append(f"/apis/{group['preferredVersion']['groupVersion']}")
        for version in versions:
            for served in self.api.get(version).accepted()["resources"]:
                if "list" in served["verbs"]:
                    head = {"apiVersion": version.split("/", 2)[2], "kind": served["kind"]}
                    for item in self.api.get(f"{version}/{served['name']}").accepted()["items"]:
                        yield {**head, **item}

    def _unsettled(self, ref: Ref) -> str:
        pods = self.api.get(f"/api/v1/namespaces/{ref.namespace}/pods").accepted()["items"]
        shown = {pod["metadata"]["name"]: (pod.get("status") or {}).get("phase") for pod in pods}
        return f"{ref} settled: Ready is {self.ready(ref)}; the Pods are {shown}"

    def _reported(self, ref: Ref) -> bool:
        found = self.get(ref)
        assert found is not None, f"{ref} is gone"
        status = found.get("status") or {}
        under_way = {"type": "Progressing", "status": "True"}
        return status.get("observedGeneration") == found["metadata"]["generation"] and not any(
            under_way.items() <= item.items() for item in status["conditions"]
        )


def path(ref: Ref) -> str:
    """Where an object is in the API."""
    return ref.type.path(namespace=ref.namespace, name=ref.name)


def ref_to(kind: Kind, namespace: str, name: str) -> Ref:
    return Ref(kind.type, namespace, name)


@contextmanager
def cluster(
    *, directory: Path, options: Sequence[str] = (), end: End = succeeds, audited: Sequence[str] = ()
) -> Iterator[Cluster]:
    """Everything but the operator, with the CRDs served and the operator's rights in force.

    `options` are given to kube-apiserver beside its own; `end` says how the Pods of Jobs end. The audit log
    has the operator's requests, and those of the users in `audited`.
    """
    given = [*audit.options(directory, user=USER, others=audited), *options]
    with (
        control_plane(directory=directory, options=given) as plane,
        closing(Api(plane)) as api,
    ):
        for kind in KINDS.values():
            api.create(CRD_COLLECTION, kind.manifest).accepted()
        for kind in KINDS.values():
            wait_until(
                partial(_served, api, kind.collection),
                seconds=START_SECONDS,
                what=f"{kind.id} being served",
            )
        limited = shipped_rights(plane, api)
        with controllers(plane) as manager, kubelet(plane, end=end):
            yield Cluster(plane, limited, api, Audit(directory), manager)


def _served(api: Api, collection: str) -> bool:
    return api.get(collection).status == 200


def shipped_rights(plane: ControlPlane, api: Api) -> ControlPlane:
    """The operator's ServiceAccount, with the rules of the shipped table bound to it."""
    return with_rights(
        plane,
        api,
        namespace=NAMESPACE,
        account=ACCOUNT,
        rules=[role_rule(rule) for rule in rbac.cluster_rules()],
        own_rules=[role_rule(rule) for rule in rbac.OWN_NAMESPACE_RULES],
    )


def role_rule(rule: rbac.Rule) -> Json:
    """A row of the table as RBAC has it."""
    named = {"resourceNames": list(rule.names)} if rule.names else {}
    return {
        "apiGroups": [rule.group],
        "resources": list(rule.resources),
        "verbs": list(rule.verbs),
        **named,
    }
