"""Who logs in as the default user: the user itself, or one of two logins of it, in turn.

A rotation goes on from one login to the next, and each has a password of its own, so the one before stays
valid until nobody uses it. Both are members of the default user and become it when they log in: whatever
they make is the default user's. `rotation` decides when, `logins` looks after those that are not used.
"""

from __future__ import annotations

from typing import NamedTuple

from kindling.kinds.base import Observed, derived_password
from kindling.kinds.postgresql import secrets
from kindling.kinds.postgresql.spec import user_of
from kindling.kube.resources import Object

FIELD = "rotation"
"""Of the status, durable."""
SUFFIXES = ("_a", "_b")
LONGEST_USER = 63 - len(SUFFIXES[0])
"""Bytes of a default user whose logins have names that PostgreSQL takes."""


class Record(NamedTuple):
    """What was decided: the `number` of rotations, the `login` of the last one, `at` which time, for which
    `request` (the annotation's value). `previous` is the login before that, while it may log in; `since` is
    when the binding had the new one.
    """

    number: int
    login: str
    at: str
    request: str = ""
    previous: str | None = None
    since: str | None = None

    def written(self) -> Object:
        """As the status has it."""
        return {name: value for name, value in self._asdict().items() if value not in (None, "")}


def record(cr: Object) -> Record | None:
    found = (cr.get("status") or {}).get(FIELD)
    return Record(**found) if found else None


def is_given(cr: Object) -> bool:
    """Whether the spec, or a Secret that it names, has the password: that is the default user's own."""
    spec = cr.get("spec") or {}
    return spec.get("password") is not None or bool((spec.get("passwordSecretRef") or {}).get("name"))


def login_of(cr: Object) -> str:
    """The role that applications are to log in as."""
    known = record(cr)
    return user_of(cr) if known is None or is_given(cr) else known.login


def logins(cr: Object) -> tuple[str, ...]:
    """All that there can be, the default user first."""
    user = user_of(cr)
    return (user, *(f"{user}{suffix}" for suffix in SUFFIXES))


def made_password(cr: Object, observed: Observed) -> str | None:
    """That of a login that a rotation made; None without the superuser's Secret.

    It follows from the superuser's password, which it says nothing about, and differs with each rotation of
    each resource. So it is the same whenever it is needed, and nowhere does it wait for the server.
    """
    known = record(cr)
    namespace, name = cr["metadata"]["namespace"], secrets.superuser_name(cr)
    key = observed.secret(namespace=namespace, name=name).get("password")
    if known is None or not key:
        return None
    return derived_password(key.encode(), f"login {cr['metadata']['uid']} {known.number}")
