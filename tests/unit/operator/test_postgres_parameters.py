"""Parameters on a real PostgreSQL: reload, restart, all or none, drift undone, and what would not start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kindling.kinds.base import ExternalResult
from kindling.prober import jobs

from tests.unit.operator.conftest import Files
from tests.unit.operator.test_postgres_port import as_superuser, login, sync


class Database:
    """A server whose Pod can be replaced, asked as the operator asks."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def ask(self, values: dict[str, str], **changes: Any) -> ExternalResult:
        self.files.configure(values)  # the ConfigMap is written before anything is asked
        return sync(login(self.files, parameters=values, **changes))

    def shows(self, name: str) -> str:
        return str(as_superuser(self.files, f"SELECT current_setting('{name}')"))

    def auto_conf(self) -> str:
        return (self.files.mount / "pgdata" / "postgresql.auto.conf").read_text()

    def reloads(self) -> int:
        return (self.files.root / "server.log").read_text().count("SIGHUP")

    @contextmanager
    def container_starts(self) -> Iterator[None]:
        """Another life of the Pod; the init container runs in it."""
        with self.files.running():
            yield


@pytest.fixture
def database(files: Files) -> Database:
    return Database(files)


def pending(answer: ExternalResult) -> tuple[str, list[str]]:
    return answer.reason, answer.facts.get("pending_restart", [])


def test_first_start_has_them_all_and_nothing_is_executed_when_it_is_so(database: Database) -> None:
    values = {
        "max_connections": "50",
        "work_mem": "5MB",
        "log_line_prefix": r"it's \ %m ",
        "search_path": '"$user", public',
        "shared_preload_libraries": "pg_stat_statements, auto_explain",
        "pg_stat_statements.max": "500",
        "timezone": "Europe/Berlin",
    }
    database.files.configure(values)
    with database.container_starts():
        answer = database.ask(values)
        assert answer.ok, answer
        assert answer.facts["login"] is True
        assert (
            answer.facts["version"] == as_superuser(database.files, "SHOW server_version").partition(" ")[0]
        )
        for name, value in values.items():
            assert database.shows(name).replace('"', "") == value.replace('"', "")
        before = database.auto_conf()
        assert database.ask(values).ok
        assert database.auto_conf() == before
        assert database.reloads() == 0


def test_reload_removal_and_drift(database: Database) -> None:
    """What PostgreSQL can change while it runs is changed while it runs."""
    with database.container_starts():
        values = {"work_mem": "5MB", "search_path": "Foo, b", "log_min_duration_statement": "250"}
        assert database.ask(values).ok
        assert [database.shows(name) for name in values] == ["5MB", "foo, b", "250ms"]
        assert (database.ask(values).ok, database.reloads()) == (True, 1)

        as_superuser(database.files, "ALTER SYSTEM SET work_mem = '7MB'")
        as_superuser(database.files, "ALTER SYSTEM SET DateStyle = 'German'")
        as_superuser(database.files, "ALTER SYSTEM SET max_connections = '77'")  # not in force, so no restart
        assert database.ask(values).ok
        assert [database.shows(name) for name in ("work_mem", "datestyle")] == ["5MB", "ISO, MDY"]
        assert "77" not in database.auto_conf()

        assert database.ask({"work_mem": "6MB"}).ok
        assert [database.shows(name) for name in values] == ["6MB", '"$user", public', "-1"]
        assert database.ask({}).ok
        assert database.shows("work_mem") == "4MB"


def test_cut_off_before_the_reload_it_is_made_up_for(database: Database) -> None:
    with database.container_starts():
        as_superuser(database.files, "SELECT pg_sleep(1.1)")  # files have their times in whole seconds
        as_superuser(database.files, "ALTER SYSTEM SET work_mem = '5MB'")
        assert database.shows("work_mem") == "4MB"
        assert database.ask({"work_mem": "5MB"}).ok
        assert database.shows("work_mem") == "5MB"


