"""Reading a PulsarConsumer's spec: defaults, and what only the cluster knows to be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kindling.kinds import reasons
from kindling.kinds.amounts import merged
from kindling.kinds.base import Observed, Problem
from kindling.kube.resources import SECRET, Object, Ref

DEFAULT_TYPE = "Shared"
DEFAULT_POSITION = "Latest"
DEFAULT_TOKEN_KEY = "token"
DEFAULT_CPU = "20m"
DEFAULT_MEMORY = "64Mi"
DEFAULT_MEMORY_LIMIT = "256Mi"


class TokenRef(NamedTuple):
    """Where the token is: a Secret of the resource's namespace, and a key in it."""

    secret: str
    key: str


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A spec with its defaults. `deadline` is None where Kubernetes decides."""

    server: str
    topic: str
    subscription: str
    subscription_type: str
    initial_position: str
    replicas: int
    image: str
    pull_secrets: tuple[str, ...]
    token: TokenRef | None
    resources: Object
    env: list[Object]
    deadline: int | None


def read(cr: Object, *, default_image: str, pull_secrets: Sequence[str] = ()) -> Spec:
    """Total over what the CRD admits."""
    spec = cr.get("spec") or {}
    return Spec(
        server=server_of(cr),
        topic=str(spec.get("topic", "")),
        subscription=str(spec.get("subscriptionName", "")),
        subscription_type=spec.get("subscriptionType") or DEFAULT_TYPE,
        initial_position=spec.get("initialPosition") or DEFAULT_POSITION,
        replicas=int(spec.get("replicas", 0)),
        image=spec.get("image") or default_image,
        pull_secrets=tuple(pull_secrets),
        token=token_of(cr),
        resources=merged(
            spec.get("resources"),
            cpu=DEFAULT_CPU,
            memory=DEFAULT_MEMORY,
            memory_limit=DEFAULT_MEMORY_LIMIT,
        ),
        env=list(spec.get("env") or ()),
        deadline=spec.get("progressDeadlineSeconds"),
    )


def server_of(cr: Object) -> str:
    return str((cr.get("spec") or {}).get("serverAddress", ""))


def token_of(cr: Object) -> TokenRef | None:
    found = ((cr.get("spec") or {}).get("auth") or {}).get("tokenSecretRef") or {}
    name = found.get("name")
    return TokenRef(str(name), str(found.get("key") or DEFAULT_TOKEN_KEY)) if name else None


def validate(cr: Object, observed: Observed) -> Problem | None:
    """Without its token a consumer could not start; those that run have theirs and go on."""
    token, namespace = token_of(cr), cr["metadata"]["namespace"]
    if token is None or observed.secret(namespace=namespace, name=token.secret).get(token.key):
        return None
    secret = f"Secret {token.secret!r} of spec.auth.tokenSecretRef"
    if Ref(SECRET, namespace, token.secret) not in observed.objects:
        wrong = f"{secret} is not in namespace {namespace!r}: create it"
    else:
        wrong = f"{secret} has no key {token.key!r}: put the token there"
    return Problem(reason=reasons.SECRET_NOT_FOUND, message=f"{wrong}, or refer to another one.")
