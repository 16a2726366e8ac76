"""``steer``: every pick is what a slow walk finds that adds everything up again; its keys are total orders."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.fairness.orders.target_order import TargetOrder
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from tests.support.groves import GPU, Grove, asks, below, groves, weights

STEPS = 2**30

# --- the rule, the slow way (docs/fairness.md, section 3.3) ----------------------------------------------------------


def is_owed(grove: Grove, job: JobNode) -> bool:
    """Whether what a job asks for is within its whole target, of unlike tasks also by the number of its kind."""
    if any(job.held[j] + n > job.integer_target[j] for j, n in job.ask):
        return False
    alike = [items for leaf, items, _, _ in grove.running if leaf is job and items == job.ask]
    return job.integer_task_counts is None or len(alike) < job.integer_task_counts.get(job.ask, 0)


def slow_walk(grove: Grove) -> tuple[list[ShareNode], bool]:
    """The nodes of a walk from the root to the job to serve, and whether it is lent to; no nodes: nobody can be."""
    able = [job for job in grove.jobs if job.able and job.ask is not None]
    owed = [job for job in able if is_owed(grove, job)]
    candidates = owed or able
    if not candidates:
        return [], True

    def want(node: ShareNode) -> int:
        asked = {j for job in below(node) if job in candidates for j, _ in job.ask}
        parts = []
        for j in asked:
            entitled = sum(entitled_to(job, j) for job in below(node))
            missing = entitled - sum(job.held[j] for job in below(node))
            whole = entitled if owed else Fraction(grove.capacity[j])
            parts.append(missing / whole if whole else Fraction(0))
        return round(max(parts) * STEPS)

    def place(node: ShareNode) -> tuple[object, ...]:
        served = max((start for job in below(node) for start in job.starts), default=0)
        if isinstance(node, JobNode):
            return node.before, -want(node), node.after, served, node.rank
        return -want(node), served, node.rank

    path: list[ShareNode] = []
    node = grove.tree.root
    while not isinstance(node, JobNode):
        able_children = [c for c in node.children.values() if any(job in candidates for job in below(c))]
        node = min(able_children, key=place)
        path.append(node)
    return path, not owed


def entitled_to(job: JobNode, j: int) -> Fraction:
    """A target counts in steps of 2^-32 tasks, so that sums are exact."""
    total = Fraction(0)
    for (items, _), tasks in zip(job.demand.pieces, job.targets, strict=True):
        total += Fraction(round(tasks * 2**40), 2**40) * dict(items).get(j, 0)
    return total


def change(grove: Grove, order: TargetOrder, data: st.DataObject, stamp: int) -> None:
    """Anything that can happen between two picks."""
    job = data.draw(st.sampled_from(grove.jobs))
    match data.draw(
        st.sampled_from(["offer", "offer", "offer", "start", "start", "end", "targets", "tiers", "weight"])
    ):
        case "offer":
            order.set_candidate(job, data.draw(st.none() | asks), data.draw(st.sampled_from([True, True, False])))
        case "start":
            grove.start(order, job, data.draw(asks), stamp if data.draw(st.booleans()) else 3)
        case "end" if grove.running:
            grove.end(order, data.draw(st.integers(0, len(grove.running) - 1)))
        case "targets":
            order.refresh_targets(demand_changed=data.draw(st.booleans()))
        case "tiers":
            for other in grove.jobs:
                other.before = (data.draw(st.integers(0, 2)),)
                other.after = (data.draw(st.integers(0, 1)),)
                grove.tree.mark(other)
        case "weight":
            data.draw(st.sampled_from(grove.groups)).weight = data.draw(weights)
            order.restructure()
            order.refresh_targets(demand_changed=True)


@given(groves(), st.data())
def test_every_pick_is_the_first_of_a_slow_walk(grove: Grove, data: st.DataObject) -> None:
    order = TargetOrder(grove.tree, grove.capacity)
    order.refresh_targets(demand_changed=True)
    for job in grove.jobs:
        order.set_candidate(job, job.demand.parts[0][0], True)
    for stamp in range(30, 50):
        path, lending = slow_walk(grove)
        assert order.lending is lending
        picked = order.next_job()
        assert picked is (path[-1] if path else None)
        assert [level.node for level in order.explain()] == [node.path for node in path]
        if picked is not None and data.draw(st.booleans()):
            grove.start(order, picked, picked.ask, stamp)  # as the cycle does
        else:
            change(grove, order, data, stamp)


@given(groves(), st.data())
def test_keys_are_total_orders(grove: Grove, data: st.DataObject) -> None:
    order = TargetOrder(grove.tree, grove.capacity)
    order.refresh_targets(demand_changed=True)
    for job in grove.jobs:
        order.set_candidate(job, data.draw(asks), True)
    for key in (order.entry, order._lent_entry):
        for node in grove.tree.root.walk():
            entries = [key(child)[:-1] for child in node.children.values() if child.owed_asks or child.able_asks]
            shuffled = data.draw(st.permutations(entries))
            assert sorted(shuffled) == sorted(entries)
            assert all(one < other for one, other in pairwise(sorted(entries)))  # no two are equal


@given(groves())
def test_the_owed_are_served_before_anything_is_lent(grove: Grove) -> None:
    # With room for everything, each job ends up with its whole target before the first task is lent.
    order = TargetOrder(grove.tree, grove.capacity)
    order.refresh_targets(demand_changed=True)
    offered = [job for job in grove.jobs if len(job.demand.parts) == 1 and job.gang == 1]
    for job in offered:
        order.set_candidate(job, job.demand.parts[0][0], True)
    lent = False
    for stamp in range(30, 130):
        picked = order.next_job()
        if picked is None:
            break
        owed = is_owed(grove, picked)
        assert not (lent and owed)
        lent = lent or not owed
        if lent:
            for job in offered:
                assert not is_owed(grove, job)
            break
        grove.start(order, picked, picked.ask, stamp)


# --- by hand -------------------------------------------------------------------------------------------------


def two_queues() -> tuple[Grove, TargetOrder, JobNode, JobNode]:
    """10 cpu and 10 memory, two queues of equal weight with tasks of 1 cpu: entitled to 5 each."""
    grove = Grove([10_000, 10_000, 0, 0])
    jobs = [grove.job(grove.group(), [(((CPU, 1000),), 20)]) for _ in range(2)]
    order = TargetOrder(grove.tree, grove.capacity)
    order.refresh_targets(demand_changed=True)
    for job in jobs:
        order.set_candidate(job, ((CPU, 1000),), True)
    return grove, order, *jobs


def test_the_want_is_the_missing_part_of_the_entitlement() -> None:
    grove, order, a, b = two_queues()
    for stamp in (1, 2):
        grove.start(order, a, ((CPU, 1000),), stamp)
    grove.start(order, b, ((CPU, 1000),), 3)
    # a misses 3 of 5, b 4 of 5.
    assert order.next_job() is b
    level = order.explain()[0]
    assert (level.node, level.runner_up) == ("root/g3", "root/g1")
    assert (level.key, level.runner_up_key) == pytest.approx((0.8, 0.6), abs=2**-30)


def test_lending_goes_first_to_queue_least_above_entitlement() -> None:
    grove, order, a, b = two_queues()
    for stamp in range(5):
        grove.start(order, a, ((CPU, 1000),), stamp)
        grove.start(order, b, ((CPU, 1000),), stamp)
    grove.start(order, a, ((CPU, 1000),), 9)
    assert order.lending and order.next_job() is b  # a is 1/10 over, b 0


def test_resources_nobody_asks_for_do_not_count() -> None:
    # b's queue misses all of its memory, but nobody there could start a task that asks for memory.
    grove, order, a, b = two_queues()
    c = grove.job(b.parent, [(((MEMORY, 1000),), 20)])
    order.set_candidate(c, ((MEMORY, 1000),), False)
    order.refresh_targets(demand_changed=True)
    for stamp in (1, 2, 3):
        grove.start(order, b, ((CPU, 1000),), stamp)
    assert order.next_job() is a


def test_ties_go_to_the_least_recently_served_then_to_age() -> None:
    grove, order, a, b = two_queues()
    assert order.next_job() is a  # older
    grove.start(order, a, ((CPU, 1000),), 7)
    grove.start(order, b, ((CPU, 1000),), 6)
    assert order.next_job() is b
    grove.end(order, 0)
    grove.start(order, a, ((CPU, 1000),), 5)
    assert order.next_job() is a


def test_want_is_zero_for_job_without_entitlement() -> None:
    # The memory task has no target (there is none of it left to divide), so its want is 0, not an error.
    grove = Grove([10_000, 0, 0, 0])
    job = grove.job(grove.group(), [(((MEMORY, 1000),), 1)])
    order = TargetOrder(grove.tree, grove.capacity)
    order.refresh_targets(demand_changed=True)
    order.set_candidate(job, ((MEMORY, 1000),), True)
    assert order.lending and order.next_job() is job
    assert order.explain()[0].key == 0.0


def test_owed_is_judged_on_every_resource_of_the_unit() -> None:
    grove = Grove([4000, 4000, 0, 4000])
    job = grove.job(grove.group(), [(((CPU, 1000), (GPU, 1000)), 4)])
    order = TargetOrder(grove.tree, grove.capacity)
    order.refresh_targets(demand_changed=True)
    assert order.is_owed(job, ((CPU, 4000), (GPU, 4000)))
    assert not order.is_owed(job, ((CPU, 4001),))
    grove.start(order, job, ((GPU, 4000),), 1)
    assert order.is_owed(job, ((CPU, 4000),)) and not order.is_owed(job, ((CPU, 1), (GPU, 1)))
