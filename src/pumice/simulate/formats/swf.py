"""The Standard Workload Format of the Parallel Workloads Archive: 18 numbers a line, comments after a semicolon.

A job becomes a gang of one task per processor, each with 1 cpu. Processors and times are those that were used, or
requested where the trace does not know them (-1). The queue is ``queue-N`` by field 15, or ``group-N`` by field 13
where it is unknown. A job without processors or run time never ran; it is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubebase.field_error import FieldError
from pumice.simulate.formats.rows import MOST_TASKS, Row, RowError, SkippedRow, fields_wrong, seconds, whole
from pumice.simulate.workload import WorkloadJob

FIELDS = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
UNKNOWN = -1
ONE_CPU = (("cpu", 1000),)


def read_swf(lines: Iterable[str]) -> Iterator[Row]:
    """The jobs of a file in the Standard Workload Format."""
    for line, text in enumerate(lines, start=1):
        values = text.partition(";")[0].split()
        if not values:
            continue
        if len(values) != len(FIELDS):
            yield RowError(line, "", fields_wrong(len(values), f"the format has {len(FIELDS)}"))
            continue
        try:
            yield _job(dict(zip(FIELDS, values, strict=True)), line)
        except FieldError as error:
            yield RowError(line, error.field, error.message)


def _job(row: dict[str, str], line: int) -> Row:
    processors = next(
        filter(None, (_known(row, name, MOST_TASKS) for name in ("allocated processors", "requested processors"))), None
    )
    if not processors:
        return SkippedRow(line, "without processors")
    if row["run time"] == "-1":
        return SkippedRow(line, "without run time")
    queue, group = _known(row, "queue"), _known(row, "group")
    return WorkloadJob(
        id=row["job number"],
        submit=seconds(row["submit time"], "submit time"),
        queue=f"queue-{queue}" if queue is not None else f"group-{group if group is not None else 0}",
        user=f"user-{_known(row, 'user') or 0}",
        tasks=processors,
        request=ONE_CPU,
        gang=processors,
        run_time=seconds(row["run time"], "run time"),
        priority=0,
        line=line,
    )


def _known(row: dict[str, str], field: str, most: int | None = None) -> int | None:
    """The value of a field; None where it is unknown."""
    number = whole(row[field], field, least=UNKNOWN, most=most)
    return None if number == UNKNOWN else number
