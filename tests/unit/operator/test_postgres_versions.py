"""Servers of the other versions of PostgreSQL that a user's image may have: 14, 16 and 18.

All other tests of a server run with Debian's 15, and those on a cluster with the operator's own image, of 17.
Those that ask the most of a version go once more here: its statistics, parameters, rights and restart.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator

import pytest
from kindling.kinds.postgresql.usage import CRASHED

from tests import postgresql_versions
from tests.unit.operator import (
    test_postgres_hba,
    test_postgres_init_sql,
    test_postgres_objects,
    test_postgres_parameters,
    test_postgres_port,
    test_postgres_restart,
    test_postgres_tls,
    test_postgres_usage,
)
from tests.unit.operator.conftest import PROGRAMS, Files, programs
from tests.unit.operator.test_postgres_parameters import Database
from tests.unit.operator.test_postgres_port import as_superuser, login, sync

VERSIONS = (
    pytest.param("14.24", marks=pytest.mark.thorough),
    pytest.param("16.15", marks=pytest.mark.thorough),
    "18.6",
)
FRESH = (
    test_postgres_restart.test_server_with_lasting_clients_is_back_within_a_second,
    test_postgres_restart.test_server_that_passes_the_trial_and_does_not_start_has_those_from_before_again,
    test_postgres_tls.test_login_verifies_the_server_and_reads_what_it_serves,
    test_postgres_hba.test_a_server_starts_with_lines,
)
RUNNING = (
    test_postgres_port.test_roles_passwords_and_every_half_done_state,
    test_postgres_init_sql.test_it_is_run_once_by_the_owner_in_order,
    test_postgres_hba.test_no_line_locks_out_the_operator_or_the_default_user,
    test_postgres_usage.test_a_table_of_20_mb_makes_the_data_larger_by_that_and_the_figure_is_at_least,
)
OF_PARAMETERS = (
    test_postgres_parameters.test_first_start_has_them_all_and_nothing_is_executed_when_it_is_so,
    test_postgres_parameters.test_restart_is_named_and_puts_all_of_them_into_force,
    test_postgres_parameters.test_defaults_are_in_force_at_once_and_restart_nothing,
)
OF_OBJECTS = (
    test_postgres_objects.test_roles_come_change_and_go,
    test_postgres_objects.test_databases_come_change_and_go,
    test_postgres_objects.test_nobody_is_made_a_member_of_the_powerful,
)


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> Iterator[str]:
    if platform.machine() != "x86_64":
        pytest.skip("the artifacts are of another architecture")
    with postgresql_versions.programs(request.param, clients=programs()) as found:
        token = PROGRAMS.set(found)
        try:
            yield request.param
        finally:
            PROGRAMS.reset(token)


def test_its_version_is_what_the_status_says(version: str, server: Files) -> None:
    answer = sync(login(server))
    assert (answer.ok, answer.facts["version"]) == (True, version)
    assert as_superuser(server, "SHOW server_version") == version


def test_when_it_crashed_is_known_from_15_on(version: str, server: Files) -> None:
    if version > "15":
        test_postgres_usage.test_a_process_that_is_killed_ends_all_sessions_and_the_server_says_when(server)
    else:
        assert test_postgres_usage.facts(server)[CRASHED] == ""
    assert test_postgres_usage.used(server) > 0


@pytest.mark.parametrize("check", FRESH, ids=lambda check: check.__name__)
def test_from_its_first_start(version: str, files: Files, check: Callable[[Files], None]) -> None:
    check(files)


@pytest.mark.parametrize("check", RUNNING, ids=lambda check: check.__name__)
def test_while_it_runs(version: str, server: Files, check: Callable[[Files], None]) -> None:
    check(server)


@pytest.mark.parametrize("check", OF_PARAMETERS, ids=lambda check: check.__name__)
def test_its_parameters(version: str, files: Files, check: Callable[[Database], None]) -> None:
    check(Database(files))


@pytest.mark.parametrize("check", OF_OBJECTS, ids=lambda check: check.__name__)
def test_its_roles_and_databases(version: str, server: Files, check: Callable[[Files], None]) -> None:
    assert sync(login(server)).ok
    if version < "15" and check is test_postgres_objects.test_databases_come_change_and_go:
        # A database has a locale of ICU from 15 on; what the server has against it stands at that database.
        with pytest.raises(AssertionError, match=r'databases\[Tags\]: option "locale_provider"'):
            check(server)
        return
    check(server)
