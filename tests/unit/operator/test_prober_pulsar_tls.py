"""The prober and an admin API behind TLS: who is trusted, what is shown, and a token that is got once."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.pulsarconsumer.backlog import BacklogRequest
from kindling.prober import admin_api, jobs, pulsar, tokens
from kindling.prober.jobs import Job
from kindling.prober.oauth2 import IssuerFailed, IssuerRefused, fetch
from kindling.prober.tokens import TokenCache

from tests.authority import Authority, Pair
from tests.issuer import Issuer
from tests.ports import free_port
from tests.unit.operator.shared_prober import shared_prober
from tests.unit.operator.test_prober_pulsar import STATS, Admin, stats

AUTHORITY, OTHERS = Authority("tests"), Authority("others")
SERVER = AUTHORITY.issue("broker", "broker")
CLIENT, STRANGER = AUTHORITY.issue("workers"), OTHERS.issue("workers")
ASKED = {"topic": "orders", "subscription": "workers", "encrypted": True, "ca": AUTHORITY.certificate}


@contextmanager
def admin(folder: Path, *, server: Pair = SERVER, wants: str = "") -> Iterator[Admin]:
    """An admin API with this certificate; `wants`: it takes clients of this authority alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for name, text in (("server.crt", server.certificate), ("server.key", server.key)):
        (folder / name).write_text(text)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    if wants:
        context.load_verify_locations(cadata=wants)
        context.verify_mode = ssl.CERT_REQUIRED
    with Admin(**{STATS: (200, stats())}).running(context) as running:
        yield running


def ask(port: int, *, host: str = "broker", **fields: Any) -> ExternalResult:
    """What the prober's process answers, which has a little memory for it."""

    asked = BacklogRequest(namespace="ns", host=host, port=port, **{**ASKED, **fields})
    return shared_prober(tunnelled=True).run(asked)[0]


def test_a_broker_of_the_named_authority_is_asked(tmp_path: Path) -> None:
    with admin(tmp_path) as running:
        answer = ask(running.port, authorization="Bearer canary")
    assert answer.ok
    assert running.asked[0][1]["Authorization"] == "Bearer canary"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"ca": OTHERS.certificate}, "its certificate is not accepted"),
        ({"ca": ""}, "its certificate is not accepted"),
        ({"host": "another"}, "its certificate is not accepted"),
    ],
)
def test_a_broker_that_is_not_the_one_is_sent_nothing(
    tmp_path: Path, fields: dict[str, Any], said: str
) -> None:
    with admin(tmp_path) as running:
        answer = ask(running.port, authorization="Bearer canary", **fields)
    assert answer.reason == "AdminUnreachable"
    assert said in answer.message
    assert "canary" not in answer.message
    assert running.asked == []


def test_a_client_certificate_is_shown(tmp_path: Path) -> None:
    with admin(tmp_path, wants=AUTHORITY.certificate) as running:
        shown = {"certificate": CLIENT.certificate, "key": CLIENT.key}
        assert ask(running.port, **shown).ok
        for wrong in ({}, {"certificate": STRANGER.certificate, "key": STRANGER.key}):
            answer = ask(running.port, **wrong)
            assert answer.reason == "AdminUnreachable"
            assert "PRIVATE" not in answer.message


def test_a_server_without_tls_is_named(tmp_path: Path) -> None:
    with Admin(**{STATS: (200, stats())}).running() as running:
        answer = ask(running.port)
    assert "there is no TLS with it" in answer.message


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    folder, port = tmp_path / "issuer", free_port()
    folder.mkdir()
    pair = AUTHORITY.issue("issuer", "127.0.0.1")
    for name, text in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (folder / name).write_text(text)
    settings = {"url": f"https://127.0.0.1:{port}", "port": port, "host": "127.0.0.1", "seconds": 600}
    (folder / "settings.json").write_text(json.dumps({**settings, "clients": {"workers": "s3cret"}}))
    with Issuer(folder).running() as running:
        yield running


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    """The issuer is on this machine, where the prober asks nobody."""
    monkeypatch.setattr(admin_api, "allowed", lambda host, port: (host, port))


def oauth2(issuer: Issuer, secret: str = "s3cret") -> dict[str, str]:
    return {
        "issuer": issuer.url,
        "audience": "pulsar",
        "scope": "",
        "client_id": "workers",
        "client_secret": secret,
    }


def request(port: int, **fields: Any) -> BacklogRequest:
    return BacklogRequest(namespace="ns", host="broker", port=port, **{**ASKED, **fields})


def test_a_token_is_got_from_the_issuer_and_shown(tmp_path: Path, issuer: Issuer, local: None) -> None:
    with admin(tmp_path) as running:
        answer = pulsar.query(("127.0.0.1", running.port), request(running.port, oauth2=oauth2(issuer)))
    assert answer.result.ok
    assert answer.token is not None
    token, seconds = answer.token
    assert running.asked[0][1]["Authorization"] == f"Bearer {token}"
    assert seconds == 600
    assert issuer.given == [
        {"client_id": "workers", "audience": "pulsar", "grant_type": "client_credentials"}
    ]


