"""A database that lost its data says so and stays as it is, until somebody gives the data up, once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kindling.kinds.base import ExternalResult
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql.identity import START_EMPTY
from kindling.kinds.postgresql.initdb import IDENTIFIER, LOST
from kindling.kinds.postgresql.login import Login
from kindling.kinds.postgresql.volume import IDENTIFIER_ANNOTATION
from kindling.kube.resources import CONFIG_MAP, POD, STATEFUL_SET, VOLUME_CLAIM, Object, Ref

from tests.model.faults import Fault
from tests.model.workloads import control, run_pods
from tests.model.world import KINDS, World, resource

KIND = KINDS[0]
CR = Ref(KIND.type, "ns", "db")
CLAIM = Ref(VOLUME_CLAIM, "ns", "db-data")
CONFIG = Ref(CONFIG_MAP, "ns", "db-config")
THE_POD = Ref(POD, "ns", "db-0")


class Disk(World):
    """A world whose Pod NAME-0 has the data of its volume: initialised by the init container, or refused.

    `satisfies` is the system identifier of what each claim has, by its uid.
    """

    def __init__(self) -> None:
        super().__init__()
        self.satisfies: dict[str, str] = {}
        self.made = 7000
        self.provisioned: list[str] = []
        self.answer = self._answer

    def settle(self, *, pods: bool = True) -> None:
        for _ in range(20):
            self._kubelet()
            if not self.waiting and not len(self.queue):
                return
            self.deliver()
            self.work()
        raise AssertionError("no rest")

    def _kubelet(self) -> None:
        """As `initdb.py` has it, which tests/unit/operator/test_initdb.py shows."""
        api = self.api
        control(api)
        data = self._data()
        if data is None:
            return
        needed = api.objects[CONFIG]["data"].get(IDENTIFIER)
        pod = api.objects[THE_POD]
        if data not in self.satisfies and needed:
            ended = {"exitCode": 1, "message": f"{LOST}\n"}
            status = {"initContainerStatuses": [{"name": "initdb", "lastState": {"terminated": ended}}]}
            if pod.get("status") != status:
                api.set_status(THE_POD, status)
            return
        if data not in self.satisfies:
            self.made += 1
            self.satisfies[data] = str(self.made)
        run_pods(api)

    def _data(self) -> str | None:
        """The uid of what has the Pod's data; None where there is no Pod, or its claim is not there yet."""
        pod = self.api.objects.get(THE_POD)
        kept = pod and any("persistentVolumeClaim" in volume for volume in pod["spec"]["volumes"])
        place = self.api.objects.get(CLAIM) if kept else pod
        return str(place["metadata"]["uid"]) if place else None

    def _answer(self, login: Login) -> ExternalResult:
        found = self.satisfies[str(self._data())]
        if login.identifier not in (None, found):
            return ExternalResult(
                ok=False, reason="DataLost", message="m", facts={"system_identifier": found}
            )
        self.provisioned.append(found)
        return ExternalResult(ok=True, facts={"login": True, "system_identifier": found, "version": "15.1"})

    @property
    def shown(self) -> Object:
        return self.status(KIND, "db")

    @property
    def ready(self) -> Object:
        return find_condition(self.shown, "Ready")

    @property
    def record(self) -> tuple[object, object, object]:
        """What the status, the claim and the next start say."""
        objects = self.api.objects
        claim = objects[CLAIM]["metadata"]["annotations"][IDENTIFIER_ANNOTATION]
        return (
            self.shown.get("systemIdentifier"),
            claim,
            objects[CONFIG]["data"][IDENTIFIER],
        )

    def replace_pod(self) -> None:
        self.api.remove(THE_POD)

    def annotate(self, identifier: str) -> None:
        self.api.edit(CR, {"metadata": {"annotations": {START_EMPTY: identifier}}})


