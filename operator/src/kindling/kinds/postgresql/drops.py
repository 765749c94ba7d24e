"""Roles and databases that the spec had with `reclaimPolicy: Delete` and has no more, by the status."""

from __future__ import annotations

from kindling.kinds.base import Observed
from kindling.kinds.planned import Disruption
from kindling.kinds.postgresql import approval, credentials, roles
from kindling.kinds.postgresql.approval import Act
from kindling.kube.resources import Object

MOST_DROPPED = 199
"""Of each list at once; with the 200 of the spec and the exporter's role, the status has as many entries as
the CRD admits.
"""

WAITS = "It is dropped once that is approved; status.approvals has the name."


def known(cr: Object, what: str) -> dict[str, Object]:
    """The items of `status.roles` or `status.databases`, by their names."""
    return {item["name"]: item for item in (cr.get("status") or {}).get(what) or () if item.get("name")}


def all_of(cr: Object, what: str) -> list[str]:
    """Their names, at most MOST_DROPPED: what is cut off stays on the server, which is the safe side."""
    present = {item["name"] for item in (cr.get("spec") or {}).get(what) or ()}
    present |= {role.name for role in roles.read(cr)} if what == "roles" else set()
    left = [
        name
        for name, item in known(cr, what).items()
        if item.get("reclaimPolicy") == "Delete"
        and name not in present
        and name not in credentials.logins(cr)
        and not roles.reserved(name)
    ]
    return left[:MOST_DROPPED]


def due(cr: Object, observed: Observed, what: str) -> list[str]:
    """Those to drop now: without what waits for an approval."""
    return [] if what == "databases" and awaited(cr, observed) is not None else all_of(cr, what)


def awaiting(cr: Object, observed: Observed) -> list[str]:
    """The databases that are dropped once that is approved."""
    return all_of(cr, "databases") if awaited(cr, observed) is not None else []


def awaited(cr: Object, observed: Observed) -> Act | None:
    """That databases are dropped, while it waits. Roles hold no data."""
    names = sorted(all_of(cr, "databases"))
    edit = str(cr["metadata"].get("generation"))
    return approval.awaited(cr, observed, Disruption.DATA_LOST, "drop", edit, *names) if names else None
