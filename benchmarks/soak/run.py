"""``python -m benchmarks.soak.run --minutes 60``: runs the soak, prints what it saw, and fails if that is wrong."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.soak import churn, ledger
from benchmarks.soak.attackers import Attackers
from benchmarks.soak.churn import Churn
from benchmarks.soak.cluster import CHILDREN, SoakCluster
from benchmarks.soak.ledger import Ledger
from benchmarks.soak.pod_audit import PodAudit
from kubesim.storage.fsck import check_directory
from pumice.embedded.identity import PUMICE
from pumice.kube.client.api import Api
from pumice.kube.client.transport import Session
from pumice.kube.resources import Document, Resource

NODES = 6
AT_ONCE = 4
"""Jobs in each queue: a few more pods than the nodes have room for."""
KILL_SECONDS = 15.0
"""At least so long after the one before, and not before a job has ended since: on a busy machine starts take longer."""
SAMPLES = 30
"""How often memory is measured."""
CALM_PART = 2 / 3
"""The part of the time in which nothing is killed."""
WARM_PART = 1 / 3
"""The part of that after which memory is compared: until then caches fill."""
WARM_PODS = 4_000
"""And the pods by which caches of a fixed size are full: remembered Events, values of objects, recent changes."""
MOST_GROWTH_MB = 5.0
"""By which a process may grow for every 10,000 pods, once it is warm."""
FEWEST_PODS = 5_000
"""Pods after the warm part from which growth is judged: with fewer, a page more or less counts too much."""
_NAMESPACES: Resource[Document] = Resource("v1", "namespaces", "Namespace", dict, namespaced=False)


@dataclass
class Report:
    """What the soak has seen."""

    pods: int = 0
    bound: int = 0
    jobs: int = 0
    acknowledged: int = 0
    attacks: int = 0
    kills: int = 0
    memory: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    """By pods created until then: the memory of each process in MB, while nothing was killed."""
    wrong: list[str] = field(default_factory=list)

    def growth(self) -> tuple[int, dict[str, float]]:
        """Pods created since memory was warm, and by how many MB each process has grown for 10,000 of them."""
        warm = [entry for entry in self.memory[int(len(self.memory) * WARM_PART) :] if entry[0] >= WARM_PODS]
        if len(warm) < 2:
            return 0, {}
        (first, before), (last, after) = warm[0], warm[-1]
        pods = last - first
        return pods, {name: (after[name] - before[name]) * 1e4 / max(pods, 1) for name in after if name in before}

    def lines(self) -> list[str]:
        """The report as text."""
        pods, growth = self.growth()
        found = [
            f"{self.pods} pods in {self.jobs} finished jobs, {self.bound} bindings, {self.acknowledged} other writes, "
            f"{self.attacks} attacks, {self.kills} kills",
            *(
                f"{at:>8} pods   " + "   ".join(f"{name} {size:.0f} MB" for name, size in sorted(sizes.items()))
                for at, sizes in self.memory
            ),
            f"growth per 10,000 pods, over the last {pods} of the calm part: "
            + ", ".join(f"{name} {size:+.1f} MB" for name, size in sorted(growth.items())),
        ]
        return [*found, *(f"WRONG {text}" for text in self.wrong), "nothing was wrong" if not self.wrong else "FAILED"]


async def soak(folder: Path, seconds: float) -> Report:
    """Run the soak in a folder."""
    cluster, report = SoakCluster(folder, NODES), Report()
    cluster.start()
    began = time.monotonic()
    try:
        async with AsyncExitStack() as stack:
            api = Api(await stack.enter_async_context(Session(cluster.access)))
            for name in (churn.NAMESPACE, ledger.NAMESPACE):
                await churn.insist(partial(api.create, _NAMESPACES, {"metadata": {"name": name}}))
            await churn.make_queues(api)
            jobs, book, audit, attackers = Churn(api), Ledger(api), PodAudit(api), Attackers(cluster.port)
            work = [jobs.run(queue) for queue in churn.QUEUE_NAMES for _ in range(AT_ONCE)]
            work += [book.run(), audit.informer.run(), audit.run(), attackers.run(), churn.delete_events(api)]
            tasks = [asyncio.create_task(one) for one in work]
            try:
                await _calm(cluster, report, jobs, tasks, began + seconds * CALM_PART, seconds * CALM_PART / SAMPLES)
                await _kill(cluster, report, jobs, tasks, began + seconds, min(KILL_SECONDS, seconds / 12))
            finally:
                for task in tasks:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
            await book.compare()
            report.wrong += [f"{type(error).__name__}: {error}" for error in ended if isinstance(error, Exception)]
            report.wrong += [*jobs.wrong, *book.wrong, *audit.wrong]
            report.pods, report.jobs, report.bound = jobs.created, jobs.finished, audit.bound
            report.acknowledged, report.attacks = book.acknowledged, attackers.attacks
    finally:
        status = cluster.stop()
    _judge(cluster, report, status)
    return report


async def _calm(
    cluster: SoakCluster, report: Report, jobs: Churn, tasks: Sequence[asyncio.Task[None]], end: float, pause: float
) -> None:
    """Let everybody work, and measure memory."""
    while time.monotonic() < end and not any(task.done() for task in tasks):
        await asyncio.sleep(pause)
        report.memory.append((jobs.created, cluster.memory()))


async def _kill(
    cluster: SoakCluster, report: Report, jobs: Churn, tasks: Sequence[asyncio.Task[None]], end: float, pause: float
) -> None:
    """Kill one process after another, the server too."""
    choose = random.Random(19)
    finished = jobs.finished
    while time.monotonic() < end and not any(task.done() for task in tasks):
        await asyncio.sleep(pause)
        if jobs.finished == finished:
            continue  # it has not recovered yet
        finished = jobs.finished
        victim = choose.choice((*CHILDREN, ""))
        if victim:
            cluster.kill_child(victim)
        else:
            cluster.kill()
            await asyncio.to_thread(cluster.start)
        report.kills += 1
    await asyncio.sleep(10)  # the last one that was killed is there again


def _judge(cluster: SoakCluster, report: Report, status: int) -> None:
    """Add to a report what is wrong with what is left, and with its numbers."""
    if status:
        report.wrong.append(f"pumice up ended with status {status}")
    if cluster.tracebacks():
        report.wrong.append(f"{cluster.tracebacks()} tracebacks in {cluster.log}")
    report.wrong += [f"fsck: {finding}" for finding in check_directory(cluster.data, PUMICE)]
    if not report.jobs or not report.acknowledged or not report.attacks:
        report.wrong.append("too little has happened to judge")
    pods, growth = report.growth()
    if pods >= FEWEST_PODS:
        report.wrong += [
            f"{name} grows by {size:.1f} MB for 10,000 pods" for name, size in growth.items() if size > MOST_GROWTH_MB
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak.run", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="pumice-soak-") as folder:
        report = asyncio.run(soak(Path(folder), given.minutes * 60))
        print("\n".join(report.lines()))
        if report.wrong:
            print((Path(folder) / "log").read_text()[-5000:])
    return bool(report.wrong)


if __name__ == "__main__":
    sys.exit(main())
