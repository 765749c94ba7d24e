"""The plan writes only what differs, in order, and nothing at all beside something that is not ours."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from kindling.engine.changes import change
from kindling.engine.compare import ALL, LAST_APPLIED_HASH
from kindling.engine.plan import Apply, Create, Delete, RestoreData, Update, plan
from kindling.kinds.base import Child
from kindling.kinds.metadata import labels_of, owner_of
from kindling.kube.resources import CONFIG_MAP, SECRET, SERVICE, Object, Ref, ResourceType

TYPE = ResourceType("example.com", "v1", "Toy", "toys")
CR: Object = {"metadata": {"namespace": "ns", "name": "x", "uid": "cr"}}
FOREIGN = {"apiVersion": "apps/v1", "kind": "Other", "name": "x", "uid": "else", "controller": True}


def child(
    name: str,
    *,
    type: ResourceType = SERVICE,
    create_only: bool = False,
    blocked: bool = False,
    **spec: object,
) -> Child:
    meta = {
        "namespace": "ns",
        "name": name,
        "labels": labels_of(TYPE, CR),
        "ownerReferences": [owner_of(TYPE, CR)],
    }
    return Child(type=type, body={"metadata": meta, "spec": spec}, create_only=create_only, blocked=blocked)


def stored(wanted: Child) -> dict[Ref, Object]:
    """As the server holds it after it was written."""
    (action,) = plan(type=TYPE, cr=CR, desired=[wanted], observed={}).actions
    assert isinstance(action, Apply | Create)
    obj = copy.deepcopy(action.body)
    obj["metadata"] |= {"uid": f"uid-{wanted.ref.name}", "resourceVersion": "7"}
    return {wanted.ref: obj}


def planned(desired: list[Child], observed: dict[Ref, Object]) -> list[object]:
    made = plan(type=TYPE, cr=CR, desired=desired, observed=observed)
    assert made.problem is None
    return list(made.actions)


def conflict(observed: Object, *, name: str = "s") -> str:
    made = plan(
        type=TYPE, cr=CR, desired=[child("new"), child(name)], observed={Ref(SERVICE, "ns", name): observed}
    )
    assert made.actions == ()
    assert made.problem is not None
    return made.problem.reason


def test_missing_is_applied_and_stored_is_left_alone() -> None:
    wanted = child("s", port=1)
    (action,) = planned([wanted], {})
    assert isinstance(action, Apply)
    assert action.new
    assert planned([wanted], stored(wanted)) == []


def test_field_taken_out_of_the_desired_state_is_noticed() -> None:
    (action,) = planned([child("s", a=1)], stored(child("s", a=1, b=2)))
    assert isinstance(action, Apply)
    assert not action.new


def test_only_what_may_leave_fields_behind_is_reshaped() -> None:
    """Created with two fields; an apply changes one, the next has one less. From then on all is applied."""
    observed, forms = stored(child("s", a=1, b=1)), []
    for wanted in (child("s", a=2, b=1), child("s", a=2), child("s", a=2, c=1)):
        (action,) = planned([wanted], observed)
        assert isinstance(action, Apply)
        form = action.body["metadata"]["annotations"][LAST_APPLIED_HASH].partition(".")[2]
        forms.append((action.removes_fields, form == ALL))
        known = observed[Ref(SERVICE, "ns", "s")]
        observed = {
            Ref(SERVICE, "ns", "s"): {**action.body, "metadata": known["metadata"] | action.body["metadata"]}
        }
    assert forms == [(False, False), (True, True), (False, True)]


def test_mark_of_an_earlier_operator_is_as_good() -> None:
    """It held no shape. Nothing is written for that; the first change looks at whose fields they are."""
    observed = stored(child("s", a=1))
    marks = observed[Ref(SERVICE, "ns", "s")]["metadata"]["annotations"]
    marks[LAST_APPLIED_HASH] = marks[LAST_APPLIED_HASH].partition(".")[0]
    assert planned([child("s", a=1)], observed) == []
    (action,) = planned([child("s", a=2)], observed)
    assert isinstance(action, Apply)
    assert action.removes_fields


def test_hash_under_its_old_name_is_written_once_under_the_new_one_and_is_no_drift() -> None:
    """The old name was `kindling.dev/applied`. The apply leaves it out, so the server removes it."""
    wanted = child("s", a=1)
    observed = stored(wanted)
    marks = observed[wanted.ref]["metadata"]["annotations"]
    marks["kindling.dev/applied"] = marks.pop(LAST_APPLIED_HASH)
    (action,) = planned([wanted], observed)
    assert isinstance(action, Apply)
    assert (action.new, action.drift, action.removes_fields) == (False, False, True)
    assert action.body["spec"] == wanted.body["spec"]
    assert set(action.body["metadata"]["annotations"]) == {LAST_APPLIED_HASH}
    known = observed[wanted.ref]
    meta = {**known["metadata"], "annotations": action.body["metadata"]["annotations"]}
    assert planned([wanted], {wanted.ref: {**known, "metadata": meta}}) == []


def test_mark_taken_off_comes_back() -> None:
    observed = stored(child("s", a=1))
    del observed[Ref(SERVICE, "ns", "s")]["metadata"]["annotations"][LAST_APPLIED_HASH]
    assert len(planned([child("s", a=1)], observed)) == 1


def test_once_is_created_and_its_content_never_written() -> None:
    wanted = child("s", type=SECRET, create_only=True, password="a")
    (action,) = planned([wanted], {})
    assert isinstance(action, Create)
    observed = stored(wanted)
    observed[wanted.ref]["spec"] = {"password": "another"}
    assert planned([wanted], observed) == []
    observed[wanted.ref]["metadata"]["labels"] = {}
    (action,) = planned([wanted], observed)
    assert isinstance(action, Apply)
    assert set(action.body) == {"metadata"}
    assert action.body["metadata"]["uid"] == "uid-s"


def test_what_was_created_once_and_lost_its_content_is_filled_again() -> None:
    wanted = replace(
        child("s", type=SECRET, create_only=True), body={**child("s").body, "data": {"password": "YQ=="}}
    )
    observed = stored(wanted)
    assert planned([wanted], observed) == []
    observed[wanted.ref]["data"] = None
    version = observed[wanted.ref]["metadata"]["resourceVersion"]
    again = replace(wanted, restore_data=True)
    patch = {"metadata": {"resourceVersion": version}, "data": {"password": "YQ=="}}
    assert planned([again], observed) == [RestoreData(wanted.ref, patch)]
    (action,) = planned([again], {})
    assert isinstance(action, Create)


def test_what_is_created_once_gets_the_fields_that_it_is_to_have_now() -> None:
    wanted = child("j", create_only=True)
    observed = stored(wanted)
    observed[wanted.ref]["spec"] = {"size": 3, "other": True}
    version = observed[wanted.ref]["metadata"]["resourceVersion"]
    smaller = replace(wanted, update={"spec": {"size": 1}})
    action = Update(wanted.ref, {"metadata": {"resourceVersion": version}, "spec": {"size": 1}})
    assert planned([smaller], observed) == [action]
    assert change(action, observed).paths == [("spec", "size")]
    observed[wanted.ref]["spec"]["size"] = 1
    assert planned([smaller], observed) == []
    assert isinstance(planned([smaller], {})[0], Create)


def test_what_waits_holds_up_what_comes_after() -> None:
    names = [
        a.body["metadata"]["name"]
        for a in planned([child("a"), child("b", blocked=True), child("c")], {})
        if isinstance(a, Apply)
    ]
    assert names == ["a"]


def test_ours_and_no_longer_wanted_is_deleted_with_preconditions() -> None:
    assert planned([], stored(child("old"))) == [Delete(Ref(SERVICE, "ns", "old"), "uid-old", "7")]


def test_what_is_being_deleted_is_not_deleted_again() -> None:
    observed = stored(child("old"))
    observed[Ref(SERVICE, "ns", "old")]["metadata"]["deletionTimestamp"] = "now"
    assert planned([], observed) == []


def test_labelled_but_owned_by_none_is_not_deleted() -> None:
    observed = stored(child("kept"))
    del observed[Ref(SERVICE, "ns", "kept")]["metadata"]["ownerReferences"]
    assert planned([], observed) == []


def test_strangers() -> None:
    meta = {"namespace": "ns", "name": "s", "uid": "u", "resourceVersion": "1"}
    mine = labels_of(TYPE, CR)
    assert conflict({"metadata": meta}) == "NameConflict"
    assert (
        conflict({"metadata": {**meta, "labels": {**mine, "kindling.dev/kind": "toy.other.com"}}})
        == "NameConflict"
    )
    assert (
        conflict({"metadata": {**meta, "labels": {**mine, "app.kubernetes.io/instance": "y"}}})
        == "NameConflict"
    )
    assert (
        conflict({"metadata": {**meta, "labels": {**mine, "app.kubernetes.io/managed-by": "Helm"}}})
        == "NameConflict"
    )
    assert conflict({"metadata": {**meta, "labels": mine, "ownerReferences": [FOREIGN]}}) == "NameConflict"


@pytest.mark.parametrize(
    ("of", "words", "remedy"),
    [
        ({}, "was not created by Kindling", "that Service"),
        (
            {"labels": {"kindling.dev/kind": "toy.other.com"}},
            "belongs to the toy.other.com of this name",
            "that Service",
        ),
        # Its controller would make it again.
        ({"labels": labels_of(TYPE, CR), "ownerReferences": [FOREIGN]}, "belongs to Other x", "that Other x"),
        (
            {"ownerReferences": [{**FOREIGN, "controller": False}]},
            "was not created by Kindling",
            "that Service",
        ),
    ],
)
def test_a_conflict_says_whose_it_is_and_what_to_do(of: Object, words: str, remedy: str) -> None:
    meta = {"namespace": "ns", "name": "s", "uid": "u", "resourceVersion": "1", **of}
    found = {Ref(SERVICE, "ns", "s"): {"metadata": meta}}
    problem = plan(type=TYPE, cr=CR, desired=[child("s")], observed=found).problem
    assert problem is not None
    assert words in problem.message
    assert f"Service ns/s, which Toy {CR['metadata']['name']} needs, exists" in problem.message
    assert problem.message.endswith(f"Create this Toy under another name, or delete {remedy}.")


def test_an_earlier_incarnation_and_the_dying_are_waited_for() -> None:
    meta = {"namespace": "ns", "name": "s", "uid": "u", "resourceVersion": "1", "labels": labels_of(TYPE, CR)}
    earlier = {**owner_of(TYPE, CR), "uid": "before"}
    assert conflict({"metadata": {**meta, "ownerReferences": [earlier]}}) == "Terminating"
    assert conflict({"metadata": {**meta, "deletionTimestamp": "now"}}) == "Terminating"
    namesake = {**earlier, "apiVersion": "other.com/v1"}
    assert conflict({"metadata": {**meta, "ownerReferences": [namesake]}}) == "NameConflict"


def test_what_our_child_owns_is_ours_without_labels() -> None:
    volume = child("volume", type=CONFIG_MAP)
    observed = stored(volume)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "volume", "uid": "uid-volume"}
    bare = {"namespace": "ns", "name": "s", "uid": "u", "resourceVersion": "1", "ownerReferences": [owner]}
    observed[Ref(SERVICE, "ns", "s")] = {"metadata": bare}
    assert len(planned([volume, child("s")], observed)) == 1
