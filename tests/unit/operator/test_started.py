"""The startup probe on a real server: the superuser's password is the Secret's, from each start on."""

from __future__ import annotations

import pytest
from kindling.kinds.postgresql.started import STARTED

from tests.unit.operator.conftest import SUPERUSER_PASSWORD, Files
from tests.unit.operator.test_postgres_port import as_superuser, sql

ONE = "SELECT 1"


def keep(files: Files, password: str) -> None:
    """What the Secret says, as the kubelet brings it into the Pod."""
    (files.root / "superuser" / "password").write_text(password)


def logs_in(files: Files, password: str, *, database: str = "template1") -> bool:
    return bool(sql(files, ONE, user="kindling", password=password, database=database) == 1)


@pytest.mark.parametrize("password", ["rotated", 'it\'s "quoted" \\ $1 $do$ %L', "пароль é", "p" * 1024])
def test_a_password_that_was_edited_or_lost_counts_from_the_next_start(files: Files, password: str) -> None:
    with files.running():
        assert logs_in(files, SUPERUSER_PASSWORD)
    files.configure({"default_transaction_read_only": "on"})
    keep(files, password)
    with files.running():
        assert logs_in(files, password)
        with pytest.raises(Exception, match="password authentication failed"):
            logs_in(files, SUPERUSER_PASSWORD)
    log = (files.root / "server.log").read_text()
    assert password not in log
    assert "ALTER ROLE" not in log
    assert "SCRAM-SHA-256$" not in log


def test_where_it_cannot_be_set_the_server_starts_all_the_same(files: Files) -> None:
    """With the Secret's password gone or empty it keeps its own; without its role it serves the others."""
    with files.running():
        as_superuser(files, "CREATE ROLE ada LOGIN SUPERUSER PASSWORD 'lovelace'")
    keep(files, "")
    with files.running():
        assert logs_in(files, SUPERUSER_PASSWORD)
    (files.root / "superuser" / "password").unlink()
    with files.running():
        assert logs_in(files, SUPERUSER_PASSWORD)
        rename = "ALTER ROLE kindling RENAME TO other"
        sql(files, rename, user="ada", password="lovelace", database="template1")
    with files.running():
        assert sql(files, ONE, user="ada", password="lovelace", database="template1") == 1


def test_a_server_that_takes_no_connections_has_not_started(files: Files) -> None:
    assert files.run(STARTED) != 0
    with files.running():
        assert files.run(STARTED) == 0
    assert files.run(STARTED) != 0
