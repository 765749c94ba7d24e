"""The logins of the default user that applications are not to use any more: who does, and disabling them.

A member of its own, asked once after each start of the server, and every minute while there is such a login.
One that a session uses is never disabled, and no session is ended.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from datetime import datetime
from zlib import crc32

from kindling.kinds.base import ExternalAction, ExternalResult, Observed, Probe
from kindling.kinds.postgresql import credentials, login
from kindling.kinds.postgresql.login import Login, SuperuserRequest, superuser
from kindling.kinds.postgresql.observation import find_pod
from kindling.kinds.postgresql.spec import user_of
from kindling.kube.resources import Object

MEMBER = "logins"
ENABLED, SESSIONS = "enabled", "sessions"
"""Facts: the names of those that may log in; and of each but the present one `login`, `address` and
`application` of its sessions, with their `count`.
"""
EVERY_SECONDS = 60
MOST_SESSIONS = 20
LOCAL = "local"
"""The address of sessions by the server's socket."""
LONGEST_APPLICATION = 64


@dataclass(frozen=True, kw_only=True)
class LoginsRequest(SuperuserRequest):
    """Who uses `logins`, of which `owner` is the first and `login` is the present one; first disable those
    in `disable` that no session uses. What the operator has not made is left as it is, and so is data of
    another system identifier.
    """

    identifier: str | None = None
    owner: str
    login: str
    logins: tuple[str, ...]
    disable: tuple[str, ...] = ()


def probes(cr: Object, server: Login | None, observed: Observed) -> dict[str, Probe]:
    """Of a server that lets the present login in. The request has the superuser's password, so it is not
    kept.
    """
    request, key = _request(cr, server, observed), _key(cr, observed)
    if request is None or key is None:
        return {}
    return {MEMBER: Probe(cache_key=key, request=request, once=True, background=True)}


def external_actions(
    cr: Object, server: Login | None, observed: Observed, *, over: bool
) -> list[ExternalAction]:
    """`disable`, as far as nobody uses what is to be disabled; `over`: the previous login's time is up."""
    request, key = _request(cr, server, observed), _key(cr, observed)
    known, answer = credentials.record(cr), last_result(cr, observed)
    if request is None or key is None or known is None or answer is None:
        return []
    if server is None or not server.provision:
        return []
    used = {item["login"] for item in answer.facts[SESSIONS]}
    kept = {request.login} | (set() if over else {known.previous})
    due = tuple(name for name in answer.facts[ENABLED] if name not in kept and name not in used)
    if not due:
        return []
    # Another key than that of the probe, whose answer is there; it counts as one to the same question.
    return [
        ExternalAction(
            name="disable",
            member=MEMBER,
            cache_key=(*key[:-1], (key[-1], due)),
            request=replace(request, disable=due),
        )
    ]


def last_result(cr: Object, observed: Observed) -> ExternalResult | None:
    """The answer of the server as it runs, about these very logins."""
    known, key = observed.results.get(MEMBER), _key(cr, observed)
    if known is None or key is None or not known.result.ok or not isinstance(known.cache_key, tuple):
        return None
    whole = ENABLED in known.result.facts and SESSIONS in known.result.facts
    return known.result if whole and known.cache_key[:-1] == key[:-1] else None


def asked_at(cr: Object, observed: Observed) -> datetime | None:
    """When the server said that."""
    return None if last_result(cr, observed) is None else observed.results[MEMBER].at


def sessions(cr: Object, observed: Observed, name: str) -> list[Object] | None:
    """Those of that login; None while it is not known."""
    answer = last_result(cr, observed)
    if answer is None:
        return None
    return [
        {"address": item["address"], "application": item["application"], "count": item["count"]}
        for item in answer.facts[SESSIONS]
        if item["login"] == name
    ]


def seconds_left(cr: Object, observed: Observed) -> float | None:
    """Until the server is asked again; None where nothing is waited for."""
    if find_pod(cr, observed) is None or not _waits(cr, observed):
        return None
    return EVERY_SECONDS - (observed.now.timestamp() + _offset(cr)) % EVERY_SECONDS


def _waits(cr: Object, observed: Observed) -> bool:
    """Whether another than the present login may log in."""
    known = credentials.record(cr)
    if known is None:
        return False
    found = observed.results.get(MEMBER)
    enabled = found.result.facts.get(ENABLED) or () if found is not None else ()
    return known.previous is not None or set(enabled) > {credentials.login_of(cr)}


def _request(cr: Object, server: Login | None, observed: Observed) -> LoginsRequest | None:
    entry = superuser(server, observed)
    if server is None or entry is None or credentials.record(cr) is None:
        return None
    return LoginsRequest(
        **vars(entry),
        identifier=server.identifier,
        owner=user_of(cr),
        login=credentials.login_of(cr),
        logins=credentials.logins(cr),
    )


def _key(cr: Object, observed: Observed) -> tuple[Hashable, ...] | None:
    pod, known = find_pod(cr, observed), credentials.record(cr)
    if pod is None or known is None:
        return None
    minute = int((observed.now.timestamp() + _offset(cr)) // EVERY_SECONDS) if _waits(cr, observed) else 0
    of = cr["metadata"]["uid"], pod["metadata"]["uid"], login.starts(pod)
    return (*of, credentials.login_of(cr), known.number, minute)


def _offset(cr: Object) -> int:
    """So that not all servers are asked in the same second."""
    return crc32(cr["metadata"]["uid"].encode()) % EVERY_SECONDS
