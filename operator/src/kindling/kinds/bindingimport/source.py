"""What a BindingImport may have: the Postgresql that gives it, and what the Secret there holds."""

from __future__ import annotations

from kindling.kinds.base import Observed
from kindling.kinds.metadata import is_held
from kindling.kinds.postgresql import exports
from kindling.kinds.postgresql.exports import Export
from kindling.kinds.postgresql.secrets import BINDING_KEYS
from kindling.kube.resources import SECRET, Object, Ref


def refs(cr: Object) -> tuple[Ref, Ref]:
    """The Postgresql, and the Secret with the binding."""
    type, namespace, name, role = exports.asked(cr)
    return Ref(type, namespace, name), Ref(SECRET, namespace, exports.secret_name(name, role))


def given_by(cr: Object, observed: Observed) -> Object | None:
    """The Postgresql, if it exports to this import what that asks for."""
    database, meta = observed.watched.get(refs(cr)[0]), cr["metadata"]
    export = Export(meta["namespace"], meta["name"], exports.asked(cr)[3])
    return database if database is not None and exports.permits(database, export) else None


def values(cr: Object, observed: Observed) -> dict[str, str]:
    """What is copied; nothing of a Secret that is not the Postgresql's own: it would be a user's.

    What another writer has added to it, nobody has exported.
    """
    database, ref = given_by(cr, observed), refs(cr)[1]
    secret = observed.objects.get(ref)
    if database is None or secret is None or not is_held(database, secret):
        return {}
    found = observed.secret(namespace=ref.namespace, name=ref.name)
    return {key: found[key] for key in BINDING_KEYS if key in found} if found.get("password") else {}
