"""Amounts of queues that contradict each other, through the whole tree."""

from __future__ import annotations

import pytest

from kubebase.resource_vector import CPU, Registry
from pumice.model.queue_amounts import QueueAmounts
from pumice.model.queue_tree import build_queue_tree
from pumice.model.specs import Items, Queue


def cores(number: int) -> Items:
    return ((CPU, number * 1000),)


def said(*queues: Queue) -> list[str]:
    described = {queue.name: queue for queue in queues}
    return [
        excess.say(Registry()) for excess in QueueAmounts(build_queue_tree(described).placements, described).excesses()
    ]


@pytest.mark.parametrize(
    ("queue", "message"),
    [
        (Queue("a", guarantee=cores(5), capability=cores(3)), "has guarantee cpu 5, more than its capability cpu 3"),
        (Queue("a", guarantee=cores(5), deserved=cores(3)), "has guarantee cpu 5, more than its deserved cpu 3"),
        (Queue("a", deserved=cores(5), capability=cores(3)), "has deserved cpu 5, more than its capability cpu 3"),
    ],
    ids=["guarantee in capability", "guarantee in deserved", "deserved in capability"],
)
def test_contradicting_amounts_of_single_queue_are_reported(queue: Queue, message: str) -> None:
    assert said(queue) == [f"queue 'a' {message}; lower the first or raise the second"]


@pytest.mark.parametrize(
    ("want", "offer"),
    [
        ("guarantee", "guarantee"),
        ("guarantee", "deserved"),
        ("guarantee", "capability"),
        ("deserved", "deserved"),
        ("deserved", "capability"),
    ],
)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_children_together_at_any_depth_below(want: str, offer: str, depth: int) -> None:
    # Queues between that name nothing do not hide those below them.
    between = [Queue(f"p{i}", parent=f"p{i - 1}") for i in range(1, depth)]
    children = [Queue(name, parent=f"p{depth - 1}", **{want: cores(amount)}) for name, amount in (("x", 6), ("y", 7))]
    assert said(Queue("p0", **{offer: cores(13)}), *between, *children) == []
    assert said(Queue("p0", **{offer: cores(12)}), *between, *children) == [
        f"the children of queue 'root/p0' have {want} cpu 13 in total, more than the {offer} cpu 12 of queue 'p0'"
    ]


def test_a_queue_that_names_it_answers_for_those_below() -> None:
    # x wants 2 of p and has promised 5 itself: that is wrong at x, not at p.
    queues = Queue("p", deserved=cores(3)), Queue("x", parent="p", deserved=cores(2))
    assert said(*queues, Queue("y", parent="x", deserved=cores(5))) == [
        "the children of queue 'root/p/x' have deserved cpu 5 in total, more than the deserved cpu 2 of queue 'x'"
    ]


def test_a_capability_within_the_nearest_above() -> None:
    queues = Queue("p", capability=cores(4)), Queue("x", parent="p"), Queue("y", parent="x", capability=cores(5))
    assert said(*queues) == [
        "queue 'y' has capability cpu 5, more than the cpu 4 of its ancestor 'p'; lower the first or raise the second"
    ]


def test_the_cluster_is_judged_apart_and_only_by_what_it_has() -> None:
    queues = {q.name: q for q in (Queue("a", guarantee=cores(6), deserved=cores(6)), Queue("b", guarantee=cores(5)))}
    amounts = QueueAmounts(build_queue_tree(queues).placements, queues)
    assert not list(amounts.excesses())
    (excess,) = amounts.within({CPU: 10_000})
    assert excess.say(Registry()) == (
        "the children of queue 'root' have guarantee cpu 11 in total, more than the allocatable cpu 10 of the cluster"
    )
    assert not list(amounts.within({CPU: 0}))


def test_excess_makers_are_parent_and_guaranteed_children() -> None:
    queues = {
        queue.name: queue
        for queue in (
            Queue("p", deserved=cores(4)),
            Queue("x", parent="p", guarantee=cores(3)),
            Queue("y", parent="p", deserved=cores(1)),
            Queue("z", parent="p", guarantee=cores(3)),
        )
    }
    amounts = QueueAmounts(build_queue_tree(queues).placements, queues)
    (excess,) = amounts.excesses()
    assert [queue.name for queue in amounts.makers(excess)] == ["p", "x", "z"]
