"""A restore in place: server and run never at the same time, done once, and undone once, whatever fails."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kindling.engine.store import key_of
from kindling.kinds.backup.archive import ArchiveRequest
from kindling.kinds.backup.runs import RUN_LABEL
from kindling.kinds.base import ExternalResult, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql.initdb import KEEP_PREVIOUS
from kindling.kinds.restore import in_place, situation
from kindling.kube.resources import JOB, POD, Object, Ref

from tests.model.backup_world import (
    BEFORE,
    CONFIG,
    DATABASE,
    DB,
    MARKER,
    RESTORE,
    Runs,
    begun,
    edit,
    made,
    pass_time,
    ready,
    restored_in_place,
    sampled_faults,
    status,
)
from tests.model.faults import Fault
from tests.model.workloads import control
from tests.model.world import World, resource
from tests.unit.operator import backups

STEP = "kindling.dev/in-place"


class Watched(Runs):
    """Runs that look whether there is a server beside them."""

    def __init__(self, runs: Runs, world: World) -> None:
        super().__init__(world)
        self.failing = runs.failing
        self.silent: list[str] = []
        """Names of Jobs whose Pods end without a word."""

    def __call__(self, job: Object) -> tuple[bool, str]:
        name, action = job["metadata"]["name"], job["metadata"]["labels"][RUN_LABEL]
        if action in ("restore", "undo"):
            assert server(self._world) is None, f"{name} runs beside the server"
        return (False, "") if name in self.silent else super().__call__(job)


def server(world: World) -> Object | None:
    return world.api.objects.get(Ref(POD, "ns", "db-0"))


def with_backup() -> tuple[World, Watched]:
    world = World()
    runs = world.api.job_message = Watched(begun(world), world)
    pass_time(world)
    assert ready(world, DB)[0] == "True"
    return world, runs


def stopping() -> World:
    """A restore in place is begun, and the server's Pod is still there."""
    world, _ = with_backup()
    restored_in_place(world)
    for _ in range(3):
        world.deliver()
        world.work()
    assert status(world, BEFORE)["phase"] == "Stopping"
    return world


def keeps(world: World) -> bool:
    """Whether the server's next start leaves the data from before where it is."""
    return KEEP_PREVIOUS in world.api.objects[CONFIG]["data"]


def runs_of(world: World) -> list[str]:
    return [name for name in made(world) if name.startswith(("before", "second"))]


def test_the_server_stops_and_starts_on_the_restored_data() -> None:
    world, _ = with_backup()
    first = server(world)
    assert first is not None
    assert not keeps(world)
    restored_in_place(world)
    pass_time(world)
    assert (status(world, BEFORE)["phase"], ready(world, BEFORE)) == ("Completed", ("True", "Restored"))
    again = server(world)
    assert again is not None
    assert again["metadata"]["uid"] != first["metadata"]["uid"]
    assert ready(world, DB)[0] == "True"
    assert status(world, DB)["inPlaceRestore"] == {
        "name": "before",
        "uid": world.api.objects[BEFORE]["metadata"]["uid"],
    }
    assert keeps(world)
    assert not world.api.objects[BEFORE]["metadata"].get("finalizers")
    world.restart()
    pass_time(world)
    assert runs_of(world) == ["before-restore-1"]
    assert world.writes_at_rest() == 0

    world.api.remove(BEFORE)
    pass_time(world)
    assert not keeps(world)
    assert "inPlaceRestore" not in status(world, DB)
    assert server(world) == again, "nothing restarts because a Restore is deleted"


def test_children_whose_time_has_come_are_no_repairs() -> None:
    """The Event Repaired says that somebody deleted them."""
    world, _ = with_backup()
    wanted = {"source": {"backupRef": {"name": "none-yet"}}, "databaseRef": {"name": "db"}, "into": "InPlace"}
    world.api.put(RESTORE.type, resource(RESTORE, "before", **wanted))
    pass_time(world)
    assert ready(world, BEFORE) == ("False", "BackupNotFound")
    world.api.remove(BEFORE)
    restored_in_place(world, recoveryTarget={"targetTime": "2026-01-02T00:01:00Z"})
    pass_time(world, times=10, seconds=60)
    assert ready(world, BEFORE) == ("True", "Restored")
    assert world.repaired == []
    world.api.remove(CONFIG)
    pass_time(world)
    assert world.repaired == [("ConfigMap", "new")]


