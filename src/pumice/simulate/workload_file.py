"""A workload in a file: checked as a whole before anything runs, then streamed in the order of submission.

``scan`` reads the file once and keeps only what a run needs beforehand: the number of jobs, the queues, the different
requests, and the hash that reports name. Every problem has the file, the line and the field.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from pumice.input_errors import BadInput, Problem
from pumice.simulate.formats.rows import RowError, RowReader, SkippedRow
from pumice.simulate.formats.swf import read_swf
from pumice.simulate.formats.tables import CSV_REQUIRED, TRACE_REQUIRED, read_csv, read_trace
from pumice.simulate.workload import Request, WorkloadJob

FORMATS: dict[str, RowReader] = {"csv": read_csv, "swf": read_swf, "trace": read_trace}
SHOWN_PROBLEMS = 20
GZIP_MAGIC = b"\x1f\x8b"
SUBMIT_FIELDS = {"csv": "submit", "swf": "submit time", "trace": "submit_s"}
TASK_FIELDS = {"csv": "request", "swf": "allocated processors", "trace": "gpu_milli"}
QUEUE_FIELDS = {"csv": "queue", "swf": "queue", "trace": "tenant_path"}


@dataclass(frozen=True, slots=True)
class WorkloadFile:
    """A file that can be used, and what is known of it without running it."""

    path: str
    format: str
    sha256: str
    jobs: int
    tasks: int
    skipped: dict[str, int]
    first_submit: int
    last_submit: int
    queues: dict[str, int]  # queues as the file names them, with the line of the first job of each
    requests: dict[Request, int]  # different requests, with the line of the first job of each
    unended: bool = False  # the last line has no end: the file may have been cut off within it

    def stream(self) -> Iterator[WorkloadJob]:
        """All jobs, in the order of submission."""
        with _opened(self.path) as binary, io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
            for row in FORMATS[self.format](text):
                if isinstance(row, WorkloadJob):
                    yield row

    def queue_problem(self, queue: str, message: str) -> Problem:
        """A problem with a queue that the file names."""
        return Problem(f"{self.path}:{self.queues[queue]}", "", QUEUE_FIELDS[self.format], message)

    def request_problem(self, request: Request, message: str) -> Problem:
        """A problem with a request."""
        return Problem(f"{self.path}:{self.requests[request]}", "", TASK_FIELDS[self.format], message)


@dataclass(slots=True)
class _Scan:
    """The sums of a file so far."""

    jobs: int = 0
    tasks: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    first_submit: int | None = None
    last_submit: int = 0
    queues: dict[str, int] = field(default_factory=dict)
    requests: dict[Request, int] = field(default_factory=dict)
    errors: list[RowError] = field(default_factory=list)
    wrong: int = 0
    line: int = 0  # lines that were read
    unended: bool = False

    def lines(self, text: Iterable[str]) -> Iterator[str]:
        """The lines of a text, counted."""
        line = "\n"
        for line in text:
            self.line += 1
            yield line
        self.unended = not line.endswith(("\n", "\r"))

    def add_error(self, error: RowError) -> None:
        self.wrong += 1
        if len(self.errors) < SHOWN_PROBLEMS:
            self.errors.append(error)

    def add_job(self, job: WorkloadJob, submit_field: str) -> None:
        if job.submit < self.last_submit:
            before = f"{self.last_submit / 1e6:g} s of the job before"
            self.add_error(
                RowError(job.line, submit_field, f"{job.submit / 1e6:g} s is earlier than {before}; sort the lines")
            )
            return
        self.jobs += 1
        self.tasks += job.tasks
        self.first_submit = job.submit if self.first_submit is None else self.first_submit
        self.last_submit = job.submit
        self.queues.setdefault(job.queue, job.line)
        self.requests.setdefault(job.request, job.line)


def jobs_read(jobs: int) -> str:
    """The end of a report of problems: how much of the file was in order."""
    return f"{jobs} {'job' if jobs == 1 else 'jobs'} could be read; nothing was run"


def scan(path: str, format_name: str = "auto") -> WorkloadFile:
    """Check a whole file; raises BadInput with its problems and the number of jobs that could be read."""
    found = _Scan()
    try:
        kind = _detected(path) if format_name == "auto" else format_name
        _scan(path, kind, found)
        digest = file_hash(path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        damaged = Problem(path, "", "", f"the gzip file is damaged or cut off after line {found.line}: {error}")
        raise BadInput([damaged, Problem(path, "", "", jobs_read(found.jobs))]) from None
    except UnicodeDecodeError as error:
        line, byte = _not_utf8(path) or (found.line + 1, error.start)
        wrong = Problem(f"{path}:{line}", "", "", f"is not UTF-8 text (byte {byte + 1} of the line)")
        raise BadInput([wrong, Problem(path, "", "", jobs_read(found.jobs))]) from None
    except OSError as error:
        raise BadInput([Problem(path, "", "", error.strerror or str(error))]) from None
    if not found.errors and not found.jobs:
        raise BadInput([Problem(path, "", "", "contains no job")])
    if found.errors:
        problems = [Problem(f"{path}:{error.line}", "", error.field, error.message) for error in found.errors]
        more = f"{found.wrong} problems, the first {SHOWN_PROBLEMS} are above; " if found.wrong > SHOWN_PROBLEMS else ""
        problems.append(Problem(path, "", "", f"{more}{jobs_read(found.jobs)}"))
        raise BadInput(problems)
    return WorkloadFile(
        path,
        kind,
        digest,
        found.jobs,
        found.tasks,
        found.skipped,
        found.first_submit or 0,
        found.last_submit,
        found.queues,
        found.requests,
        found.unended,
    )


def file_hash(path: str) -> str:
    """The SHA-256 of a file, by which reports name their inputs."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _scan(path: str, kind: str, found: _Scan) -> None:
    with _opened(path) as binary, io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
        for row in FORMATS[kind](found.lines(text)):
            if isinstance(row, WorkloadJob):
                found.add_job(row, SUBMIT_FIELDS[kind])
            elif isinstance(row, SkippedRow):
                found.skipped[row.reason] = found.skipped.get(row.reason, 0) + 1
            else:
                found.add_error(row)


def _not_utf8(path: str) -> tuple[int, int] | None:
    """The first line that cannot be decoded, and the position in it: decoders know positions in a block only."""
    with _opened(path) as binary:
        for number, line in enumerate(binary, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return number, error.start
    return None


def _detected(path: str) -> str:
    """The format, by the first line that is no comment: a job of the Standard Workload Format, or a heading."""
    with _opened(path) as binary, io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
        first = next((line for line in text if line.strip() and not line.lstrip().startswith(";")), "")
    names = {name.strip() for name in first.split(",")}
    if len(names) > 1:
        return "trace" if len(names & set(TRACE_REQUIRED)) > len(names & set(CSV_REQUIRED)) else "csv"
    return "swf" if first[:1].isspace() or first[:1].isdigit() else "csv"


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked where it is a gzip file."""
    with Path(path).open("rb") as raw:
        packed = raw.read(2) == GZIP_MAGIC
        raw.seek(0)
        if packed:
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield unpacked  # type: ignore[misc]  # a GzipFile reads like any binary file
        else:
            yield raw
