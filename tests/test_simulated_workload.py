"""The workload of the simulation benchmark: its size and mix, and that drawing it takes no memory that is measured."""

from __future__ import annotations

import csv
import tracemalloc
from pathlib import Path

import pytest

from benchmarks.simulated_workload import GPUS, NODES, simulation, write_workload
from pumice.simulate.workload_file import scan


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "workload.csv"


def test_drawing_a_long_workload_takes_no_more_memory_than_a_short_one(path: Path) -> None:
    write_workload(path, 100)
    tracemalloc.start()
    try:
        assert write_workload(path, 5000) >= 5000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000  # 20 bytes a task; a job in a list takes 120


@pytest.mark.parametrize("load", [0.6, 0.95])
def test_work_arrives_at_the_load_that_is_asked_for(path: Path, load: float) -> None:
    tasks = write_workload(path, 20_000, load)
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["tasks"]) for row in rows) == tasks == scan(str(path)).tasks
    work = sum(
        int(row["tasks"]) * int(row["request"].rpartition("=")[2]) * float(row["run_time"]) for row in rows
    )  # GPU-seconds
    assert work / float(rows[-1]["submit"]) / (NODES * GPUS) == pytest.approx(load, rel=0.03)


def test_a_run_reports_its_figures() -> None:
    found = simulation(60)
    assert found["tasks"] >= 60 and found["cycles"] >= 60
    assert found["tasks_per_second"] > 0 and 0 < found["engine_percent"] < 100
