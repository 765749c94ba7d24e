"""Typed access to the resources of one kind in one namespace, by any object with the methods of
`kubernetes.client.CustomObjectsApi`.

Nothing but the standard library is imported. Errors of the API are those of the object that is given:
`kubernetes.client.ApiException`, say.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

T = TypeVar("T", bound=Mapping[str, object])

FIELD_MANAGER = "kindling-client"
APPLY = "application/apply-patch+yaml"


class CustomObjects(Protocol):
    """The methods of `kubernetes.client.CustomObjectsApi` that are called; each returns parsed JSON."""

    def get_namespaced_custom_object(
        self, group: str, version: str, namespace: str, plural: str, name: str, /
    ) -> Any: ...

    def list_namespaced_custom_object(
        self, group: str, version: str, namespace: str, plural: str, /, *, label_selector: str
    ) -> Any: ...

    def create_namespaced_custom_object(
        self, group: str, version: str, namespace: str, plural: str, body: Any, /
    ) -> Any: ...

    def patch_namespaced_custom_object(
        self,
        group: str,
        version: str,
        namespace: str,
        plural: str,
        name: str,
        body: Any,
        /,
        *,
        field_manager: str,
        force: bool,
        _content_type: str,
    ) -> Any: ...

    def delete_namespaced_custom_object(
        self, group: str, version: str, namespace: str, plural: str, name: str, /
    ) -> Any: ...


@dataclass(frozen=True)
class ResourceKind(Generic[T]):
    """A kind whose resources are of the type `T`; each module of a kind has its own as `RESOURCE`."""

    group: str
    version: str
    kind: str
    plural: str


class Client(Generic[T]):
    """The resources of one kind in one namespace."""

    def __init__(self, api: CustomObjects, kind: ResourceKind[T], namespace: str) -> None:
        self._api = api
        self._kind = kind
        self._namespace = namespace
        self._place = (kind.group, kind.version, namespace, kind.plural)

    def get(self, name: str) -> T:
        return cast(T, self._api.get_namespaced_custom_object(*self._place, name))

    def list(self, *, label_selector: str = "") -> builtins.list[T]:
        """All of them, or those with these labels: `team=a,tier!=test`."""
        found = self._api.list_namespaced_custom_object(*self._place, label_selector=label_selector)
        return cast(builtins.list[T], found["items"])

    def create(self, resource: T) -> T:
        return cast(T, self._api.create_namespaced_custom_object(*self._place, dict(resource)))

    def apply(self, resource: T, *, field_manager: str = FIELD_MANAGER, force: bool = False) -> T:
        """Create it, or make its fields so, by server-side apply; returns what the API server has then.

        A field that this manager applied before and that is no longer in `resource` is removed. The API
        answers 409 where another manager has the field at another value, unless `force` takes it over.
        The status and `metadata.managedFields`, of a resource that was read, are not sent. Its
        `metadata.resourceVersion` is: then the API answers 409 too if it has changed since.

        :raises ValueError: if the resource has no name
        """
        metadata = dict(cast(Mapping[str, Any], resource["metadata"]))
        metadata.pop("managedFields", None)
        name = metadata.get("name")
        if not name:
            raise ValueError("metadata.name is missing: apply needs it, generateName is for create")
        body = {key: value for key, value in resource.items() if key != "status"}
        found = self._api.patch_namespaced_custom_object(
            *self._place,
            name,
            {**body, "metadata": metadata},
            field_manager=field_manager,
            force=force,
            _content_type=APPLY,
        )
        return cast(T, found)

    def delete(self, name: str) -> None:
        """Have it deleted; it is gone once its finalizers are."""
        self._api.delete_namespaced_custom_object(*self._place, name)

    def wait_ready(self, name: str, *, timeout_seconds: float, poll_seconds: float = 1.0) -> T:
        """Read it until its condition Ready is True for its latest generation; returns it as read then.

        :raises TimeoutError: after `timeout_seconds`, with the condition's reason and message
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            resource = self.get(name)
            why = _not_ready(resource)
            if not why:
                return resource
            left = deadline - time.monotonic()
            if left <= 0:
                what = f"{self._kind.kind} {self._namespace}/{name}"
                raise TimeoutError(f"{what} is not ready after {timeout_seconds:g} s: {why}")
            time.sleep(min(poll_seconds, left))


def _not_ready(resource: Mapping[str, object]) -> str:
    """Why it is not ready; empty if it is."""
    metadata = cast(Mapping[str, Any], resource["metadata"])
    status = cast(Mapping[str, Any], resource.get("status") or {})
    ready = next((found for found in status.get("conditions", ()) if found["type"] == "Ready"), None)
    if ready is None:
        return "it has no condition Ready yet; is the operator running?"
    reported = status.get("observedGeneration", ready.get("observedGeneration", 0))
    said = f"{ready.get('reason', '')}: {ready.get('message', '')}"
    if reported < metadata.get("generation", 0):
        return f"the operator has not reported on generation {metadata['generation']} yet; before it, {said}"
    return "" if ready["status"] == "True" else said
