"""The solver within ceilings, guarantees and users' caps: worked cases, against the exact fluid, and what must hold."""

from __future__ import annotations

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given

from pumice.engine.fairness.fluid_target import solver as entitlement
from pumice.engine.fairness.fluid_target import solver_phase as phase
from pumice.engine.fairness.fluid_target.solver import solve_targets
from pumice.engine.fairness.fluid_target.solver_limits import SolverLimits
from pumice.engine.fairness.fluid_target.solver_phase import SolverPhase
from tests.support.bounded_trees import BoundedTree, bounded_trees
from tests.support.share_trees import Tree, assert_close, halting_trees, satisfied, trees, wide_tree

F = Fraction
A_HAIR = 1e-9


# --- by hand ----------------------------------------------------------------------------------------------------


def two_queues(ask: int | None = None) -> tuple[Tree, int, int]:
    """16 cpu; q1 (1) with one leaf that asks for so much, q2 (3) with ns1 (2) that asks for 5 and ns2 (6) for 20."""
    tree = Tree()
    q1, q2 = tree.node(0, 1), tree.node(0, 3)
    tree.add(tree.node(q2, 2), [F(1, 16)], 5)
    tree.add(tree.node(q2, 6), [F(1, 16)], 20)
    if ask is not None:
        tree.add(q1, [F(1, 16)], ask)
    return tree, q1, q2


def test_an_unused_guarantee_is_kept_from_everybody() -> None:
    # Without it q2 has all 16: 2 : 6, so 4 and 12. With 4 of them reserved for q1 12 are left: 3 and 9.
    tree, q1, _ = two_queues()
    assert_close(BoundedTree(tree).target(), [4, 12])
    assert_close(BoundedTree(tree, guarantee={q1: [F(4, 16)]}).target(), [3, 9])


def test_a_guarantee_is_served_first() -> None:
    # q1's weight is worth 4 of 16; it is guaranteed 6 and asks for 7. It gets its 6, the others share 10: 2.5 and 7.5.
    # Guaranteed 3 only, it rises with the others from there: 4.
    tree, q1, _ = two_queues(7)
    assert_close(BoundedTree(tree, guarantee={q1: [F(6, 16)]}).target(), [F(5, 2), F(15, 2), 6])
    assert_close(BoundedTree(tree, guarantee={q1: [F(3, 16)]}).target(), [3, 9, 4])


def test_the_whole_cluster_guaranteed_is_shared_by_weight_inside() -> None:
    # All 16 are q2's: nothing is left in reach of anybody else from the beginning. Inside, 2 : 6.
    tree, _, q2 = two_queues(7)
    assert_close(BoundedTree(tree, guarantee={q2: [F(1)]}).target(), [4, 12, 0])


def test_guarantees_inside_each_other() -> None:
    # 20 cpu. a is guaranteed 10, inside it b 6; c (in a) and d (outside) have no guarantee. b asks for 2, c and d for
    # all. First b's 2; then a's 10, of which 4 stay reserved for b: c gets 4. Now a claims 10 and holds 6. d rises to
    # 6, too; 4 are left, 2 for c and 2 for d.
    tree = Tree()
    a = tree.node(0)
    b = tree.node(a)
    tree.add(b, [F(1, 20)], 2)
    tree.add(tree.node(a), [F(1, 20)])
    tree.add(tree.node(0), [F(1, 20)])
    assert_close(BoundedTree(tree, guarantee={a: [F(10, 20)], b: [F(6, 20)]}).target(), [2, 6, 8])


def test_guarantee_is_not_constrained_by_resources_outside_guarantee() -> None:
    # 10 cpu, 10 mem; q (1) against p (9), tasks of 1 and 1. By weight q has 1. Guaranteed 4 cpu it has 4 tasks, and
    # the memory for them.
    tree = Tree()
    q, p = tree.node(0, 1), tree.node(0, 9)
    tree.add(q, [F(1, 10), F(1, 10)])
    tree.add(p, [F(1, 10), F(1, 10)])
    assert_close(BoundedTree(tree).target(), [1, 9])
    assert_close(BoundedTree(tree, guarantee={q: [F(4, 10), F(0)]}).target(), [4, 6])


