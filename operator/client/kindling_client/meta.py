"""What every object of Kubernetes has, as far as users of custom resources meet it."""

from __future__ import annotations

from typing import Any, TypedDict


class ObjectMeta(TypedDict, total=False):
    """Name, namespace, labels and what the API server adds. Times are in RFC 3339, UTC."""

    name: str
    generateName: str
    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    finalizers: list[str]
    ownerReferences: list[dict[str, Any]]
    uid: str
    resourceVersion: str
    generation: int
    creationTimestamp: str
    deletionTimestamp: str
    deletionGracePeriodSeconds: int
    managedFields: list[dict[str, Any]]
