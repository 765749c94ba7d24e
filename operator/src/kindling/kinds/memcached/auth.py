"""spec.auth: the login that memcached asks for, and how another password takes the place of the one before.

memcached has its logins in a file, one in each line, which is the Secret NAME-auth in the Pod. A program
beside it has it read the file again, so a new password restarts nothing. The new one is put before the old
one; clients get it by the Secret NAME-binding once every cache accepts it, and the old one is valid for a
while longer.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from kindling.kinds import passwords, reasons
from kindling.kinds.base import Child, Observed, Problem
from kindling.kinds.certificates import stamp
from kindling.kinds.kept_secrets import kept
from kindling.kinds.metadata import child_metadata, secret_data
from kindling.kinds.passwords import Reference
from kindling.kube.resources import SECRET, Object, Ref, ResourceType

USERNAME = "memcached"
ANNOTATION, ACTIVE = "kindling.dev/auth", "active"
"""Of a Pod whose memcached asks for a login."""
FILES = "/etc/kindling/auth"
USERS = "users"
"""The key of the Secret that has memcached's file, and the file in FILES."""
PASSWORD, PREVIOUS = "password", "previous"
"""The keys of the same passwords, one by one."""
VALID_UNTIL, ROTATION = "kindling.dev/previous-valid-until", "kindling.dev/rotated-for"
"""Annotations of the Secret, or empty: until when the second login is valid, which request has been met."""
REQUEST = "kindling.dev/rotate"
"""The annotation of the resource each new value of which asks for another password."""
PREVIOUS_VALID = timedelta(minutes=10)
"""How long the one before is valid once the binding has the new one: files follow within two minutes."""
PATH = "spec.auth.passwordSecretRef"
FORM = re.compile(r"[!-~]{1,128}")
"""A line of memcached's file has 255 bytes at most, and clients send both with a space between them."""


class Logins(NamedTuple):
    """What NAME-auth is to hold. `bound` is the password that clients are to use; `until` may be None while
    they have the `previous` one.
    """

    password: str
    previous: str | None
    until: datetime | None
    request: str
    bound: str

    @property
    def users(self) -> str:
        """memcached's file."""
        found = [self.password, *((self.previous,) if self.previous is not None else ())]
        return "".join(f"{USERNAME}:{password}\n" for password in found)


def is_enabled(cr: Object) -> bool:
    return _spec(cr).get("enabled") is True


def is_active(pod: Object) -> bool:
    """Whether the Pod was created with it."""
    return bool((pod["metadata"].get("annotations") or {}).get(ANNOTATION) == ACTIVE)


def reference(cr: Object) -> Reference | None:
    return passwords.reference(_spec(cr).get("passwordSecretRef")) if is_enabled(cr) else None


def _spec(cr: Object) -> Object:
    found: Object = (cr.get("spec") or {}).get("auth") or {}
    return found


def secret_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-auth"


def binding_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-binding"


def stored(cr: Object, observed: Observed) -> list[str]:
    """The passwords that NAME-auth has, the newest first."""
    found = observed.secret(namespace=cr["metadata"]["namespace"], name=secret_name(cr))
    return [word for key in (PASSWORD, PREVIOUS) if FORM.fullmatch(word := found.get(key) or "")]


def _note(cr: Object, observed: Observed, name: str) -> str:
    """An annotation of NAME-auth."""
    found = observed.objects.get(Ref(SECRET, cr["metadata"]["namespace"], secret_name(cr))) or {}
    return str(((found.get("metadata") or {}).get("annotations") or {}).get(name) or "")


def decide(cr: Object, observed: Observed, *, accepted: bool) -> Logins:
    """The logins; `accepted`: every cache accepts the newest one that NAME-auth has."""
    lines = stored(cr, observed)
    current, second = (*lines, None, None)[:2]
    until, request = _moment(_note(cr, observed, VALID_UNTIL)), _request(cr)
    binding = observed.secret(namespace=cr["metadata"]["namespace"], name=binding_name(cr)).get("password")
    rotates = bool(request) and request != _note(cr, observed, ROTATION)
    wanted = _wanted(cr, observed, current=current, binding=binding, rotates=rotates)
    bound = binding if binding in lines else second if second is not None and until is None else current
    if wanted != current:
        previous, until = bound, None
    else:
        previous = second
    switched = bound is None or bound == wanted or (accepted and wanted == current)
    if previous == wanted:
        previous = None
    if previous is not None and switched:
        until = until or observed.now + PREVIOUS_VALID
        previous = previous if observed.now < until else None
    return Logins(
        password=wanted,
        previous=previous,
        until=until if previous is not None and switched else None,
        request=request,
        bound=wanted if switched or bound is None else bound,
    )


def _wanted(
    cr: Object, observed: Observed, *, current: str | None, binding: str | None, rotates: bool
) -> str:
    """The password of the Secret that the spec names, else a made one: another for each new request."""
    named = reference(cr)
    if named is not None:
        given = observed.secret(namespace=cr["metadata"]["namespace"], name=named.name).get(named.key) or ""
        if FORM.fullmatch(given):
            return given
    elif current is not None and rotates:
        return observed.password("memcached's next login")
    if current is None and binding is not None and FORM.fullmatch(binding):
        return binding  # somebody deleted NAME-auth
    return current or observed.password("memcached's login")


def _request(cr: Object) -> str:
    """Stands for the annotation's value, which may be long."""
    value = str((cr["metadata"].get("annotations") or {}).get(REQUEST) or "")
    return hashlib.sha256(value.encode()).hexdigest()[:16] if value else ""


def _moment(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def children(type: ResourceType, cr: Object, observed: Observed, logins: Logins | None) -> list[Child]:
    """NAME-auth. One that is not needed any more stays."""
    if logins is None:
        return kept(type, cr, observed, secret_name(cr))
    metadata = child_metadata(type, cr, name=secret_name(cr))
    values = {USERS: logins.users, PASSWORD: logins.password}
    if logins.previous is not None:
        values[PREVIOUS] = logins.previous
    until = stamp(logins.until) if logins.until is not None else ""
    metadata["annotations"] = {VALID_UNTIL: until, ROTATION: logins.request}
    return [Child(type=SECRET, body={"metadata": metadata, "type": "Opaque", "data": secret_data(values)})]


def validate(cr: Object, observed: Observed) -> Problem | None:
    """Why the Secret that the spec names gives no password; never what it holds."""
    named = reference(cr)
    if named is None:
        return None
    namespace = cr["metadata"]["namespace"]
    if (found := passwords.problem(named, observed, namespace=namespace, path=PATH)) is not None:
        return found
    if FORM.fullmatch(observed.secret(namespace=namespace, name=named.name)[named.key]):
        return None
    return Problem(
        reason=reasons.INVALID_PASSWORD,
        message=f"{PATH} {named.name!r}: what stands under {named.key!r} (not shown) is not 1 to 128 "
        "letters, digits and signs of ASCII without a space, which is what memcached takes; put another "
        "one there.",
    )


def deadline(cr: Object, observed: Observed) -> list[float]:
    """In how many seconds the password before is not valid any more."""
    until = _moment(_note(cr, observed, VALID_UNTIL)) if is_enabled(cr) else None
    return [] if until is None else [max((until - observed.now).total_seconds(), 1.0)]


def valid_until(cr: Object, observed: Observed) -> str | None:
    """Until when the password before is valid, while it is and clients have the new one."""
    until = _moment(_note(cr, observed, VALID_UNTIL))
    return stamp(until) if until is not None and len(stored(cr, observed)) > 1 else None
