"""What a kind is to the engine: pure functions from a resource and what was observed to children and status.

The package of a kind holds a class with these methods, and nothing that does IO, reads a clock or draws a
random number: those come in through `Observed`. The registry (`kinds.registry`) lists the kinds.
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

from kindling.kinds.metrics import ResourceMetric
from kindling.kinds.planned import Change, Disruption, of_change
from kindling.kube.resources import CONFIG_MAP, SECRET, Object, Ref, ResourceType


@dataclass(frozen=True, kw_only=True)
class Child:
    """One desired object, with only the fields that the operator owns.

    `create_only`: it is created, and its content is never updated (its labels and owner are); all others are
    applied. `update`, beside `create_only`: the fields that one that exists is to have, whatever it was
    created with. `restore_data`: one of those lost its content, which is written once more. `blocked`: it
    cannot be created yet, because it needs the uid of an earlier child; until then those after it are not
    created either. `frozen`: once it exists, it is not changed. `ended`: its work is done, a Job's say, and
    the status has the result; once it is gone, it is not created again. `handed_over`, beside `create_only`:
    it is another resource's from the start, bears no owner, and is only created; the annotation MADE_BY
    distinguishes it from one that was there before.
    """

    type: ResourceType
    body: Object
    create_only: bool = False
    update: Object | None = None
    restore_data: bool = False
    blocked: bool = False
    frozen: bool = False
    ended: bool = False
    handed_over: bool = False

    @property
    def ref(self) -> Ref:
        return Ref(self.type, self.body["metadata"]["namespace"], self.body["metadata"]["name"])


class WatchedObject(NamedTuple):
    """A reference to an object that the resource does not own, by name; without a namespace, in any."""

    type: ResourceType
    name: str
    namespace: str | None = None


class WarningEvent(NamedTuple):
    """The newest Warning Event of an object: its reason, its note, and when it was last observed."""

    reason: str
    note: str
    at: str


class Notice(NamedTuple):
    """An Event of a resource: its reason, of `kindling.kinds.reasons`, and its note, a sentence."""

    reason: str
    note: str


class Request(Protocol):
    """What is asked of a server, or to be done there: a login, an HTTP request. The prober carries it out.

    `namespace` and `host` say whose share of the prober it takes. `pod` is the Pod behind that host, empty if
    there is none: the way there from outside of the cluster.
    """

    @property
    def namespace(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def pod(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A question to a member, without any effect on it; repeated every few seconds.

    While `cache_key` stays equal, the last answer is an answer to this; it holds no secret. The request is
    kept in memory for that, unless it is asked `once`: then the next reconciliation asks again, unless the
    answer was good. `background`: for figures that nothing is decided from. It is repeated every minute,
    apart from all others; no reconciliation waits for it, and the status is written without its answer. With
    `once` too, it is asked one time for each cache key, whatever the answer.
    """

    cache_key: Hashable
    request: Request
    once: bool = False
    background: bool = False


@dataclass(frozen=True, kw_only=True)
class ExternalAction:
    """A change outside of the API server that is needed now: a role in a server, a promotion.

    It must be idempotent: it is repeated if its outcome is lost. `name` is a verb, for the log and for
    metrics. Its outcome counts as the member's answer, to whatever has the same `cache_key`.
    """

    name: str
    member: str
    cache_key: Hashable
    request: Request


@dataclass(frozen=True, kw_only=True)
class ExternalResult:
    """What a probe or an external action led to; if `ok`, the member is as the request wants it.

    `facts` are for the kind's status; they hold no secrets.
    """

    ok: bool
    reason: str = ""
    message: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CachedResult:
    """The last answer of a member, to the probe or action with this cache key, and when it came."""

    cache_key: Hashable
    result: ExternalResult
    at: datetime


@dataclass(frozen=True, kw_only=True)
class RestartSlot:
    """The position of a resource in the queue of those that the operator disrupts, one at a time.

    `member` is the one that may be disrupted now; empty while the last one is not Ready again. `place`
    counts from 1, of `length`. `halted`: the resource that has the slot did not become Ready in time.
    """

    granted: bool = False
    member: str = ""
    place: int = 0
    length: int = 0
    halted: bool = False


