"""Where the data is: in a volume that outlives the Pod, or in the Pod alone."""

from __future__ import annotations

import pytest
from kindling.kinds.conditions import find
from kindling.kinds.contract import Answer, Findings
from kindling.kube.resources import SECRET, VOLUME_CLAIM, Object, Ref

from tests.unit.operator.postgresqls import KIND, observed, postgresql, running, volume

GOOD = Findings(settled=True, answer=Answer(ok=True))


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
    assert not any(child.waits for child in children)
    made = {child.ref: child.body for child in children}
    assert not [ref for ref in made if ref.type == VOLUME_CLAIM]
    assert source(made) == {"emptyDir": {"sizeLimit": "2Gi"}}
    secret = made[Ref(SECRET, "ns", "db-superuser-ephemeral")]
    assert [owner["uid"] for owner in secret["metadata"]["ownerReferences"]] == ["cr-uid"]


def test_ephemeral_leaves_alone_what_was_kept_of_an_earlier_one() -> None:
    made = desired(postgresql(storage={"ephemeral": True}), running())
    assert not {Ref(VOLUME_CLAIM, "ns", "db-data"), Ref(SECRET, "ns", "db-superuser")} & made.keys()


def test_durable_data_has_its_claim() -> None:
    for storage in ({}, {"ephemeral": False}, None):
        assert source(desired(postgresql(storage=storage), volume())) == {
            "persistentVolumeClaim": {"claimName": "db-data"}
        }


@pytest.mark.parametrize("step", ["Resizing", "FileSystemResizePending"])
def test_growing_is_told_while_it_lasts_and_does_not_make_it_unready(step: str) -> None:
    """First the volume grows, then the file system in it: a claim has one condition after the other."""
    known = running()
    claim = known[Ref(VOLUME_CLAIM, "ns", "db-data")]
    claim["spec"]["resources"]["requests"]["storage"] = "5Gi"
    claim["status"] = {
        "capacity": {"storage": "1Gi"},
        "conditions": [{"type": step, "status": "True"}],
    }
    status = KIND.status(postgresql(), observed(known), GOOD).status
    assert find(status, "Ready")["status"] == "True"
    progressing = find(status, "Progressing")
    assert (progressing["status"], progressing["reason"]) == ("True", "Resizing")
    assert "from 1Gi to 5Gi" in progressing["message"]
    for over in (None, [], [{"type": step, "status": "False"}]):
        claim["status"]["conditions"] = over
        status = KIND.status(postgresql(), observed(known), GOOD).status
        assert find(status, "Progressing")["status"] == "False"