def test_at_a_ceiling_those_who_need_the_resource_stop() -> None:
    # 12 cpu, 12 mem. q: x (cpu), y (mem), z (cpu, mem); p: w (mem). q may have 4 cpu. With t tasks of x, y and z q has
    # 2t cpu and 2t mem, so p has 2t as well: at t = 2 cpu is at the ceiling: x 2, y 2, z 2, w 4. y goes on with w: of
    # 12 mem q and p have 6 each, z's 2 included: y 4, w 6.
    tree = Tree()
    q, p = tree.node(0), tree.node(0)
    tree.add(q, [F(1, 12), 0])
    tree.add(q, [0, F(1, 12)])
    tree.add(q, [F(1, 12), F(1, 12)])
    tree.add(p, [0, F(1, 12)])
    assert_close(BoundedTree(tree, {q: [F(4, 12), None]}).target(), [2, 4, 2, 6])


def test_ceiling_bound_resource_still_counts_in_queue_share() -> None:
    # 10 cpu, 10 mem. q (cpu at most 6; c and, weighing next to nothing, m) and p (mem). When c stops at 6 cpu, q's
    # share is 0.6 and stays so until m has 6 mem; p, which had 6 by then, has to wait: 4 are left for m.
    tree = Tree()
    q, p = tree.node(0), tree.node(0)
    tree.add(q, [F(1, 10), 0])
    tree.add(q, [0, F(1, 10)], weight=F(1, 10**6))
    tree.add(p, [0, F(1, 10)])
    assert_close(BoundedTree(tree, {q: [F(6, 10), None]}).target(), [6, 4, 6], within=1e-4)


def test_a_ceiling_below_a_ceiling() -> None:
    # 100 cpu: org at most 50, in it a at most 10, b without; c outside. a 10, b 40, c 50.
    tree = Tree()
    org = tree.node(0)
    a, b = tree.node(org), tree.node(org)
    for parent in (a, b, tree.node(0)):
        tree.add(parent, [F(1, 100)])
    assert_close(BoundedTree(tree, {org: [F(1, 2)], a: [F(1, 10)]}).target(), [10, 40, 50])


def test_a_ceiling_of_nothing() -> None:
    tree = Tree()
    q = tree.node(0)
    tree.add(q, [F(1, 10), 0])
    tree.add(q, [0, F(1, 10)])
    assert_close(BoundedTree(tree, {q: [F(0), None]}).target(), [0, 10])


@pytest.mark.parametrize("spread", [False, True], ids=["in one namespace", "over two"])
def test_a_user_has_a_cap_wherever_its_jobs_are(spread: bool) -> None:
    # 12 cpu, one queue: u has two jobs, v one. u may have 4: 2 each; v gets the other 8.
    tree = Tree()
    queue = tree.node(0)
    first = tree.node(queue)
    mine = [tree.add(first, [F(1, 12)]), tree.add(tree.node(queue) if spread else first, [F(1, 12)])]
    tree.add(tree.node(queue), [F(1, 12)])
    assert_close(BoundedTree(tree, users=[(queue, mine, [F(4, 12)])]).target(), [2, 2, 8])


def test_a_users_cap_is_used_class_by_class() -> None:
    # 12 cpu; u may have 5: the first class takes 3 of them, its second 2; v's second class the 7 others.
    tree = Tree()
    queue = tree.node(0)
    mine = [tree.add(queue, [F(1, 12)], 3, rank=0), tree.add(queue, [F(1, 12)], rank=1)]
    tree.add(queue, [F(1, 12)], rank=1)
    assert_close(BoundedTree(tree, users=[(queue, mine, [F(5, 12)])]).target(), [3, 2, 7])


