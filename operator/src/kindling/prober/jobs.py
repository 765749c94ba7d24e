"""What is handed to the prober and comes back, as one line of JSON each way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import orjson

from kindling.kinds import reasons
from kindling.kinds.backup.archive import SETTINGS, ArchiveRequest
from kindling.kinds.base import ExternalResult
from kindling.kinds.http import LONGEST_BODY, HttpRequest
from kindling.kinds.memcached.access import AccessRequest
from kindling.kinds.memcached.stats import COUNTERS, MOST, RATIO, READS, StatsRequest
from kindling.kinds.postgresql import hba, identity, idle, init_sql
from kindling.kinds.postgresql.login import Login
from kindling.kinds.postgresql.logins import (
    ENABLED,
    LONGEST_APPLICATION,
    MOST_SESSIONS,
    SESSIONS,
    LoginsRequest,
)
from kindling.kinds.postgresql.objects import LONGEST_MESSAGE, Objects
from kindling.kinds.postgresql.reload import Reload
from kindling.kinds.postgresql.serve import RESTARTED
from kindling.kinds.postgresql.usage import CRASHED, USED, UsageRequest
from kindling.kinds.postgresql.usage import MOST as MOST_BYTES
from kindling.kinds.pulsarconsumer import backlog
from kindling.kinds.pulsarconsumer.backlog import BacklogRequest, SubscriptionRequest
from kindling.kinds.pulsarconsumer.deletion import UnsubscribeRequest
from kindling.kinds.pulsarconsumer.replay import ReplayRequest

LONGEST_LINE = 2**22
"""Bytes of a job: 200 of the longest passwords, and as many databases as the API stores in an object."""
MAX_RESULT_BYTES = 2**20
"""Of an answer: something may be said of each of 800 items, in any language."""

ITEM_REASONS = frozenset(
    {
        reasons.CANNOT_CHANGE,
        reasons.DROP_BLOCKED,
        reasons.INVALID_SPEC,
        reasons.NAME_CONFLICT,
        reasons.PAUSED,
        reasons.RECONCILING,
        reasons.STATEMENT_REJECTED,
    }
)
"""Of a role or a database that is not as wanted."""
REASONS = frozenset(
    {
        "",
        reasons.LOGIN_FAILED,
        reasons.SUPERUSER_LOGIN_FAILED,
        reasons.UNSAFE_AUTHENTICATION,
        reasons.CERTIFICATE_REJECTED,
        reasons.INIT_SQL_FAILED,
        reasons.INVALID_HBA,
        reasons.INVALID_PARAMETER,
        reasons.PAUSED,
        reasons.RESTART_PENDING,
        reasons.NOT_RESPONDING,
        reasons.TOO_MANY_CONNECTIONS,
        reasons.DATA_LOST,
        reasons.DISK_FULL,
        reasons.NOT_AUTHORIZED,
        reasons.TOPIC_NOT_FOUND,
        reasons.SUBSCRIPTION_NOT_FOUND,
        reasons.TOO_MANY_TOPICS,
        reasons.SUBSCRIPTION_BUSY,
        reasons.ADMIN_UNREACHABLE,
        reasons.ISSUER_UNREACHABLE,
        *ITEM_REASONS,
    }
)
AnyRequest: TypeAlias = (
    Login
    | Objects
    | Reload
    | HttpRequest
    | LoginsRequest
    | AccessRequest
    | StatsRequest
    | ArchiveRequest
    | BacklogRequest
    | ReplayRequest
    | UnsubscribeRequest
    | UsageRequest
)
_BY_PROTOCOL: Mapping[str, type[AnyRequest]] = {
    "access": AccessRequest,
    "archive": ArchiveRequest,
    "backlog": BacklogRequest,
    "http": HttpRequest,
    "logins": LoginsRequest,
    "memcached": StatsRequest,
    "objects": Objects,
    "postgres": Login,
    "reload": Reload,
    "replay": ReplayRequest,
    "unsubscribe": UnsubscribeRequest,
    "usage": UsageRequest,
}
_PROTOCOLS = {type: protocol for protocol, type in _BY_PROTOCOL.items()}
_LONGEST_MESSAGE = 4096
LONGEST_ISSUER = 256
"""Characters of a certificate's issuer."""
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_MOST_NAMES = 64
_LONGEST_NAME = 128
_MOST_ITEMS = 400


