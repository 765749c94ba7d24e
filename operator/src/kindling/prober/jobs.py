"""What is handed to the prober and comes back, as one line of JSON each way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult
from kindling.kinds.http import LONGEST_BODY, HttpRequest
from kindling.kinds.postgresql import identity
from kindling.kinds.postgresql.login import Login

LONGEST_LINE = 2**20
"""Bytes of a job: spec.parameters are what makes one long."""
MAX_RESULT_BYTES = 2**16

REASONS = frozenset(
    {
        "",
        reasons.LOGIN_FAILED,
        reasons.SUPERUSER_LOGIN_FAILED,
        reasons.UNSAFE_AUTHENTICATION,
        reasons.INVALID_PARAMETER,
        reasons.PAUSED,
        reasons.RESTART_PENDING,
        reasons.NOT_RESPONDING,
        reasons.TOO_MANY_CONNECTIONS,
        reasons.DATA_LOST,
        reasons.DISK_FULL,
    }
)
_LONGEST_MESSAGE = 4096
_MOST_NAMES = 64
_LONGEST_NAME = 128


@dataclass(frozen=True, kw_only=True)
class Job:
    """A request to make at an address, which may be another than the request's own.

    `slow`: the server hung the last time it was asked.
    """

    request: Login | HttpRequest
    host: str
    port: int
    slow: bool = False

    @property
    def quick(self) -> bool:
        """Whether one answer of the server is all."""
        return isinstance(self.request, HttpRequest) or self.request.check

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
        protocol = "http" if isinstance(self.request, HttpRequest) else "postgres"
        return orjson.dumps({**vars(self), "request": request, "protocol": protocol}) + b"\n"


def job(line: bytes) -> Job:
    """:raises ValueError: (KeyError, TypeError) for what is no job."""
    values = orjson.loads(line)
    protocol, request = values.pop("protocol"), values.pop("request")
    made = HttpRequest(**request) if protocol == "http" else Login(**request, cache_key=None)
    return Job(**values, request=made)


def written(result: ExternalResult) -> bytes:
    return orjson.dumps({**vars(result), "facts": dict(result.facts)}, default=str) + b"\n"


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
    if isinstance(data.get("login"), bool):
        facts["login"] = data["login"]
    if isinstance(data.get("version"), str):
        facts["version"] = data["version"][:_MOST_NAMES]
    identifier = data.get("system_identifier")
    if isinstance(identifier, str) and identity.FORM.fullmatch(identifier):
        facts["system_identifier"] = identifier
    if isinstance(data.get("status"), int):
        facts["status"] = data["status"]
    if isinstance(data.get("body"), str):
        facts["body"] = data["body"][:LONGEST_BODY]
    names = data.get("pending_restart")
    if isinstance(names, list):
        facts["pending_restart"] = [str(name)[:_LONGEST_NAME] for name in names[:_MOST_NAMES]]
    return facts
