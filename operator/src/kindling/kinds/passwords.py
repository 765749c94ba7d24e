"""Passwords that a spec refers to in Secrets of users' own, and what stands for a password in a cache key."""

from __future__ import annotations

import hashlib
import hmac
import secrets as random
from typing import NamedTuple

from kindling.kinds import reasons
from kindling.kinds.base import Observed, Problem
from kindling.kube.resources import SECRET, Object, Ref

DEFAULT_KEY = "password"
LONGEST = 1024
# Password fingerprints are compared within this process alone, so their key need not outlive it.
_KEY = random.token_bytes(32)


class Reference(NamedTuple):
    """Where a password stands: the name of a Secret beside the resource, and a key of it."""

    name: str
    key: str


def reference(given: Object | None) -> Reference | None:
    """A field `passwordSecretRef`, read."""
    found = given or {}
    return Reference(found["name"], found.get("key") or DEFAULT_KEY) if found.get("name") else None


def problem(named: Reference, observed: Observed, *, namespace: str, path: str) -> Problem | None:
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


def fingerprint(password: str) -> bytes:
    """Stands for a password in a cache key."""
    return hmac.digest(_KEY, password.encode(), hashlib.sha256)[:8]
