"""What the broker knows of the subscription: its backlog, asked of its admin API at `spec.adminURL`.

Only what is asked and what is made of it: `kindling.prober` asks. The figures move all the time, so they are
asked for in the background, and have two digits: each other value is a write of the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from kindling.kinds import reasons
from kindling.kinds.amounts import LARGEST, rounded
from kindling.kinds.base import ExternalResult, Observed, Probe
from kindling.kinds.conditions import condition, find_condition, rfc3339
from kindling.kinds.pulsarconsumer import access
from kindling.kinds.pulsarconsumer.handler import handler_of
from kindling.kinds.pulsarconsumer.topics import read as read_topics
from kindling.kinds.pulsarconsumer.workload import workload_ref
from kindling.kinds.rollout import rollout
from kindling.kinds.times import seconds_since
from kindling.kube.resources import Object

MEMBER = "backlog"
CONDITION = "BacklogMoving"
FIGURES = MESSAGES, UNACKNOWLEDGED, CONSUMERS = "messages", "unacknowledged", "consumers"
"""Of status.backlog; the facts of an answer have the same names."""
PARTITIONS = "partitions"
"""Of an answer: how many the topic has, 0 for one without; of several their sum, with 1 for such a one."""
TOPICS, MISSING = "topics", "missing"
"""Of an answer: how many topics have the subscription, and how many have none yet."""
OLDEST = "oldest"
"""Of an answer: when the oldest unacknowledged message was published, milliseconds; 0 where none is."""
NUMBERS = (*FIGURES, PARTITIONS, TOPICS, MISSING, OLDEST)
"""Of an answer, each 0 to MOST."""
OLDEST_FIELD = "oldestPublishTime"
NEW_SECONDS = 60
"""What is younger waits as every message does: the broker is asked no more often."""
QUIET = "quiet"
"""Of an answer: consumers were connected for `quiet_seconds`, and none of them acknowledged anything."""
MOST = LARGEST
MOST_MILLISECONDS = 253_402_300_799_000
"""Since 1970: the last second of the year 9999."""
STUCK_SECONDS = 300
"""For how long nothing is acknowledged before that is said, with the default time-out of a message."""
DEFAULT_PORT, DEFAULT_TLS_PORT = 80, 443
_DEFAULT_TIMEOUT = 60


@dataclass(frozen=True, kw_only=True)
class SubscriptionRequest:
    """To the admin API, about one subscription of one topic; what is shown to it is as in `access.Shown`.

    With a `pattern` about that of each topic that matches, which the kind of request must know.
    """

    namespace: str
    host: str
    port: int
    pod: str = ""
    topic: str
    subscription: str
    pattern: str = ""
    encrypted: bool = False
    ca: str = ""
    certificate: str = ""
    key: str = field(default="", repr=False)
    authorization: str = field(default="", repr=False)
    oauth2: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class BacklogRequest(SubscriptionRequest):
    """What waits: in `topic`, in each of `topics`, or by the `pattern`.

    The facts of a result are NUMBERS and QUIET. Of several topics they are sums, CONSUMERS are the fewest,
    OLDEST is the first, and QUIET are all of them.
    """

    topics: tuple[str, ...] = ()
    quiet_seconds: int = STUCK_SECONDS


@dataclass(frozen=True, kw_only=True)
class Admin:
    """Where the admin API is asked, and what it takes to be let in."""

    host: str
    port: int
    encrypted: bool
    shown: access.Shown = field(repr=False)

    @property
    def asked(self) -> tuple[object, ...]:
        """Of a cache key: who is asked, and with which version of what is shown."""
        return self.host, self.port, self.encrypted, self.shown.version

    def request(self) -> dict[str, Any]:
        """The fields of a request."""
        said = self.shown
        return {
            "host": self.host,
            "port": self.port,
            "encrypted": self.encrypted,
            "authorization": said.authorization,
            "oauth2": said.oauth2,
            "ca": said.ca if self.encrypted or said.oauth2 else "",
            **({"certificate": said.certificate, "key": said.key} if self.encrypted else {}),
        }


def admin(cr: Object, observed: Observed) -> Admin | None:
    """None without `spec.adminURL`, and while a Secret that it needs is missing."""
    url = str((cr.get("spec") or {}).get("adminURL") or "")
    shown = access.shown(cr, observed) if url else None
    if shown is None:
        return None
    encrypted = url.startswith("https:")
    host, port = _address(url, DEFAULT_TLS_PORT if encrypted else DEFAULT_PORT)
    return Admin(host=host, port=port, encrypted=encrypted, shown=shown)


def probes(cr: Object, observed: Observed) -> dict[str, Probe]:
    """None where nobody can be asked, and none of a deleted resource.

    Asked again once the first consumer is connected: topic and subscription may be there only since then.
    """
    spec, namespace, topics = cr.get("spec") or {}, cr["metadata"]["namespace"], read_topics(cr)
    found = admin(cr, observed)
    if found is None or "deletionTimestamp" in cr["metadata"]:
        return {}
    request = BacklogRequest(
        namespace=namespace,
        topic=topics.names[0] if topics.one else "",
        topics=() if topics.one else topics.names,
        pattern=topics.pattern,
        subscription=str(spec.get("subscriptionName", "")),
        **found.request(),
        quiet_seconds=_quiet_seconds(cr),
    )
    connected = rollout(observed.objects.get(workload_ref(cr))).available > 0
    said = (*found.asked, topics, request.subscription, request.quiet_seconds, connected)
    return {MEMBER: Probe(cache_key=said, request=request, background=True)}


def answer(cr: Object, observed: Observed) -> ExternalResult | None:
    """The broker's answer to what would be asked now; None if it has none."""
    asked = probes(cr, observed).get(MEMBER)
    return observed.result(MEMBER, asked.cache_key) if asked is not None else None


