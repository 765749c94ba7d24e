"""Data, image and spec are of one major version of PostgreSQL, or nothing is touched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kindling.kinds.base import ExternalResult, SyncResult, Terminal
from kindling.kinds.conditions import find_condition
from kindling.kinds.postgresql import version
from kindling.kinds.postgresql.volume import VERSION_LABEL
from kindling.kube.resources import VOLUME_CLAIM, Object, Ref

from tests.unit.operator.postgresqls import KIND, observed, postgresql, running, volume

CLAIM = Ref(VOLUME_CLAIM, "ns", "db-data")


def data_of(major: str | None) -> dict[Ref, Object]:
    known = volume()
    if major:
        known[CLAIM]["metadata"]["labels"] = {VERSION_LABEL: major}
    return known


def recorded(cr: Object, known: dict[Ref, Object]) -> str | None:
    (claim,) = [child.body for child in KIND.desired(cr, observed(known)) if child.type == VOLUME_CLAIM]
    found: str | None = claim["metadata"]["labels"].get(VERSION_LABEL)
    return found


def test_constant_is_what_the_image_installs() -> None:
    containerfile = Path(__file__).parents[3] / "operator/images/postgres/Containerfile"
    assert re.findall(r'"postgresql-(\d+)"', containerfile.read_text()) == [version.BUNDLED]


@pytest.mark.parametrize(
    ("spec", "there", "label"),
    [
        ({}, None, "17"),
        ({"version": "17"}, None, "17"),
        ({"version": "16", "image": "postgres:16"}, None, "16"),
        ({"image": "mine"}, None, None),  # who knows
        ({}, "16", "16"),  # an operator with a newer image leaves it alone
        ({"image": "mine"}, "16", "16"),
    ],
)
def test_volume_remembers_what_it_was_made_for(spec: Object, there: str | None, label: str | None) -> None:
    assert recorded(postgresql(**spec), data_of(there) if there else {}) == label


@pytest.mark.parametrize(
    ("spec", "there", "reason", "words"),
    [
        ({}, "17", None, []),
        ({}, None, None, []),
        ({"version": "17"}, "17", None, []),
        ({"version": "16", "image": "postgres:16"}, "16", None, []),
        ({"image": "mine"}, "16", None, []),
        ({"version": "17"}, "16", "VersionConflict", ["'17'", "db-data", "16", "pg_dump"]),
        ({"version": "17", "image": "postgres:17"}, "16", "VersionConflict", ["16"]),
        ({"version": "16"}, None, "VersionUnavailable", ["'16'", "PostgreSQL 17", "spec.image"]),
        ({}, "16", "VersionUnavailable", ["16", "PostgreSQL 17", "postgres:16"]),
        ({"version": "16", "storage": {"ephemeral": True}, "image": "postgres:16"}, "17", None, []),
    ],
)
def test_version_conflicts(spec: Object, there: str | None, reason: str | None, words: list[str]) -> None:
    problem = KIND.validate(postgresql(**spec), observed(data_of(there)))
    assert (problem.reason if problem else None) == reason
    if problem is not None:
        assert [word for word in words if word not in problem.message] == []


def test_what_the_server_said_counts_where_the_volume_says_nothing() -> None:
    cr = postgresql(status={"version": "16.9"})
    problem = KIND.validate(cr, observed(data_of(None)))
    assert problem is not None
    assert problem.reason == "VersionUnavailable"
    assert KIND.validate(cr, observed()) is None  # no data, no conflict


@pytest.mark.parametrize(
    ("asked", "reason"), [("16", "VersionMismatch"), ("17", "LoginSucceeded"), (None, "LoginSucceeded")]
)
def test_server_of_another_version_is_not_ready(asked: str | None, reason: str) -> None:
    answer = ExternalResult(ok=True, facts={"login": True, "version": "17.5"})
    cr = postgresql(image="mine", version=asked)
    made = KIND.status(cr, observed(running()), SyncResult(in_sync=True, results={"server": answer}))
    assert find_condition(made.status, "Ready")["reason"] == reason
    assert made.status["version"] == "17.5"
    assert find_condition(made.status, "Available")["status"] == "True"
    assert (made.result == Terminal(reason)) is (reason == "VersionMismatch")


def test_version_is_kept_while_the_server_cannot_be_asked() -> None:
    made = KIND.status(postgresql(status={"version": "17.5"}), observed(), SyncResult(in_sync=False))
    assert made.status["version"] == "17.5"
