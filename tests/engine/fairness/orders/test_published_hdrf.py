"""The rule ``paper`` by hand, and in one pool: the worked fills, and fair under churn where sums are not."""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from kubebase.resource_vector import CPU, PODS
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.model.specs import Items
from tests.support.case_files import read_cases
from tests.support.paper_world import GPU, PLACES, World

CASES = read_cases("hdrf")["cases"]

# --- the rule, by hand -------------------------------------------------------------------------------------


def two_branches(*, n22_asks: Items | None, n22_able: bool) -> World:
    """10 cpu, 10 gpu. n1 has n11 with 5 cpu; n2 has n21 with 2 cpu and n22 with 8 gpu."""
    world = World({CPU: 10, GPU: 10})
    n1, n2 = world.group(), world.group()
    world.job(n1, ((CPU, 1),), holds=((CPU, 5),), name="n11")
    world.job(n2, ((CPU, 1),), holds=((CPU, 2),), name="n21")
    world.job(n2, n22_asks, n22_able, holds=((GPU, 8),), name="n22")
    return world


def test_children_are_scaled_to_the_least_share_among_them() -> None:
    world = two_branches(n22_asks=((GPU, 1),), n22_able=True)
    # n2: s = .2 and .8, M = .2, V = (.2, 0) + .2/.8 * (0, .8) = (.2, .2): s = .2 < .5 of n1 (the sum has .8).
    levels = world.order.explain()
    assert [(level.node, level.runner_up) for level in levels] == [
        ("root/group2", "root/group1"),
        ("root/group2/n21", "root/group2/n22"),
    ]
    assert [level.key for level in levels] == pytest.approx([0.2, 0.2], abs=2**-30)
    assert [level.runner_up_key for level in levels] == pytest.approx([0.5, 0.8], abs=2**-30)
    assert world.order.next_job() is world.tree.jobs["n21"]


def test_blocked_children_are_not_scaled() -> None:
    # n22 has nothing to start, n21 asks for both: Y = {cpu, gpu}, n2: M = .2, V = (.2, 0) + (0, .8): s = .8.
    world = two_branches(n22_asks=None, n22_able=False)
    world.order.set_candidate(world.tree.jobs["n21"], ((CPU, 1), (GPU, 1)), True)
    assert world.order.next_job() is world.tree.jobs["n11"]


def test_resources_nobody_can_take_do_not_count() -> None:
    # No gpu can be placed: Y = {cpu}, n22 is blocked and holds no cpu, n2: V = .2 on cpu < .5 of n1.
    world = two_branches(n22_asks=((GPU, 1),), n22_able=False)
    assert world.order.next_job() is world.tree.jobs["n21"]
    # n21 takes four more: n2 has .6 on cpu, n1 comes first.
    world.start(world.tree.jobs["n21"], ((CPU, 4),))
    assert world.order.next_job() is world.tree.jobs["n11"]


def test_unplaceable_job_counts_in_minimum_share_but_is_skipped() -> None:
    # 10 cpu: n11 .3; n21 .4 and n22 .1, which waits for 8 that are not free. n22 is not blocked, so M = .1,
    # n2: V = .1 + .1 = .2 < .3, and below it n21 is served, being the only one who can be.
    world = World({CPU: 10})
    n1, n2 = world.group(), world.group()
    n11 = world.job(n1, ((CPU, 1),), holds=((CPU, 3),))
    n21 = world.job(n2, ((CPU, 1),), holds=((CPU, 4),))
    n22 = world.job(n2, ((CPU, 8),), able=False, holds=((CPU, 1),))
    assert world.order.next_job() is n21
    # With nothing to start it is blocked: V = .4 + .1 = .5 > .3.
    world.order.set_candidate(n22, None, False)
    assert world.order.next_job() is n11


def test_a_newcomer_pulls_its_group_to_the_front() -> None:
    # n2 holds .9 in one job; a job with nothing makes M = 0 and so V = 0 < .1 of n1.
    world = World({CPU: 10})
    n1, n2 = world.group(), world.group()
    n11 = world.job(n1, ((CPU, 1),), holds=((CPU, 1),))
    world.job(n2, ((CPU, 1),), holds=((CPU, 9),))
    assert world.order.next_job() is n11
    newcomer = world.job(n2, ((CPU, 1),))
    assert world.order.next_job() is newcomer


def test_weights_inside_a_branch_leave_the_split_between_branches_alone() -> None:
    # n2 holds .2 by weight 1 and .6 by weight 3: s = .2 both, so V = .2 + .6 = .8, as one job with .8 has.
    world = World({CPU: 100})
    n1, n2 = world.group(), world.group()
    world.job(n1, ((CPU, 1),), holds=((CPU, 79),), name="one")
    world.job(n2, ((CPU, 1),), holds=((CPU, 20),))
    world.job(n2, ((CPU, 1),), holds=((CPU, 60),), weight=3.0)
    assert [level.node for level in world.order.explain()] == ["root/group1", "root/group1/one"]
    level = world.order.explain()[0]
    assert (level.key, level.runner_up_key) == pytest.approx((0.79, 0.8), abs=2**-29)


