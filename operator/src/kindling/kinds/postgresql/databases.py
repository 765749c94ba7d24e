"""spec.databases: read, and checked as far as that needs no server."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from kindling.kinds import reasons
from kindling.kinds.base import Problem
from kindling.kinds.postgresql.spec import RESERVED, role_names, user_of
from kindling.kube.resources import Object

READER, WRITER = "_reader", "_writer"
LONGEST_WITH_ROLES = 63 - len(READER)
"""Characters of a database whose access roles have names that PostgreSQL takes."""


@dataclass(frozen=True, kw_only=True)
class Database:
    """One item. A version or an owner that is empty is not asked for; `schemas` have their owners.

    `delete`: it is dropped once it leaves the spec.
    """

    name: str
    owner: str
    encoding: str
    collation: str
    icu_locale: str
    extensions: tuple[tuple[str, str], ...]
    schemas: tuple[tuple[str, str], ...]
    delete: bool
    access_roles: bool = False

    @property
    def path(self) -> str:
        return f"spec.databases[{self.name}]"

    @property
    def reader(self) -> str:
        """The role that may read it, where it has access roles."""
        return f"{self.name}{READER}"

    @property
    def writer(self) -> str:
        """The role that may read and write it, where it has access roles."""
        return f"{self.name}{WRITER}"

    @property
    def made(self) -> str:
        """Changes with what only the creation decides."""
        return _hash([self.encoding, self.collation, self.icu_locale])

    @property
    def contents(self) -> str:
        """Changes with what is wanted within the database."""
        return _hash([self.owner, self.extensions, self.schemas])


def read(cr: Object) -> tuple[Database, ...]:
    """In the order of the spec; what names no owner is the default user's."""
    user = user_of(cr)
    return tuple(_read(item, user) for item in (cr.get("spec") or {}).get("databases") or ())


def _read(item: Object, user: str) -> Database:
    return Database(
        name=str(item["name"]),
        owner=str(item.get("owner") or user),
        encoding=str(item.get("encoding") or ""),
        collation=str(item.get("collation") or ""),
        icu_locale=str(item.get("icuLocale") or ""),
        extensions=_pairs(item.get("extensions"), "version"),
        schemas=_pairs(item.get("schemas"), "owner"),
        delete=item.get("reclaimPolicy") == "Delete",
        access_roles=item.get("accessRoles") is True,
    )


def validate(cr: Object) -> Problem | None:
    """The first item that cannot work, with field, value and remedy."""
    user, message = user_of(cr), None
    for item in read(cr):
        owner = f"{item.path}.owner {item.owner!r}"
        if item.name in RESERVED or item.name.startswith("pg_"):
            message = f"{item.path}: PostgreSQL or Kindling keeps that name to itself: use another."
        elif item.owner in RESERVED or item.owner.startswith("pg_"):
            message = f"{owner} is a name PostgreSQL or Kindling keeps to itself: use another."
        elif item.name == user and item.owner != user:
            message = f"{owner} cannot own the default user's database: leave it out."
        elif item.name == user and (item.delete or item.encoding or item.collation or item.icu_locale):
            message = (
                f"{item.path} is the default user's database, made with the server and kept with it: "
                "leave out encoding, collation, icuLocale and reclaimPolicy."
            )
        elif item.access_roles and len(item.name) > LONGEST_WITH_ROLES:
            message = (
                f"{item.path}.accessRoles makes roles whose names are longer, and PostgreSQL takes 63 "
                f"characters: leave it out, or use a name of at most {LONGEST_WITH_ROLES}."
            )
        elif item.access_roles and (taken := sorted({item.reader, item.writer} & role_names(cr))):
            message = (
                f"spec.roles[{taken[0]}] has the name of a role that {item.path}.accessRoles makes: leave it "
                "out, or use another."
            )
        if message:
            return Problem(reason=reasons.INVALID_SPEC, message=message)
    return None


def _pairs(items: list[Object] | None, other: str) -> tuple[tuple[str, str], ...]:
    return tuple((str(item["name"]), str(item.get(other) or "")) for item in items or ())


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
