"""Workload files: what is read, and what is said about files that cannot be used."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pumice.input_errors import BadInput
from pumice.simulate.workload import SECOND, WorkloadJob
from pumice.simulate.workload_file import scan
from tests.simulate.samples import HEADING, workload_file

GOOD = "a,0,q,ann,2,cpu=1 memory=1Gi,1,60,5\nb,2.5,q/r,,3,nvidia.com/gpu=500m,,0.5,\n"
TRACE = "job_id,submit_s,duration_s,tenant_path,replicas,cpu_milli,mem_mib,gpu_milli,priority,qos,pool,ext\n"
SWF = """\
; Version: 2.2
; Computer: made up
  1 0 10 100 4 -1 -1 4 200 -1 1 7 2 -1 3 -1 -1 -1
  2 5 -1 -1 2 -1 -1 2 200 -1 5 7 2 -1 3 -1 -1 -1

  3 6 1 50 -1 -1 -1 8 200 -1 1 8 2 -1 -1 -1 -1 -1
  4 7 1 50 0 -1 -1 -1 200 -1 0 8 2 -1 -1 -1 -1 -1 ; cancelled
"""


def problems(path: str, format_name: str = "auto") -> list[str]:
    with pytest.raises(BadInput) as raised:
        scan(path, format_name)
    return [str(problem).replace(path, "FILE") for problem in raised.value.problems]


def test_csv_jobs_have_what_their_columns_say(tmp_path: Path) -> None:
    found = scan(workload_file(tmp_path, GOOD))
    first, second = found.stream()
    gib = 2**30 * 1000
    assert first == WorkloadJob("a", 0, "q", "ann", 2, (("cpu", 1000), ("memory", gib)), 1, 60 * SECOND, 5, 2)
    # Without a gang all tasks are one; without a user the job is the default user's.
    assert second == WorkloadJob("b", 2_500_000, "q/r", "default", 3, (("nvidia.com/gpu", 500),), 3, 500_000, 0, 3)
    assert (found.jobs, found.tasks, found.last_submit) == (2, 5, 2_500_000)
    assert found.queues == {"q": 2, "q/r": 3}


def test_packed_files_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "workload.csv.gz"
    path.write_bytes(gzip.compress((HEADING + GOOD).encode()))
    assert scan(str(path)).jobs == 2


def test_traces_are_known_by_their_columns(tmp_path: Path) -> None:
    path = workload_file(tmp_path, "7,3,60,vc/u1,2,0,1024,8000,0,,,state=FAILED\n", TRACE)
    (job,) = scan(path).stream()
    request = (("memory", 2**30 * 1000), ("nvidia.com/gpu", 8000))
    assert job == WorkloadJob("7", 3 * SECOND, "vc/u1", "u1", 2, request, 2, 60 * SECOND, 0, 2)


def test_swf_jobs_are_gangs_of_processors(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(SWF)
    found = scan(str(path))
    first, third = found.stream()
    assert (first.tasks, first.gang, first.queue, first.user) == (4, 4, "queue-3", "user-7")
    assert (first.submit, first.run_time, first.request) == (0, 100 * SECOND, (("cpu", 1000),))
    assert (third.tasks, third.queue) == (8, "group-2")  # requested processors, and the group where no queue is known
    assert found.skipped == {"without run time": 1, "without processors": 1}


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("a,-1,q,,1,cpu=1,1,60,0\n", "FILE:2: submit: -1 is out of range; must be a number of seconds from 0 to"),
        ("a,0,q,,1,cpu=1,1,-60,0\n", "FILE:2: run_time: -60 is out of range"),
        ("a,nan,q,,1,cpu=1,1,60,0\n", "FILE:2: submit: nan is out of range"),
        ("a,0,q,,1,cpu=x,1,60,0\n", "FILE:2: request: cpu: "),
        ("a,0,q,,1,cpu,1,60,0\n", "FILE:2: request: 'cpu' is not RESOURCE=QUANTITY"),
        ("a,0,q,,0,cpu=1,1,60,0\n", "FILE:2: tasks: 0 is too small; must be at least 1"),
        ("a,0,q,,1,cpu=1,2,60,0\n", "FILE:2: gang: 2 is more than the 1 task of the job"),
        ("a,0,q,,9999999999,cpu=1,1,60,0\n", "FILE:2: tasks: 9999999999 is too large; must be at most 1000000"),
        ("a,0,,,1,cpu=1,1,60,0\n", "FILE:2: queue: must not be empty"),
        ("a,0,q,,1,,1,60,0\n", "FILE:2: request: must not be empty"),
        ("a,0,q,,1,cpu=1,1,60,2147483648\n", "FILE:2: priority: 2147483648 is too large; must be at most 2147483647"),
        ("a,0,q,,1,cpu=1\n", "FILE:2: 6 fields; the heading has 9"),
        ('a,0,"q,,1,cpu=1,1,60,0\n', "FILE:2: is not CSV: unexpected end of data"),
        (
            GOOD + "c,1,q,,1,cpu=1,1,60,0\n",
            "FILE:4: submit: 1 s is earlier than 2.5 s of the job before; sort the lines",
        ),
    ],
)
def test_problem_names_file_line_and_field(tmp_path: Path, lines: str, said: str) -> None:
    first, *_ = problems(workload_file(tmp_path, lines))
    assert first.startswith(said)


def test_jobs_that_could_be_read_are_counted(tmp_path: Path) -> None:
    half = GOOD + "c,3,q,,1,cp"
    assert problems(workload_file(tmp_path, half)) == [
        "FILE:4: 6 fields; the heading has 9",
        "FILE: 2 jobs could be read; nothing was run",
    ]


def test_only_the_first_of_many_problems_are_listed(tmp_path: Path) -> None:
    said = problems(workload_file(tmp_path, "a,x,q,,1,cpu=1,1,60,0\n" * 50))
    assert len(said) == 21
    assert said[-1] == "FILE: 50 problems, the first 20 are above; 0 jobs could be read; nothing was run"


def test_missing_and_unknown_columns_are_named(tmp_path: Path) -> None:
    said = problems(workload_file(tmp_path, "a,0\n", "id,submit,queue,tasks,request,runtime\n"))
    assert said[0].startswith("FILE:1: run_time: column is missing; the columns are id, submit,")
    assert said[1].startswith("FILE:1: runtime: column is not known")


@pytest.mark.parametrize(("separator", "shown"), [(";", "';'"), ("\t", "'\\t'")])
def test_other_separators_are_named(tmp_path: Path, separator: str, shown: str) -> None:
    said = problems(workload_file(tmp_path, GOOD.replace(",", separator), HEADING.replace(",", separator)))
    assert said == [
        f"FILE:1: columns are separated by {shown}; must be commas",
        "FILE: 0 jobs could be read; nothing was run",
    ]


def test_files_of_spreadsheets_are_read(tmp_path: Path) -> None:
    # They begin with a byte order mark, and lines end as on Windows.
    path = tmp_path / "workload.csv"
    path.write_bytes(("\ufeff" + HEADING + GOOD).replace("\n", "\r\n").encode())
    assert [job.id for job in scan(str(path)).stream()] == ["a", "b"]


def test_file_without_a_job_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    assert problems(str(empty)) == ["FILE: contains no job"]
    assert problems(workload_file(tmp_path, "")) == ["FILE: contains no job"]


def test_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert problems(str(tmp_path / "none")) == ["FILE: No such file or directory"]
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress((HEADING + GOOD).encode())[:30])
    assert problems(str(broken)) == [
        "FILE: the gzip file is damaged or cut off after line 0: "
        "Compressed file ended before the end-of-stream marker was reached",
        "FILE: 0 jobs could be read; nothing was run",
    ]
    latin = tmp_path / "latin.csv"
    latin.write_bytes(HEADING.encode() + b"\xe9,0,q,,1,cpu=1,1,60,0\n")
    assert problems(str(latin)) == [
        "FILE:2: is not UTF-8 text (byte 1 of the line)",
        "FILE: 0 jobs could be read; nothing was run",
    ]


def test_damage_far_into_a_file_is_placed_and_what_comes_before_is_counted(tmp_path: Path) -> None:
    lines = "".join(f"job-{n},{n},q,ann,1,cpu=1,1,{n * 7919 % 100_003},0\n" for n in range(4000))
    latin = tmp_path / "latin.csv"
    latin.write_bytes(HEADING.encode() + lines.encode() + b"caf\xe9,5000,q,,1,cpu=1,1,60,0\n")
    found = problems(str(latin))
    assert found[0] == "FILE:4002: is not UTF-8 text (byte 4 of the line)"
    assert int(found[1].split()[1]) > 3000  # a block is decoded at once
    broken = tmp_path / "broken.gz"
    broken.write_bytes(gzip.compress((HEADING + lines).encode())[:-2000])
    cut, read = problems(str(broken))
    line = int(cut.partition("after line ")[2].partition(":")[0])
    assert line > 1000
    assert read == f"FILE: {line - 1} jobs could be read; nothing was run"


def test_a_last_line_without_an_end_may_be_half_a_line(tmp_path: Path) -> None:
    assert not scan(workload_file(tmp_path, GOOD)).unended
    assert scan(workload_file(tmp_path, GOOD.rstrip("\n"))).unended


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1 0 1 100 4", "FILE:1: 5 fields; the format has 18"),
        ("1", "FILE:1: 1 field; the format has 18"),
        (
            "1 0 1 100 9999999 -1 -1 4 200 -1 1 7 2 -1 3 -1 -1 -1",
            "FILE:1: allocated processors: 9999999 is too large; must be at most 1000000",
        ),
        ("1 -3 1 100 4 -1 -1 4 200 -1 1 7 2 -1 3 -1 -1 -1", "FILE:1: submit time: -3 is out of range"),
        ("1 0 1 100 x -1 -1 4 200 -1 1 7 2 -1 3 -1 -1 -1", "FILE:1: allocated processors: 'x' is not a whole number"),
    ],
)
def test_swf_problem_names_line_and_field(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "log.swf"
    path.write_text(line + "\n")
    assert problems(str(path))[0].startswith(said)