def test_tiers_come_before_the_share_among_jobs_only() -> None:
    # Of the jobs of n2 the urgent one goes first although it has more; between n1 and n2 shares decide.
    world = World({CPU: 10})
    n1, n2 = world.group(), world.group()
    n11 = world.job(n1, ((CPU, 1),), holds=((CPU, 4),))
    n21 = world.job(n2, ((CPU, 1),), holds=((CPU, 1),))
    n22 = world.job(n2, ((CPU, 1),), holds=((CPU, 2),))
    n11.before, n21.before, n22.before = (-9,), (0,), (-1,)
    for leaf in world.leaves:
        world.tree.mark(leaf)
    assert world.order.next_job() is n22
    # .1 + .1 scaled is .2 < .4; with 4 and 5 it is .8.
    world.start(n21, ((CPU, 3),))
    world.start(n22, ((CPU, 3),))
    assert world.order.next_job() is n11


def test_places_on_nodes_are_no_share() -> None:
    world = World({CPU: 10, PODS: 10})
    many = world.job(world.tree.root, ((CPU, 1), (PODS, 1)), holds=((CPU, 1), (PODS, 9)))
    world.job(world.tree.root, ((CPU, 1), (PODS, 1)), holds=((CPU, 2), (PODS, 1)))
    assert world.order.next_job() is many
    assert list(world.order.lanes) == [(CPU,)]


def test_something_held_of_a_resource_of_which_there_is_none_is_all_of_it() -> None:
    world = World({CPU: 10, GPU: 0})
    world.job(world.tree.root, ((CPU, 1), (GPU, 1)), holds=((GPU, 1),))
    other = world.job(world.tree.root, ((CPU, 1),), holds=((CPU, 9),))
    assert world.order.next_job() is other


def test_next_job_is_none_without_placeable_candidates() -> None:
    world = World({CPU: 10})
    assert world.order.next_job() is None
    world.job(world.group(), ((CPU, 1),), able=False)
    assert world.order.next_job() is None
    assert world.order.explain() == ()


# --- one pool under churn ----------------------------------------------------------------------------------


class Pool(World):
    """One divisible machine: every leaf has one task shape, and can be placed while that fits."""

    def __init__(self, capacity: Mapping[str, Any], tree: Mapping[str, Any]) -> None:
        self.index = dict(zip(capacity, PLACES, strict=False))
        super().__init__(dict(self.vector(capacity)))
        self.free = list(self.capacity)
        self.shape: dict[JobNode, Items] = {}
        self.waiting: dict[JobNode, int] = {}
        self._declare(self.tree.root, tree)
        self.offer_all()

    def _declare(self, parent: ShareNode, spec: Mapping[str, Any]) -> None:
        for child in spec["children"]:
            weight = float(Fraction(str(child.get("weight", 1))))
            if "children" in child:
                self._declare(self.group(parent, weight), child)
            else:
                leaf = self.job(parent, None, weight=weight, name=child["name"])
                self.shape[leaf] = self.vector(child["demand"])
                self.waiting[leaf] = int(child.get("max_tasks", 10**6))

    def vector(self, amounts: Mapping[str, Any]) -> Items:
        """Amounts as written, in thousandths, so that the finest of the cases are whole numbers."""
        return tuple((self.index[name], int(Fraction(str(n)) * 1000)) for name, n in amounts.items() if n)

    def offer_all(self) -> None:
        for leaf, shape in self.shape.items():
            fits = all(amount <= self.free[j] for j, amount in shape)
            self.order.set_candidate(leaf, shape if self.waiting[leaf] else None, fits)

    def fill(self) -> None:
        """Serve until nothing fits."""
        while (leaf := self.order.next_job()) is not None:
            self.place(leaf)

    def place(self, leaf: JobNode) -> None:
        """A task starts."""
        self.start(leaf, self.shape[leaf])
        self.waiting[leaf] -= 1
        for j, amount in self.shape[leaf]:
            self.free[j] -= amount
        self.offer_all()

    def finish(self, index: int) -> None:
        """A task ends; an equal one waits in its place."""
        leaf, items = self.end(index)
        self.waiting[leaf] += 1
        for j, amount in items:
            self.free[j] += amount
        self.offer_all()

    def tasks(self) -> dict[str, int]:
        return {leaf.name: len(leaf.starts) for leaf in self.shape}


FILLS = [case for case in CASES if "fill_paper" in case["expected"]]
CHURNS = [case for case in CASES if "churn" in case]


@pytest.mark.parametrize("case", FILLS, ids=lambda case: str(case["id"]))
def test_an_empty_pool_is_filled_as_worked_out(case: Mapping[str, Any]) -> None:
    pool = Pool(case["capacity"], case["tree"])
    pool.fill()
    assert pool.tasks() == case["expected"]["fill_paper"]


@pytest.mark.parametrize("case", CHURNS, ids=lambda case: str(case["id"]))
def test_churn_leads_to_the_target_and_stays_there(case: Mapping[str, Any]) -> None:
    # Plain sums look as good after the first fill and then starve a leaf, one completion after another.
    churn = case["churn"]
    pool = Pool(case["capacity"], case["tree"])
    for name, count in churn.get("initial", {}).items():
        for _ in range(count):
            pool.place(pool.tree.jobs[name])
    rng = random.Random(1)
    pool.fill()
    settled = "initial" not in churn
    for _ in range(400):
        if settled:
            assert pool.tasks() == churn["target"]
        for _ in range(rng.randint(1, 4)):
            pool.finish(rng.randrange(len(pool.running)))
        pool.fill()
        settled = settled or pool.tasks() == churn["target"]
    assert settled
