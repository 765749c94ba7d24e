"""Maintenance windows: open from each time of the schedule on for so long, by the clock of their zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from kindling.kinds.window import Window, read


def window(schedule: str = "0 3 * * 0", duration: str = "2h", zone: str | None = "Europe/Berlin") -> Window:
    given = {"schedule": schedule, "duration": duration, **({"timeZone": zone} if zone else {})}
    return read(given, field="spec.maintenanceWindow")


def opens(found: Window, moment: str) -> str | None:
    """At a moment in UTC."""
    at = found.opens(datetime.fromisoformat(moment).replace(tzinfo=UTC))
    return at.isoformat() if at else None


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        ("2026-01-02T12:00", "2026-01-04T03:00:00+01:00"),
        ("2026-01-04T01:59:59", "2026-01-04T03:00:00+01:00"),
        ("2026-01-04T02:00", None),
        ("2026-01-04T03:59:59", None),
        ("2026-01-04T04:00", "2026-01-11T03:00:00+01:00"),
        ("2026-06-28T01:00", None),  # summer: three o'clock is an hour earlier
        ("2026-06-28T00:59", "2026-06-28T03:00:00+02:00"),
    ],
)
def test_opens_by_the_clock_of_its_zone(moment: str, expected: str | None) -> None:
    assert opens(window(), moment) == expected


def test_utc_when_left_out_and_windows_that_run_into_each_other() -> None:
    assert opens(window("30 2 * * *", "1h30m", None), "2026-01-01T02:29") == "2026-01-01T02:30:00+00:00"
    always = window("0 * * * *", "61m", None)
    assert all(opens(always, f"2026-01-01T0{hour}:00") is None for hour in range(10))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schedule": "61 3 * * 0"}, "schedule '61 3 .* is no schedule"),
        ({"schedule": "0 3 * *"}, "schedule '0 3 \\* \\*' is no schedule"),
        ({"schedule": "* 0 3 * * 0"}, "is no schedule"),
        ({"schedule": "0 3 31 2 *"}, "is no schedule"),
        ({"duration": ""}, "duration '' is not 1m to 168h"),
        ({"duration": "0h"}, "duration '0h' is not"),
        ({"duration": "169h"}, "duration '169h' is not"),
        ({"duration": "9" * 30 + "h"}, "is not 1m to 168h"),
        ({"duration": "2 hours"}, "is not 1m to 168h"),
        ({"zone": "Europe/Atlantis"}, "timeZone 'Europe/Atlantis' is not known"),
        ({"zone": "../../etc/passwd"}, "is not known"),
        ({"zone": "Europe"}, "is not known"),
    ],
)
def test_refused_with_field_value_and_remedy(change: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        window(**change)
    assert "spec.maintenanceWindow." in str(error.value)


@pytest.mark.parametrize(
    ("schedule", "duration", "now", "closes"),
    [
        ("0 1 * * *", "2h", "2026-01-02T01:00:00+00:00", "2026-01-02T03:00:00+00:00"),
        ("0 1 * * *", "2h", "2026-01-02T02:59:59+00:00", "2026-01-02T03:00:00+00:00"),
        # Openings that overlap, or follow without a gap, are one.
        ("0 1,2 * * *", "90m", "2026-01-02T01:10:00+00:00", "2026-01-02T03:30:00+00:00"),
        ("0 1,2 * * *", "60m", "2026-01-02T01:10:00+00:00", "2026-01-02T03:00:00+00:00"),
        ("* * * * *", "2m", "2026-01-02T01:10:00+00:00", None),
        # To seven in the morning, also in the night in which the clock is put forward.
        ("0 20 * * *", "11h", "2026-03-28T21:00:00+00:00", "2026-03-29T05:00:00+00:00"),
    ],
)
def test_it_closes_after_the_last_of_its_openings(
    schedule: str, duration: str, now: str, closes: str | None
) -> None:
    found = window(schedule, duration, "Europe/Berlin" if "2026-03" in now else None)
    moment = datetime.fromisoformat(now)
    assert found.opens(moment) is None
    wanted = datetime.fromisoformat(closes) if closes else None
    assert found.closes(moment) == wanted
    if wanted is not None:
        assert found.opens(wanted - timedelta(seconds=1)) is None
        assert found.opens(wanted) is not None
