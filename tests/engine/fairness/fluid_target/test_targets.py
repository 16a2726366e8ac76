"""Targets: what is collected from the tree, solved and written back is what the exact fluid gives, job by job."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import CPU, MEMORY
from pumice.audit.exact_fluid import exact_fluid
from pumice.engine.fairness.fluid_target import targets
from pumice.engine.fairness.fluid_target.polyline import FloatArray
from pumice.engine.fairness.fluid_target.solver import solve_targets
from pumice.engine.fairness.fluid_target.targets import set_targets
from pumice.engine.fairness.share_tree.equal_jobs import EXACT
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from tests.support.bounded_groves import bounded_groves, limit, most, reserved, user_most
from tests.support.examples import fewer_examples
from tests.support.groves import GPU, WIDTH, Grove, all_parts, below, groves

A_MILLIONTH = 1e-6


def exact_targets(grove: Grove) -> dict[str, list[Fraction]]:
    """Every job is a leaf of its own, whatever it has in common with others."""
    numbers: dict[ShareNode, int] = {}
    parent: list[int] = []
    weight: list[Fraction] = []
    leaves: list[tuple[JobNode, int, int]] = []  # the job, its piece, and the node it is
    rank: list[int] = []
    job_nodes: dict[int, int] = {}
    classes = sorted({job.rank_class for job in grove.jobs})

    def part(amount: int, j: int) -> Fraction:
        return Fraction(amount, grove.capacity[j]) if grove.capacity[j] else Fraction(0)

    def node(above: ShareNode | int | None, heavy: float) -> int:
        parent.append(-1 if above is None else above if isinstance(above, int) else numbers[above])
        weight.append(Fraction(heavy))
        return len(parent) - 1

    for branch in grove.tree.root.walk():
        numbers[branch] = node(branch.parent, branch.weight)
        if isinstance(branch, JobNode):
            # A job is a node of its own, whether its tasks are unlike or not: a path of one piece is a direction.
            job_nodes[numbers[branch]] = classes.index(branch.rank_class)
            for k, (items, count) in enumerate(branch.demand.pieces):
                if count and all(grove.capacity[j] for j, _ in items):
                    leaves.append((branch, k, node(numbers[branch], 1)))
                    rank.append(k)
    pieces = [job.demand.pieces[k] for job, k, _ in leaves]
    users: dict[tuple[ShareNode, str], list[JobNode]] = {}
    for job in grove.jobs:
        if user_most(job, 0) is not None:
            users.setdefault((job.queue, job.user), []).append(job)
    every = range(WIDTH)
    tasks = exact_fluid(
        parent,
        weight,
        [number for _, _, number in leaves],
        [[part(dict(items).get(j, 0), j) for j in every] for items, _ in pieces],
        [Fraction(count) for _, count in pieces],
        rank,
        {numbers[node]: [part(most(grove, node, j), j) for j in every] for node in grove.groups if node.ceiling},
        {numbers[node]: [part(reserved(grove, node, j), j) for j in every] for node in grove.groups},
        [
            ([number for job, _, number in leaves if job in mine], [_part_of_user(grove, mine[0], j) for j in every])
            for mine in users.values()
        ],
        jobs=job_nodes,
    )
    targets = {job.name: [Fraction(0)] * len(job.demand.pieces) for job in grove.jobs}
    for (job, k, _), target in zip(leaves, tasks, strict=True):
        targets[job.name][k] = target
    return targets


def _part_of_user(grove: Grove, job: JobNode, j: int) -> Fraction | None:
    limit_ = user_most(job, j)
    return None if limit_ is None or not grove.capacity[j] else Fraction(limit_, grove.capacity[j])


def assert_targets_right(grove: Grove) -> None:
    expected = exact_targets(grove)
    for job in grove.jobs:
        assert job.targets == pytest.approx(list(map(float, expected[job.name])), abs=A_MILLIONTH, rel=0)
    for node in grove.tree.root.walk():
        # In steps of 2^-40 tasks, so that sums are exact; in whole units (half up) and as floats for who reads them.
        exact = [0] * WIDTH
        for job in below(node):
            for (items, _), tasks in zip(job.demand.pieces, job.targets, strict=True):
                for j, amount in items:
                    exact[j] += round(tasks * 2**40) * amount
        assert node.exact == exact
        assert node.entitled == [(amount + 2**39) // 2**40 for amount in exact]
        assert node.due == [amount / 2**40 for amount in exact]


@given(groves(holdings=False), st.booleans())
def test_targets_equal_the_exact_fluid(grove: Grove, classes: bool) -> None:
    for job in grove.jobs:
        job.rank_class = job.before if classes else ()
    set_targets(grove.tree, grove.capacity)
    assert_targets_right(grove)


@given(groves(holdings=False), st.data())
def test_they_still_do_after_anything_changed(grove: Grove, data: st.DataObject) -> None:
    # Whatever is kept from one solve to the next must not show.
    for _ in range(data.draw(st.integers(2, 5))):
        set_targets(grove.tree, grove.capacity)
        assert_targets_right(grove)
        job = data.draw(st.sampled_from(grove.jobs))
        match data.draw(st.sampled_from(["demand", "demand", "weight", "class", "capacity", "leave", "come"])):
            case "demand":
                grove.ask_for(
                    job, data.draw(all_parts() | st.just([])), floor=data.draw(st.sampled_from([(), ((CPU, 90),)]))
                )
            case "weight":
                data.draw(st.sampled_from(grove.groups)).weight = data.draw(st.sampled_from([1.0, 4.0, 0.3]))
                grove.tree.reshaped = True
            case "class":
                job.rank_class = (data.draw(st.integers(0, 2)),)
                for other in grove.jobs:
                    other.rank_class = other.rank_class or (0,)
                    grove.tree.regroup[other] = None
            case "capacity":
                grove.capacity[data.draw(st.sampled_from([CPU, MEMORY, GPU]))] = data.draw(st.integers(0, 4000))
            case "leave" if len(grove.jobs) > 1:
                grove.tree.remove(job)
                grove.jobs.remove(job)
            case "come":
                grove.job(job.parent, data.draw(all_parts()), rank_class=job.rank_class)


@given(bounded_groves(holdings=False), st.data())
def test_targets_within_limits_equal_the_exact_fluid(grove: Grove, data: st.DataObject) -> None:
    for job in grove.jobs:
        job.rank_class = job.before
    for _ in range(data.draw(st.integers(1, 2))):
        set_targets(grove.tree, grove.capacity)
        assert_targets_right(grove)
        limit(grove, data.draw)


@given(groves(holdings=False))
def test_equal_jobs_of_a_queue_have_equal_targets(grove: Grove) -> None:
    twins = [
        (job, grove.job(job.parent, job.demand.parts, gang=job.gang, floor=job.demand.total))
        for job in list(grove.jobs)
    ]
    set_targets(grove.tree, grove.capacity)
    for job, twin in twins:
        assert job.targets == twin.targets


# --- by hand -------------------------------------------------------------------------------------------------


def test_target_equals_demand_when_total_demand_fits() -> None:
    grove = Grove([10_000, 10_000, 0, 0])
    grove.job(grove.group(weight=9.0), [(((CPU, 1000),), 6)])
    grove.job(grove.group(), [(((CPU, 1000),), 4)])
    set_targets(grove.tree, grove.capacity)
    assert [job.target for job in grove.jobs] == [6.0, 4.0]
    assert grove.tree.root.entitled == [10_000, 0, 0, 0]


def test_weights_and_levels() -> None:
    # 12 cpu: 8 for a (weight 2), 4 for b; in a 3 : 1.
    grove = Grove([12_000, 0, 0, 0])
    a, b = grove.group(weight=2.0), grove.group()
    for parent in (grove.group(a, 3.0), grove.group(a, 1.0), b):
        grove.job(parent, [(((CPU, 1000),), 50)])
    set_targets(grove.tree, grove.capacity)
    assert [job.target for job in grove.jobs] == [6.0, 2.0, 4.0]


def test_a_job_of_unlike_tasks_is_a_path() -> None:
    # 6 cpu, 12 memory. One job asks for 3 x 2 cpu, then 2 x 3 memory; the other for 6 x 1 cpu. Cpu is used up at half
    # each: 1.5 tasks of the first piece. The second piece does not need it and goes on: memory is there for both tasks.
    grove = Grove([6000, 12_000, 0, 0])
    queue = grove.group()
    mixed = grove.job(queue, [(((CPU, 2000),), 3), (((MEMORY, 3000),), 2)])
    plain = grove.job(queue, [(((CPU, 1000),), 6)])
    set_targets(grove.tree, grove.capacity)
    assert (mixed.targets, plain.targets) == ((1.5, 2.0), (3.0,))
    assert mixed.entitled == [3000, 6000, 0, 0]


def test_a_class_is_entitled_after_the_one_before_it() -> None:
    # 10 cpu, one queue: the first class asks for 4 + 4, the second shares the other 2.
    grove = Grove([10_000, 0, 0, 0])
    queue = grove.group()
    for rank, tasks in ((0, 4), (0, 4), (1, 9), (1, 9)):
        grove.job(queue, [(((CPU, 1000),), tasks)], rank_class=(rank,))
    set_targets(grove.tree, grove.capacity)
    assert [job.target for job in grove.jobs] == [4.0, 4.0, 1.0, 1.0]


def test_classes_do_not_change_what_the_queue_gets() -> None:
    grove = Grove([10_000, 0, 0, 0])
    for classes in ((0, 1), (0, 0)):
        queue = grove.group()
        for rank in classes:
            grove.job(queue, [(((CPU, 1000),), 9)], rank_class=(rank,))
    set_targets(grove.tree, grove.capacity)
    assert [job.target for job in grove.jobs] == [5.0, 0.0, 2.5, 2.5]


def test_noise_does_not_cost_a_task() -> None:
    # Thirds of 10^15 bytes and the like: what is whole on paper is whole here.
    grove = Grove([3, 999_999_999_999_999, 0, 0])
    for _ in range(3):
        grove.job(grove.group(weight=0.1), [(((MEMORY, 111_111_111_111_111),), 9)])
    set_targets(grove.tree, grove.capacity)
    assert [job.target for job in grove.jobs] == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("capacity", [[0, 0, 0, 0], [0, 5000, 0, 0]], ids=["nothing", "no cpu"])
def test_target_is_zero_for_resource_without_capacity(capacity: list[int]) -> None:
    grove = Grove(capacity)
    a = grove.job(grove.group(), [(((CPU, 1000),), 4)])
    b = grove.job(grove.group(), [(((MEMORY, 1000),), 9)])
    set_targets(grove.tree, grove.capacity)
    assert a.target == 0.0 and b.target == capacity[MEMORY] / 1000


def test_jobs_that_come_while_nobody_can_get_anything() -> None:
    grove = Grove([0, 0, 0, 0])
    queue = grove.group()

    def targets_after_another_job() -> list[float]:
        grove.job(queue, [(((CPU, 1000),), 2)])
        set_targets(grove.tree, grove.capacity)
        return [job.target for job in grove.jobs]

    assert targets_after_another_job() == [0]
    assert targets_after_another_job() == [0, 0]
    grove.capacity = [4000, 0, 0, 0]
    assert targets_after_another_job() == pytest.approx([4 / 3] * 3)
    assert targets_after_another_job() == [1, 1, 1, 1]


# --- within limits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("guarantee", "want"), [(None, [4.0, 12.0]), ([4000, 0, 0, 0], [3.0, 9.0])])
def test_an_idle_queues_guarantee_is_not_lent(guarantee: list[int] | None, want: list[float]) -> None:
    # The third table of namespace sharing: 16 cpu, q1 (1) and q2 (3); in q2 ns1 (2) asks for 5, ns2 (6) for 20. q1 asks
    # for nothing. What it leaves is lent, 2 : 6 of 16; but not the 4 that it is guaranteed: 2 : 6 of 12.
    grove = Grove([16_000, 0, 0, 0])
    q1, q2 = grove.group(weight=1.0), grove.group(weight=3.0)
    q1.guarantee = guarantee
    for weight, asks in ((2.0, 5), (6.0, 20)):
        grove.job(grove.group(q2, weight, NodeKind.NAMESPACE), [(((CPU, 1000),), asks)])
    set_targets(grove.tree, grove.capacity)
    assert [job.target for job in grove.jobs] == want


def test_a_demand_that_fits_the_cluster_but_not_the_ceiling() -> None:
    grove = Grove([10_000, 0, 0, 0])
    queue = grove.group()
    queue.ceiling = [3000, 0, 0, 0]
    grove.job(queue, [(((CPU, 1000),), 5)])
    grove.job(grove.group(), [(((CPU, 1000),), 4)])
    set_targets(grove.tree, grove.capacity)
    assert [job.target for job in grove.jobs] == [3.0, 4.0]


def test_equal_jobs_of_different_users() -> None:
    # 12 cpu. Ann has two jobs in two namespaces and may have 3: 1.5 each. Bob's two are alike and share the rest.
    grove = Grove([12_000, 0, 0, 0])
    queue = grove.group()
    homes = [grove.group(queue, kind=NodeKind.NAMESPACE) for _ in range(2)]
    queue.user_ceilings = {"ann": [3000, 0, 0, 0]}
    for user in ("ann", "bob"):
        for home in homes:
            grove.job(home, [(((CPU, 1000),), 50)], user=user)
    set_targets(grove.tree, grove.capacity)
    assert [job.target for job in grove.jobs] == [1.5, 1.5, 4.5, 4.5]


def entitlements(grove: Grove) -> dict[str, tuple[list[int], list[int]]]:
    """What nodes are entitled to, and the tasks of jobs on the same grid.

    Below the grid targets may differ: one is kept while a demand changes that has no effect on it, and the last bits of
    a new one depend on that demand too.
    """
    return {
        node.path: (list(node.exact), [round(t * EXACT) for t in node.targets] if isinstance(node, JobNode) else [])
        for node in grove.tree.root.walk()
    }


def forget_targets(grove: Grove) -> None:
    """So that the next solve starts from nothing."""
    for node in grove.tree.root.walk():
        for equals in node.equal_jobs.values():
            equals.targets = None
            equals.entitle([0] * WIDTH)


@fewer_examples(3)
@given(groves(), st.data())
def test_targets_after_changes_are_those_from_scratch(grove: Grove, data: st.DataObject) -> None:
    # Capacity varies between enough for all and little, so that some solves take over from others and some cannot.
    for _ in range(data.draw(st.integers(2, 6))):
        match data.draw(st.sampled_from(["demand", "demand", "class", "come", "go", "capacity", "weight"])):
            case "demand":
                grove.ask_for(data.draw(st.sampled_from(grove.jobs)), data.draw(all_parts()))
            case "class":
                leaf = data.draw(st.sampled_from(grove.jobs))
                leaf.rank_class = data.draw(st.sampled_from([(), (1,)]))
                grove.tree.regroup[leaf] = None
            case "come":
                leaf = grove.job(data.draw(st.sampled_from(grove.jobs)).parent, data.draw(all_parts()))
            case "go" if any(not job.starts for job in grove.jobs[1:]):
                leaf = data.draw(st.sampled_from([job for job in grove.jobs[1:] if not job.starts]))
                grove.jobs.remove(leaf)
                grove.tree.remove(leaf)
            case "capacity":
                grove.capacity = [data.draw(st.sampled_from([0, 300, 4000, 10**6])) for _ in range(WIDTH)]
            case "weight":
                data.draw(st.sampled_from(grove.groups)).weight = data.draw(st.sampled_from([1.0, 2.0, 5.0]))
                grove.tree.reshaped = True
        set_targets(grove.tree, grove.capacity)
        found = entitlements(grove)
        grove.tree.known_targets = None
        forget_targets(grove)
        set_targets(grove.tree, grove.capacity)
        assert entitlements(grove) == found


@fewer_examples(3)
@given(groves(namespaces=True, holdings=False), st.data())
def test_targets_after_namespaces_came_or_went_are_those_from_scratch(grove: Grove, data: st.DataObject) -> None:
    # Little capacity, so that there is something to solve. What is known of namespaces that stay is kept throughout.
    grove.capacity = [amount // 3 for amount in grove.capacity]
    namespaces = [node for node in grove.groups if node.kind is NodeKind.NAMESPACE]
    queues = [node.parent for node in namespaces if node.parent is not None]
    set_targets(grove.tree, grove.capacity)
    for _ in range(data.draw(st.integers(2, 6))):
        if data.draw(st.booleans()) or len(namespaces) == 1:
            namespaces.append(grove.group(data.draw(st.sampled_from(queues)), kind=NodeKind.NAMESPACE))
            grove.job(namespaces[-1], data.draw(all_parts()))
        else:
            gone = namespaces.pop(data.draw(st.integers(0, len(namespaces) - 1)))
            for leaf in gone.jobs():
                grove.jobs.remove(leaf)
                grove.tree.remove(leaf)
            grove.tree.remove(gone)
        if data.draw(st.booleans()) and grove.jobs:
            grove.ask_for(data.draw(st.sampled_from(grove.jobs)), data.draw(all_parts()))
        set_targets(grove.tree, grove.capacity)
        found, known = entitlements(grove), grove.tree.known_targets
        grove.tree.known_targets = None
        forget_targets(grove)
        set_targets(grove.tree, grove.capacity)
        assert entitlements(grove) == found
        grove.tree.known_targets = known


def test_a_line_that_is_longer_than_it_can_run_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # 12 cpu, 8 for a and 4 for b. That a asks for one task less changes nothing until it asks for what it gets.
    solves: list[FloatArray] = []

    def solve(*collected: Any) -> FloatArray:
        solves.append(solve_targets(*collected))
        return solves[-1]

    monkeypatch.setattr(targets, "solve_targets", solve)
    grove = Grove([12_000, 0, 0, 0])
    a = grove.job(grove.group(weight=2.0), [(((CPU, 1000),), 50)])
    grove.job(grove.group(), [(((CPU, 1000),), 50)])
    for count, solved, target in ((50, 1, 8.0), (49, 1, 8.0), (9, 1, 8.0), (8, 2, 8.0), (7, 3, 7.0), (60, 4, 8.0)):
        grove.ask_for(a, [(((CPU, 1000),), count)])
        set_targets(grove.tree, grove.capacity)
        assert (len(solves), a.target) == (solved, target)
        assert_targets_right(grove)


@given(groves(holdings=False), st.data())
def test_demand_beyond_the_target_has_no_effect(grove: Grove, data: st.DataObject) -> None:
    grove.capacity = [amount // data.draw(st.sampled_from([1, 4])) for amount in grove.capacity]
    for _ in range(data.draw(st.integers(2, 6))):
        set_targets(grove.tree, grove.capacity)
        assert_targets_right(grove)
        job = data.draw(st.sampled_from(grove.jobs))
        (items, count), *others = job.demand.pieces
        grove.ask_for(job, [(items, max(1, count + data.draw(st.integers(-3, 20)))), *others])
