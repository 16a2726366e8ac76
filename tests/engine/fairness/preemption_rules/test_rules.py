"""Taking back, the judgement alone: who is how far above its part, may lose what, and who inherits.

See docs/fairness.md, sections 9.2 and 9.3.
"""

from __future__ import annotations

from typing import Any

import pytest

from pumice.engine.fairness.orders.target_order import TargetOrder
from pumice.engine.fairness.preemption_rules.rules import (
    KeyRule,
    TargetRule,
    equality,
    has_odd_unit,
    lowest_common_ancestor,
    spares,
)
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.model.specs import Items
from tests.support.taking import SECOND, Shell, taking_engine

ONE: Items = ((0, 1),)


def settled(shell: Shell) -> Shell:
    """With targets set for what is there now, nothing decided yet."""
    shell.engine.context.now = shell.now + SECOND
    shell.engine.prepare()
    return shell


def cluster(rule: str = "steer", cpu: int = 8, **more: Any) -> Shell:
    shell = Shell(taking_engine(rule, actions="allocate", **more), audited=False)
    shell.node("n", cpu, cpu)
    return shell


def leaf(shell: Shell, name: str) -> JobNode:
    return shell.engine.tree.jobs[f"ns/{name}"]


def by_target(shell: Shell, ask: Items = ONE) -> TargetRule:
    assert isinstance(shell.engine.order, TargetOrder)
    return TargetRule(shell.engine.order, ask)


# --- where paths part -----------------------------------------------------------------------------------------------


def test_lowest_common_ancestor_returns_level_and_both_branches() -> None:
    shell = cluster()
    for path in ("root/a/x", "root/a/y", "root/b"):
        shell.queue(path)
    for queue in ("a-x", "a-y", "b"):
        shell.job(queue, [(1,)], name=queue)
    shell.job("a-x", [(1,)], name="sibling")
    settled(shell)

    def parted(one: str, other: str) -> tuple[str, str, str]:
        level, ours, theirs = lowest_common_ancestor(leaf(shell, one), leaf(shell, other))
        return level.path, ours.path, theirs.path

    assert parted("a-x", "b") == ("root", "root/a", "root/b")
    assert parted("b", "a-x") == ("root", "root/b", "root/a")
    assert parted("a-x", "a-y") == ("root/a", "root/a/x", "root/a/y")
    assert parted("a-x", "sibling")[0] == "root/a/x"
    with pytest.raises(ValueError, match="different trees"):
        lowest_common_ancestor(leaf(shell, "a-x"), leaf(cluster_with_one(), "alone"))


def cluster_with_one() -> Shell:
    shell = cluster()
    shell.queue("root/q")
    shell.job("q", [(1,)], name="alone")
    return settled(shell)


# --- by whole targets -----------------------------------------------------------------------------------------------


def lent_out() -> Shell:
    """8 cpu: a and b have half each; while b sleeps, a's two jobs hold 4 each. Then b asks for 4: each is 2 above."""
    shell = cluster()
    for queue in "ab":
        shell.queue(f"root/{queue}")
    for name in ("one", "two"):
        shell.job("a", [(1, 1)] * 4, name=name)
    shell.cycle()
    shell.job("b", [(1, 1)] * 4, name="back")
    return settled(shell)


def test_excess_is_held_minus_entitled_part_of_cluster() -> None:
    shell = lent_out()
    judge = by_target(shell)
    tree = shell.engine.tree
    a, b = (next(n for n in tree.root.walk() if n.path == f"root/{name}") for name in "ab")
    # a holds 8 and is due 4 of 8: +4/8. b holds 0 and is due 4: -4/8. Each of a's jobs 4 - 2 of 8.
    assert (judge.excess(a), judge.excess(b)) == (0.5, -0.5)
    assert judge.excess(leaf(shell, "one")) == 0.25
    assert (judge.is_over_target(a), judge.is_over_target(b)) == (True, False)
    assert (judge.key(a), judge.key(b)) == (-0.5, 0.5)  # as people read it: what is missing


