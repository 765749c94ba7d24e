"""What every CRD promises before a resource exists: served, structural, bounded, explained."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.apiserver.support.apiclient import Api, Json
from tests.apiserver.support.kinds import CRD_COLLECTION, KINDS, POSTGRESQL, POSTGRESQL_EXAMPLE, Kind

EACH_KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


def _fields(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Every field below a schema with its path; `[]` for what a list holds, `{}` for what a map does."""
    for name, below in schema.get("properties", {}).items():
        yield f"{path}.{name}", below
        yield from _fields(below, f"{path}.{name}")
    if "items" in schema:
        yield f"{path}[]", schema["items"]
        yield from _fields(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield f"{path}{{}}", schema["additionalProperties"]
        yield from _fields(schema["additionalProperties"], f"{path}{{}}")


def _users_fields(kind: Kind) -> list[tuple[str, Json]]:
    return [(path, field) for path, field in _fields(kind.schema) if path.startswith((".spec", ".status"))]


@EACH_KIND
def test_crd_is_established_without_complaint(api: Api, kind: Kind) -> None:
    stored = api.get(f"{CRD_COLLECTION}/{kind.id}").accepted()
    conditions = {condition["type"]: condition["status"] for condition in stored["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


@EACH_KIND
def test_crd_is_stored_as_its_file_has_it(api: Api, kind: Kind) -> None:
    """Nothing in a file is misspelt or misplaced, or the server would have dropped or refused it."""
    stored = api.get(f"{CRD_COLLECTION}/{kind.id}").accepted()["spec"]
    assert stored["versions"] == kind.manifest["spec"]["versions"]
    assert stored["names"] == kind.manifest["spec"]["names"]


@EACH_KIND
def test_file_bears_the_name_of_the_crd(kind: Kind) -> None:
    assert KINDS[kind.id] is kind


@EACH_KIND
def test_nothing_is_kept_that_the_schema_does_not_know(kind: Kind) -> None:
    open_ended = {"x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"}
    # A map of the user's own names is known when its values are and their number is bounded.
    assert [
        path
        for path, field in _fields(kind.schema)
        if open_ended & field.keys()
        or field.get("additionalProperties") is True
        or ("additionalProperties" in field and "maxProperties" not in field)
    ] == []


@EACH_KIND
def test_every_field_is_explained(kind: Kind) -> None:
    fields = [("", kind.schema), *_users_fields(kind)]
    assert [
        path
        for path, field in fields
        if not path.endswith("[]") and not field.get("description", "").endswith(".")
    ] == []


@EACH_KIND
def test_every_value_is_bounded(kind: Kind) -> None:
    """No resource can grow without limit, and the cost of the CEL rules stays known."""
    bounded_by = {
        "string": ({"maxLength"}, {"enum"}),
        "integer": ({"minimum", "maximum"}, {"minimum", "format"}),
        "array": ({"maxItems"},),
    }
    unbounded = [
        path
        for path, field in _users_fields(kind)
        if field.get("format") != "date-time"
        and not any(
            bounds <= field.keys() for bounds in bounded_by.get(field.get("type", "string"), ({"type"},))
        )
    ]
    assert unbounded == []


@EACH_KIND
def test_status_has_the_conditions_that_every_tool_reads(kind: Kind) -> None:
    """One shape for all kinds; only the sentence that explains the list is each kind's own."""
    shapes = []
    for one in (kind, POSTGRESQL):
        status = one.schema["properties"]["status"]
        shape = {name: status["properties"][name] for name in ("observedGeneration", "conditions")}
        conditions = {**shape["conditions"], "description": ""}
        shapes.append({**shape, "conditions": conditions, "default": status["default"]})
    assert shapes[0] == shapes[1]
    assert shapes[0]["conditions"]["x-kubernetes-list-map-keys"] == ["type"]


def test_postgresql_is_one_schema_in_two_groups() -> None:
    assert POSTGRESQL.version == POSTGRESQL_EXAMPLE.version


def test_no_two_kinds_share_a_short_name(api: Api) -> None:
    names = [short for kind in KINDS.values() for short in kind.manifest["spec"]["names"]["shortNames"]]
    assert sorted(set(names)) == sorted(names)
    built_in = api.get("/api/v1").accepted()["resources"] + api.get("/apis/apps/v1").accepted()["resources"]
    assert not set(names) & {short for resource in built_in for short in resource.get("shortNames", [])}
