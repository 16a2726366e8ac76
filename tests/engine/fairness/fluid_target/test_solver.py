"""The solver against worked cases, against the exact fluid, on large clusters, with classes, at the edges."""

from __future__ import annotations

from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.fairness.fluid_target import solver_phase as phase
from pumice.engine.fairness.fluid_target.solver import solve_targets
from tests.support.case_files import read_cases
from tests.support.share_trees import (
    Tree,
    assert_close,
    assert_guarantees,
    copies,
    halting_trees,
    trees,
    wide_tree,
)

F = Fraction
CASES = read_cases("hdrf")["cases"]


# --- worked cases -----------------------------------------------------------------------------------------------


def case_tree(case: dict[str, Any]) -> tuple[Tree, list[str]]:
    capacity = {name: F(str(amount)) for name, amount in case["capacity"].items()}
    tree, names = Tree(), []

    def plant(spec: dict[str, Any], parent: int) -> None:
        weight = F(str(spec.get("weight", 1)))
        if "children" in spec:
            node = tree.node(parent, weight) if parent >= 0 else 0
            for child in spec["children"]:
                plant(child, node)
            return
        request = [F(str(spec["demand"].get(name, 0))) / amount for name, amount in capacity.items()]
        tree.add(parent, request, spec.get("max_tasks"), weight)
        names.append(spec["name"])

    plant(case["tree"], -1)
    return tree, names


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_worked_case(case: dict[str, Any]) -> None:
    tree, names = case_tree(case)
    got = tree.target()
    expected = case["expected"]
    if expected.get("ambiguous"):
        assert_guarantees(tree, got)
    else:
        want = [F(str(expected["static"][name])) for name in names]
        assert_close(got, want, within=float(expected.get("tolerance", 1e-9)))


def test_worked_cases_are_complete() -> None:
    assert len({case["id"] for case in CASES}) == 50


def test_example_of_the_docstring() -> None:
    # 10 cpu, 10 mem. A: c (weight 3, 3 cpu tasks) and m (mem); B: k (mem). c is full at 0.3, A halts there until m
    # has 0.3 as well, then m and k rise to 0.5 each.
    tree = Tree()
    a, b = tree.node(0), tree.node(0)
    tree.add(a, [F(1, 10), 0], 3, weight=3)
    tree.add(a, [0, F(1, 10)])
    tree.add(b, [0, F(1, 10)])
    assert_close(tree.target(), [3, 5, 5])


def test_siblings_that_halt_together_get_equal_drops() -> None:
    # 100 cpu and mem. A (3) has 30 cpu against 10 : 1 of its mem leaf, B (1) 10 cpu against 5 : 1. Both halt at
    # 0.1 (in floats 0.3 / 3 is not 0.1), A with 3 mem and B with 2. D (100) has its 85 mem long before. 10 mem
    # are left, 5 each.
    tree = Tree()
    for weight, cpu, ratio in ((3, 30, 10), (1, 10, 5)):
        node = tree.node(0, weight)
        tree.add(node, [F(1, 100), 0], cpu, weight=ratio)
        tree.add(node, [0, F(1, 100)])
    tree.add(tree.node(0, 100), [0, F(1, 100)], 85)
    assert_close(tree.target(), [30, 8, 10, 7, 85])


# --- against the exact fluid ------------------------------------------------------------------------------------


@given(trees())
def test_equals_the_exact_fluid(tree: Tree) -> None:
    assert_close(tree.target(), tree.exact())


@given(trees(ranked=True))
def test_equals_the_exact_fluid_with_classes(tree: Tree) -> None:
    assert_close(tree.target(), tree.exact())


@given(trees(ranked=True, unlike=True))
def test_equals_the_exact_fluid_with_jobs_of_unlike_tasks(tree: Tree) -> None:
    assert_close(tree.target(), tree.exact())


@given(halting_trees())
def test_equals_the_exact_fluid_where_shares_halt(tree: Tree) -> None:
    assert_close(tree.target(), tree.exact())


@given(halting_trees(), st.sampled_from([3, 40, 120]))
def test_many_copies_halt_together(tree: Tree, count: int) -> None:
    one = tree.exact()
    assert_close(copies(tree, count).target(), one * count)


@given(trees(ranked=True, idle=False), st.sampled_from([10, 100]))
def test_many_copies_share_equally(tree: Tree, count: int) -> None:
    one = tree.exact()
    assert_close(copies(tree, count).target(), one * count)


