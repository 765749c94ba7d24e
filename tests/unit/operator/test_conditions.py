"""Conditions keep their time for as long as their truth stands."""

from __future__ import annotations

from datetime import UTC, datetime

from kindling.kinds.conditions import condition, dated, find

THEN, NOW = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 2, tzinfo=UTC)


def status(truth: bool | None, *, reason: str = "Because", generation: int = 1) -> dict[str, object]:
    return {"conditions": [condition("Ready", truth, reason=reason, message="m", generation=generation)]}


def test_time_changes_with_truth_alone() -> None:
    first = dated(status(False), known={}, now=THEN)
    assert find(first, "Ready")["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    again = dated(status(False, reason="Other", generation=2), known=first, now=NOW)
    assert find(again, "Ready")["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    turned = dated(status(True), known=again, now=NOW)
    assert find(turned, "Ready")["lastTransitionTime"] == "2026-02-02T00:00:00Z"


def test_condition_without_a_time_gets_one() -> None:
    assert find(dated(status(None), known=status(None), now=NOW), "Ready")["lastTransitionTime"]
    assert find(status(None), "Ready")["status"] == "Unknown"
    assert find({}, "Ready") == {}


def test_a_message_fits_what_the_crds_admit() -> None:
    made = condition("Ready", False, reason="Refused", message="x" * 5000, generation=1)
    assert len(made["message"]) == 4096
