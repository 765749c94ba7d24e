"""TLS against a real PostgreSQL: whom the operator speaks to, and files that a running server reads again."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from kindling.kinds import certificates, server_tls
from kindling.kinds.base import ExternalResult
from kindling.kinds.certificates import Pair
from kindling.kinds.postgresql import hba, tls
from kindling.kinds.postgresql.login import Login
from kindling.kinds.postgresql.objects import Objects
from kindling.kinds.postgresql.reload import Reload
from kindling.prober import jobs, objects, postgres, reload

from tests.unit.operator.conftest import SUPERUSER_PASSWORD, USER, Files

HOST = "db.ns.svc"
NOW = datetime.now(UTC)
LIFE = timedelta(days=1)
"""From when the tests are collected, which may be an hour before they run."""
AUTHORITY = certificates.make_authority(b"a", name="authority", now=NOW)
OTHER = certificates.make_authority(b"b", name="authority", now=NOW)


def pair(
    entropy: bytes = b"x",
    *,
    authority: Pair = AUTHORITY,
    host: str = HOST,
    now: datetime = NOW,
    life: timedelta = LIFE,
) -> Pair:
    return certificates.make_server(entropy, authority=authority, name="db", hosts=[host], now=now, life=life)


ENDED = pair(now=NOW - timedelta(minutes=4), life=timedelta(minutes=2))


def put(files: Files, made: Pair) -> None:
    """As the kubelet puts them: the key may be read by its owner alone."""
    for name, text in ((server_tls.CERTIFICATE, made.certificate), (server_tls.KEY, made.key)):
        path = files.root / "tls" / name
        path.write_text(text)
        path.chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(path, USER)


@contextmanager
def serving(files: Files, made: Pair, *, required: bool = False) -> Iterator[None]:
    put(files, made)
    write_rules(files, required=required)
    words = files.words(tls.SETTINGS)
    with files.running(*(word for word in words if word != "-c")):
        yield


def write_rules(files: Files, *, required: bool) -> None:
    (files.root / "config" / "pg_hba.conf").write_text(hba.file(tls_required=required))


def login(files: Files, **changes: Any) -> Login:
    values: dict[str, Any] = {
        "host": HOST,
        "port": files.port,
        "namespace": "ns",
        "pod": "db-0",
        "user": "ada",
        "password": "lovelace-1815",
        "superuser": "kindling",
        "superuser_password": SUPERUSER_PASSWORD,
        "ca": AUTHORITY.certificate,
        "tls_required": False,
        "cache_key": None,
    }
    return Login(**{**values, **changes})


def request(files: Files, wanted: Pair, *, required: bool = False, ca: str = AUTHORITY.certificate) -> Reload:
    certificate = certificates.read(wanted.certificate)
    assert certificate is not None
    return Reload(
        host=HOST,
        port=files.port,
        namespace="ns",
        pod="db-0",
        superuser="kindling",
        superuser_password=SUPERUSER_PASSWORD,
        ca=ca,
        fingerprint=certificate.fingerprint,
        user="ada",
        tls_required=required,
        cache_key=None,
    )


def sync(wanted: Login) -> ExternalResult:
    return postgres.sync(("127.0.0.1", wanted.port), wanted)


def carry_out(wanted: Reload, files: Files, monkeypatch: pytest.MonkeyPatch) -> ExternalResult:
    monkeypatch.setattr(reload, "CERTIFICATE_FILE", str(files.root / "tls" / server_tls.CERTIFICATE))
    return reload.sync(("127.0.0.1", wanted.port), wanted)


def fingerprint(answer: ExternalResult) -> str:
    return str(answer.facts["certificate"]["fingerprint"])


def of(made: Pair) -> str:
    certificate = certificates.read(made.certificate)
    assert certificate is not None
    return certificate.fingerprint


def test_login_verifies_the_server_and_reads_what_it_serves(files: Files) -> None:
    made = pair()
    with serving(files, made):
        answer = sync(login(files))
        assert (answer.ok, answer.facts["rules"]) == (True, True), answer
        assert fingerprint(answer) == of(made)
        expected = NOW.replace(microsecond=0) + LIFE
        assert answer.facts["certificate"]["not_after"] == certificates.stamp(expected)
        assert answer.facts["certificate"]["issuer"] == "CN=authority"
        assert jobs.read(jobs.written(answer)) == answer
        checked = postgres.check_health(("127.0.0.1", files.port), login(files).health_check())
        assert checked.ok
        assert fingerprint(checked) == of(made)
        wanted = Objects(
            host=HOST, port=files.port, namespace="ns", pod="db-0", superuser="kindling",
            superuser_password=SUPERUSER_PASSWORD, identifier=None, default_user="ada",
            ca=AUTHORITY.certificate, roles=({"name": "r", "login": False, "member_of": [],
            "connection_limit": -1, "password": None},), cache_key=None,
        )  # fmt: skip
        assert objects.sync(("127.0.0.1", files.port), wanted).ok
        assert objects.sync(("127.0.0.1", files.port), replace(wanted, ca=OTHER.certificate)).reason == (
            "CertificateRejected"
        )


@pytest.mark.parametrize(
    ("served", "ca", "word"),
    [
        (pair(authority=OTHER), AUTHORITY.certificate, "certificate verify failed"),
        (pair(host="another.ns.svc"), AUTHORITY.certificate, "does not match host name"),
        (ENDED, AUTHORITY.certificate, "certificate verify failed"),
    ],
    ids=["another authority", "another name", "ended"],
)
def test_another_certificate_is_refused_and_gets_no_password(
    files: Files, served: Pair, ca: str, word: str
) -> None:
    with serving(files, served):
        answer = sync(login(files, ca=ca))
        assert (answer.ok, answer.reason) == (False, "CertificateRejected")
        assert word in answer.message
        assert "lovelace" not in answer.message
        log = (files.root / "server.log").read_text()
        assert "ada" not in log
        assert "CREATE ROLE" not in log


def test_server_without_tls_is_refused_where_there_should_be_some(server: Files) -> None:
    answer = sync(login(server))
    assert (answer.ok, answer.reason) == (False, "CertificateRejected")
    assert "does not support SSL" in answer.message


def test_new_certificate_is_served_by_a_reload_and_no_session_ends(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = pair(), pair(b"y")
    with serving(files, first):
        assert sync(login(files)).ok
        with psycopg.connect(
            host="127.0.0.1", port=files.port, user="ada", password="lovelace-1815", dbname="ada",
            sslmode="require", autocommit=True,
        ) as session:  # fmt: skip
            # The Pod has the old file still: nothing is to be read again.
            answer = carry_out(request(files, second), files, monkeypatch)
            assert (answer.ok, answer.facts["done"], fingerprint(answer)) == (True, False, of(first))
            put(files, second)
            compared = carry_out(replace(request(files, second), apply=False), files, monkeypatch)
            assert (compared.facts["done"], fingerprint(compared)) == (False, of(first))
            answer = carry_out(request(files, second), files, monkeypatch)
            assert (answer.ok, answer.facts["done"], fingerprint(answer)) == (True, True, of(second))
            assert session.execute("SELECT 1").fetchone() == (1,)
        assert fingerprint(sync(login(files))) == of(second)
        # Where the next is wanted already, what the Pod has got is served meanwhile, and read once.
        put(files, first)
        answer = carry_out(request(files, pair(b"z")), files, monkeypatch)
        assert (answer.ok, answer.facts["done"], fingerprint(answer)) == (True, False, of(first))
        loaded = (files.root / "server.log").read_text().count("received SIGHUP")
        assert not carry_out(request(files, pair(b"z")), files, monkeypatch).facts["done"]
        assert carry_out(request(files, first), files, monkeypatch).facts["done"]
        assert (files.root / "server.log").read_text().count("received SIGHUP") == loaded


def test_ended_certificate_is_exchanged_by_a_login_bound_to_the_connection(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(files, ENDED):
        put(files, pair(b"y"))
        answer = carry_out(request(files, pair(b"y")), files, monkeypatch)
        assert (answer.ok, answer.facts.get("done")) == (True, True), answer
        assert sync(login(files)).ok


def test_nobody_is_asked_to_read_files_who_does_not_know_the_verifier(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(files, pair(authority=OTHER)):
        wanted = replace(request(files, pair(b"y")), superuser_password="of the true server")
        answer = carry_out(wanted, files, monkeypatch)
        assert (answer.ok, answer.reason) == (False, "SuperuserLoginFailed")


def test_tls_is_required_by_a_reload(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pair()
    plain: dict[str, Any] = {
        "host": "127.0.0.1", "port": files.port, "user": "ada", "password": "lovelace-1815", "dbname": "ada",
    }  # fmt: skip
    with serving(files, made):
        assert sync(login(files)).ok
        with psycopg.connect(**plain, sslmode="disable"):
            pass
        assert sync(login(files, tls_required=True)).facts["rules"] is False
        write_rules(files, required=True)
        # The file alone is not what is in force, and the server knows nothing of who came to ask.
        assert sync(login(files, tls_required=True)).facts["rules"] is False
        answer = carry_out(request(files, made, required=True), files, monkeypatch)
        assert (answer.ok, answer.facts["done"]) == (True, True)
        assert sync(login(files, tls_required=True)).facts["rules"] is True
        with pytest.raises(psycopg.OperationalError, match="no encryption"):
            psycopg.connect(**plain, sslmode="disable")
        with psycopg.connect(**plain, sslmode="require"):
            pass
        write_rules(files, required=False)
        assert sync(login(files)).facts["rules"] is False
        assert carry_out(request(files, made), files, monkeypatch).facts["done"]
        assert sync(login(files)).facts["rules"] is True
        # Whoever tries is not in the log as one with a wrong password.
        assert "password authentication failed" not in (files.root / "server.log").read_text()


def test_bad_files_keep_the_certificate_that_is_served(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the Secret be edited in the moment before it is set back."""
    made, broken = pair(), Pair(pair(b"y").certificate, pair(b"z").key)
    with serving(files, made):
        assert sync(login(files)).ok
        put(files, broken)
        answer = carry_out(request(files, broken), files, monkeypatch)
        assert (answer.ok, answer.facts["done"], fingerprint(answer)) == (True, False, of(made))
        assert sync(login(files)).ok


def test_psql_by_the_files_of_the_binding(files: Files) -> None:
    made = pair(host="localhost")
    (files.root / "ca.crt").write_text(AUTHORITY.certificate)
    with serving(files, made):
        assert sync(login(files, host="localhost")).ok
        uri = f"postgresql://ada@localhost:{files.port}/ada"
        for ca, status in ((AUTHORITY, 0), (OTHER, 2)):
            (files.root / "ca.crt").write_text(ca.certificate)
            done = subprocess.run(
                ["psql", f"{uri}?sslmode=verify-full", "-c", "SELECT 1"],
                env={"PATH": os.environ["PATH"], "PGPASSWORD": "lovelace-1815",
                     "PGSSLROOTCERT": str(files.root / "ca.crt")},
                capture_output=True, timeout=30, check=False,
            )  # fmt: skip
            assert done.returncode == status, done.stderr