@pytest.mark.parametrize(("far", "fault"), sampled_faults(24))
def test_whatever_fails_it_is_restored_once(far: int, fault: Fault) -> None:
    world, _ = with_backup()
    world.faulty.writes.extend([*[None] * far, fault])
    restored_in_place(world)
    pass_time(world, times=10, seconds=60)
    assert runs_of(world) == ["before-restore-1"]
    assert status(world, BEFORE)["phase"] == "Completed"
    assert ready(world, DB)[0] == "True"
    assert world.writes_at_rest() == 0


@pytest.mark.parametrize(("far", "fault"), sampled_faults(18))
def test_whatever_fails_it_is_undone_once(far: int, fault: Fault) -> None:
    world, _ = with_backup()
    restored_in_place(world)
    pass_time(world)
    world.faulty.writes.extend([*[None] * far, fault])
    edit(world, BEFORE, undo=True)
    pass_time(world, times=10, seconds=60)
    assert runs_of(world) == ["before-restore-1", "before-undo-1"]
    assert (status(world, BEFORE)["phase"], ready(world, BEFORE)) == ("Undone", ("True", "Undone"))
    assert ready(world, DB)[0] == "True"
    assert not keeps(world)
    assert world.writes_at_rest() == 0


def test_undone_as_soon_as_the_data_is_there() -> None:
    """The server's word that it has stopped is of the restore then, and not of the way back."""
    world, _ = with_backup()
    restored_in_place(world, undo=True)
    pass_time(world, times=8)
    assert runs_of(world) == ["before-restore-1", "before-undo-1"]
    assert status(world, BEFORE)["phase"] == "Undone"
    assert ready(world, DB)[0] == "True"


def test_a_server_that_does_not_start_on_it_gets_its_data_back() -> None:
    world, _ = with_backup()
    answers = world.answer
    assert callable(answers)
    broken = ExternalResult(ok=False, reason="NotResponding", message="m")
    world.answer = lambda request: answers(request) if isinstance(request, ArchiveRequest) else broken
    restored_in_place(world)
    pass_time(world)
    assert status(world, BEFORE)["phase"] == "Restored"
    assert ready(world, BEFORE)[0] == "False"
    assert "spec.undo" in find_condition(status(world, BEFORE), "Ready")["message"]
    world.answer = answers
    edit(world, BEFORE, undo=True)
    pass_time(world)
    assert status(world, BEFORE)["phase"] == "Undone"
    assert ready(world, DB)[0] == "True"


@pytest.mark.parametrize("reason", ["TargetNotReached", "StoreUnreachable", "ArchivingBehind"])
def test_a_run_that_fails_leaves_the_server_as_it_was(reason: str) -> None:
    """Nobody waits for a store at night while the database is down."""
    world, runs = with_backup()
    runs.failing["restore"] = reason
    restored_in_place(world)
    pass_time(world, times=10, seconds=600)
    assert runs_of(world) == ["before-restore-1"]
    assert (status(world, BEFORE)["phase"], ready(world, BEFORE)) == ("Failed", ("False", reason))
    assert "was changed" in find_condition(status(world, BEFORE), "Ready")["message"]
    assert ready(world, DB)[0] == "True"
    assert not keeps(world)
    assert world.writes_at_rest() == 0
    # The next one begins once this one is gone.
    runs.failing.clear()
    world.api.put(RESTORE.type, resource(RESTORE, "second", **world.api.objects[BEFORE]["spec"]))
    pass_time(world)
    second = Ref(RESTORE.type, "ns", "second")
    assert ready(world, second) == ("False", "AnotherRestore")
    world.api.remove(BEFORE)
    pass_time(world, times=8)
    assert ready(world, second) == ("True", "Restored")


def test_a_run_that_left_no_word_is_asked_again() -> None:
    world, runs = with_backup()
    runs.silent = ["before-restore-1", "before-restore-2"]
    restored_in_place(world)
    pass_time(world, times=10, seconds=60)
    assert runs_of(world) == [f"before-restore-{number}" for number in (1, 2, 3)]
    assert ready(world, BEFORE) == ("True", "Restored")


