"""What all formats share: the values of a row, checked, with the name of the field in each error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kubebase.field_error import FieldError
from kubebase.resource_vector import ResourceError, milli_amounts
from pumice.simulate.workload import SECOND, Request, WorkloadJob

HIGHEST_PRIORITY = 2**31 - 1
LONGEST = 10**10
"""Seconds: times of a workload are below this, so that sums of them stay exact."""
MOST_TASKS = 1_000_000
"""A job has no more tasks than this: each of them is an object when the job arrives."""


@dataclass(frozen=True, slots=True)
class RowError:
    """A line that cannot be used: its field, and what is wrong with it."""

    line: int
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class SkippedRow:
    """A line that describes no run: for example a job that was cancelled before it started."""

    line: int
    reason: str


Row = WorkloadJob | RowError | SkippedRow
RowReader = Callable[[Iterable[str]], Iterator[Row]]
"""Reads the lines of a file. It yields something for every line but headings and comments."""


def seconds(text: str, field: str) -> int:
    """A time in microseconds, given in seconds."""
    try:
        number = float(text)
    except ValueError:
        raise FieldError(field, f"{text!r} is not a number of seconds") from None
    if not 0 <= number <= LONGEST:  # also false for NaN
        raise FieldError(field, f"{text} is out of range; must be a number of seconds from 0 to {LONGEST}")
    return round(number * SECOND)


def whole(text: str, field: str, *, least: int = 0, most: int | None = None) -> int:
    """A whole number within bounds."""
    try:
        number = int(text)
    except ValueError:
        raise FieldError(field, f"{text!r} is not a whole number") from None
    if number < least:
        raise FieldError(field, f"{number} is too small; must be at least {least}")
    if most is not None and number > most:
        raise FieldError(field, f"{number} is too large; must be at most {most}")
    return number


def priority(text: str | None) -> int:
    """A priority of Kubernetes, 32 bits with a sign; 0 if empty."""
    return whole(text, "priority", least=-HIGHEST_PRIORITY - 1, most=HIGHEST_PRIORITY) if text else 0


def request(amounts: dict[str, str], field: str) -> Request:
    """A request of quantities by resource name."""
    try:
        milli = milli_amounts(amounts, where="")
    except ResourceError as error:
        raise FieldError(field, str(error)) from None
    return tuple(sorted((name, amount) for name, amount in milli.items() if amount))


def fields_wrong(found: int, wanted: str) -> str:
    """What is wrong with a line of so many fields."""
    return f"{found} {'field' if found == 1 else 'fields'}; {wanted}"


def gang_within(gang: int, tasks: int, field: str) -> int:
    """The size of a gang, which must not exceed the number of tasks."""
    if gang > tasks:
        raise FieldError(field, f"{gang} is more than the {tasks} {'task' if tasks == 1 else 'tasks'} of the job")
    return gang
