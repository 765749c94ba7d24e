"""spec.parameters: read, checked as far as that needs no server, and written as a configuration file.

Only what is known beforehand. Whether a name and a value are right says the server
(`kindling.prober.parameters`), and whether it starts with them all says `postgres` itself (`initdb`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from decimal import Decimal

from kindling.engine.quantity import quantity
from kindling.kinds import reasons
from kindling.kinds.base import Problem
from kindling.kube.resources import Object

NAME = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")
# What Kindling sets itself, what would lock it out or lead elsewhere, and what is a directive of the
# file rather than a parameter. The CRD has the same.
RESERVED = frozenset({
    "allow_alter_system", "archive_cleanup_command", "archive_command", "archive_library", "archive_mode",
    "archive_timeout", "config_file", "data_directory", "db_user_namespace", "external_pid_file", "hba_file",
    "huge_pages", "ident_file", "include", "include_dir", "include_if_exists", "listen_addresses",
    "password_encryption", "port", "post_auth_delay", "pre_auth_delay", "promote_trigger_file",
    "restore_command", "shared_memory_type", "ssl", "synchronous_standby_names",
})  # fmt: skip
RESERVED_PREFIXES = ("primary_", "recovery_", "ssl_", "unix_socket_")

# Lists of names, each of which PostgreSQL quotes by itself (pg_dump has the same list): given as one
# string, ALTER SYSTEM would take them for a single name. Of schemas and tablespaces the case is folded.
LIBRARIES = ("local_preload_libraries", "session_preload_libraries", "shared_preload_libraries")
_FOLDED = ("search_path", "temp_tablespaces")
_ELEMENT = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^",][^,"]*?))\s*(?:,|$)')

_BYTES = {"B": 1, "kB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([A-Za-z]*)\s*", re.ASCII)
LEAST_WAL = 2 * 16 * 2**20
"""Bytes of two WAL segments as initdb makes them: with less a running server stays, and none starts."""


def read(cr: Object) -> dict[str, str]:
    """By name, in order. An empty list of libraries or tablespaces is none: ALTER SYSTEM cannot say it."""
    given = (cr.get("spec") or {}).get("parameters") or {}
    values = {name: str(value) for name, value in sorted(given.items()) if value is not None}
    return {
        name: value for name, value in values.items() if name == "search_path" or elements(name, value) != ()
    }


def elements(name: str, value: str) -> tuple[str, ...] | None:
    """The single names of a value that is a list of them; the value itself of any other parameter.

    None for what is no list.
    """
    if name not in (*LIBRARIES, *_FOLDED):
        return (value,)
    found: list[str] = []
    rest = value.strip()
    while rest:
        match = _ELEMENT.match(rest)
        if match is None:
            return None
        quoted, plain = match.groups()
        if quoted is not None:
            found.append(quoted.replace('""', '"'))
        else:
            found.append(plain.lower() if name in _FOLDED else plain)
        if match.end() == len(rest) and rest.endswith(","):
            return None
        rest = rest[match.end() :]
    return tuple(item for item in found if item)


def conf(parameters: Mapping[str, str]) -> str:
    """The file in PostgreSQL's own syntax that sets exactly these."""
    lines = [f"{name} = '{_escaped(value)}'\n" for name, value in sorted(parameters.items())]
    made = "# Made by Kindling from spec.parameters, the volume's size and the memory; edits are undone.\n"
    return made + "".join(lines)


def fingerprint(parameters: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()[:16]


def validate(parameters: Mapping[str, str], *, resources: Object) -> Problem | None:
    """What is bound to fail, with the parameter, its value and the remedy."""
    message = None
    for name, value in parameters.items():
        where = f"spec.parameters.{name} {value!r}"
        if NAME.fullmatch(name) is None:
            message = f"spec.parameters {name!r} is no parameter's name: use lower case, as in work_mem."
        elif name in RESERVED or name.startswith(RESERVED_PREFIXES):
            message = f"spec.parameters.{name} is set by Kindling, or would lock it out: leave it out."
        elif any(ord(char) < 32 or ord(char) == 127 for char in value):
            message = f"{where} has a control character: use one line of text."
        elif elements(name, value) is None:
            message = f"{where} is no list: write names with commas between them."
        elif name in ("min_wal_size", "max_wal_size") and _bytes(value, unit="MB") < LEAST_WAL:
            message = (
                f"{where} is less than two WAL segments, with which no server starts: use at least 32MB."
            )
        elif name == "shared_buffers":
            message = _does_not_fit(where, value, limit=(resources.get("limits") or {}).get("memory"))
        if message:
            return Problem(reason=reasons.INVALID_SPEC, message=message)
    return None


def _does_not_fit(where: str, value: str, *, limit: object) -> str | None:
    if not 0 < quantity(limit) <= _bytes(value, unit="8kB") < Decimal("Infinity"):
        return None
    return (
        f"{where} does not fit into spec.resources.limits.memory {str(limit)!r}: "
        "lower the one (a quarter of the memory is usual), or raise the other."
    )


def _bytes(value: str, *, unit: str) -> Decimal:
    """An amount of memory as PostgreSQL reads it; infinite for what is none: the server refuses that."""
    match = _AMOUNT.fullmatch(value)
    factor = _BYTES.get(match.group(2)) if match else None
    if match and not match.group(2):
        factor = 8 * 2**10 if unit == "8kB" else _BYTES[unit]
    return Decimal(match.group(1)) * factor if match and factor else Decimal("Infinity")


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")