@dataclass(frozen=True, kw_only=True)
class Observed:
    """All input of a decision. `entropy` is random, and the same throughout one reconciliation.

    `objects` holds the children, and the content of what is in `Kind.secrets` and `Kind.config_maps`.
    `watched` holds the metadata of the watched objects that exist; of a resource of a served kind, all of it.
    `results` holds the last answer of each member to whom this process has spoken: compare its cache key,
    and its age where that matters.
    `restart_slot` is the position that `disruptions` led to. `warnings` holds the newest Warning Events of
    the objects in `Kind.warnings`. `unserved` has those of `Kind.optional` that the API server does not have.
    """

    objects: Mapping[Ref, Object]
    now: datetime
    entropy: bytes
    watched: Mapping[Ref, Object] = field(default_factory=dict)
    results: Mapping[str, CachedResult] = field(default_factory=dict)
    restart_slot: RestartSlot = RestartSlot()
    warnings: Mapping[Ref, WarningEvent] = field(default_factory=dict)
    unserved: frozenset[ResourceType] = frozenset()

    def result(self, member: str, cache_key: Hashable) -> ExternalResult | None:
        """The member's last answer, if it is one to this."""
        known = self.results.get(member)
        return known.result if known is not None and known.cache_key == cache_key else None

    def secret(self, *, namespace: str, name: str) -> dict[str, str]:
        """The decoded values of a Secret, empty where there is none (data that is not text is left out)."""
        found = self.objects.get(Ref(SECRET, namespace, name), {}).get("data") or {}
        values: dict[str, str] = {}
        for key, value in found.items():
            try:
                values[key] = base64.b64decode(value).decode()
            except ValueError:
                continue
        return values

    def config_map(self, *, namespace: str, name: str) -> dict[str, bytes]:
        """The values of a ConfigMap as files of it would be, empty where there is none."""
        found = self.objects.get(Ref(CONFIG_MAP, namespace, name), {})
        values = {key: str(text).encode() for key, text in (found.get("data") or {}).items()}
        for key, text in (found.get("binaryData") or {}).items():
            try:
                values[key] = base64.b64decode(text)
            except ValueError:
                continue
        return values

    def password(self, purpose: str) -> str:
        """A random password of 32 characters (190 bits), stable within a reconciliation for each purpose."""
        return derived_password(self.entropy, purpose)


def derived_password(key: bytes, purpose: str) -> str:
    """32 characters (190 bits) that say nothing of the key, another for each purpose."""
    digest = hmac.digest(key, purpose.encode(), hashlib.sha256)
    return base64.b64encode(digest, altchars=b"Zz").decode()[:32]


@dataclass(frozen=True)
class Done:
    """Nothing more to do until something changes."""


@dataclass(frozen=True)
class RequeueAfter:
    """Reconcile again after so many seconds, even if nothing changes.

    `polls`: for what no event reports; while many resources do, each polls less often.
    """

    seconds: float
    polls: bool = False


@dataclass(frozen=True)
class Terminal:
    """Only a change of the spec can help; there is no retry."""

    reason: str


