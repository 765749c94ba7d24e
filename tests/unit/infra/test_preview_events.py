"""Events to changes: the engine's events for each step and state become one change a resource, no secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.cli.preview.events import ABSENT, LATER, SECRET, Change, Difference, Preview, Verb, read

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
HIDDEN = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "[secret]"}
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def step(
    op: str,
    *,
    type: str = CONFIG_MAP,
    name: str = "one",
    old: Any = None,
    new: Any = None,
    custom: bool = True,
    **more: Any,
) -> str:
    """A line as the engine writes it; `old` and `new` are inputs."""
    urn = f"urn:pulumi:dev::kindling::kindling:components:Platform${type}::{name}"
    sides = {
        side: None if inputs is None else {"urn": urn, "type": type, "custom": custom, "inputs": inputs}
        for side, inputs in (("old", old), ("new", new))
    }
    metadata = {"op": op, "urn": urn, "type": type, "detailedDiff": None, **sides, **more}
    return json.dumps({"resourcePreEvent": {"metadata": metadata, "planning": True}})


def updated(path: str, before: Any, after: Any, *, kind: str = "update", **more: Any) -> Preview:
    detailed = {path: {"diffKind": kind, "inputDiff": False}}
    return read([step("update", old=before, new=after, detailedDiff=detailed, **more)])


def difference(path: str, before: Any, after: Any) -> tuple[str, str]:
    ((found,),) = (change.differences for change in updated(path, before, after).changes)
    assert found.path == path
    return found.before, found.after


def test_a_replacement_of_three_steps_is_one_change() -> None:
    old, new = {"data": {"a": "1"}}, {"data": {"a": "2"}}
    detailed = {"data.a": {"diffKind": "update-replace", "inputDiff": False}}
    lines = [
        step("delete-replaced", old=old),
        step("create-replacement", old=old, new=new, detailedDiff=detailed, keys=["data.a"]),
        step("replace", old=old, new=new, detailedDiff=detailed, keys=["data.a"]),
        step("delete-replaced", old=old),
    ]
    wanted = Change(Verb.REPLACED, CONFIG_MAP, "one", (Difference("data.a", "1", "2", forces=True),))
    assert read(lines).changes == (wanted,)


def test_without_details_the_engines_keys_say_what_differs() -> None:
    lines = [step("update", old={"seconds": 1}, new={"seconds": 2}, diffs=["seconds"])]
    assert read(lines).changes[0].differences == (Difference("seconds", "1", "2"),)
    lines = [step("replace", old={"name": "a"}, new={"name": "b"}, keys=["name"], diffs=["name"])]
    assert read(lines).changes[0].differences == (Difference("name", "a", "b", forces=True),)


@pytest.mark.parametrize(
    ("type", "path", "verb"),
    [
        (DEPLOYMENT, "spec.template.spec.containers[0].image", Verb.ROLLED),
        ("kubernetes:apps/v1:StatefulSet", 'spec.template.metadata.annotations["a/b"]', Verb.ROLLED),
        (DEPLOYMENT, "spec.replicas", Verb.UPDATED),
        (DEPLOYMENT, "metadata.labels.app", Verb.UPDATED),
        (CONFIG_MAP, "spec.template", Verb.UPDATED),
    ],
)
def test_a_new_template_rolls(type: str, path: str, verb: Verb) -> None:
    (change,) = updated(path, {}, {}, type=type).changes
    assert change.verb is verb


def test_what_only_groups_is_no_resource() -> None:
    lines = [
        step("create", type="pulumi:pulumi:Stack", new={}, custom=False),
        step("create", type="kindling:components:Crds", new={}, custom=False),
        step("create", type="pulumi:providers:pulumi-python", name="default", new={}),
        step("create", type="pulumi:providers:kubernetes", name="cluster", new={}),
        step("same", old={}, new={}),
        step("read", name="two", new={}),
    ]
    found = read(lines)
    assert [(change.kind, change.name) for change in found.changes] == [("Provider", "cluster")]
    assert found.unchanged == 1


def test_the_gravest_comes_first_whatever_the_order() -> None:
    lines = [
        step("create", name="b", new={}),
        step("create", name="a", new={}),
        step("update", name="c", old={}, new={}),
        step("delete", name="e", old={}),
        step("replace", name="d", old={}, new={}),
    ]
    names = [change.name for change in read(lines).changes]
    assert names == ["e", "d", "c", "a", "b"]
    assert [change.name for change in read(reversed(lines)).changes] == names


@pytest.mark.parametrize(
    ("path", "before", "after", "reported"),
    [
        ("a.b", {"a": {"b": 1}}, {"a": {"b": True}}, ("1", "true")),
        ("a[1].b", {"a": [0, {"b": "x"}]}, {"a": [0, {"b": "y"}]}, ("x", "y")),
        ('a["b.c/d"]', {"a": {}}, {"a": {"b.c/d": "x"}}, (ABSENT, "x")),
        ('a["q\\"q"]', {"a": {'q"q': "x"}}, {}, ("x", ABSENT)),
        ("a", {"a": {"b": UNKNOWN}}, {"a": UNKNOWN}, ('{"b": "(known later)"}', LATER)),
        ("a[7]", {"a": []}, {"a": "text"}, (ABSENT, ABSENT)),
    ],
)
def test_values_are_found_at_their_path(
    path: str, before: Any, after: Any, reported: tuple[str, str]
) -> None:
    assert difference(path, before, after) == reported


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("spec.word", {"spec": {"word": HIDDEN}}, {"spec": {"word": HIDDEN}}),
        # Plain before or after: the other side would reveal it.
        ("spec.word", {"spec": {"word": "canary"}}, {"spec": {"word": HIDDEN}}),
        ("spec.word", {"spec": {"word": HIDDEN}}, {"spec": {"word": "canary"}}),
        ("spec.word", {"spec": HIDDEN}, {"spec": {"word": "canary"}}),
        ("spec.word", {"spec": {"word": "[secret]"}}, {"spec": {"word": "canary"}}),
        ("spec.password", {"spec": {"password": "canary"}}, {"spec": {"password": "canary2"}}),
        ("data.dbToken[0]", {"data": {"dbToken": ["canary"]}}, {"data": {"dbToken": []}}),
    ],
)
def test_a_secret_on_either_side_hides_both(path: str, before: Any, after: Any) -> None:
    assert difference(path, before, after) == (SECRET, SECRET)


def test_a_secret_within_a_value_is_hidden() -> None:
    before, after = difference("spec", {"spec": {"a": [HIDDEN], "password": "canary", "b": 1}}, {"spec": {}})
    assert json.loads(before) == {"a": [SECRET], "password": SECRET, "b": 1}
    assert after == "{}"


def test_a_switch_named_after_a_secret_is_none() -> None:
    path = "automountServiceAccountToken"
    assert difference(path, {path: True}, {path: False}) == ("true", "false")


def test_what_pulumi_keeps_for_itself_is_not_reported() -> None:
    assert updated("__provider", {"__provider": "a"}, {"__provider": "b"}).changes[0].differences == ()


def test_errors_are_reported_once_without_colors_and_notes_not_at_all() -> None:
    def diagnostic(severity: str, message: str) -> str:
        return json.dumps({"diagnosticEvent": {"severity": severity, "message": message}})

    lines = [
        diagnostic("debug", "canary"),
        diagnostic("info", "canary"),
        diagnostic("error", "<{%fg 1%}>broken<{%reset%}>\n"),
        diagnostic("error", "\x1b[31mbroken\x1b[0m"),
    ]
    assert read(lines).errors == ("broken",)


def test_a_log_cut_short_is_read_as_far_as_it_goes() -> None:
    line = step("create", new={})
    assert len(read([line, line[:40], "", "null", "[]"]).changes) == 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(UNKNOWN),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)


@given(before=json_values, after=json_values, path=st.text(alphabet='ab.[]"0\\', max_size=12))
def test_no_path_and_no_value_raises(before: Any, after: Any, path: str) -> None:
    updated(path, {"a": before}, {"a": after})


@given(value=json_values, path=st.sampled_from(["a", "a.b", "a[0]"]))
def test_a_secret_never_gets_out(value: Any, path: str) -> None:
    hidden = {"a": {"4dabf18193072939515e22adb298388d": "1b47", "value": value, "ciphertext": "canary"}}
    for change in (updated(path, hidden, {"a": value}), updated(path, {"a": value}, hidden)):
        assert all((item.before, item.after) == (SECRET, SECRET) for item in change.changes[0].differences)
