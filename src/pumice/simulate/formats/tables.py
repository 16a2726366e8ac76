"""CSV files with a heading: the documented CSV of ``pumice simulate``, and the tables of GPU cluster traces."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from kubebase.field_error import FieldError
from pumice.simulate.formats.rows import (
    MOST_TASKS,
    Row,
    RowError,
    fields_wrong,
    gang_within,
    priority,
    request,
    seconds,
    whole,
)
from pumice.simulate.workload import Request, WorkloadJob

CSV_REQUIRED = ("id", "submit", "queue", "tasks", "request", "run_time")
CSV_OPTIONAL = ("user", "gang", "priority")
TRACE_REQUIRED = ("job_id", "submit_s", "duration_s", "tenant_path", "replicas", "cpu_milli", "mem_mib", "gpu_milli")
TRACE_OPTIONAL = ("priority", "qos", "pool", "ext")
GPU = "nvidia.com/gpu"

Cells = dict[str, str]


def read_csv(lines: Iterable[str]) -> Iterator[Row]:
    """The documented CSV: docs/simulate.md lists its columns."""
    return _read_table(lines, CSV_REQUIRED, CSV_OPTIONAL, _csv_job)


def read_trace(lines: Iterable[str]) -> Iterator[Row]:
    """A table of a GPU cluster trace: openb, philly, helios. All replicas of a job are one gang."""
    return _read_table(lines, TRACE_REQUIRED, TRACE_OPTIONAL, _trace_job)


def _read_table(
    lines: Iterable[str], required: Sequence[str], optional: Sequence[str], job_of: Callable[[Cells, int], WorkloadJob]
) -> Iterator[Row]:
    reader = csv.reader(lines, strict=True)
    heading: list[str] | None = None
    try:
        for cells in reader:
            line = reader.line_num
            if not cells:
                continue
            if heading is None:
                heading = [cell.strip() for cell in cells]
                errors = list(_heading_errors(heading, required, optional, line))
                yield from errors
                if errors:
                    return
            elif len(cells) != len(heading):
                yield RowError(line, "", fields_wrong(len(cells), f"the heading has {len(heading)}"))
            else:
                row = dict(zip(heading, cells, strict=True))
                try:
                    yield job_of(row, line)
                except FieldError as error:
                    yield RowError(line, error.field, error.message)
    except csv.Error as error:
        yield RowError(reader.line_num, "", f"is not CSV: {error}")


def _heading_errors(
    heading: Sequence[str], required: Sequence[str], optional: Sequence[str], line: int
) -> Iterator[RowError]:
    separator = next((one for one in ";\t|" if len(heading) == 1 and one in heading[0]), None)
    if separator is not None:
        yield RowError(line, "", f"columns are separated by {separator!r}; must be commas")
        return
    for name in required:
        if name not in heading:
            yield RowError(line, name, f"column is missing; the columns are {', '.join((*required, *optional))}")
    for position, name in enumerate(heading):
        if name in heading[:position]:
            yield RowError(line, name, "column is there twice; keep one of the two")
        elif name not in (*required, *optional):
            yield RowError(line, name, f"column is not known; the columns are {', '.join((*required, *optional))}")


def _csv_job(row: Cells, line: int) -> WorkloadJob:
    tasks = whole(row["tasks"], "tasks", least=1, most=MOST_TASKS)
    gang = gang_within(whole(row["gang"], "gang", least=1), tasks, "gang") if row.get("gang") else tasks
    return WorkloadJob(
        id=_filled(row["id"], "id"),
        submit=seconds(row["submit"], "submit"),
        queue=_filled(row["queue"], "queue"),
        user=row.get("user") or "default",
        tasks=tasks,
        request=_csv_request(_filled(row["request"], "request")),
        gang=gang,
        run_time=seconds(row["run_time"], "run_time"),
        priority=priority(row.get("priority")),
        line=line,
    )


@lru_cache(maxsize=4096)
def _csv_request(text: str) -> Request:
    """A request as ``cpu=4 memory=16Gi nvidia.com/gpu=1``."""
    amounts: dict[str, str] = {}
    for part in text.split():
        name, equals, amount = part.partition("=")
        if not equals or not name or not amount:
            raise FieldError("request", f"{part!r} is not RESOURCE=QUANTITY; write for example cpu=4 memory=16Gi")
        if name in amounts:
            raise FieldError("request", f"{name} is there twice")
        amounts[name] = amount
    return request(amounts, "request")


def _trace_job(row: Cells, line: int) -> WorkloadJob:
    replicas = whole(row["replicas"], "replicas", least=1, most=MOST_TASKS)
    path = _filled(row["tenant_path"], "tenant_path")
    return WorkloadJob(
        id=_filled(row["job_id"], "job_id"),
        submit=seconds(row["submit_s"], "submit_s"),
        queue=path,
        user=path.rpartition("/")[2],
        tasks=replicas,
        request=_trace_request(row["cpu_milli"], row["mem_mib"], row["gpu_milli"]),
        gang=replicas,
        run_time=seconds(row["duration_s"], "duration_s"),
        priority=priority(row.get("priority")),
        line=line,
    )


@lru_cache(maxsize=4096)
def _trace_request(cpu: str, memory: str, gpu: str) -> Request:
    amounts = {
        "cpu": whole(cpu, "cpu_milli"),
        "memory": whole(memory, "mem_mib") * 2**20 * 1000,
        GPU: whole(gpu, "gpu_milli"),
    }
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))


def _filled(text: str, field: str) -> str:
    if not text.strip():
        raise FieldError(field, "must not be empty")
    return text.strip()
