"""What is said of a server that did not let in: reasons and messages, each with its next step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult
from kindling.kinds.postgresql.login import Login
from kindling.prober.sessions import summary


def not_responding(login: Login, seconds: float) -> ExternalResult:
    return ExternalResult(
        ok=False,
        reason=reasons.NOT_RESPONDING,
        message=f"The server at {login.host}:{login.port} did not answer within {seconds:g} s. It is queried "
        f"again; see Pod {login.pod} (`kubectl describe pod {login.pod} -n {login.namespace}`), its log, its "
        "node and its disk. Deleting the Pod restarts the server.",
    )


def too_much_computing(login: Login) -> ExternalResult:
    """The reason of a server that hangs: on a busy machine its time is over before its processor time."""
    return ExternalResult(
        ok=False,
        reason=reasons.NOT_RESPONDING,
        message=f"The server at {login.host}:{login.port} asked for more computing than a login takes. It "
        f"is retried; see what runs in Pod {login.pod} (`kubectl describe pod {login.pod} -n "
        f"{login.namespace}`).",
    )


def failed(login: Login, error: BaseException, *, facts: Mapping[str, Any]) -> ExternalResult:
    return ExternalResult(
        ok=False,
        reason=reasons.LOGIN_FAILED,
        message=f"No login through {login.host}:{login.port} yet: {summary(error)}. It is retried; "
        "see the Pod's log if this lasts.",
        facts=facts,
    )


def disk_full(error: BaseException, *, facts: Mapping[str, Any]) -> ExternalResult:
    """The kind says what to do about it; here are PostgreSQL's own words."""
    return ExternalResult(ok=False, reason=reasons.DISK_FULL, message=summary(error), facts=facts)


def other_data(login: Login, found: str) -> ExternalResult:
    """`found` is the system identifier of the data that is there."""
    return ExternalResult(
        ok=False,
        reason=reasons.DATA_LOST,
        message=f"The server has data of system identifier {found}, not {login.identifier}.",
        facts={"system_identifier": found},
    )


def too_many(login: Login, *, facts: Mapping[str, Any], ok: bool) -> ExternalResult:
    return ExternalResult(
        ok=ok,
        reason=reasons.TOO_MANY_CONNECTIONS,
        message=f"The server at {login.host}:{login.port} serves as many connections as it may, and takes no "
        f"login of {login.user!r}: close some, or raise spec.parameters.max_connections (a restart puts "
        "it into effect) or the role's own limit.",
        facts=facts,
    )


def broken_off(login: Login) -> ExternalResult:
    return ExternalResult(
        ok=False,
        reason=reasons.LOGIN_FAILED,
        message=f"The server at {login.host}:{login.port} answered more than fits, or sent an invalid "
        f"answer. It is retried; see what runs in Pod {login.pod} (`kubectl describe pod {login.pod} -n "
        f"{login.namespace}`).",
    )


def unsafe(login: Login) -> ExternalResult:
    return ExternalResult(
        ok=False,
        reason=reasons.UNSAFE_AUTHENTICATION,
        message=f"The server at {login.host}:{login.port} does not request SCRAM-SHA-256, so it was not "
        "sent the password: use an image whose server keeps to the pg_hba.conf of ConfigMap "
        f"{login.host.partition('.')[0]}-config.",
    )