def test_a_run_whose_pod_is_gone_is_no_log_to_look_at() -> None:
    cr: Object = {
        "metadata": {"namespace": "ns", "name": "before", "uid": "u", "generation": 1},
        "spec": {"source": {"backupRef": {"name": "n"}}, "databaseRef": {"name": "db"}, "into": "InPlace"},
        "status": {"phase": "Restoring", "attempt": 1},
    }
    job = {
        "metadata": {"uid": "j", "labels": {RUN_LABEL: "restore"}, "ownerReferences": [{"uid": "u"}]},
        "status": {"conditions": [{"type": "Failed", "status": "True"}]},
    }
    seen = backups.observed(objects={Ref(JOB, "ns", "before-restore-1"): job})
    report = RESTORE.status(cr, seen, SyncResult(in_sync=True)).status
    message = find_condition(report, "Ready")["message"]
    assert "Pod of run before-restore-1 is gone" in message
    assert "kubectl logs" not in message


def test_runs_that_leave_no_word_end_and_can_be_undone() -> None:
    """The last one may have come to its end: nothing is given up."""
    world, runs = with_backup()
    runs.silent = [f"before-restore-{number}" for number in (1, 2, 3)]
    restored_in_place(world)
    pass_time(world, times=20, seconds=60)
    assert runs_of(world) == runs.silent
    assert (status(world, BEFORE)["phase"], ready(world, BEFORE)) == ("Failed", ("False", "RunFailed"))
    assert "spec.undo" in find_condition(status(world, BEFORE), "Ready")["message"]
    assert ready(world, DB)[0] == "True"
    assert keeps(world)
    edit(world, BEFORE, undo=True)
    pass_time(world, times=8)
    assert status(world, BEFORE)["phase"] == "Undone"


def test_a_run_that_does_not_start_is_ended_and_the_server_starts() -> None:
    """At night nobody makes a node free: the database is not down until somebody does."""
    world, runs = with_backup()
    world.api.unschedulable.add("before-restore-1")
    restored_in_place(world)
    pass_time(world, times=15, seconds=30)
    assert (status(world, BEFORE)["phase"], server(world)) == ("Restoring", None)
    message = find_condition(status(world, BEFORE), "Ready")["message"]
    assert "does not start within 10 minutes" in message
    pass_time(world, times=15, seconds=30)
    assert runs_of(world) == ["before-restore-1"]
    assert (status(world, BEFORE)["phase"], ready(world, BEFORE)) == ("Failed", ("False", "RunNotStarted"))
    message = find_condition(status(world, BEFORE), "Ready")["message"]
    assert "0/1 nodes" in message
    assert "with the data that it had" in message
    assert ready(world, DB)[0] == "True"
    assert keeps(world), "it may have started before it was ended"
    assert world.writes_at_rest() == 0
    assert runs.failing == {}


@pytest.mark.parametrize(("far", "fault"), sampled_faults(20))
def test_whatever_fails_a_run_that_does_not_start_is_given_up_once(far: int, fault: Fault) -> None:
    """`Watched` sees to it that it never runs beside the server, should it start after all."""
    world, _ = with_backup()
    world.api.unschedulable.add("before-restore-1")
    world.faulty.writes.extend([*[None] * far, fault])
    restored_in_place(world)
    pass_time(world, times=14, seconds=60)
    assert runs_of(world) == ["before-restore-1"]
    assert (status(world, BEFORE)["phase"], ready(world, BEFORE)) == ("Failed", ("False", "RunNotStarted"))
    assert ready(world, DB)[0] == "True"
    world.api.unschedulable.clear()
    world.restart()
    pass_time(world)
    assert (status(world, BEFORE)["phase"], ready(world, DB)[0]) == ("Failed", "True")
    assert world.writes_at_rest() == 0


def test_a_run_that_starts_as_it_is_being_ended_is_not_lost() -> None:
    world, _ = with_backup()
    world.api.unschedulable.add("before-restore-1")
    restored_in_place(world)
    pass_time(world, times=6, seconds=30)
    world.now += timedelta(seconds=600)
    while (status(world, BEFORE).get("failure") or {}).get("reason") != "RunNotStarted":
        world.queue.add(key_of(BEFORE))
        world.deliver()
        world.work()
    world.api.unschedulable.clear()
    pass_time(world, times=8)
    assert (status(world, BEFORE)["phase"], ready(world, BEFORE)) == ("Completed", ("True", "Restored"))
    assert "failure" not in status(world, BEFORE)


