"""Access tokens from an issuer that is really there: got, renewed before they end, refused, missed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pulsar_consumer import credentials, oauth2
from pulsar_consumer.client import Hopeless, connect
from pulsar_consumer.credentials import shown
from pulsar_consumer.oauth2 import IssuerRefused, IssuerUnreachable, Tokens
from pulsar_consumer.settings import Broker, OAuth2

from tests.authority import Authority
from tests.issuer import Issuer
from tests.ports import free_port

SECONDS = 60.0
"""However busy the machine is."""


@pytest.fixture
def issuer(tmp_path: Path) -> Iterator[Issuer]:
    folder, port, authority = tmp_path / "issuer", free_port(), Authority("tests")
    folder.mkdir()
    pair = authority.issue("issuer", "127.0.0.1")
    settings = {"url": f"https://127.0.0.1:{port}", "port": port, "host": "127.0.0.1", "seconds": 600}
    settings["clients"] = {"workers": "canary-secret"}
    for name, text in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (folder / name).write_text(text)
    (folder / "settings.json").write_text(json.dumps(settings))
    (tmp_path / "ca.crt").write_text(authority.certificate)
    (tmp_path / "clientId").write_text("workers\n")
    (tmp_path / "clientSecret").write_text("canary-secret\n")
    with Issuer(folder).running() as running:
        yield running
    for each in credentials._tokens.values():
        each.stop()


@pytest.fixture
def settings(issuer: Issuer, tmp_path: Path) -> OAuth2:
    return OAuth2(issuer=f"{issuer.url}/", audience="pulsar", scope="read write", files=tmp_path)


def test_a_token_is_asked_for_with_all_that_is_set(issuer: Issuer, settings: OAuth2, tmp_path: Path) -> None:
    token, life = oauth2.fetch(settings, tmp_path / "ca.crt")
    assert token.count(".") == 2
    assert life == 600
    wanted = {"client_id": "workers", "audience": "pulsar", "scope": "read write"}
    assert issuer.given == [{"grant_type": "client_credentials", **wanted}]


def test_credentials_that_cannot_be_read_are_named(settings: OAuth2, tmp_path: Path) -> None:
    (tmp_path / "clientSecret").unlink()
    with pytest.raises(IssuerUnreachable, match="the client's credentials cannot be read"):
        oauth2.fetch(settings, tmp_path / "ca.crt")


def test_a_client_that_is_not_known_is_refused_in_a_word_of_the_standard(
    settings: OAuth2, tmp_path: Path
) -> None:
    (tmp_path / "clientSecret").write_text("wrong")
    with pytest.raises(IssuerRefused) as raised:
        oauth2.fetch(settings, tmp_path / "ca.crt")
    assert str(raised.value) == "status 401 (invalid_client)"


def test_an_issuer_that_is_not_trusted_is_sent_no_secret(issuer: Issuer, settings: OAuth2) -> None:
    with pytest.raises(IssuerUnreachable, match="its certificate is not trusted"):
        oauth2.fetch(settings, None)
    assert issuer.given == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((503, {}), "status 503"),
        ((200, {}), "its answer has no token"),
        ((200, {"token_endpoint": "http://127.0.0.1/token"}), "not https"),
        ((200, {"token_endpoint": "https://127.0.0.1:1/token"}), "no connection"),
        ((200, []), "its answer has no token"),
    ],
)
def test_what_is_no_issuer_is_named_without_its_words(
    issuer: Issuer, settings: OAuth2, tmp_path: Path, answer: tuple[int, object], said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(issuer, "answer", lambda path, form: answer)
    with pytest.raises(IssuerUnreachable, match=said):
        oauth2.fetch(settings, tmp_path / "ca.crt")


def test_a_token_is_renewed_before_it_ends_and_kept_while_the_issuer_is_away(
    issuer: Issuer, settings: OAuth2, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oauth2, "PAUSE_SECONDS", 0.1)
    issuer.seconds = 2
    tokens = Tokens(settings, tmp_path / "ca.crt")
    first = tokens.ensure()
    _until(lambda: tokens.current() != first)
    assert len(issuer.given) == 2
    issuer.away = True
    last = tokens.current()
    time.sleep(2.5)
    assert tokens.current() == last
    with pytest.raises(IssuerUnreachable, match="status 503"):
        tokens.ensure()
    issuer.away = False
    _until(lambda: tokens.current() != last)
    tokens.stop()


def test_a_client_says_why_it_has_no_token(issuer: Issuer, settings: OAuth2, tmp_path: Path) -> None:
    broker = Broker(server="pulsar://127.0.0.1:1", oauth2=settings, ca_file=tmp_path / "ca.crt")
    issuer.away = True
    with pytest.raises(
        Hopeless, match="IssuerUnreachable: the issuer cannot be asked for a token: status 503"
    ):
        connect(broker)
    issuer.away = False
    (tmp_path / "clientSecret").write_text("wrong")
    with pytest.raises(
        Hopeless, match="AuthenticationFailed: the issuer does not accept client ID and secret"
    ):
        connect(broker)
    (tmp_path / "clientSecret").write_text("canary-secret")
    connect(broker).close()
    found = shown(broker)
    assert found is not None
    assert (found.method, found.data.count(".")) == ("token", 2)


def _until(holds: object) -> None:
    assert callable(holds)
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
