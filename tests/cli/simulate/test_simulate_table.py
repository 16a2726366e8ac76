"""Tables of a simulation with repeats, whose numbers are means."""

from __future__ import annotations

from pathlib import Path

from tests.simulate.samples import workload_file
from tests.support.in_process import pumice

LINES = "".join(f"j{n},{60 * n},{'ab'[n % 2]},ann,2,cpu=1,1,300,\n" for n in range(20))


def test_means_over_repeats_and_differences_are_readable(tmp_path: Path) -> None:
    path = workload_file(tmp_path, LINES)
    repeats = ("--repeat", "3", "--until", "10m")
    done = pumice("simulate", path, "--nodes", "1:cpu=2", "--policy", "steer", "--policy", "fcfs", *repeats)
    assert done.status == 0, done.err
    first = done.out.splitlines()[1].split()
    assert first[0] == "steer" and "." in first[1] and len(first[1].partition(".")[2]) == 1  # a mean of jobs
    rows = done.out.partition("95 % INTERVAL")[2]
    for measure in ("wait mean, s", "evicted tasks", "length of the run, h", "shortfall cpu-hours"):
        assert f"  {measure}  " in rows
