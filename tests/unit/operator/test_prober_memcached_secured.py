"""The prober and a real memcached with TLS and logins: who proves to be it, and which password it accepts."""

from __future__ import annotations

import socket
from datetime import timedelta
from typing import Any

import pytest
from kindling.kinds import certificates
from kindling.kinds.base import ExternalResult
from kindling.kinds.memcached.access import AccessRequest
from kindling.kinds.memcached.stats import COUNTERS, StatsRequest
from kindling.prober import jobs

from tests.unit.operator.secured_caches import NAME, SecuredCache, authority, issued, running
from tests.unit.operator.shared_prober import shared_prober
from tests.unit.operator.tcp_servers import serving

ONE, OTHER = authority(b"one"), authority(b"other")


def request(port: int, *, stats: bool = False, **fields: Any) -> AccessRequest:
    kind = StatsRequest if stats else AccessRequest
    if "passwords" in fields:
        fields["username"] = "memcached"
    return kind(namespace="ns", host="127.0.0.1", port=port, pod="cache-0", name=NAME, **fields)


def ask(port: int, **fields: Any) -> ExternalResult:
    return shared_prober().run(request(port, **fields))[0]


def test_it_gets_in_by_tls_and_login_and_says_what_is_served() -> None:
    pair = issued(ONE)
    with running(pair=pair, passwords=("word",)) as cache:
        answer = ask(cache.port, ca=ONE.certificate, passwords=("word",))
        counted = ask(cache.port, ca=ONE.certificate, passwords=("word",), stats=True)
    found = certificates.read(pair.certificate)
    assert found is not None
    assert answer.ok, answer
    assert answer.facts == {
        "login": True,
        "certificate": {
            "fingerprint": found.fingerprint,
            "not_after": certificates.stamp(found.not_after),
            "issuer": "CN=authority",
        },
    }
    assert counted.ok, counted
    assert set(counted.facts) == {"login", "certificate", *COUNTERS}


def test_of_two_passwords_it_says_whether_the_first_is_accepted() -> None:
    with running(passwords=("old",)) as cache:
        assert ask(cache.port, passwords=("new", "old")).facts == {"login": False}
        assert ask(cache.port, passwords=("old", "new")).facts == {"login": True}
        refused = ask(cache.port, passwords=("new", "newer"))
    assert (refused.ok, refused.reason, refused.facts) == (False, "LoginFailed", {})
    assert "cache-0" in refused.message
    assert "newer" not in refused.message


def rejected(cache: SecuredCache, authority: str) -> ExternalResult:
    answer = ask(cache.port, ca=authority, passwords=("word",))
    assert (answer.ok, answer.reason) == (False, "CertificateRejected"), answer
    assert f"does not prove to be {NAME}" in answer.message
    return answer


def test_another_authority_another_name_and_one_that_has_ended_are_rejected() -> None:
    with running(pair=issued(ONE), passwords=("word",)) as cache:
        rejected(cache, OTHER.certificate)
    with running(pair=issued(ONE, host="other.ns.svc")) as cache:
        rejected(cache, ONE.certificate)
    with running(pair=issued(ONE, life=timedelta(minutes=30))) as cache:
        assert "expired" in rejected(cache, ONE.certificate).message


def test_either_of_two_authorities_will_do() -> None:
    both = certificates.merged(ONE.certificate, OTHER.certificate)
    with running(pair=issued(OTHER)) as cache:
        assert ask(cache.port, ca=both).ok


def test_plain_text_where_tls_is_wanted_is_no_answer() -> None:
    with running(passwords=("word",)) as cache:
        answer = ask(cache.port, ca=ONE.certificate, passwords=("word",))
    assert (answer.ok, answer.reason) == (False, "NotResponding")


def test_the_password_is_sent_to_nobody_who_proves_nothing() -> None:
    received: list[bytes] = []

    def listen(client: socket.socket) -> None:
        received.append(client.recv(65536))

    with serving(listen) as port:
        assert not ask(port, ca=ONE.certificate, passwords=("word",)).ok
    assert received
    assert b"word" not in b"".join(received)


@pytest.mark.parametrize("said", [b"STORED", b"ERROR\r\n", b"STORED and more\r\n", b"\r\n", b""])
def test_what_is_no_answer_to_a_login_is_no_login(said: bytes) -> None:
    def act(client: socket.socket) -> None:
        sent = client.recv(100)
        client.sendall(said or sent)

    with serving(act) as port:
        answer = ask(port, passwords=("word",))
    assert (answer.ok, answer.reason) == (False, "NotResponding")
    assert "word" not in answer.message


def test_a_job_is_the_same_on_the_other_side() -> None:
    for stats in (False, True):
        made = request(1, stats=stats, ca="PEM", passwords=("one", "two"))
        job = jobs.Job(request=made, host="h", port=2)
        assert jobs.job(job.line()) == job
        assert job.quick
        assert "one" not in repr(job)
