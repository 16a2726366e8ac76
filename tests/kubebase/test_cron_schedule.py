"""Schedules of CronJobs: cases by hand, and all due moments against a search minute by minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.cron_schedule import ScheduleError, due_count, parse_schedule


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("schedule", "after", "due"),
    [
        ("* * * * *", "2026-01-01T00:00:00", "2026-01-01T00:01:00"),
        ("* * * * *", "2026-01-01T00:00:59", "2026-01-01T00:01:00"),
        ("*/15 * * * *", "2026-01-01T00:15:00", "2026-01-01T00:30:00"),
        ("7/20 * * * *", "2026-01-01T00:28:00", "2026-01-01T00:47:00"),
        ("0 9-17/4 * * *", "2026-01-01T13:00:00", "2026-01-01T17:00:00"),
        ("0 0 * * MON-fri", "2026-01-02T00:00:00", "2026-01-05T00:00:00"),  # from a Friday to the next Monday
        ("0 0 1 jan ?", "2026-01-01T00:00:00", "2027-01-01T00:00:00"),
        ("0 0 29 2 *", "2096-03-01T00:00:00", "2104-02-29T00:00:00"),  # 2100 is no leap year
        # Both days are restricted: the 13th, and every Friday.
        ("0 0 13 * 5", "2026-01-10T00:00:00", "2026-01-13T00:00:00"),
        ("0 0 13 * 5", "2026-01-13T00:00:00", "2026-01-16T00:00:00"),
        # A step makes the star a restriction, except for steps of one.
        ("0 0 */2 * 1", "2026-01-01T00:00:00", "2026-01-03T00:00:00"),
        ("0 0 */1 * 1", "2026-01-01T00:00:00", "2026-01-05T00:00:00"),
        ("@hourly", "2026-01-01T00:00:00", "2026-01-01T01:00:00"),
        ("@daily", "2026-01-01T00:00:00", "2026-01-02T00:00:00"),
        ("@weekly", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),  # a Sunday
        ("@every 90m", "2026-01-01T00:00:00", "2026-01-01T01:30:00"),
        ("@every 1h30m10s", "2026-01-01T00:00:00", "2026-01-01T01:30:10"),
        ("@every 1ms", "2026-01-01T00:00:00", "2026-01-01T00:00:01"),
    ],
)
def test_next_due_moment_of_a_schedule(schedule: str, after: str, due: str) -> None:
    assert parse_schedule(schedule).next_after(moment(after)) == moment(due)


def test_day_that_never_comes_is_never_due() -> None:
    never = parse_schedule("0 0 30 2 *")
    assert never.next_after(moment("2026-01-01T00:00:00")) is None
    assert never.last_within(moment("2026-01-01T00:00:00"), moment("2027-01-01T00:00:00")) is None


def test_local_time_skipped_by_summer_time_is_skipped() -> None:
    berlin = parse_schedule("30 2 * * *", "Europe/Berlin")
    # 2026-03-29 jumps from 02:00 to 03:00; the next 02:30 is on the 30th, at UTC+2.
    assert berlin.next_after(moment("2026-03-28T12:00:00")) == moment("2026-03-30T00:30:00")


def test_local_time_repeated_by_winter_time_is_due_twice() -> None:
    berlin = parse_schedule("30 2 * * *", "Europe/Berlin")
    # 2026-10-25 has 02:30 at UTC+2 and again at UTC+1.
    due = list(berlin.moments(moment("2026-10-24T12:00:00"), moment("2026-10-25T12:00:00")))
    assert due == [moment("2026-10-25T00:30:00"), moment("2026-10-25T01:30:00")]


@pytest.mark.parametrize(
    ("schedule", "zone", "words"),
    [
        ("", "", "must have 5 fields"),
        ("* * * *", "", "must have 5 fields"),
        ("* * * * * *", "", "must have 5 fields"),
        ("60 * * * *", "", "minute '60': must be between 0 and 59"),
        ("* 24 * * *", "", "hour '24': must be between 0 and 23"),
        ("* * 0 * *", "", "day of month '0': must be between 1 and 31"),
        ("* * * 13 *", "", "month '13'"),
        ("* * * * 7", "", "day of week '7'"),
        ("*/0 * * * *", "", "the step must be greater than 0"),
        ("30-10 * * * *", "", "must not end before it begins"),
        ("x * * * *", "", "minute 'x': must be a number"),
        ("-1 * * * *", "", "must be a number"),
        ("1, * * * *", "", "must be a number"),
        ("* * * foo *", "", "must be a number or a name such as feb"),
        ("@fortnightly", "", "must be one of @yearly"),
        ("@every", "", "must be one of @yearly"),
        ("@every soon", "", "must have a duration"),
        ("TZ=UTC * * * * *", "", "use the field timeZone"),
        ("* * * * *", "Mars/Base", "unknown time zone"),
        ("* * * * *", "Local", "must be the name of a time zone"),
        ("* * * * *", "../etc/passwd", "must be the name of a time zone"),
    ],
)
def test_text_that_is_no_schedule_is_rejected(schedule: str, zone: str, words: str) -> None:
    with pytest.raises(ScheduleError, match=words.replace("(", r"\(")):
        parse_schedule(schedule, zone)


FIELDS = [
    st.sampled_from(["*", "0", "*/7", "13,57", "5-50/9"]),
    st.sampled_from(["*", "2", "*/5", "1-3", "0,23"]),
    st.sampled_from(["*", "1", "*/2", "25-31", "29"]),
    st.sampled_from(["*", "3", "10", "2,4"]),
    st.sampled_from(["*", "0", "mon-fri", "6"]),
]
ZONES = st.sampled_from(["", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "America/St_Johns"])
# Days around the changes of Berlin and Lord Howe in 2026, and any.
STARTS = st.sampled_from(["2026-03-28", "2026-04-04", "2026-10-03", "2026-10-24", "2026-02-27", "2028-02-28"])


@given(st.tuples(*FIELDS), ZONES, STARTS, st.integers(0, 3000))
def test_due_moments_are_the_minutes_whose_local_time_matches(
    fields: tuple[str, ...], zone: str, start: str, offset: int
) -> None:
    schedule = parse_schedule(" ".join(fields), zone)
    local = ZoneInfo(zone or "UTC")
    begin = datetime.fromisoformat(start).replace(tzinfo=UTC) + timedelta(minutes=offset)
    end = begin + timedelta(hours=40)
    minutes = (begin + timedelta(minutes=step) for step in range(1, 40 * 60 + 1))
    expected = [minute.timestamp() for minute in minutes if _matches(fields, minute.astimezone(local))]
    assert list(schedule.moments(begin.timestamp(), end.timestamp())) == expected
    assert schedule.last_within(begin.timestamp(), end.timestamp()) == (expected[-1] if expected else None)
    assert due_count(schedule, begin.timestamp(), end.timestamp(), 10) == min(len(expected), 10)


def _matches(fields: tuple[str, ...], local: datetime) -> bool:
    """The rule, written out for the few forms of field that the test uses."""
    minute, hour, day, month, weekday = fields
    days = (_allows(day, local.day, 1, 31), _allows(weekday, local.isoweekday() % 7, 0, 6))
    return (
        _allows(minute, local.minute, 0, 59)
        and _allows(hour, local.hour, 0, 23)
        and _allows(month, local.month, 1, 12)
        and (all(days) if "*" in (day, weekday) else any(days))
    )


def _allows(text: str, number: int, least: int, most: int) -> bool:
    text = text.replace("mon", "1").replace("fri", "5")
    if text.startswith("*"):
        return (number - least) % int(text[2:] or 1) == 0
    if "-" in text:
        low, _, rest = text.partition("-")
        high, _, step = rest.partition("/")
        return int(low) <= number <= int(high) and (number - int(low)) % int(step or 1) == 0
    return number in map(int, text.split(","))


@given(st.integers(1, 5000), st.integers(0, 10**6), st.integers(0, 10**5))
def test_interval_counts_from_the_moment_that_is_asked_about(seconds: int, start: int, length: int) -> None:
    schedule = parse_schedule(f"@every {seconds}s")
    expected = list(range(start + seconds, start + length + 1, seconds))
    assert list(schedule.moments(start, start + length)) == expected
    assert schedule.last_within(start, start + length) == (expected[-1] if expected else None)
