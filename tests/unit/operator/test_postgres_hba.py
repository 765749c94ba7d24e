"""Lines of spec.hba on a real PostgreSQL: who is let in, what it cannot use, and what it says is in force."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kindling.kinds.base import ExternalResult
from kindling.kinds.postgresql import hba
from kindling.kinds.postgresql.reload import Reload
from kindling.prober import jobs, postgres, reload

from tests.unit.operator.conftest import SUPERUSER_PASSWORD, Files
from tests.unit.operator.test_postgres_port import as_superuser, login, sql, sync

REJECTED = "pg_hba.conf rejects connection"
DEFAULTS = hba.DEFAULT.splitlines()


def text(*lines: str, user: str = "ada", **changes: Any) -> str:
    users = (user, f"{user}_a", f"{user}_b")
    return hba.file(**{"tls_required": False, "lines": lines, "users": users, **changes})


def put(files: Files, wanted: str) -> None:
    """As the kubelet does, which has the time of now."""
    (files.root / "config" / "pg_hba.conf").write_text(wanted)


def request(files: Files, wanted: str, **changes: Any) -> Reload:
    values: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": files.port,
        "namespace": "ns",
        "pod": "db-0",
        "superuser": "kindling",
        "superuser_password": SUPERUSER_PASSWORD,
        "ca": None,
        "fingerprint": None,
        "user": "ada",
        "tls_required": False,
        "hba": wanted,
        "cache_key": None,
    }
    return Reload(**{**values, **changes})


def carry_out(files: Files, wanted: str, **changes: Any) -> ExternalResult:
    answer = reload.sync(("127.0.0.1", files.port), request(files, wanted, **changes))
    assert jobs.read(jobs.written(answer)) == answer
    return answer


def look(files: Files, wanted: str) -> ExternalResult:
    answer = sync(login(files, hba=wanted))
    assert answer.ok, answer
    assert jobs.read(jobs.written(answer)) == answer
    return answer


def test_a_line_is_in_force_once_the_server_has_read_it_and_drops_nobody(server: Files) -> None:
    look(server, hba.DEFAULT)
    as_superuser(server, "CREATE ROLE bob LOGIN PASSWORD 'b'")
    before = text()
    wanted = text("host all bob 127.0.0.0/8 reject", "host all all ::1/128 reject")
    with psycopg.connect(
        host="127.0.0.1", port=server.port, user="bob", password="b", dbname="template1"
    ) as session:
        # The Pod has the file before yet.
        assert look(server, wanted).facts["rules"] is False
        assert carry_out(server, wanted).facts == {"rules": False, "done": False}
        put(server, wanted)
        said = look(server, wanted)
        assert said.facts["rules"] is False
        assert hba.FIELD not in said.facts
        assert carry_out(server, wanted, apply=False).facts["done"] is False
        sql(server, "SELECT 1", user="bob", password="b", database="template1")

        answer = carry_out(server, wanted)
        assert (answer.ok, answer.facts["done"]) == (True, True), answer
        assert answer.facts[hba.FIELD] == [
            *DEFAULTS[:2],
            "host all kindling all scram-sha-256",
            "host ada ada,ada_a,ada_b all scram-sha-256",
            "host all bob 127.0.0.0/8 reject",
            "host all all ::1/128 reject",
            DEFAULTS[2],
        ]
        assert session.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(psycopg.OperationalError, match=REJECTED):
        sql(server, "SELECT 1", user="bob", password="b", database="template1")
    said = look(server, wanted)
    assert (said.facts["rules"], said.facts[hba.FIELD]) == (True, answer.facts[hba.FIELD])
    reloads = (server.root / "server.log").read_text().count("SIGHUP")
    assert carry_out(server, wanted).facts["done"] is True
    assert (server.root / "server.log").read_text().count("SIGHUP") == reloads
    # Out of the spec again.
    assert look(server, before).facts["rules"] is False
    time.sleep(1.1)
    put(server, hba.DEFAULT)
    assert carry_out(server, hba.DEFAULT).facts[hba.FIELD] == DEFAULTS
    sql(server, "SELECT 1", user="bob", password="b", database="template1")


def test_no_line_locks_out_the_operator_or_the_default_user(server: Files) -> None:
    look(server, hba.DEFAULT)
    as_superuser(server, "CREATE ROLE ada_a LOGIN PASSWORD 'a' IN ROLE ada")
    as_superuser(server, "CREATE ROLE kindling_exporter LOGIN PASSWORD 'e'")
    lines = ("host all all all reject", "host all ada,+ada,kindling,kindling_exporter all reject")
    wanted = text(*lines, exporter_role="kindling_exporter")
    put(server, wanted)
    assert carry_out(server, wanted).facts["done"] is True
    assert look(server, wanted).facts["rules"] is True
    assert postgres.check_health(("127.0.0.1", server.port), login(server).health_check()).ok
    for user, password, database in (
        ("ada_a", "a", "ada"),
        ("kindling", SUPERUSER_PASSWORD, "template1"),
        ("kindling_exporter", "e", "postgres"),
    ):
        assert sql(server, "SELECT 1", user=user, password=password, database=database) == 1
    as_superuser(server, "CREATE ROLE member LOGIN PASSWORD 'm' IN ROLE ada")
    for user, password, database in (
        ("member", "m", "ada"),
        ("ada", "lovelace-1815", "postgres"),
        ("kindling_exporter", "e", "ada"),
    ):
        with pytest.raises(psycopg.OperationalError, match=REJECTED):
            sql(server, "SELECT 1", user=user, password=password, database=database)
    assert sync(login(server, user="ada", password="another", hba=wanted)).ok  # it can still be provisioned


def test_what_the_server_cannot_use_is_named_and_not_read(server: Files) -> None:
    look(server, hba.DEFAULT)
    lines = ("host all bob all reject", "hostssl all bob all scram-sha-256")
    wanted = text(*lines)
    put(server, wanted)
    assert look(server, wanted).facts["rules"] is False
    answer = carry_out(server, wanted)
    assert (answer.ok, answer.reason) == (False, "InvalidHba")
    assert "spec.hba[1] 'hostssl all bob all scram-sha-256'" in answer.message
    assert "hostssl record cannot match because SSL is disabled" in answer.message
    assert "correct or remove" in answer.message
    assert (server.root / "server.log").read_text().count("SIGHUP") == 0
    # The CRD does not admit this one; were it there, it would be named as well, and logins go on.
    wanted = text("host all bob all scram-sha-25")
    put(server, wanted)
    answer = carry_out(server, wanted)
    assert "spec.hba[0]" in answer.message
    assert "invalid authentication method" in answer.message
    assert look(server, wanted).facts["rules"] is False


def test_whoever_must_have_tls_cannot_be_let_in_without_by_a_line() -> None:
    rules = text("host all bob all scram-sha-256", tls_required=True).splitlines()
    assert rules.index("hostnossl all all all reject") < rules.index("host all bob all scram-sha-256")
    assert [line for line in rules if line.startswith("host all")] == ["host all bob all scram-sha-256"]


_NAMES = st.one_of(
    st.sampled_from(
        ["all", "replication", "sameuser", "samerole", '"all"', '"a b"', '"#,@é"', '"+"', '"\\"']
    ),
    st.from_regex(
        r'[A-Za-z_][A-Za-z0-9_.$-]{0,62}|"[^"/\x00-\x1f\x7f][^"\x00-\x1f\x7f]{0,62}"', fullmatch=True
    ),
)
_USERS = st.tuples(st.sampled_from(["", "+"]), _NAMES).map("".join)
_ADDRESSES = st.one_of(
    st.sampled_from(["all", "samehost", "samenet"]),
    st.ip_addresses(v=4, network="0.0.0.0/0").flatmap(
        lambda ip: st.integers(0, 32).map(lambda n: f"{ip}/{n}")
    ),
    st.ip_addresses(v=6, network="::/0").flatmap(lambda ip: st.integers(0, 128).map(lambda n: f"{ip}/{n}")),
)
LINES = st.builds(
    lambda kind, databases, users, address, method, gap: gap.join(
        [kind, ",".join(databases), ",".join(users), address, method]
    ),
    st.sampled_from(["host", "hostnossl"]),
    st.lists(_NAMES, min_size=1, max_size=3),
    st.lists(_USERS, min_size=1, max_size=3),
    _ADDRESSES,
    st.sampled_from(hba.METHODS),
    st.sampled_from([" ", "\t", "  \t "]),
)


@given(lines=st.lists(LINES, min_size=1, max_size=8), user=st.sampled_from(["ada", 'we"ird', "all"]))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
def test_every_server_can_read_what_is_admitted(server: Files, lines: list[str], user: str) -> None:
    """A line that one cannot read would keep it from starting."""
    assert [line for line in lines if hba.LINE.fullmatch(line) is None] == []
    put(server, text(*lines, user=user))
    query = "SELECT string_agg(line_number || ' ' || error, ';') FROM pg_hba_file_rules"
    assert as_superuser(server, query) is None
    assert as_superuser(server, "SELECT count(*) FROM pg_hba_file_rules") == len(lines) + 5


def test_a_server_starts_with_lines(files: Files) -> None:
    wanted = text("host all all all reject", 'hostnossl "a b",replication +x 10.0.0.0/8 scram-sha-256')
    put(files, wanted)
    with files.running():
        said = look(files, wanted)
        if not said.facts["rules"]:  # it has started in the second in which the file came
            said = carry_out(files, wanted)
        assert "host all all all reject" in said.facts[hba.FIELD]