def test_an_undo_that_does_not_start_is_ended_and_the_server_starts() -> None:
    world, _ = with_backup()
    restored_in_place(world)
    pass_time(world)
    world.api.unschedulable.add("before-undo-1")
    edit(world, BEFORE, undo=True)
    pass_time(world, times=30, seconds=30)
    assert (status(world, BEFORE)["phase"], ready(world, BEFORE)) == ("Completed", ("False", "RunNotStarted"))
    assert "the data that was restored" in find_condition(status(world, BEFORE), "Ready")["message"]
    assert ready(world, DB)[0] == "True"
    assert keeps(world)
    assert world.writes_at_rest() == 0


@pytest.mark.parametrize("undo", [False, True])
def test_deleted_before_its_run_has_started_the_server_starts_at_once(undo: bool) -> None:
    world, _ = with_backup()
    world.api.unschedulable |= {"before-undo-1"} if undo else {"before-restore-1"}
    restored_in_place(world)
    pass_time(world)
    if undo:
        edit(world, BEFORE, undo=True)
        pass_time(world)
    assert server(world) is None
    world.api.remove(BEFORE)
    pass_time(world)
    assert BEFORE not in world.api.objects
    assert ready(world, DB)[0] == "True"


def test_what_cannot_be_undone_is_said_and_the_server_runs_on() -> None:
    world, runs = with_backup()
    restored_in_place(world)
    pass_time(world)
    runs.failing["undo"] = "RestoreFailed"
    edit(world, BEFORE, undo=True)
    pass_time(world, times=10, seconds=60)
    assert runs_of(world) == ["before-restore-1", "before-undo-1"]
    assert status(world, BEFORE)["phase"] == "Completed"
    assert ready(world, BEFORE) == ("False", "RunFailed")
    assert ready(world, DB)[0] == "True"
    assert keeps(world)


def test_no_run_is_made_while_the_server_stops() -> None:
    """Its Pod takes its time, the restore's and later that of the way back."""
    world, _ = with_backup()
    restored_in_place(world)
    for job in ("before-restore-1", "before-undo-1"):
        for _ in range(5):
            world.settle(pods=False)
            world.repeat_probes()
        assert server(world) is not None
        assert job not in made(world)
        pass_time(world)
        assert job in made(world)
        edit(world, BEFORE, undo=True)


@pytest.mark.parametrize(
    ("phase", "said", "decided"),
    [
        ("Stopping", {"stoppedFor": "restore"}, {"phase": "Restoring"}),
        ("Stopping", {}, {}),
        ("Stopping", {"stoppedFor": "restore", "uid": "another"}, {}),
        # What was said for the restore says nothing of the way back.
        ("Undoing", {"stoppedFor": "restore"}, {}),
        ("Undoing", {"stoppedFor": "undo"}, {"undoStartedAt": "2026-01-01T00:10:00Z"}),
        # Undone once the server is up, and says no more that it is at it.
        ("Undoing", {"stoppedFor": "undo", "over": True}, {}),
        ("Undoing", {"over": True}, {}),
        ("Undoing", {"uid": "another", "over": True}, {"phase": "Undone"}),
        ("Restored", {}, {"phase": "Completed"}),
        ("Restored", {"stoppedFor": "restore"}, {}),
        ("Restored", {"uid": "another"}, {}),
    ],
)
def test_the_servers_word_is_for_this_restore_and_this_step(
    phase: str, said: Object, decided: Object
) -> None:
    db = backups.database()
    db["status"]["inPlaceRestore"] = {"name": "before", "uid": "u", **said}
    spec = {"source": {"backupRef": {"name": "nightly"}}, "databaseRef": {"name": "db"}, "into": "InPlace"}
    meta = {"namespace": "ns", "name": "before", "uid": "u"}
    cr: Object = {"metadata": meta, "spec": spec, "status": {"phase": phase}}
    if db["status"]["inPlaceRestore"].pop("over", False):
        cr["status"] |= {"undoStartedAt": "2026-01-01T00:08:00Z", "undoStoppedAt": "2026-01-01T00:09:00Z"}
    observed = backups.observed(db=db)
    assert in_place.decide(cr, observed, situation.read(cr, observed)) == decided


def test_deleted_while_the_server_stops_nothing_is_restored() -> None:
    world = stopping()
    world.api.remove(BEFORE)
    pass_time(world)
    assert runs_of(world) == []
    assert BEFORE not in world.api.objects
    assert MARKER not in world.api.objects
    assert ready(world, DB)[0] == "True"


