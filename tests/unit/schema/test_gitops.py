"""What GitOps tools make of each kind's status: Flux and Helm by kstatus, Argo CD by the checks we give.

Their own code judges: the library that Flux and Helm are built with, and the Lua that Argo CD runs. The
statuses are those that the kinds write, as the engine completes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from kindling.kinds.base import ExternalResult, Kind, Observed, Problem, SyncResult
from kindling.kinds.bindingimport import source as binding_import
from kindling.kinds.conditions import find_condition, with_stalled, with_transition_times
from kindling.kinds.metadata import secret_data
from kindling.kube.resources import POD, Object, Ref

from tests.unit.operator import memcacheds, postgresqls, pulsarconsumers
from tests.unit.schema.judges import CHECKS, check_of, judge
from tests.unit.schema.worlds import CRDS, KINDS, REPOSITORY

GUIDE = REPOSITORY / "docs" / "guides" / "gitops.md"
NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
SETTLED = SyncResult(in_sync=True)
WORD: ExternalResult = ExternalResult(ok=True)


def as_stored(kind: Kind, cr: Object) -> Object:
    """What the API server hands out, with the CRD's default where nobody has written a status."""
    version = CRDS[kind.type.group_kind]["spec"]["versions"][0]
    default = version["schema"]["openAPIV3Schema"]["properties"]["status"]["default"]
    head = {"apiVersion": kind.type.api_version, "kind": kind.type.kind}
    return {**head, **cr, "status": cr.get("status") or default}


def with_status(
    kind: Kind, cr: Object, observed: Observed, sync: SyncResult, *, for_long: bool = False
) -> Object:
    """The resource with the status that is written of it; `for_long`, after it has been so for an hour."""
    observed = replace(observed, now=NOW)
    for now in (NOW, NOW + timedelta(hours=1)) if for_long else (NOW,):
        report = kind.status(cr, replace(observed, now=now), sync)
        cr = {
            **cr,
            "status": with_transition_times(with_stalled(report), known=cr.get("status") or {}, now=now),
        }
    return as_stored(kind, cr)


KINDS_BY_NAME: dict[str, tuple[Callable[..., Object], Callable[..., dict[Ref, Object]], SyncResult]] = {
    "postgresql.database.db.example.com": (
        postgresqls.postgresql,
        postgresqls.running,
        SyncResult(in_sync=True, results={"server": WORD}),
    ),
    "postgresql.database.technotuesday.io": (
        postgresqls.postgresql,
        postgresqls.running,
        SyncResult(in_sync=True, results={"server": WORD}),
    ),
    "memcached.cache.example.com": (memcacheds.memcached, memcacheds.running, SETTLED),
    "pulsarconsumer.pulsar.pulsarconsumer.krvarma.com": (
        pulsarconsumers.consumer,
        lambda: {**pulsarconsumers.rolled_out(), **pulsarconsumers.pod()},
        SETTLED,
    ),
}
FRIEND = "mycustomresource.poc.test.domain"
BACKUP, RESTORE = "backup.database.technotuesday.io", "restore.database.technotuesday.io"
IMPORT = "bindingimport.database.technotuesday.io"
EACH_KIND = pytest.mark.parametrize("label", KINDS_BY_NAME)


def test_every_kind_has_a_check_and_no_other_has() -> None:
    assert sorted(CHECKS.rglob("*.lua")) == sorted(
        check_of(kind.type.group, kind.type.kind) for kind in KINDS.values()
    )
    assert {*KINDS_BY_NAME, FRIEND, BACKUP, RESTORE, IMPORT} == KINDS.keys()
    # One text for all kinds that run Pods.
    assert (
        len(
            {
                check_of(KINDS[label].type.group, KINDS[label].type.kind).read_text()
                for label in (*KINDS_BY_NAME, BACKUP, RESTORE)
            }
        )
        == 1
    )


