"""The default user's password: from the spec, from a Secret that the spec names, or a made one.

Its value goes from here into the binding and the login, and nowhere else.
"""

from __future__ import annotations

from typing import NamedTuple

from kindling.kinds import reasons
from kindling.kinds.base import Observed, Problem
from kindling.kinds.postgresql import credentials
from kindling.kinds.postgresql.secrets import binding_name
from kindling.kinds.postgresql.spec import user_of
from kindling.kube.resources import SECRET, Object, Ref

DEFAULT_KEY = "password"
LONGEST = 1024


class Reference(NamedTuple):
    """Where a password stands: the name of a Secret beside the resource, and a key of it."""

    name: str
    key: str


def reference(cr: Object) -> Reference | None:
    given = (cr.get("spec") or {}).get("passwordSecretRef") or {}
    return Reference(given["name"], given.get("key") or DEFAULT_KEY) if given.get("name") else None


def is_plain(cr: Object) -> bool:
    """Whether the password can be read by whoever may read the resource."""
    return (cr.get("spec") or {}).get("password") is not None


def password_of(cr: Object, observed: Observed) -> str | None:
    """The spec's, else that of the Secret referred to, else that of the last rotation, else the one in the
    binding (made once), else None.
    """
    if is_plain(cr):
        return str(cr["spec"]["password"])
    namespace, named = cr["metadata"]["namespace"], reference(cr)
    if named is not None:
        return observed.secret(namespace=namespace, name=named.name).get(named.key) or None
    if credentials.login_of(cr) != user_of(cr):
        return credentials.made_password(cr, observed)
    return observed.secret(namespace=namespace, name=binding_name(cr)).get("password") or None


def validate(cr: Object, observed: Observed) -> Problem | None:
    """Why the Secret referred to gives no password; never what it holds."""
    named = reference(cr)
    if is_plain(cr) or named is None:
        return None
    return problem_of(named, observed, namespace=cr["metadata"]["namespace"], path="spec.passwordSecretRef")


def problem_of(named: Reference, observed: Observed, *, namespace: str, path: str) -> Problem | None:
    """Why a Secret that the field `path` refers to gives no password; never what it holds."""
    field = f"{path} {named.name!r}"
    make = f"`kubectl create secret generic {named.name} --from-literal={named.key}=… -n {namespace}`"
    values = observed.secret(namespace=namespace, name=named.name)
    if Ref(SECRET, namespace, named.name) not in observed.objects:
        return Problem(
            reason=reasons.SECRET_NOT_FOUND, message=f"{field}: no such Secret exists; create it with {make}."
        )
    if named.key not in values:
        return Problem(
            reason=reasons.SECRET_NOT_FOUND,
            message=f"{field}: that Secret has no text under the key {named.key!r}; put the password there, "
            f"or name another key in {path}.key.",
        )
    value = values[named.key]
    if not value or len(value) > LONGEST or any(char in value for char in "\0\r\n"):
        return Problem(
            reason=reasons.INVALID_PASSWORD,
            message=f"{field}: what stands under {named.key!r} (not shown) is not one line of 1 to {LONGEST} "
            f"characters; a file's last line break counts too. Fix it, for example with {make}.",
        )
    return None