@pytest.mark.parametrize(
    "ahead", [1.3, 1.01, 0.5]
)  # usually far enough; sometimes; hardly ever, then all is done again
@given(tree=trees(ranked=True))
def test_looking_ahead_changes_nothing(ahead: float, tree: Tree) -> None:
    plain = tree.target()
    with patch.multiple(phase, MANY=0, ROUGH=3, AHEAD=ahead):
        assert_close(tree.target(), plain)


# --- large clusters: less than a millionth of a task ------------------------------------------------------------


@pytest.mark.parametrize("servers", [5_000, 50_000])
def test_whole_targets_of_a_large_cluster(servers: int) -> None:
    # Per server 64 cpu and 256 mem. a (3) over x (1) and y (2): tasks of 1 cpu and 4 mem, 1/64 of a server each;
    # b (1) over z: 2 cpu, and w: 1 mem. At level t a has 3t of both and b t of both: both are used up at 1/4.
    # x: 1/4 of 64 = 16 per server, y 32; z: 1/4 of 64 cpu, by 2 each, 8; w: 1/4 of 256 mem = 64.
    cpu, mem = 64 * servers, 256 * servers
    tree = Tree()
    a, b = tree.node(0, 3), tree.node(0, 1)
    tree.add(a, [F(1, cpu), F(4, mem)], weight=1)
    tree.add(a, [F(1, cpu), F(4, mem)], weight=2)
    tree.add(b, [F(2, cpu), 0])
    tree.add(b, [0, F(1, mem)])
    assert_close(tree.target(), [v * servers for v in (16, 32, 8, 64)], within=1e-7)


@pytest.mark.parametrize("servers", [5_000, 50_000])
def test_whole_targets_through_a_halt_and_several_phases(servers: int) -> None:
    # Per server 10 cpu, 10 mem, 20 gpu. A and B as in the docstring: m and k get 5 mem per server, c 3 cpu. C (2)
    # wants cpu and has what c leaves, 7, at level 0.35. B has a leaf g for gpu beside k: 10 per server when memory
    # is used up, at level 0.5; nobody else wants any, so it goes on to 20.
    cpu, mem, gpu = 10 * servers, 10 * servers, 20 * servers
    tree = Tree()
    a, b = tree.node(0), tree.node(0)
    tree.add(a, [F(1, cpu), 0, 0], 3 * servers, weight=3)
    tree.add(a, [0, F(1, mem), 0])
    tree.add(b, [0, F(1, mem), 0])
    tree.add(b, [0, 0, F(1, gpu)])
    tree.add(tree.node(0, 2), [F(1, cpu), 0, 0])
    assert_close(tree.target(), [v * servers for v in (3, 5, 5, 20, 7)], within=1e-7)


@pytest.mark.parametrize("servers", [5_000, 50_000])
@pytest.mark.parametrize("seed", [1, 2])
def test_large_clusters_equal_the_exact_fluid(seed: int, servers: int) -> None:
    tree = wide_tree(seed, servers)
    exact = tree.exact()
    assert max(exact) > servers
    assert_close(tree.target(), exact, within=1e-7)


def test_a_hundred_thousand_leaves_and_one_as_heavy_as_all() -> None:
    # The heavy one gets a half, tasks of 5e-7: a million. The others 5e-6 each, tasks of 1e-7: 50, of 51 and more.
    count = 100_000
    target = solve_targets(
        np.append(-1, np.zeros(count + 1, dtype=np.int64)),
        np.append(np.ones(count + 1), float(count)),
        np.arange(1, count + 2),
        np.append(np.full(count, 1e-7), 5e-7)[:, None],
        np.append(np.arange(51.0, count + 51), np.inf),
    )
    assert abs(target[-1] - 1_000_000) < 1e-6
    assert np.abs(target[:-1] - 50).max() < 1e-9


# --- classes ----------------------------------------------------------------------------------------------------


def test_the_next_class_gets_what_the_one_before_leaves() -> None:
    # 10 cpu. first: 3 tasks and 4 tasks, both satisfied; second: 3 left for two, 1.5 each; third: nothing.
    tree = Tree()
    for demand, rank in ((3, 1), (4, 1), (None, 2), (None, 2), (None, 3)):
        tree.add(0, [F(1, 10)], demand, rank=rank)
    assert_close(tree.target(), [3, 4, F(3, 2), F(3, 2), 0])