def test_only_what_the_taker_asks_for_counts() -> None:
    # c holds no cpu but 4 of 8 memory beyond nothing: to a preemptor of cpu it is not above its part.
    shell = cluster()
    for queue in "abc":
        shell.queue(f"root/{queue}")
    shell.job("a", [(1, 0)] * 8, name="cpu")
    shell.job("c", [(0, 1)] * 8, name="memory")
    shell.cycle()
    shell.job("b", [(1, 1)] * 4, name="both")
    settled(shell)
    cpu, memory = by_target(shell, ((0, 1),)), by_target(shell, ((1, 1),))
    assert cpu.is_over_target(leaf(shell, "cpu")) and not cpu.is_over_target(leaf(shell, "memory"))
    assert memory.is_over_target(leaf(shell, "memory")) and not memory.is_over_target(leaf(shell, "cpu"))
    assert by_target(shell, ()).excess(leaf(shell, "cpu")) == 0.0


@pytest.mark.parametrize(("loses", "may"), [(1, True), (2, True), (3, False)])
def test_a_job_may_lose_what_it_holds_beyond_its_whole_target(loses: int, may: bool) -> None:
    shell = lent_out()
    judge, one = by_target(shell), leaf(shell, "one")
    assert one.integer_target[0] == 2 and one.held[0] == 4
    items: Items = ((0, loses),)
    assert spares(one, items) is may
    assert judge.may_lose(one, items) is may
    shell.engine.order.uncharge(one, items, one.starts[0], 0)
    assert judge.agrees(one, items) is may


def equals(count: int, asked_back: int) -> Shell:
    """So many one-task jobs of queue a on as many cpu, started one by one; b wants some of them back."""
    shell = cluster(cpu=count)
    for queue in "ab":
        shell.queue(f"root/{queue}")
    for i in range(count):
        shell.job("a", [(1,)], name=f"a{i}")
        shell.cycle()
    shell.job("b", [(1,)] * asked_back, name="b")
    return settled(shell)


def test_entitled_victim_may_transfer_odd_unit_to_equal_sibling() -> None:
    # 4 cpu, two by right: targets 1/2 each, rounding says who. All are equal, their units on top of a base of 0.
    shell = equals(4, 2)
    leaves = [leaf(shell, f"a{i}") for i in range(4)]
    right = [one for one in leaves if one.integer_target[0] == 1]
    without = [one for one in leaves if one.integer_target[0] == 0]
    assert len(right) == len(without) == 2
    assert len({equality(one) for one in leaves}) == 1
    assert all(has_odd_unit(one, ONE) for one in right) and not any(has_odd_unit(one, ONE) for one in without)
    judge = by_target(shell)
    # Who runs without a right may simply go; who has one needs an heir: the one without that has run for longest.
    assert all(judge.beneficiary(one, ONE, ()) is None and judge.may_lose(one, ONE) for one in without)
    first, second = sorted(without, key=lambda one: one.starts[0])
    for one in right:
        assert judge.beneficiary(one, ONE, ()) is first and judge.may_lose(one, ONE)
        assert judge.beneficiary(one, ONE, (first,)) is second
        assert judge.beneficiary(one, ONE, (first, second)) is None
    order = shell.engine.order
    order.transfer_entitlement(right[0], first, ONE)
    order.uncharge(right[0], ONE, right[0].starts[0])
    assert judge.agrees(right[0], ONE) and first.integer_target[0] == 1
    assert judge.beneficiary(right[1], ONE, ()) is second  # one can inherit once


def test_unlike_jobs_and_gangs_inherit_nothing() -> None:
    shell = cluster(cpu=4)
    for queue in "ab":
        shell.queue(f"root/{queue}")
    shell.job("a", [(1,)] * 2, 2, name="gang")
    shell.job("a", [(1, 0), (0, 1)], name="unlike")
    shell.job("a", [(1,)], name="single")
    shell.cycle()
    shell.job("b", [(1,)] * 3, name="b")
    settled(shell)
    judge = by_target(shell)
    for name in ("gang", "unlike"):
        one = leaf(shell, name)
        assert not has_odd_unit(one, ONE) and (judge.beneficiary(one, ONE, ()) is None)
    keys = {equality(leaf(shell, name)) for name in ("gang", "unlike", "single", "b")}
    assert len(keys) == 4


# --- by keys --------------------------------------------------------------------------------------------------------


def by_keys(shell: Shell, preemptor: str, ask: Items = ONE, *, by_share: bool = True) -> KeyRule:
    return KeyRule(shell.engine.order, leaf(shell, preemptor), ask, by_share=by_share)


