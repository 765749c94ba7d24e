"""Roles of the spec on the server: made, changed, made members, dropped. Passwords go there as verifiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kindling.kinds import reasons
from kindling.kinds.postgresql.objects import Objects
from kindling.prober.items import Items
from kindling.prober.scram import matches, verifier
from kindling.prober.sessions import identifier


def provision(items: Items, role: Mapping[str, Any]) -> None:
    """The role itself, in one round trip where anything differs; its memberships come once all roles are."""
    name, present = role["name"], items.state.roles.get(role["name"])
    quoted = identifier(name)
    with items.item(items.roles, name) as item:
        if present is None:
            options = " ".join([_login(role), _limit(role), *_password(role)])
            note = items.state.noted(memberOf=[])
            items.execute(f"CREATE ROLE {quoted} {options}; COMMENT ON ROLE {quoted} IS {note}")
            return
        if items.state.note(present["note"]) is None:
            item.says(*items.conflict("role", name, quoted))
            return
        changes = []
        if present["login"] is not role["login"]:
            changes.append(_login(role))
        if present["limit"] != role["connection_limit"]:
            changes.append(_limit(role))
        if role["password"] and not matches(str(present["verifier"]), role["password"]):
            changes += _password(role)
        if changes:
            items.execute(f"ALTER ROLE {quoted} {' '.join(changes)}")


def provision_memberships(items: Items, role: Mapping[str, Any]) -> None:
    """What it is a member of by the spec; memberships that another user granted stay."""
    name = role["name"]
    if name in items.roles:
        return
    present = items.state.roles.get(name) or {}
    note = items.state.note(present.get("note")) or {}
    wanted, has = set(role["member_of"]), set(present.get("member_of") or ())
    granted = {group for group in note.get("memberOf") or () if isinstance(group, str)}
    new, old = sorted(wanted - has), sorted((granted - wanted) & has)
    ours = sorted((granted & wanted) | set(new))
    with items.item(items.roles, name) as item:
        powerful = sorted(wanted & items.state.powerful)
        if powerful:
            item.says(
                reasons.INVALID_SPEC,
                f"memberOf {powerful[0]!r} is a superuser, or runs programs or uses files as the server: "
                "leave it out",
            )
            return
        if not new and not old and ours == sorted(granted):
            return
        quoted = identifier(name)
        statements = [f"GRANT {identifier(group)} TO {quoted}" for group in new]
        statements += [f"REVOKE {identifier(group)} FROM {quoted}" for group in old]
        statements.append(f"COMMENT ON ROLE {quoted} IS {items.state.noted(memberOf=ours)}")
        items.execute("; ".join(statements))


def drop(items: Items, name: str, request: Objects) -> None:
    """Only what the operator made; one that owns anything stays, and it is said what."""
    present = items.state.roles.get(name)
    kept = (request.superuser, request.default_user)
    if present is None or name in kept or items.state.note(present["note"]) is None:
        return
    with items.item(items.roles, name):
        items.execute(f"DROP ROLE {identifier(name)}")


def _login(role: Mapping[str, Any]) -> str:
    return "LOGIN" if role["login"] else "NOLOGIN"


def _limit(role: Mapping[str, Any]) -> str:
    return f"CONNECTION LIMIT {int(role['connection_limit'])}"


def _password(role: Mapping[str, Any]) -> list[str]:
    return [f"PASSWORD '{verifier(role['password'])}'"] if role["password"] else []