@pytest.mark.parametrize("label", [*KINDS_BY_NAME, FRIEND])
def test_until_somebody_has_looked_it_is_waited_for(label: str) -> None:
    kind = KINDS[label]
    new = {"metadata": {"namespace": "ns", "name": "one", "uid": "u", "generation": 1}, "spec": {"name": "a"}}
    seen = with_status(kind, new, Observed(objects={}, now=NOW, entropy=b""), SyncResult(in_sync=False))
    edited = {**seen, "metadata": {**seen["metadata"], "generation": 2}}
    for found in judge(as_stored(kind, new), edited):
        assert found[:2] == ("InProgress", "Progressing")
        assert "not looked at this spec yet" in found[2]
    gone = {**seen, "metadata": {**seen["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert judge(gone)[0][0] == "Terminating"


@EACH_KIND
def test_gitops_waits_until_it_is_ready_and_reports_a_fault(label: str) -> None:
    kind = KINDS[label]
    make, running, good = KINDS_BY_NAME[label]
    nothing = Observed(objects={}, now=NOW, entropy=b"e" * 32)
    invalid = Problem(reason="InvalidSpec", message="fix it")
    refused = Problem(reason="ApplyRejected", message="a quota")
    removed = Problem(reason="Terminating", message="wait", transient=True)
    say = partial(with_status, kind, make())
    cases: list[tuple[Object, str, str]] = [
        (say(nothing, SyncResult(in_sync=False)), "InProgress", "Progressing"),
        (say(nothing, SETTLED), "InProgress", "Progressing"),
        (say(replace(nothing, objects=running()), good), "Current", "Healthy"),
        (say(nothing, SyncResult(in_sync=False, problem=removed)), "InProgress", "Progressing"),
        # Flux and Helm wait for a problem that may end by itself; Argo CD shows it to a person all the same.
        (say(nothing, SyncResult(in_sync=False, problem=refused)), "InProgress", "Degraded"),
        (say(nothing, SETTLED, for_long=True), "InProgress", "Degraded"),
    ]
    if label.startswith("postgresql"):
        wrong = ExternalResult(ok=False, reason="InvalidParameter", message="fix it")
        up = replace(nothing, objects=running())
        paused = make(paused=True)
        stopped = {ref: obj for ref, obj in running().items() if ref.type != POD}
        cases += [
            (say(nothing, SyncResult(in_sync=False, problem=invalid)), "Failed", "Degraded"),
            (say(up, SyncResult(in_sync=True, results={"server": wrong})), "Failed", "Degraded"),
            (with_status(kind, paused, up, replace(good, paused=True)), "Current", "Suspended"),
            (
                with_status(kind, paused, up, SyncResult(in_sync=False, paused=True)),
                "InProgress",
                "Suspended",
            ),
            (
                with_status(kind, make(hibernate=True), replace(up, objects=stopped), SETTLED),
                "InProgress",
                "Suspended",
            ),
        ]
    if label.startswith("pulsarconsumer"):
        said = {**pulsarconsumers.rolled_out(1, available=0)}
        said |= pulsarconsumers.pod(ready=False, said="InvalidTopic: no such name")
        none = replace(nothing, objects=pulsarconsumers.rolled_out(0))
        cases += [
            (say(replace(nothing, objects=said), SETTLED), "Failed", "Degraded"),
            (with_status(kind, make(replicas=0), none, SETTLED), "Current", "Healthy"),
        ]
    found = judge(*(case[0] for case in cases))
    assert [one[:2] for one in found] == [case[1:] for case in cases]
    for (obj, *_), (_, health, message) in zip(cases, found, strict=True):
        said_by = "Paused" if find_condition(obj["status"], "Paused") and health == "Suspended" else "Ready"
        assert message == find_condition(obj["status"], said_by)["message"]


def test_a_copy_is_waited_for_and_no_fault() -> None:
    kind = KINDS[IMPORT]
    meta = {"namespace": "web", "name": "shop", "uid": "import-uid", "generation": 1}
    cr: Object = {"metadata": meta, "spec": {"databaseRef": {"namespace": "db", "name": "shop"}}}
    ref, secret = binding_import.refs(cr)
    giver: Object = {
        "metadata": {"namespace": "db", "name": "shop", "uid": "giver-uid"},
        "spec": {"bindingExports": [{"namespace": "web", "name": "shop"}]},
    }
    held: Object = {
        "metadata": {"ownerReferences": [{"uid": "giver-uid"}]},
        "data": secret_data({"password": "p"}),
    }
    nothing = Observed(objects={}, now=NOW, entropy=b"")
    given = replace(nothing, watched={ref: giver}, objects={secret: held})
    found = judge(with_status(kind, cr, nothing, SETTLED), with_status(kind, cr, given, SETTLED))
    assert [one[:2] for one in found] == [("InProgress", "Progressing"), ("Current", "Healthy")]


def test_a_friend_is_waited_for() -> None:
    """By Argo CD alone: whether it is there is known all the while, so that Flux and Helm go on."""
    kind = KINDS[FRIEND]
    cr = {"metadata": {"namespace": "ns", "name": "a", "uid": "u", "generation": 1}, "spec": {"name": "joe"}}
    away = Observed(objects={}, now=NOW, entropy=b"")
    here = replace(away, watched={Ref(POD, "far", "joe"): {"metadata": {}}})
    found = judge(*(with_status(kind, cr, observed, SETTLED) for observed in (away, here)))
    assert [one[:2] for one in found] == [("Current", "Progressing"), ("Current", "Healthy")]
    assert ["no Pod named joe" in one[2] for one in found] == [True, False]


@pytest.mark.parametrize("label", [*KINDS_BY_NAME, FRIEND, BACKUP, RESTORE])
def test_the_guide_names_every_check_as_argo_cd_does(label: str) -> None:
    kind = KINDS[label]
    assert f"resource.customizations.health.{kind.type.group}_{kind.type.kind}" in GUIDE.read_text()