def with_data(**spec: object) -> Disk:
    disk = Disk()
    disk.api.put(KIND.type, resource(KIND, "db", **spec))
    disk.settle()
    assert disk.ready["status"] == "True"
    return disk


def claim_deleted(disk: Disk) -> None:
    disk.api.remove(CLAIM)
    disk.replace_pod()


def directory_emptied(disk: Disk) -> None:
    disk.satisfies.clear()
    disk.replace_pod()


def other_volume(disk: Disk) -> None:
    disk.satisfies[disk.api.objects[CLAIM]["metadata"]["uid"]] = "666"
    disk.replace_pod()


LOSSES = pytest.mark.parametrize("lose", [claim_deleted, directory_emptied, other_volume])
Lose = Callable[[Disk], None]


def test_whose_data_it_is_is_recorded_at_the_first_login_and_then_at_rest() -> None:
    disk = with_data()
    assert disk.record == ("7001", "7001", "7001")
    assert len(disk.logins) == 1
    written = disk.api.writes.total()
    assert written == 9 + 2 + 2  # children; the claim and the configuration once more; the status
    assert disk.writes_at_rest() == 0
    disk.restart()
    disk.settle()
    assert disk.api.writes.total() == written


@pytest.mark.parametrize("spec", [{}, {"image": "postgres:15"}], ids=["ours", "a foreign image"])
def test_an_operator_that_starts_with_an_older_view_takes_nothing_off_the_record(spec: Object) -> None:
    """As an API server may answer that lags behind: whichever moment since the creation it is of.

    The version of a foreign image is known by its answer alone, and recorded on the claim.
    """
    disk = with_data(**spec)
    past = list(disk.api.events)
    assert len(past) > 10
    for moment in range(len(past)):
        began = len(disk.api.events)
        disk.restart_as_of(past[:moment])
        disk.work()
        disk.settle()
        assert disk.record == ("7001", "7001", "7001")
        for _, type, obj in disk.api.events[began:]:
            assert type not in (VOLUME_CLAIM, CONFIG_MAP), (moment, obj)
            assert type != KIND.type or find_condition(obj["status"], "Ready")["status"] == "True", moment


@LOSSES
def test_lost_data_is_reported_and_not_replaced(lose: Lose) -> None:
    disk = with_data()
    lose(disk)
    disk.settle()
    assert (disk.ready["status"], disk.ready["reason"]) == ("False", "DataLost")
    assert disk.shown["pgPhase"] == "Failed"
    assert find_condition(disk.shown, "Degraded")["status"] == "True"
    resource = f"{KIND.type.plural}.{KIND.type.group} db -n ns"
    command = f"`kubectl annotate {resource} --overwrite kindling.dev/start-empty=7001`"
    assert command in disk.ready["message"]
    assert set(disk.provisioned) == {"7001"}
    disk.replace_pod()
    disk.settle()
    disk.restart()
    disk.settle()
    assert disk.ready["reason"] == "DataLost"
    assert set(disk.provisioned) == {"7001"}
    assert disk.record == ("7001", "7001", "7001")
    assert disk.writes_at_rest() == 0


@LOSSES
def test_given_up_it_goes_on_without_them_once_and_at_once(lose: Lose) -> None:
    disk = with_data()
    lose(disk)
    disk.settle()
    disk.annotate("7001")
    disk.settle()
    disk.wait_long()
    assert disk.ready["status"] == "True"
    new = disk.satisfies[disk.api.objects[CLAIM]["metadata"]["uid"]]
    assert new != "7001"
    assert disk.record == (new, new, new)
    lose(disk) if lose is not other_volume else claim_deleted(disk)
    disk.settle()
    assert disk.ready["reason"] == "DataLost"
    assert disk.provisioned[-1] == new
    assert disk.writes_at_rest() == 0


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOST])
@pytest.mark.parametrize("after", range(6))
@LOSSES
def test_given_up_it_comes_about_whenever_the_operator_is_interrupted(
    lose: Lose, after: int, fault: Fault
) -> None:
    disk = with_data()
    lose(disk)
    disk.settle()
    disk.annotate("7001")
    disk.faulty.writes.extend([None] * after)
    disk.faulty.writes.append(fault)
    disk.settle()
    for _ in range(3):
        disk.resync()
        disk.settle()
    disk.faulty.writes.clear()
    new = disk.satisfies[disk.api.objects[CLAIM]["metadata"]["uid"]]
    assert (disk.ready["status"], disk.record) == ("True", (new, new, new))