Result: TypeAlias = Done | RequeueAfter | Terminal


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Why the resource is not as desired: a `reason` of `kinds.reasons`, a `message` with the next step.

    `transient`: it ends by itself (an object is still being deleted), so it is no fault.
    """

    reason: str
    message: str
    transient: bool = False

    @property
    def retry(self) -> RequeueAfter:
        """When to look whether it has ended."""
        return RequeueAfter(5.0 if self.transient else 30.0, polls=True)


@dataclass(frozen=True, kw_only=True)
class StatusReport:
    """The status to write (the engine adds lastTransitionTimes) and when to reconcile again."""

    status: Object
    result: Result


@dataclass(frozen=True, kw_only=True)
class Finish:
    """What remains to be done before a deleted resource may go: `children` that do it, in order, then
    `actions` outside of the API server, each once the one before has succeeded.

    Nothing is deleted for it. `done`: the finalizer is removed, and the report is not written.
    """

    done: bool
    report: StatusReport
    children: Sequence[Child] = ()
    actions: Sequence[ExternalAction] = ()


@dataclass(frozen=True, kw_only=True)
class SyncResult:
    """What came of writing the children and of the external actions.

    `in_sync`: every child is as desired. `problem`: why not, if something is wrong. `results`: of each member
    of which something is wanted, its answer to just that. `paused`: nothing is written, whatever differs,
    and `changes` is what would be.
    """

    in_sync: bool
    problem: Problem | None = None
    results: Mapping[str, ExternalResult] = field(default_factory=dict)
    paused: bool = False
    changes: Sequence[Change] = ()


class Kind(ABC):
    """One kind of custom resource. Every method is pure and total over what the CRD admits.

    Only `desired` and `status` must be implemented; the others have defaults.
    """

    type: ResourceType
    children: tuple[ResourceType, ...] = ()
    """The types of its children, and of the objects that those create as far as the status needs them."""

    optional: tuple[ResourceType, ...] = ()
    """Further types of children, which a cluster need not have; `Observed.unserved` says which it lacks."""

    watches: tuple[ResourceType, ...] = ()
    """The types of objects that it does not own and watches: without the label selector."""

    metrics: tuple[ResourceMetric, ...] = ()
    """What Prometheus gets of each resource, beside whether it is Ready and why."""

    def watched_objects(self, cr: Object) -> Sequence[WatchedObject]:
        """The objects of `watches` whose events enqueue this resource."""
        return ()

    def needs(self, cr: Object) -> Sequence[ResourceType]:
        """The types of `optional` without which this resource is not as desired."""
        return ()

    def validate(self, cr: Object, observed: Observed) -> Problem | None:
        """Validation beyond the CRD; while it returns a problem, nothing is written."""
        return None

    def paused(self, cr: Object) -> bool:
        """Whether the resource is only observed."""
        return False

    def plan_for(self, cr: Object) -> str:
        """The name of the resource that this one is a plan for; empty if it is one of its own."""
        return ""

    def proposed(self, cr: Object, other: Object | None) -> Object:
        """The resource of that name, if there is one, as it were with the spec of `cr`, and paused."""
        return cr

    def disruptions(self, cr: Object, observed: Observed) -> Sequence[str] | None:
        """The members to disrupt for the operator's sake, in this order; None: it needs no slot.

        One resource of the whole operator has the slot at a time, and one of its members: the next one is
        named in `Observed.restart_slot` once this one is not in the list and the resource is Ready, and the
        next resource has its turn once the list is empty too. So disrupt only the member in the slot.
        """
        return None

    def disruption_of(self, cr: Object, observed: Observed, change: Change) -> Disruption:
        """What a change of a child, as it would be written now, costs those who use the resource."""
        return of_change(change)

    def probes(self, cr: Object, observed: Observed) -> Mapping[str, Probe]:
        """What to ask of each member, before anything is decided; the answers are in `Observed.results`.

        All are asked at once, and again every few seconds. A reconciliation waits for half a second at most
        for members that never answered; another answer than the last one reconciles the resource again.
        Those in the `background` are asked apart, and seldom.
        """
        return {}

    def secrets(self, cr: Object) -> Sequence[str]:
        """Names of the Secrets whose content is needed; read in each reconciliation, never cached."""
        return ()

    def others_secrets(self, cr: Object, observed: Observed) -> Sequence[Ref]:
        """The Secrets of other namespaces whose content is needed, for which what was observed says that it
        may be used; read as those of `secrets` are. Name them in `watched_objects` too.
        """
        return ()

    def config_maps(self, cr: Object) -> Sequence[str]:
        """Names of others' ConfigMaps whose content is needed; read in each reconciliation, never cached."""
        return ()

    @abstractmethod
    def desired(self, cr: Object, observed: Observed) -> list[Child]:
        """All children, always, in the order of creation: name conflicts are found before any write."""

    finalizer: str = ""
    """The finalizer, DOMAIN/NAME, of a kind whose resources may have something to `finish`."""

    def must_finish(self, cr: Object) -> bool:
        """Whether the resource gets the finalizer, so that it goes only after `finish`."""
        return False

    def finish(self, cr: Object, observed: Observed) -> Finish:
        """For a deleted resource with the finalizer: what remains, derived from what was observed."""
        return Finish(done=True, report=StatusReport(status={}, result=Done()))

    durable: tuple[str, ...] = ()
    """The status fields that only `durable_state` sets; every status report keeps them."""

    def durable_state(self, cr: Object, observed: Observed) -> Mapping[str, Any]:
        """Decisions that must survive and must not be taken twice: new values of fields of `durable`.

        They are written by compare-and-swap on the resource's version, before any child that depends on
        them; after that `cr` has them. None removes a field.
        """
        return {}

    def external_actions(self, cr: Object, observed: Observed) -> Sequence[ExternalAction]:
        """What is to be done outside of the API server now, in order, derived from the answers; empty if
        nothing is.

        They run once the children are as desired, the next one only after the one before has succeeded; never
        while the resource is paused, and only by the leader. One that has succeeded, with the same cache key,
        is repeated after five seconds if it is still in the list.
        """
        return ()

    def notice(self, action: str, member: str, result: ExternalResult) -> Notice | None:
        """What is to be said as an Event once an external action of this name has ended.

        For what those who use the member notice, and no condition says. None if there is nothing.
        """
        return None

    def incidents(self, cr: Object, observed: Observed) -> Sequence[Notice]:
        """What happened to the members in the last hour, though they may be well again: each an Event, once.

        Two of the same note are one incident, so the time is in it.
        """
        return ()

    def warnings(self, cr: Object, observed: Observed) -> Sequence[Ref]:
        """The children whose newest Warning Event the status needs, once all are as desired.

        Each costs the API server a scan of all Events of the namespace, so name only objects with a problem.
        """
        return ()

    @abstractmethod
    def status(self, cr: Object, observed: Observed, sync: SyncResult) -> StatusReport:
        """The whole status, derived from what was observed, never from what is desired."""
