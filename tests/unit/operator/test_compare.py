"""`satisfies` sees every difference in what we set, and none in what the API server adds or respells."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kindling.engine.compare import field_set_hash, fingerprint, merge_patch, satisfies
from kindling.kube.resources import Object

from tests.model.memory import merged

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=4)


@given(OBJECTS)
def test_holds_itself(obj: dict[str, Any]) -> None:
    assert satisfies(obj, copy.deepcopy(obj))


@given(OBJECTS, OBJECTS)
def test_what_others_add_does_not_matter(obj: dict[str, Any], more: dict[str, Any]) -> None:
    assert satisfies(obj, {**more, **obj})


@pytest.mark.parametrize(
    ("desired", "observed"),
    [
        ({"a": {}}, {}),
        ({"a": None, "b": False, "c": 0, "d": ""}, {}),
        ({"limits": {"cpu": 1, "memory": "1Gi"}}, {"limits": {"cpu": "1", "memory": "1024Mi"}}),
        ({"emptyDir": {"sizeLimit": "1024Mi"}}, {"emptyDir": {"sizeLimit": "1Gi"}}),
        # defaulted inside a list that merges by key, in another order, beside someone else's element
        (
            {"containers": [{"name": "a", "image": "x"}, {"name": "b"}]},
            {
                "containers": [
                    {"name": "c"},
                    {"name": "b", "tty": True},
                    {"name": "a", "image": "x", "tty": False},
                ]
            },
        ),
        ({"ports": [{"containerPort": 1}]}, {"ports": [{"containerPort": 1, "protocol": "TCP"}]}),
        (
            {"ports": [{"port": 1, "protocol": "UDP"}]},
            {"ports": [{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}]},
        ),
    ],
)
def test_held(desired: Any, observed: Any) -> None:
    assert satisfies(desired, observed)


@pytest.mark.parametrize(
    ("desired", "observed"),
    [
        ({"a": 1}, {}),
        ({"a": 1}, {"a": 2}),
        ({"a": True}, {"a": 1}),
        ({"a": False}, {"a": True}),
        ({"a": 0}, {"a": 3}),
        ({"a": {"b": 1}}, {"a": "b"}),
        ({"a": {}}, {"a": "b"}),
        ({"command": ["x", "y"]}, {"command": ["x", "y", "z"]}),
        ({"command": ["x", "y"]}, {"command": ["y", "x"]}),
        ({"command": ["x", "y"]}, {"command": "x y"}),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "1001m"}}),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "much"}}),  # no quantity; another writer set it
        ({"data": {"cpu": "1"}}, {"data": {"cpu": "1000m"}}),  # a number only where the API says so
        ({"containers": [{"name": "a"}]}, {"containers": []}),
        # of a variable that is there twice, the last one counts
        ({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "A", "value": "1"}, {"name": "A"}]}),
        ({"containers": [{"name": "a", "image": "x"}]}, {"containers": [{"name": "a", "image": "y"}]}),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}]},
            {"volumeMounts": [{"name": "v", "mountPath": "/b"}]},
        ),
        ({"ownerReferences": [{"uid": "1"}]}, {"ownerReferences": [{"uid": "2"}]}),
    ],
)
def test_missed(desired: Any, observed: Any) -> None:
    assert not satisfies(desired, observed)


def test_fingerprint_depends_on_fields_but_not_on_secrets() -> None:
    secret = {"type": "Opaque", "data": {"password": "a"}}
    assert fingerprint(secret) == fingerprint({"type": "Opaque", "data": {"password": "b"}})
    assert fingerprint(secret) != fingerprint({"type": "Opaque", "data": {"password": "a", "user": "b"}})
    assert fingerprint({"spec": {"a": 1}}) != fingerprint({"spec": {"a": 2}})
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


LEAVES = st.booleans() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
STATUSES = st.recursive(
    st.dictionaries(st.sampled_from("abcd"), LEAVES, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), LEAVES | inner, max_size=3),
    max_leaves=8,
)


@given(STATUSES, STATUSES)
def test_merge_patch_leads_there_and_is_empty_at_the_end(
    known: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert merged(known, merge_patch(known=known, wanted=wanted)) == wanted
    assert merge_patch(known=wanted, wanted=wanted) == {}


@pytest.mark.parametrize(
    ("wanted", "stored"), [("7.11940m", "8m"), ("0.0001", "1m"), ("9999999999999G", str(2**63 - 1))]
)
def test_quantities_compare_as_the_server_stores_them(wanted: str, stored: str) -> None:
    assert satisfies({"limits": {"cpu": wanted}}, {"limits": {"cpu": stored}})
    assert not satisfies({"limits": {"cpu": wanted}}, {"limits": {"cpu": "2"}})


def test_within_a_list_that_is_replaced_as_a_whole_nothing_is_merged() -> None:
    rule = {"ports": [{"port": "postgresql", "protocol": "TCP"}]}
    opened = {"ports": [*rule["ports"], {"port": 22, "protocol": "TCP"}]}
    assert satisfies({"ingress": [rule]}, {"ingress": [rule]})
    assert not satisfies({"ingress": [rule]}, {"ingress": [opened]})
    assert satisfies({"spec": rule}, {"spec": opened})  # a Service's ports are merged


@pytest.mark.parametrize(
    "field", ["automountServiceAccountToken", "enableServiceLinks", "allowPrivilegeEscalation"]
)
def test_a_switch_that_is_on_unless_said_is_not_off_when_left_out(field: str) -> None:
    assert not satisfies({field: False}, {})
    assert satisfies({field: False}, {field: False})


# Two elements of each list that the API merges by a key: as applied, and as the API server stores them.
MAP_LISTS: dict[str, list[tuple[Object, Object]]] = {
    "containers": [
        (
            {"name": "server", "image": "a"},
            {"name": "server", "image": "a", "terminationMessagePolicy": "File"},
        ),
        ({"name": "sidecar", "image": "b"}, {"name": "sidecar", "image": "b", "resources": {}}),
    ],
    "initContainers": [
        ({"name": "one", "image": "a"}, {"name": "one", "image": "a", "imagePullPolicy": "IfNotPresent"}),
        ({"name": "two", "image": "a"}, {"name": "two", "image": "a", "imagePullPolicy": "IfNotPresent"}),
    ],
    "volumes": [
        (
            {"name": "config", "configMap": {"name": "a"}},
            {"name": "config", "configMap": {"name": "a", "defaultMode": 420}},
        ),
        ({"name": "scratch", "emptyDir": {}}, {"name": "scratch", "emptyDir": {}}),
    ],
    "env": [
        ({"name": "A", "value": "1"}, {"name": "A", "value": "1"}),
        (
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "B", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        ),
    ],
    "volumeMounts": [
        ({"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/a", "readOnly": True}),
        ({"name": "data", "mountPath": "/b"}, {"name": "data", "mountPath": "/b"}),
    ],
    "ports": [
        ({"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "UDP", "targetPort": 53}),
        ({"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "TCP", "targetPort": 53}),
    ],
    "ownerReferences": [
        ({"name": "a", "uid": "1"}, {"name": "a", "uid": "1", "blockOwnerDeletion": True}),
        ({"name": "a", "uid": "2"}, {"name": "a", "uid": "2"}),
    ],
    "hostAliases": [
        ({"ip": "::1", "hostnames": ["a"]}, {"ip": "::1", "hostnames": ["a"]}),
        ({"ip": "127.0.0.1", "hostnames": ["a"]}, {"ip": "127.0.0.1", "hostnames": ["a"]}),
    ],
    "imagePullSecrets": [({"name": "a"}, {"name": "a"}), ({"name": "b"}, {"name": "b"})],
    "topologySpreadConstraints": [
        (
            {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 1},
            {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 1, "minDomains": 1},
        ),
        (
            {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1},
            {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1},
        ),
    ],
}


@pytest.mark.parametrize("field", MAP_LISTS)
def test_elements_of_a_merged_list_are_found_in_any_order_with_defaults_and_beside_others(field: str) -> None:
    ours, stored = (list(side) for side in zip(*MAP_LISTS[field], strict=True))
    theirs = dict.fromkeys(ours[0], "another's")
    assert satisfies({field: ours}, {field: [theirs, *reversed(stored)]})
    assert not satisfies({field: ours}, {field: [theirs, stored[0]]})
    for name in ours[1]:
        assert not satisfies({field: ours}, {field: [stored[0], {**stored[1], name: "edited"}]})


@pytest.mark.parametrize(
    ("field", "ours"),
    [
        ("command", ["postgres", "-c"]),
        ("tolerations", [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]),
        ("accessModes", ["ReadWriteOnce", "ReadOnlyMany"]),
        ("policyTypes", ["Ingress", "Egress"]),
    ],
)
def test_any_other_list_is_equal_or_not(field: str, ours: list[Any]) -> None:
    assert satisfies({field: ours}, {field: [*ours]})
    assert not satisfies({field: ours}, {field: ours[::-1]})
    assert not satisfies({field: ours}, {field: [*ours, ours[0]]})


SELECTOR = {"matchLabels": {"app": "a"}}


@pytest.mark.parametrize(
    "ours",
    [
        {"spec": {"selector": {"app": "a"}}},  # a Service
        {"spec": {"selector": SELECTOR}},  # a Deployment
        {"spec": {"podSelector": SELECTOR}},  # a NetworkPolicy, and whom it lets in
        {"spec": {"ingress": [{"from": [{"podSelector": SELECTOR}, {"namespaceSelector": SELECTOR}]}]}},
        {"spec": {"nodeSelector": {"app": "a"}}},  # a Pod
        {"spec": {"topologySpreadConstraints": [{"topologyKey": "zone", "labelSelector": SELECTOR}]}},
    ],
)
def test_a_selector_with_a_label_more_is_another_wherever_it_stands(ours: Object) -> None:
    def with_one_more(value: Any) -> Any:
        if isinstance(value, list):
            return [with_one_more(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        more = {"more": "b"} if "app" in value else {}
        return {**{name: with_one_more(inner) for name, inner in value.items()}, **more}

    assert satisfies(ours, copy.deepcopy(ours))
    assert not satisfies(ours, with_one_more(ours))


def test_a_label_more_selects_something_else() -> None:
    assert satisfies({"selector": {"app": "a"}}, {"selector": {"app": "a"}})
    assert not satisfies({"selector": {"app": "a"}}, {"selector": {"app": "a", "more": "b"}})
    policy: Object = {"ingress": [{"from": [{"namespaceSelector": {}}]}]}
    assert not satisfies(
        policy, {"ingress": [{"from": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]}]}
    )
    assert not satisfies(
        policy, {"ingress": [{"from": [{"namespaceSelector": {}, "podSelector": {"a": "b"}}]}]}
    )


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"spec": {"a": 1}}, {"spec": {"a": [2, 3]}}, True),
        ({"spec": {"a": 1}}, {"spec": {"b": 1}}, False),
        ({"spec": {"a": {"b": 1}}}, {"spec": {"a": {"b": 1, "c": 1}}}, False),
        ({"ports": [{"port": 1, "name": "a"}]}, {"ports": [{"port": 2, "name": "a"}]}, False),
        ({"ports": [{"containerPort": 1}]}, {"ports": [{"containerPort": 2}]}, False),
        ({"containers": [{"name": "a", "image": "1"}]}, {"containers": [{"name": "a", "image": "2"}]}, True),
        ({"containers": [{"name": "a"}]}, {"containers": [{"name": "b"}]}, False),
        ({"env": [{"name": "a", "value": "1"}]}, {"env": [{"name": "a", "valueFrom": {}}]}, False),
        ({"volumeMounts": [{"mountPath": "a"}]}, {"volumeMounts": [{"mountPath": "b"}]}, False),
        ({"args": ["a"]}, {"args": ["b", "c"]}, True),
        ({"data": {"password": "a"}}, {"data": {"password": "b"}}, True),
    ],
)
def test_shape_is_which_fields_there_are(one: Object, other: Object, same: bool) -> None:
    assert (field_set_hash(one) == field_set_hash(other)) is same


@pytest.mark.parametrize("field", ["annotations", "data", "labels"])
def test_an_empty_value_in_a_map_of_names_is_there_or_it_is_not(field: str) -> None:
    """The server leaves out an empty field of its own; what users name, it keeps."""
    assert satisfies({field: {"note": ""}}, {field: {"note": "", "other": "x"}})
    assert not satisfies({field: {"note": ""}}, {field: {"other": "x"}})
    assert not satisfies({field: {"note": ""}}, {})
    assert satisfies({field: {}}, {})