def test_the_next_class_grows_when_the_one_before_is_frozen() -> None:
    # 10 cpu, 4 gpu. x (1 cpu, 1 gpu) comes before y (1 cpu) in queue q; p (1 cpu) is q's sibling. x and q have level
    # g/4 by gpu, p follows with cpu: at level 1 gpu is used up: x 4 tasks, but cpu is short: at level t x has 4t cpu
    # and p 10t: t = 10/14, x 20/7, p 50/7. With 3 tasks of p, x takes all gpu (4), y the last 3 cpu.
    for demand, want in ((None, (F(20, 7), 0, F(50, 7))), (3, (4, 3, 3))):
        tree = Tree()
        q = tree.node(0)
        tree.add(q, [F(1, 10), F(1, 4)], rank=0)
        tree.add(q, [F(1, 10), 0], rank=1)
        tree.add(0, [F(1, 10), 0], demand)
        assert_close(tree.target(), want)


def test_first_come_first_served_is_a_class_for_each() -> None:
    # 100 leaves that want 3 of 100 each, in order: 33 get 3, the next 1, the others nothing.
    tree = Tree()
    for turn in range(100):
        tree.add(0, [F(1, 100)], 3, rank=turn)
    assert_close(tree.target(), [3] * 33 + [1] + [0] * 66)


def test_a_queues_share_counts_all_its_classes() -> None:
    # 12 cpu for two queues: 6 each, whatever the order inside: 2 + 4 and 6.
    tree = Tree()
    q, p = tree.node(0), tree.node(0)
    tree.add(q, [F(1, 12)], 2, rank=0)
    tree.add(q, [F(1, 12)], rank=1)
    tree.add(p, [F(1, 12)])
    assert_close(tree.target(), [2, 4, 6])


def test_inner_nodes_belong_to_the_first_class() -> None:
    # 10 cpu: the inner node's leaf and the first class share 4 : 4, the second class has to wait for both: 2.
    tree = Tree()
    tree.add(tree.node(0), [F(1, 10)], 4)
    tree.add(0, [F(1, 10)], 4, rank=0)
    tree.add(0, [F(1, 10)], rank=1)
    assert_close(tree.target(), [4, 4, 2])


# --- edges ------------------------------------------------------------------------------------------------------


def test_a_job_that_has_most_already_waits_with_its_small_tasks() -> None:
    # 100 cpu and 400 mem, three queues with a job each: one large task, then 60 of 1 cpu and 1 mem. Dominant shares of
    # the large ones: a 30 cpu .30, b 200 mem .50, c 20 cpu and 80 mem .20. All three rise to the level L at which cpu
    # is used up: 100 L for a and for c, 20 L for b (10 cpu for every .50), so L = 5/11. b comes to 10/11 of its large
    # task and to none of its small ones.
    tree = Tree()
    small = [F(1, 100), F(1, 400)]
    parts = [
        tree.add_job(tree.node(0), [([F(cpu, 100), F(mem, 400)], 1), (small, 60)])
        for cpu, mem in ((30, 40), (10, 200), (20, 80))
    ]
    target = tree.target()
    assert_close([target[k] for k, _ in parts], [1, F(10, 11), 1])
    assert_close([target[k] for _, k in parts], [F(500, 11) - 30, 0, F(500, 11) - 20])


def test_a_phase_may_end_right_where_one_piece_follows_another() -> None:
    # The last resource is used up just when the job has three of its third piece, and rounding leaves a hair between
    # the end of that piece and the start of the next one. It has those three.
    tree = Tree()
    group = tree.node(0)
    tree.add_job(group, [((0, F(1, 20), 0), 1), ((0, 0, F(1, 10)), 1)])
    pieces = [((0, 0, F(1, 10)), 1), ((F(1, 91), 0, 0), 1), ((0, 0, F(1, 10)), 3), ((0, F(1, 20), 0), 1)]
    job = tree.add_job(group, pieces)
    other = tree.add(0, (0, 0, F(1, 5)), 3)
    got = tree.target()
    assert got[other] == pytest.approx(2.5) and [got[k] for k in job] == pytest.approx([1, 1, 3, 1])


def test_a_piece_that_needs_what_is_used_up_is_passed_over() -> None:
    # 10 cpu, 10 gpu. a: a gpu task, then a cpu task, alternating twice. b: gpus without end. Gpus are gone at 2 and 8
    # (a has all it asks for); where they are gone before a is done, its cpu tasks go on.
    tree = Tree()
    cpu, gpu = [F(1, 10), F(0)], [F(0), F(1, 10)]
    mine = tree.add_job(tree.node(0), [(gpu, 8), (cpu, 4), (gpu, 1), (cpu, 2)])
    other = tree.add(tree.node(0), gpu)
    target = tree.target()
    assert_close([target[k] for k in mine], [5, 4, 0, 2])
    assert_close([target[other]], [5])


