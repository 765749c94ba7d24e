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
RESOURCE_LABEL = "kindling.dev/name"
"""The resource's name on what may have no owner: by INSTANCE_LABEL, Argo CD would take that for its own."""
MANAGER = "kindling"
SELECTOR = f"{MANAGED_BY_LABEL}={MANAGER}"
"""What all children are selected by."""


@dataclass(frozen=True, kw_only=True)
class Child:
    """One desired object, holding only the fields we own.

    `once` marks what is made by a plain create and whose content is then never written again (only
    its labels and owner are kept); everything else is applied. `waits` marks one that cannot be made
    yet, for want of a uid of those before it; until it can, those after it are not made either. `held`
    marks one that is left as it is, once it is there.
    """

    type: ResourceType
    body: Object
    once: bool = False
    waits: bool = False
    held: bool = False

    @property
    def ref(self) -> Ref:
        return Ref(self.type, self.body["metadata"]["namespace"], self.body["metadata"]["name"])


class Sought(NamedTuple):
    """Somebody else's object that a resource looks at, by name; without a namespace, in any of them."""

    type: ResourceType
    name: str
    namespace: str | None = None


class Said(NamedTuple):
    """The newest Warning Event of an object: its reason, its words, and when it was last said."""

    reason: str
    note: str
    at: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What an inquiry found; a good one is believed until a health check says otherwise.

    `facts` are what else it learnt, for the kind's status; no secrets.
    """

    ok: bool
    reason: str = ""
    message: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Heard:
    """An answer, and the memo of the inquiry that it is the answer to."""

    memo: Hashable
    answer: Answer


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Where a resource stands in the line of those that the operator is to restart, one at a time.

    `place` counts from 1, of `length`. `halted`: the one whose turn it is has not become Ready again in time.
    """

    granted: bool = False
    place: int = 0
    length: int = 0
    halted: bool = False


@dataclass(frozen=True, kw_only=True)
class Observed:
    """All that a decision may rest on. `entropy` is random, and the same throughout one pass.

    `children` also holds the Secrets that the kind asked for, with their content. `sought` holds what
    is there of the objects it looks at, in their bare metadata. `heard` is the last answer that this
    process had for the resource, if any: what may be written once the workload knows of it rests on that.
    `turn` is the answer to `wants_turn`.
    `warnings` holds what was said of the children that the kind asked about, for the status alone.
    """

    children: Mapping[Ref, Object]
    now: datetime
    entropy: bytes
    sought: Mapping[Ref, Object] = field(default_factory=dict)
    heard: Heard | None = None
    turn: Turn = Turn()
    warnings: Mapping[Ref, Said] = field(default_factory=dict)

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


class Inquiry(Protocol):
    """A question that only the running workload can answer (a login, say), put by a port."""

    @property
    def memo(self) -> Hashable:
        """Equal memos need not be asked twice once the answer was good; holds no secret."""
        ...

    def health_check(self) -> Inquiry | None:
        """What to ask every few seconds once the answer was good; kept in memory, so it holds little."""
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

    def wants_turn(self, cr: Object, observed: Observed) -> bool | None:
        """Whether a restart that the operator alone wants waits for its turn; None if it takes no turns.

        One resource of the whole operator has the turn at a time, until it wants none and is Ready.
        """
        return None

    def secrets(self, cr: Object) -> Sequence[str]:
        """Names of the Secrets whose content is needed; read anew in each pass, never kept."""
        return ()

    @abstractmethod
    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        """All children, always, in the order they are made: the names alone tell of conflicts."""

    def inquire(self, cr: Object, observed: Observed) -> Inquiry | None:
        """What to ask of the running workload, if what that takes is there: other children may be refused."""
        return None

    def warnings(self, cr: Object, observed: Observed) -> Sequence[Ref]:
        """The children whose newest Warning Event the status needs, once all are as desired.

        Each costs the API server a look at all Events of the namespace: for those alone that are in trouble.
        """
        return ()

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


def labels_without_owner(type: ResourceType, cr: Object) -> dict[str, str]:
    """The labels of a child that may outlive its resource: they bring it back, no other tool reads them."""
    shared = {name: value for name, value in labels_of(type, cr).items() if name != INSTANCE_LABEL}
    return {**shared, RESOURCE_LABEL: cr["metadata"]["name"]}


def named_in(labels: Mapping[str, str]) -> str | None:
    """The name of the resource whose child bears these labels, which of the two kinds they be."""
    return labels.get(RESOURCE_LABEL) or labels.get(INSTANCE_LABEL)


def selector_of(type: ResourceType, cr: Object) -> dict[str, str]:
    """What selects the Pods of this resource and of no other, in this group and no other."""
    return {INSTANCE_LABEL: cr["metadata"]["name"], KIND_LABEL: type.label}


def selector_text(type: ResourceType, cr: Object) -> str:
    """The same as text, as the scale subresource gives it to autoscalers."""
    return ",".join(f"{key}={value}" for key, value in sorted(selector_of(type, cr).items()))


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
