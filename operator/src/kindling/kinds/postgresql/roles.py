"""spec.roles: read, checked as far as that needs no server, their passwords and the Secret of each login.

The Secret NAME-role-ROLE is to a role what NAME-binding is to the default user. A Secret whose role has left
the spec is kept with the resource: the role may be kept too, and with it whoever logs in. `spec.exporter`
stands for one role more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kindling.kinds import exporter, passwords, reasons
from kindling.kinds.base import Child, Observed, Problem
from kindling.kinds.certificates import stamp
from kindling.kinds.metadata import child_metadata, is_held
from kindling.kinds.passwords import Reference
from kindling.kinds.postgresql import client_certificates, databases, secrets
from kindling.kinds.postgresql.spec import MADE_SECRETS, RESERVED, role_names, user_of
from kindling.kube.resources import SECRET, Object, Ref, ResourceType

UNLIMITED = -1
POWERFUL = ("pg_execute_server_program", "pg_read_server_files", "pg_write_server_files")
"""PostgreSQL's own roles whose members run commands in the Pod, or read and write its files."""
NO_GROUPS = frozenset({*RESERVED, *POWERFUL, "pg_database_owner"})
"""Of what nobody is made a member: the CRD has the same."""
LONGEST_NAME = 63
EXPORTER = "kindling_exporter"
"""The role of `spec.exporter`."""


@dataclass(frozen=True, kw_only=True)
class Role:
    """One item. `connection_limit` may be UNLIMITED; `delete`: it is dropped once it leaves the spec.
    `certificate`: it has to show one to log in.
    """

    name: str
    login: bool
    member_of: tuple[str, ...]
    connection_limit: int
    reference: Reference | None
    delete: bool
    certificate: bool = False

    @property
    def path(self) -> str:
        return path_of(self.name)


EXPORTERS_ROLE = Role(
    name=EXPORTER,
    login=True,
    member_of=("pg_monitor",),
    connection_limit=5,  # one that stays, and one for each scrape
    reference=None,
    delete=True,
)


def path_of(name: str) -> str:
    """The field that has the role of this name."""
    return exporter.FIELD if name == EXPORTER else f"spec.roles[{name}]"


def read(cr: Object) -> tuple[Role, ...]:
    """In the order of the spec, and then that of the exporter."""
    listed = tuple(map(_read, (cr.get("spec") or {}).get("roles") or ()))
    own = exporter.is_enabled(cr) and EXPORTER not in role_names(cr)
    return (*listed, EXPORTERS_ROLE) if own else listed


def _read(item: Object) -> Role:
    limit = item.get("connectionLimit")
    login = item.get("login") is True
    return Role(
        name=str(item["name"]),
        login=login,
        member_of=tuple(str(name) for name in item.get("memberOf") or ()),
        connection_limit=UNLIMITED if limit is None else int(limit),
        reference=passwords.reference(item.get("passwordSecretRef")) if login else None,
        delete=item.get("reclaimPolicy") == "Delete",
        certificate=bool(client_certificates.method(item)),
    )


def secret_name(cr: Object, role: Role) -> str:
    return secret_of(cr, role.name)


def secret_of(cr: Object, name: str) -> str:
    """A role's name has letters, digits and underscores, which a Secret's name has not."""
    return f"{_prefix(cr)}{name.replace('_', '-')}"


def _prefix(cr: Object) -> str:
    return f"{cr['metadata']['name']}-role-"


def secret_names(cr: Object) -> list[str]:
    """The Secrets whose content is needed: those referred to, and those that have been made."""
    logins = [role for role in read(cr) if role.login]
    named = [role.reference.name for role in logins if role.reference is not None]
    return [*named, *(secret_name(cr, role) for role in logins)]


def password_of(role: Role, cr: Object, observed: Observed) -> str | None:
    """That of the Secret referred to, else the one in the role's own Secret, else None: not made yet."""
    namespace, named = cr["metadata"]["namespace"], role.reference
    if named is not None:
        return observed.secret(namespace=namespace, name=named.name).get(named.key) or None
    return _present(role, cr, observed).get("password") or None


def problem(role: Role, cr: Object, observed: Observed) -> Problem | None:
    """Why the Secret that the role refers to gives no password."""
    if role.reference is None:
        return None
    namespace = cr["metadata"]["namespace"]
    return passwords.problem(
        role.reference, observed, namespace=namespace, path=f"{role.path}.passwordSecretRef"
    )


