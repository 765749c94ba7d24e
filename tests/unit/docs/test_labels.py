"""docs/reference/labels-and-annotations.md lists every name that the operator uses, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra import yaml_text
from tests.unit.docs.pages import rows, strings, text, trees

PAGE = text("reference/labels-and-annotations.md")
# What users add to Pods (spec.podTemplate) and Services (spec.serviceTemplate) is not ours to list.
RECORDED = [
    path
    for path in sorted((Path(__file__).parents[1] / "operator" / "recorded").glob("*.yaml"))
    if not path.stem.endswith(("-placed", "-served"))
]
OURS = re.compile(r"kindling\.dev/[a-z-]+|app\.kubernetes\.io/[a-z-]+|argocd\.argoproj\.io/[a-z-]+")


def below(heading: str) -> set[str]:
    """The names in the first column of the table below a heading."""
    part = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return {name for row in rows(part) for name in re.findall(r"`([^`]+)`", row[0])}


def metadata(value: Any, field: str) -> Iterator[str]:
    """The names of all labels, or annotations, of an object and of the templates in it."""
    if isinstance(value, dict):
        if isinstance(value.get("metadata"), dict):
            yield from value["metadata"].get(field) or {}
        for inner in value.values():
            yield from metadata(inner, field)
    elif isinstance(value, list):
        for inner in value:
            yield from metadata(inner, field)


def recorded(field: str) -> set[str]:
    return {name for path in RECORDED for name in metadata(list(yaml_text.load_all(path.read_text())), field)}


def test_labels_of_children_are_those_that_children_have() -> None:
    assert below("Labels of children") == recorded("labels")


def test_annotations_of_children_are_those_that_children_have() -> None:
    written = below("Annotations of children") | below("Names of others")
    assert recorded("annotations") <= written


def test_every_name_in_the_source_is_listed_and_every_listed_name_is_there() -> None:
    source = {name for _, tree in trees("") for found in strings(tree) for name in OURS.findall(found)}
    listed = {name for name in re.findall(r"`([^`\s]+)`", PAGE) if OURS.fullmatch(name)}
    assert listed == source