def test_restart_is_named_and_puts_all_of_them_into_force(database: Database) -> None:
    """Until then none is in force: reloaded, a part of an edit would be."""
    with database.container_starts():
        assert database.ask({"work_mem": "5MB"}).ok
        before = database.auto_conf()
        values = {"work_mem": "6MB", "max_connections": "50", "wal_buffers": "1MB"}
        for _ in range(2):
            answer = database.ask(values)
            assert pending(answer) == ("RestartPending", ["max_connections", "wal_buffers"])
            assert answer.facts["login"] is True
            assert database.auto_conf() == before
            assert database.shows("work_mem") == "5MB"
    with database.container_starts():
        assert database.ask(values).ok
        assert [database.shows(name) for name in values] == ["6MB", "50", "1MB"]


def test_drift_in_force_needs_a_restart_too(database: Database) -> None:
    with database.container_starts():
        as_superuser(database.files, "ALTER SYSTEM SET max_connections = '77'")
        database.files.configure({"max_connections": "77"})  # a container's restart runs no init container
    with database.container_starts():
        assert pending(database.ask({})) == ("RestartPending", ["max_connections"])
    with database.container_starts():
        assert database.ask({}).ok
        assert database.shows("max_connections") == "100"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"wrk_mem": "4MB"}, ["spec.parameters.wrk_mem '4MB'", "unrecognized configuration parameter"]),
        ({"work_mem": "banana"}, ["spec.parameters.work_mem 'banana'", "invalid value"]),
        ({"work_mem": "5 mb"}, ["spec.parameters.work_mem '5 mb'", "Valid units"]),
        ({"max_connections": "999999999"}, ["spec.parameters.max_connections", "outside the valid range"]),
        ({"server_version": "1"}, ["spec.parameters.server_version '1'", "cannot be changed"]),
        ({"shared_preload_libraries": "a, no_such"}, ["spec.parameters.shared_preload_libraries", "a"]),
        ({"session_preload_libraries": "no_such"}, ["spec.parameters.session_preload_libraries", "no_such"]),
        ({"timezone": "Mars/Olympus"}, ["spec.parameters.timezone 'Mars/Olympus'"]),
    ],
)
def test_what_the_server_refuses_changes_nothing(
    database: Database, bad: dict[str, str], words: list[str]
) -> None:
    with database.container_starts():
        good = {"maintenance_work_mem": "5MB"}
        assert database.ask(good).ok
        before = database.auto_conf()
        answer = database.ask({"application_name": "kept out", **good, **bad, "xmloption": "document"})
        assert (answer.ok, answer.reason) == (False, "InvalidParameter")
        assert [word for word in words if word not in answer.message] == [], answer.message
        assert answer.facts["login"] is True
        assert database.auto_conf() == before
        assert database.shows("xmloption") == "content"
        assert database.ask({**good, "xmloption": "document"}).ok  # fixed at once
        assert database.shows("xmloption") == "document"


def test_right_by_themselves_but_not_together(database: Database) -> None:
    """Nothing runs with it, the server keeps its earlier values, and no restart is retried."""
    with database.container_starts():
        assert database.ask({"work_mem": "5MB"}).ok
        bad = {"max_connections": "3", "work_mem": "6MB"}  # superuser_reserved_connections is 3
        assert pending(database.ask(bad)) == ("RestartPending", ["max_connections"])
    with database.container_starts():
        for _ in range(2):
            answer = database.ask(bad)
            assert (answer.reason, answer.facts.get("pending_restart")) == ("InvalidParameter", None)
            assert "kubectl logs db-0 -c initdb -n ns" in answer.message
            assert [database.shows("max_connections"), database.shows("work_mem")] == ["100", "5MB"]
        assert database.ask({"work_mem": "6MB"}).ok
        assert database.shows("work_mem") == "6MB"
        assert pending(database.ask({"max_connections": "40"})) == ("RestartPending", ["max_connections"])
    with database.container_starts():
        assert database.ask({"max_connections": "40"}).ok


def test_parameters_that_hinder_everybody_do_not_hinder_us(database: Database) -> None:
    values = {
        "default_transaction_read_only": "on",
        "statement_timeout": "1",
        "exit_on_error": "on",
        "search_path": "nowhere",
        "standard_conforming_strings": "off",
        "log_transaction_sample_rate": "1",
        "debug_print_parse": "on",
    }
    database.files.configure(values)
    with database.container_starts():
        assert database.ask(values, user="eve", password="canary-11").ok
        answer = database.ask({**values, "work_mem": "banana"}, user="eve", password="canary-11")
        assert answer.reason == "InvalidParameter"
        backslash = {**values, "log_line_prefix": r"\ '%m' "}
        assert database.ask(backslash, user="eve", password="canary-11").ok
        assert database.shows("log_line_prefix") == r"\ '%m' "
        assert database.ask({}, user="eve", password="canary-12").ok
    log = (database.files.root / "server.log").read_text()
    assert "canary" not in log
    assert "SCRAM-SHA-256$" not in log


