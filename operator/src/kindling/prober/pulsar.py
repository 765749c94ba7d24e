"""A subscription's figures, and its end, by a broker's admin API that nobody vouches for: little is read."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import time
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit

import orjson

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult
from kindling.kinds.pulsarconsumer.backlog import (
    CONSUMERS,
    MESSAGES,
    MOST,
    PARTITIONS,
    QUIET,
    UNACKNOWLEDGED,
    BacklogRequest,
    SubscriptionRequest,
)
from kindling.kinds.pulsarconsumer.deletion import UnsubscribeRequest

SECONDS = 4.0
"""For each step of it; the pool has a deadline for all, which leaves time to say what happened."""
LONGEST_ANSWER = 2**20
"""Bytes: a thousand consumers take two thirds of it."""
MOST_REDIRECTS = 2
_FAILURES = (OSError, http.client.HTTPException, ValueError, TypeError, LookupError)
_PATHS = (
    "/admin/v2/{topic}/stats?getPreciseBacklog=true&subscriptionBacklogSize=false&excludePublishers=true",
    "/admin/v2/{topic}/partitioned-stats?perPartition=false&getPreciseBacklog=true&subscriptionBacklogSize=false"
    "&excludePublishers=true",
)
"""A topic without partitions answers to the first, one with them to the second."""
_SUBSCRIPTION = "/admin/v2/{topic}/subscription/{name}"


class _Refused(Exception):
    """The status of an answer that is none, and its text."""

    def __init__(self, status: int, body: bytes = b"") -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.body = body


def query(address: tuple[str, int], request: BacklogRequest) -> ExternalResult:
    """Never raises for what a server may answer. No word of an answer is repeated but its status."""
    try:
        return ExternalResult(ok=True, facts=_facts(_stats(address, request), request, now=time.time()))
    except _Refused as error:
        return _refused(request, error.status)
    except _NoSubscription:
        return _failed(
            reasons.SUBSCRIPTION_NOT_FOUND,
            f"Topic {request.topic!r} has no subscription {request.subscription!r}: the first consumer that "
            "connects makes it.",
        )
    except _FAILURES as error:
        return _unreachable(request, error)


def unsubscribe(address: tuple[str, int], request: UnsubscribeRequest) -> ExternalResult:
    """Delete the subscription, with what waits in it; good as well where there is none.

    Never raises for what a server may answer.
    """
    name = quote(request.subscription, safe="")
    try:
        if name in (".", ".."):
            raise ValueError("a path that leads elsewhere")
        path = _SUBSCRIPTION.format(topic=_resource(request.topic), name=name)
        _ask(address, request, path, method="DELETE")
    except _Refused as error:
        if error.status == 404:
            if _is_pulsars(error.body):
                return ExternalResult(ok=True)
            return _unreachable(request, ValueError("not Pulsar's"))
        if error.status == 412:
            return _failed(
                reasons.SUBSCRIPTION_BUSY,
                f"Subscription {request.subscription!r} of topic {request.topic!r} has consumers of others, "
                "so the broker keeps it: stop them.",
            )
        return _refused(request, error.status)
    except _FAILURES as error:
        return _unreachable(request, error)
    return ExternalResult(ok=True)


def _is_pulsars(body: bytes) -> bool:
    """Whether it is the broker that knows no such topic or subscription: any other server has its 404 too."""
    try:
        return isinstance(orjson.loads(body)["reason"], str)
    except (ValueError, TypeError, LookupError):
        return False


def _unreachable(request: SubscriptionRequest, error: Exception) -> ExternalResult:
    return _failed(
        reasons.ADMIN_UNREACHABLE,
        f"The broker's admin API cannot be asked at {request.host}:{request.port}: {_why(error)}. "
        "It is asked again within minutes; see that it runs and that its network lets the operator in, "
        "or fix spec.adminURL.",
    )


def _why(error: Exception) -> str:
    """In words, and none of them the server's."""
    match error:
        case _NoBroker():
            return "the operator asks no address that leads to its own Pod or node"
        case socket.gaierror():
            return "its name is not known"
        case TimeoutError():
            return f"there is no answer within {SECONDS:g} s"
        case ConnectionRefusedError():
            return "the connection is refused"
        case OSError():
            return "there is no connection, or it was cut"
        case _:
            return "what answers there is no admin API of Pulsar"


class _NoBroker(ValueError):
    """The address is one that only this Pod or its node can reach."""


class _NoSubscription(Exception):
    """The topic has none of that name."""


def _failed(reason: str, message: str) -> ExternalResult:
    return ExternalResult(ok=False, reason=reason, message=message)


