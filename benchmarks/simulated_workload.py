"""``pumice simulate``: simulated tasks a second, and the part of the time that is spent in the engine.

The workload has the mix of a GPU cluster trace: most jobs ask for one GPU, a few for a whole node or several, and run
times spread over four orders of magnitude. It is drawn with a fixed seed, so every run simulates the same jobs. The
cluster has 500 nodes with 8 GPUs, and work arrives at 95 % of what they can do (``SIMULATED_LOAD``). The first 3,000
tasks (``SIMULATED_TASKS``) do not fill it; longer runs do, and then searches for victims take most of the time. The run
of a million tasks is at 60 %.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any, cast

from benchmarks.measures import peak_mib
from pumice.engine.decisions import Decision
from pumice.engine.engine import Engine
from pumice.engine.events import Event
from pumice.simulate.node_groups import read_node_groups
from pumice.simulate.policies import read_policy
from pumice.simulate.simulation_run import RunPlan, simulate
from pumice.simulate.workload_file import scan

TASKS = int(os.environ.get("SIMULATED_TASKS", "3000"))
NODES, GPUS = 500, 8
LOAD = float(os.environ.get("SIMULATED_LOAD", "0.95"))
# GPUs of a task, tasks of a job, and how many of a thousand jobs are such.
MIX = ((1, 1, 935), (2, 1, 23), (4, 1, 16), (8, 1, 22), (8, 2, 2), (8, 4, 2))
WEIGHTS = [weight for _, _, weight in MIX]
QUEUES = (("a/x", 40), ("a/y", 25), ("b/x", 15), ("b/y", 10), ("c", 6), ("d", 4))
MEDIAN_SECONDS, SPREAD = 900.0, 1.8  # of run times: log-normal
LONGEST_SECONDS = 5 * 86400.0


def simulation(least: int = TASKS, load: float = LOAD) -> dict[str, float]:
    """One run of at least so many tasks under the default policy."""
    timed: list[TimedEngine] = []

    def made(*arguments: Any) -> Engine:
        timed.append(TimedEngine(Engine(*arguments)))
        return cast(Engine, timed[0])

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "workload.csv"
        tasks = write_workload(path, least, load)
        start = perf_counter()
        groups = tuple(read_node_groups(f"{NODES}:cpu=64,nvidia.com/gpu={GPUS}", 0))
        figures = simulate(RunPlan(scan(str(path)), read_policy("steer"), (), groups), None, made)
        seconds = perf_counter() - start
    return {
        "tasks": tasks,
        "tasks_per_second": tasks / seconds,
        "engine_percent": 100 * timed[0].seconds / seconds,
        "cycles": figures.cycles,
        "peak_rss_mib": peak_mib(),
    }


class TimedEngine:
    """An engine, and the time that was spent in it. No subclass: a compiled engine allows none."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.context, self.state, self.tree, self.order = engine.context, engine.state, engine.tree, engine.order
        self.seconds = 0.0

    def apply(self, event: Event) -> None:
        start = perf_counter()
        self._engine.apply(event)
        self.seconds += perf_counter() - start

    def cycle(self, now: int) -> list[Decision]:
        start = perf_counter()
        decisions = self._engine.cycle(now)
        self.seconds += perf_counter() - start
        return decisions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def write_workload(path: Path, tasks: int, load: float = LOAD) -> int:
    """Draw jobs with at least so many tasks; returns how many there are.

    The jobs are drawn twice, first for their work, which says how fast they may arrive. A list of them would take more
    memory than the simulation does, and its peak is measured.
    """
    draw = random.Random(1)
    jobs, total, work = 0, 0, 0.0
    while total < tasks:
        gpus, replicas, run_time = _job(draw)
        jobs += 1
        total += replicas
        work += gpus * replicas * run_time
    gap = work / (NODES * GPUS * load) / jobs
    names, shares = [name for name, _ in QUEUES], [share for _, share in QUEUES]
    again = random.Random(1)
    now = 0.0
    with path.open("w", encoding="utf-8") as file:
        file.write("id,submit,queue,tasks,request,run_time\n")
        for number in range(jobs):
            gpus, replicas, run_time = _job(again)
            now += draw.expovariate(1 / gap)
            queue = draw.choices(names, shares)[0]
            asked = f"cpu={4 * gpus} nvidia.com/gpu={gpus}"
            file.write(f"{number},{now:.3f},{queue},{replicas},{asked},{run_time:.3f}\n")
    return total


def _job(draw: random.Random) -> tuple[int, int, float]:
    """GPUs of a task, number of tasks and run time."""
    gpus, replicas, _ = draw.choices(MIX, WEIGHTS)[0]
    return gpus, replicas, min(LONGEST_SECONDS, draw.lognormvariate(0.0, SPREAD) * MEDIAN_SECONDS)
