"""What is handed to the prober and comes back, as one line of JSON each way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from kindling.kinds.contract import Answer
from kindling.kinds.postgresql import identity
from kindling.kinds.postgresql.login import Login

LONGEST_LINE = 2**20
"""Bytes of a job: spec.parameters are what makes one long."""
LONGEST_ANSWER = 2**16

REASONS = frozenset({
    "", "LoginFailed", "SuperuserLoginFailed", "UnsafeAuthentication", "InvalidParameter", "Paused",
    "RestartPending", "NotResponding", "TooManyConnections", "DataLost", "DiskFull",
})  # fmt: skip
_LONGEST_MESSAGE = 4096
_MOST_NAMES = 64
_LONGEST_NAME = 128


@dataclass(frozen=True, kw_only=True)
class Job:
    """A login to make at an address, which may be another than the login's own.

    `look` asks for a health check alone. `slow`: the server hung the last time it was asked.
    """

    login: Login
    host: str
    port: int
    look: bool = False
    slow: bool = False

    @property
    def server(self) -> tuple[str, str]:
        """Namespace and name of the server: who is to have a fair share."""
        return self.login.namespace, self.login.host

    def slowed(self) -> Job:
        return replace(self, slow=True)

    def line(self) -> bytes:
        login = {name: value for name, value in vars(self.login).items() if name != "memo"}
        login["parameters"] = dict(self.login.parameters)
        login["defaults"] = dict(self.login.defaults)
        return orjson.dumps({**vars(self), "login": login}) + b"\n"


def job(line: bytes) -> Job:
    """:raises ValueError: (KeyError, TypeError) for what is no job."""
    values = orjson.loads(line)
    return Job(**{**values, "login": Login(**values["login"], memo=None)})


def written(answer: Answer) -> bytes:
    return orjson.dumps({**vars(answer), "facts": dict(answer.facts)}, default=str) + b"\n"


def read(line: bytes) -> Answer | None:
    """An answer, or None for what is none: it may come from a process that a server has taken over."""
    try:
        said: Any = orjson.loads(line)
        ok, reason, message, facts = said["ok"], said["reason"], said["message"], said["facts"]
    except (ValueError, LookupError, TypeError):
        return None
    if not (isinstance(ok, bool) and isinstance(reason, str) and isinstance(message, str)):
        return None
    if reason not in REASONS or not isinstance(facts, dict):
        return None
    return Answer(ok=ok, reason=reason, message=message[:_LONGEST_MESSAGE], facts=_facts(facts))


def _facts(said: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if isinstance(said.get("login"), bool):
        facts["login"] = said["login"]
    if isinstance(said.get("version"), str):
        facts["version"] = said["version"][:_MOST_NAMES]
    identifier = said.get("system_identifier")
    if isinstance(identifier, str) and identity.FORM.fullmatch(identifier):
        facts["system_identifier"] = identifier
    names = said.get("pending_restart")
    if isinstance(names, list):
        facts["pending_restart"] = [str(name)[:_LONGEST_NAME] for name in names[:_MOST_NAMES]]
    return facts