def test_a_token_that_is_there_is_not_got_again(tmp_path: Path, issuer: Issuer, local: None) -> None:
    cache, asked = TokenCache(), {"oauth2": oauth2(issuer)}
    with admin(tmp_path) as running:
        job = Job(request=request(running.port, **asked), host="127.0.0.1", port=running.port)
        for _ in range(3):
            given = cache.with_token(job)
            assert isinstance(given.request, BacklogRequest)
            answer = pulsar.query(("127.0.0.1", running.port), given.request)
            assert answer.result.ok
            beside = {tokens.ANSWER: list(answer.token)} if answer.token else {}
            cache.keep(given, jobs.written(answer.result, **beside), answer.result)
    assert len(issuer.given) == 1
    assert len({headers["Authorization"] for _, headers in running.asked}) == 1


@pytest.mark.parametrize(
    ("spoil", "reason", "said"),
    [
        (lambda issuer: issuer.clients.clear(), "NotAuthorized", "it answered 401: put client ID and secret"),
        (
            lambda issuer: setattr(issuer, "away", True),
            "IssuerUnreachable",
            "what answers there is no issuer",
        ),
    ],
)
def test_an_issuer_that_gives_none_is_named(
    issuer: Issuer, local: None, spoil: Callable[[Issuer], None], reason: str, said: str
) -> None:
    spoil(issuer)
    answer = pulsar.query(("127.0.0.1", 1), request(1, oauth2=oauth2(issuer)))
    assert (answer.result.reason, answer.token) == (reason, None)
    assert said in answer.result.message
    assert "secret words" not in answer.result.message
    assert "s3cret" not in answer.result.message
    assert jobs.read(jobs.written(answer.result)) == answer.result


def test_an_issuer_on_the_operators_own_machine_is_not_asked(issuer: Issuer) -> None:
    answer = pulsar.query(("127.0.0.1", 1), request(1, oauth2=oauth2(issuer)))
    assert answer.result.reason == "IssuerUnreachable"
    assert "no address that leads to its own Pod or node" in answer.result.message
    assert issuer.given == []


@pytest.mark.parametrize(
    "found",
    [{}, {"access_token": 7}, {"access_token": ""}, {"access_token": "a\r\nHost: b"}, {"access_token": "é"}],
)
def test_what_is_no_token_is_none(
    issuer: Issuer, local: None, monkeypatch: pytest.MonkeyPatch, found: dict[str, Any]
) -> None:
    said = {"token_endpoint": f"{issuer.url}/token"}
    monkeypatch.setattr(issuer, "answer", lambda path, form: (200, found if form else said))
    context = ssl.create_default_context(cadata=AUTHORITY.certificate)
    with pytest.raises(IssuerFailed):
        fetch(oauth2(issuer), context, lambda host, port: (host, port))


def test_a_wrong_secret_is_refused(issuer: Issuer, local: None) -> None:
    context = ssl.create_default_context(cadata=AUTHORITY.certificate)
    with pytest.raises(IssuerRefused, match="401"):
        fetch(oauth2(issuer, "wrong"), context, lambda host, port: (host, port))


def _job(secret: str = "a") -> Job:
    asked = {"issuer": "https://i", "client_id": "c", "client_secret": secret}
    return Job(request=request(1, oauth2=asked), host="h", port=1)


def _answer(token: Any, seconds: Any) -> bytes:
    return jobs.written(ExternalResult(ok=True), **{tokens.ANSWER: [token, seconds]})


def _token(job: Job) -> str:
    assert isinstance(job.request, BacklogRequest)
    return job.request.oauth2.get(tokens.TOKEN, "")


def test_a_token_is_kept_for_whoever_has_the_secret_and_as_long_as_it_is_good() -> None:
    now = 0.0
    cache = TokenCache(clock=lambda: now)
    cache.keep(_job(), _answer("t", 100), ExternalResult(ok=True))
    assert _token(cache.with_token(_job())) == "t"
    assert _token(cache.with_token(_job("b"))) == ""
    now = 81.0
    assert _token(cache.with_token(_job())) == ""


def test_a_token_that_is_refused_is_forgotten() -> None:
    cache, refused = TokenCache(), ExternalResult(ok=False, reason="NotAuthorized", message="m")
    cache.keep(_job(), _answer("t", 100), ExternalResult(ok=True))
    cache.keep(cache.with_token(_job()), jobs.written(refused), refused)
    assert _token(cache.with_token(_job())) == ""


@pytest.mark.parametrize(
    "line",
    [b"", b"x", b"[]", b"{}", _answer(7, 100), _answer("t", -1), _answer("t", True), _answer("t" * 2**15, 9)],
)
def test_an_answer_with_no_such_token_keeps_none(line: bytes) -> None:
    cache = TokenCache()
    cache.keep(_job(), line, ExternalResult(ok=True))
    assert _token(cache.with_token(_job())) == ""


def test_there_are_no_more_tokens_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MOST", 2)
    cache = TokenCache()
    for name in "abc":
        cache.keep(_job(name), _answer(name, 100), ExternalResult(ok=True))
    assert [_token(cache.with_token(_job(name))) for name in "abc"] == ["", "b", "c"]
