"""A database with a Backup in memory, whose runs end as the test says; time passes by hand."""

from __future__ import annotations

import base64
import json
from datetime import UTC, timedelta
from typing import Any

import pytest
from kindling.kinds.backup.archive import ArchiveRequest
from kindling.kinds.backup.runs import RUN_LABEL
from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.restore import REQUEST
from kindling.kube.resources import CONFIG_MAP, JOB, SECRET, STATEFUL_SET, VOLUME_CLAIM, Object, Ref

from tests.model.faults import Fault
from tests.model.world import KINDS_BY_NAME, World, resource
from tests.unit.operator import backups

KIND = KINDS_BY_NAME["backup.database.technotuesday.io"]
RESTORE = KINDS_BY_NAME["restore.database.technotuesday.io"]
DATABASE = KINDS_BY_NAME["postgresql.database.technotuesday.io"]
NIGHTLY, DB = Ref(KIND.type, "ns", "nightly"), Ref(DATABASE.type, "ns", "db")
CLONE, CLAIM = Ref(DATABASE.type, "ns", "clone"), Ref(VOLUME_CLAIM, "ns", "clone-data")
BEFORE = Ref(RESTORE.type, "ns", "before")
FAULTS = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOST, Fault.CONFLICT)
URL = f"s3://bucket/prefix/shop/db/{backups.IDENTIFIER}"
FILES = Ref(SECRET, "ns", "before-restore")
"""What opens the repository of this URL, for the run of a Restore from the store alone."""
EACH_FAULT = pytest.mark.parametrize("fault", FAULTS)


class Runs:
    """What becomes of the Jobs: `failing` says of an action with what reason it fails."""

    def __init__(self, world: World) -> None:
        self.failing: dict[str, str] = {}
        self._world = world

    def now(self) -> str:
        return self._world.now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def __call__(self, job: Object) -> tuple[bool, str]:
        action = job["metadata"]["labels"][RUN_LABEL]
        program = "backup" if action == "prepare" else action
        if reason := self.failing.get(action):
            said = backups.result(program, ok=False, reason=reason, message="m", stoppedAt=self.now())
            return False, said
        return True, backups.result(program, stoppedAt=self.now(), first="2026-01-01T00:00:00Z")


def secret(name: str, **values: str) -> Object:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {"metadata": {"namespace": "ns", "name": name}, "data": data}


def begun(world: World, **spec: Any) -> Runs:
    """A database, the store's keys, and a Backup of it."""

    def answer(request: Any) -> ExternalResult:
        if not isinstance(request, ArchiveRequest):
            return ExternalResult(ok=True, facts={"login": True, "system_identifier": backups.IDENTIFIER})
        workload = world.api.objects[Ref(STATEFUL_SET, "ns", request.host.partition(".")[0])]
        on = len(workload["spec"]["template"]["spec"]["containers"]) == 2
        return backups.says(at=world.now, mode="on" if on else "off", archived_until=world.now.isoformat())

    world.answer = answer
    runs = world.api.job_message = Runs(world)
    world.api.put(SECRET, secret("store", **backups.CREDENTIALS))
    world.api.put(DATABASE.type, resource(DATABASE, "db"))
    world.api.put(KIND.type, resource(KIND, "nightly", **{**backups.SPEC, **spec}))
    return runs


def pass_time(world: World, *, times: int = 4, seconds: int = 20) -> None:
    """Time goes by, in which the operator looks at what it wants to look at again."""
    for _ in range(times):
        world.settle()
        later, world.later = world.later, set()
        world.now += timedelta(seconds=seconds)
        for key in later:
            world.queue.add(key)
    world.settle()


def made(world: World) -> list[str]:
    """The names of the Jobs that were created, each time."""
    found = [obj for event, type, obj in world.api.events if (event, type) == ("ADDED", JOB)]
    return [obj["metadata"]["name"] for obj in found]


