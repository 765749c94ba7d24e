"""The two Secrets: NAME-superuser (the operator's own role) and NAME-binding (what an application reads).

The binding's keys and type are those of servicebinding.io, so that tools for it work untaught.
"""

from __future__ import annotations

from urllib.parse import quote

from kindling.kinds.base import Child, Observed
from kindling.kinds.certificates import Pair
from kindling.kinds.metadata import child_metadata, secret_data
from kindling.kinds.postgresql import tls
from kindling.kinds.postgresql.service import PORT
from kindling.kinds.postgresql.spec import SUPERUSER, is_ephemeral
from kindling.kinds.postgresql.volume import claim_of, volume_ref
from kindling.kinds.server_tls import AUTHORITY, CERTIFICATE, KEY
from kindling.kinds.service_template import host_of
from kindling.kube.resources import SECRET, VOLUME_CLAIM, Object, ResourceType

BINDING_TYPE = "servicebinding.io/postgresql"
BINDING_KEYS = (
    AUTHORITY, "database", "host", "jdbc-uri", "password", "pgpass", "port", "provider", "sslmode",
    CERTIFICATE, KEY, "type", "uri", "username",
)  # fmt: skip
"""What `binding` writes: any other key is another writer's."""
VERIFIED = "verify-full"
"""The sslmode of libpq, and of JDBC, that lets nobody pose as the server."""


def superuser_name(cr: Object) -> str:
    """Another name where the data is ephemeral: a volume kept from before has the usual one."""
    return f"{cr['metadata']['name']}-superuser{'-ephemeral' if is_ephemeral(cr) else ''}"


def binding_name(cr: Object) -> str:
    return f"{cr['metadata']['name']}-binding"


def superuser(type: ResourceType, cr: Object, observed: Observed) -> Child:
    """Owned by the volume, for its password is in the data; waits until the volume has a uid.

    Created once: another password would lock us out of the server that has the old one. Where somebody
    emptied it there is none to keep: it gets another, for the server's next start.
    """
    volume = claim_of(cr, observed)
    keeper = {
        "apiVersion": VOLUME_CLAIM.api_version,
        "kind": VOLUME_CLAIM.kind,
        "name": volume_ref(cr).name,
        "uid": volume["metadata"]["uid"] if volume is not None else "",
    }
    ephemeral = is_ephemeral(cr)
    metadata = child_metadata(type, cr, name=superuser_name(cr))
    if not ephemeral:
        metadata["ownerReferences"] = [keeper]
    values = {"username": SUPERUSER, "password": observed.password("superuser")}
    present = observed.secret(namespace=cr["metadata"]["namespace"], name=superuser_name(cr))
    return Child(
        type=SECRET,
        create_only=True,
        restore_data=not present.get("password"),
        blocked=volume is None and not ephemeral,
        body={"metadata": metadata, "type": "Opaque", "data": secret_data(values)},
    )


def trusted(cr: Object, observed: Observed) -> str:
    """The authorities that applications trust by the binding, in PEM."""
    found = observed.secret(namespace=cr["metadata"]["namespace"], name=binding_name(cr))
    return found.get(AUTHORITY) or ""


def bound(cr: Object, observed: Observed) -> tuple[str, str] | None:
    """The user and password that the binding has, if it has both."""
    found = observed.secret(namespace=cr["metadata"]["namespace"], name=binding_name(cr))
    user, password = found.get("username"), found.get("password")
    return (user, password) if user and password else None


def binding(
    type: ResourceType,
    cr: Object,
    *,
    user: str,
    password: str,
    name: str = "",
    database: str = "",
    ca: str = "",
    certificate: Pair | None = None,
) -> Child:
    """A made password is kept as long as the Secret lives; edited there, it is the new password.

    Without `name` and `database`, the default user's. With `ca`, clients can verify the server; the URIs say
    that they must only where the spec asks for TLS, because a client without the file would not start.
    `certificate` is what the client has to show, and asks for TLS.
    """
    host, database = host_of(cr), database or user
    role, word = quote(user, safe=""), quote(password, safe="")
    place, mode = f"{host}:{PORT}/{quote(database, safe='')}", ""
    fields = host, str(PORT), database, user, password
    values = {
        "jdbc-uri": f"jdbc:postgresql://{place}?user={role}&password={word}",
        "pgpass": ":".join(field.replace("\\", "\\\\").replace(":", "\\:") for field in fields),
    }
    if ca:
        values[AUTHORITY] = ca
    if certificate is not None:
        values |= {CERTIFICATE: certificate.certificate, KEY: certificate.key}
    if ca and (tls.is_requested(cr) or certificate is not None):
        values["sslmode"] = VERIFIED
        mode = f"?sslmode={VERIFIED}"
        values["jdbc-uri"] += f"&sslmode={VERIFIED}"
    values |= {
        "type": "postgresql",
        "provider": "kindling",
        "host": host,
        "port": str(PORT),
        "database": database,
        "username": user,
        "password": password,
        "uri": f"postgresql://{role}:{word}@{place}{mode}",
    }
    return Child(
        type=SECRET,
        body={
            "metadata": child_metadata(type, cr, name=name or binding_name(cr)),
            "type": BINDING_TYPE,
            "data": secret_data(values),
        },
    )
