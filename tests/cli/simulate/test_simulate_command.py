"""``pumice simulate`` as users call it. tests/test_simulate_page.py compares several policies."""

from __future__ import annotations

import csv
import errno
import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from pumice.input_errors import BadInput
from tests.cli.command import pumice_command
from tests.simulate.samples import HEADING, workload_file
from tests.support.in_process import pumice

pytestmark = pytest.mark.process

COLUMNS = "id, submit, queue, tasks, request, run_time, user, gang, priority"
LINES = "a,0,eng/prod,ann,4,cpu=2,4,600,\nb,10,eng/dev,bob,8,cpu=1,1,900,\nc,20,</script><b>,eve,2,cpu=4,2,1200,\n"


def test_two_runs_are_the_same_byte_for_byte_and_the_page_needs_no_network(tmp_path: Path) -> None:
    path = workload_file(tmp_path, LINES)
    outputs = []
    for folder in ("one", "two"):
        # Another order of sets and hashes must make no difference.
        done = pumice_command(
            *("simulate", path, "--nodes", "2:cpu=8", "--out", tmp_path / folder, "-o", "json"),
            PYTHONHASHSEED=str(len(outputs)),
        )
        assert (done.returncode, done.stderr) == (0, "")
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    names = sorted(file.name for file in (tmp_path / "one").iterdir())
    assert names == ["jobs.csv", "report.html", "report.json"]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["one", "two", "workload.csv"]
    values = json.loads(outputs[0])
    written = json.loads((tmp_path / "one" / "report.json").read_text())
    series = {queue["path"]: queue for queue in written.pop("series")[0]["queues"]}
    assert values == written
    assert series.keys() == values["policies"]["steer"]["queues"].keys()
    assert max(series["root"]["used"]["cpu"]) == max(series["root/eng"]["entitled"]["cpu"]) > 0
    assert values["policies"]["steer"]["queues"]["root/eng"]["jobs"] == 2
    assert values["inputs"][0]["name"] == path and len(values["inputs"][0]["sha256"]) == 64
    jobs = (tmp_path / "one" / "jobs.csv").read_text().splitlines()
    assert jobs[0].startswith("policy,repeat,id,queue,") and len(jobs) == 1 + 3
    page = (tmp_path / "one" / "report.html").read_text()
    assert "default-src 'none'" in page  # a browser loads nothing for it
    assert " src=" not in page and "<link" not in page and "export {" not in page
    assert page.count("</script>") == 2  # the name of a queue ends no element


THREE_READ = "FILE: 3 jobs could be read; nothing was run"
NO_RUN_TIME = HEADING.replace("run_time,", "")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            HEADING + LINES + "d,30,sci,eve,1,cpu=1,1,-4,\n",
            ["FILE:5: run_time: -4 is out of range; must be a number of seconds from 0 to 10000000000", THREE_READ],
        ),
        (HEADING + LINES + "d,30,sci,eve,1,cp", ["FILE:5: 6 fields; the heading has 9", THREE_READ]),
        (
            HEADING + LINES + "d,15,sci,eve,1,cpu=1,1,4,\n",
            ["FILE:5: submit: 15 s is earlier than 20 s of the job before; sort the lines", THREE_READ],
        ),
        (
            NO_RUN_TIME + "a,0,eng,ann,4,cpu=2,4,\n",
            [
                f"FILE:1: run_time: column is missing; the columns are {COLUMNS}",
                "FILE: 0 jobs could be read; nothing was run",
            ],
        ),
        (
            HEADING + LINES + "d,30,sci,eve,1,cpu=9,1,4,\n",
            [
                "FILE:5: request: a task with cpu 9 is larger than every node",
                "FILE: 4 jobs could be read; nothing was run",
            ],
        ),
        ("", ["FILE: contains no job"]),
    ],
    ids=["negative time", "half a line", "times out of order", "missing column", "too large a task", "empty file"],
)
def test_broken_workload_leaves_nothing_behind(tmp_path: Path, lines: str, said: list[str]) -> None:
    path = workload_file(tmp_path, lines, heading="")
    done = pumice_command("simulate", path, "--nodes", "2:cpu=8", "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.replace(path, "FILE").splitlines() == [f"error: {line}" for line in said]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["workload.csv"]


def test_parquet_holds_the_lines_of_the_csv_or_says_what_to_install(tmp_path: Path) -> None:
    path = workload_file(tmp_path, LINES)
    done = pumice_command("simulate", path, "--nodes", "2:cpu=8", "--out", tmp_path / "out", "--parquet")
    if find_spec("pyarrow") is None:
        needs = "needs pyarrow, which is not installed: pip install 'pumice[parquet]'"
        assert (done.returncode, done.stderr) == (2, f"error: --parquet: {needs}\n")
        assert not (tmp_path / "out").exists()
        return
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(tmp_path / "out" / "jobs.parquet").to_pylist()
    with (tmp_path / "out" / "jobs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in table] == [row["id"] for row in rows]
    assert [row["wait"] for row in table] == [float(row["wait"]) for row in rows]


@pytest.mark.parametrize("option", ["--speedup-arrivals", "--jitter"])
def test_what_is_not_a_number_is_refused(tmp_path: Path, option: str) -> None:
    done = pumice("simulate", workload_file(tmp_path, LINES), "--nodes", "2:cpu=8", "--repeat", "2", option, "nan")
    assert done.status == 2
    assert f"Invalid value for '{option}': 'nan' is not a number" in done.err


def test_a_last_line_without_an_end_is_noted(tmp_path: Path) -> None:
    path = workload_file(tmp_path, LINES.rstrip("\n"))
    done = pumice("simulate", path, "--nodes", "2:cpu=8")
    assert done.status == 0
    assert f"note: {path}: the last line has no line end: was the file cut off?\n" in done.err


def test_a_file_of_the_report_that_is_a_folder_is_refused_before_anything_runs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "jobs.csv").mkdir(parents=True)
    with pytest.raises(BadInput, match=r"--out: .*jobs\.csv is a folder"):
        pumice("simulate", workload_file(tmp_path, LINES), "--nodes", "2:cpu=8", "--out", out)
    assert [file.name for file in out.iterdir()] == ["jobs.csv"]


def test_a_report_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: object, target: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(source))

    monkeypatch.setattr(os, "replace", full)
    out = tmp_path / "out"
    with pytest.raises(BadInput, match=r"--out: .*report\.html: No space left on device"):
        pumice("simulate", workload_file(tmp_path, LINES), "--nodes", "2:cpu=8", "--out", out)
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["out", "workload.csv"]


def test_a_report_goes_to_a_folder_of_another_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def within(source: Path, target: Path) -> None:
        assert out in source.parents, "only its own folder is certain to be on the same file system"
        replace(source, target)

    monkeypatch.setattr(os, "replace", within)
    out = tmp_path / "out"
    out.mkdir()
    done = pumice("simulate", workload_file(tmp_path, LINES), "--nodes", "2:cpu=8", "--out", out)
    assert done.status == 0, done.err
    assert sorted(file.name for file in out.iterdir()) == ["jobs.csv", "report.html", "report.json"]
