"""Differences in words: elements are named by their key and not by their index, and no secret is shown."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cli.drift_report import added, changed, complaints, differences

Json = dict[str, Any]

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def outcome(op: str, *, recorded: Json, found: Json | None, type: str = "kubernetes:core/v1:Service") -> Json:
    """An event as the engine writes it when it has looked at a resource."""
    old = {"type": type, "custom": True, "id": "space/name", "urn": f"urn::{type}::name", "inputs": recorded}
    new = None if found is None else {**old, "outputs": found, "inputs": found}
    return {"resOutputsEvent": {"metadata": {"op": op, "type": type, "old": old, "new": new}}}


def reported(recorded: Json, found: Json) -> list[str]:
    return [*changed(recorded, found), *added(recorded, found)]


@pytest.mark.parametrize(
    ("recorded", "found", "lines"),
    [
        pytest.param({"a": {"b": 1}}, {"a": {"b": 2}}, ["a.b: 2, recorded 1"], id="field"),
        pytest.param({"a": 1}, {}, ["a: gone, recorded 1"], id="lost"),
        pytest.param({"a": ""}, {}, [], id="empty is left out by the API"),
        pytest.param({"a": 1}, {"a": 1, "b": 2}, [], id="a default of the API's"),
        pytest.param({"a": [1, 2, 3]}, {"a": [1, 3]}, ["a[1]: gone, recorded 2"], id="from the middle"),
        pytest.param({"a": [1, 2]}, {"a": [1, 2, 3]}, ["a: 3 added"], id="added"),
        pytest.param({"a": [1, 2]}, {"a": [1, 9]}, ["a[1]: 9, recorded 2"], id="one for one"),
        pytest.param(
            {"env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
            {"env": [{"name": "Y", "value": "3"}, {"name": "X", "value": "1"}]},
            ['env[Y].value: "3", recorded "2"'],
            id="by name, in whatever order",
        ),
        pytest.param(
            {"env": [{"name": "X"}]},
            {"env": [{"name": "Z"}]},
            ['env[X]: gone, recorded {"name": "X"}', 'env: {"name": "Z"} added'],
            id="another name is another element",
        ),
        pytest.param(
            {"x-kubernetes-list-type": "map"}, {"x_kubernetes_list_type": "map"}, [], id="extension"
        ),
        pytest.param({"password": "[secret]"}, {"password": "canary-81d0"}, [], id="secret"),
        pytest.param({"a": "canary-81d0"}, {"a": "[secret]"}, [], id="secret of now"),
        pytest.param({"a": {"b": 1}}, {"a": "text"}, ['a: "text", recorded {"b": 1}'], id="another shape"),
    ],
)
def test_each_difference_is_one_line(recorded: Json, found: Json, lines: list[str]) -> None:
    assert reported(recorded, found) == lines


@given(value=st.dictionaries(st.text(max_size=5), VALUES, max_size=4))
def test_what_is_as_recorded_has_none(value: Json) -> None:
    assert reported(value, copy.deepcopy(value)) == []


@given(recorded=VALUES, found=VALUES)
def test_any_two_values_can_be_compared(recorded: object, found: object) -> None:
    assert all(isinstance(line, str) for line in [*changed(recorded, found), *added(recorded, found)])


def test_what_is_gone_is_named_as_its_users_know_it() -> None:
    image = "pulumi-python:dynamic/containers:Image"
    found = differences(
        [
            outcome("delete", recorded={}, found=None),
            outcome("delete", recorded={}, found=None, type=image),
            {"diagnosticEvent": {"severity": "info", "message": "waiting"}},
        ]
    )
    assert [str(item) for item in found] == [
        "  Image space/name: not on every node",
        "  Service space/name: gone",
    ]


def test_addition_that_pulumi_does_not_see_is_a_difference_all_the_same() -> None:
    seen = outcome("same", recorded={"rules": [1]}, found={"rules": [1, 2], "status": {"ready": True}})
    [found] = differences([seen])
    assert str(found) == "  Service space/name\n    rules: 2 added"
    assert differences([outcome("same", recorded={"rules": [1]}, found={"rules": [1]})]) == []


@pytest.mark.parametrize("type", ["pulumi:providers:kubernetes", "kindling:components:Images"])
def test_what_is_no_thing_of_its_own_cannot_be_damaged(type: str) -> None:
    event = outcome("update", recorded={"a": 1}, found={"a": 2}, type=type)
    event["resOutputsEvent"]["metadata"]["old"]["custom"] = type.startswith("pulumi:")
    assert differences([event]) == []


def test_changed_secret_is_reported_without_its_value() -> None:
    event = outcome("update", recorded={"password": "[secret]"}, found={"password": "canary-81d0"})
    event["resOutputsEvent"]["metadata"]["detailedDiff"] = {"password": {"diffKind": "update"}}
    [found] = differences([event])
    assert found.fields == ("password: another value",)


def test_long_value_is_cut() -> None:
    [line] = changed({"a": "x"}, {"a": "y" * 1000})
    assert len(line) < 200


def test_complaint_of_sixteen_objects_is_reported_once() -> None:
    said = [{"diagnosticEvent": {"severity": "warning", "message": "unreachable\n"}}] * 16
    end = {"diagnosticEvent": {"severity": "error", "message": "preview failed"}}
    assert complaints([*said, end]) == ["unreachable"]
    assert complaints([json.loads('{"cancelEvent": {}}')]) == []
