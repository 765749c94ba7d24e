"""Property paths, as Pulumi has them."""

from __future__ import annotations

from typing import Any

import pytest

from infra.property_paths import covers, steps, well_formed, without

VALUE: dict[str, Any] = {
    "metadata": {"annotations": {"a.b/c": "1", "d": "2"}},
    "spec": {"list": [{"a": 1, "b": 2}, {"a": 3, "b": 4}], "n": 5},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("spec.n", ["spec", "n"]),
        ('metadata.annotations["a.b/c"]', ["metadata", "annotations", "a.b/c"]),
        ("spec.list[1].a", ["spec", "list", 1, "a"]),
        ("spec.list[*].a", ["spec", "list", "*", "a"]),
    ],
)
def test_a_path_is_taken_apart(path: str, expected: list[str | int]) -> None:
    assert well_formed(path)
    assert list(steps(path)) == expected


@pytest.mark.parametrize(
    "path", ["", "spec.", ".spec", "spec..n", "spec.list[0]", "spec.list[*]", "a[x].b", "[0].a"]
)
def test_what_is_no_path_to_a_field_is_reported(path: str) -> None:
    assert not well_formed(path)


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("spec.n", {**VALUE, "spec": {"list": VALUE["spec"]["list"]}}),
        ('metadata.annotations["a.b/c"]', {**VALUE, "metadata": {"annotations": {"d": "2"}}}),
        ("spec.list[1].a", {**VALUE, "spec": {"list": [{"a": 1, "b": 2}, {"b": 4}], "n": 5}}),
        ("spec.list[*].a", {**VALUE, "spec": {"list": [{"b": 2}, {"b": 4}], "n": 5}}),
        ("spec.nothing.there", VALUE),
        ("spec.n.deeper", VALUE),
    ],
)
def test_what_a_path_leads_to_is_cut_out_and_nothing_else(path: str, left: dict[str, Any]) -> None:
    before = repr(VALUE)
    assert without(VALUE, steps(path)) == left
    assert repr(VALUE) == before


def test_a_path_covers_itself_and_what_is_within() -> None:
    assert covers(steps("spec.list[*].a"), steps("spec.list[3].a.x"))
    assert covers(steps("spec"), steps("spec.n"))
    assert not covers(steps("spec.n"), steps("spec"))
    assert not covers(steps("spec.list[1].a"), steps("spec.list[2].a"))
