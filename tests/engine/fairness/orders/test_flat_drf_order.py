"""Flat DRF: jobs by their weighted share of the cluster, and what the tree does where nothing orders queues."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import CPU, MEMORY, PODS, dominant_share
from pumice.engine.fairness.orders.serving_order import FirstComeOrder, FlatDrfOrder
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from tests.support.groves import Grove, asks, below, groves

STEPS = 2**30


def slow_place(grove: Grove, node: ShareNode) -> tuple[object, ...]:
    """The key of a node from the jobs below it; a queue is as its best child that can be served."""
    if node.kind is NodeKind.QUEUE:
        best = min(slow_place(grove, child) for child in node.children.values() if can_be_served(child))
        return (*best[:-1], (*best[-1][:-1], *node.rank))  # the serial number of the child decides nothing
    held = [sum(job.held[j] for job in below(node)) for j in range(len(grove.capacity))]
    shares = [Fraction(0)]
    for j, amount in enumerate(held):
        if amount and j != PODS:
            shares.append(Fraction(amount, grove.capacity[j]) if grove.capacity[j] else Fraction(1))
    key = round(max(shares) / Fraction(node.weight) * STEPS)
    served = max((start for job in below(node) for start in job.starts), default=0)
    before, after = (node.before, node.after) if isinstance(node, JobNode) else ((), ())
    return before, key, after, served, node.rank


def can_be_served(node: ShareNode) -> bool:
    return any(job.able and job.ask is not None for job in below(node))


def slow_pick(grove: Grove) -> JobNode | None:
    node: ShareNode = grove.tree.root
    if not can_be_served(node):
        return None
    while not isinstance(node, JobNode):
        node = min(filter(can_be_served, node.children.values()), key=lambda child: slow_place(grove, child))
    return node


@given(groves() | groves(namespaces=True), st.data())
def test_every_pick_is_the_first_of_a_slow_walk(grove: Grove, data: st.DataObject) -> None:
    if any(job.parent.kind is NodeKind.NAMESPACE for job in grove.jobs):
        for job in grove.jobs:  # the keys of a queue's children must be comparable
            job.before = ()
    order = FlatDrfOrder(grove.tree, grove.capacity)
    for job in grove.jobs:
        order.set_candidate(job, data.draw(asks), True)
    for stamp in range(30, 50):
        picked = order.next_job()
        assert picked is slow_pick(grove)
        if picked is not None:
            assert order.explain()[-1].node == picked.path
        if picked is not None and data.draw(st.booleans()):
            grove.start(order, picked, picked.ask, stamp)
            continue
        job = data.draw(st.sampled_from(grove.jobs))
        match data.draw(st.sampled_from(["offer", "end", "weight"])):
            case "offer":
                order.set_candidate(job, data.draw(st.none() | asks), data.draw(st.booleans()))
            case "end" if grove.running:
                grove.end(order, data.draw(st.integers(0, len(grove.running) - 1)))
            case "weight":
                job.parent.weight = data.draw(st.sampled_from([1.0, 2.0, 5.0]))
                order.restructure()
                grove.tree.mark(job)


@given(groves(), st.data())
def test_keys_are_total_orders(grove: Grove, data: st.DataObject) -> None:
    order = FlatDrfOrder(grove.tree, grove.capacity)
    for job in grove.jobs:
        order.set_candidate(job, data.draw(asks), True)
    for node in grove.tree.root.walk():
        entries = [order.entry(child)[:-1] for child in node.children.values() if child.able_asks]
        assert sorted(data.draw(st.permutations(entries))) == sorted(entries)
        assert all(one < other for one, other in pairwise(sorted(entries)))


def test_the_smallest_dominant_share_first() -> None:
    # 100 cpu, 400 GB. A 30/40: .30 cpu; B 10/200: .50 memory; C 20/80: .20 of both.
    grove = Grove([100_000, 400 * 10**9, 0, 0])
    queue = grove.group()
    order = FlatDrfOrder(grove.tree, grove.capacity)
    shares = []
    for name, cpu, memory in (("A", 30, 40), ("B", 10, 200), ("C", 20, 80)):
        job = grove.job(queue, name=name)
        grove.start(order, job, ((CPU, cpu * 1000), (MEMORY, memory * 10**9)), 1)
        order.set_candidate(job, ((CPU, 1),), True)
        shares.append(dominant_share(job.held, grove.capacity))
    assert shares == pytest.approx([0.3, 0.5, 0.2])
    served = []
    while (job := order.next_job()) is not None:
        served.append(job.name)
        order.set_candidate(job, None, False)
    assert served == ["C", "A", "B"]


def test_weights_below_one_count_as_they_are() -> None:
    # .30 / .6 = .5 against .25 / .4 = .625: the first. (Raised to 1 they would say .30 against .25: the second.)
    grove = Grove([100, 100, 0, 0])
    queue = grove.group()
    names = [grove.group(queue, weight, NodeKind.NAMESPACE) for weight in (0.6, 0.4)]
    order = FlatDrfOrder(grove.tree, grove.capacity)
    a, b = (grove.job(namespace) for namespace in names)
    for job, cpu in ((a, 30), (b, 25)):
        order.set_candidate(job, ((CPU, 1),), True)
        grove.start(order, job, ((CPU, cpu),), 1)
    assert order.next_job() is a
    grove.start(order, a, ((CPU, 8),), 2)  # .38 / .6 = .633
    assert order.next_job() is b


def test_queues_whose_best_children_tie_go_by_age() -> None:
    # A namespace is as old in one queue as in the other; the queue that was made first is served first.
    grove = Grove([100, 100, 0, 0])
    order = FlatDrfOrder(grove.tree, grove.capacity)
    young, old = grove.group(), grove.group()
    young.rank, old.rank = (9, NodeKind.QUEUE, "a"), (1, NodeKind.QUEUE, "b")
    jobs = []
    for queue in (young, old):
        namespace = grove.tree.child(queue, NodeKind.NAMESPACE, "ns")
        job = grove.job(namespace, name=f"in {queue.name}")
        job.rank = (5, NodeKind.JOB, "same")
        order.set_candidate(job, ((CPU, 1),), True)
        jobs.append(job)
    assert order.next_job() is jobs[1]
    grove.start(order, jobs[1], ((CPU, 1),), 1)
    assert order.next_job() is jobs[0]


def test_first_come_order_sorts_by_tiers_then_age_then_name() -> None:
    grove = Grove([10, 10, 0, 0])
    queue = grove.group()
    order = FirstComeOrder(grove.tree, grove.capacity)
    for name, before, created in (("c", 1, 0), ("b", 0, 2), ("a", 0, 2), ("d", 0, 1)):
        job = grove.job(queue, name=name, before=(before,))
        job.rank = (created, NodeKind.JOB, name)
        order.set_candidate(job, ((CPU, 1),), True)
        grove.start(order, job, ((CPU, 1),), 1)
    served = []
    while (job := order.next_job()) is not None:
        served.append(job.name)
        order.set_candidate(job, None, False)
    assert served == ["d", "a", "b", "c"]
