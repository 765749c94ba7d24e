"""A server that reads its files again, its certificate and its rules of login, once the Pod has new ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kindling.kinds.base import ExternalResult
from kindling.kinds.postgresql.reload import Reload
from kindling.kinds.server_tls import CERTIFICATE_FILE
from kindling.prober import parameters
from kindling.prober.results import failed, not_responding, superuser_rejected, unsafe, untrusted
from kindling.prober.sessions import (
    CONNECT_SECONDS,
    FAILURES,
    Address,
    LoginRejected,
    Session,
    UnsafeAuthentication,
    UntrustedCertificate,
    admits_plain,
    certificate_of,
    fetchval,
    session,
)
from kindling.prober.tls import Trust

A_SECOND = 1.0
SERVED_SECONDS = 2.0
"""How long after it has read its files a server may serve the certificate before."""

_REJECTED = ("28P01", "28000")
# PostgreSQL says of a file in which second it changed: what changed in the second in which the server read
# its files may have changed after that.
_HAS_CHANGED = """SELECT bool_or(
        (pg_stat_file(path)).modification >= date_trunc('second', pg_conf_load_time())
    ) FROM (VALUES (%s), (current_setting('hba_file'))) AS files (path)"""


def sync(address: Address, request: Reload) -> ExternalResult:
    """Have it read its files again, if they have changed and it serves others than those wanted.

    Whatever they have become: where certificates are renewed faster than a Pod gets them, those that it gets
    are never the newest.

    Where its certificate is not accepted, because its time was over before it could be exchanged or its
    authority was, the login is bound to the connection instead (`Trust.bound`): a server without the
    superuser's verifier gets nowhere, and nothing is asked but to read the files. Never raises for what a
    server may answer. The facts are `done`, `rules`, and `certificate`, which it serves.
    """
    try:
        try:
            served = _synced(address, request, Trust(request.host, request.ca))
        except UntrustedCertificate:
            if not request.apply:
                raise
            _synced(address, request, Trust(request.host, request.ca, bound=True))
            served = _synced(address, request, Trust(request.host, request.ca))
    except UnsafeAuthentication:
        return unsafe(request)
    except UntrustedCertificate as error:
        return untrusted(request, error)
    except TimeoutError:
        return not_responding(request, CONNECT_SECONDS)
    except LoginRejected as error:
        if error.state in _REJECTED:
            return superuser_rejected(request, facts={})
        return failed(request, error, facts={})
    except FAILURES as error:
        return failed(request, error, facts={})
    return served


def _synced(address: Address, request: Reload, trust: Trust) -> ExternalResult:
    with _superuser(address, request, trust) as connection:
        served = certificate_of(connection)
        changed = bool(fetchval(connection, _HAS_CHANGED, CERTIFICATE_FILE))
    # One session at a time: each takes a place of the server's.
    rules = _has_rules(address, request)
    if (_is_wanted(served, request) and rules) or not (request.apply and changed):
        return _answer(served, request, rules=rules)  # unless it has changed, the Pod has no other file yet
    time.sleep(A_SECOND)
    with _superuser(address, request, trust) as connection:
        parameters.reload(connection)
    before, deadline = served, time.monotonic() + SERVED_SECONDS
    while True:
        with _superuser(address, request, trust) as connection:
            served = certificate_of(connection)
        if served != before or _is_wanted(served, request) or time.monotonic() > deadline:
            return _answer(served, request, rules=_has_rules(address, request))
        time.sleep(0.1)


def _has_rules(address: Address, request: Reload) -> bool:
    """Whether it lets in without TLS whom it should, by its own answer."""
    return admits_plain(address, request.user) is (not request.tls_required)


def _is_wanted(served: dict[str, str] | None, request: Reload) -> bool:
    return served is not None and served["fingerprint"] == request.fingerprint


def _answer(served: dict[str, str] | None, request: Reload, *, rules: bool) -> ExternalResult:
    facts: dict[str, Any] = {"rules": rules, "done": rules and _is_wanted(served, request)}
    if served is not None:
        facts["certificate"] = served
    return ExternalResult(ok=True, facts=facts)


@contextmanager
def _superuser(address: Address, request: Reload, trust: Trust) -> Iterator[Session]:
    if request.superuser_password is None:
        raise LoginRejected(_REJECTED[0], "there is no password")
    with session(
        address,
        user=request.superuser,
        password=request.superuser_password,
        database="template1",
        trust=trust,
        quiet=True,
    ) as connection:
        yield connection
