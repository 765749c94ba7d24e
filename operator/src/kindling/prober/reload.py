"""A server that reads its files again, its certificate and its rules of login, once the Pod has new ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kindling.kinds.base import ExternalResult
from kindling.kinds.postgresql.hba import first_line, lines_of
from kindling.kinds.postgresql.reload import Reload
from kindling.kinds.server_tls import CERTIFICATE_FILE
from kindling.prober import hba, parameters
from kindling.prober.results import (
    failed,
    invalid_hba,
    not_responding,
    superuser_rejected,
    unsafe,
    untrusted,
)
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
from kindling.prober.tls import Trust, trust_of

A_SECOND = 1.0
SERVED_SECONDS = 2.0
"""How long after it has read its files a server may serve the certificate before."""

_REJECTED = ("28P01", "28000")
# PostgreSQL says of a file in which second it changed: what changed in the second in which the server read
# its files may have changed after that.
_HAS_CHANGED = """SELECT bool_or(
        (pg_stat_file(path)).modification >= date_trunc('second', pg_conf_load_time())
    ) FROM (VALUES (%s), (current_setting('hba_file'))) AS files (path) WHERE path <> ''"""


def sync(address: Address, request: Reload) -> ExternalResult:
    """Have it read its files again, if they have changed and it serves others than those wanted.

    Whatever they have become: where certificates are renewed faster than a Pod gets them, those that it gets
    are never the newest.

    Where its certificate is not accepted, because its time was over before it could be exchanged or its
    authority was, the login is bound to the connection instead (`Trust.bound`): a server without the
    superuser's verifier gets nowhere, and nothing is asked but to read the files. Never raises for what a
    server may answer. The facts are `done`, `rules`, `hba`, and `certificate`, which it serves.
    """
    trust = trust_of(request)
    try:
        try:
            served = _synced(address, request, trust)
        except UntrustedCertificate:
            if not request.apply or request.ca is None:
                raise
            _synced(address, request, Trust(request.host, request.ca, bound=True))
            served = _synced(address, request, trust)
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


def _synced(address: Address, request: Reload, trust: Trust | None) -> ExternalResult:
    with _superuser(address, request, trust) as connection:
        served, found = certificate_of(connection), _rules(connection, request)
        file = CERTIFICATE_FILE if request.fingerprint is not None else ""
        changed = bool(fetchval(connection, _HAS_CHANGED, file))
    # One session at a time: each takes a place of the server's.
    rules = _has_rules(address, request, found)
    read = rules or (found is not None and found.error is not None)
    if (_is_wanted(served, request) and read) or not (request.apply and changed):
        # Unless it has changed, the Pod has no other file yet.
        return _answer(served, request, rules=rules, found=found)
    time.sleep(A_SECOND)
    with _superuser(address, request, trust) as connection:
        parameters.reload(connection)
    before, deadline = served, time.monotonic() + SERVED_SECONDS
    while True:
        with _superuser(address, request, trust) as connection:
            served, found = certificate_of(connection), _rules(connection, request)
        if served != before or _is_wanted(served, request) or time.monotonic() > deadline:
            return _answer(served, request, rules=_has_rules(address, request, found), found=found)
        time.sleep(0.1)


def _rules(connection: Session, request: Reload) -> hba.Found | None:
    return hba.look(connection, request.hba) if request.hba is not None else None


def _has_rules(address: Address, request: Reload, found: hba.Found | None) -> bool:
    """Whether it has those of the file in force, and lets in without TLS whom it should: it is asked."""
    if found is not None and not found.in_force:
        return False
    return request.fingerprint is None or admits_plain(address, request.user) is (not request.tls_required)


def _is_wanted(served: dict[str, str] | None, request: Reload) -> bool:
    if request.fingerprint is None:
        return True
    return served is not None and served["fingerprint"] == request.fingerprint


def _answer(
    served: dict[str, str] | None, request: Reload, *, rules: bool, found: hba.Found | None
) -> ExternalResult:
    facts: dict[str, Any] = {"rules": rules, "done": rules and _is_wanted(served, request)}
    if served is not None:
        facts["certificate"] = served
    if found is None:
        return ExternalResult(ok=True, facts=facts)
    if found.error is not None:
        number, error = found.error
        lines, first = lines_of(request.hba or ""), first_line(request.hba or "")
        return invalid_hba(lines, number - first, error, facts=facts)
    return ExternalResult(ok=True, facts={**facts, **found.facts})


@contextmanager
def _superuser(address: Address, request: Reload, trust: Trust | None) -> Iterator[Session]:
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
