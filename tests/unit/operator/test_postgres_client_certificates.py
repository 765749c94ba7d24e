"""Roles that have to show a certificate, on a real PostgreSQL: who gets in, by which pair, and until when."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from kindling.kinds import certificates, server_tls
from kindling.kinds.base import ExternalResult
from kindling.kinds.certificates import Pair
from kindling.kinds.postgresql import client_certificates, hba, tls

from tests.unit.operator.conftest import SUPERUSER_PASSWORD, Files
from tests.unit.operator.test_postgres_port import as_superuser
from tests.unit.operator.test_postgres_tls import (
    AUTHORITY,
    HOST,
    LIFE,
    NOW,
    OTHER,
    carry_out,
    login,
    pair,
    put,
    request,
    serving,
    sync,
)

CERTIFIED = {"app": client_certificates.CERTIFICATE_ALONE, "careful": client_certificates.WITH_PASSWORD}
SERVED = pair()
BOTH = certificates.merged(OTHER.certificate, AUTHORITY.certificate)
PASSWORDS = {"app": "a", "careful": "c", "bob": "b"}


def client(name: str, *, authority: Pair = AUTHORITY, ended: bool = False) -> Pair:
    now, life = (NOW - timedelta(minutes=4), timedelta(minutes=2)) if ended else (NOW, LIFE)
    return certificates.make_client(b"c", authority=authority, name=name, now=now, life=life)


class Client(NamedTuple):
    """A program with the files of one Secret."""

    files: Files
    folder: Path

    def logs_in(self, user: str, shows: Pair | None = None, *, tls: bool = True, **given: Any) -> Any:
        """Whose certificate the server has seen, by its own word."""
        options: dict[str, Any] = {"sslmode": "require" if tls else "disable", "sslcert": "/dev/null/none"}
        if shows is not None:
            for name, text in (("sslcert", shows.certificate), ("sslkey", shows.key)):
                path = self.folder / name
                path.write_text(text)
                path.chmod(0o600)
                options[name] = str(path)
        with psycopg.connect(
            host="127.0.0.1", port=self.files.port, dbname="ada", user=user, passfile="/dev/null/none",
            **options, **given,
        ) as session:  # fmt: skip
            query = "SELECT coalesce(client_dn, '') FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
            row = session.execute(query).fetchone()
            assert row is not None
            return row[0]

    def is_refused(self, words: str, user: str, shows: Pair | None = None, **given: Any) -> None:
        with pytest.raises(psycopg.OperationalError, match=words):
            self.logs_in(user, shows, **given)


def write(files: Files, certified: dict[str, str]) -> str:
    text = hba.file(tls_required=False, certified=certified)
    (files.root / "config" / "pg_hba.conf").write_text(text)
    return text


def reload(files: Files, text: str, served: Pair, monkeypatch: pytest.MonkeyPatch) -> ExternalResult:
    # Of a file that was written in the second of its last reload the server cannot say that it has read it.
    time.sleep(1.1)
    return carry_out(replace(request(files, served, ca=BOTH), hba=text), files, monkeypatch)


@pytest.fixture
def certified(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A server that asks `app` and `careful` for a certificate since it was asked to read its files again."""
    authority = files.root / "tls" / server_tls.AUTHORITY
    with serving(files, SERVED):
        assert sync(login(files)).ok
        for name, password in PASSWORDS.items():
            as_superuser(files, f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
        authority.write_text(AUTHORITY.certificate)
        text = write(files, CERTIFIED)
        settings = {client_certificates.PARAMETER: str(authority)}
        said = sync(login(files, hba=text, parameters=settings))
        assert (said.ok, said.facts["rules"]) == (True, False)
        answer = reload(files, text, SERVED, monkeypatch)
        assert (answer.ok, answer.facts["done"]) == (True, True), answer
        lines = [line for line in answer.facts[hba.FIELD] if "app" in line or "careful" in line]
        assert [line.partition(" clientcert=")[0] for line in lines] == [
            "hostssl all app all cert",
            "hostssl all careful all scram-sha-256",
            "hostnossl all app,careful all reject",
        ]
        assert "clientcert=verify-full" in lines[1]
        yield Client(files, tmp_path)


def test_a_role_gets_in_by_its_own_certificate_and_nobody_without_it(certified: Client) -> None:
    assert certified.logs_in("app", client("app")) == "/CN=app"
    assert certified.logs_in("careful", client("careful"), password="c") == "/CN=careful"
    certified.is_refused("no password supplied", "careful", client("careful"))
    certified.is_refused("password authentication failed", "careful", client("careful"), password="a")
    for name in ("app", "careful"):
        password = PASSWORDS[name]
        certified.is_refused("requires a valid client certificate", name, password=password)
        certified.is_refused("pg_hba.conf rejects", name, tls=False, password=password)
    # Others as before, whether they have TLS or not.
    assert certified.logs_in("bob", password="b") == certified.logs_in("bob", tls=False, password="b") == ""
    certified.is_refused("no password supplied", "bob", client("bob"))
    certified.is_refused("certificate authentication failed", "app", client("careful"))
    certified.is_refused("authentication failed", "careful", client("app"), password="c")
    # One by another authority, one that has ended, and the server's own, even if it has the role's name.
    certified.is_refused("unknown ca", "app", client("app", authority=OTHER))
    certified.is_refused("certificate expired|expired certificate", "app", client("app", ended=True))
    named = certificates.make_server(b"s", authority=AUTHORITY, name="app", hosts=[HOST], now=NOW, life=LIFE)
    certified.is_refused("certificate", "app", named)


def test_another_authority_and_the_end_of_the_option_are_put_into_force_by_a_reload(
    certified: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, successor = certified.files, pair(b"y", authority=OTHER)
    (files.root / "tls" / server_tls.AUTHORITY).write_text(OTHER.certificate)
    put(files, successor)
    time.sleep(1.1)
    answer = carry_out(request(files, successor, ca=BOTH), files, monkeypatch)
    assert (answer.ok, answer.facts["done"]) == (True, True), answer
    certified.is_refused("unknown ca", "app", client("app"))
    assert certified.logs_in("app", client("app", authority=OTHER)) == "/CN=app"

    text = write(files, {"careful": client_certificates.WITH_PASSWORD})
    assert reload(files, text, successor, monkeypatch).facts["done"] is True
    certified.is_refused("no password supplied", "app", client("app", authority=OTHER))
    assert certified.logs_in("app", password="a") == ""
    certified.is_refused("requires a valid client certificate", "careful", password="c")
    text = write(files, {})
    assert text == hba.DEFAULT
    assert reload(files, text, successor, monkeypatch).facts["done"] is True
    assert sync(login(files, ca=BOTH, hba=text)).ok
    assert as_superuser(files, "SHOW ssl_ca_file") == ""
    assert certified.logs_in("careful", password="c") == ""


def test_a_server_starts_with_200_of_them_and_says_them_all(files: Files) -> None:
    many = {f"{'r' * 60}{number}": CERTIFIED["app" if number % 2 else "careful"] for number in range(200)}
    lines = ["host all all 10.0.0.0/8 scram-sha-256"] * 64
    text = hba.file(
        tls_required=True, lines=lines, users=("ada", "ada_a"), exporter_role="exporter", certified=many
    )
    assert hba.certified_in(text) == many
    put(files, SERVED)
    (files.root / "config" / "pg_hba.conf").write_text(text)
    with files.running(*(word for word in files.words(tls.SETTINGS) if word != "-c")):
        assert sync(login(files, tls_required=True)).ok
        with psycopg.connect(
            host="127.0.0.1", port=files.port, dbname="ada", user="kindling", password=SUPERUSER_PASSWORD,
            sslmode="require",
        ) as session:  # fmt: skip
            rules = session.execute("SELECT count(*), count(error) FROM pg_hba_file_rules").fetchone()
    assert rules == (len(text.splitlines()) - text.count("#"), 0)
    assert rules[0] <= hba.MOST_RULES
    assert max(map(len, text.splitlines())) <= hba.LONGEST_RULE