@dataclass(frozen=True, kw_only=True)
class Backlog:
    """`figures` is status.backlog; `condition` is None before the first answer. `check_after`: seconds until
    the same answer means something else.
    """

    figures: Object | None = None
    condition: Object | None = None
    check_after: float | None = None


def read(cr: Object, observed: Observed) -> Backlog:
    """What was said last stays until there is an answer, so a new leader does not make it go and come back.

    Nothing stays where another subscription is meant now, or where nobody can be asked: that would be of
    another thing, or of another time.
    """
    if not probes(cr, observed):
        return Backlog()
    spec, status = cr.get("spec") or {}, cr.get("status") or {}
    wanted = {"topic": read_topics(cr).label, "subscription": spec.get("subscriptionName")}
    known: Object | None = status.get("backlog")
    if known is not None and any(known.get(name) != value for name, value in wanted.items()):
        known = None
    result = answer(cr, observed)
    if result is None:
        before = find_condition(status, CONDITION)
        kept = {name: value for name, value in before.items() if name != "lastTransitionTime"}
        same = before.get("observedGeneration") == cr["metadata"].get("generation", 0)
        return Backlog(figures=known, condition=kept if same else None)
    if not result.ok:
        # What is not known any more is not said: a figure of last week would be taken for one of today.
        return Backlog(condition=_condition(cr, None, reason_of(result), result.message))
    return _said(cr, observed, result, known, about=wanted)


def reason_of(result: ExternalResult) -> str:
    """One that hangs is ended from outside, by whoever asks all servers, with a word for all of them."""
    return reasons.ADMIN_UNREACHABLE if result.reason == reasons.NOT_RESPONDING else result.reason


