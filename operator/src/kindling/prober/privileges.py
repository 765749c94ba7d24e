"""What the access roles of a database may do in it: given once for what is there, and for what comes.

The comment of the reader notes for what it was given, so nothing is given twice, and what somebody revokes
stays so until the item changes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from kindling.prober.items import Items
from kindling.prober.sessions import Session, fetch, identifier

_SCHEMAS = (
    "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' ORDER BY 1"
)


def are_given(items: Items, database: Mapping[str, Any]) -> bool:
    reader = items.state.roles.get(database["access"][0]) or {}
    return (items.state.note(reader.get("note")) or {}).get("given") == _wanted(database)


def missing_role(items: Items, database: Mapping[str, Any]) -> tuple[str, str] | None:
    """Reason and message where one of the roles is not as wanted: they are said of the database."""
    for name in database["access"]:
        if name in items.roles:
            reason, message = items.roles.pop(name)
            return reason, f"role {name!r} of accessRoles: {message}"
    return None


def give(items: Items, session: Session, database: Mapping[str, Any]) -> None:
    """In one transaction."""
    reader, writer = map(identifier, database["access"])
    statements = [f"GRANT CONNECT, TEMPORARY ON DATABASE {identifier(database['name'])} TO {reader}"]
    for (schema,) in fetch(session, _SCHEMAS):
        where = f"IN SCHEMA {identifier(str(schema))}"
        statements += [
            f"GRANT USAGE ON SCHEMA {identifier(str(schema))} TO {reader}",
            f"GRANT SELECT ON ALL TABLES {where} TO {reader}",
            f"GRANT SELECT ON ALL SEQUENCES {where} TO {reader}",
            f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES {where} TO {writer}",
            f"GRANT USAGE, UPDATE ON ALL SEQUENCES {where} TO {writer}",
        ]
    for creator in database["creators"]:
        whose = f"ALTER DEFAULT PRIVILEGES FOR ROLE {identifier(creator)}"
        statements += [
            f"{whose} GRANT USAGE ON SCHEMAS TO {reader}",
            f"{whose} GRANT SELECT ON TABLES TO {reader}",
            f"{whose} GRANT SELECT ON SEQUENCES TO {reader}",
            f"{whose} GRANT INSERT, UPDATE, DELETE ON TABLES TO {writer}",
            f"{whose} GRANT USAGE, UPDATE ON SEQUENCES TO {writer}",
        ]
    note = items.state.noted(memberOf=[], given=_wanted(database))
    items.execute("; ".join([*statements, f"COMMENT ON ROLE {reader} IS {note}"]), session)


def _wanted(database: Mapping[str, Any]) -> str:
    """Changes with what is to be given."""
    said = json.dumps([database["name"], database["contents"], database["creators"]])
    return hashlib.sha256(said.encode()).hexdigest()[:16]
