"""Reasons come from `kindling.kinds.reasons` alone: no other file has one as a literal, and each is used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kindling.kinds import reasons

from infra.paths import REPOSITORY

OPERATOR = REPOSITORY / "operator" / "src" / "kindling"
CATALOGUE = OPERATOR / "kinds" / "reasons.py"
CONSTANTS = {
    name: value for name, value in vars(reasons).items() if name[0] != "_" and isinstance(value, str)
}
OF_OTHERS = {
    ("diff/decision.py", "RestartPending"): "the type of a condition",
    ("diff/effects.py", "Succeeded"): "the phase of a Pod",
    ("engine/events.py", "RestartPending"): "the type of a condition",
    ("engine/plan_for.py", "Paused"): "the type of a condition",
    ("kinds/backup/deletion.py", "Paused"): "the type of a condition",
    ("kinds/backup/deletion.py", "RestartPending"): "the type of a condition",
    ("kinds/backup/metrics.py", "Archiving"): "the type of a condition",
    ("kinds/backup/results.py", "Running"): "the phase of a run",
    ("kinds/backup/results.py", "Succeeded"): "the phase of a run",
    ("kinds/backup/status.py", "Archiving"): "the type of a condition",
    ("kinds/conditions.py", "Archiving"): "the type of a condition",
    ("kinds/planned.py", "DataLost"): "a disruption",
    ("kinds/restore/decisions.py", "Restored"): "the phase of a restore",
    ("kinds/restore/decisions.py", "Restoring"): "the phase of a restore",
    ("kinds/restore/decisions.py", "Undone"): "the phase of a restore",
    ("kinds/restore/progress.py", "Running"): "the phase of a Pod",
    ("kinds/postgresql/pending.py", "RestartPending"): "the type of a condition",
    ("kinds/postgresql/status.py", "Paused"): "the type of a condition",
    ("kinds/postgresql/updates.py", "Manual"): "a value of spec.updates",
    ("kinds/postgresql/volume.py", "Resizing"): "the type of a claim's condition",
    ("kinds/pods.py", "Succeeded"): "the phase of a Pod",
    ("kinds/progress.py", "FailedCreate"): "the reason of a controller's Event",
}
"""Words that are a reason too, by what they are in that file."""
MAKERS = {"Answer", "Pending", "Problem", "condition", "replace"}
"""What takes a reason."""


def files() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(OPERATOR.rglob("*.py")):
        if path != CATALOGUE:
            yield path.relative_to(OPERATOR).as_posix(), ast.parse(path.read_text())


def literals(tree: ast.Module) -> set[str]:
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_no_reason_is_written_as_a_literal() -> None:
    found = {(file, word) for file, tree in files() for word in literals(tree) & set(reasons.CATALOGUE)}
    assert found == set(OF_OTHERS), "use the constant of kindling.kinds.reasons"


def test_every_condition_has_a_reason_of_the_catalogue() -> None:
    """A literal that is no reason at all would escape the other test."""
    for file, tree in files():
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in MAKERS:
                given = [word.value for word in call.keywords if word.arg == "reason"]
                assert not [word for word in given if isinstance(word, ast.Constant)], f"{file}:{call.lineno}"


def test_every_reason_is_used() -> None:
    used = {
        node.attr
        for _, tree in files()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "reasons"
    }
    assert set(CONSTANTS) - used == set()


def test_constants_and_catalogue_are_the_same() -> None:
    assert sorted(CONSTANTS.values()) == sorted(reasons.CATALOGUE)
    for reason in reasons.CATALOGUE.values():
        assert re.fullmatch(r"[A-Z][A-Za-z0-9]{0,62}", reason.name)  # as the CRDs admit it
        assert re.fullmatch(r".+[^.]", reason.meaning)
        assert re.fullmatch(r".+[^.]", reason.next)


def test_groups_are_contiguous() -> None:
    """Each is one table of the page."""
    groups = [reason.group for reason in reasons.CATALOGUE.values()]
    assert groups == sorted(groups, key=groups.index)
