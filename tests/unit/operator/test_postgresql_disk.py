"""What is said of a full volume, and of what only reads like one."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.kinds.base import Done, ExternalResult, RequeueAfter, StatusReport, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kube.resources import VOLUME_CLAIM, Object, Ref

from tests.unit.operator.postgresqls import KIND, observed, postgresql, running

WAL = '[77] PANIC:  could not write to file "pg_wal/xlogtemp.77": No space left on device'
PID = '[1] FATAL:  could not write lock file "postmaster.pid": No space left on device'
AFTER = "[1] LOG:  startup process (PID 77) was terminated by signal 6: Aborted\n[1] LOG:  aborting startup"
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff"}}


def ended(message: str, *, code: int = 1) -> Object:
    return {"terminated": {"exitCode": code, "message": message}}


def report(status: Object, *, answer: ExternalResult | None = None, **spec: Any) -> StatusReport:
    children = running(ready=answer is not None, **status)
    sync = SyncResult(in_sync=True, results={"server": answer} if answer is not None else {})
    return KIND.status(postgresql(**spec), observed(children), sync)


def ready(made: StatusReport) -> tuple[str, str]:
    found = find_condition(made.status, "Ready")
    return found["reason"], found["message"]


def postgres(state: Object, last: Object | None = None) -> Object:
    return {"containerStatuses": [{"name": "postgres", "state": state, "lastState": last or {}}]}


@pytest.mark.parametrize(
    "words", [WAL, PID, f"{WAL}\n{AFTER}", PID.replace("No space left on device", "Disk quota exceeded")]
)
def test_server_that_ended_because_the_disk_was_full(words: str) -> None:
    for status in (postgres(BACK_OFF, ended(words)), postgres(ended(words))):
        made = report(status, storage={"size": "2Gi"})
        reason, message = ready(made)
        assert reason == "DiskFull"
        assert "Volume db-data is full" in message
        assert "spec.storage.size ('2Gi')" in message
        assert words.splitlines()[0].partition(":  ")[2] in message
        assert made.status["pgPhase"] == "Failed"
        assert made.result == Done()  # an event reports its end


def test_a_full_disk_that_the_storage_could_not_make_larger_has_the_storages_words_too() -> None:
    children = running(ready=False, **postgres(ended(WAL)))
    claim = children[Ref(VOLUME_CLAIM, "ns", "db-data")]
    claim["spec"]["resources"]["requests"]["storage"] = "2Gi"
    refusal = {"type": "ControllerResizeError", "status": "True", "message": "the pool is used up"}
    claim["status"] = {"capacity": {"storage": "1Gi"}, "conditions": [refusal]}
    cr = postgresql(storage={"size": "1Gi", "autoGrow": {"maxSize": "4Gi"}})
    reason, message = ready(KIND.status(cr, observed(children), SyncResult(in_sync=True, results={})))
    assert reason == "DiskFull"
    assert "could not make it 2Gi (the pool is used up)" in message
    claim["status"]["conditions"] = []
    _, message = ready(KIND.status(cr, observed(children), SyncResult(in_sync=True, results={})))
    assert "its storage" not in message


@pytest.mark.parametrize(
    "words",
    [
        "initdb: error: could not write file: No space left on device\ninitdb: removing data directory",
        "postgres-init: renaming a to b: no space left on device",
    ],
)
def test_volume_too_small_for_a_new_database(words: str) -> None:
    container = {"name": "initdb", "state": BACK_OFF, "lastState": ended(words)}
    assert ready(report({"initContainerStatuses": [container]}))[0] == "DiskFull"
    # The program is copied to the node's disk.
    assert ready(report({"initContainerStatuses": [{**container, "name": "install"}]}))[0] != "DiskFull"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (
            postgres(BACK_OFF, ended("[9] PANIC:  could not locate a valid checkpoint record")),
            "CrashLoopBackOff",
        ),
        (
            postgres(BACK_OFF, ended("[9] ERROR:  could not extend file: No space left on device")),
            "CrashLoopBackOff",
        ),
        (
            postgres(BACK_OFF, ended("[9] FATAL:  could not resize shared memory: No space left on device")),
            "CrashLoopBackOff",
        ),
        (postgres(BACK_OFF), "CrashLoopBackOff"),
        # It runs again: the volume may have grown since.
        (postgres({"running": {}}, ended(WAL)), "Reconciling"),
        (postgres({}), "Reconciling"),
    ],
)
def test_what_is_no_full_volume(status: Object, reason: str) -> None:
    assert ready(report(status))[0] == reason


def test_server_that_says_so_itself() -> None:
    said = 'could not extend file "base/1": No space left on device'
    made = report({}, answer=ExternalResult(ok=False, reason="DiskFull", message=said, facts={"login": True}))
    reason, message = ready(made)
    assert (reason, said in message, "db-data" in message) == ("DiskFull", True, True)
    assert find_condition(made.status, "Available")["status"] == "True"
    assert isinstance(made.result, RequeueAfter)


def test_without_a_volume_it_is_the_nodes_disk() -> None:
    _, message = ready(report(postgres(BACK_OFF, ended(WAL)), storage={"ephemeral": True}))
    assert "free space on the node" in message
    assert "db-data" not in message


def test_what_is_said_has_its_length() -> None:
    assert len(ready(report(postgres(BACK_OFF, ended(f"{'x' * 2000} {WAL}"))))[1]) < 700
