"""docs/comparison.md says "no" of what there is no field for: a "no" that was true once is a false claim."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from infra import yaml_text
from infra.paths import REPOSITORY
from tests import guides
from tests.unit.docs.pages import rows, text

PAGE = text("comparison.md")
NO = "**no**"
KINDS = {"PostgreSQL": "Postgresql", "Memcached": "Memcached", "Consumers of Pulsar": "PulsarConsumer"}
"""The kind of each section, by the words with which its heading begins."""
FIELDS: Mapping[str, str] = {
    "replicas, failover, switchover": r"replica|instances|failover",
    "connection pooling": r"pool",
    "major upgrade in place": r"[uU]pgrade",
    "item size, extra arguments, own image": r"\.image$|itemSize|[aA]rgs",
    "items that outlast a restart (a memory file)": r"persistence|memoryFile",
    "login": r"[sS]asl",
    "volumes, sidecars": r"\.volumes|sidecars",
    "topics and rights as resources": r"createTopic|permissions",
}
"""What a field of the spec would be called that makes it a yes, by the feature, as a pattern."""
NO_FIELD = {
    "several PostgreSQL versions in the operator's own images": "operator/images/postgres has one version",
    "signed images": "a release signs its checksums",
    "versioned releases": "CHANGELOG.md has no release yet",
}
"""Why those are a no that no field of a spec would make a yes."""


def features() -> Iterator[tuple[str, str]]:
    """Heading and feature of each row that is a no of ours."""
    for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        heading = part.splitlines()[0]
        yield from ((heading, row[0]) for row in rows(part) if len(row) > 1 and NO in row[1])


def specs(kind: str) -> Iterator[dict[str, Any]]:
    """The schema of the spec, in each group and version."""
    for file in sorted((REPOSITORY / "crds").glob("*.yaml")):
        crd = yaml_text.load(file.read_text())
        if crd["spec"]["names"]["kind"] == kind:
            for version in crd["spec"]["versions"]:
                yield version["schema"]["openAPIV3Schema"]["properties"]["spec"]


def fields(kind: str) -> Iterator[str]:
    for schema in specs(kind):
        yield from _paths(schema, "spec")


def _paths(schema: dict[str, Any], path: str) -> Iterator[str]:
    yield path
    for name, inner in (schema.get("properties") or {}).items():
        yield from _paths(inner, f"{path}.{name}")
    if isinstance(schema.get("items"), dict):
        yield from _paths(schema["items"], path)


@pytest.mark.parametrize(("heading", "feature"), list(features()), ids=str)
def test_a_no_has_no_field(heading: str, feature: str) -> None:
    if feature in NO_FIELD:
        return
    (kind,) = (kind for words, kind in KINDS.items() if heading.startswith(words))
    assert [path for path in fields(kind) if re.search(FIELDS[feature], path)] == []


def test_each_entry_here_is_a_no_there() -> None:
    assert {*FIELDS, *NO_FIELD} <= {feature for _, feature in features()}


def test_there_may_be_as_many_caches_as_the_schema_admits() -> None:
    most = max(schema["properties"]["size"]["maximum"] for schema in specs("Memcached"))
    (row,) = (row for row in rows(PAGE) if row[0] == "more than 3 replicas")
    assert row[1] == f"yes, up to {most}"


@pytest.mark.parametrize(
    ("words", "kind", "field"),
    [
        ("a container beside the consumer", "PulsarConsumer", "spec.handler.container"),
        ("by `spec.serviceTemplate`", "Postgresql", "spec.serviceTemplate"),
        ("`spec.storage.autoGrow`", "Postgresql", "spec.storage.autoGrow"),
        ("of any other moment on demand", "Restore", "spec.verify"),
    ],
)
def test_a_yes_has_its_field(words: str, kind: str, field: str) -> None:
    assert words in PAGE
    assert field in {*fields(kind)}


LIMITS = {
    "replication or failover": "replicas, failover, switchover",
    "connection pooling": "connection pooling",
    "major upgrade of PostgreSQL in place": "major upgrade in place",
}
"""What the README's limits call a feature, by what the comparison calls it."""


def test_what_the_readme_says_there_is_none_of_is_a_no_of_the_comparison() -> None:
    limits = " ".join(guides.section((REPOSITORY / "README.md").read_text(), "Limits").split())
    named = re.findall(r"\bno (.+?)(?=, no |, and no |\.)", limits)
    assert sorted(named) == sorted(LIMITS)
    assert set(LIMITS.values()) <= {feature for _, feature in features()}
