"""A later operator, with another image of its own: which servers it restarts, when, how many at a time."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest
from kindling.engine.compare import LAST_APPLIED_HASH
from kindling.engine.store import Key
from kindling.kinds.base import Kind
from kindling.kinds.conditions import find_condition
from kindling.kinds.registry import kinds
from kindling.kube.resources import POD, STATEFUL_SET, Object, Ref

from tests.model.workloads import run_pods
from tests.model.world import KINDS, World, resource
from tests.unit.operator import backups

FIRST = KINDS[0]
OLD, NEW, NEWER = "postgres:17", "postgres:17.2", "postgres:17.3"
NAMES = ("a", "b", "c", "d", "e")
SPECS: dict[str, Object] = {
    "Postgresql": {},
    "Memcached": {"size": 2},
    "PulsarConsumer": {
        "serverAddress": "pulsar://b:6650",
        "topic": "t",
        "subscriptionName": "s",
        "replicas": 1,
    },
    "MyCustomResource": {"name": "friend"},
    "BindingImport": {"databaseRef": {"namespace": "ns", "name": "db"}},
    "Backup": backups.SPEC,
    "Restore": {"source": {"backupRef": {"name": "nightly"}}, "databaseRef": {"name": "clone"}},
}
# A BindingImport alone makes nothing.
MAKERS = [kind for kind in KINDS if kind.type.kind != "BindingImport"]


def operator(image: str) -> dict[str, Any]:
    images = {
        "postgres": image,
        "postgres-init": "postgres-init:1",
        "postgres-backup": "backup:17",
        "memcached": "memcached:1",
        "exporters": "exporters:1",
        "pulsar-consumer": "consumer:1",
    }
    return {kind.type.group_kind: kind for kind in kinds(images, local_broker="broker.pulsar:6650")}


def world(*names: str, **spec: object) -> World:
    made = World()
    for name in names:
        made.api.put(FIRST.type, resource(FIRST, name, **spec))
    made.settle()
    return made


def upgrade(made: World, image: str = NEW) -> None:
    made.kinds_by_name = operator(image)
    made.restart()


def work(made: World) -> None:
    """All that the operator does while no Pod moves."""
    made.deliver()
    made.work()
    made.settle(pods=False)


def uid(made: World, name: str) -> str:
    return str(made.api.objects[Ref(POD, "ns", f"{name}-0")]["metadata"]["uid"])


def runs(made: World, name: str) -> str:
    spec: Object = made.api.objects[Ref(POD, "ns", f"{name}-0")]["spec"]
    return str(spec["containers"][0]["image"])


def let_go(made: World, *names: str) -> set[str]:
    """Those whose StatefulSet has the new template and holds nothing back."""
    found = set()
    for name in names:
        spec = made.api.objects[Ref(STATEFUL_SET, "ns", name)]["spec"]
        image = spec["template"]["spec"]["containers"][0]["image"]
        if spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}:
            found |= {name} if image != OLD else set()
    return found


def pending(made: World, name: str) -> tuple[str, str]:
    item = find_condition(made.status(FIRST, name), "RestartPending")
    return item.get("reason", ""), item.get("message", "")


def ready(made: World, name: str) -> bool:
    return bool(find_condition(made.status(FIRST, name), "Ready")["status"] == "True")


def test_restart_of_the_same_operator_holds_and_restarts_nothing() -> None:
    made = world(*NAMES)
    before = made.api.state()
    upgrade(made, OLD)
    made.settle()
    assert made.api.state() == before
    assert made.writes_at_rest() == 0


@pytest.mark.parametrize("kind", MAKERS, ids=lambda kind: kind.type.group_kind)
def test_annotation_of_its_old_name_is_replaced_by_one_write_and_restarts_no_pod(kind: Kind) -> None:
    made = World()
    made.api.put(kind.type, resource(kind, "x", **SPECS[kind.type.kind]))
    made.settle()
    children = [ref for ref in made.api.objects if ref.type != kind.type]
    pods = {ref: made.api.objects[ref]["metadata"]["uid"] for ref in children if ref.type == POD}
    renamed = set()
    for ref in children:
        annotations = made.api.objects[ref]["metadata"].get("annotations") or {}
        if LAST_APPLIED_HASH in annotations:
            annotations["kindling.dev/applied"] = annotations.pop(LAST_APPLIED_HASH)
            renamed.add(ref)
    templates = {ref: copy.deepcopy(made.api.objects[ref].get("spec", {}).get("template")) for ref in renamed}
    made.restart()
    made.settle()
    assert bool(renamed) == bool(kind.children)
    for ref in renamed:
        assert LAST_APPLIED_HASH in made.api.objects[ref]["metadata"]["annotations"], ref
        assert made.api.objects[ref].get("spec", {}).get("template") == templates[ref]
    assert {ref: made.api.objects[ref]["metadata"]["uid"] for ref in pods} == pods
    assert made.writes_at_rest() == 0


def test_one_server_at_a_time_and_all_in_the_end() -> None:
    made = world(*NAMES)
    uids = {name: uid(made, name) for name in NAMES}
    upgrade(made)
    work(made)
    order: list[str] = []
    for _ in range(40):
        gone = [name for name in NAMES if let_go(made, name) and name not in order]
        assert len(gone) <= 1, gone
        order += gone
        moving = [name for name in NAMES if not ready(made, name)]
        assert len(moving) <= 1, moving
        held = [name for name in NAMES if name not in order]
        assert all(ready(made, name) and uid(made, name) == uids[name] for name in held)
        assert all(made.status(FIRST, name)["image"] == OLD for name in held)
        if held:
            made.resync()
            work(made)
            said = [pending(made, name) for name in held]
            places = sorted(message.partition("(")[2][:6] for _, message in said)
            assert places == [f"{place} of {len(held)}" for place in range(1, len(held) + 1)]
            assert {reason for reason, _ in said} == {"Queued"}
        run_pods(made.api)
        work(made)
    made.settle()
    assert sorted(order) == sorted(NAMES)
    for name in NAMES:
        assert (runs(made, name), made.status(FIRST, name)["image"]) == (NEW, NEW)
        assert pending(made, name) == ("", "")
        assert uid(made, name) != uids[name]
    assert made.noted == ""
    assert made.writes_at_rest() == 0


def test_the_next_leader_goes_on_with_the_one_under_way() -> None:
    made = world(*NAMES)
    upgrade(made)
    work(made)
    first = let_go(made, *NAMES)
    assert len(first) == 1
    upgrade(made)
    work(made)
    assert let_go(made, *NAMES) == first
    made.resync()
    work(made)
    assert let_go(made, *NAMES) == first
    made.settle()
    assert {runs(made, name) for name in NAMES} == {NEW}


def test_one_that_does_not_come_back_halts_the_line_until_it_does_or_leaves() -> None:
    made = world(*NAMES)
    upgrade(made)
    work(made)
    (stuck,) = let_go(made, *NAMES)
    others = [name for name in NAMES if name != stuck]
    for minutes, reason in ((9, "Queued"), (2, "RestartsHalted"), (60, "RestartsHalted")):
        made.now += timedelta(minutes=minutes)
        made.resync()
        work(made)
        assert {pending(made, name)[0] for name in others} == {reason}
    assert let_go(made, *NAMES) == {stuck}
    made.api.edit(Ref(FIRST.type, "ns", stuck), {"spec": {"updates": "Manual"}})
    work(made)
    assert len(let_go(made, *others)) == 1
    made.settle()
    assert {runs(made, name) for name in NAMES} == {NEW}


def test_deleted_while_it_has_the_turn() -> None:
    made = world("a", "b")
    upgrade(made)
    work(made)
    (first,) = let_go(made, "a", "b")
    made.api.remove(Ref(FIRST.type, "ns", first))
    made.settle()
    (other,) = {"a", "b"} - {first}
    assert runs(made, other) == NEW


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"updates": "OnRestart"}, "NextRestart"),
        ({"storage": {"ephemeral": True}}, "NextRestart"),
        ({"updates": "Manual"}, "Manual"),
    ],
)
def test_no_restart_of_its_own(spec: dict[str, object], reason: str) -> None:
    made = world("a", **spec)
    before = uid(made, "a")
    upgrade(made)
    made.settle()
    made.wait_long()
    assert uid(made, "a") == before
    assert ready(made, "a")
    assert pending(made, "a")[0] == reason
    assert made.status(FIRST, "a")["image"] == OLD
    assert made.writes_at_rest() == 0
    upgrade(made, NEWER)  # and the one after
    made.settle()
    assert (uid(made, "a"), made.status(FIRST, "a")["image"]) == (before, OLD)
    upgrade(made, OLD)  # and back: it runs that
    made.settle()
    assert (uid(made, "a"), pending(made, "a")[0]) == (before, "")
    assert made.writes_at_rest() == 0


@pytest.mark.parametrize(("rule", "image"), [("OnRestart", NEW), ("Manual", OLD)])
def test_image_of_a_replaced_pod(rule: str, image: str) -> None:
    made = world("a", updates=rule)
    upgrade(made)
    made.settle()
    made.api.remove(Ref(POD, "ns", "a-0"))
    made.settle()
    assert (runs(made, "a"), made.status(FIRST, "a")["image"]) == (image, image)
    assert ready(made, "a")
    assert (pending(made, "a")[0] == "") == (image == NEW)
    assert made.writes_at_rest() == 0


@pytest.mark.parametrize("rule", ["Auto", "OnRestart", "Manual"])
def test_rollout_restart(rule: str) -> None:
    window = {"schedule": "0 0 30 6 *", "duration": "1h"}
    made = world("a", updates=rule, maintenanceWindow=window)
    upgrade(made)
    made.settle()
    assert runs(made, "a") == OLD
    word = {"kubectl.kubernetes.io/restartedAt": "2026-01-02T00:00:00Z"}
    patch = {"spec": {"template": {"metadata": {"annotations": word}}}}
    made.api.edit(Ref(STATEFUL_SET, "ns", "a"), patch)
    made.settle()
    assert runs(made, "a") == NEW
    assert pending(made, "a") == ("", "")
    assert made.writes_at_rest() == 0
    upgrade(made, NEWER)  # a word said once counts once
    made.settle()
    assert runs(made, "a") == NEW


@pytest.mark.parametrize("rule", ["Auto", "OnRestart", "Manual"])
def test_own_edit_restarts_at_once_and_brings_the_image(rule: str) -> None:
    window = {"schedule": "0 0 30 6 *", "duration": "1h"}
    made = world("a", updates=rule, maintenanceWindow=window)
    upgrade(made)
    made.settle()
    before = uid(made, "a")
    cr = Ref(FIRST.type, "ns", "a")
    made.api.edit(cr, {"spec": {"deletionPolicy": "Delete"}})  # nothing to the Pod
    made.settle()
    assert uid(made, "a") == before
    made.api.edit(cr, {"spec": {"resources": {"limits": {"memory": "2Gi"}}}})
    made.settle()
    assert (uid(made, "a") != before, runs(made, "a"), pending(made, "a")[0]) == (True, NEW, "")


def test_image_of_ones_own_is_not_the_operators() -> None:
    made = world("a", image="mine:1")
    before = made.api.state()
    upgrade(made)
    made.settle()
    assert made.api.state() == before


def test_window() -> None:
    """A Friday: it opens on Sunday at three, and the one that missed it waits for the next."""
    window = {"schedule": "0 3 * * 0", "duration": "2h", "timeZone": "Europe/Berlin"}
    made = world("a", "b", maintenanceWindow=window)
    upgrade(made)
    made.settle()
    assert {runs(made, name) for name in "ab"} == {OLD}
    assert pending(made, "a")[0] == "AwaitingWindow"
    assert "2026-01-04 03:00+01:00" in pending(made, "a")[1]
    assert Key(FIRST.type.group_kind, "ns", "a") in made.later  # looked at again when it opens
    made.now = made.now.replace(day=4, hour=2, minute=30)
    made.resync()
    work(made)
    assert len(let_go(made, "a", "b")) == 1
    made.now = made.now.replace(hour=4, minute=30)  # over, with one restarted
    made.settle()
    assert sorted(runs(made, name) for name in "ab") == [OLD, NEW]
    made.now = made.now.replace(day=11, hour=2, minute=0)
    made.resync()
    made.settle()
    assert {runs(made, name) for name in "ab"} == {NEW}


def test_template_of_another_shape_restarts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world("a")
    before = uid(made, "a")
    monkeypatch.setattr("kindling.kinds.postgresql.workload.UID", 998)
    upgrade(made, OLD)
    made.settle()
    made.wait_long()
    assert (uid(made, "a"), pending(made, "a")[0]) == (before, "NextRestart")
    made.api.remove(Ref(POD, "ns", "a-0"))
    made.settle()
    pod = made.api.objects[Ref(POD, "ns", "a-0")]
    assert (pod["spec"]["securityContext"]["runAsUser"], pending(made, "a")[0]) == (998, "")


def test_made_by_an_operator_that_noted_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world("a", "b")
    before = [uid(made, name) for name in "ab"]
    for name in "ab":
        held = made.api.objects[Ref(STATEFUL_SET, "ns", name)]
        del held["spec"]["updateStrategy"]
        notes = held["metadata"]["annotations"]
        for word in ("asked", "template", "image"):
            del notes[f"kindling.dev/{word}"]
    upgrade(made, OLD)
    made.settle()
    assert [uid(made, name) for name in "ab"] == before
    assert pending(made, "a") == ("", "")
    monkeypatch.setattr("kindling.kinds.postgresql.workload.UID", 998)
    upgrade(made, OLD)
    made.settle()
    assert [uid(made, name) for name in "ab"] == before
    assert pending(made, "a")[0] == "NextRestart"


def test_what_is_edited_comes_back_while_it_is_held() -> None:
    made = world("a", updates="OnRestart")
    upgrade(made)
    made.settle()
    before, state = uid(made, "a"), made.api.state()
    made.api.edit(
        Ref(STATEFUL_SET, "ns", "a"),
        {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}},
    )
    made.settle()
    assert (uid(made, "a"), made.api.state()) == (before, state)


def test_server_that_is_down_does_not_wait() -> None:
    window = {"schedule": "0 0 30 6 *", "duration": "1h"}
    made = world("a", maintenanceWindow=window)
    down = {"conditions": [], "containerStatuses": [
        {"name": "postgres", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    ]}  # fmt: skip
    made.api.set_status(Ref(POD, "ns", "a-0"), down)
    upgrade(made)
    work(made)
    assert let_go(made, "a") == {"a"}