def two_jobs(holds: int, wants_holds: int = 0, **priority: int) -> Shell:
    """Flat DRF, one queue of 8 cpu: ``has`` holds so much, ``wants`` so much and asks for more."""
    shell = cluster("flat")
    shell.queue("root/q")
    shell.job("q", [(1,)] * holds, name="has", priority=priority.get("has"))
    if wants_holds:
        shell.job("q", [(1,)] * wants_holds, name="wants", priority=priority.get("wants"))
    shell.cycle()
    if not wants_holds:
        shell.job("q", [(1,)] * 4, name="wants", priority=priority.get("wants"))
    return settled(shell)


def moved(shell: Shell, judge: KeyRule) -> bool:
    """Whether it is right that a task of ``has`` goes and one of ``wants`` comes, on the accounts after it."""
    has, wants, order = leaf(shell, "has"), leaf(shell, "wants"), shell.engine.order
    order.charge(wants, ONE, 99)
    order.uncharge(has, ONE, has.starts[0])
    return judge.agrees(has, ONE)


@pytest.mark.parametrize(
    ("holds", "wants", "before", "after"),
    [
        # Of 8 cpu: 0/8 < 8/8, then 1/8 <= 7/8. 3/8 < 5/8, then 4/8 <= 4/8: a tie is no reason to stop.
        (8, 0, True, True),
        (5, 3, True, True),
        # 4/8 is not less than 4/8; and 5/8 would be more than 3/8.
        (4, 4, False, False),
        # 3/8 < 4/8, but then 4/8 > 3/8.
        (4, 3, True, False),
        (3, 5, False, False),
    ],
)
def test_the_takers_side_comes_first_and_does_not_come_after(holds: int, wants: int, before: bool, after: bool) -> None:
    shell = two_jobs(holds, wants)
    judge = by_keys(shell, "wants")
    assert judge.may_lose(leaf(shell, "has"), ONE) is before
    assert moved(shell, judge) is after


def test_rule_judges_by_initial_shares_while_accounts_change() -> None:
    shell = two_jobs(5, 3)
    judge = by_keys(shell, "wants")
    assert judge.may_lose(leaf(shell, "has"), ONE)
    assert moved(shell, judge)
    assert judge.may_lose(leaf(shell, "has"), ONE)  # 3/8 < 5/8, as it was to begin with
    assert not by_keys(shell, "has").may_lose(leaf(shell, "wants"), ONE), "the way back is not open"


@pytest.mark.parametrize(("has", "wants", "legal"), [(1, 5, True), (5, 1, False)])
def test_classes_go_before_shares(has: int, wants: int, legal: bool) -> None:
    shell = two_jobs(2, 6, has=has, wants=wants)
    judge = by_keys(shell, "wants")
    assert judge.may_lose(leaf(shell, "has"), ONE) is legal
    assert moved(shell, judge) is legal


def test_sibling_job_loses_nothing_when_jobs_not_ordered_by_share() -> None:
    shell = two_jobs(8)
    assert not by_keys(shell, "wants", by_share=False).may_lose(leaf(shell, "has"), ONE)


def test_key_rule_has_no_beneficiary_and_considers_every_victim() -> None:
    shell = two_jobs(8)
    judge, has = by_keys(shell, "wants"), leaf(shell, "has")
    assert judge.beneficiary(has, ONE, ()) is None and judge.is_over_target(has)
    assert judge.excess(has) == judge.key(has) == 1.0


def test_the_judgement_is_where_the_paths_part() -> None:
    # Two organisations under ``paper``: a with one job of 2, b with two of 3. From a's side b is judged as a whole.
    shell = cluster("paper")
    for path in ("root/a/x", "root/b/y", "root/b/z"):
        shell.queue(path)
    shell.job("a-x", [(1,)] * 2, name="mine")
    for name in "yz":
        shell.job(f"b-{name}", [(1,)] * 3, name=name)
    shell.cycle()
    shell.job("a-x", [(1,)] * 2, name="more")
    settled(shell)
    judge = by_keys(shell, "more")
    b: ShareNode | None = leaf(shell, "y").queue.parent
    assert b is not None and judge.key(b) == pytest.approx(6 / 8)
    # 2/8 < 6/8 though 3/8 is what y alone holds; with one moved 3/8 <= 5/8, with two 4/8 <= 4/8, with three no more.
    assert judge.may_lose(leaf(shell, "y"), ONE)
    order, more = shell.engine.order, leaf(shell, "more")
    for victim, agreed in (("y", True), ("z", True), ("y", False)):
        lost = leaf(shell, victim)
        order.charge(more, ONE, 99)
        order.uncharge(lost, ONE, lost.starts[0])
        assert judge.agrees(lost, ONE) is agreed
