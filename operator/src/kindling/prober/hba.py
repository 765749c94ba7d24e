"""The rules of login of a running server: what its file has, how it reads that, and whether it has."""

from __future__ import annotations

import ipaddress
from typing import Any, NamedTuple

from kindling.kinds.postgresql.hba import FIELD
from kindling.prober.sessions import Session, fetch

MOST_BYTES = 200_000
# PostgreSQL says of a file in which second it changed, so what changed in the second of the last reload may
# have changed after it.
_FILE = f"""SELECT pg_read_file(path, 0, {MOST_BYTES}, true),
    (pg_stat_file(path)).modification < date_trunc('second', pg_conf_load_time())
    FROM current_setting('hba_file') AS path"""
_RULES = """SELECT line_number, error, type, array_to_string(database, ','), array_to_string(user_name, ','),
    address, netmask, auth_method, array_to_string(options, ' ')
    FROM pg_hba_file_rules ORDER BY line_number"""


class Found(NamedTuple):
    """Whether the Pod has the file that is wanted, and the server has read it since; the rules of that file,
    and the first line of it that the server cannot use, by its number from 1.
    """

    delivered: bool
    loaded: bool
    rules: list[str]
    error: tuple[int, str] | None

    @property
    def in_force(self) -> bool:
        return self.delivered and self.loaded and self.error is None

    @property
    def facts(self) -> dict[str, Any]:
        return {FIELD: self.rules} if self.in_force else {}


def look(connection: Session, wanted: str) -> Found:
    """What the superuser's session says of the file. It is parsed now, whatever is in force."""
    [(text, loaded)] = fetch(connection, _FILE)
    rows = fetch(connection, _RULES) if text == wanted else []
    errors = [(int(row[0]), str(row[1])) for row in rows if row[1] is not None]
    return Found(
        delivered=text == wanted,
        loaded=bool(loaded),
        rules=[_rule(*row[2:]) for row in rows if row[1] is None],
        error=errors[0] if errors else None,
    )


def _rule(kind: str, databases: str, users: str, address: Any, mask: Any, method: str, options: Any) -> str:
    """As in pg_hba.conf, but for its quotes."""
    if address is not None and mask is not None:
        address = ipaddress.ip_network(f"{address}/{_length(str(mask))}", strict=False)
    words = (kind, databases, users, address, method, options)
    return " ".join(str(word) for word in words if word)


def _length(mask: str) -> int:
    """24 of 255.255.255.0, of either family."""
    return int(ipaddress.ip_address(mask)).bit_count()