def _refused(request: SubscriptionRequest, status: int) -> ExternalResult:
    where = f"The broker's admin API at {request.host}:{request.port}"
    if status in (401, 403):
        words = "grant the bearer of spec.auth.tokenSecretRef the right to consume the topic"
        return _failed(reasons.NOT_AUTHORIZED, f"{where} answered {status}: {words}.")
    if status == 404:
        words = (
            f"has no topic {request.topic!r}: see spec.topic, and whether the broker makes topics by itself"
        )
        return _failed(reasons.TOPIC_NOT_FOUND, f"{where} {words}.")
    return _failed(
        reasons.ADMIN_UNREACHABLE, f"{where} answered {status}: see the broker, or fix spec.adminURL."
    )


def _stats(address: tuple[str, int], request: BacklogRequest) -> Any:
    """:raises _Refused: (and _FAILURES) for what is no answer."""
    plain, partitioned = (path.format(topic=_resource(request.topic)) for path in _PATHS)
    try:
        return orjson.loads(_ask(address, request, plain))
    except _Refused as error:
        if error.status != 404:
            raise
    return orjson.loads(_ask(address, request, partitioned))


def _ask(address: tuple[str, int], request: SubscriptionRequest, path: str, *, method: str = "GET") -> bytes:
    # Another host than the request's is the operator's own way there, from outside of the cluster.
    tunnel = address if address[0] != request.host else None
    host, port = request.host, request.port
    for _ in range(MOST_REDIRECTS + 1):
        with socket.create_connection(tunnel or _allowed(host, port), timeout=SECONDS) as plain:
            connection = http.client.HTTPConnection(host, port, timeout=SECONDS)
            connection.sock = plain
            headers = {"Connection": "close", "Accept": "application/json"}
            if request.token:
                headers["Authorization"] = f"Bearer {request.token}"
            connection.request(method, path, headers=headers)
            with connection.getresponse() as response:
                if response.status == 307:
                    host, port = redirected(response.getheader("Location") or "", path)
                    tunnel = None
                    continue
                body = response.read(LONGEST_ANSWER + 1)
                if response.status not in (200, 204):
                    raise _Refused(response.status, body)
        if len(body) > LONGEST_ANSWER:
            raise ValueError("too long")
        return body
    raise ValueError("too many redirections")


def redirected(location: str, path: str) -> tuple[str, int]:
    """To the broker that has the topic: for the same question, and as the first one was asked."""
    found = urlsplit(location)
    if found.scheme != "http" or not found.hostname or found.path != path.partition("?")[0]:
        raise ValueError("redirected elsewhere")
    return found.hostname, found.port or 80


def _allowed(host: str, port: int) -> tuple[str, int]:
    """The address to connect to. What only this Pod or its node can reach is no broker: who names it, or has
    a name that leads there, has the operator ask in their place.
    """
    for *_, found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        ip = ipaddress.ip_address(str(found[0]).partition("%")[0])
        ip = getattr(ip, "ipv4_mapped", None) or ip
        if ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast:
            raise _NoBroker
        return str(found[0]), port
    raise OSError("no address")


def _resource(topic: str) -> str:
    """TYPE/TENANT/NAMESPACE/TOPIC, as the admin API's paths have it."""
    type, separator, rest = topic.partition("://")
    if not separator:
        type, rest = "persistent", topic
    parts = rest.split("/", 2)
    if len(parts) < 3:
        parts = ["public", "default", rest]
    if type not in ("persistent", "non-persistent") or any(part in ("", ".", "..") for part in parts):
        raise _Refused(404)
    return "/".join([type, *(quote(part, safe="") for part in parts)])


def _facts(stats: Any, request: BacklogRequest, *, now: float) -> dict[str, Any]:
    subscription = stats["subscriptions"].get(request.subscription)
    if subscription is None:
        raise _NoSubscription
    consumers = list(subscription["consumers"])
    # Milliseconds, 0 where nothing was acknowledged yet. A partitioned topic's sum has no connectedSince.
    acknowledged = max(_number(found["lastAckedTimestamp"]) for found in (subscription, *consumers))
    connected = min((_since(found.get("connectedSince"), now=now) for found in consumers), default=now)
    return {
        MESSAGES: _number(subscription["msgBacklog"]),
        UNACKNOWLEDGED: _number(subscription["unackedMessages"]),
        CONSUMERS: len(consumers),
        PARTITIONS: _partitions(stats),
        QUIET: bool(consumers) and max(acknowledged / 1000, connected) <= now - request.quiet_seconds,
    }


def _partitions(stats: Any) -> int:
    """0 where the answer names none, as that of a topic without them."""
    found = stats.get("metadata") if isinstance(stats, dict) else None
    return _number(found.get("partitions")) if isinstance(found, dict) else 0


def _number(value: Any) -> int:
    return min(MOST, max(0, value)) if isinstance(value, int) else 0


def _since(text: Any, *, now: float) -> float:
    """Now, where it cannot be read: then nothing is called quiet."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return now
