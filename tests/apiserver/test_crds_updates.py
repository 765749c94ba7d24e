"""Changes to a Postgresql that its volume can not follow are refused; all others go through."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.apiserver.apiclient import Answer, Api, Json
from tests.apiserver.kinds import POSTGRESQL

SHRINKING: list[tuple[Json, Json, str, str]] = [
    ({"storage": {"size": "10Gi"}}, {"storage": {"size": "5Gi"}}, "'5Gi'", "at least 10Gi"),
    ({"storage": {"size": "1Gi"}}, {"storage": {"size": "1G"}}, "'1G'", "at least 1Gi"),
    # A size left out is 1Gi, on either side.
    ({"storage": {"size": "2Gi"}}, {"storage": {"size": None}}, "'1Gi'", "at least 2Gi"),
    ({"storage": {"size": "2Gi"}}, {"storage": None}, "'1Gi'", "at least 2Gi"),
    ({}, {"storage": {"size": "512Mi"}}, "'512Mi'", "at least 1Gi"),
    ({"storage": {}}, {"storage": {"size": "512Mi"}}, "'512Mi'", "at least 1Gi"),
]

CLASS_CHANGES: list[tuple[Json, Json, str]] = [
    (
        {"storage": {"storageClassName": "fast"}},
        {"storage": {"storageClassName": "slow"}},
        "'slow' can not replace 'fast'",
    ),
    (
        {"storage": {"storageClassName": "fast"}},
        {"storage": {"storageClassName": None}},
        "'' can not replace 'fast'",
    ),
    ({"storage": {"storageClassName": "fast"}}, {"storage": None}, "'' can not replace 'fast'"),
    ({}, {"storage": {"storageClassName": "fast"}}, "'fast' can not replace ''"),
]

GOOD_CHANGES: list[tuple[Json, Json]] = [
    ({"storage": {"size": "1Gi"}}, {"storage": {"size": "2Gi"}}),
    ({"storage": {"size": "1Gi"}}, {"storage": {"size": "1024Mi"}}),
    ({"storage": {"size": "1Gi"}}, {"storage": None}),
    ({"storage": {"size": "512Mi"}}, {"storage": None}),
    ({}, {"storage": {"size": "2Gi"}}),
    ({"storage": {"size": "1Gi", "storageClassName": "fast"}}, {"storage": {"size": "2Gi"}}),
    ({"password": "old"}, {"password": "new"}),
    ({"defaultUser": "owner"}, {"defaultUser": None, "defaultuser": "owner"}),
    ({"deletionPolicy": "Retain"}, {"deletionPolicy": "Delete"}),
    ({}, {"resources": {"requests": {"memory": "256Mi"}, "limits": {"memory": "1Gi", "cpu": 1}}}),
]


@pytest.fixture
def change(api: Api, new_name: Callable[[], str]) -> Callable[[Json, Json], Answer]:
    """Create a Postgresql with the first spec, lay the second over it as a merge patch."""

    def _change(before: Json, patch: Json) -> Answer:
        name = new_name()
        api.create(POSTGRESQL.collection, POSTGRESQL.resource(name, before)).accepted()
        return api.merge(f"{POSTGRESQL.collection}/{name}", {"spec": patch})

    return _change


@pytest.mark.parametrize(("before", "patch", "asked", "allowed"), SHRINKING, ids=str)
def test_volume_can_not_shrink(
    change: Callable[[Json, Json], Answer], before: Json, patch: Json, asked: str, allowed: str
) -> None:
    answer = change(before, patch)
    assert answer.status == 422
    assert f"spec.storage.size {asked}" in answer.message
    assert allowed in answer.message


@pytest.mark.parametrize(("before", "patch", "said"), CLASS_CHANGES, ids=str)
def test_storage_class_can_not_change(
    change: Callable[[Json, Json], Answer], before: Json, patch: Json, said: str
) -> None:
    answer = change(before, patch)
    assert answer.status == 422
    assert f"spec.storage.storageClassName {said}" in answer.message


@pytest.mark.parametrize(("before", "patch"), GOOD_CHANGES, ids=str)
def test_other_changes_are_admitted(
    change: Callable[[Json, Json], Answer], before: Json, patch: Json
) -> None:
    assert change(before, patch).accepted()["metadata"]["generation"] == 2


def test_bad_size_is_refused_in_an_update_without_breaking_a_rule(
    change: Callable[[Json, Json], Answer],
) -> None:
    answer = change({"storage": {"size": "1Gi"}}, {"storage": {"size": "much"}})
    assert answer.status == 422
    assert 'spec.storage.size: Invalid value: "much"' in answer.message
    assert "evaluating rule" not in answer.message
