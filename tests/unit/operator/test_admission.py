"""What the cluster changes of a child as it is written is left, while it is just that, and not for ever."""

from __future__ import annotations

from typing import Any

import pytest
from kindling.engine.admission import REMEMBERED_SECONDS, AdmissionChanges
from kindling.engine.plan import Action, Apply, Create
from kindling.engine.store import Key
from kindling.kube.resources import SECRET, SERVICE, Object, Ref

KEY, OTHER = Key("toys.example.com", "ns", "a"), Key("toys.example.com", "ns", "b")
REF = Ref(SERVICE, "ns", "a")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def service(**spec: Any) -> Object:
    return {"metadata": {"namespace": "ns", "name": "a"}, "spec": spec}


def apply(**spec: Any) -> Apply:
    return Apply(SERVICE, service(**spec), new=False, drift=True)


LIVE = {REF: service(type="Hooked", sessionAffinity="None")}
WANTED = apply(type="ClusterIP", sessionAffinity="None")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def known(clock: Clock) -> AdmissionChanges:
    found = AdmissionChanges(clock=clock)
    assert found.learn(KEY, WANTED, LIVE) == [("spec", "type")]
    return found


def test_just_that_is_left(known: AdmissionChanges) -> None:
    assert known.is_known(KEY, WANTED, LIVE)
    more = {REF: {**service(type="Hooked", sessionAffinity="None", more=1), "status": {"x": 1}}}
    assert known.is_known(KEY, WANTED, more)


@pytest.mark.parametrize(
    ("key", "action", "live"),
    [
        (OTHER, WANTED, LIVE),
        (KEY, apply(type="NodePort", sessionAffinity="None"), LIVE),
        (KEY, WANTED, {REF: service(type="Edited", sessionAffinity="None")}),
        (KEY, WANTED, {REF: service(type="Hooked", sessionAffinity="ClientIP")}),
        (KEY, Apply(SERVICE, WANTED.body, new=False, drift=False), LIVE),
        (KEY, Apply(SERVICE, WANTED.body, new=False, drift=True, removes_fields=True), LIVE),
        (KEY, Apply(SERVICE, WANTED.body, new=True), {}),
        (KEY, Create(SERVICE, WANTED.body), LIVE),
    ],
    ids=["another's", "other wish", "other value", "more fields", "no drift", "fields go", "new", "create"],
)
def test_anything_else_is_written(
    known: AdmissionChanges, key: Key, action: Action, live: dict[Ref, Object]
) -> None:
    assert not known.is_known(key, action, live)


def test_the_policy_may_be_another_after_an_hour(known: AdmissionChanges, clock: Clock) -> None:
    clock.now = REMEMBERED_SECONDS - 1
    assert known.is_known(KEY, WANTED, LIVE)
    clock.now = REMEMBERED_SECONDS
    assert not known.is_known(KEY, WANTED, LIVE)


def test_nothing_is_kept_of_a_resource_that_is_gone(known: AdmissionChanges) -> None:
    known.forget(KEY)
    known.forget(OTHER)
    assert not known.is_known(KEY, WANTED, LIVE)


def test_no_value_is_kept(clock: Clock) -> None:
    """The child may be a Secret."""
    found, ref = AdmissionChanges(clock=clock), Ref(SECRET, "ns", "a")
    body = {
        "metadata": {"namespace": "ns", "name": "a"},
        "data": {"password": "canary-wish"},
        "type": "Opaque",
    }
    live = {ref: {**body, "data": {"password": "canary-live"}}}
    action = Apply(SECRET, body, new=False)
    assert found.learn(KEY, action, live) == [("data", "password")]
    assert found.is_known(KEY, action, live)
    assert "canary" not in repr(vars(found))
