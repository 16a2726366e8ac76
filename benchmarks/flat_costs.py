"""What a cycle costs as the cluster grows: python -m benchmarks.flat_costs [--nodes N] [--jobs N] [--shapes N] ...

Each line changes one thing: the number of nodes (with ten running tasks on each, a job for ten tasks and a queue for a
hundred), the number of jobs in one queue, or the number of shapes. The cluster is full, a few jobs wait, and 1, 10 or
100 pods come. What a cycle then costs should follow the number of new pods alone: the growth exponent beside each
figure (0: flat, 1: proportional to what did not change) is that of its line against the line before.

The running tasks are given to the engine as they would be after a restart, so the figures contain no placing of them.
Each line is measured in a process of its own.
"""

from __future__ import annotations

import gc
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from time import process_time

import click

from benchmarks.measures import new_engine, peak_mib
from benchmarks.workload import GPU
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus

ON_NODE = 10  # running tasks
IN_JOB = 10
IN_QUEUE = 100
WAITING = 20  # jobs that wait from the beginning, so that every cycle has somebody to refuse
NEW_PODS = (1, 10, 100)
ROUNDS = 5
FIGURES = ("nothing", *(f"{pods} new" for pods in NEW_PODS), "start", "MiB")


class FullCluster:
    """Running tasks that fill their nodes exactly, and jobs that come to them."""

    def __init__(self, nodes: int, queues: int, in_job: int, shapes: int) -> None:
        self.nodes, self.queues, self.in_job = nodes, queues, in_job
        self.engine: Engine = new_engine()
        registry = self.engine.state.registry
        self._requests = [
            registry.vector({"cpu": 1000 + s, "memory": 2**30, GPU: s % 2, "pods": 1}, where="shapes")
            for s in range(shapes)
        ]
        self._late = 0

    def events(self) -> Iterator[Changed]:
        """Nodes, queues, and jobs with all their tasks running."""
        for q in range(self.queues):
            path = f"root/org{q // 100}/team{q // 10}/q{q}"
            yield Changed(Queue(f"q{q}", path=path, path_weights=f"1/1/{1 + q % 3}/{1 + q % 4}"))
        requests = self._requests
        for n in range(self.nodes):
            here = [requests[(n * ON_NODE + t) // self.in_job % len(requests)] for t in range(ON_NODE)]
            yield Changed(NodeSpec(f"node-{n:05d}", tuple(map(sum, zip(*here, strict=True)))))
        for j in range(self.nodes * ON_NODE // self.in_job):
            name = f"job-{j:06d}"
            yield Changed(JobSpec("ns", name, f"q{j % self.queues}", j, phase=JobPhase.RUNNING, user="ns"))
            for t in range(self.in_job):
                node = f"node-{(j * self.in_job + t) // ON_NODE:05d}"
                status = TaskStatus.RUNNING
                request = requests[j % len(requests)]
                yield Changed(
                    TaskSpec("ns", f"{name}-{t}", request, f"ns/{name}", j, node=node, status=status, started=1 + j)
                )
        for _ in range(WAITING):
            yield from self.next_job()

    def next_job(self) -> Iterator[Changed]:
        """One more job of one task."""
        number = self._late
        self._late += 1
        name, created = f"late-{number:06d}", 10**6 + number
        request = self._requests[number * 7 % len(self._requests)]
        yield Changed(JobSpec("ns", name, f"q{number * 13 % self.queues}", created, phase=JobPhase.INQUEUE, user="ns"))
        yield Changed(TaskSpec("ns", f"{name}-0", request, f"ns/{name}", created))

    def measure(self) -> dict[str, float]:
        """CPU milliseconds of cycles, and the memory of the process."""
        gc.set_threshold(50_000, 20, 100)  # as the scheduler service does
        engine = self.engine
        start = process_time()
        for event in self.events():
            engine.apply(event)
        engine.cycle(0)
        figures = {"start": 1000 * (process_time() - start)}
        engine.cycle(1_000_000)
        gc.collect()
        now = 2_000_000
        for what, pods in (("nothing", 0), *((f"{pods} new", pods) for pods in NEW_PODS)):
            costs = []
            for _ in range(ROUNDS):
                for _ in range(pods):
                    for event in self.next_job():
                        engine.apply(event)
                now += 1_000_000
                began = process_time()
                engine.cycle(now)
                costs.append(1000 * (process_time() - began))
            figures[what] = sorted(costs)[ROUNDS // 2]
        return {**figures, "MiB": peak_mib()}


def measured(nodes: int, queues: int, in_job: int, shapes: int) -> dict[str, float]:
    """The figures of one cluster, from a new process."""
    point = json.dumps([nodes, queues, in_job, shapes])
    command = [sys.executable, "-m", "benchmarks.flat_costs", "--point", point]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def table(title: str, lines: list[tuple[int, dict[str, float]]]) -> str:
    """The figures of growing clusters, each with its growth exponent against the line before."""
    shown = [f"{title:>10}" + "".join(f"{figure:>18}" for figure in FIGURES)]
    for (size, figures), before in zip(lines, [None, *lines[:-1]], strict=True):
        cells = []
        for figure in FIGURES:
            value = figures[figure]
            cell = f"{value:.1f}" if value < 100 else f"{value:,.0f}"
            if before is not None:
                cell += f" (^{exponent(before[0], before[1][figure], size, value):.2f})"
            cells.append(f"{cell:>18}")
        shown.append(f"{size:>10,}" + "".join(cells))
    return "\n".join(shown)


def exponent(size: float, cost: float, larger: float, later: float) -> float:
    """The exponent with which a cost grew between two sizes."""
    return math.log(max(later, 1e-3) / max(cost, 1e-3)) / math.log(larger / size)


@click.command()
@click.option("--nodes", multiple=True, type=int, default=(5_000, 20_000, 50_000), show_default=True)
@click.option("--jobs", multiple=True, type=int, default=(1_000, 10_000), show_default=True, help="In one queue.")
@click.option("--shapes", multiple=True, type=int, default=(100, 10_000), show_default=True)
@click.option("--point", hidden=True, help="Measure one cluster: nodes, queues, tasks of a job and shapes, as JSON.")
def main(nodes: tuple[int, ...], jobs: tuple[int, ...], shapes: tuple[int, ...], point: str | None) -> None:
    """Print what cycles cost on growing clusters: CPU milliseconds, memory, and the growth exponent of each."""
    if point is not None:
        click.echo(json.dumps(FullCluster(*json.loads(point)).measure()))
        return
    sized = [(n, measured(n, n * ON_NODE // IN_QUEUE, IN_JOB, 8)) for n in nodes]
    click.echo(table("nodes", sized) + "\n")
    click.echo(table("jobs", [(n, measured(n // ON_NODE, 1, 1, 8)) for n in jobs]) + "\n")
    click.echo(table("shapes", [(n, measured(5_000, 500, 5, n)) for n in shapes]))


if __name__ == "__main__":
    main()
