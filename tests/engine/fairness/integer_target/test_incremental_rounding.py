"""Rounding what changed gives what rounding everything gives, change after change."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.fairness.fluid_target.targets import set_targets
from pumice.engine.fairness.integer_target.rounding import IntegerTargets
from pumice.engine.fairness.integer_target.unit_passes import UnitPasses
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from tests.engine.fairness.integer_target.test_rounding import end_all, slow_whole_targets
from tests.support.groves import ITEMS, WIDTH, Grove, below

CHANGES = ["come", "come", "start", "start", "end", "ask", "turn", "go", "weight", "limit", "pass on", "capacity"]
WHAT_COUNTS = ("integer_target", "integer_task_counts", "base", "line", "taken", "run", "head", "head_held")


class MixedLife:
    """Queues and namespaces, many with one child, whose jobs have equal or unlike tasks, gangs and reserves."""

    def __init__(self, seed: int, *, anew: bool, jobs: int = 30) -> None:
        self.rng = rng = random.Random(seed)
        self.anew = anew
        self.kinds = rng.choice([[1], [1, 1, 1, 2], [1, 2, 3]])  # of tasks in a job
        self.grove = grove = Grove([rng.randint(500, 9000), rng.randint(500, 9000), 100, rng.randint(500, 9000)])
        self.homes: list[ShareNode] = []
        for _ in range(rng.randint(1, 4)):
            queue = grove.group(weight=rng.choice([1.0, 1.0, 2.0]))
            for _ in range(rng.choice([0, 0, 1, 2])):
                queue = grove.group(queue)
            self.homes += [grove.group(queue, kind=NodeKind.NAMESPACE) for _ in range(rng.choice([1, 1, 3]))]
        self.stamp = 10
        for _ in range(rng.randint(4, jobs)):
            self.come()
        set_targets(grove.tree, grove.capacity)
        for job in grove.jobs:
            for items, count in job.demand.parts:
                for _ in range(min(count, max(0, int(job.target) + rng.choice([-1, 0, 0, 1])))):
                    grove.start(grove.tree, job, items, rng.randint(1, 9), rng.random() < 0.7)
        self.rounding = IntegerTargets(grove.tree)

    def come(self) -> None:
        rng = self.rng
        kinds = rng.sample(ITEMS, rng.choice(self.kinds))
        parts = [(items, rng.choice([1, 1, 2, 3, 8])) for items in kinds]
        total = sum(count for _, count in parts)
        gang = rng.choice([1, 1, rng.randint(1, total)])
        floor = ((CPU, 100 * total), (MEMORY, 900)) if rng.random() < 0.1 else ()
        before = (rng.randint(0, 1),) if rng.random() < 0.1 else (0,)
        self.grove.job(rng.choice(self.homes), parts, gang=gang, floor=floor, before=before)

    def round(self, *, solve: bool) -> list[JobNode]:
        if solve:
            set_targets(self.grove.tree, self.grove.capacity)
        if self.anew:
            self.rounding.forget_all()
        changed = self.rounding.run(self.grove.capacity)
        self.grove.tree.regrouped.clear()  # as the candidates do, which follow these jobs
        return changed

    def start_or_end(self, seed: int) -> None:
        """A task starts or ends, as within a cycle: demand stays as it was solved for."""
        self.stamp += 1
        rng, grove = random.Random(seed + self.stamp), self.grove
        job = rng.choice(grove.jobs)
        if job.demand.parts and rng.random() < 0.6:
            grove.start(grove.tree, job, rng.choice(job.demand.parts)[0], self.stamp, rng.random() < 0.7)
        elif grove.running:
            grove.end(grove.tree, rng.randrange(len(grove.running)))

    def change(self) -> bool:
        """Change something; whether that is a reason to solve."""
        rng, grove = self.rng, self.grove
        self.stamp += 1
        job = rng.choice(grove.jobs)
        what = rng.choice(CHANGES)
        if what == "come":
            self.come()
        elif what == "start" and job.demand.parts:
            grove.start(grove.tree, job, rng.choice(job.demand.parts)[0], self.stamp, rng.random() < 0.7)
            return rng.random() < 0.3
        elif what == "end" and grove.running:
            grove.end(grove.tree, rng.randrange(len(grove.running)))
            return rng.random() < 0.3
        elif what == "ask":
            end_all(grove, job)
            grove.ask_for(job, [(items, rng.randint(1, 9)) for items in rng.sample(ITEMS, rng.choice([0, 1, 1, 2]))])
        elif what == "turn":
            grove.tree.remember_turn(job, self.stamp)
            return False
        elif what == "go" and len(grove.jobs) > 2:
            end_all(grove, job)
            self.rounding.forget(job)
            grove.tree.remove(job)
            grove.jobs.remove(job)
        elif what == "weight":
            rng.choice(grove.groups).weight = rng.choice([1.0, 1.01, 2.0])
            grove.tree.reshaped = True
        elif what == "limit" and rng.random() < 0.3:
            queue = rng.choice(grove.groups)
            queue.ceiling = None if queue.ceiling is not None else [n * 2 // 3 for n in grove.capacity]
        elif what == "pass on":
            heir = rng.choice(grove.jobs)
            grove.tree.moved[job] = grove.tree.moved[heir] = None
        elif what == "capacity" and rng.random() < 0.3:
            grove.capacity[:] = [n + rng.randint(-50, 50) for n in grove.capacity]
        return True


def targets(life: MixedLife) -> dict[str, list[int]]:
    return {job.name: list(job.integer_target) for job in life.grove.jobs}


@given(st.integers(0, 2**32))
def test_what_changed_alone_is_rounded_as_everything_is(seed: int) -> None:
    some, all_ = MixedLife(seed, anew=False), MixedLife(seed, anew=True)
    solve = True
    for _ in range(25):
        before = [(list(job.integer_target), job.integer_task_counts) for job in some.grove.jobs]
        jobs = list(some.grove.jobs)
        changed, _ = some.round(solve=solve), all_.round(solve=solve)
        for one, other in zip(some.grove.jobs, all_.grove.jobs, strict=True):
            for name in WHAT_COUNTS:
                assert getattr(one, name) == getattr(other, name), name
        for one, other in zip(some.grove.tree.root.walk_inner(), all_.grove.tree.root.walk_inner(), strict=True):
            assert one.integer_target == other.integer_target
            assert one.held_heads == other.held_heads and one.waiting_heads == other.waiting_heads
        after = [(job.integer_target, job.integer_task_counts) for job in jobs]
        assert set(changed) == {job for job, a, b in zip(jobs, before, after, strict=True) if a != b}
        solve = some.change()
        assert solve == all_.change()


@given(st.integers(0, 2**32))
def test_a_look_at_the_next_targets_leaves_the_present_ones_in_force(seed: int) -> None:
    looking, other = MixedLife(seed, anew=False), MixedLife(seed, anew=True)
    seen: list[dict[str, list[int]]] = []
    solve = True
    for _ in range(12):
        looking.round(solve=solve)
        other.round(solve=solve)
        solve = False
        for _ in range(looking.rng.choice([0, 1, 2])):
            for life in (looking, other):
                life.start_or_end(seed)
            before = [(list(job.integer_target), job.integer_task_counts) for job in looking.grove.jobs]
            seen.clear()
            looking.rounding.try_next(looking.grove.capacity, lambda: seen.append(targets(looking)) is None)
            assert [(job.integer_target, job.integer_task_counts) for job in looking.grove.jobs] == before
            for group in looking.grove.groups:
                sums = [sum(job.integer_target[j] for job in below(group)) for j in range(WIDTH)]
                assert group.integer_target == sums
            other.round(solve=False)
            assert seen == [targets(other)]
        other.rng.setstate(looking.rng.getstate())
        solve = looking.change()
        assert solve == other.change()


@given(st.integers(0, 2**32))
def test_whole_targets_of_small_narrow_trees_equal_the_slow_version(seed: int) -> None:
    life = MixedLife(seed, anew=False, jobs=9)
    solve = True
    for _ in range(5):
        life.round(solve=solve)
        assert {job.name: job.integer_target for job in life.grove.jobs} == slow_whole_targets(life.grove)
        solve = life.change()


def test_some_passes_are_known_to_add_nothing() -> None:
    known = 0
    for seed in range(20):
        life = MixedLife(seed, anew=False)
        life.round(solve=True)
        passes: UnitPasses = life.rounding._passes
        known += sum(passes.adds_nothing(node) for node in life.grove.groups)
    assert known > 20
