"""Names of things in the API: resource types, references, and the JSON shape of objects.

Free of any client, because the pure packages (`kinds`, `engine.plan`) name resources too.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object, or a part of one, as JSON: dicts in, dicts out."""

FIELD_MANAGER = "kindling"


@dataclass(frozen=True)
class ResourceType:
    """One served resource; `group` is empty for the core group."""

    group: str
    version: str
    kind: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> str:
        """`<lowercase kind>.<group>`: names the kind in labels, keys, logs and metrics."""
        return f"{self.kind.lower()}.{self.group}" if self.group else self.kind.lower()

    def path(self, *, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path; without a namespace, of the whole cluster."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace is not None:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part is not None]
        return "/".join(parts)


class Ref(NamedTuple):
    """Where one namespaced object lives."""

    type: ResourceType
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.type.kind} {self.namespace}/{self.name}"


PAGE_SIZE = 100
"""Objects listed at once. Parsed, each takes dozens of KiB, and several types are listed at the same time."""


class ListPage(NamedTuple):
    """A page of what was there at a version of the server's store, with which each object's own compares."""

    version: int
    items: list[Object]


def version_of(obj: Object) -> int:
    # Comparable as a number within one resource type: Kubernetes 1.35 says so, all servers do so.
    return int(obj["metadata"].get("resourceVersion") or 0)


def ref_of(type: ResourceType, obj: Object) -> Ref:
    """The caches keep it, of all objects: they share the names of their namespaces."""
    return Ref(type, sys.intern(obj["metadata"].get("namespace", "")), obj["metadata"]["name"])


CONFIG_MAP = ResourceType("", "v1", "ConfigMap", "configmaps")
POD = ResourceType("", "v1", "Pod", "pods")
SECRET = ResourceType("", "v1", "Secret", "secrets")
SERVICE = ResourceType("", "v1", "Service", "services")
VOLUME_CLAIM = ResourceType("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
DEPLOYMENT = ResourceType("apps", "v1", "Deployment", "deployments")
STATEFUL_SET = ResourceType("apps", "v1", "StatefulSet", "statefulsets")
JOB = ResourceType("batch", "v1", "Job", "jobs")
CRON_JOB = ResourceType("batch", "v1", "CronJob", "cronjobs")
NETWORK_POLICY = ResourceType("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
DISRUPTION_BUDGET = ResourceType("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
LEASE = ResourceType("coordination.k8s.io", "v1", "Lease", "leases")
CERTIFICATE = ResourceType("cert-manager.io", "v1", "Certificate", "certificates")
EVENT = ResourceType("events.k8s.io", "v1", "Event", "events")
SEEN_WHOLE = frozenset({VOLUME_CLAIM})
"""What of others is not seen by its metadata alone: whether a claim can be used, its spec and status say."""