def validate(cr: Object) -> Problem | None:
    """The first item that cannot work, with field, value and remedy."""
    name, user = cr["metadata"]["name"], user_of(cr)
    made = {f"{name}-{suffix}" for suffix in MADE_SECRETS}
    message = None
    if exporter.is_enabled(cr) and EXPORTER in {*role_names(cr), user}:
        message = (
            f"{exporter.FIELD} makes the role {EXPORTER!r}, which is also in spec.roles or spec.defaultUser: "
            f"use another name there, or set {exporter.FIELD}.enabled to false."
        )
        return Problem(reason=reasons.INVALID_SPEC, message=message)
    for role in read(cr):
        groups = [group for group in role.member_of if group in NO_GROUPS or group == role.name]
        secret = role.reference.name if role.reference is not None else ""
        if reserved(role.name):
            message = f"{role.path}: PostgreSQL or Kindling keeps that name to itself: use another."
        elif role.name == user:
            message = (
                f"{role.path} is the default user, whom spec.defaultUser makes: leave it out of the list."
            )
        elif groups:
            message = (
                f"{role.path}.memberOf {groups[0]!r} would give the role more than this resource may give: "
                "leave it out."
            )
        elif secret in made or secret.startswith(_prefix(cr)):
            message = (
                f"{role.path}.passwordSecretRef.name {secret!r} names a Secret that is made from this "
                "resource: refer to one of your own, or leave it out to have a password made."
            )
        if message:
            return Problem(reason=reasons.INVALID_SPEC, message=message)
    return None


def reserved(name: str) -> bool:
    """Whether no role or database of the spec may have this name."""
    return name in RESERVED or name.startswith("pg_") or len(name.encode()) > LONGEST_NAME or "\0" in name


def children(
    type: ResourceType,
    cr: Object,
    observed: Observed,
    *,
    applied: Collection[str],
    ca: str = "",
    issuer: client_certificates.Issuer | None = None,
) -> list[Child]:
    """A Secret for each role that logs in. `applied` are the roles that the server has as they are wanted,
    `ca` the authorities that their applications are to trust, `issuer` signs their certificates.

    The server gets a new password first: until it has it, applications go on with what they have.
    """
    made = []
    for role in read(cr):
        if not role.login:
            continue
        name = secret_name(cr, role)
        present = _present(role, cr, observed)
        bound = present.get("password")
        usable = problem(role, cr, observed) is None
        wanted = password_of(role, cr, observed) if usable else None
        if role.reference is None:
            wanted = wanted or observed.password(f"role {role.name}")
        password = wanted if wanted and (role.name in applied or not bound) else bound
        if password:
            made.append(
                secrets.binding(
                    type,
                    cr,
                    user=role.name,
                    password=password,
                    name=name,
                    database=database_of(role, cr),
                    ca=ca,
                    certificate=issuer.issue(role.name, present, observed)
                    if role.certificate and issuer is not None
                    else None,
                )
            )
    return [*made, *_kept(type, cr, observed, but={child.ref for child in made})]


def database_of(role: Role, cr: Object) -> str:
    """Where its Secret leads: the first database that it owns, or a role that it is a member of does."""
    listed = databases.read(cr)
    for owners in ((role.name,), role.member_of):
        for database in listed:
            leads = {database.owner, *((database.reader, database.writer) if database.access_roles else ())}
            if leads & set(owners):
                return database.name
    return user_of(cr)


def certificate_status(role: Role, cr: Object, observed: Observed) -> Object:
    """Of the entry in the status: when the certificate in the role's Secret ends."""
    ends = client_certificates.not_after(_present(role, cr, observed)) if role.certificate else None
    return {client_certificates.FIELD: {"notAfter": stamp(ends)}} if ends is not None else {}


def deadlines(cr: Object, observed: Observed) -> list[float]:
    """In how many seconds a certificate of a role is to be renewed."""
    shown = [_present(role, cr, observed) for role in read(cr) if role.certificate]
    return [left for present in shown for left in client_certificates.seconds_left(present, observed)]


def _present(role: Role, cr: Object, observed: Observed) -> Mapping[str, str]:
    """What the role's Secret has."""
    return observed.secret(namespace=cr["metadata"]["namespace"], name=secret_name(cr, role))


def _kept(type: ResourceType, cr: Object, observed: Observed, *, but: Collection[Ref]) -> Sequence[Child]:
    found = []
    for ref, obj in observed.objects.items():
        if ref.type != SECRET or not ref.name.startswith(_prefix(cr)) or ref in but:
            continue
        if is_held(cr, obj):
            metadata = child_metadata(type, cr, name=ref.name)
            found.append(Child(type=SECRET, create_only=True, body={"metadata": metadata, "data": {}}))
    return found
