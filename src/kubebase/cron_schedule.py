"""Schedules of CronJobs: five fields, a name such as ``@daily``, or ``@every 90m``, in a time zone.

The syntax is that of robfig/cron, which Kubernetes and Volcano use. A schedule is due at every minute whose local time
matches its fields. So a time that a change to summer time skips is skipped, and one that a change to winter time
repeats is due twice. Days match if the day of the month and the day of the week match; if both are restricted, one of
them is enough.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from fractions import Fraction
from itertools import islice
from typing import Final, Protocol
from zoneinfo import ZoneInfo

DAYS_AHEAD: Final = 366 * 9
"""How far to look for a day that matches: 29 February is up to eight years away."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = "@every "
_UNITS: Final = {"ms": Fraction(1, 1000), "s": Fraction(1), "m": Fraction(60), "h": Fraction(3600)}
_LENGTH = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|s|m|h)")
_LONGEST_TEXT: Final = 1000


class ScheduleError(ValueError):
    """The text is not a schedule, or the time zone does not exist."""


class Schedule(Protocol):
    """The moments at which something is due, in seconds since 1970."""

    def next_after(self, moment: float) -> float | None:
        """The first due moment after this one; None if there is none."""

    def last_within(self, start: float, end: float) -> float | None:
        """The last due moment after ``start`` and not after ``end``; None if there is none."""

    def moments(self, start: float, end: float) -> Iterator[float]:
        """All due moments after ``start`` and not after ``end``, in order."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 6, _WEEKDAYS),
)


@dataclass(frozen=True, slots=True)
class _Values:
    """The values that a field allows."""

    numbers: frozenset[int]
    unrestricted: bool
    """Whether it was written with ``*``: then the other field of the day decides alone."""


@dataclass(frozen=True)
class CalendarSchedule:
    """Due at the minutes whose local time matches five fields."""

    minute: _Values
    hour: _Values
    day: _Values
    month: _Values
    weekday: _Values
    zone: tzinfo = UTC
    _days: dict[date, tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)

    def next_after(self, moment: float) -> float | None:
        """The first due moment after this one; None if there is none."""
        first = self._local_date(moment) - timedelta(days=1)  # an offset can change by more than a day
        for days in range(DAYS_AHEAD):
            due = self._due_on(first + timedelta(days=days))
            place = bisect_right(due, moment)
            if place < len(due):
                return float(due[place])
        return None

    def last_within(self, start: float, end: float) -> float | None:
        """The last due moment after ``start`` and not after ``end``; None if there is none."""
        day, earliest = self._local_date(end) + timedelta(days=1), self._local_date(start) - timedelta(days=1)
        while day >= earliest:
            due = self._due_on(day)
            place = bisect_right(due, end)
            if place:
                return float(due[place - 1]) if due[place - 1] > start else None
            day -= timedelta(days=1)
        return None

    def moments(self, start: float, end: float) -> Iterator[float]:
        """All due moments after ``start`` and not after ``end``, in order."""
        moment = self.next_after(start)
        while moment is not None and moment <= end:
            yield moment
            moment = self.next_after(moment)

    def _local_date(self, moment: float) -> date:
        return datetime.fromtimestamp(moment, self.zone).date()

    def _matches(self, day: date) -> bool:
        if day.month not in self.month.numbers:
            return False
        of_month, of_week = day.day in self.day.numbers, day.isoweekday() % 7 in self.weekday.numbers
        if self.day.unrestricted or self.weekday.unrestricted:
            return of_month and of_week
        return of_month or of_week

    def _due_on(self, day: date) -> tuple[int, ...]:
        """The due moments of a local day, in order; kept for the day that is asked for again and again."""
        if not self._matches(day):
            return ()
        known = self._days.get(day)
        if known is None:
            if len(self._days) > 3:
                self._days.clear()
            known = self._days[day] = tuple(sorted(set(self._moments_on(day))))
        return known

    def _moments_on(self, day: date) -> Iterator[int]:
        for hour in self.hour.numbers:
            for minute in self.minute.numbers:
                wall = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 - local time of any zone
                for fold in (0, 1):
                    moment = wall.replace(tzinfo=self.zone, fold=fold).timestamp()
                    if datetime.fromtimestamp(moment, self.zone).replace(tzinfo=None, fold=0) == wall:
                        yield int(moment)


@dataclass(frozen=True)
class IntervalSchedule:
    """Due each time an interval has passed since the moment that is asked about."""

    seconds: int

    def next_after(self, moment: float) -> float | None:
        """The moment one interval later, in whole seconds."""
        return int(moment) + float(self.seconds)

    def last_within(self, start: float, end: float) -> float | None:
        """The last moment that is a number of intervals after ``start`` and not after ``end``."""
        times = (end - int(start)) // self.seconds
        return int(start) + times * self.seconds if times >= 1 else None

    def moments(self, start: float, end: float) -> Iterator[float]:
        """All moments that are a number of intervals after ``start`` and not after ``end``."""
        moment = int(start) + float(self.seconds)
        while moment <= end:
            yield moment
            moment += self.seconds


def parse_schedule(text: str, zone: str = "") -> Schedule:
    """The schedule that a text describes, in a time zone of the tz database (empty: UTC)."""
    if len(text) > _LONGEST_TEXT:
        raise ScheduleError(f"{text[:60]!r}...: must have at most {_LONGEST_TEXT} characters")
    if "TZ=" in text:
        raise ScheduleError(f"{text[:60]!r}: cannot name a time zone; use the field timeZone")
    found = time_zone(zone) if zone else UTC
    if text.startswith("@"):
        if text.startswith(_EVERY):
            return IntervalSchedule(_interval(text.removeprefix(_EVERY)))
        if text not in _NAMED:
            raise ScheduleError(f"{text[:60]!r}: must be one of {', '.join(_NAMED)}, or '@every' with a duration")
        text = _NAMED[text]
    parts = text.split()
    if len(parts) != len(_FIELDS):
        names = ", ".join(each.name for each in _FIELDS)
        raise ScheduleError(f"{text[:60]!r}: must have 5 fields ({names}), has {len(parts)}")
    minute, hour, day, month, weekday = (_values(part, each) for part, each in zip(parts, _FIELDS, strict=True))
    return CalendarSchedule(minute, hour, day, month, weekday, found)


def time_zone(name: str) -> tzinfo:
    """A zone of the tz database. ``Local`` would depend on the machine of the controller."""
    try:
        if not name or name.lower() == "local" or not re.fullmatch(r"[A-Za-z0-9_+/-]+", name):
            raise ScheduleError(f"{name[:60]!r}: must be the name of a time zone, such as Europe/Berlin or Etc/UTC")
        return ZoneInfo(name)
    except (OSError, KeyError, ValueError) as error:  # ZoneInfoNotFoundError is a KeyError
        if isinstance(error, ScheduleError):
            raise
        raise ScheduleError(f"{name[:60]!r}: unknown time zone") from None


def due_count(schedule: Schedule, start: float, end: float, most: int) -> int:
    """How many times a schedule is due after ``start`` and not after ``end``; counting stops at ``most``."""
    return sum(1 for _ in islice(schedule.moments(start, end), most))


def _values(text: str, of: _Field) -> _Values:
    numbers: set[int] = set()
    unrestricted = False
    for part in text.split(","):
        some, is_star = _range(part, of)
        numbers.update(some)
        unrestricted |= is_star
    return _Values(frozenset(numbers), unrestricted)


def _range(text: str, of: _Field) -> tuple[range, bool]:
    """The numbers of ``*``, ``a`` or ``a-b``, each with an optional ``/step``; ``a/step`` ends with the field."""
    span, slash, step_text = text.partition("/")
    step = _number(step_text, of, ()) if slash else 1
    if step < 1:
        raise _error(of, text, "the step must be greater than 0")
    low, dash, high = span.partition("-")
    if low in {"*", "?"} and not dash:
        return range(of.least, of.most + 1, step), step == 1
    first = _number(low, of, of.names)
    last = _number(high, of, of.names) if dash else (of.most if slash else first)
    if first < of.least or last > of.most:
        raise _error(of, text, f"must be between {of.least} and {of.most}")
    if first > last:
        raise _error(of, text, "the range must not end before it begins")
    return range(first, last + 1, step), False


def _number(text: str, of: _Field, names: tuple[str, ...]) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + of.least
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise _error(of, text, f"must be a number{' or a name such as ' + names[1] if names else ''}")
    return int(text)


def _error(of: _Field, text: str, rule: str) -> ScheduleError:
    return ScheduleError(f"{of.name} {text[:60]!r}: {rule}")


def _interval(text: str) -> int:
    """A duration in Go's notation, in whole seconds, one at least."""
    parts = _LENGTH.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text or len(text) > 40:
        raise ScheduleError(f"'{_EVERY}{text[:60]}': must have a duration such as 90s or 1h30m")
    return max(1, int(sum(Fraction(number) * _UNITS[unit] for number, unit in parts)))
