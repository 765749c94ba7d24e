"""What a kind is to the engine: pure functions from a resource and what was observed to children and status.

A kind's room holds a class with these methods and nothing that does IO, reads a clock or draws a
random number: those come in through `Observed`. The registry (`kinds.registry`) names the rooms.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from kindling.kube.resources import SECRET, Object, Ref, ResourceType

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
NAME_LABEL = "app.kubernetes.io/name"
INSTANCE_LABEL = "app.kubernetes.io/instance"
KIND_LABEL = "kindling.dev/kind"
MANAGER = "kindling"


@dataclass(frozen=True, kw_only=True)
class Child:
    """One desired object, holding only the fields we own.

    `once` marks what is made by a plain create and whose content is then never written again (only
    its labels and owner are kept); everything else is applied. `waits` marks one that cannot be made
    yet, for want of a uid of those before it; until it can, those after it are not made either.
    """

    type: ResourceType
    body: Object
    once: bool = False
    waits: bool = False

    @property
    def ref(self) -> Ref:
        return Ref(self.type, self.body["metadata"]["namespace"], self.body["metadata"]["name"])


@dataclass(frozen=True, kw_only=True)
class Observed:
    """All that a decision may rest on. `entropy` is random, and the same throughout one pass."""

    children: Mapping[Ref, Object]
    now: datetime
    entropy: bytes

    def secret(self, *, namespace: str, name: str) -> dict[str, str]:
        """The decoded values of a Secret, empty where there is none (data that is not text is left out)."""
        found = self.children.get(Ref(SECRET, namespace, name), {}).get("data") or {}
        values: dict[str, str] = {}
        for key, value in found.items():
            try:
                values[key] = base64.b64decode(value).decode()
            except ValueError:
                continue
        return values

    def password(self, purpose: str) -> str:
        """A random password of 32 characters (190 bits), stable within this pass for each purpose."""
        digest = hmac.digest(self.entropy, purpose.encode(), hashlib.sha256)
        return base64.b64encode(digest, altchars=b"Zz").decode()[:32]


@dataclass(frozen=True)
class Done:
    """Nothing more to do until something changes."""


@dataclass(frozen=True)
class After:
    """Look again in so many seconds, even if nothing changes."""

    seconds: float


@dataclass(frozen=True)
class Invalid:
    """Nothing can be done before the spec changes."""

    reason: str


Outcome: TypeAlias = Done | After | Invalid


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Why children are not written: a closed `reason` in CamelCase, a `message` with the next step.

    `passing` when it mends itself (something is still being removed) rather than being a fault.
    """

    reason: str
    message: str
    passing: bool = False


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What an inquiry found; only a good one is remembered."""

    ok: bool
    reason: str = ""
    message: str = ""


class Inquiry(Protocol):
    """A question that only the running workload can answer (a login, say), put by a port."""

    @property
    def memo(self) -> Hashable:
        """Equal memos need not be asked twice once the answer was good; holds no secret."""
        ...


@dataclass(frozen=True, kw_only=True)
class Report:
    """The status to show (without lastTransitionTimes, which the engine keeps) and when to look again."""

    status: Object
    outcome: Outcome


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a pass came to know beside the observed objects.

    `settled`: every child is as desired. `problem`: why not, if something is wrong.
    `answer`: the inquiry's, if one was put.
    """

    settled: bool
    problem: Problem | None = None
    answer: Answer | None = None


class Kind(Protocol):
    """One kind of custom resource. Every method is pure and total over what the CRD admits."""

    @property
    def type(self) -> ResourceType: ...

    @property
    def children(self) -> tuple[ResourceType, ...]:
        """The types to watch for it, those it makes and those it looks at."""
        ...

    def refuse(self, cr: Object) -> Problem | None:
        """What is wrong with the spec that the CRD could not tell."""
        ...

    def secrets(self, cr: Object) -> Sequence[str]:
        """Names of the Secrets whose content is needed; read anew in each pass, never kept."""
        ...

    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        """All children, always, in the order they are made: the names alone tell of conflicts."""
        ...

    def inquire(self, cr: Object, observed: Observed) -> Inquiry | None: ...

    def status(self, cr: Object, observed: Observed, findings: Findings) -> Report: ...


def labels_of(type: ResourceType, cr: Object) -> dict[str, str]:
    """The labels of every child: they bring it into our watch and name its owner."""
    return {
        MANAGED_BY_LABEL: MANAGER,
        NAME_LABEL: type.kind.lower(),
        INSTANCE_LABEL: cr["metadata"]["name"],
        KIND_LABEL: type.label,
    }


def selector_of(type: ResourceType, cr: Object) -> dict[str, str]:
    """What selects the Pods of this resource and of no other, in this group and no other."""
    return {INSTANCE_LABEL: cr["metadata"]["name"], KIND_LABEL: type.label}


def owner_of(type: ResourceType, cr: Object) -> Object:
    """The owner reference to a resource, for the garbage collector.

    Without blockOwnerDeletion, which would need the right to set finalizers on the owner.
    """
    meta = cr["metadata"]
    return {
        "apiVersion": type.api_version,
        "kind": type.kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
