"""What is said of a server that did not let in: reasons and messages, each with its next step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kindling.kinds.contract import Answer
from kindling.kinds.postgresql import disk
from kindling.kinds.postgresql.login import Login
from kindling.prober.sessions import told


def not_responding(login: Login, seconds: float) -> Answer:
    return Answer(
        ok=False,
        reason="NotResponding",
        message=f"The server at {login.host}:{login.port} did not answer within {seconds:g} s. It is asked "
        f"again; see Pod {login.pod} (`kubectl describe pod {login.pod} -n {login.namespace}`), its log, its "
        "node and its disk. Deleting the Pod starts the server anew.",
    )


def failed(login: Login, error: BaseException, *, facts: Mapping[str, Any]) -> Answer:
    return Answer(
        ok=False,
        reason="LoginFailed",
        message=f"No login through {login.host}:{login.port} yet: {told(error)}. It is tried again; "
        "see the Pod's log if this lasts.",
        facts=facts,
    )


def disk_full(error: BaseException, *, facts: Mapping[str, Any]) -> Answer:
    """The kind says what to do about it; here are PostgreSQL's own words."""
    return Answer(ok=False, reason=disk.REASON, message=told(error), facts=facts)


def other_data(login: Login, found: str) -> Answer:
    """`found` is the system identifier of the data that is there."""
    return Answer(
        ok=False,
        reason="DataLost",
        message=f"The server has data of system identifier {found}, not {login.identifier}.",
        facts={"system_identifier": found},
    )


def too_many(login: Login, *, facts: Mapping[str, Any], ok: bool) -> Answer:
    return Answer(
        ok=ok,
        reason="TooManyConnections",
        message=f"The server at {login.host}:{login.port} serves as many connections as it may, and takes no "
        f"login of {login.user!r}: close some, or raise spec.parameters.max_connections (a restart puts "
        "it into force) or the role's own limit.",
        facts=facts,
    )


def broken_off(login: Login) -> Answer:
    return Answer(
        ok=False,
        reason="LoginFailed",
        message=f"The server at {login.host}:{login.port} answered more than fits, asked for more computing "
        "than a login takes, or sent what is no answer. It is tried again; see what runs in "
        f"Pod {login.pod} (`kubectl describe pod {login.pod} -n {login.namespace}`).",
    )


def unsafe(login: Login) -> Answer:
    return Answer(
        ok=False,
        reason="UnsafeAuthentication",
        message=f"The server at {login.host}:{login.port} does not ask for SCRAM-SHA-256, so it was not "
        "told the password: use an image whose server keeps to the pg_hba.conf of ConfigMap "
        f"{login.host.partition('.')[0]}-config.",
    )
