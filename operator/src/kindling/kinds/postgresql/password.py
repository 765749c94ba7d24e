"""The default user's password: from the spec, from a Secret that the spec names, or a made one.

Its value goes from here into the binding and the login, and nowhere else.
"""

from __future__ import annotations

from kindling.kinds import passwords
from kindling.kinds.base import Observed, Problem
from kindling.kinds.passwords import Reference
from kindling.kinds.postgresql import credentials
from kindling.kinds.postgresql.secrets import binding_name
from kindling.kinds.postgresql.spec import user_of
from kindling.kube.resources import Object


def reference(cr: Object) -> Reference | None:
    return passwords.reference((cr.get("spec") or {}).get("passwordSecretRef"))


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
    return passwords.problem(
        named, observed, namespace=cr["metadata"]["namespace"], path="spec.passwordSecretRef"
    )
