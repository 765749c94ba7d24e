"""A subscription's figures, and its end, by a broker's admin API that nobody vouches for: little is read."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import orjson

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult
from kindling.kinds.pulsarconsumer.backlog import BacklogRequest, SubscriptionRequest
from kindling.kinds.pulsarconsumer.deletion import UnsubscribeRequest
from kindling.kinds.pulsarconsumer.replay import ReplayRequest
from kindling.kinds.pulsarconsumer.topics import MOST_MATCHING, namespace_of
from kindling.prober import admin_api, subscriptions, tokens
from kindling.prober.admin_api import FAILURES, SECONDS, AdminClient, NoBroker, Rejected
from kindling.prober.oauth2 import IssuerFailed, IssuerRefused, fetch
from kindling.prober.subscription_stats import NoSubscription, facts_of

_PATHS = (
    "/admin/v2/{topic}/stats?getPreciseBacklog=true&subscriptionBacklogSize=false&excludePublishers=true"
    "&getEarliestTimeInBacklog=true",
    "/admin/v2/{topic}/partitioned-stats?perPartition=false&getPreciseBacklog=true&subscriptionBacklogSize=false"
    "&excludePublishers=true&getEarliestTimeInBacklog=true",
)
"""A topic without partitions answers to the first, one with them to the second."""
_SUBSCRIPTION = "/admin/v2/{topic}/subscription/{name}"


class ResultAndToken(NamedTuple):
    """A result; where a token was obtained for it, that token and the seconds of its life."""

    result: ExternalResult
    token: tuple[str, int] | None = None


def query(address: tuple[str, int], request: BacklogRequest) -> ResultAndToken:
    """Never raises for what a server may answer. No word of an answer is repeated but its status."""
    return _answered(request, lambda shown: _query(AdminClient(address, request, shown), request))


def unsubscribe(address: tuple[str, int], request: UnsubscribeRequest) -> ResultAndToken:
    """Delete the subscription, with what waits in it; good as well where there is none.

    Never raises for what a server may answer.
    """
    return _answered(request, lambda shown: _unsubscribe(AdminClient(address, request, shown), request))


def replay(address: tuple[str, int], request: ReplayRequest) -> ResultAndToken:
    """Have the subscription begin again at a moment. Never raises for what a server may answer."""
    return _answered(request, lambda shown: _replay(AdminClient(address, request, shown), request))


def _answered(request: SubscriptionRequest, ask: Callable[[str], ExternalResult]) -> ResultAndToken:
    """Ask with what is shown, which may have to be obtained first."""
    oauth2 = request.oauth2
    if not oauth2 or tokens.TOKEN in oauth2:
        return ResultAndToken(ask(f"Bearer {oauth2[tokens.TOKEN]}" if oauth2 else request.authorization))
    host = urlsplit(oauth2["issuer"]).hostname
    where = f"The issuer of spec.auth.oauth2 at {host} gives the operator no token"
    try:
        token = fetch(oauth2, admin_api.issuer_context(request), admin_api.allowed)
    except IssuerRefused as error:
        words = "put client ID and secret that it accepts into the Secret of credentialsSecretRef"
        message = f"{where}, it answered {error.status}: {words}."
        return ResultAndToken(_failed(reasons.NOT_AUTHORIZED, message))
    except IssuerFailed as error:
        words = "It is asked again within minutes; see that it runs and that its network lets the operator in"
        message = f"{where}: {_why(error.why, 'issuer')}. {words}, or fix spec.auth.oauth2.issuerURL."
        return ResultAndToken(_failed(reasons.ISSUER_UNREACHABLE, message))
    return ResultAndToken(ask(f"Bearer {token[0]}"), token)


def _query(admin: AdminClient, request: BacklogRequest) -> ExternalResult:
    names: Sequence[str] = request.topics
    if request.pattern:
        found = _matching(admin, request)
        if isinstance(found, ExternalResult):
            return found
        if not found:
            return _failed(
                reasons.TOPIC_NOT_FOUND,
                f"No topic matches spec.topicsPattern {request.pattern!r}: one that is made later is read "
                "within a minute or two.",
            )
        if len(found) > MOST_MATCHING:
            return _failed(
                reasons.TOO_MANY_TOPICS,
                f"{len(found)} topics match spec.topicsPattern {request.pattern!r}, and the operator asks "
                f"about {MOST_MATCHING} at most: the consumers read them all the same. Use several resources "
                "with narrower patterns to know what waits.",
            )
        names = found
    if names:
        return subscriptions.of_each(names, lambda name: _query_one(admin, replace(request, topic=name)))
    return _query_one(admin, request)


def _matching(admin: AdminClient, request: SubscriptionRequest) -> list[str] | ExternalResult:
    """The topics that `request.pattern` matches, or why they are not known."""
    try:
        return subscriptions.matching(admin, request.pattern)
    except Rejected as error:
        if error.status == 404:
            return _failed(
                reasons.TOPIC_NOT_FOUND,
                f"The broker's admin API at {request.host}:{request.port} has no namespace "
                f"{'/'.join(namespace_of(request.pattern))!r}: see spec.topicsPattern.",
            )
        return _refused(request, error.status)
    except FAILURES as error:
        return _unreachable(request, error)


def _query_one(admin: AdminClient, request: BacklogRequest) -> ExternalResult:
    try:
        return ExternalResult(ok=True, facts=facts_of(_stats(admin, request), request, now=time.time()))
    except Rejected as error:
        return _refused(request, error.status)
    except NoSubscription:
        return _no_subscription(request)
    except FAILURES as error:
        return _unreachable(request, error)


def _unsubscribe(admin: AdminClient, request: UnsubscribeRequest) -> ExternalResult:
    if not request.pattern:
        return _unsubscribe_one(admin, request)
    found = _matching(admin, request)
    if isinstance(found, ExternalResult):
        # Without its namespace there is no subscription either.
        return ExternalResult(ok=True) if found.reason == reasons.TOPIC_NOT_FOUND else found
    return subscriptions.each(found, lambda name: _unsubscribe_one(admin, replace(request, topic=name)))


def _unsubscribe_one(admin: AdminClient, request: UnsubscribeRequest) -> ExternalResult:
    try:
        admin.ask(_path(request), method="DELETE")
    except Rejected as error:
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
    except FAILURES as error:
        return _unreachable(request, error)
    return ExternalResult(ok=True)


def _replay(admin: AdminClient, request: ReplayRequest) -> ExternalResult:
    try:
        admin.ask(f"{_path(request)}/resetcursor/{request.milliseconds}", method="POST")
    except Rejected as error:
        if error.status == 404 and b"ubscription" in error.body and _is_pulsars(error.body):
            return _no_subscription(request)
        return _refused(request, error.status)
    except FAILURES as error:
        return _unreachable(request, error)
    return ExternalResult(ok=True)


def _no_subscription(request: SubscriptionRequest) -> ExternalResult:
    return _failed(
        reasons.SUBSCRIPTION_NOT_FOUND,
        f"Topic {request.topic!r} has no subscription {request.subscription!r}: the first consumer that "
        "connects makes it.",
    )


def _path(request: SubscriptionRequest) -> str:
    name = quote(request.subscription, safe="")
    if name in (".", ".."):
        raise ValueError("a path that leads elsewhere")
    return _SUBSCRIPTION.format(topic=_resource(request.topic), name=name)


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


def _why(error: Exception, what: str = "admin API of Pulsar") -> str:
    """In words, and none of them the server's."""
    match error:
        case NoBroker():
            return "the operator asks no address that leads to its own Pod or node"
        case socket.gaierror():
            return "its name is not known"
        case ssl.SSLCertVerificationError():
            return "its certificate is not accepted: see spec.tls.caSecretRef, and the name in it"
        case ssl.SSLError():
            return "there is no TLS with it, or it does not accept the client certificate of spec.tls"
        case TimeoutError():
            return f"there is no answer within {SECONDS:g} s"
        case ConnectionRefusedError():
            return "the connection is refused"
        case OSError():
            return "there is no connection, or it was cut"
        case _:
            return f"what answers there is no {what}"


