"""Where the data is: in a volume that outlives the Pod, or in the Pod alone."""

from __future__ import annotations

import pytest
from kindling.engine.plan import plan
from kindling.kinds.base import ExternalResult, Problem, SyncResult
from kindling.kinds.conditions import find_condition
from kindling.kube.resources import POD, SECRET, VOLUME_CLAIM, Object, Ref

from tests.unit.operator.postgresqls import KIND, observed, postgresql, running, volume

GOOD = SyncResult(in_sync=True, results={"server": ExternalResult(ok=True)})


def desired(cr: Object, known: dict[Ref, Object]) -> dict[Ref, Object]:
    return {child.ref: child.body for child in KIND.desired(cr, observed(known))}


def source(children: dict[Ref, Object]) -> Object:
    (pod,) = [
        body["spec"]["template"]["spec"] for ref, body in children.items() if ref.type.kind == "StatefulSet"
    ]
    (found,) = [volume for volume in pod["volumes"] if volume["name"] == "data"]
    return {key: value for key, value in found.items() if key != "name"}


def test_ephemeral_data_needs_no_claim_and_its_secret_goes_with_the_resource() -> None:
    children = KIND.desired(postgresql(storage={"ephemeral": True, "size": "2Gi"}), observed())
    assert not any(child.blocked for child in children)
    made = {child.ref: child.body for child in children}
    assert not [ref for ref in made if ref.type == VOLUME_CLAIM]
    assert source(made) == {"emptyDir": {"sizeLimit": "2Gi"}}
    secret = made[Ref(SECRET, "ns", "db-superuser-ephemeral")]
    assert [owner["uid"] for owner in secret["metadata"]["ownerReferences"]] == ["cr-uid"]


def test_ephemeral_leaves_alone_what_was_kept_of_an_earlier_one() -> None:
    made = desired(postgresql(storage={"ephemeral": True}), running())
    assert not {Ref(VOLUME_CLAIM, "ns", "db-data"), Ref(SECRET, "ns", "db-superuser")} & made.keys()