@dataclass(frozen=True, kw_only=True)
class Job:
    """A request to make at an address, which may be another than the request's own.

    `slow`: the server hung the last time it was asked.
    """

    request: AnyRequest
    host: str
    port: int
    slow: bool = False

    @property
    def quick(self) -> bool:
        """Whether one answer of the server is all."""
        if isinstance(self.request, SubscriptionRequest):
            named = self.request.topics if isinstance(self.request, BacklogRequest) else ()
            return not (self.request.pattern or named)
        return not isinstance(self.request, Login | Objects | Reload) or self.request.check

    @property
    def server(self) -> tuple[str, str]:
        """Namespace and name of the server: who is to have a fair share."""
        return self.request.namespace, self.request.host

    def slowed(self) -> Job:
        return replace(self, slow=True)

    def line(self) -> bytes:
        request = {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in vars(self.request).items()
            if name != "cache_key"
        }
        protocol = protocol_of(self.request)
        return orjson.dumps({**vars(self), "request": request, "protocol": protocol}) + b"\n"


def protocol_of(request: AnyRequest) -> str:
    """The name by which the prober knows what is asked."""
    return _PROTOCOLS[type(request)]


def job(line: bytes) -> Job:
    """:raises ValueError: (KeyError, TypeError) for what is no job."""
    values = orjson.loads(line)
    protocol, request = values.pop("protocol"), values.pop("request")
    if protocol in ("access", "backlog", "logins", "memcached", "objects"):
        request = {
            name: tuple(value) if isinstance(value, list) else value for name, value in request.items()
        }
    if protocol in ("objects", "postgres", "reload"):
        request["cache_key"] = None
    return Job(**values, request=_BY_PROTOCOL[protocol](**request))


def written(result: ExternalResult, **beside: Any) -> bytes:
    """A line for `read`, which takes nothing of what is `beside`."""
    return orjson.dumps({**vars(result), "facts": dict(result.facts), **beside}, default=str) + b"\n"


def read(line: bytes) -> ExternalResult | None:
    """An answer, or None for what is none: it may come from a process that a server has taken over."""
    try:
        data: Any = orjson.loads(line)
        ok, reason, message, facts = data["ok"], data["reason"], data["message"], data["facts"]
    except (ValueError, LookupError, TypeError):
        return None
    if not (isinstance(ok, bool) and isinstance(reason, str) and isinstance(message, str)):
        return None
    if reason not in REASONS or not isinstance(facts, dict):
        return None
    return ExternalResult(ok=ok, reason=reason, message=message[:_LONGEST_MESSAGE], facts=_facts(facts))


