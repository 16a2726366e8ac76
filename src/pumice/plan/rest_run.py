"""Run a cluster until nothing changes any more: no job arrives, no task ends.

Pods take longer to terminate than the engine to decide: evicted tasks are gone when the engine has nothing more to
decide before. All take equally long: those that were evicted a cycle later are gone a cycle later. A cycle runs before
their controllers have created them again, because those need longer than the scheduler to notice. The pods of a job
that has none yet are created when it is let in.

Virtual time passes only if the engine waits for something, such as the patience of a job or the minimum run time of a
task. So a decision at time 0 is one that the scheduler makes at once. The clock of the engine may be a little ahead of
that: units of one cycle start some microseconds apart, and a cycle at the same time would spare tasks that start in its
future. After a wait it is a second ahead, because a scheduler to which nothing happens looks once a second: what
becomes possible within a second becomes possible together.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pumice.engine.decisions import Bind, Evict
from pumice.sim.simulated_cluster import SimulatedCluster
from pumice.simulate.virtual_cluster import next_engine_time

LOOK = 1_000_000
"""The time between two cycles of a scheduler to which nothing happens."""
MAX_CYCLES = 10_000
MAX_WAITS = 200
"""So many times in a row may pass for which the engine waits, without a decision."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A task that is evicted, and for whom; times are microseconds from the beginning."""

    after: int
    task: str
    job: str
    node: str
    preemptor: str
    action: str


@dataclass(slots=True)
class RestRun:
    """What happened until rest."""

    evictions: list[Eviction] = field(default_factory=list)
    first_start: dict[str, int] = field(default_factory=dict)  # of each job that started tasks
    started_tasks: dict[str, list[str]] = field(default_factory=dict)  # those that run at rest
    running: Counter[str] = field(default_factory=Counter)  # tasks of each job at rest
    duration: int = 0
    at_rest: bool = True


def run_to_rest(cluster: SimulatedCluster) -> RestRun:
    """Run a cluster to rest."""
    found, waits, after = RestRun(), 0, 0
    started: dict[str, str] = {}
    due: int | None = None  # the pods with this end are gone before the next cycle
    while waits < MAX_WAITS:
        if cluster.cycles >= MAX_CYCLES:
            found.at_rest = False
            break
        cluster.now = max(cluster.now, cluster.engine.context.last_start)
        decisions = cluster.cycle()
        moved = cluster.recreate_pods()
        if due is not None:
            due += 1
            moved |= cluster.remove_terminating(due)
        for decision in decisions:
            if isinstance(decision, Bind):
                started[decision.task] = decision.job
                found.first_start.setdefault(decision.job, after)
                found.duration = after
            elif isinstance(decision, Evict):
                started.pop(decision.task, None)
                found.evictions.append(
                    Eviction(
                        after, decision.task, decision.job, decision.node, decision.preemptor or "", decision.action
                    )
                )
                found.duration = after
        if decisions or cluster.terminating or moved:
            waits = 0
            if not decisions and not moved:
                due = min(cluster.terminating.values())
                cluster.remove_terminating(due)
            continue
        later = next_engine_time(cluster.engine, cluster.now)
        if later is None:
            break
        waits += 1
        after += later - cluster.now
        cluster.now = later + LOOK
    for task, owner in sorted(started.items()):
        found.started_tasks.setdefault(owner, []).append(task)
    for job in cluster.engine.state.jobs.values():
        if job.running:
            found.running[job.key] = job.running
    return found