@pytest.mark.parametrize(("ephemeral", "said"), [(True, True), (False, False)])
def test_ready_says_since_when_ephemeral_data_is_there(ephemeral: bool, said: bool) -> None:
    """A Pod that the kubelet evicted took the data along, and the next one is as Ready as it was."""
    known = running()
    known[Ref(POD, "ns", "db-0")]["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    status = KIND.status(postgresql(storage={"ephemeral": ephemeral}), observed(known), GOOD).status
    ready = find_condition(status, "Ready")
    assert ready["status"] == "True"
    since = "Its data is ephemeral, and began empty with Pod db-0 at 2026-01-01T00:00:00Z."
    assert ready["message"].endswith(since) is said


def test_durable_data_has_its_claim() -> None:
    for storage in ({}, {"ephemeral": False}, None):
        assert source(desired(postgresql(storage=storage), volume())) == {
            "persistentVolumeClaim": {"claimName": "db-data"}
        }


@pytest.mark.parametrize("step", ["Resizing", "FileSystemResizePending"])
def test_a_resize_is_reported_while_it_lasts_and_keeps_it_ready(step: str) -> None:
    """First the volume grows, then the file system in it: a claim has one condition after the other."""
    known = running()
    claim = known[Ref(VOLUME_CLAIM, "ns", "db-data")]
    claim["spec"]["resources"]["requests"]["storage"] = "5Gi"
    claim["status"] = {
        "capacity": {"storage": "1Gi"},
        "conditions": [{"type": step, "status": "True"}],
    }
    status = KIND.status(postgresql(), observed(known), GOOD).status
    assert find_condition(status, "Ready")["status"] == "True"
    progressing = find_condition(status, "Progressing")
    assert (progressing["status"], progressing["reason"]) == ("True", "Resizing")
    assert "from 1Gi to 5Gi" in progressing["message"]
    for over in (None, [], [{"type": step, "status": "False"}]):
        claim["status"]["conditions"] = over
        status = KIND.status(postgresql(), observed(known), GOOD).status
        assert find_condition(status, "Progressing")["status"] == "False"


REFUSED = "failed to expand pvc with rpc error: code = OutOfRange desc = 5Gi are more than there are"


@pytest.mark.parametrize("step", ["ControllerResizeError", "NodeResizeError"])
def test_a_resize_that_fails_has_the_storages_words_and_keeps_it_ready(step: str) -> None:
    """As the resizer and the kubelet write it: beside the condition that it is under way."""
    known = running()
    claim = known[Ref(VOLUME_CLAIM, "ns", "db-data")]
    claim["spec"]["resources"]["requests"]["storage"] = "5Gi"
    conditions = [
        {"type": "Resizing", "status": "True"},
        {"type": step, "status": "True", "message": REFUSED},
    ]
    claim["status"] = {"capacity": {"storage": "1Gi"}, "conditions": conditions}
    status = KIND.status(postgresql(), observed(known), GOOD).status
    assert find_condition(status, "Ready")["status"] == "True"
    progressing = find_condition(status, "Progressing")
    assert (progressing["status"], progressing["reason"]) == ("True", "ResizeFailed")
    assert progressing["message"] == (
        f"Volume db-data has 1Gi, and its storage could not make it 5Gi ({REFUSED}). This is retried; "
        "to ask for less, set spec.storage.size to more than '1Gi'."
    )
    claim["status"]["capacity"]["storage"] = "5Gi"  # what is over says nothing
    conditions.pop(0)
    status = KIND.status(postgresql(), observed(known), GOOD).status
    assert find_condition(status, "Progressing")["status"] == "False"


@pytest.mark.parametrize(
    ("size", "asks", "has", "request_"),
    [
        ("5Gi", "10Gi", "1Gi", "5Gi"),  # growth that has not come about
        ("1Gi", "10Gi", "1Gi", "10Gi"),  # Kubernetes takes it back only to more than there is
        ("5Gi", "10Gi", "10Gi", "10Gi"),
        ("5Gi", "10Gi", None, "10Gi"),
        ("1Gi", "1Gi", "10Gi", "1Gi"),  # given more than was asked
        ("20Gi", "10Gi", "10Gi", "20Gi"),
    ],
)
def test_a_claim_asks_for_less_only_of_what_it_was_not_given(
    size: str, asks: str, has: str | None, request_: str
) -> None:
    made = desired(postgresql(storage={"size": size}), volume(asks, has=has))
    claim = made[Ref(VOLUME_CLAIM, "ns", "db-data")]
    assert claim["spec"]["resources"]["requests"]["storage"] == request_


@pytest.mark.parametrize(
    ("size", "asks", "has", "words"),
    [
        ("5Gi", "10Gi", "10Gi", ["spec.storage.size '5Gi'", "at least '10Gi'", "db-data"]),
        ("1Gi", "10Gi", "1Gi", ["spec.storage.size '1Gi'", "set a larger size", "10Gi"]),
    ],
)
def test_a_volume_that_stays_larger_is_reported_and_ready(
    size: str, asks: str, has: str, words: list[str]
) -> None:
    status = KIND.status(
        postgresql(storage={"size": size}), observed({**running(), **volume(asks, has=has)}), GOOD
    ).status
    said = find_condition(status, "VolumeLarger")
    assert (said["status"], said["reason"]) == ("True", "CannotShrink")
    assert all(word in said["message"] for word in words)
    assert find_condition(status, "Ready")["status"] == "True"


@pytest.mark.parametrize(
    ("storage", "asks", "has"),
    [
        ({}, "10Gi", "10Gi"),
        ({"size": "1Gi"}, "1Gi", "10Gi"),
        ({"ephemeral": True, "size": "1Gi"}, "5Gi", "5Gi"),
    ],
    ids=["says no size", "was given more", "takes no volume"],
)
def test_a_volume_that_is_as_asked_is_not_called_larger(storage: Object, asks: str, has: str) -> None:
    status = KIND.status(
        postgresql(storage=storage), observed({**running(), **volume(asks, has=has)}), GOOD
    ).status
    assert find_condition(status, "VolumeLarger") == {}


@pytest.mark.parametrize(
    ("size", "asks", "back"),
    [("100Gi", "1Gi", "to '1Gi'"), ("5Gi", "10Gi", "to '10Gi'"), ("1Gi", "1Gi", None)],
)
def test_a_refused_size_says_to_which_to_return(size: str, asks: str, back: str | None) -> None:
    refused = SyncResult(in_sync=False, problem=Problem(reason="ApplyRejected", message="It says no."))
    known = {**running(), **volume(asks, has="1Gi")}
    status = KIND.status(postgresql(storage={"size": size}), observed(known), refused).status
    message = find_condition(status, "Ready")["message"]
    assert message.startswith("It says no.")
    assert (f"set spec.storage.size {back}" in message) if back else message == "It says no."


@pytest.mark.parametrize(("owner", "problem"), [("before", "Terminating"), ("cr-uid", None)])
def test_the_deleted_claim_of_an_earlier_resource_is_waited_for(owner: str, problem: str | None) -> None:
    """It would never go: a Pod on it holds it, and the data in it is another's."""
    known, cr = running(), postgresql(deletionPolicy="Delete")
    cr["metadata"]["uid"] = "cr-uid"
    claim = known[Ref(VOLUME_CLAIM, "ns", "db-data")]["metadata"]
    claim["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    claim["ownerReferences"] = [
        {
            "apiVersion": KIND.type.api_version,
            "kind": "Postgresql",
            "name": "db",
            "uid": owner,
            "controller": True,
        }
    ]
    for ref, obj in known.items():
        if ref.type != VOLUME_CLAIM:
            obj.setdefault("metadata", {}).setdefault("uid", ref.name)
            obj["metadata"]["ownerReferences"] = [{"uid": "cr-uid"}]
    found = plan(type=KIND.type, cr=cr, desired=KIND.desired(cr, observed(known)), observed=known).problem
    assert (found.reason if found else None) == problem


def test_what_an_earlier_resources_claim_records_is_not_taken_over() -> None:
    """Else the new database would be another's whose data is lost."""
    known, cr = running(), postgresql(deletionPolicy="Delete")
    claim = known[Ref(VOLUME_CLAIM, "ns", "db-data")]["metadata"]
    claim["annotations"] = {"kindling.dev/system-identifier": "7511507836854132755"}
    claim["ownerReferences"] = [{"uid": "before", "controller": True}]
    assert "systemIdentifier" not in KIND.status(cr, observed(known), SyncResult(in_sync=False)).status
    claim["ownerReferences"] = [{"uid": cr["metadata"]["uid"], "controller": True}]
    shown = KIND.status(cr, observed(known), SyncResult(in_sync=False)).status
    assert shown["systemIdentifier"] == "7511507836854132755"