def test_paused_only_looks(database: Database) -> None:
    with database.container_starts():
        answer = database.ask({}, provision=False)
        assert (answer.reason, "spec.paused" in answer.message) == ("LoginFailed", True)
        assert as_superuser(database.files, "SELECT count(*) FROM pg_roles WHERE rolname = 'ada'") == 0
        assert database.ask({"work_mem": "5MB"}).ok
        before = database.auto_conf()
        assert database.ask({"work_mem": "5MB"}, provision=False).ok
        answer = database.ask({"work_mem": "6MB"}, provision=False)
        assert (answer.reason, "work_mem" in answer.message) == ("Paused", True)
        assert answer.facts["login"] is True
        assert database.auto_conf() == before


def test_a_look_says_which_of_those_that_differ_need_a_restart(database: Database) -> None:
    """By the server's own word: they are then set, and just those wait for a restart."""
    with database.container_starts():
        assert database.ask({"geqo": "off"}).ok
        before = database.auto_conf()
        wanted = {"work_mem": "6MB", "max_connections": "50", "log_min_duration_statement": "1s"}
        answer = database.ask(wanted, provision=False)
        assert answer.facts["differing"] == {
            "geqo": False,
            "work_mem": False,
            "max_connections": True,
            "log_min_duration_statement": False,
        }
        assert jobs.read(jobs.written(answer)) == answer
        assert database.auto_conf() == before
        answer = database.ask(wanted)
        needed = [name for name, restart in answer.facts.get("differing", {}).items() if restart]
        assert (pending(answer), needed) == (("RestartPending", ["max_connections"]), [])


def test_what_is_planned_is_compared_although_its_password_is_not_set_yet(database: Database) -> None:
    with database.container_starts():
        assert database.ask({}).ok
        planned = {"provision": False, "paused_by": "spec.mode", "password": "canary-another"}
        answer = database.ask({"work_mem": "6MB"}, **planned)
        assert (answer.ok, answer.reason, answer.facts.get("login")) == (False, "Paused", None)
        assert answer.facts["differing"] == {"work_mem": False}
        assert "set spec.mode to Apply" in answer.message
        assert "canary" not in str(answer)
        assert database.ask({}).ok


def test_without_the_superuser_parameters_cannot_be_had_but_the_login_can(database: Database) -> None:
    with database.container_starts():
        assert database.ask({}).ok
        for unknown in ("wrong", None):
            answer = database.ask({"work_mem": "5MB"}, superuser_password=unknown)
            assert (answer.reason, answer.facts["login"]) == ("SuperuserLoginFailed", True)
            assert database.ask({}, superuser_password=unknown).ok


def test_defaults_are_in_force_at_once_and_restart_nothing(database: Database) -> None:
    """A server of an earlier operator takes up what can be; what only a start takes up waits for one."""
    follow = {"max_wal_size": "204MB", "effective_cache_size": "384MB", "shared_buffers": "64MB"}
    with database.container_starts():
        assert database.shows("max_wal_size") == "1GB"
        answer = database.ask({"work_mem": "5MB"}, defaults=follow)
        assert answer.ok, answer
        assert [database.shows(name) for name in follow] == ["204MB", "384MB", "128MB"]
        assert "shared_buffers" not in database.auto_conf()
        before, reloads = database.auto_conf(), database.reloads()
        assert database.ask({"work_mem": "5MB"}, defaults=follow).ok
        assert (database.auto_conf(), database.reloads()) == (before, reloads)

        # The volume has grown; what follows from it does so while the server runs.
        follow["max_wal_size"] = "409MB"
        assert database.ask({"work_mem": "5MB"}, defaults=follow).ok
        assert database.shows("max_wal_size") == "409MB"
        database.files.configure({**follow, "work_mem": "5MB"})
    with database.container_starts():
        assert database.ask({"work_mem": "5MB"}, defaults=follow).ok
        assert [database.shows(name) for name in follow] == ["409MB", "384MB", "64MB"]
        assert database.reloads() == reloads + 1


