"""Databases of the spec on the server, with their extensions and schemas: made, changed, dropped.

A database is made under a name of its own and renamed once it bears its note, since no transaction holds its
creation: what is cut off in between is created again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from kindling.kinds import reasons
from kindling.kinds.postgresql.objects import Objects
from kindling.prober import privileges
from kindling.prober.items import Items
from kindling.prober.sessions import LoginRejected, Session, fetch, identifier, literal

Enter = Callable[[str], AbstractContextManager[Session]]
"""A superuser's session in the database of that name."""

_EXTENSIONS = "SELECT extname, extversion FROM pg_extension"
_SCHEMAS = "SELECT nspname, pg_get_userbyid(nspowner), obj_description(oid, 'pg_namespace') FROM pg_namespace"
_SCHEMA_OF = (
    "SELECT schema FROM pg_available_extension_versions WHERE name = %s AND schema IS NOT NULL LIMIT 1"
)


def unfinished(name: str) -> str:
    """What a database is called until it is made: no user's, by its length and its digest."""
    return f"kindling_new_{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def provision(items: Items, database: Mapping[str, Any], request: Objects) -> None:
    """The database itself; what is to be within it comes by `fill`."""
    name, present = database["name"], items.state.databases.get(database["name"])
    quoted, owner = identifier(name), identifier(database["owner"])
    with items.item(items.databases, name) as item:
        if present is None:
            _create(items, database)
            return
        if name == request.default_user:
            return
        note = items.state.note(present["note"])
        if note is None:
            item.says(*items.conflict("database", name, quoted))
        elif (differs := _differs(database, present, note)) is not None:
            item.says(reasons.CANNOT_CHANGE, differs)
        elif present["owner"] != database["owner"]:
            items.execute(f"ALTER DATABASE {quoted} OWNER TO {owner}")


def fill(items: Items, database: Mapping[str, Any], request: Objects, enter: Enter) -> None:
    """Extensions, schemas and privileges, where they are not noted to be as wanted; no other session is open
    then.
    """
    name = database["name"]
    access = database["access"]
    if name in items.databases or not (database["extensions"] or database["schemas"] or access):
        return
    if (missing := privileges.missing_role(items, database)) is not None:
        with items.item(items.databases, name) as item:
            item.says(*missing)
        return
    default = name == request.default_user
    present = items.state.databases.get(name) or {}
    noted = (items.state.note(present.get("note")) or {}).get("contents")
    given = not access or privileges.are_given(items, database)
    if noted == database["contents"] and not database["look"] and not default and given:
        return
    with items.item(items.databases, name) as item:
        items.check_time()
        try:
            with enter(name) as session:
                problem = _fill(items, session, database)
                if not problem and not given:
                    privileges.give(items, session, database)
                if not problem and not default and noted != database["contents"]:
                    items.execute(_comment(items, name, database, contents=database["contents"]), session)
        except LoginRejected as error:
            problem = f"the superuser cannot enter it: {error}"
        if problem:
            item.says(reasons.STATEMENT_REJECTED, problem)


def drop(items: Items, name: str, request: Objects) -> None:
    """Only what the operator made; one that somebody is connected to stays."""
    present = items.state.databases.get(name)
    kept = (request.superuser, request.default_user)
    if present is None or name in kept or items.state.note(present["note"]) is None:
        return
    with items.item(items.databases, name):
        items.execute(f"DROP DATABASE {identifier(name)}")


def _create(items: Items, database: Mapping[str, Any]) -> None:
    name, new = database["name"], unfinished(database["name"])
    if new in items.state.databases:
        items.execute(f"DROP DATABASE {identifier(new)}")
    options = [f"OWNER {identifier(database['owner'])}"]
    if database["encoding"]:
        options.append(f"ENCODING {literal(database['encoding'])}")
    if database["collation"]:
        collation = literal(database["collation"])
        options.append(f"LC_COLLATE {collation} LC_CTYPE {collation}")
    if database["icu_locale"]:
        options.append(f"LOCALE_PROVIDER icu ICU_LOCALE {literal(database['icu_locale'])}")
    if len(options) > 1:
        options.append("TEMPLATE template0")
    items.execute(f"CREATE DATABASE {identifier(new)} {' '.join(options)}")
    renamed = f"ALTER DATABASE {identifier(new)} RENAME TO {identifier(name)}"
    items.execute(f"{_comment(items, new, database, contents='')}; {renamed}", goes_on=True)


def _comment(items: Items, name: str, database: Mapping[str, Any], *, contents: str) -> str:
    note = items.state.noted(made=database["made"], contents=contents)
    return f"COMMENT ON DATABASE {identifier(name)} IS {note}"


def _differs(database: Mapping[str, Any], present: Mapping[str, Any], note: Mapping[str, Any]) -> str | None:
    """What only a creation could change. The note says with what it was made: PostgreSQL has other words."""
    if note.get("made") == database["made"]:
        return None
    for name, field in (("encoding", "encoding"), ("collation", "collation"), ("icu_locale", "icuLocale")):
        if database[name] and database[name] != present[name]:
            return (
                f"{field} {database[name]!r} is decided at the creation, and the database has "
                f"{str(present[name] or '')!r}: set it back, or dump the database and restore "
                "it under another name"
            )
    return None


def _fill(items: Items, session: Session, database: Mapping[str, Any]) -> str | None:
    """Extensions and schemas within the database; says why not, where a schema is another owner's."""
    has = {str(row[0]): str(row[1]) for row in fetch(session, _EXTENSIONS)}
    for name, version in database["extensions"]:
        quoted = identifier(name)
        if name not in has:
            which = f" VERSION {literal(version)}" if version else ""
            items.execute(f"CREATE EXTENSION {quoted}{_place(session, name)}{which}", session)
        elif version and has[name] != version:
            items.execute(f"ALTER EXTENSION {quoted} UPDATE TO {literal(version)}", session)
    if database["extensions"]:
        has = {str(row[0]): str(row[1]) for row in fetch(session, _EXTENSIONS)}
        wanted = [name for name, _ in database["extensions"]]
        items.extensions[database["name"]] = {name: has[name] for name in wanted if name in has}
    if not database["schemas"]:
        return None
    schemas = {str(row[0]): (str(row[1]), row[2]) for row in fetch(session, _SCHEMAS)}
    for name, owner in database["schemas"]:
        quoted, wanted_owner = identifier(name), identifier(owner or database["owner"])
        if name not in schemas:
            note = items.state.noted()
            items.execute(
                f"CREATE SCHEMA {quoted} AUTHORIZATION {wanted_owner}; COMMENT ON SCHEMA {quoted} IS {note}",
                session,
            )
            continue
        present, comment = schemas[name]
        if present == (owner or present):
            continue
        if items.state.note(comment) is None:
            return (
                f"schema {name!r} belongs to {present!r}, and the operator has not made it, so it is left "
                f"as it is: leave out its owner, or ALTER SCHEMA {quoted} OWNER TO {wanted_owner}"
            )
        items.execute(f"ALTER SCHEMA {quoted} OWNER TO {wanted_owner}", session)
    return None


def _place(session: Session, name: str) -> str:
    """`public`, as a session of a user would have it; ours has a search_path of no schema to create in."""
    return "" if fetch(session, _SCHEMA_OF, name) else " SCHEMA public"
