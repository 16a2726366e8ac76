"""The order of queues by what they deserve: shares, priority among siblings, what changes a place."""

from __future__ import annotations

from typing import Any

import pytest

from kubebase.resource_vector import CPU, MEMORY, PODS
from pumice.engine.fairness.orders.deserved_order import DeservedOrder, deserved_share
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from tests.support.case_files import read_cases
from tests.support.groves import GPU, WIDTH, Grove

CASES = read_cases("scheduling")
PLACE = {"cpu": CPU, "memory": MEMORY}


@pytest.mark.parametrize("case", CASES["queue_shares"], ids=lambda case: case["id"])
def test_shares_of_queues(case: dict[str, Any]) -> None:
    held = [0] * WIDTH
    for name, amount in case["holds"].items():
        held[PLACE[name]] = int(amount * 1000)
    deserved = tuple((PLACE[name], int(amount * 1000)) for name, amount in case["deserved"].items())
    assert deserved_share(held, deserved) == case["share"]


def test_places_on_nodes_are_no_share() -> None:
    assert deserved_share([1, 0, 5, 0], ((CPU, 4), (PODS, 5))) == 0.25
    assert deserved_share([1, 0, 5, 0], ((PODS, 5),)) == 1.0  # it deserves nothing that counts


def test_a_share_over_what_is_asked_for() -> None:
    # cpu 4 of 2, gpu 5 of 10: 2 in all, a half where only gpu is asked for, 1 where nothing of it is deserved.
    held, deserved = [4, 0, 0, 5], ((CPU, 2), (GPU, 10))
    assert deserved_share(held, deserved) == 2.0
    assert deserved_share(held, deserved, ((GPU, 1),)) == 0.5
    assert deserved_share(held, deserved, ((MEMORY, 1),)) == 1.0


class Queues:
    """Sibling queues that always want one cpu more."""

    def __init__(self, *, jobs_by_share: bool = False) -> None:
        self.grove = Grove([100, 100, 0, 0])
        self.order = DeservedOrder(self.grove.tree, self.grove.capacity, jobs_by_share=jobs_by_share)
        self.stamp = 0

    def job(self, queue: ShareNode) -> JobNode:
        leaf = self.grove.job(queue, [(((CPU, 1),), 100)])
        self.order.set_candidate(leaf, ((CPU, 1),), True)
        return leaf

    def serve(self, times: int) -> list[str]:
        served = []
        for _ in range(times):
            leaf = self.order.next_job()
            assert leaf is not None
            self.stamp += 1
            self.order.charge(leaf, ((CPU, 1),), self.stamp)
            served.append(leaf.queue.name)
        return served


def test_the_smallest_part_of_what_is_deserved_goes_first() -> None:
    # g1 deserves 4, g2 deserves 2: g1 to 1/4, g2 to 1/2, g1 to 2/4; of equals who was served longer ago: g2 to 2/2,
    # g1 to 3/4, g1 to 4/4
    queues = Queues()
    one, two = queues.grove.group(), queues.grove.group()
    queues.job(one)
    queues.job(two)
    queues.order.follow({one: ((CPU, 4),), two: ((CPU, 2),)}, {})
    assert queues.serve(6) == ["g1", "g2", "g1", "g2", "g1", "g1"]


def test_queue_deserving_nothing_sorts_after_queues_below_deserved() -> None:
    queues = Queues()
    idle, due = queues.grove.group(), queues.grove.group()
    queues.job(idle)
    queues.job(due)
    queues.order.follow({due: ((CPU, 3),)}, {})
    # (Its share is 1 even while it holds nothing: the cases say so, and a queue that deserves nothing must not keep its
    # last task from an owner because it would stand at 0 without it.)
    # g2 until it has its 3; at 3/3 both stand at 1, so they take turns, g1 first; at 4/3 g2 is behind.
    assert queues.serve(5) == ["g2", "g2", "g2", "g1", "g2"]
    assert queues.serve(2) == ["g1", "g1"]


def test_priority_counts_among_siblings_only() -> None:
    # Below root, g1 and g2 are equal; g3 below g2 is the most important of all queues, but only among g2's.
    queues = Queues()
    one, two = queues.grove.group(), queues.grove.group()
    three, four = queues.grove.group(two), queues.grove.group(two)
    for queue in (one, three, four):
        queues.job(queue)
    queues.order.follow(
        {one: ((CPU, 10),), two: ((CPU, 10),), three: ((CPU, 5),), four: ((CPU, 5),)}, {three: 100, four: 1}
    )
    assert queues.serve(4) == ["g1", "g3", "g1", "g3"]


def test_a_new_due_and_a_new_priority_count_at_once() -> None:
    queues = Queues()
    one, two = queues.grove.group(), queues.grove.group()
    queues.job(one)
    queues.job(two)
    queues.order.follow({one: ((CPU, 10),), two: ((CPU, 10),)}, {})
    assert queues.serve(2) == ["g1", "g2"]
    queues.order.follow({one: ((CPU, 10),), two: ((CPU, 100),)}, {})  # 1/10 against 1/100
    assert queues.serve(2) == ["g2", "g2"]
    queues.order.follow({one: ((CPU, 10),), two: ((CPU, 100),)}, {one: 1})
    assert queues.serve(2) == ["g1", "g1"]


@pytest.mark.parametrize(("by_share", "first"), [(True, "j3"), (False, "j2")])
def test_jobs_go_by_share_only_where_a_plugin_says_so(by_share: bool, first: str) -> None:
    # j2 holds more, j3 was served later.
    queues = Queues(jobs_by_share=by_share)
    queue = queues.grove.group()
    queues.order.charge(queues.job(queue), ((CPU, 5),), 1)
    queues.order.charge(queues.job(queue), ((CPU, 1),), 2)
    picked = queues.order.next_job()
    assert picked is not None and picked.name == first


def test_keys_for_taking_back_leave_priority_out() -> None:
    queues = Queues(jobs_by_share=True)
    queue = queues.grove.group()
    leaf = queues.job(queue)
    queues.order.charge(leaf, ((CPU, 5),), 1)
    queues.order.follow({queue: ((CPU, 4),)}, {queue: 9})
    assert queues.order.key_of(queue) == 1.25
    assert queues.order.key_of(leaf) == pytest.approx(0.05)  # 5 of 100