def _facts(data: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for name in ("login", "rules", "done", backlog.QUIET):
        if isinstance(data.get(name), bool):
            facts[name] = data[name]
    if (certificate := _certificate(data.get("certificate"))) is not None:
        facts["certificate"] = certificate
    if isinstance(data.get("version"), str):
        facts["version"] = data["version"][:_MOST_NAMES]
    identifier = data.get("system_identifier")
    if isinstance(identifier, str) and identity.FORM.fullmatch(identifier):
        facts["system_identifier"] = identifier
    if isinstance(data.get("status"), int):
        facts["status"] = data["status"]
    if isinstance(data.get("body"), str):
        facts["body"] = data["body"][:LONGEST_BODY]
    for name in (*COUNTERS, RATIO, READS, *backlog.NUMBERS):
        if isinstance(data.get(name), int) and 0 <= data[name] <= MOST:
            facts[name] = int(data[name])
    used = data.get(USED)
    if isinstance(used, int) and not isinstance(used, bool) and 0 <= used <= MOST_BYTES:
        facts[USED] = used
    archive = data.get("archive")
    if isinstance(archive, dict):
        facts["archive"] = _archive(archive)
    enabled, sessions = data.get(ENABLED), data.get(SESSIONS)
    if isinstance(enabled, list) and isinstance(sessions, list):
        facts[ENABLED] = [str(name)[:_LONGEST_NAME] for name in enabled[:_MOST_NAMES]]
        facts[SESSIONS] = [_session(item) for item in sessions[:MOST_SESSIONS] if isinstance(item, dict)]
    for what in ("pending_restart", RESTARTED):
        if isinstance(names := data.get(what), list):
            facts[what] = [str(name)[:_LONGEST_NAME] for name in names[:_MOST_NAMES]]
    for what in (CRASHED, idle.FACT, init_sql.FACT):
        time = data.get(what)
        if isinstance(time, str) and (not time or _TIME.fullmatch(time)):
            facts[what] = time
    rules = data.get(hba.FIELD)
    if isinstance(rules, list):
        facts[hba.FIELD] = [str(rule)[: hba.LONGEST_RULE] for rule in rules[: hba.MOST_RULES]]
    differing = data.get("differing")
    if isinstance(differing, dict):
        facts["differing"] = {
            str(name)[:_LONGEST_NAME]: needs is True for name, needs in list(differing.items())[:_MOST_NAMES]
        }
    for what in ("roles", "databases"):
        if isinstance(data.get(what), dict):
            facts[what] = _items(data[what])
    if isinstance(data.get("extensions"), dict):
        facts["extensions"] = {
            str(database)[:_LONGEST_NAME]: {
                str(name)[:_LONGEST_NAME]: str(version)[:_LONGEST_NAME] for name, version in found.items()
            }
            for database, found in data["extensions"].items()
            if isinstance(found, dict)
        }
    return facts


def _certificate(found: Any) -> dict[str, str] | None:
    """None where anything is not as `kindling.prober.tls` writes it."""
    if not isinstance(found, dict):
        return None
    values = {name: found.get(name) for name in ("fingerprint", "not_after", "issuer")}
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    if len(texts) < len(values) or len(texts["issuer"]) > LONGEST_ISSUER or "\0" in texts["issuer"]:
        return None
    good = _FINGERPRINT.fullmatch(texts["fingerprint"]) and _TIME.fullmatch(texts["not_after"])
    return texts if good else None


def _session(found: Mapping[str, Any]) -> dict[str, Any]:
    count = found.get("count")
    return {
        "login": str(found.get("login"))[:_LONGEST_NAME],
        "address": str(found.get("address"))[:_MOST_NAMES],
        "application": str(found.get("application") or "")[:LONGEST_APPLICATION],
        "count": min(count, MOST) if isinstance(count, int) and count > 0 else 1,
    }


def _archive(found: Mapping[str, Any]) -> dict[str, Any]:
    """The kind reads them strictly; here nothing large gets through."""
    texts = {
        name: value[:_MOST_NAMES]
        for name in ("mode", "now", "lsn", "archived_until")
        if isinstance(value := found.get(name), str)
    }
    numbers = {name: value for name in ("timeline", "waiting") if isinstance(value := found.get(name), int)}
    settings = found.get("settings")
    settings = settings if isinstance(settings, dict) else {}
    kept = {name: str(settings[name])[:_MOST_NAMES] for name in SETTINGS if name in settings}
    return {**texts, **numbers, "settings": kept}


def _items(data: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Reason and message of each item, by its name."""
    found = {}
    for name, said in list(data.items())[:_MOST_ITEMS]:
        if isinstance(said, list) and len(said) == 2 and said[0] in ITEM_REASONS:
            found[name[:_LONGEST_NAME]] = said[0], str(said[1])[:LONGEST_MESSAGE]
    return found
