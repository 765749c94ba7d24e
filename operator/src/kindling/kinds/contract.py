"""What a kind is to the engine: pure functions from a resource and what was observed to children and status.

A kind's room holds a class with these methods and nothing that does IO, reads a clock or draws a
random number: those come in through `Observed`. The registry (`kinds.registry`) names the rooms.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeAlias

from kindling.kube.resources import SECRET, Object, Ref, ResourceType

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
NAME_LABEL = "app.kubernetes.io/name"
INSTANCE_LABEL = "app.kubernetes.io/instance"
KIND_LABEL = "kindling.dev/kind"
MANAGER = "kindling"
SELECTOR = f"{MANAGED_BY_LABEL}={MANAGER}"
"""What all children are selected by."""


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


class Sought(NamedTuple):
    """Somebody else's object that a resource looks at, by name; without a namespace, in any of them."""

    type: ResourceType
    name: str
    namespace: str | None = None


@dataclass(frozen=True, kw_only=True)
class Observed:
    """All that a decision may rest on. `entropy` is random, and the same throughout one pass.

    `children` also holds the Secrets that the kind asked for, with their content. `sought` holds what
    is there of the objects it looks at, in their bare metadata.
    """

    children: Mapping[Ref, Object]
    now: datetime
    entropy: bytes
    sought: Mapping[Ref, Object] = field(default_factory=dict)

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
    """What an inquiry found; only a good one is remembered.

    `facts` are what else it learnt, for the kind's status; no secrets.
    """

    ok: bool
    reason: str = ""
    message: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


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
    `answer`: the inquiry's, if one was put. `paused`: nothing is written, whatever differs.
    """

    settled: bool
    problem: Problem | None = None
    answer: Answer | None = None
    paused: bool = False


class Kind(ABC):
    """One kind of custom resource. Every method is pure and total over what the CRD admits.

    A room says what it desires and how that stands; the rest has defaults, for those who need none of it.
    """

    type: ResourceType
    children: tuple[ResourceType, ...] = ()
    """The types of what it makes, and of what those make in turn, as far as it looks at them."""

    sights: tuple[ResourceType, ...] = ()
    """The types it looks at beyond its own children: watched whole, not by our label."""

    def seeks(self, cr: Object) -> Sequence[Sought]:
        """The objects of `sights` whose coming, changing and going concern this resource."""
        return ()

    def refuse(self, cr: Object, observed: Observed) -> Problem | None:
        """What keeps us from acting that the CRD could not tell: nothing is written while it lasts."""
        return None

    def paused(self, cr: Object) -> bool:
        """Whether to observe only."""
        return False

    def secrets(self, cr: Object) -> Sequence[str]:
        """Names of the Secrets whose content is needed; read anew in each pass, never kept."""
        return ()

    @abstractmethod
    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        """All children, always, in the order they are made: the names alone tell of conflicts."""

    def inquire(self, cr: Object, observed: Observed) -> Inquiry | None:
        """What to ask of the running workload, once its children are as desired."""
        return None

    @abstractmethod
    def status(self, cr: Object, observed: Observed, findings: Findings) -> Report:
        """The whole status, judged by what was observed, never by what is desired."""


def child_metadata(type: ResourceType, cr: Object, *, name: str) -> Object:
    """The metadata of a child of that name: in the resource's namespace, labelled and owned by it."""
    return {
        "namespace": cr["metadata"]["namespace"],
        "name": name,
        "labels": labels_of(type, cr),
        "ownerReferences": [owner_of(type, cr)],
    }


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
