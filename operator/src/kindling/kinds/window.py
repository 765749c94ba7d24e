"""A maintenance window as specs give it: a schedule in cron's five fields, a duration, a time zone.

Any kind may have one. Nothing here reads a clock; the time zone's rules are the system's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from kindling.kube.resources import Object

DURATION = re.compile(r"(?:([0-9]+)h)?(?:([0-9]+)m)?")
LONGEST = timedelta(days=7)
MOST_OPENINGS = 1000
"""How many that follow one another without a gap are looked through for the end."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Times by the clock of a zone, in cron's five fields."""

    text: str
    zone: ZoneInfo

    def after(self, moment: datetime) -> datetime:
        """The next time after that, in UTC."""
        found: datetime = next(CronSim(self.text, moment.astimezone(self.zone)))
        return found.astimezone(UTC)


@dataclass(frozen=True, kw_only=True)
class Window:
    """Opens at each time of the schedule, by the clock of that zone, for so long."""

    schedule: str
    duration: timedelta
    zone: ZoneInfo

    def opens(self, now: datetime) -> datetime | None:
        """When it opens next, in its zone; None while it is open."""
        local = now.astimezone(self.zone)
        for moment in CronSim(self.schedule, local - self.duration):
            return None if moment <= local else moment
        raise ValueError("a schedule without a time")  # `read` admits none such

    def closes(self, now: datetime) -> datetime | None:
        """When it closes, in UTC, while it is open; None where it opens again before each end."""
        end = now
        moments = CronSim(self.schedule, now.astimezone(self.zone) - self.duration)
        for _, moment in zip(range(MOST_OPENINGS), moments, strict=False):
            if moment > end:
                return end
            end = (moment + self.duration).astimezone(UTC)  # by the clock of the zone, as `opens` counts
        return None


def read(given: Object, *, field: str) -> Window:
    """`given` is the spec's field of the name `field`, UTC where it names no time zone.

    :raises ValueError: with the part, its value and the remedy, as a sentence.
    """
    schedule, text = read_schedule(given, field=field), str(given.get("duration") or "")
    duration = read_duration(text)
    if duration is None or not timedelta() < duration <= LONGEST:
        raise ValueError(f"{field}.duration {text!r} is not 1m to 168h: write hours and minutes, `1h30m`.")
    return Window(schedule=schedule.text, duration=duration, zone=schedule.zone)


def read_duration(text: str) -> timedelta | None:
    """Hours and minutes, `1h30m`; None for what is no duration."""
    match = DURATION.fullmatch(text)
    hours, minutes = match.groups() if match and text else (None, None)
    if hours is None and minutes is None:
        return None
    try:
        return timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    except OverflowError:
        return None


def read_schedule(given: Object, *, field: str) -> Schedule:
    """`schedule` and `timeZone` of the spec's field of that name, UTC where it names no time zone.

    :raises ValueError: with the part, its value and the remedy, as a sentence.
    """
    schedule = str(given.get("schedule") or "")
    check_schedule(schedule, field=f"{field}.schedule")
    return Schedule(text=schedule, zone=read_zone(given.get("timeZone"), field=f"{field}.timeZone"))


def check_schedule(text: str, *, field: str) -> None:
    """:raises ValueError: for what is no schedule, or one without a time."""
    try:
        if len(text.split()) != 5:
            raise CronSimError("five fields are needed")
        if next(CronSim(text, datetime(2000, 1, 1)), None) is None:
            raise CronSimError("no such day ever comes")
    except CronSimError as error:
        raise ValueError(
            f"{field} {text!r} is no schedule ({error}): write minute, hour, day of month, month and "
            "day of week, `0 3 * * 0` for Sundays at three."
        ) from None


def read_zone(name: object, *, field: str) -> ZoneInfo:
    """UTC where none is named.

    :raises ValueError: for one that is not known.
    """
    try:
        return ZoneInfo(str(name or "UTC"))
    except (ValueError, OSError, KeyError):
        raise ValueError(
            f"{field} {name!r} is not known: use a name of the tz database, Europe/Berlin for one, "
            "or leave it out for UTC."
        ) from None
