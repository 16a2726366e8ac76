"""``pumice simulate`` as users call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import pumice_command
from tests.simulate.samples import workload_file

pytestmark = pytest.mark.process

LINES = "a,0,eng/prod,ann,4,cpu=2,4,600,\nb,10,eng/dev,bob,8,cpu=1,1,900,\nc,20,sci,</script>,2,cpu=4,2,1200,\n"


def test_two_runs_with_one_seed_are_the_same_byte_for_byte(tmp_path: Path) -> None:
    path = workload_file(tmp_path, LINES)
    arguments = ("simulate", path, "--nodes", "2:cpu=8", "--repeat", "2", "--seed", "3", "--policy", "fcfs")
    first = pumice_command(*arguments, "--out", tmp_path / "one", "-o", "json")
    second = pumice_command(*arguments, "--out", tmp_path / "two", "-o", "json")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == second.stdout
    names = sorted(file.name for file in (tmp_path / "one").iterdir())
    assert names == ["jobs.csv", "report.html", "report.json"]
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    values = json.loads(first.stdout)
    assert values == json.loads((tmp_path / "one" / "report.json").read_text())
    assert values["policies"]["fcfs"]["queues"]["root/eng"]["jobs"] == 2
    assert values["inputs"][0]["name"] == path
    jobs = (tmp_path / "one" / "jobs.csv").read_text().splitlines()
    assert jobs[0].startswith("policy,repeat,id,queue,")
    assert len(jobs) == 1 + 2 * 3


def test_page_is_one_file_that_needs_no_network(tmp_path: Path) -> None:
    path = workload_file(tmp_path, LINES.replace("sci", "</script><b>"))
    done = pumice_command("simulate", path, "--nodes", "2:cpu=8", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "report.html").read_text()
    assert "default-src 'none'" in page  # a browser loads nothing for it
    assert " src=" not in page and "<link" not in page and "export {" not in page
    assert page.count("</script>") == 2  # a name of a queue ends no element
    assert "|--eng" in done.stdout and "report.html" in done.stdout


def test_broken_workload_leaves_nothing_behind(tmp_path: Path) -> None:
    path = workload_file(tmp_path, LINES + "d,30,sci,eve,1,cpu=1,1,-4,\n")
    done = pumice_command("simulate", path, "--nodes", "2:cpu=8", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"error: {path}:5: run_time: -4 is out of range; must be a number of seconds from 0 to 10000000000",
        f"error: {path}: 3 jobs could be read; nothing was run",
    ]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["workload.csv"]


def test_bad_policy_is_refused(tmp_path: Path) -> None:
    done = pumice_command("simulate", workload_file(tmp_path, LINES), "--nodes", "2:cpu=8", "--policy", "fair")
    assert done.returncode == 2
    assert "--policy: 'fair' is not known; write NAME=FILE or one of steer, paper" in done.stderr
