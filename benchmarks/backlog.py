"""A cycle after one new pod while many jobs wait: python -m benchmarks.backlog [KIND ...] [--waiting N] [--profile]

The cluster is workload C on nodes that its tasks fill, with ``--waiting`` jobs more: of one task (``singles``), of a
gang of four (``gangs``), or of three unlike tasks (``unlike``). Many of them are equal: there are four shapes in each
of 500 queues, or in one queue (``--queues 1``).
"""

from __future__ import annotations

import cProfile
import gc
import json
import pstats
from collections.abc import Iterator
from dataclasses import replace
from time import process_time

import click

from benchmarks.measures import ALLOCATE_ONLY, new_engine, peak_mib
from benchmarks.workload import GPU, Workload
from pumice.engine.config.scheduler_config import DEFAULT_CONFIG
from pumice.engine.decisions import Bind
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.model.specs import JobPhase, JobSpec, TaskSpec, TaskStatus

KINDS = ("singles", "gangs", "unlike")
NAMESPACES = ("ns0", "ns1", "ns2", "ns3")
FULL = 0.98  # of what the tasks of C request, so that some of them wait too


def full_cluster() -> Workload:
    """Workload C on nodes that are a little too small for it."""
    workload = Workload.load("C")
    nodes = workload.spec["nodes"]
    asked = workload.tasks * sum(shape["cpu"] for shape in workload.spec["shapes"]) / len(workload.spec["shapes"])
    nodes = {**nodes, "cpu": int(asked / nodes["count"] * FULL)}
    return Workload("full C", {**workload.spec, "nodes": nodes})


class Backlog:
    """Jobs that come to a cluster, numbered in the order of their arrival."""

    def __init__(self, engine: Engine, kind: str, queues: int) -> None:
        shapes = full_cluster().spec["shapes"]
        self._requests = [
            engine.state.registry.vector(
                {"cpu": shape["cpu"], "memory": shape["memory"], GPU: shape["gpu"], "pods": 1}, where="shapes"
            )
            for shape in shapes
        ]
        self._kind = kind
        self._queues = [f"q{i}" for i in range(queues)]
        self._number = 0

    def next_job(self) -> Iterator[Changed]:
        """The events of one more job."""
        number = self._number
        self._number += 1
        namespace, name, created = NAMESPACES[number % len(NAMESPACES)], f"late-{number:07d}", 10**6 + number
        key = f"{namespace}/{name}"
        queue = self._queues[number % len(self._queues)]
        first = number // len(self._queues) % len(self._requests)
        requests = {
            "singles": [first],
            "gangs": [first] * 4,
            "unlike": [(first + i) % len(self._requests) for i in range(3)],
        }[self._kind]
        least = len(requests) if self._kind == "gangs" else 1
        yield Changed(JobSpec(namespace, name, queue, created, least, phase=JobPhase.INQUEUE, user=namespace))
        for i, shape in enumerate(requests):
            yield Changed(TaskSpec(namespace, f"{name}-{i}", self._requests[shape], key, created))


def waiting_jobs(
    kind: str, waiting: int, queues: int = 500, rounds: int = 5, text: str = ALLOCATE_ONLY, profile: bool = False
) -> dict[str, float]:
    """CPU time of cycles with so many waiting jobs: nothing, one new job, one task that ended, and both.

    The cycle after one that started a task has that to account for: it is a figure of its own (``after_start``).
    """
    gc.set_threshold(50_000, 20, 100)  # as the scheduler service does
    engine = new_engine(text=text)
    for event in full_cluster().events(engine.state.registry):
        engine.apply(event)
    backlog = Backlog(engine, kind, queues)
    for _ in range(waiting):
        for event in backlog.next_job():
            engine.apply(event)
    now = 0
    first, decisions = _timed(engine, now)
    running = [decision.task for decision in decisions if isinstance(decision, Bind)]
    for decision in decisions:
        if isinstance(decision, Bind):
            spec = engine.state.tasks[decision.task].spec
            engine.apply(Changed(replace(spec, node=decision.node, status=TaskStatus.RUNNING, started=1)))
    del decisions
    engine.cycle(1_000_000)
    gc.collect()
    costs: dict[str, list[float]] = {"after_start": [], "nothing": [], "job_came": [], "task_ended": [], "both": []}
    profiler = cProfile.Profile()
    for number in range(rounds):
        for what, found in costs.items():
            now += 2_000_000
            if what in ("task_ended", "both"):
                spec = engine.state.tasks[running[(len(found) * 997 + len(what) * 13) % len(running)]].spec
                engine.apply(Changed(replace(spec, status=TaskStatus.SUCCEEDED)))
            if what in ("job_came", "both"):
                for event in backlog.next_job():
                    engine.apply(event)
            if profile and number:
                profiler.enable()
            found.append(_timed(engine, now)[0])
            profiler.disable()
    if profile:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(35)
    return {
        "running": len(running),
        "waiting": sum(job.running == 0 for job in engine.state.jobs.values()),
        "first_ms": first * 1000,
        **{f"{what}_ms": sorted(found)[len(found) // 2] * 1000 for what, found in costs.items()},
        "peak_rss_mib": peak_mib(),
    }


def _timed(engine: Engine, now: int) -> tuple[float, list[object]]:
    start = process_time()
    decisions = engine.cycle(now)
    return process_time() - start, list(decisions)


@click.command()
@click.argument("kinds", nargs=-1, type=click.Choice(KINDS))
@click.option("--waiting", default=100_000, show_default=True, help="Jobs that come after those of C.")
@click.option("--queues", default=500, show_default=True, help="Queues in which they wait.")
@click.option("--rounds", default=5, show_default=True, help="Cycles of each sort.")
@click.option("--default", "as_default", is_flag=True, help="Under the default configuration.")
@click.option("--profile", is_flag=True, help="Print where the time of these cycles goes.")
def main(kinds: tuple[str, ...], waiting: int, queues: int, rounds: int, as_default: bool, profile: bool) -> None:
    """Measure cycles beside a backlog; one line of JSON for each kind of jobs."""
    text = DEFAULT_CONFIG if as_default else ALLOCATE_ONLY
    for kind in kinds or KINDS:
        figures = waiting_jobs(kind, waiting, queues, rounds, text, profile)
        click.echo(json.dumps({"kind": kind, "queues": queues, **{key: round(v, 1) for key, v in figures.items()}}))


if __name__ == "__main__":
    main()
