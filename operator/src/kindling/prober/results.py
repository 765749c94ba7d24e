"""What is said of a server that did not let in: reasons and messages, each with its next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult
from kindling.kinds.postgresql.login import Login
from kindling.kinds.postgresql.objects import Objects
from kindling.kinds.postgresql.reload import Reload
from kindling.prober.jobs import AnyRequest
from kindling.prober.sessions import LONGEST, summary

SEE = "see what runs there."


def not_responding(request: AnyRequest, seconds: float) -> ExternalResult:
    pod = _pod(request)
    see = f"see {pod}, its log, its node and its disk. Deleting the Pod restarts the server." if pod else SEE
    return ExternalResult(
        ok=False,
        reason=reasons.NOT_RESPONDING,
        message=f"The server at {request.host}:{request.port} did not answer within {seconds:g} s. It is "
        f"queried again; {see}",
    )


def too_much_computing(request: AnyRequest) -> ExternalResult:
    """The reason of a server that hangs: on a busy machine its time is over before its processor time."""
    return ExternalResult(
        ok=False,
        reason=reasons.NOT_RESPONDING,
        message=f"The server at {request.host}:{request.port} asked for more computing than a login takes. "
        f"It is retried; {_see(request)}",
    )


def failed(
    login: Login | Objects | Reload, error: BaseException, *, facts: Mapping[str, Any]
) -> ExternalResult:
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


def invalid_hba(lines: Sequence[str], number: int, error: str, *, facts: Mapping[str, Any]) -> ExternalResult:
    """`lines` are those of the spec, `number` that of the line in them, below 0 for one of the operator's."""
    what = f"spec.hba[{number}] {lines[number]!r}" if 0 <= number < len(lines) else "pg_hba.conf"
    message = (
        f"{what}: PostgreSQL says {error[:LONGEST]!r}, and has not been asked to read the lines: "
        "correct or remove this one."
    )
    if number < 0:
        message = (
            "A line of pg_hba.conf that spec.roles or spec.tls asks for: "
            f"PostgreSQL says {error[:LONGEST]!r}. "
            "Wait for the restart that gives the server TLS, or leave out what needs it."
        )
    return ExternalResult(ok=False, reason=reasons.INVALID_HBA, message=message, facts=facts)


def init_sql_failed(login: Login, error: Exception, *, facts: Mapping[str, Any]) -> ExternalResult:
    return ExternalResult(
        ok=False,
        reason=reasons.INIT_SQL_FAILED,
        message=f"{error} Nothing of it is kept, and database {login.database!r} is not created before it "
        "succeeds. It is run again once what it names changes.",
        facts=facts,
    )


def other_data(login: Login | Objects, found: str) -> ExternalResult:
    """`found` is the system identifier of the data that is there."""
    return ExternalResult(
        ok=False,
        reason=reasons.DATA_LOST,
        message=f"The server has data of system identifier {found}, not {login.identifier}.",
        facts={"system_identifier": found},
    )


def superuser_rejected(login: Login | Objects | Reload, *, facts: Mapping[str, Any]) -> ExternalResult:
    return ExternalResult(
        ok=False,
        reason=reasons.SUPERUSER_LOGIN_FAILED,
        message=f"The server has another password for role {login.superuser!r} than the one in its "
        f"Secret. It is set from there at each start: restart the server with "
        f"`kubectl delete pod {login.pod} -n {login.namespace}`.",
        facts=facts,
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


def broken_off(request: AnyRequest) -> ExternalResult:
    return ExternalResult(
        ok=False,
        reason=reasons.LOGIN_FAILED
        if isinstance(request, Login | Objects | Reload)
        else reasons.NOT_RESPONDING,
        message=f"The server at {request.host}:{request.port} answered more than fits, or sent an invalid "
        f"answer. It is retried; {_see(request)}",
    )


def _see(request: AnyRequest) -> str:
    pod = _pod(request)
    return f"see what runs in {pod}." if pod else SEE


def _pod(request: AnyRequest) -> str | None:
    if not request.pod:
        return None
    return f"Pod {request.pod} (`kubectl describe pod {request.pod} -n {request.namespace}`)"


def untrusted(login: Login | Objects | Reload, error: BaseException) -> ExternalResult:
    """Where its time is over, a restart has it serve the present one; else somebody must look."""
    return ExternalResult(
        ok=False,
        reason=reasons.CERTIFICATE_REJECTED,
        message=f"The server at {login.host}:{login.port} does not prove to be this server: {error}. No "
        f"password was sent; {_see(login)} If its certificate has ended, a restart has it serve the present "
        f"one: `kubectl delete pod {login.pod} -n {login.namespace}`.",
    )


def unsafe(login: Login | Objects | Reload) -> ExternalResult:
    return ExternalResult(
        ok=False,
        reason=reasons.UNSAFE_AUTHENTICATION,
        message=f"The server at {login.host}:{login.port} does not request SCRAM-SHA-256, so it was not "
        "sent the password: use an image whose server keeps to the pg_hba.conf of ConfigMap "
        f"{login.host.partition('.')[0]}-config.",
    )
