"""What is made of the figures that the server gives: the status, how seldom it changes, and the forecast."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kindling.kinds.base import CachedResult, ExternalResult, Observed
from kindling.kinds.postgresql import usage
from kindling.kinds.postgresql.usage import Figures
from kindling.kube.resources import Object

from tests.unit.operator.postgresqls import KIND, NOW, observed, postgresql, running, volume

GB, START = 10**9, datetime(2026, 1, 1, tzinfo=UTC)
CAPACITY = Decimal(100 * GB)
FIVE = timedelta(minutes=5)


def fed(used: list[int], *, every: timedelta = FIVE) -> tuple[Figures, int]:
    """What is known after these measurements, and how often the status was written for it."""
    known: Figures | None = None
    writes = 0
    for number, figure in enumerate(used):
        found = usage.after(known, used=figure, at=START + number * every, capacity=CAPACITY)
        writes += found != known
        known = found
    assert known is not None
    return known, writes


def test_a_steady_growth_is_known_and_so_is_when_it_is_full() -> None:
    known, _ = fed([20 * GB + number * GB for number in range(24)])
    assert known.growth == pytest.approx(12 * GB)
    full = usage.full_at(known, capacity=CAPACITY)
    assert full is not None
    assert full - START == pytest.approx(timedelta(hours=80 / 12), abs=timedelta(seconds=2))


def test_nothing_is_foretold_of_less_than_an_hour() -> None:
    known, _ = fed([20 * GB, 30 * GB])
    assert known.growth > 0
    assert usage.full_at(known, capacity=CAPACITY) is None


def test_a_growth_that_ended_is_forgotten_within_days_and_the_writes_end() -> None:
    ramp = [20 * GB + number * GB for number in range(24)]
    day = [ramp[-1]] * 288
    known, _ = fed(ramp + day)
    assert known.growth < GB
    known, writes = fed(ramp + day * 4)
    assert (known.growth, usage.full_at(known, capacity=CAPACITY)) == (0, None)
    assert writes < len(ramp) + 90
    assert fed(ramp + day * 5)[1] - writes <= 1


def test_data_that_was_deleted_ends_the_forecast() -> None:
    ramp = [20 * GB + number * GB for number in range(24)]
    known, _ = fed([*ramp, 5 * GB])
    assert known.growth < 0
    assert usage.full_at(known, capacity=CAPACITY) is None


def test_less_than_a_step_is_no_write() -> None:
    known, writes = fed([20 * GB + (number % 2) * (GB - 1) for number in range(250)])
    assert (known.used, writes) == (20 * GB, 1)


def test_a_full_volume_is_full_now() -> None:
    known, _ = fed([80 * GB + 2 * number * GB for number in range(14)])
    assert usage.full_at(known, capacity=CAPACITY) == known.at


@given(
    st.lists(st.integers(0, 2**62), min_size=1, max_size=20),
    st.sampled_from([1, 2**10, 2**30, 2**63]),
    st.timedeltas(timedelta(seconds=1), timedelta(days=400)),
)
def test_whatever_is_measured_it_is_repeated_without_a_write(
    used: list[int], capacity: int, every: timedelta
) -> None:
    known: Figures | None = None
    for number, figure in enumerate(used):
        at = (START + number * every).replace(microsecond=0)
        known = usage.after(known, used=figure, at=at, capacity=Decimal(capacity))
        again = usage.after(known, used=figure, at=at, capacity=Decimal(capacity))
        assert again == known
        assert -usage.MOST <= known.growth <= usage.MOST
        full = usage.full_at(known, capacity=Decimal(capacity))
        assert full is None or known.at <= full <= known.at + usage.FARTHEST


def asked(cr: Object, used: Any, *, ok: bool = True, has: str | None = "1Gi", age: float = 0) -> Observed:
    at = NOW - timedelta(seconds=age)
    known = CachedResult(
        cache_key=usage._key(cr, at), result=ExternalResult(ok=ok, facts={usage.USED: used}), at=at
    )
    return replace(observed({**running(), **volume(has=has)}), results={usage.MEMBER: known})


def test_the_status_has_what_was_measured_and_writes_it_once() -> None:
    cr = postgresql()
    status = usage.status(cr, asked(cr, 2**29))
    assert status == {
        "storage": {
            "capacity": "1Gi",
            "usedBytes": 2**29,
            "measuredAt": "2026-01-01T00:01:00Z",
            "growthBytesPerHour": 0,
            "growthSince": "2026-01-01T00:01:00Z",
        }
    }
    cr = postgresql(status=status)
    assert usage.status(cr, asked(cr, 2**29 + 2**20)) == status
    # Nobody answers, or the operator has only just started: the last figure stays, with its time.
    assert usage.status(cr, asked(cr, 2**30, ok=False)) == status
    assert usage.status(cr, observed(volume(has="1Gi"))) == status
    assert usage.status(cr, observed(volume())) == {}


def test_the_forecast_follows_the_capacity_and_ends_with_the_server() -> None:
    storage = {
        "capacity": "1Gi",
        "usedBytes": 2**29,
        "measuredAt": "2026-01-01T00:00:00Z",
        "growthBytesPerHour": 2**28,
        "growthSince": "2025-12-31T00:00:00Z",
    }

    def full(has: str, *, hibernate: bool = False) -> Any:
        cr = postgresql(status={"storage": storage}, hibernate=hibernate)
        return usage.status(cr, observed(volume(has=has)))["storage"].get("fullAt")

    assert full("1Gi") == "2026-01-01T02:00:00Z"
    assert full("2Gi") == "2026-01-01T06:00:00Z"
    assert full("1Gi", hibernate=True) is None


def test_figures_are_of_no_other_resource_and_old_ones_decide_nothing() -> None:
    cr = postgresql()
    other = {**cr, "metadata": {**cr["metadata"], "uid": "another"}}
    assert usage.measured(other, asked(cr, 7)) is None
    assert usage.fresh(cr, asked(cr, 7, age=599)) == 7
    assert usage.fresh(cr, asked(cr, 7, age=601)) is None


def test_a_server_is_asked_after_its_login_alone_apart_from_others_and_not_kept() -> None:
    cr = postgresql()
    found = {**running(), **volume(has="1Gi")}
    server = KIND._login(cr, observed(found))
    assert server is not None

    def probe(result: ExternalResult | None, **storage: object) -> Any:
        results = {}
        if result is not None:
            results = {"server": CachedResult(cache_key=server.cache_key, result=result, at=NOW)}
        return usage.probes(cr, server, replace(observed(found), results=results)).get(usage.MEMBER)

    made = probe(ExternalResult(ok=True))
    assert (made.background, made.once, made.request.user) == (True, True, "kindling")
    assert "super" not in repr(made)
    assert probe(ExternalResult(ok=False, reason="DiskFull")) is not None
    assert probe(ExternalResult(ok=False, reason="NotResponding")) is None
    assert probe(None) is None


@pytest.mark.parametrize(
    ("storage", "used", "every"),
    [
        ({}, 900, 300),
        ({"autoGrow": {"maxSize": "2Ki"}}, 614, 300),
        ({"autoGrow": {"maxSize": "2Ki"}}, 615, 60),
        ({"autoGrow": {"maxSize": "2Ki"}}, 1024, 60),
        ({"autoGrow": {"maxSize": "2Ki", "threshold": 50}}, 308, 60),
        ({"autoGrow": {"maxSize": "2Ki"}}, None, 300),
        ({"autoGrow": {"maxSize": "2Ki"}, "ephemeral": True}, 900, 300),
    ],
)
def test_a_volume_that_may_grow_soon_is_measured_every_minute(
    storage: Object, used: int | None, every: int
) -> None:
    cr = {
        "metadata": {"uid": "u"},
        "spec": {"storage": storage},
        "status": {"storage": {"capacity": "1Ki", "usedBytes": used}},
    }
    now = Observed(objects={}, now=datetime(2026, 1, 1, tzinfo=UTC), entropy=b"")
    left = usage.seconds_left(cr, now)
    assert 0 < left <= every
    later = now.now + timedelta(seconds=left)
    assert usage._key(cr, now.now) == usage._key(cr, later - timedelta(seconds=1))
    assert usage._key(cr, now.now) != usage._key(cr, later)
    assert usage._key(cr, later) != usage._key(cr, later + timedelta(seconds=every))