def _failed(reason: str, message: str) -> ExternalResult:
    return ExternalResult(ok=False, reason=reason, message=message)


def _refused(request: SubscriptionRequest, status: int) -> ExternalResult:
    where = f"The broker's admin API at {request.host}:{request.port}"
    if status in (401, 403):
        words = "grant the bearer of spec.auth the right to consume the topic"
        return _failed(reasons.NOT_AUTHORIZED, f"{where} answered {status}: {words}.")
    if status == 404:
        words = f"has no topic {request.topic!r}: see spec.topic or spec.topics, and whether the broker makes"
        words += " topics by itself"
        return _failed(reasons.TOPIC_NOT_FOUND, f"{where} {words}.")
    return _failed(
        reasons.ADMIN_UNREACHABLE, f"{where} answered {status}: see the broker, or fix spec.adminURL."
    )


def _stats(admin: AdminClient, request: BacklogRequest) -> Any:
    """:raises Rejected: (and FAILURES) for what is no answer."""
    plain, partitioned = (path.format(topic=_resource(request.topic)) for path in _PATHS)
    try:
        return orjson.loads(admin.ask(plain))
    except Rejected as error:
        if error.status != 404:
            raise
    return orjson.loads(admin.ask(partitioned))


def _resource(topic: str) -> str:
    """TYPE/TENANT/NAMESPACE/TOPIC, as the admin API's paths have it."""
    type, separator, rest = topic.partition("://")
    if not separator:
        type, rest = "persistent", topic
    parts = rest.split("/", 2)
    if len(parts) < 3:
        parts = ["public", "default", rest]
    if type not in ("persistent", "non-persistent") or any(part in ("", ".", "..") for part in parts):
        raise Rejected(404)
    return "/".join([type, *(quote(part, safe="") for part in parts)])
