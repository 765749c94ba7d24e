"""Where the operator looks for Pods in some namespaces alone, the right to get them is asked for there."""

from __future__ import annotations

import pytest

from infra.admission import NAMESPACES
from tests.apiserver.support.apiclient import Api
from tests.apiserver.support.controlplane import ControlPlane
from tests.apiserver.support.kinds import MY_CUSTOM_RESOURCE, POSTGRESQL
from tests.apiserver.support.policed import may_get, policed

NAMES = [f"few-{number}" for number in range(2, NAMESPACES + 2)]


def test_a_friend_is_looked_for_by_those_who_may_get_it_where_it_is_looked_for(
    plane: ControlPlane, api: Api
) -> None:
    friend = {"name": "friend"}
    with policed(plane, api, prefix="some", served=["some-2"]) as users:
        here = users.new(may_get("pods", "friend"))
        assert here.namespace == "some-2"
        here.creates(MY_CUSTOM_RESOURCE, friend).accepted()
        elsewhere = users.new(may_get("pods", "friend"))
        answer = elsewhere.creates(MY_CUSTOM_RESOURCE, friend)
        assert answer.status == 403
        assert "ask for the right to get pods of that name in namespace some-2" in answer.message
        users.new(wide=[may_get("pods")]).creates(MY_CUSTOM_RESOURCE, friend).accepted()


@pytest.mark.parametrize(
    ("served", "where"), [(NAMES, f"namespace {NAMES[0]}"), ([*NAMES, "x"], "all namespaces")]
)
def test_many_namespaces_are_asked_for_one_by_one_or_as_all(
    plane: ControlPlane, api: Api, served: list[str], where: str
) -> None:
    with policed(plane, api, prefix=f"many-{len(served)}", served=served) as users:
        answer = users.new().creates(MY_CUSTOM_RESOURCE, {"name": "friend"})
        assert answer.status == 403
        assert f"in {where}" in answer.message
        assert users.new().creates(POSTGRESQL, {}).status == 201
        everywhere = users.new(wide=[may_get("pods")])
        everywhere.creates(MY_CUSTOM_RESOURCE, {"name": "friend"}).accepted()
