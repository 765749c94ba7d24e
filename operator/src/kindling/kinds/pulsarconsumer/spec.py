"""Reading a PulsarConsumer's spec: its defaults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kindling.kinds.amounts import merged
from kindling.kinds.pulsarconsumer import topics
from kindling.kinds.pulsarconsumer.topics import Topics
from kindling.kube.resources import Object

DEFAULT_TYPE = "Shared"
DEFAULT_POSITION = "Latest"
DEFAULT_CPU = "20m"
DEFAULT_MEMORY = "64Mi"
DEFAULT_MEMORY_LIMIT = "256Mi"


def _resources(given: Object | None) -> Object:
    return merged(given, cpu=DEFAULT_CPU, memory=DEFAULT_MEMORY, memory_limit=DEFAULT_MEMORY_LIMIT)


DEFAULT_RESOURCES = _resources(None)


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A spec with its defaults. `deadline` is None where Kubernetes decides."""

    server: str
    topics: Topics
    subscription: str
    subscription_type: str
    initial_position: str
    replicas: int
    image: str
    pull_secrets: tuple[str, ...]
    resources: Object
    env: list[Object]
    deadline: int | None


def read(cr: Object, *, default_image: str, pull_secrets: Sequence[str] = ()) -> Spec:
    """Total over what the CRD admits."""
    spec = cr.get("spec") or {}
    return Spec(
        server=server_of(cr),
        topics=topics.read(cr),
        subscription=str(spec.get("subscriptionName", "")),
        subscription_type=spec.get("subscriptionType") or DEFAULT_TYPE,
        initial_position=spec.get("initialPosition") or DEFAULT_POSITION,
        replicas=int(spec.get("replicas", 0)),
        image=spec.get("image") or default_image,
        pull_secrets=tuple(pull_secrets),
        resources=_resources(spec.get("resources")),
        env=list(spec.get("env") or ()),
        deadline=spec.get("progressDeadlineSeconds"),
    )


def server_of(cr: Object) -> str:
    return str((cr.get("spec") or {}).get("serverAddress", ""))
