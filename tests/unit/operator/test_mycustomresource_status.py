"""Healthy says whether a friend is there, explicitly, and in words that change when the answer does."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kindling.kinds.base import Done, Observed, StatusReport, SyncResult, WatchedObject
from kindling.kinds.conditions import find_condition
from kindling.kinds.mycustomresource import MyCustomResource
from kindling.kube.resources import POD, Object, Ref

KIND = MyCustomResource()
SPACES = st.from_regex(r"[a-z]{1,8}", fullmatch=True)


def resource(name: str = "joe", *, generation: int = 1) -> Object:
    return {"metadata": {"namespace": "ns", "name": "r", "generation": generation}, "spec": {"name": name}}


def report(cr: Object, *namespaces: str) -> StatusReport:
    """The status with friends in these namespaces."""
    friend = cr["spec"]["name"]
    watched = {Ref(POD, ns, friend): {"metadata": {"namespace": ns, "name": friend}} for ns in namespaces}
    now = datetime(2026, 1, 1, tzinfo=UTC)
    observed = Observed(objects={}, now=now, entropy=b"e" * 32, watched=watched)
    return KIND.status(cr, observed, SyncResult(in_sync=True))


@pytest.mark.parametrize(
    ("namespaces", "healthy", "truth", "reason"),
    [((), False, "False", "FriendMissing"), (("far",), True, "True", "FriendFound")],
)
def test_healthy_is_explicit_and_ready_either_way(
    namespaces: tuple[str, ...], healthy: bool, truth: str, reason: str
) -> None:
    found = report(resource(generation=7), *namespaces)
    assert found.status["Healthy"] is healthy
    assert found.result == Done()
    assert found.status["observedGeneration"] == 7
    ready, condition = find_condition(found.status, "Ready"), find_condition(found.status, "Healthy")
    assert (ready["status"], condition["status"]) == ("True", truth)
    assert {(item["reason"], item["observedGeneration"]) for item in (ready, condition)} == {(reason, 7)}
    assert "joe" in condition["message"]


@given(before=st.sets(SPACES, min_size=1), after=st.sets(SPACES, min_size=1))
def test_which_friends_and_how_many_changes_nothing(before: set[str], after: set[str]) -> None:
    """A second friend that comes and goes must not cost a write."""
    assert report(resource(), *before) == report(resource(), *after)


def test_the_longest_name_leaves_the_message_within_its_bounds() -> None:
    assert len(find_condition(report(resource("n" * 253), "far").status, "Ready")["message"]) < 1024


@pytest.mark.parametrize("spec", [None, {}, {"name": None}])
def test_looks_for_nobody_without_a_name(spec: Object | None) -> None:
    assert KIND.watched_objects({**resource(), "spec": spec}) == []


def test_looks_in_every_namespace_and_makes_nothing() -> None:
    assert KIND.watched_objects(resource("joe")) == [WatchedObject(POD, "joe", None)]
    observed = Observed(objects={}, now=datetime(2026, 1, 1, tzinfo=UTC), entropy=b"")
    assert KIND.desired(resource(), observed) == []
    assert KIND.children == ()
