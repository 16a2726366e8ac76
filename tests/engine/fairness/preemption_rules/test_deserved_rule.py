"""Taking back where queues deserve by weight: the judgement, and what is left of it at rest.

See docs/fairness.md, section 9.6.
"""

from __future__ import annotations

import random

import pytest

from pumice.engine.decisions import Evict
from pumice.engine.fairness.orders.deserved_order import DeservedOrder
from pumice.engine.fairness.preemption_rules.deserved_rule import DeservedRule
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.model.specs import Items
from tests.support.taking import SECOND, Shell, taking_engine

ONE: Items = ((0, 1),)


def proportion(cpu: int) -> Shell:
    shell = Shell(taking_engine("proportion"))
    shell.node("n", cpu)
    return shell


def leaf(shell: Shell, key: str) -> JobNode:
    return shell.engine.tree.jobs[key]


def order_of(shell: Shell) -> DeservedOrder:
    order = shell.engine.order
    assert isinstance(order, DeservedOrder) and order.by_weight
    return order


def settled(shell: Shell) -> None:
    """Deserved is set for what is there now, nothing is decided yet."""
    shell.engine.context.now = shell.now + SECOND
    shell.engine.prepare()


@pytest.mark.parametrize(
    ("cpu", "theirs", "weight", "asked", "before", "after"),
    [
        # Of 4 cpu a deserves 3 and c its 1. a holds 4; then it has 3 of 3, more than c's 0 of 1 was.
        (4, 4, 1, 1, True, True),
        # a deserves 2 of 4 and holds all: legal, and so is what c is owed after that.
        (4, 4, 1, 4, True, True),
        # a holds 2 of the 2 that it deserves (with weights 1 : 1 of 4), and 2 are idle: nothing is above.
        (4, 2, 1, 4, False, True),
        # 1 cpu for two: what can't be split is the older queue's. a is not above what it deserves, c deserves nothing.
        (1, 1, 1, 1, False, False),
    ],
)
def test_queue_above_deserved_loses_to_queue_within_deserved(
    cpu: int, theirs: int, weight: int, asked: int, before: bool, after: bool
) -> None:
    shell = proportion(cpu)
    shell.child("a", weight=weight)
    shell.child("c")
    has = shell.job("a", [(1,)] * theirs)
    shell.cycle()
    wants = shell.job("c", [(1,)] * asked)
    settled(shell)
    order, preemptor, victim = order_of(shell), leaf(shell, wants), leaf(shell, has)
    judge = DeservedRule(order, preemptor, ONE)
    order.charge(preemptor, ONE, 99)
    assert judge.may_lose(victim, ONE) is before
    order.uncharge(victim, ONE, victim.starts[0])
    assert judge.agrees(victim, ONE) is after


def test_a_queue_below_what_it_deserves_does_not_lose_for_its_parent() -> None:
    # 12 cpu, b and c deserve 6 each. b's children deserve 3 each: b1 holds 10, b2 holds 2. Only b1 is to give.
    shell = proportion(12)
    shell.child("b")
    shell.child("b1", "b")
    shell.child("b2", "b")
    shell.child("c")
    small = shell.job("b2", [(1,)] * 2)
    shell.cycle()
    large = shell.job("b1", [(1,)] * 10)
    shell.cycle()
    shell.job("b2", [(1,)] * 8)
    wants = shell.job("c", [(1,)] * 6)
    settled(shell)
    judge = DeservedRule(order_of(shell), leaf(shell, wants), ONE)
    assert judge.may_lose(leaf(shell, large), ONE) and not judge.may_lose(leaf(shell, small), ONE)
    shell.settle()
    assert [shell.running(queue) for queue in ("b1", "b2", "c")] == [3, 3, 6]


@pytest.mark.parametrize(("sizes", "gives"), [([4], False), ([2, 2], True), ([3, 1], True)])
def test_reclaim_never_leaves_victim_where_preemptor_was(sizes: list[int], gives: bool) -> None:
    # 4 cpu: a holds all of it and deserves 3, c deserves the 1 that it asks for. Without its only task a would hold
    # nothing, as c did; of two tasks one is left: more than nothing.
    shell = proportion(4)
    shell.child("a")
    shell.child("c")
    shell.job("a", [(size,) for size in sizes])
    shell.cycle()
    shell.job("c", [(1,)])
    shell.settle()
    assert (shell.running("c") == 1) is gives
    assert len(shell.evictions) == gives


# --- at rest --------------------------------------------------------------------------------------------------------


def late_arrivals(seed: int) -> tuple[Shell, list[tuple[str, str]]]:
    """Queues of any weights ask one after another for tasks of 1 cpu; returns who took from whom, in order."""
    chance = random.Random(seed)
    shell = proportion(chance.randint(2, 24))
    names = [f"q{i}" for i in range(chance.randint(2, 6))]
    for name in names:
        shell.child(name, weight=chance.choice([1, 1, 2, 3, 5]))
    took: list[tuple[str, str]] = []
    for name in chance.sample(names, len(names)):
        for _ in range(chance.randint(1, 3)):
            shell.job(name, [(1,)] * chance.randint(1, 8))
        decisions = [decision for _ in range(12) for decision in shell.cycle()]
        took += [(d.preemptor, d.job) for d in decisions if isinstance(d, Evict) and d.action == "reclaim"]
    return shell, took


def starved(shell: Shell) -> list[str]:
    """Queues that wait for a task within what they deserve, though some other could give one and not be worse off."""
    order = order_of(shell)
    queues: list[ShareNode] = [node for node in shell.engine.tree.queues() if node.parent is not None]
    due = {queue: dict(order.deserved_by(queue)).get(0, 0) for queue in queues}
    found = []
    for queue in queues:
        waits = any(below.job.pending for below in queue.walk() if isinstance(below, JobNode))
        if not waits or queue.held[0] + 1 > due[queue]:
            continue
        share = order.key_of(queue)
        found += [
            f"{queue.name} for {other.name}"
            for other in queues
            if other.held[0] > due[other] and other.held[0] > 1 and (other.held[0] - 1) / max(1, due[other]) > share
        ]
    return found


def test_reclaim_leaves_no_queue_starved_below_deserved_share() -> None:
    taken = 0
    for seed in range(60):
        shell, took = late_arrivals(seed)
        taken += len(took)
        assert not starved(shell), f"seed {seed}"
        assert shell.settle(20) == 0, f"seed {seed}: evictions on a quiet cluster"
    assert taken > 50


def test_reclaim_is_never_mutual_without_new_demand() -> None:
    for seed in range(60):
        chance = random.Random(seed)
        shell = proportion(chance.randint(2, 24))
        for i in range(4):
            shell.child(f"q{i}", weight=chance.choice([1, 2, 3]))
            shell.job(f"q{i}", [(chance.choice([1, 1, 2, 3]),) for _ in range(chance.randint(1, 10))])
            shell.cycle()
        took: set[tuple[str, str]] = set()
        for _ in range(15):
            now = {(d.preemptor, d.job) for d in shell.cycle() if isinstance(d, Evict) and d.action == "reclaim"}
            assert not {(victim, preemptor) for preemptor, victim in now} & took, f"seed {seed}"
            took |= now
