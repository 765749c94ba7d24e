"""The two Secrets: NAME-superuser (the operator's own role) and NAME-binding (what an application reads).

The binding's keys and type are those of servicebinding.io, so that tools for it work untaught.
"""

from __future__ import annotations

import base64
from urllib.parse import quote

from kindling.kinds.contract import Child, Observed, labels_of, owner_of
from kindling.kinds.postgresql.service import PORT, host_of
from kindling.kinds.postgresql.spec import SUPERUSER, Spec
from kindling.kinds.postgresql.volume import volume_ref
from kindling.kube.resources import SECRET, VOLUME_CLAIM, Object, ResourceType


def superuser_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-superuser"


def binding_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-binding"


def superuser(type: ResourceType, cr: Object, observed: Observed) -> Child:
    """Owned by the volume, for its password is in the data; waits until the volume has a uid.

    Made once: applying a password anew would lock us out of the server that has the old one.
    """
    volume = observed.children.get(volume_ref(cr))
    owner = {
        "apiVersion": VOLUME_CLAIM.api_version,
        "kind": VOLUME_CLAIM.kind,
        "name": volume_ref(cr).name,
        "uid": volume["metadata"]["uid"] if volume is not None else "",
    }
    values = {"username": SUPERUSER, "password": observed.password("superuser")}
    return Child(
        type=SECRET,
        once=True,
        waits=volume is None,
        body={
            "metadata": {
                "namespace": cr["metadata"]["namespace"],
                "name": superuser_name(cr),
                "labels": labels_of(type, cr),
                "ownerReferences": [owner],
            },
            "type": "Opaque",
            "data": _encoded(values),
        },
    )


def password_of(cr: Object, observed: Observed) -> str | None:
    """The default user's password: the spec's, else the one in the binding, else None."""
    given = (cr.get("spec") or {}).get("password")
    if given is not None:
        return str(given)
    return (
        observed.secret(namespace=cr["metadata"]["namespace"], name=binding_name(cr)).get("password") or None
    )


def binding(type: ResourceType, cr: Object, spec: Spec, observed: Observed) -> Child:
    """A generated password is kept as long as the Secret lives; edited there, it is the new password."""
    password = password_of(cr, observed) or observed.password("binding")
    host, user = host_of(cr), spec.user
    role, word = quote(user, safe=""), quote(password, safe="")
    values = {
        "type": "postgresql",
        "provider": "kindling",
        "host": host,
        "port": str(PORT),
        "database": user,
        "username": user,
        "password": password,
        "uri": f"postgresql://{role}:{word}@{host}:{PORT}/{role}",
    }
    return Child(
        type=SECRET,
        body={
            "metadata": {
                "namespace": cr["metadata"]["namespace"],
                "name": binding_name(cr),
                "labels": labels_of(type, cr),
                "ownerReferences": [owner_of(type, cr)],
            },
            "type": "servicebinding.io/postgresql",
            "data": _encoded(values),
        },
    )


def _encoded(values: dict[str, str]) -> dict[str, str]:
    return {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