def test_given_up_beforehand_or_by_another_number_it_is_not() -> None:
    disk = with_data()
    disk.annotate("7001")
    disk.settle()
    assert disk.record == ("7001", "7001", "7001")
    assert disk.writes_at_rest() == 0
    disk.annotate("1007")
    claim_deleted(disk)
    disk.settle()
    assert disk.ready["reason"] == "DataLost"


def test_data_that_is_brought_back_is_gone_on_with() -> None:
    disk = with_data()
    claim_deleted(disk)
    disk.settle()
    disk.satisfies[disk.api.objects[CLAIM]["metadata"]["uid"]] = "7001"
    disk.replace_pod()
    disk.settle()
    assert (disk.ready["status"], disk.shown["pgPhase"]) == ("True", "up")


def test_a_kept_volume_brings_its_record_to_the_next_of_its_name() -> None:
    disk = with_data()
    disk.api.remove(CR)
    disk.settle()
    disk.satisfies.clear()
    disk.api.put(KIND.type, resource(KIND, "db"))
    disk.settle()
    assert disk.ready["reason"] == "DataLost"
    assert disk.api.objects[CLAIM]["metadata"]["annotations"][IDENTIFIER_ANNOTATION] == "7001"


def test_a_database_of_before_is_recorded_at_its_next_login() -> None:
    disk = with_data()
    disk.api.edit(CLAIM, {"metadata": {"annotations": {IDENTIFIER_ANNOTATION: None}}})
    disk.api.edit(Ref(CONFIG_MAP, "ns", "db-config"), {"data": {IDENTIFIER: None}})
    status = {name: value for name, value in disk.shown.items() if name != "systemIdentifier"}
    disk.api.set_status(CR, status)
    disk.restart()
    disk.settle()
    assert disk.record == ("7001", "7001", "7001")
    assert disk.ready["status"] == "True"


def test_ephemeral_data_is_nobodys_loss() -> None:
    disk = with_data(storage={"ephemeral": True})
    disk.replace_pod()
    disk.settle()
    assert disk.ready["status"] == "True"
    assert "systemIdentifier" not in disk.shown
    assert disk.api.objects[CONFIG]["data"][IDENTIFIER] == ""


def test_a_claim_deleted_under_a_running_server_is_reported_at_once_and_its_pod_stays() -> None:
    disk = with_data()
    pod, workload = disk.api.objects[THE_POD]["metadata"]["uid"], Ref(STATEFUL_SET, "ns", "db")
    disk.api.edit(CLAIM, {"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}})
    disk.settle()
    assert (disk.ready["status"], disk.ready["reason"]) == ("False", "VolumeDeleting")
    assert "pg_dumpall" in disk.ready["message"]
    assert (find_condition(disk.shown, "Available")["status"], disk.shown["pgPhase"]) == ("True", "up")
    assert find_condition(disk.shown, "Degraded")["reason"] == "VolumeDeleting"
    before = disk.api.objects[workload]
    disk.api.edit(CR, {"spec": {"resources": {"limits": {"cpu": "2"}}, "password": "another"}})
    disk.settle()
    assert disk.logins[-1].password == "another"
    assert disk.api.objects[workload] == before
    assert disk.api.objects[THE_POD]["metadata"]["uid"] == pod
    assert disk.writes_at_rest() == 0
    disk.api.remove(CLAIM)
    disk.replace_pod()
    disk.settle()
    assert disk.ready["reason"] == "DataLost"
