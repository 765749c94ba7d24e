"""Who edited a child, from managedFields as the API server writes them."""

from __future__ import annotations

import pytest
from kindling.engine.edits import Edit, Editor, edit
from kindling.kube.resources import Object

POSTGRES: Object = {".": {}, "f:image": {}, "f:name": {}}
CONTAINERS = {"f:containers": {'k:{"name":"postgres"}': POSTGRES, 'k:{"name":"proxy"}': {".": {}}}}
FIELDS = {
    "f:metadata": {"f:labels": {"f:team": {}}, "f:finalizers": {".": {}, 'v:"held"': {}}},
    "f:spec": {
        "f:replicas": {},
        "f:selector": {},
        "f:template": {"f:spec": CONTAINERS},
        "f:ports": {'k:{"port":5432,"protocol":"TCP"}': {".": {}, "f:name": {}}},
    },
}
TEMPLATE = ("spec", "template", "spec", "containers")


def entry(manager: str, fields: Object, **more: str) -> Object:
    return {"manager": manager, "operation": "Update", "fieldsV1": fields, "fieldsType": "FieldsV1", **more}


def live(*entries: Object) -> Object:
    return {"metadata": {"managedFields": list(entries)}}


@pytest.mark.parametrize(
    "path",
    [
        ("spec", "replicas"),
        ("spec", "selector", "matchLabels"),
        (*TEMPLATE, "postgres", "image"),
        (*TEMPLATE, "proxy"),
        ("spec", "ports", "5432", "name"),
        ("metadata", "labels"),
        ("metadata", "finalizers", "held"),
    ],
)
def test_the_owner_of_a_field_is_found(path: tuple[str, ...]) -> None:
    found = edit(live(entry("helm", FIELDS, time="2026-01-01T00:00:00Z")), [path])
    assert found.editors == [Editor("helm", "2026-01-01T00:00:00Z")]


@pytest.mark.parametrize(
    "path",
    [("spec", "paused"), (*TEMPLATE, "postgres", "args"), (*TEMPLATE, "sidecar"), ("spec", "ports", "80")],
)
def test_nobody_is_named_for_a_field_that_nobody_owns(path: tuple[str, ...]) -> None:
    found = edit(live(entry("helm", FIELDS, time="2026-01-01T00:00:00Z")), [path])
    assert found.editors == []
    assert str(found) == f"{'.'.join(path)} by another writer"


def test_neither_the_operator_nor_a_controller_of_the_status_is_named() -> None:
    ours, status = entry("kindling", FIELDS), entry("kube-controller-manager", FIELDS, subresource="status")
    assert edit(live(ours, status), [("spec", "replicas")]).editors == []


def test_the_latest_goes_first() -> None:
    found = edit(
        live(
            entry("old", FIELDS, time="2026-01-01T00:00:00Z"),
            entry("nameless", FIELDS),
            entry("new", {"f:spec": {"f:replicas": {}}}, time="2026-01-02T00:00:00Z", subresource="scale"),
            entry("old", FIELDS, time="2026-01-01T10:00:00Z"),
        ),
        [("spec", "replicas"), ("metadata", "labels", "team")],
    )
    assert [editor.manager for editor in found.editors] == ["new", "old", "nameless"]
    assert str(found) == (
        "spec.replicas and metadata.labels.team by new at 2026-01-02T00:00:00Z, old at 2026-01-01T10:00:00Z "
        "and nameless"
    )


def test_what_does_not_fit_is_counted() -> None:
    found = Edit([(str(number),) for number in range(7)], [Editor(name, "") for name in "abcde"])
    assert str(found) == "0, 1, 2, 3 and 3 more by a, b, c and 2 more"


@pytest.mark.parametrize("found", [{"metadata": {}}, live({"manager": "x"}), live(entry("", FIELDS))])
def test_what_the_server_does_not_say_is_not_guessed(found: Object) -> None:
    assert edit(found, [("spec", "replicas")]).editors == []