def test_limits_that_nobody_comes_near_change_nothing() -> None:
    tree, q1, q2 = two_queues(7)
    loose = BoundedTree(tree, {q1: [F(15, 16)], q2: [None]}, {q1: [F(0)]}, [(q1, [2], [F(15, 16)])])
    assert loose.target() == tree.target()


# --- against the exact fluid --------------------------------------------------------------------------------------


@given(bounded_trees(guarantees=False, users=False, ranked=True))
def test_ceilings_equal_the_exact_fluid(tree: BoundedTree) -> None:
    assert_close(tree.target(), tree.exact())


@given(bounded_trees(ceilings=False, users=False, ranked=True))
def test_guarantees_equal_the_exact_fluid(tree: BoundedTree) -> None:
    assert_close(tree.target(), tree.exact())


@given(bounded_trees(ceilings=False, guarantees=False, ranked=True))
def test_users_equal_the_exact_fluid(tree: BoundedTree) -> None:
    assert_close(tree.target(), tree.exact())


@given(bounded_trees(ranked=True))
def test_all_limits_equal_the_exact_fluid(tree: BoundedTree) -> None:
    assert_close(tree.target(), tree.exact())


@given(bounded_trees(ranked=True, unlike=True))
def test_limits_equal_the_exact_fluid_with_jobs_of_unlike_tasks(tree: BoundedTree) -> None:
    assert_close(tree.target(), tree.exact())


@given(bounded_trees(of=halting_trees()))
def test_limits_equal_the_exact_fluid_where_shares_halt(tree: BoundedTree) -> None:
    assert_close(tree.target(), tree.exact())


@pytest.mark.parametrize("seed", [1, 2])
def test_large_clusters_equal_the_exact_fluid(seed: int) -> None:
    # Targets of tens of thousands of tasks, four levels, a limit of some kind on every second node.
    tree = wide_tree(seed, 50_000)
    bounded = BoundedTree(tree)
    for n in bounded.inner()[1:]:
        match (n * 7 + seed) % 4:
            case 0:
                bounded.ceiling[n] = [F(1, 9), F(1, 13), None]
            case 1:
                bounded.guarantee[n] = [F(1, 40), F(1, 50), F(0)]
    queues = sorted({tree.parent[n] for n in tree.leaf})
    for queue in queues[::3]:
        bounded.users.append((queue, [k for k in tree.below(queue) if k % 2], [F(1, 60), None, F(1, 80)]))
    exact = bounded.exact()
    assert max(exact) > 50_000
    assert exact != tree.exact()
    assert_close(bounded.target(), exact, within=1e-7)


@given(trees(ranked=True))
def test_without_limits_nothing_changes_to_the_last_bit(tree: Tree) -> None:
    assert BoundedTree(tree).target() == tree.target()


# --- what must hold -----------------------------------------------------------------------------------------------


@given(bounded_trees(ranked=True))
def test_nobody_is_above_a_limit(tree: BoundedTree) -> None:
    target = tree.target()
    for j in range(tree.tree.width):
        for node in tree.inner():
            assert tree.together(target, node, j) <= tree.most(node, j) + A_HAIR
        for _, leaves, cap in tree.users:
            assert cap[j] is None or tree.held(target, leaves, j) <= cap[j] + A_HAIR


@given(bounded_trees(ranked=True))
def test_nobody_is_left_out_who_could_be_served(tree: BoundedTree) -> None:
    target = tree.target()
    for k, direction in enumerate(tree.tree.direction):
        if not satisfied(tree.tree, target, k):
            asks = [j for j, v in enumerate(direction) if v]
            parent = tree.tree.parent[tree.tree.leaf[k]]
            broke = [
                leaves
                for _, leaves, cap in tree.users
                if k in leaves
                and any(cap[j] is not None and tree.held(target, leaves, j) >= cap[j] - A_HAIR for j in asks)
            ]
            assert broke or any(tree.room(target, parent, j) <= A_HAIR for j in asks)