def test_a_single_node() -> None:
    # 0.1 and 0.2 a task: 5 fit, whatever the weight.
    root, leaf, direction = np.array([-1]), np.array([0]), np.array([[0.1, 0.2]])
    assert solve_targets(root, np.array([3.0]), leaf, direction, np.array([np.inf])).tolist() == [5.0]
    assert solve_targets(root, np.array([3.0]), leaf, direction, np.array([2.0])).tolist() == [2.0]


def test_solver_without_leaves_returns_empty_targets() -> None:
    nothing = np.empty(0, dtype=np.int64)
    got = solve_targets(np.array([-1, 0]), np.ones(2), nothing, np.empty((0, 2)), np.empty(0), nothing)
    assert got.shape == (0,)


def test_subtrees_without_growth() -> None:
    # a has no demand below, b no leaf at all, c asks for nothing: d gets everything, e has all it wants.
    tree = Tree()
    a, _, c, d = (tree.node(0) for _ in range(4))
    tree.add(a, [F(1, 10), 0], 0)
    tree.add(c, [0, 0], 7)
    tree.add(d, [F(1, 10), F(1, 20)])
    tree.add(d, [0, F(1, 20)], 2)
    assert_close(tree.target(), [0, 7, 10, 2])


def test_leaf_requesting_no_resources_gets_unlimited_target() -> None:
    tree = Tree()
    tree.add(0, [0])
    tree.add(0, [F(1, 4)])
    assert tree.target() == [np.inf, 4.0]


def test_a_demand_that_fits_is_met_to_the_last_bit() -> None:
    demand = [0.1, 3.0, 1e6 / 3]
    got = solve_targets(np.array([-1, 0, 0, 0]), np.ones(4), np.arange(1, 4), np.full((3, 1), 1e-7), np.array(demand))
    assert got.tolist() == demand


def test_the_satisfied_have_exactly_their_demand_when_others_are_short() -> None:
    # 3 and 7 of 10. In floats 3 * 0.1 / 0.1 is not 3.
    tree = Tree()
    tree.add(0, [F(1, 10)], 3)
    tree.add(0, [F(1, 10)])
    assert tree.target()[0] == 3


def test_a_task_larger_than_the_cluster() -> None:
    # Dominant shares of a half each: a quarter of a task of size 2.
    tree = Tree()
    tree.add(0, [F(2)])
    tree.add(0, [F(1, 100)])
    assert_close(tree.target(), [F(1, 4), 50])


def test_two_resources_that_end_at_once() -> None:
    # a: cpu, b: mem, both used up at level 1/2 by c, who wants both; nobody has anything left to go on with.
    tree = Tree()
    tree.add(0, [F(1, 10), 0])
    tree.add(0, [0, F(1, 10)])
    tree.add(0, [F(1, 10), F(1, 10)])
    assert_close(tree.target(), [5, 5, 5])


def test_a_resource_that_ends_where_a_sibling_halts() -> None:
    # 20 gpu, 7 cpu, 7 mem. A (7/5) has g (gpu) 10 : 1 with m (mem); B has c (5 cpu) and, after it, d (mem). At level
    # 5/7 c is satisfied, and A has 7/5 of 5/7: all gpu, and a tenth of mem. From then on A's share is that tenth, and
    # B's 5/7: m takes all mem. (In floats 7/5 of 5/7 is not 1.)
    tree = Tree()
    a, b = tree.node(0, F(7, 5)), tree.node(0)
    tree.add(a, [F(1, 20), 0, 0], weight=10)
    tree.add(tree.node(a), [0, 0, F(1, 7)])
    tree.add(b, [0, F(1, 7), 0], 5, rank=0)
    tree.add(b, [0, 0, F(1, 7)], rank=1)
    want = [20, 7, 5, 0]
    assert tree.exact() == want
    assert_close(tree.target(), want)


def test_a_long_chain() -> None:
    count = 300
    parent = np.arange(-1, count - 1)
    got = solve_targets(parent, np.full(count, 0.3), parent[-1:] + 1, np.array([[0.25]]), np.array([np.inf]))
    assert got.tolist() == [4.0]


def test_arguments_are_left_as_they_were() -> None:
    arguments = (
        np.array([-1, 0, 0]),
        np.array([1.0, 2.0, 3.0]),
        np.array([1, 2]),
        np.array([[0.1, 0.0], [0.1, 0.2]]),
        np.array([3.0, np.inf]),
        np.array([1, 0]),
    )
    before = [a.copy() for a in arguments]
    solve_targets(*arguments)
    for was, now in zip(before, arguments, strict=True):
        assert (was == now).all()