def _said(
    cr: Object, observed: Observed, result: ExternalResult, known: Object | None, *, about: Object
) -> Backlog:
    figures: Object = {**about, **{name: rounded(int(result.facts.get(name, 0))) for name in FIGURES}}
    messages, consumers = figures[MESSAGES], figures[CONSUMERS]
    topics = read_topics(cr)
    if not topics.one:
        figures[TOPICS] = max(1, int(result.facts.get(TOPICS, 1)))
    new = _of_new_topics(result)
    same = known is not None and all(known.get(name) == figures[name] for name in FIGURES)
    figures["lastChangedTime"] = (known or {}).get("lastChangedTime") if same else rfc3339(observed.now)
    if not messages:
        words = f"Every message of the subscription is acknowledged.{new}"
        return Backlog(figures=figures, condition=_condition(cr, True, reasons.NO_BACKLOG, words))
    since = (known or {}).get("since") or rfc3339(observed.now)
    figures["since"] = since
    if (oldest := _oldest(result, known, now=observed.now)) is not None:
        figures[OLDEST_FIELD] = oldest
    aged = _seconds_to_age(result, now=observed.now)
    wait = f"messages wait for subscription {(cr.get('spec') or {}).get('subscriptionName')!r}"
    if not consumers:
        some = "set spec.replicas to have some, or see"
        if (cr.get("spec") or {}).get("autoscaling"):
            some = "spec.autoscaling starts some; if it does not, see"
        nobody = "no consumer is connected" if topics.one else "a topic has no consumer"
        words = (
            f"Some {wait}, and {nobody}: {some} the condition Ready. The broker keeps them meanwhile.{new}"
        )
        missing = _condition(cr, False, reasons.NO_CONSUMERS, words)
        return Backlog(figures=figures, condition=missing, check_after=aged)
    quiet_seconds = _quiet_seconds(cr)
    age = seconds_since(since, now=observed.now) or 0.0
    if result.facts.get(QUIET) is True and age >= quiet_seconds:
        words = (
            f"Some {wait}, consumers are connected, and none has acknowledged anything for {quiet_seconds} "
            "s: see what they do (`kubectl logs`), and whether the handler fails or waits for something."
        )
        stuck = _condition(cr, False, reasons.BACKLOG_STUCK, words)
        return Backlog(figures=figures, condition=stuck, check_after=aged)
    quiet = max(1.0, quiet_seconds - age) if result.facts.get(QUIET) is True else None
    return Backlog(
        figures=figures,
        condition=_condition(
            cr, True, reasons.ACKNOWLEDGING, f"Some {wait}; they are being acknowledged.{new}"
        ),
        check_after=min((each for each in (quiet, aged) if each is not None), default=None),
    )


def _oldest(result: ExternalResult, known: Object | None, *, now: datetime) -> str | None:
    """When the oldest message that waits was published, unless that is but now.

    What is known stays while the first two digits of its age are the same: each other value is a write.
    """
    moment = _published(result)
    age = int((now - moment).total_seconds()) if moment is not None else 0
    if moment is None or age < NEW_SECONDS:
        return None
    before: str | None = (known or {}).get(OLDEST_FIELD)
    same = before is not None and rounded(int(seconds_since(before, now=now))) == rounded(age)
    return before if same else rfc3339(moment)


def _seconds_to_age(result: ExternalResult, *, now: datetime) -> float | None:
    """Until the oldest message is one to be dated: the same answer says nothing new."""
    moment = _published(result)
    if moment is None:
        return None
    left = NEW_SECONDS - (now - moment).total_seconds()
    return max(1.0, left) if 0 < left <= NEW_SECONDS else None


def _published(result: ExternalResult) -> datetime | None:
    milliseconds = int(result.facts.get(OLDEST, 0))
    if not 0 < milliseconds < MOST_MILLISECONDS:
        return None
    return datetime.fromtimestamp(milliseconds // 1000, UTC)


def _of_new_topics(result: ExternalResult) -> str:
    missing = int(result.facts.get(MISSING, 0))
    if not missing:
        return ""
    return f" Of the topics {missing} have no such subscription yet: a consumer that connects makes it."


def _condition(cr: Object, truth: bool | None, reason: str, message: str) -> Object:
    generation = int(cr["metadata"].get("generation", 0))
    return condition(CONDITION, truth, reason=reason, message=message, generation=generation)


def _quiet_seconds(cr: Object) -> int:
    """Longer than two messages may take."""
    handler = handler_of(cr)
    chosen = (handler.get("python") or handler.get("http") or {}).get("timeoutSeconds") or _DEFAULT_TIMEOUT
    return max(STUCK_SECONDS, int(timedelta(seconds=2 * int(chosen) + 60).total_seconds()))


def _address(url: str, default: int) -> tuple[str, int]:
    """Host and port of `http(s)://HOST[:PORT][/]`, which is all that the CRD admits."""
    host, colon, port = url.partition("://")[2].rstrip("/").rpartition(":")
    if not colon:
        return port, default
    return host, int(port) if port.isascii() and port.isdigit() else default