@given(bounded_trees(of=trees(resources=1), ceilings=False, users=False))
def test_a_guarantee_is_met_up_to_demand(tree: BoundedTree) -> None:
    # What an inner queue is guaranteed and does not use stays free for it: it counts as used for the queue around it.
    target = tree.target()
    demand = [
        F(2) / d[0] if q is None and d[0] else F(q or 0)
        for q, d in zip(tree.tree.demand, tree.tree.direction, strict=True)
    ]
    for node, (reserved,) in tree.guarantee.items():
        assert tree.together(target, node, 0) >= min(tree.together(demand, node, 0), reserved) - A_HAIR


# --- cost ---------------------------------------------------------------------------------------------------------


def many_queues(queues: int, jobs: int) -> tuple[Tree, list[int]]:
    """Queues whose ceiling on cpu binds at a different level each; half of their jobs ask for cpu, all for memory."""
    tree = Tree()
    nodes = [tree.node(0) for _ in range(queues)]
    for number, queue in enumerate(nodes):
        namespaces = [tree.node(queue), tree.node(queue, 2)]
        for k in range(jobs):
            cpu = F(k % 2, 100 * queues)
            tree.add(namespaces[k % 4 // 2], [cpu, F(1 + number % 3, 100 * queues)], 500)
    return tree, nodes


@pytest.mark.parametrize("binding", ["everybody", "some"])
def test_solver_phase_count_does_not_grow_with_limits(binding: str) -> None:
    tree, queues = many_queues(60, 8)
    limit = [F(10 + n, 100 * 400) for n in range(len(queues))]
    j = 1 if binding == "everybody" else 0
    ceilings: dict[int, list[F | None]] = {
        queue: [None, most] if j else [most, None] for queue, most in zip(queues, limit, strict=True)
    }
    bounded = BoundedTree(tree, ceilings)
    made: list[SolverPhase] = []

    class Counted(SolverPhase):
        def __init__(self, *arguments: object) -> None:
            made.append(self)
            super().__init__(*arguments)  # type: ignore[arg-type]  # whatever a phase is made with

    with patch.object(entitlement, "SolverPhase", Counted), patch.object(phase, "SolverPhase", Counted):
        target = bounded.target()
    for queue, most in zip(queues, limit, strict=True):
        assert abs(bounded.held(target, tree.below(queue), j) - float(most)) < A_HAIR
    assert len(made) <= 4


def test_five_thousand_leaves_with_a_ceiling_on_each_queue() -> None:
    # 500 queues of 10 leaves, all alike; queue n may have 1 + n % 5 of 10 parts of its 1/500: all of them bind, as the
    # demand is endless, but for those that may have more than what is left is worth.
    queues, jobs = 500, 10
    parent = np.concatenate([[-1], np.zeros(queues), np.repeat(np.arange(1, queues + 1), jobs)]).astype(np.int64)
    count = len(parent)
    ceiling = np.full((count, 1), np.inf)
    ceiling[1 : queues + 1, 0] = (1 + np.arange(queues) % 5) / 10 / queues
    limits = SolverLimits(
        ceiling, np.zeros((count, 1)), np.full(queues * jobs, -1), np.empty((0, 1)), np.empty(0, dtype=np.int64)
    )
    target = solve_targets(
        parent,
        np.ones(count),
        np.arange(queues + 1, count),
        np.full((queues * jobs, 1), 1e-6),
        np.full(queues * jobs, np.inf),
        None,
        limits,
    )
    # 1/10 of 1/500 of a million tasks is 200, by 10 leaves 20.
    assert np.abs(target.reshape(queues, jobs) - 20 * (1 + np.arange(queues) % 5)[:, None]).max() < 1e-7
