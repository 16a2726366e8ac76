"""Passes brought up to date by counts of equal jobs: what comes out is what the slow version gives, job by job."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.fairness.fluid_target.targets import set_targets
from pumice.engine.fairness.integer_target.rounding import IntegerTargets
from pumice.engine.fairness.integer_target.settled_passes import record_of
from pumice.engine.fairness.share_tree.demand import Demand
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.model.specs import Items
from tests.engine.fairness.integer_target.test_rounding import end_all, slow_whole_targets
from tests.support.groves import GPU, ITEMS, WIDTH, Grove

TASK = ((CPU, 1000),)


class EqualJobsLife:
    """Queues with many equal jobs that come, start, end and leave; the targets are rounded after every change."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.kinds = rng.sample([*ITEMS, ((CPU, 100), (MEMORY, 100)), ((GPU, 150),)], rng.choice([1, 1, 2, 3]))
        self.kinds = [items for items in self.kinds for _ in range(rng.choice([1, 3]))]
        self.tasks, self.gang = rng.choice([1, 1, 2, 4]), rng.choice([1, 1, 1, 2])
        self.demands: dict[Items, Demand] = {}
        self.grove = grove = Grove([rng.randint(500, 3000), rng.randint(500, 3000), 100, rng.randint(500, 3000)])
        queues = [grove.group(weight=rng.choice([1.0, 1.0, 2.0])) for _ in range(rng.randint(1, 3))]
        queues += [grove.group(queues[0]) for _ in range(rng.choice([0, 0, 2]))]
        self.homes = [queue for queue in queues if not queue.children]
        self.stamp = 10
        for _ in range(rng.randint(6, 25)):
            self.come()
        set_targets(grove.tree, grove.capacity)
        for job in grove.jobs:
            for _ in range(min(self.tasks, max(0, int(job.target) + rng.choice([0, 1, 1])))):
                grove.start(grove.tree, job, job.demand.parts[0][0], rng.randint(1, 9), rng.random() < 0.7)
        self.rounding = IntegerTargets(grove.tree)
        self.counted = 0  # passes that were brought up to date by counts

    def come(self) -> JobNode:
        rng = self.rng
        items = rng.choice(self.kinds)
        gang = min(self.gang, self.tasks) if rng.random() < 0.7 else 1
        before = (rng.randint(0, 1),) if rng.random() < 0.1 else (0,)
        return self.grove.job(rng.choice(self.homes), [(items, self.tasks)], gang=gang, before=before)

    def go(self, job: JobNode) -> None:
        end_all(self.grove, job)
        self.rounding.forget(job)
        self.grove.tree.remove(job)
        self.grove.jobs.remove(job)

    def round(self, *, solve: bool) -> None:
        grove, rounding = self.grove, self.rounding
        before = {job: list(job.integer_target) for job in grove.jobs}
        if solve:
            set_targets(grove.tree, grove.capacity)
        changed = rounding.run(grove.capacity)
        grove.tree.regrouped.clear()  # as the candidates do, which follow these jobs
        assert {job.name: job.integer_target for job in grove.jobs} == slow_whole_targets(grove)
        assert set(changed) == {job for job in grove.jobs if job.integer_target != before[job]}
        self.counted += len(rounding._records)

    def change(self) -> bool:
        """Change something; whether that is a reason to solve."""
        rng, grove = self.rng, self.grove
        self.stamp += 1
        job = rng.choice(grove.jobs)
        what = rng.choice(
            ["come", "come", "start", "end", "both", "turn", "tier", "go", "over", "user", "weight", "capacity"]
        )
        if what == "come":
            self.come()
        elif what == "start" and job.demand.parts and len(job.starts) < self.tasks:
            grove.start(grove.tree, job, job.demand.parts[0][0], self.stamp, rng.random() < 0.7)
            return rng.random() < 0.3
        elif what in ("end", "both") and grove.running:
            grove.end(grove.tree, rng.randrange(len(grove.running)))
            if what == "both" and job.demand.parts and len(job.starts) < self.tasks:
                grove.start(grove.tree, job, job.demand.parts[0][0], self.stamp)
            return rng.random() < 0.3
        elif what == "turn":
            grove.tree.remember_turn(job, self.stamp)
            return rng.random() < 0.3
        elif what == "tier":
            job.before = (1 - job.before[0],)
            grove.tree.moved[job] = None
        elif what == "go" and len(grove.jobs) > 2:
            self.go(job)
        elif what == "over":
            end_all(grove, job)
            grove.ask_for(job, [])
        elif what == "user":
            job.user = rng.choice(["", "ann"])  # another group of equal jobs with the same entitlement
            grove.tree.regroup[job] = None
        elif what == "weight":
            rng.choice(grove.groups).weight = rng.choice([1.0, 2.0])
            grove.tree.reshaped = True
        elif what == "capacity" and rng.random() < 0.3:
            grove.capacity[rng.choice([CPU, MEMORY, GPU])] += rng.randint(-50, 50)
        return True


@given(st.integers(0, 2**32))
def test_whole_targets_equal_the_slow_version_after_every_change(seed: int) -> None:
    for life in map(EqualJobsLife, range(seed, seed + 3)):
        life.round(solve=True)
        for _ in range(12):
            life.round(solve=life.change())


def test_most_passes_over_equal_jobs_are_counted() -> None:
    counted = 0
    for life in map(EqualJobsLife, range(30)):
        life.round(solve=True)
        for _ in range(12):
            life.round(solve=life.change())
        counted += life.counted
    assert counted > 200


def queue_of(jobs: int, tasks: int, cpus: int) -> tuple[Grove, IntegerTargets]:
    """One queue of equal jobs that run all their tasks, on so many cpus."""
    grove = Grove([1000 * cpus, 0, 0, 0])
    queue = grove.group()
    for stamp in range(jobs):
        job = grove.job(queue, [(TASK, tasks)])
        for _ in range(tasks):
            grove.start(grove.tree, job, TASK, 1 + stamp)
    rounding = IntegerTargets(grove.tree)
    return grove, rounding


def test_a_job_that_comes_to_a_full_queue_takes_a_unit_from_one_other() -> None:
    grove, rounding = queue_of(10, 10, 99)
    set_targets(grove.tree, grove.capacity)
    rounding.run(grove.capacity)
    whole = [job.integer_target[CPU] for job in grove.jobs]
    assert whole == [10_000] * 9 + [9_000]
    grove.job(grove.groups[1], [(TASK, 1)])
    # 98 for the ten that run 100: 9.8 each, and 1 for the new one.
    set_targets(grove.tree, grove.capacity)
    changed = rounding.run(grove.capacity)
    assert set(changed) == {grove.jobs[8], grove.jobs[10]}
    assert [job.integer_target[CPU] for job in grove.jobs] == [10_000] * 8 + [9_000] * 2 + [1_000]


def test_jobs_of_unlike_tasks_cannot_be_counted() -> None:
    grove = Grove([3000, 3000, 0, 0])
    queue = grove.group()
    for _ in range(4):
        grove.job(queue, [(TASK, 1), (((MEMORY, 1000),), 1)])
    rounding = IntegerTargets(grove.tree)
    set_targets(grove.tree, grove.capacity)
    rounding.run(grove.capacity)
    assert record_of(queue, ()) is None
    assert sum(job.integer_target[CPU] for job in grove.jobs) == 3000
    assert len(grove.jobs[0].integer_target) == WIDTH
