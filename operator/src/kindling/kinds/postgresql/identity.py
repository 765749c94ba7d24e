"""Whose data it is: PostgreSQL's system identifier, recorded at the first login, compared at each other.

It is in the claim's annotation, which a new resource takes up with the data, and in the status, which a
claim cannot take with it. While either has it, nothing is initialised (`initdb`) and no other data is
provisioned; START_EMPTY is the way on, once. Ephemeral data has no record: it is meant to go.
"""

from __future__ import annotations

import re
from dataclasses import replace

from kindling.kinds import reasons
from kindling.kinds.base import ExternalResult, Observed, Problem
from kindling.kinds.postgresql import login
from kindling.kinds.postgresql.config import config_name
from kindling.kinds.postgresql.initdb import IDENTIFIER, LOST
from kindling.kinds.postgresql.observation import find_pod
from kindling.kinds.postgresql.spec import is_ephemeral
from kindling.kinds.postgresql.volume import IDENTIFIER_ANNOTATION, claim_of, volume_name
from kindling.kube.resources import CONFIG_MAP, Object, Ref, ResourceType

START_EMPTY = "kindling.dev/start-empty"
"""On the resource, with the identifier of the data that is lost: go on without it."""

FORM = re.compile(r"[1-9][0-9]{0,19}")
"""A system identifier of PostgreSQL, a number of 64 bits, as text."""


def recorded(cr: Object, observed: Observed) -> str | None:
    """What is on record; the status first, for a claim may be another's."""
    if is_ephemeral(cr):
        return None
    return _number((cr.get("status") or {}).get("systemIdentifier")) or _number(_annotated(cr, observed))


def expected(cr: Object, observed: Observed) -> str | None:
    """Whose data must be there; None while nobody's is known, or it is given up."""
    return None if _given_up(cr, observed) else recorded(cr, observed)


def to_record(cr: Object, observed: Observed) -> str | None:
    """What the claim and NAME-config are to say: what is expected, else what the server has just said."""
    if is_ephemeral(cr):
        return None
    return expected(cr, observed) or _identifier_in(login.last_result(cr, observed))


def shown(cr: Object, observed: Observed, external: ExternalResult | None) -> str | None:
    """What the status is to say. What is given up goes from it last, so that it is given up whole."""
    known = recorded(cr, observed)
    if known is not None and (not _given_up(cr, observed) or _is_left(cr, observed, known)):
        return known
    return None if is_ephemeral(cr) else _identifier_in(external)


def lost(
    type: ResourceType, cr: Object, observed: Observed, external: ExternalResult | None
) -> Problem | None:
    """That the data is not there, and the two ways on."""
    known = shown(cr, observed, None)
    other = (
        external.facts.get("system_identifier")
        if external is not None and external.reason == reasons.DATA_LOST
        else None
    )
    if known is None or not (other or initialised_nothing(cr, observed)):
        return None
    meta, volume = cr["metadata"], volume_name(cr)
    found = (
        f"Volume {volume} has other data (system identifier {other}) than this database had ({known}); "
        "nothing was changed in it"
        if other
        else f"Volume {volume} has no data, and this database had some (system identifier {known}); "
        "nothing was initialised"
    )
    remedy = "go on with what is there" if other else "begin empty"
    return Problem(
        reason=reasons.DATA_LOST,
        message=f"{found}. Bring the data back, from a backup or a volume that was kept; or {remedy}, with "
        f"`kubectl annotate {type.plural}.{type.group} {meta['name']} -n {meta['namespace']} --overwrite "
        f"{START_EMPTY}={known}`.",
    )


def judged(external: ExternalResult | None) -> ExternalResult | None:
    """The answer, without what is no fault any more where the data is given up."""
    return (
        replace(external, reason=reasons.RECONCILING)
        if external is not None and external.reason == reasons.DATA_LOST
        else external
    )


def initialised_nothing(cr: Object, observed: Observed) -> bool:
    """Whether the init container ended because there was no data; not once it has ended well."""
    pod = find_pod(cr, observed) or {}
    for item in (pod.get("status") or {}).get("initContainerStatuses") or ():
        now, before = ((item.get(field) or {}).get("terminated") or {} for field in ("state", "lastState"))
        if item.get("name") == "initdb" and now.get("exitCode") != 0:
            return any(LOST in (ended.get("message") or "") for ended in (now, before))
    return False


def _given_up(cr: Object, observed: Observed) -> bool:
    """Only where it is lost, and named: neither beforehand, nor a second time."""
    named, known = (cr["metadata"].get("annotations") or {}).get(START_EMPTY), recorded(cr, observed)
    if not named or named != known:
        return False
    last_result = login.last_result(cr, observed)
    other = last_result is not None and (
        last_result.reason == reasons.DATA_LOST or _identifier_in(last_result) not in (None, known)
    )
    return other or initialised_nothing(cr, observed)


def _is_left(cr: Object, observed: Observed, known: str) -> bool:
    """Whether the claim or NAME-config still have it."""
    config = observed.objects.get(Ref(CONFIG_MAP, cr["metadata"]["namespace"], config_name(cr))) or {}
    return known in (_annotated(cr, observed), (config.get("data") or {}).get(IDENTIFIER))


def _annotated(cr: Object, observed: Observed) -> str | None:
    claim = claim_of(cr, observed) or {}
    found: str | None = ((claim.get("metadata") or {}).get("annotations") or {}).get(IDENTIFIER_ANNOTATION)
    return found


def _identifier_in(external: ExternalResult | None) -> str | None:
    found = (
        external.facts.get("system_identifier") if external is not None and login.lets_in(external) else None
    )
    return _number(found)


def _number(value: object) -> str | None:
    return str(value) if value and FORM.fullmatch(str(value)) else None