def test_edit_in_place_of_a_default_and_back(database: Database) -> None:
    follow = {"max_wal_size": "204MB", "shared_buffers": "64MB"}
    database.files.configure(follow)
    with database.container_starts():
        assert database.ask({}, defaults=follow).ok
        assert database.ask({"max_wal_size": "96MB"}, defaults={"shared_buffers": "64MB"}).ok
        assert database.shows("max_wal_size") == "96MB"
        assert database.ask({}, defaults=follow).ok
        assert database.shows("max_wal_size") == "204MB"
        edit = {"shared_buffers": "32MB"}
        assert pending(database.ask(edit, defaults={"max_wal_size": "204MB"})) == (
            "RestartPending",
            ["shared_buffers"],
        )
        database.files.configure({**edit, "max_wal_size": "204MB"})
    with database.container_starts():
        assert database.ask(edit, defaults={"max_wal_size": "204MB"}).ok
        assert database.shows("shared_buffers") == "32MB"
        assert pending(database.ask({}, defaults=follow)) == ("RestartPending", ["shared_buffers"])
        database.files.configure(follow)
    with database.container_starts():
        assert database.ask({}, defaults=follow).ok
        assert database.shows("shared_buffers") == "64MB"


def test_default_changed_by_hand_is_set_back(database: Database) -> None:
    follow = {"max_wal_size": "204MB", "shared_buffers": "64MB"}
    with database.container_starts():
        assert database.ask({}, defaults=follow).ok
        as_superuser(database.files, "ALTER SYSTEM SET max_wal_size = '4GB'")
        as_superuser(database.files, "ALTER SYSTEM SET shared_buffers = '4GB'")  # not in force
        assert database.ask({}, defaults=follow).ok
        assert database.shows("max_wal_size") == "204MB"
        assert "4GB" not in database.auto_conf()


def test_paused_says_that_a_default_differs_and_leaves_it(database: Database) -> None:
    with database.container_starts():
        assert database.ask({}).ok
        answer = database.ask({}, defaults={"max_wal_size": "204MB"}, provision=False)
        assert (answer.reason, "max_wal_size" in answer.message) == ("Paused", True)
        assert database.ask({}, defaults={"shared_buffers": "64MB"}, provision=False).ok


def test_refused_default_says_where_it_comes_from(database: Database) -> None:
    with database.container_starts():
        answer = database.ask({}, defaults={"max_wal_size": "banana"})
        assert answer.reason == "InvalidParameter"
        assert "max_wal_size 'banana', which follows from the volume's size" in answer.message
        assert "spec.parameters.max_wal_size" not in answer.message


def test_what_a_first_start_refused_is_named_where_it_is_wrong_by_itself(database: Database) -> None:
    bad = {"work_mem": "8MB", "shared_bufers": "1GB"}
    database.files.configure(bad)
    with database.container_starts():
        answer = sync(login(database.files, parameters=bad))
        assert answer.reason == "InvalidParameter"
        assert "spec.parameters.shared_bufers '1GB': unrecognized configuration parameter" in answer.message
        assert "work_mem" not in database.auto_conf()
        assert sync(login(database.files, parameters={"work_mem": "8MB"})).ok


def test_what_a_first_start_refused_of_values_that_are_right_by_themselves(database: Database) -> None:
    bad = {"max_connections": "5", "superuser_reserved_connections": "5"}
    database.files.configure(bad)
    with database.container_starts():
        before = database.auto_conf()
        answer = sync(login(database.files, parameters=bad))
        assert answer.reason == "InvalidParameter"
        assert "as they are together, though it takes each by itself" in answer.message
        assert database.auto_conf() == before


def test_what_was_refused_before_there_were_defaults_restarts_nothing(database: Database) -> None:
    bad = {"max_connections": "3"}
    database.files.configure(bad)
    with database.container_starts():
        assert sync(login(database.files, parameters=bad)).reason == "InvalidParameter"
        follow = {"max_wal_size": "204MB"}
        later = sync(login(database.files, parameters=bad, defaults=follow))
        assert later.reason == "InvalidParameter"
