"""A volume that grows by itself: one step for one cause, whatever is lost, stale or repeated in between."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kindling.engine.quantity import quantity
from kindling.engine.store import key_of
from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import find_condition, rfc3339
from kindling.kinds.postgresql import growth
from kindling.kinds.postgresql.auto_grow import AutoGrow
from kindling.kinds.postgresql.usage import EVERY_SECONDS, USED, UsageRequest
from kindling.kube.resources import POD, VOLUME_CLAIM, Object, Ref

from tests.model.test_postgresql_model import CR, FIRST, with_database
from tests.model.world import World

CLAIM, THE_POD = Ref(VOLUME_CLAIM, "ns", "db-data"), Ref(POD, "ns", "db-0")
GI, MI = 2**30, 2**20
STORAGE = {"size": "1Gi", "autoGrow": {"maxSize": "2Gi"}}


class Disk:
    """What a CSI driver gives, and what the server says that its data takes."""

    def __init__(self, world: World) -> None:
        self.world, self.used = world, 100 * MI
        world.answer = self._answer

    def _answer(self, request: Any) -> ExternalResult:
        if isinstance(request, UsageRequest):
            return ExternalResult(ok=True, facts={USED: self.used})
        return ExternalResult(ok=True, facts={"login": True, "version": "17.5"})

    @property
    def asked(self) -> str:
        return str(self.world.api.objects[CLAIM]["spec"]["resources"]["requests"]["storage"])

    @property
    def note(self) -> str | None:
        found: str | None = self.world.api.objects[CLAIM]["metadata"]["annotations"].get(growth.GROWN)
        return found

    def give(self, size: str | None = None) -> None:
        status = {"phase": "Bound", "capacity": {"storage": size or self.asked}}
        self.world.api.set_status(CLAIM, status)

    def takes(self, used: int) -> None:
        """And the next measurement is due."""
        self.used = used
        self.turn()

    def turn(self) -> None:
        self.world.now += timedelta(seconds=EVERY_SECONDS)
        self.world.queue.add(key_of(CR))
        self.world.settle()

    def crashes(self, *, began: timedelta = timedelta()) -> None:
        """The server ends on a full volume, in a run that began so long ago."""
        ended = {
            "startedAt": rfc3339(self.world.now - began),
            "finishedAt": rfc3339(self.world.now),
            "exitCode": 1,
            "message": "[1] PANIC:  could not write to file: No space left on device",
        }
        status = self.world.api.objects[THE_POD]["status"]
        container = {
            "name": "postgres",
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": ended},
        }
        conditions = [{"type": "Ready", "status": "False", "lastTransitionTime": rfc3339(self.world.now)}]
        self.world.api.set_status(
            THE_POD, {**status, "conditions": conditions, "containerStatuses": [container]}
        )
        self.world.settle(pods=False)


def database(**storage: Any) -> Disk:
    world = with_database(storage={**STORAGE, **storage})
    disk = Disk(world)
    disk.give()
    world.settle()
    disk.turn()
    return disk


def condition(disk: Disk, type: str) -> Object:
    return find_condition(disk.world.status(FIRST, "db"), type)


def test_it_grows_at_the_threshold_one_step_at_a_time_up_to_the_limit() -> None:
    disk = database()
    disk.takes(800 * MI)
    assert (disk.asked, disk.note) == ("1Gi", None)
    disk.takes(820 * MI)
    assert (disk.asked, disk.note) == ("1229Mi", growth.PENDING)
    assert condition(disk, "Progressing")["status"] == "False"
    disk.takes(980 * MI)
    assert disk.asked == "1229Mi"  # the claim has not got it yet
    disk.give()
    disk.world.settle()
    assert (disk.asked, disk.note) == ("1229Mi", rfc3339(disk.world.now))
    disk.takes(1020 * MI)
    assert (disk.asked, disk.note) == ("1475Mi", growth.PENDING)
    for asked in ("1770Mi", "2Gi", "2Gi"):
        disk.give()
        disk.takes(2**31)
        assert disk.asked == asked
    disk.give()
    disk.turn()
    disk.turn()
    assert disk.asked == "2Gi"
    said = condition(disk, "VolumeAtLimit")
    assert (said["status"], said["reason"]) == ("True", "MaxSizeReached")
    assert "maxSize is '2Gi'" in said["message"]
    assert disk.world.writes_at_rest() == 0
    assert disk.world.api.objects[CR]["spec"]["storage"] == STORAGE


def test_an_operator_that_starts_again_neither_forgets_nor_repeats() -> None:
    disk = database()
    disk.takes(900 * MI)
    assert disk.asked == "1229Mi"
    disk.world.restart()
    disk.turn()
    disk.give()
    disk.world.restart()
    disk.turn()
    disk.turn()
    assert disk.asked == "1229Mi"
    assert disk.world.writes_at_rest() == 0


def test_without_the_field_nothing_is_other_than_before() -> None:
    disk = database(autoGrow=None)
    disk.takes(GI)
    assert (disk.asked, disk.note) == ("1Gi", None)
    disk.crashes()
    assert (disk.asked, disk.note) == ("1Gi", None)


@pytest.mark.parametrize(
    ("autogrow", "asked"),
    [
        ({"increment": "100%", "maxSize": "4Gi"}, "2Gi"),
        ({"increment": "512Mi", "maxSize": "4Gi"}, "1536Mi"),
        ({"increment": "10Gi", "maxSize": "1500M"}, "1500M"),
        ({"threshold": 95, "maxSize": "4Gi"}, "1Gi"),
        ({"threshold": 50, "increment": "1k", "maxSize": "4Gi"}, "1025Mi"),
    ],
)
def test_steps_and_thresholds_are_the_users(autogrow: Object, asked: str) -> None:
    disk = database(autoGrow=autogrow)
    disk.takes(900 * MI)
    assert disk.asked == asked


def test_a_server_that_ended_on_a_full_volume_grows_it_once_for_that() -> None:
    disk = database()
    disk.crashes(began=timedelta(hours=1))
    assert condition(disk, "Ready")["reason"] == "DiskFull"
    assert (disk.asked, disk.note) == ("1229Mi", growth.PENDING)
    # It fails again before there is more space, and the kubelet backs off.
    disk.world.now += timedelta(seconds=20)
    disk.crashes()
    disk.world.now += timedelta(seconds=20)
    disk.give()
    disk.world.settle(pods=False)
    assert disk.asked == "1229Mi"
    disk.world.restart()
    disk.world.settle(pods=False)
    assert disk.asked == "1229Mi"
    # With the space it had, it fails once more: that is another cause.
    disk.world.now += timedelta(minutes=5)
    disk.crashes(began=timedelta(seconds=10))
    assert disk.asked == "1475Mi"


def test_the_users_own_growth_counts_as_space_too() -> None:
    disk = database()
    disk.world.api.edit(CR, {"spec": {"storage": {"size": "1500Mi"}}})
    disk.world.settle()
    disk.crashes(began=timedelta(hours=1))
    assert disk.asked == "1500Mi"
    disk.world.now += timedelta(seconds=20)
    disk.give()
    disk.world.settle(pods=False)
    assert disk.asked == "1500Mi"


def test_a_note_that_somebody_removes_grows_nothing_twice() -> None:
    disk = database()
    disk.takes(900 * MI)
    disk.world.api.edit(CLAIM, {"metadata": {"annotations": {growth.GROWN: None}}})
    disk.world.settle()
    assert (disk.asked, disk.note) == ("1229Mi", growth.PENDING)


def test_a_volume_that_has_grown_is_not_called_larger_than_the_spec() -> None:
    disk = database()
    disk.takes(900 * MI)
    disk.give()
    disk.turn()
    assert condition(disk, "VolumeLarger") == {}


def test_a_plan_shows_the_growth_and_does_nothing() -> None:
    disk = database()
    disk.world.api.edit(CR, {"spec": {"mode": "Plan"}})
    disk.world.settle()
    disk.takes(900 * MI)
    assert disk.asked == "1Gi"
    (item,) = disk.world.status(FIRST, "db")["plan"]["items"]
    assert item == {
        "action": "Update",
        "object": "PersistentVolumeClaim/db-data",
        "fields": ["spec.storage.autoGrow"],
        "disruption": "None",
        "message": "asks for 1229Mi; the server runs on",
    }


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(st.sampled_from(["restart", "give", "turn", "crash", "lost", "settle"]), min_size=1, max_size=12)
)
def test_whatever_happens_one_cause_is_one_step(steps: list[str]) -> None:
    """The data takes 900Mi throughout: one step of 20 % is enough for it, and no history makes it two."""
    disk = database(autoGrow={"maxSize": "10Gi"})
    disk.used = 900 * MI
    crashed = False
    for step in steps:
        if step == "restart":
            disk.world.restart()
        elif step == "lost":
            disk.world.forget(VOLUME_CLAIM)
        elif step == "give":
            disk.give()
        elif step == "turn":
            disk.turn()
        elif step == "crash" and not crashed:
            disk.crashes(began=timedelta(hours=1))
            crashed = True
        else:
            disk.world.settle(pods=False)
        assert disk.asked in ("1Gi", "1229Mi")


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.sampled_from(["1%", "20%", "100%", "1k", "3Gi"]),
)
def test_a_step_is_never_down_and_never_beyond_the_limit(asks: int, has: int, most: int, by: str) -> None:
    wanted = AutoGrow(threshold=80, increment=by, most=f"{most}Mi")
    found = growth.next_size(wanted, requested=f"{asks}Mi", has=f"{has}Mi")
    if found is None:
        assert max(asks, has) >= most
    else:
        assert max(asks, has) < quantity(found) / MI <= most
