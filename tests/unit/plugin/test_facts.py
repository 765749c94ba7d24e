"""What objects say: Ready of this generation, children with their faults, Events, backups, ages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kubectl_kindling import facts

from tests.unit.plugin.recordings import NOW, backup, healthy, items, mydb, resource, run


def child(kind: str, *, spec: Any = None, **status: Any) -> facts.Child:
    return facts.child({"kind": kind, "metadata": {"name": "x"}, "spec": spec or {}, "status": status})


def test_ready_is_the_condition_while_it_is_of_this_generation() -> None:
    found = facts.ready(mydb())
    assert (found.status, found.reason, found.yes) == ("False", "LoginFailed", False)
    assert found.message.startswith("No login through mydb.shop.svc:5432 yet")
    assert facts.ready(healthy()).yes
    assert facts.ready(healthy()).since == "2026-11-24T21:30:00Z"


@pytest.mark.parametrize(("observed", "words"), [(4, "observed generation 4."), (-1, "observed none of it.")])
def test_ready_of_an_older_generation_is_unknown(observed: int, words: str) -> None:
    """However good it looks: `kubectl wait` would not know it either."""
    stale = healthy()
    stale["status"]["observedGeneration"] = observed
    found = facts.ready(stale)
    assert (found.status, found.reason, found.yes) == ("Unknown", "NotObserved", False)
    assert found.message == f"The spec is of generation 5; the operator has {words}"


def test_a_resource_without_a_status() -> None:
    bare = {"metadata": {"name": "x", "generation": 1}}
    assert facts.ready(bare).status == "Unknown"
    assert facts.conditions(bare) == []
    assert facts.details(bare) == []
    assert facts.phase(bare) == ""


def test_the_phase_is_of_whichever_name() -> None:
    assert facts.phase(mydb()) == "Failed"
    assert facts.phase({"status": {"phase": "Restoring"}}) == "Restoring"


def test_details_are_the_fields_that_are_shown_nowhere_else() -> None:
    found = dict(facts.details(healthy()))
    assert found.keys() == {"version", "image", "active", "binding"}
    assert found["binding"] == "name mydb-binding"
    cache = dict(facts.details(resource("Memcached", "cache")))
    assert cache == {"replicas": "2", "serverList": "127.0.0.1:11211, 127.0.0.1:11211"}
    many = {"status": {"list": list(range(20)), "yes": True, "none": None, "empty": []}}
    assert dict(facts.details(many)) == {"list": "0, 1, 2, 3, 4, 5, 6, 7 and 12 more", "yes": "true"}


def test_recorded_children_those_with_a_fault_first() -> None:
    rows = facts.children(items("children"))
    assert [(row.kind, row.state, row.fault) for row in rows] == [
        ("PersistentVolumeClaim", "Pending 1Gi", True),
        ("ConfigMap", "", False),
        ("NetworkPolicy", "", False),
        ("Service", "ClusterIP port 5432", False),
        ("StatefulSet", "1 of 1 ready", False),
        ("Pod", "Running, ready", False),
    ]
    assert len(facts.children(items("children") * 2)) == len(rows), "each once"


WAITING = {"name": "postgres", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


@pytest.mark.parametrize(
    ("found", "state", "fault"),
    [
        (child("Deployment", spec={"replicas": 2}, readyReplicas=1), "1 of 2 ready", True),
        (child("StatefulSet", spec={"replicas": 0}), "0 of 0 ready", False),
        (
            child("Deployment", spec={"replicas": 2}, readyReplicas=2, updatedReplicas=1),
            "2 of 2 ready, a change is being rolled out",
            False,
        ),
        (
            child("Pod", phase="Running", containerStatuses=[WAITING]),
            "Running: postgres CrashLoopBackOff, 3 restarts",
            True,
        ),
        (child("Pod", phase="Pending", conditions=[UNSCHEDULED]), "Pending: Unschedulable", True),
        (child("Pod", phase="Running"), "Running, not ready", True),
        (child("Pod", phase="Succeeded"), "Succeeded", False),
        (child("Pod"), "Pending, not ready", True),
        (child("PersistentVolumeClaim", phase="Bound", capacity={"storage": "5Gi"}), "Bound 5Gi", False),
        (child("Job"), "Running", False),
        (child("Job", conditions=[{"type": "Complete", "status": "True"}]), "Complete", False),
        (
            child("Job", conditions=[{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]),
            "Failed BackoffLimitExceeded",
            True,
        ),
        (
            child("CronJob", spec={"schedule": "0 3 * * *", "suspend": True}),
            "schedule 0 3 * * *, suspended",
            False,
        ),
        (child("PodDisruptionBudget", disruptionsAllowed=1), "1 may be disrupted now", False),
        (child("Greeting"), "", False),
    ],
)
def test_the_state_of_a_child(found: facts.Child, state: str, fault: bool) -> None:
    assert (found.state, found.fault) == (state, fault)


def test_a_child_that_is_being_deleted() -> None:
    found = facts.child(
        {"kind": "Pod", "metadata": {"name": "x", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    )
    assert (found.state, found.fault) == ("Terminating", True)


def test_events_are_the_newest_each_once() -> None:
    recorded = items("events")
    found = facts.events(recorded + recorded, most=3)
    assert [facts.event_time(event)[11:19] for event in found] == ["22:15:44", "22:15:45", "22:15:50"]
    assert len(facts.events(recorded)) == len(recorded) == 6


@pytest.mark.parametrize(
    ("event", "time"),
    [
        ({"series": {"lastObservedTime": "a"}, "lastTimestamp": "b", "eventTime": "c"}, "a"),
        ({"lastTimestamp": "b", "eventTime": "c"}, "b"),
        ({"lastTimestamp": None, "eventTime": "c"}, "c"),
        ({"metadata": {"creationTimestamp": "d"}}, "d"),
        ({}, ""),
    ],
)
def test_when_an_event_was_observed(event: dict[str, Any], time: str) -> None:
    assert facts.event_time(event) == time


def test_backups_of_a_database_are_those_that_name_it_with_its_group() -> None:
    mine = backup()
    other = backup(databaseRef={"name": "mydb"})  # Of the Backup's own group, where nothing is said.
    assert facts.backups_of(mydb(), [mine, other]) == [mine]
    twice = resource("Postgresql", "twice", "database.technotuesday.io")
    named = backup(databaseRef={"name": "twice"})
    assert facts.backups_of(twice, [mine, other, named]) == [named]


def test_runs_of_one_action() -> None:
    found = backup(
        run("a", "verify", "Succeeded"), run("b", "backup", "Failed"), run("c", "backup", "Succeeded")
    )
    assert [each["name"] for each in facts.runs(found, "backup")] == ["b", "c"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172799, "47h"), (172800, "2d")],
)
def test_ages(seconds: int, text: str) -> None:
    then = (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert facts.age(then, NOW) == text


def test_an_age_of_what_is_to_come_and_of_nothing() -> None:
    assert facts.age("2026-11-25T03:00:00Z", NOW) == "in 4h"
    assert facts.age("2026-11-24T22:30:01Z", NOW) == "0s", "clocks differ"
    assert facts.age("", NOW) == facts.age("soon", NOW) == ""
    assert facts.age("2026-11-24T22:15:45.808100Z", NOW) == "14m"