def with_backup(**spec: Any) -> tuple[World, Runs]:
    """A database that is Ready, and a Backup that has run."""
    world = World()
    runs = begun(world, **spec)
    pass_time(world, times=6)
    assert ready(world, DB)[0] == "True"
    return world, runs


def of_a_lost_cluster() -> tuple[World, Runs]:
    """Nothing but the keys of the store."""
    world = World()
    world.answer = lambda request: ExternalResult(
        ok=True, facts={"login": True, "system_identifier": backups.IDENTIFIER}
    )
    runs = world.api.job_message = Runs(world)
    world.api.put(SECRET, secret("store", **backups.CREDENTIALS))
    return world, runs


def configs(world: World) -> list[str]:
    """What pgBackRest's configuration was, each time that the Secret for the run was written with one."""
    written = [obj for _, type, obj in world.api.events if type == SECRET]
    files = [obj["data"] for obj in written if obj["metadata"]["name"] == FILES.name and obj.get("data")]
    return [base64.b64decode(data["pgbackrest.conf"]).decode() for data in files]


def runs_of_restore(world: World) -> list[str]:
    """The names of the Jobs of Restore `before`, each time that one was created."""
    return [name for name in made(world) if name.startswith("before")]


def message_of_restore(world: World) -> str:
    return str(find_condition(status(world, BEFORE), "Ready")["message"])


def assert_restored_once(world: World) -> None:
    """By one run, and nothing is written any more."""
    assert runs_of_restore(world) == ["before-restore-1"]
    assert status(world, BEFORE)["phase"] == "Completed"
    assert world.writes_at_rest() == 0


def status(world: World, ref: Ref) -> Object:
    found: Object = world.api.objects[ref].get("status", {})
    return found


def ready(world: World, ref: Ref) -> tuple[str, str]:
    found = find_condition(status(world, ref), "Ready")
    return found["status"], found["reason"]


CONFIG = Ref(CONFIG_MAP, "ns", "db-config")
MARKER = Ref(SECRET, "ns", "db-in-place")


def restored_in_place(world: World, **spec: Any) -> None:
    """A Restore of the newest data into the database that is there."""
    given: Object = {"source": {"backupRef": {"name": "nightly"}}, "databaseRef": {"name": "db"}}
    world.api.put(RESTORE.type, resource(RESTORE, "before", **{**given, "into": "InPlace", **spec}))


def edit(world: World, ref: Ref, **spec: Any) -> None:
    """What a user changes in a spec."""
    obj = world.api.objects[ref]
    world.api.put(ref.type, {**obj, "spec": {**obj["spec"], **spec}})


def sampled_faults(most: int, *, step: int = 1) -> list[Any]:
    """Each write with one of the faults; with all of them where there is time."""
    return [
        pytest.param(far, fault, marks=() if (index + number) % len(FAULTS) == 0 else pytest.mark.thorough)
        for index, far in enumerate(range(0, most, step))
        for number, fault in enumerate(FAULTS)
    ]


def asked_of_restore(world: World) -> Object:
    """What the run of the Restore BEFORE is asked for."""
    found: Object = json.loads(world.api.objects[Ref(CONFIG_MAP, "ns", "before-restore")]["data"][REQUEST])
    return found


def pod_of(world: World, job: str) -> Object:
    """The spec of its Pod."""
    found: Object = world.api.objects[Ref(JOB, "ns", job)]["spec"]["template"]["spec"]
    return found


def volume_of_copy(pod: Object) -> tuple[str, str | None]:
    """Size and class of the volume for the copy that is checked."""
    (data,) = (each for each in pod["volumes"] if each["name"] == "data")
    claim = data["ephemeral"]["volumeClaimTemplate"]["spec"]
    return claim["resources"]["requests"]["storage"], claim.get("storageClassName")


def assert_failed_for_good(world: World, reason: str) -> None:
    """The Restore BEFORE has its answer, and no other run was begun."""
    assert runs_of_restore(world) == ["before-restore-1"]
    assert (status(world, BEFORE)["phase"], ready(world, BEFORE)) == ("Failed", ("False", reason))
