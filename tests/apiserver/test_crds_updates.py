"""Changes to a Postgresql that its volume cannot follow are refused; all others go through."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.apiserver.support.apiclient import Api, Json, Response
from tests.apiserver.support.kinds import POSTGRESQL

CLASS_CHANGES: list[tuple[Json, Json, str]] = [
    (
        {"storage": {"storageClassName": "fast"}},
        {"storage": {"storageClassName": "slow"}},
        "'slow' cannot replace 'fast'",
    ),
    (
        {"storage": {"storageClassName": "fast"}},
        {"storage": {"storageClassName": None}},
        "'' cannot replace 'fast'",
    ),
    ({"storage": {"storageClassName": "fast"}}, {"storage": None}, "'' cannot replace 'fast'"),
    ({}, {"storage": {"storageClassName": "fast"}}, "'fast' cannot replace ''"),
]

USER_CHANGES: list[tuple[Json, Json, str]] = [
    ({"defaultUser": "ada"}, {"defaultUser": "bob"}, "'bob' (postgres when left out) cannot replace 'ada'"),
    ({"defaultuser": "ada"}, {"defaultuser": None, "defaultUser": "bob"}, "'bob'"),
    (
        {"defaultUser": "ada"},
        {"defaultUser": None},
        "'postgres' (postgres when left out) cannot replace 'ada'",
    ),
    ({}, {"defaultuser": "ada"}, "'ada' (postgres when left out) cannot replace 'postgres'"),
    ({"defaultUser": "ada", "storage": {"ephemeral": True}}, {"defaultUser": "bob"}, "'bob'"),
]

GOOD_CHANGES: list[tuple[Json, Json]] = [
    ({"storage": {"size": "1Gi"}}, {"storage": {"size": "2Gi"}}),
    ({"storage": {"size": "1Gi"}}, {"storage": {"size": "1024Mi"}}),
    # Growth that did not come about is taken back; what the volume has it keeps, and the status says so.
    ({"storage": {"size": "10Gi"}}, {"storage": {"size": "5Gi"}}),
    ({"storage": {"size": "2Gi"}}, {"storage": None}),
    ({"storage": {"size": "1Gi"}}, {"storage": None}),
    ({"storage": {"size": "512Mi"}}, {"storage": None}),
    ({}, {"storage": {"size": "2Gi"}}),
    ({"storage": {"size": "1Gi", "storageClassName": "fast"}}, {"storage": {"size": "2Gi"}}),
    ({"password": "old"}, {"password": "new"}),
    ({"defaultUser": "owner"}, {"defaultUser": None, "defaultuser": "owner"}),
    ({"defaultuser": "owner"}, {"defaultuser": None, "defaultUser": "owner"}),
    ({}, {"defaultUser": "postgres"}),
    ({"defaultuser": "postgres"}, {"defaultuser": None}),
    ({"deletionPolicy": "Retain"}, {"deletionPolicy": "Delete"}),
    ({}, {"resources": {"requests": {"memory": "256Mi"}, "limits": {"memory": "1Gi", "cpu": 1}}}),
]


@pytest.fixture
def change(api: Api, new_name: Callable[[], str]) -> Callable[[Json, Json], Response]:
    """Create a Postgresql with the first spec, lay the second over it as a merge patch."""

    def _change(before: Json, patch: Json) -> Response:
        name = new_name()
        api.create(POSTGRESQL.collection, POSTGRESQL.resource(name, before)).accepted()
        return api.merge(f"{POSTGRESQL.collection}/{name}", {"spec": patch})

    return _change


@pytest.mark.parametrize(("before", "patch", "said"), CLASS_CHANGES, ids=str)
def test_storage_class_can_not_change(
    change: Callable[[Json, Json], Response], before: Json, patch: Json, said: str
) -> None:
    answer = change(before, patch)
    assert answer.status == 422
    assert f"spec.storage.storageClassName {said}" in answer.message


@pytest.mark.parametrize(("before", "patch", "said"), USER_CHANGES, ids=str)
def test_the_default_user_can_not_change(
    change: Callable[[Json, Json], Response], before: Json, patch: Json, said: str
) -> None:
    answer = change(before, patch)
    assert answer.status == 422
    assert f"spec.defaultUser {said}" in answer.message
    assert "dump the data and restore it into a new resource" in answer.message


@pytest.mark.parametrize(("before", "patch"), GOOD_CHANGES, ids=str)
def test_other_changes_are_admitted(
    change: Callable[[Json, Json], Response], before: Json, patch: Json
) -> None:
    assert change(before, patch).accepted()["metadata"]["generation"] == 2


def test_bad_size_is_refused_in_an_update_without_breaking_a_rule(
    change: Callable[[Json, Json], Response],
) -> None:
    answer = change({"storage": {"size": "1Gi"}}, {"storage": {"size": "much"}})
    assert answer.status == 422
    assert 'spec.storage.size: Invalid value: "much"' in answer.message
    assert "evaluating rule" not in answer.message
