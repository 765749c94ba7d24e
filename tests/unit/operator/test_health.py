"""Alive and ready, for each state a process can be in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from kindling.health import STUCK_SECONDS, Health


@dataclass
class Part:
    """Stands in for every part: what each says of itself."""

    oldest_seconds: float = 0.0
    observed: bool = True
    stalled: str | None = None
    not_started: str | None = None
    overdue: str | None = None

    def __len__(self) -> int:
        return 0


def health(**parts: Any) -> Health:
    return Health(**({"queue": Part(), "elector": Part(), "startup": None} | parts))


def test_a_standby_is_alive_and_ready() -> None:
    assert (health().alive(), health().ready()) == (None, None)


def test_a_leader_is_ready_once_all_is_watched() -> None:
    leader = health(monitor=Part(not_started="not watched yet: /api/v1/pods"), resync=Part())
    assert (leader.alive(), leader.ready()) == (None, "not watched yet: /api/v1/pods")
    leader.monitor = Part()
    assert leader.ready() is None


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"queue": Part(oldest_seconds=STUCK_SECONDS + 1)}, "waited for a worker for 301 s"),
        ({"elector": Part(stalled="no answer")}, "no answer"),
        ({"monitor": Part(stalled="no watch")}, "no watch"),
        ({"resync": Part(overdue="no resync")}, "no resync"),
    ],
)
def test_what_ails_it_fails_both(parts: dict[str, Any], why: str) -> None:
    assert why in str(health(**parts).alive())
    assert why in str(health(**parts).ready())


def test_waiting_for_crds_is_no_reason_for_a_new_start() -> None:
    waiting = health(startup="waiting for CRDs", elector=Part(observed=False, stalled="not asked for hours"))
    assert (waiting.alive(), waiting.ready()) == (None, "waiting for CRDs")


def test_who_does_not_know_the_lease_cannot_stand_by() -> None:
    assert health(elector=Part(observed=False)).ready() == "the lease is not known yet"
