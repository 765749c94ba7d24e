"""The roles and databases of the spec on the server: what is asked for, and what the status says of each.

They are a member of their own beside `login.SERVER`, whose action comes first. `kindling.prober.objects`
carries it out: there one query reads all of them, and only what differs costs a statement.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from kindling.kinds import reasons
from kindling.kinds.base import ExternalAction, ExternalResult, Observed, Probe, Problem
from kindling.kinds.passwords import fingerprint
from kindling.kinds.postgresql import databases, drops, login, roles
from kindling.kinds.postgresql.login import Login
from kindling.kinds.postgresql.observation import find_pod, is_stopped
from kindling.kinds.postgresql.spec import PAUSED, paused_by, resumed
from kindling.kube.resources import SECRET, Object, Ref

OBJECTS = "objects"
"""The member: all roles and databases of the spec."""
COMPARED_SECONDS = 600.0
"""How old an answer may be before the server is compared with the spec again."""
MORE_SECONDS, RETRY_SECONDS = 0.2, 60.0
"""When the rest of a long list follows, and when what the server rejected is retried."""
LONGEST_MESSAGE = 300
"""Characters of what the server says of one item."""
LONGEST_ENTRY_MESSAGE = 1024
"""What the CRD admits as a message in an entry of the status."""


@dataclass(frozen=True, kw_only=True)
class Objects:
    """Make these roles and databases so, as `superuser`, and drop those that have left the spec.

    A role is a mapping of `name`, `login`, `member_of`, `connection_limit` and `password` (None: as it is); a
    database one of the fields of `databases.Database` with its `made` and `contents`, and `look`: its
    extensions are not known, so they are to be read. Its `access` is the roles that may read, and read and
    write, what `creators` make in it. What the operator has not made is left as it is, and so
    is data of another system identifier. Without `apply` nothing is changed, only compared.
    """

    host: str
    port: int
    namespace: str
    pod: str
    superuser: str
    superuser_password: str | None = field(repr=False)
    identifier: str | None
    default_user: str
    ca: str | None = None
    roles: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    databases: tuple[Mapping[str, Any], ...] = ()
    drop_roles: tuple[str, ...] = ()
    drop_databases: tuple[str, ...] = ()
    apply: bool = True
    paused_by: str = PAUSED
    cache_key: Hashable
    check: ClassVar[bool] = False


def desired(cr: Object, observed: Observed, server: Login | None) -> Objects | None:
    """None where nothing is wanted of roles and databases, or the server cannot be asked yet."""
    listed, made = roles.read(cr), databases.read(cr)
    dropped = {what: drops.due(cr, observed, what) for what in ("roles", "databases")}
    pod = find_pod(cr, observed)
    if server is None or pod is None or not (listed or made or any(dropped.values())):
        return None
    usable = [role for role in listed if roles.problem(role, cr, observed) is None]
    passwords = {role.name: roles.password_of(role, cr, observed) for role in usable if role.login}
    # A login whose Secret is not made yet waits for it.
    usable = [role for role in usable if not role.login or passwords[role.name]]
    prints = tuple(fingerprint(passwords.get(role.name) or "") for role in usable)
    return Objects(
        host=server.host,
        port=server.port,
        namespace=server.namespace,
        pod=server.pod,
        superuser=server.superuser,
        superuser_password=server.superuser_password,
        identifier=server.identifier,
        default_user=server.database,
        ca=server.ca,
        roles=(
            *(role for database in made if database.access_roles for role in _access_roles(database)),
            *(
                {
                    "name": role.name,
                    "login": role.login,
                    "member_of": list(role.member_of),
                    "connection_limit": role.connection_limit,
                    "password": passwords.get(role.name),
                }
                for role in usable
            ),
        ),
        databases=tuple(_wanted(database, cr, listed) for database in made),
        drop_roles=tuple(dropped["roles"]),
        drop_databases=tuple(dropped["databases"]),
        apply=server.provision,
        paused_by=server.paused_by,
        cache_key=(
            cr["metadata"]["uid"],
            pod["metadata"]["uid"],
            login.starts(pod),
            server.provision,
            tuple(usable),
            tuple(role.member_of for role in listed),
            prints,
            made,
            tuple(sorted(dropped["roles"])),
            tuple(sorted(dropped["databases"])),
        ),
    )


def _access_roles(database: databases.Database) -> list[dict[str, Any]]:
    """Groups, the second of which is a member of the first; what they may do is granted in the database."""
    group = {"login": False, "connection_limit": roles.UNLIMITED, "password": None}
    return [
        {**group, "name": database.reader, "member_of": []},
        {**group, "name": database.writer, "member_of": [database.reader]},
    ]


def _creators(database: databases.Database, listed: Sequence[roles.Role]) -> list[str]:
    """Whose tables the access roles are for: the owners of the database and of its schemas, and the roles of
    the spec that are members of the database's owner.
    """
    members = [role.name for role in listed if database.owner in role.member_of]
    owners = [owner for _, owner in database.schemas if owner]
    return sorted({database.owner, *owners, *members})


def _wanted(database: databases.Database, cr: Object, listed: Sequence[roles.Role]) -> dict[str, Any]:
    item = drops.known(cr, "databases").get(database.name) or {}
    known = {extension.get("name") for extension in item.get("extensions") or ()}
    return {
        "name": database.name,
        "owner": database.owner,
        "encoding": database.encoding,
        "collation": database.collation,
        "icu_locale": database.icu_locale,
        "extensions": [list(pair) for pair in database.extensions],
        "schemas": [list(pair) for pair in database.schemas],
        "made": database.made,
        "contents": database.contents,
        "access": [database.reader, database.writer] if database.access_roles else [],
        "creators": _creators(database, listed) if database.access_roles else [],
        "look": not {name for name, _ in database.extensions} <= known,
    }


def probes(wanted: Objects | None, observed: Observed) -> dict[str, Probe]:
    """None that is repeated: the answer is kept, and a paused resource is compared once."""
    if wanted is None or (wanted.apply and not _is_applied(wanted, observed)):
        return {}
    return {OBJECTS: Probe(cache_key=wanted.cache_key, request=replace(wanted, apply=False), once=True)}


def external_actions(wanted: Objects | None, observed: Observed) -> list[ExternalAction]:
    """`apply`, until all is as wanted, and once its answer is old."""
    if wanted is None or not wanted.apply or _is_applied(wanted, observed):
        return []
    return [ExternalAction(name="apply", member=OBJECTS, cache_key=wanted.cache_key, request=wanted)]


def _is_applied(wanted: Objects, observed: Observed) -> bool:
    result = observed.result(OBJECTS, wanted.cache_key)
    if result is None or not result.ok:
        return False
    return (observed.now - observed.results[OBJECTS].at).total_seconds() < COMPARED_SECONDS


def applied_roles(wanted: Objects | None, observed: Observed) -> set[str]:
    """The roles that the server is known to have as they are wanted, with their passwords."""
    result = observed.result(OBJECTS, wanted.cache_key) if wanted is not None else None
    if wanted is None or result is None or not (result.ok or "roles" in result.facts):
        return set()
    return {role["name"] for role in wanted.roles} - set(_facts(result, "roles"))


def status(cr: Object, observed: Observed, result: ExternalResult | None) -> Object:
    """status.roles and status.databases, each left out where it is empty."""
    found: Object = {}
    # While nobody can be asked, what was said before holds for what was not edited, and of a stopped server.
    current = (cr.get("status") or {}).get("observedGeneration") == cr["metadata"].get("generation")
    holds = current or is_stopped(cr, observed)
    listed = [
        _entry(
            cr,
            "roles",
            role.name,
            result,
            delete=role.delete,
            problem=roles.problem(role, cr, observed),
            holds=holds,
        )
        | _binding(cr, observed, role)
        for role in roles.read(cr)
    ]
    made = [
        _entry(cr, "databases", database.name, result, delete=database.delete, holds=holds)
        | _extensions(cr, database, result)
        for database in databases.read(cr)
    ]
    for what, items in (("roles", listed), ("databases", made)):
        waits = drops.awaiting(cr, observed) if what == "databases" else []
        left = drops.all_of(cr, what)
        if _answered(result) and result is not None and result.ok:
            left = waits
        gone = [
            _entry(cr, what, name, result, delete=True, holds=holds, waits=name in waits)
            for name in left
            if name in waits or not _answered(result) or name in _facts(result, what)
        ]
        if items or gone:
            found[what] = [*items, *gone]
    return found


def _entry(
    cr: Object,
    what: str,
    name: str,
    result: ExternalResult | None,
    *,
    delete: bool,
    holds: bool,
    problem: Problem | None = None,
    waits: bool = False,
) -> Object:
    known = drops.known(cr, what).get(name) or {}
    reason, message = reasons.RECONCILING, ""
    if problem is not None:
        reason, message = problem.reason, problem.message
    elif waits:
        reason, message = reasons.APPROVAL_PENDING, drops.WAITS
    elif _answered(result):
        reason, message = _facts(result, what).get(name) or (reasons.APPLIED, "")
    elif holds and known.get("reason"):
        reason, message = str(known["reason"]), str(known.get("message") or "")
    entry: Object = {
        "name": name,
        "ready": reason == reasons.APPLIED,
        "reason": reason,
        "reclaimPolicy": "Delete" if delete else "Retain",
    }
    return {**entry, "message": message[:LONGEST_ENTRY_MESSAGE]} if message else entry


def _binding(cr: Object, observed: Observed, role: roles.Role) -> Object:
    name = roles.secret_name(cr, role)
    there = role.login and Ref(SECRET, cr["metadata"]["namespace"], name) in observed.objects
    return {"binding": {"name": name}, **roles.certificate_status(role, cr, observed)} if there else {}


def _extensions(cr: Object, database: databases.Database, result: ExternalResult | None) -> Object:
    """The versions that the server has, as it last said."""
    known = drops.known(cr, "databases").get(database.name) or {}
    versions = {item.get("name"): item.get("version") for item in known.get("extensions") or ()}
    versions |= dict((result.facts.get("extensions") or {}).get(database.name) or {}) if result else {}
    found = [
        {"name": name, "version": versions[name]} for name, _ in database.extensions if versions.get(name)
    ]
    return {"extensions": found} if found else {}


def fault(cr: Object, observed: Observed, result: ExternalResult | None) -> Problem | None:
    """The first item that is not as wanted, for Ready; the status has them all."""
    for role in roles.read(cr):
        if (problem := roles.problem(role, cr, observed)) is not None:
            return problem
    if result is None or result.ok or result.reason in (reasons.RECONCILING, reasons.PAUSED):
        return None
    return Problem(reason=result.reason, message=result.message)


def unsettled(cr: Object, reason: str) -> str:
    """What is said where nothing is wrong and not all is as wanted, by its reason."""
    if reason != reasons.PAUSED:
        return "Roles and databases are made as the spec has them; wait."
    field = paused_by(cr) or PAUSED
    return (
        f"Roles or databases on the server differ from the spec, and {field} keeps them so: "
        f"{resumed(field)} to reconcile them."
    )


def wants(cr: Object, observed: Observed) -> bool:
    """Whether the spec has any role or database, or one is to be dropped now."""
    listed = roles.read(cr) or (cr.get("spec") or {}).get("databases")
    return bool(listed or any(drops.due(cr, observed, what) for what in ("roles", "databases")))


def retry_seconds(result: ExternalResult) -> float | None:
    """When to go on with a long list, or to retry what the server rejected; None: neither."""
    said = [reason for what in ("roles", "databases") for reason, _ in _facts(result, what).values()]
    if reasons.RECONCILING in said:
        return MORE_SECONDS
    return RETRY_SECONDS if said else None


def _answered(result: ExternalResult | None) -> bool:
    """Whether the server has said how each item is: only then those that are not named are as wanted."""
    return result is not None and (result.ok or "roles" in result.facts or "databases" in result.facts)


def _facts(result: ExternalResult | None, what: str) -> Mapping[str, Any]:
    """Reason and message of each item that is not as wanted."""
    found: Mapping[str, Any] = (result.facts.get(what) or {}) if result is not None else {}
    return found
