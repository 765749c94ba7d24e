"""The Pod is replaced for parameters when PostgreSQL asks for it, or does not stay up, and never else."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.postgresql.parameters import fingerprint
from kindling.kinds.postgresql.restart import restart_token
from kindling.kinds.postgresql.workload import PARAMETERS_HASH
from kindling.kube.resources import POD, STATEFUL_SET, Object, Ref

from tests.unit.operator.postgresqls import KIND, observed, postgresql, running

OLD, NEW = {"work_mem": "4MB"}, {"work_mem": "5MB"}
WORKLOAD, THE_POD = Ref(STATEFUL_SET, "ns", "db"), Ref(POD, "ns", "db-0")


def started_for(annotation: str, **changes: Any) -> dict[Ref, Object]:
    known = running(**{"since": "2025-12-31T00:00:00Z", **changes})
    template = {"metadata": {"annotations": {PARAMETERS_HASH: annotation}}}
    known[WORKLOAD]["spec"] = {"template": template}
    return known


def asked(known: dict[Ref, Object], wanted: dict[str, str], **status: Any) -> str:
    return restart_token(postgresql(generation=3, status=status), observed(known), wanted)


PENDING = {"pendingRestart": ["max_connections"], "observedGeneration": 3, "active": {"uid": "pod-uid"}}


def test_first_made_for_what_is_wanted() -> None:
    assert asked({}, NEW) == fingerprint(NEW)
    assert asked({WORKLOAD: {"metadata": {}, "spec": {"template": {}}}}, NEW) == fingerprint(NEW)


def test_edit_alone_restarts_nothing() -> None:
    present = fingerprint(OLD)
    assert asked(started_for(present), NEW) == present
    assert asked(started_for(present, ready=False), NEW) == present  # slow, or recovering
    without = {ref: obj for ref, obj in started_for(present).items() if ref != THE_POD}
    assert asked(without, NEW) == present  # a new Pod takes them up by itself


def test_restarts_when_postgresql_says_so_of_this_spec_and_this_pod() -> None:
    present = fingerprint(OLD)
    wanted = asked(started_for(present), NEW, **PENDING)
    assert wanted == f"{fingerprint(NEW)}.pod-uid"
    outdated: list[Object] = [
        {"observedGeneration": 2},
        {"active": {"uid": "earlier"}},
        {"active": None},
        {"pendingRestart": []},
    ]
    for stale in outdated:
        assert asked(started_for(present), NEW, **{**PENDING, **stale}) == present
    assert asked(started_for(wanted, revision="r0"), NEW, **PENDING) == wanted  # on its way


def test_not_again_at_once_for_the_same() -> None:
    """Were PostgreSQL to ask for ever, it would not be restarted for ever."""
    present = f"{fingerprint(NEW)}.earlier"
    assert asked(started_for(present, since="2026-01-01T00:00:00Z"), NEW, **PENDING) == present
    assert asked(started_for(present), NEW, **PENDING) == f"{fingerprint(NEW)}.pod-uid"


CRASHING = [
    {"state": {"waiting": {"reason": "CrashLoopBackOff"}}},
    {"state": {"terminated": {"exitCode": 1}}},
]


@pytest.mark.parametrize("state", CRASHING)
def test_server_that_ended_gets_the_fixed_parameters(state: Object) -> None:
    status = {"containerStatuses": [{"name": "postgres", **state}]}
    bad = f"{fingerprint(OLD)}.earlier"
    assert asked(started_for(bad, ready=False, **status), NEW) == fingerprint(NEW)
    assert asked(started_for(bad, ready=False, **status), OLD) == bad  # not fixed


def test_total_over_half_a_status() -> None:
    half: list[list[Object] | None] = [None, [{}], [{"name": "postgres", "state": None}]]
    for containers in half:
        known = started_for("x", ready=False)
        known[THE_POD]["status"]["containerStatuses"] = containers
        assert asked(known, NEW) == "x"


def test_a_restart_within_the_pod_is_an_event_that_names_what_needed_it() -> None:
    result = ExternalResult(ok=True, facts={"restarted": ["max_connections", "shared_buffers"]})
    found = KIND.notice("restart", "server", result)
    assert found is not None
    assert found.reason == "Restarted"
    assert found.note.endswith("max_connections, shared_buffers needed it.")
    assert KIND.notice("provision", "server", ExternalResult(ok=True, facts={"login": True})) is None
    assert KIND.notice("apply", "objects", result) is None
