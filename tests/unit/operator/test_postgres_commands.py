"""Which parameters run a command or load code, compared with all that a real PostgreSQL has.

Every text that can be set, of the server's own and of each library that comes with it, is one of the
policy's list or one of those below: a parameter that is new in some version must be judged by a person.
"""

from __future__ import annotations

from pathlib import Path

import psycopg

from infra.admission import COMMAND_PARAMETERS
from tests.unit.operator.conftest import SUPERUSER_PASSWORD, Files

REPOSITORY = Path(__file__).resolve().parents[3]
# None of them names a program, or code to load. Files and directories that are read or written are among
# them: a server's process may do no more there than its Pod lets it.
HARMLESS = frozenset({
    "DateStyle", "TimeZone", "application_name", "backtrace_functions", "basebackup_to_shell.required_role",
    "basic_archive.archive_directory", "bonjour_name", "client_encoding", "cluster_name", "config_file",
    "createrole_self_grant", "data_directory", "debug_io_direct", "default_table_access_method",
    "default_tablespace", "default_text_search_config", "event_source", "external_pid_file", "hba_file",
    "ident_file", "krb_server_keyfile", "lc_messages", "lc_monetary", "lc_numeric", "lc_time",
    "listen_addresses", "log_connections", "log_destination", "log_directory",
    "log_filename", "log_line_prefix", "log_timezone", "plpgsql.extra_errors", "plpgsql.extra_warnings",
    "postgres_fdw.application_name", "primary_conninfo", "primary_slot_name", "promote_trigger_file",
    "recovery_target", "recovery_target_lsn", "recovery_target_name", "recovery_target_time",
    "recovery_target_timeline", "recovery_target_xid", "reserved_connections",
    "restrict_nonsystem_relation_kind", "search_path", "ssl_ca_file", "ssl_cert_file", "ssl_ciphers",
    "ssl_crl_dir", "ssl_crl_file", "ssl_dh_params_file", "ssl_ecdh_curve", "ssl_groups", "ssl_key_file",
    "ssl_tls13_ciphers", "synchronized_standby_slots", "synchronous_standby_names", "syslog_ident",
    "temp_tablespaces", "timezone_abbreviations", "unix_socket_directories", "unix_socket_group",
    "wal_consistency_checking",
})  # fmt: skip
LIBRARIES = "SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR'"
TEXTS = "SELECT name, short_desc FROM pg_settings WHERE vartype = 'string' AND context <> 'internal'"


def test_every_text_that_a_server_takes_is_judged(server: Files) -> None:
    texts = settable(server)
    assert {"archive_command", "basebackup_to_shell.command"} <= texts.keys(), "the libraries are loaded"
    judged = HARMLESS | set(COMMAND_PARAMETERS)
    assert {name: purpose for name, purpose in texts.items() if name not in judged} == {}
    words = ("command", "librar", "load")
    assert {
        name: purpose
        for name, purpose in texts.items()
        if name not in COMMAND_PARAMETERS and any(word in purpose.lower() for word in words)
    } == {}


def settable(server: Files) -> dict[str, str]:
    """What each text that can be set is for, by name, with every library loaded that can be."""
    with psycopg.connect(
        host="127.0.0.1",
        port=server.port,
        user="kindling",
        password=SUPERUSER_PASSWORD,
        dbname="template1",
        sslmode="disable",
        autocommit=True,
    ) as connection:
        [folder] = connection.execute(LIBRARIES).fetchone() or [""]
        for library in sorted(Path(folder).glob("*.so")):
            try:
                connection.execute(f"LOAD '{library.stem}'".encode())
            except psycopg.Error:
                continue  # It is to be loaded at the start alone, or lacks a library of its own.
        return dict(connection.execute(TEXTS).fetchall())


def test_the_guide_names_them() -> None:
    guide = (REPOSITORY / "docs" / "guides" / "postgresql.md").read_text()
    assert [name for name in COMMAND_PARAMETERS if f"`{name}`" not in guide] == []
