"""Conditions keep their time for as long as their truth stands."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from kindling.kinds.base import Done, RequeueAfter, Result, StatusReport, Terminal
from kindling.kinds.conditions import (
    condition,
    find_condition,
    standard_conditions,
    status_of,
    with_stalled,
    with_transition_times,
)

THEN, NOW = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 2, tzinfo=UTC)


def status(truth: bool | None, *, reason: str = "Because", generation: int = 1) -> dict[str, object]:
    return {"conditions": [condition("Ready", truth, reason=reason, message="m", generation=generation)]}


def test_time_changes_with_truth_alone() -> None:
    first = with_transition_times(status(False), known={}, now=THEN)
    assert find_condition(first, "Ready")["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    again = with_transition_times(status(False, reason="Other", generation=2), known=first, now=NOW)
    assert find_condition(again, "Ready")["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    turned = with_transition_times(status(True), known=again, now=NOW)
    assert find_condition(turned, "Ready")["lastTransitionTime"] == "2026-02-02T00:00:00Z"


def test_condition_without_a_time_gets_one() -> None:
    assert find_condition(with_transition_times(status(None), known=status(None), now=NOW), "Ready")[
        "lastTransitionTime"
    ]
    assert find_condition(status(None), "Ready")["status"] == "Unknown"
    assert find_condition({}, "Ready") == {}


def test_a_message_fits_what_the_crds_admit() -> None:
    made = condition("Ready", False, reason="ApplyRejected", message="x" * 5000, generation=1)
    assert len(made["message"]) == 4096


@pytest.mark.parametrize(
    ("ready", "available", "broken", "truths", "reasons"),
    [
        (True, True, False, "True True False False", "Why Serving Why AsExpected"),
        (True, False, False, "True False False False", "Why Why Why AsExpected"),  # none is wanted
        (False, True, False, "False True True False", "Why Serving Why AsExpected"),
        (False, False, False, "False False True False", "Why Why Why AsExpected"),
        (False, True, True, "False True False True", "Why Serving Why Why"),
        (False, False, True, "False False False True", "Why Why Why Why"),
    ],
)
def test_each_of_the_four_says_why_it_is_as_it_is(
    ready: bool, available: bool, broken: bool, truths: str, reasons: str
) -> None:
    """What holds has a reason of its own to hold; what does not has Ready's."""
    found = standard_conditions(
        ready=ready,
        available=available,
        broken=broken,
        reason="Why",
        message="why",
        serving="it serves",
        generation=7,
    )
    assert [item["type"] for item in found] == ["Ready", "Available", "Progressing", "Degraded"]
    assert [item["status"] for item in found] == truths.split()
    assert [item["reason"] for item in found] == reasons.split()
    assert [item["message"] == "why" for item in found] == [reason == "Why" for reason in reasons.split()]
    assert {item["observedGeneration"] for item in found} == {7}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, {}),
        ({"status": None}, {}),
        ({"status": {"observedGeneration": -1}}, {}),
        ({"status": {"observedGeneration": -1, "conditions": []}}, {}),
        ({"status": {"observedGeneration": 1}}, {"observedGeneration": 1}),
    ],
)
def test_what_the_crd_puts_in_place_of_a_status_is_none(
    given: dict[str, object], found: dict[str, object]
) -> None:
    assert status_of(given) == found


@pytest.mark.parametrize(
    ("result", "stalled"), [(Terminal("Because"), True), (RequeueAfter(1.0), False), (Done(), False)]
)
def test_stalled_is_there_where_only_an_edit_helps(result: Result, stalled: bool) -> None:
    made = with_stalled(StatusReport(status=status(False, generation=2), result=result))
    assert find_condition(made, "Ready")["status"] == "False"
    words = {"status": "True", "reason": "Because", "message": "m", "observedGeneration": 2}
    assert find_condition(made, "Stalled") == ({"type": "Stalled", **words} if stalled else {})