def test_a_database_that_is_not_seen_gives_nothing_up() -> None:
    """An operator that has just started sees none yet; and one that is deleted can come back."""
    world = stopping()
    database = world.api.objects[DB]
    world.api.remove(DB)
    pass_time(world)
    assert status(world, BEFORE)["phase"] == "Stopping"
    assert ready(world, BEFORE) == ("False", "DatabaseNotFound")
    world.api.put(DATABASE.type, resource(DATABASE, "db", **database["spec"]))
    pass_time(world, times=8)
    assert ready(world, BEFORE) == ("True", "Restored")
    assert ready(world, DB)[0] == "True"


def test_deleted_during_a_run_it_waits_for_the_runs_end() -> None:
    """The server would start beside it."""
    world, _ = with_backup()
    restored_in_place(world)
    job = Ref(JOB, "ns", "before-restore-1")
    for _ in range(20):
        if job in world.api.objects:
            break
        world.deliver()
        world.work()
        if status(world, BEFORE).get("phase") == "Stopping":
            control(world.api)
    assert job in world.api.objects
    world.api.remove(BEFORE)
    for _ in range(5):
        world.settle(pods=False)
        control(world.api)
    assert BEFORE in world.api.objects
    assert server(world) is None
    pass_time(world)
    assert BEFORE not in world.api.objects
    assert ready(world, DB)[0] == "True"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"databaseRef": {"name": "other"}}, "DatabaseNotFound"),
        ({"recoveryTarget": {"targetTime": "2025-12-31T23:59:59Z"}}, "TargetTooEarly"),
    ],
)
def test_what_cannot_be_restored_stops_no_server(change: Any, reason: str) -> None:
    world, _ = with_backup()
    before = server(world)
    restored_in_place(world, **change)
    pass_time(world)
    assert ready(world, BEFORE) == ("False", reason)
    assert status(world, BEFORE)["phase"] == "Pending"
    assert "startedAt" not in status(world, BEFORE)
    assert server(world) == before


def test_a_database_with_other_data_is_refused() -> None:
    world, _ = with_backup()
    world.api.put(DATABASE.type, resource(DATABASE, "another"))
    pass_time(world)
    other = Ref(DATABASE.type, "ns", "another")
    found = world.api.objects[other]
    status_ = {**found["status"], "systemIdentifier": "7300000000000000002"}
    world.api.objects[other] = {**found, "status": status_}
    restored_in_place(world, databaseRef={"name": "another"})
    world.restart()
    world.work()
    assert ready(world, BEFORE) == ("False", "RepositoryOfAnotherDatabase")


@pytest.mark.parametrize(
    ("field", "value", "resumed"),
    [("paused", True, False), ("mode", "Plan", "Apply")],
    ids=["paused", "plan"],
)
def test_a_database_that_is_only_observed_is_not_stopped(field: str, value: Any, resumed: Any) -> None:
    world, _ = with_backup()
    edit(world, DB, **{field: value})
    pass_time(world)
    restored_in_place(world)
    pass_time(world)
    assert ready(world, BEFORE) == ("False", "Paused")
    assert f"spec.{field}" in find_condition(status(world, BEFORE), "Ready")["message"]
    edit(world, DB, **{field: resumed})
    pass_time(world, times=8)
    assert ready(world, BEFORE) == ("True", "Restored")


def test_a_hibernated_database_is_restored_and_stays_so() -> None:
    world, _ = with_backup()
    edit(world, DB, hibernate=True)
    pass_time(world)
    restored_in_place(world)
    pass_time(world, times=8)
    assert ready(world, BEFORE) == ("True", "Restored")
    assert (server(world), status(world, DB)["pgPhase"]) == (None, "hibernated")


def test_a_secret_that_no_restore_owns_stops_no_server() -> None:
    world, _ = with_backup()
    before = server(world)
    labels = {"kindling.dev/kind": "restore.database.technotuesday.io", "app.kubernetes.io/instance": "x"}
    meta: Object = {
        "namespace": "ns",
        "name": "db-in-place",
        "labels": labels,
        "annotations": {STEP: "restore"},
    }
    world.api.put(MARKER.type, {"metadata": meta})
    pass_time(world)
    assert server(world) == before
