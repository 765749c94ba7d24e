"""spec.initSQL: SQL that is run once in the default user's database, before anybody sees that.

The database is made under another name, the SQL is run in it by the default user in one transaction, and only
then does it get its own name (`kindling.prober.init_sql`). So whether the SQL has been run is no record of
its own, which could be lost or be of other data: a database of that name has had it. When is noted on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult, Observed, Problem
from kindling.kinds.postgresql.spec import DEFAULT_USER, user_of
from kindling.kube.resources import CONFIG_MAP, SECRET, Object, Ref

FIELD = "initSQL"
FACT = "init_sql"
"""What the server's answer has it under: when the SQL was run, empty if there was a database without it."""
TEMPORARY = "kindling: initial SQL"
"""What the database is called until its SQL has been run; no database of a spec can have this name."""
NOTE = "kindling.init_sql"
"""The setting of the database that has the time, and stays with the data."""
SECONDS = 30
MOST_BYTES = 2**20
"""Of all scripts: as much as a ConfigMap holds."""


class Script(NamedTuple):
    """Where it is from, in words; what it says. `secret`: no message may have any of it."""

    where: str
    text: str
    secret: bool


class Missing(Exception):
    """A script cannot be read. Its text is for the user."""


def _items(cr: Object) -> Sequence[Object]:
    found: Sequence[Object] = (cr.get("spec") or {}).get(FIELD) or ()
    return found


def is_given(cr: Object) -> bool:
    return bool(_items(cr))


def config_maps(cr: Object) -> list[str]:
    return [str(item["configMapRef"]["name"]) for item in _items(cr) if item.get("configMapRef")]


def secrets(cr: Object) -> list[str]:
    return [str(item["secretRef"]["name"]) for item in _items(cr) if item.get("secretRef")]


def validate(cr: Object) -> Problem | None:
    if not _items(cr) or user_of(cr) != DEFAULT_USER:
        return None
    return Problem(
        reason=reasons.INVALID_SPEC,
        message=f"spec.initSQL is run when the default user's database is created, and {DEFAULT_USER!r} is "
        "created with the server: set spec.defaultUser to another name, or leave spec.initSQL out.",
    )


def scripts(cr: Object, observed: Observed) -> list[Script]:
    """In the order of the spec.

    :raises Missing: where one cannot be read.
    """
    found = [_read(cr, observed, number, item) for number, item in enumerate(_items(cr))]
    if sum(len(script.text.encode()) for script in found) > MOST_BYTES:
        raise Missing(f"spec.initSQL is longer than {MOST_BYTES} bytes in all: create less with it.")
    return found


def _read(cr: Object, observed: Observed, number: int, item: Object) -> Script:
    namespace, secret = cr["metadata"]["namespace"], bool(item.get("secretRef"))
    reference = item.get("secretRef") or item.get("configMapRef") or {}
    name, key = str(reference.get("name")), str(reference.get("key"))
    what = f"{'Secret' if secret else 'ConfigMap'} {name!r}"
    where = f"spec.initSQL[{number}] ({what}, key {key!r})"
    if Ref(SECRET if secret else CONFIG_MAP, namespace, name) not in observed.objects:
        raise Missing(f"{where}: {what} is not in namespace {namespace!r}: create it, or name another one.")
    if secret:
        text = observed.secret(namespace=namespace, name=name).get(key)
    else:
        value = observed.config_map(namespace=namespace, name=name).get(key)
        text = _decoded(value) if value is not None else None
    if text is None or "\0" in text:
        raise Missing(f"{where}: there is no text under that key: put the SQL there, or name another key.")
    return Script(where, text, secret)


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def wanted(cr: Object, observed: Observed) -> tuple[list[Script] | None, str]:
    """The scripts, None without any; and why they cannot be read, which matters where they are to be run."""
    if not _items(cr):
        return None, ""
    try:
        return scripts(cr, observed), ""
    except Missing as error:
        return [], str(error)


def to_run(cr: Object, observed: Observed) -> str:
    """Changes with the scripts, until it is known that there is nothing left to run; may hold secrets."""
    found, problem = wanted(cr, observed)
    return "" if found is None or (cr.get("status") or {}).get(FIELD) else repr((found, problem))


def status(cr: Object, server: ExternalResult | None) -> Object:
    """When it was run, by the note in the server; or that the database was there before."""
    if not _items(cr):
        return {}
    said = server.facts.get(FACT) if server is not None else None
    if said is None:
        known = (cr.get("status") or {}).get(FIELD)
        return {FIELD: known} if known else {}
    if said:
        return {FIELD: {"appliedAt": str(said)}}
    message = f"Database {user_of(cr)!r} was there before spec.initSQL was: none of it is run."
    return {FIELD: {"message": message}}
