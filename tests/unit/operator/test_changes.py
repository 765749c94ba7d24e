"""From actions to the fields that differ, and what the change of a child disrupts by itself."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.engine.changes import changes, differing, leaving
from kindling.engine.plan import plan
from kindling.kinds.base import Child
from kindling.kinds.planned import MOST_ITEMS, Change, Disruption, Item, of_change, worst, written
from kindling.kube.resources import DEPLOYMENT, SECRET, SERVICE, STATEFUL_SET, VOLUME_CLAIM, Object, Ref

from tests.unit.operator.memcacheds import KIND, memcached, observed

CACHE = memcached(name="cache")


def child(spec: Object | None = None) -> list[Child]:
    return KIND.desired({**CACHE, "spec": spec or {}}, observed())


def there(children: list[Child]) -> dict[Ref, Object]:
    """As they are once they were created."""
    made = plan(type=KIND.type, cr=CACHE, desired=children, observed={}).actions
    return {
        Ref(action.type, "ns", action.body["metadata"]["name"]): {  # type: ignore[union-attr]
            **action.body,  # type: ignore[union-attr]
            "metadata": {**action.body["metadata"], "uid": "u", "resourceVersion": "1"},  # type: ignore[union-attr]
        }
        for action in made
    }


def edited(before: Object, after: Object) -> dict[str, Change]:
    known = there(child(before))
    decided = plan(type=KIND.type, cr=CACHE, desired=child(after), observed=known)
    return {each.ref.type.kind: each for each in changes(decided, known)}


def test_nothing_differs_and_nothing_changes() -> None:
    assert edited({}, {}) == {}


@pytest.mark.parametrize(
    ("before", "after", "disruption"),
    [
        ({"size": 2}, {"size": 3}, Disruption.NONE),
        ({}, {"memoryMB": 128}, Disruption.RESTART),
        ({}, {"podTemplate": {"spec": {"nodeSelector": {"a": "b"}}}}, Disruption.RESTART),
        ({"podTemplate": {"spec": {"nodeSelector": {"a": "b"}}}}, {}, Disruption.RESTART),
        ({"podTemplate": {"metadata": {"labels": {"a": "b"}}}}, {}, Disruption.RESTART),
    ],
)
def test_pods_are_replaced_where_their_template_changes(
    before: Object, after: Object, disruption: Disruption
) -> None:
    change = edited(before, after)[DEPLOYMENT.kind]
    assert (change.action, of_change(change)) == ("Update", disruption)


def test_what_is_not_wanted_any_more_is_deleted() -> None:
    change = edited({"size": 2}, {"size": 1})["PodDisruptionBudget"]
    assert (change.action, of_change(change)) == ("Delete", Disruption.NONE)


@pytest.mark.parametrize(
    ("change", "disruption"),
    [
        (Change(action="Delete", ref=Ref(VOLUME_CLAIM, "ns", "a")), Disruption.DATA_LOST),
        (Change(action="Delete", ref=Ref(STATEFUL_SET, "ns", "a")), Disruption.STOP),
        (Change(action="Delete", ref=Ref(SECRET, "ns", "a")), Disruption.NONE),
        (Change(action="Create", ref=Ref(STATEFUL_SET, "ns", "a")), Disruption.NONE),
        (
            Change(action="Update", ref=Ref(STATEFUL_SET, "ns", "a"), left=[("spec", "template", "x")]),
            Disruption.RESTART,
        ),
        (
            Change(
                action="Update",
                ref=Ref(STATEFUL_SET, "ns", "a"),
                paths=[("spec", "template", "x")],
                held=True,
            ),
            Disruption.NONE,
        ),
        (Change(action="Update", ref=Ref(SERVICE, "ns", "a"), paths=[("spec", "template")]), Disruption.NONE),
    ],
    ids=str,
)
def test_what_a_change_disrupts_by_itself(change: Change, disruption: Disruption) -> None:
    assert of_change(change) == disruption


@pytest.mark.parametrize(
    ("desired", "there", "paths"),
    [
        ({"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3, "d": 4}}, [("b", "c")]),
        ({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "1024Mi"}}, []),
        (
            {"containers": [{"name": "x", "image": "1"}]},
            {"containers": [{"name": "y", "image": "1"}, {"name": "x", "image": "2"}]},
            [("containers", "x", "image")],
        ),
        ({"containers": [{"name": "x"}]}, {"containers": []}, [("containers", "x")]),
        ({"selector": {"a": "b"}}, {"selector": {"a": "b", "c": "d"}}, [("selector",)]),
        ({"args": ["a", "b"]}, {"args": ["a"]}, [("args",)]),
        ({"labels": {}}, None, [()]),
    ],
)
def test_each_field_that_differs_has_its_path(desired: Any, there: Any, paths: list[Any]) -> None:
    assert list(differing(desired, there)) == paths


@pytest.mark.parametrize(
    ("desired", "there", "paths"),
    [
        ({"labels": {"a": "b"}}, {"labels": {"a": "b", "c": "d"}}, [("labels", "c")]),
        ({"spec": {}}, {"spec": {"tolerations": [{}], "dnsPolicy": "x"}}, [("spec", "tolerations")]),
        ({"volumes": [{"name": "a"}]}, {"volumes": [{"name": "a"}, {"name": "b"}]}, [("volumes", "b")]),
        ({"annotations": {}}, {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}, []),
    ],
)
def test_what_leaves_is_what_an_apply_takes_away(desired: Any, there: Any, paths: list[Any]) -> None:
    assert list(leaving(desired, there)) == paths


def test_a_plan_of_many_items_fits_and_says_what_is_left_out() -> None:
    items = [Item(action="Create", object=f"Secret/{number}", message="is created") for number in range(100)]
    items.append(Item(action="Delete", disruption=Disruption.DATA_LOST, message="m" * 5000))
    found = written(items)
    assert (len(found["items"]), found["disruption"]) == (MOST_ITEMS, "DataLost")
    assert found["items"][-1]["disruption"] == "DataLost"
    assert found["items"][-1]["message"] == "38 more, which do not fit into the status."
    assert written([]) == {"disruption": "None", "items": []}


def test_the_worst_is_the_last_of_its_list() -> None:
    assert [str(each) for each in Disruption] == ["None", "Reload", "Unknown", "Restart", "Stop", "DataLost"]
    assert worst([Disruption.RESTART, Disruption.NONE]) == Disruption.RESTART
    assert worst([]) == Disruption.NONE
