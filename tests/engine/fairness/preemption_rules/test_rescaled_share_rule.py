"""Taking back under the rule ``paper``, held against the rule in fractions by full recursion.

See docs/fairness.md, sections 3.5 and 9.4.
"""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import CPU, MEMORY, PODS
from pumice.engine.fairness.preemption_rules.rescaled_share_rule import RescaledShareRule
from pumice.engine.fairness.preemption_rules.rules import TOLERANCE, lowest_common_ancestor
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.model.specs import Items
from tests.oracles.paper_recursion import ratings
from tests.support.paper_world import GPU, World

ASKS: tuple[Items, ...] = (
    ((CPU, 1),),
    ((CPU, 2),),
    ((MEMORY, 1),),
    ((CPU, 1), (MEMORY, 1)),
    ((CPU, 1), (MEMORY, 3)),
    ((GPU, 1),),
    ((CPU, 1), (GPU, 1), (PODS, 1)),
)
WEIGHTS = (1.0, 1.0, 2.0, 0.5, 3.0)

Move = tuple[JobNode, Items, JobNode, Items, int]
"""A preemptor and its unit, a victim and its task, and the start of that task."""


def random_world(chance: random.Random) -> World:
    """A tree of up to four levels with jobs that hold something; some have nothing left to start."""
    world = World({CPU: chance.choice((10, 12, 30)), MEMORY: chance.choice((10, 16)), GPU: 8, PODS: 100})
    for _ in range(chance.randint(2, 7)):
        parent = chance.choice(world.groups)
        world.group(parent, chance.choice(WEIGHTS))
    leaves = [group for group in world.groups if not group.children]
    for _ in range(chance.randint(2, 10)):
        ask = chance.choice(ASKS)
        leaf = world.job(chance.choice(leaves), ask if chance.random() < 0.7 else None, False)
        for _ in range(chance.randint(0, 4)):
            world.start(leaf, ask if chance.random() < 0.8 else chance.choice(ASKS))
    return world


def random_move(world: World, chance: random.Random) -> Move | None:
    preemptors = [leaf for leaf in world.leaves if leaf.ask is not None]
    if not preemptors:
        return None
    preemptor = chance.choice(preemptors)
    victims = [(leaf, items, stamp) for leaf, items, stamp in world.running if leaf is not preemptor]
    if not victims:
        return None
    victim, items, stamp = chance.choice(victims)
    assert preemptor.ask is not None
    return preemptor, preemptor.ask, victim, items, stamp


def make(world: World, move: Move) -> None:
    preemptor, ask, victim, items, stamp = move
    world.order.charge(preemptor, ask, 1000)
    world.order.uncharge(victim, items, stamp)


def undo(world: World, move: Move) -> None:
    preemptor, ask, victim, items, stamp = move
    world.order.charge(victim, items, stamp)
    world.order.uncharge(preemptor, ask, 1000)


def exact_keys(world: World, move: Move) -> tuple[list[Fraction], list[Fraction]]:
    """By what the two sides are compared, by full recursion and plain sums: the preemptor's, and the victim's."""
    preemptor, ask, victim, items, _ = move
    _, ours, theirs = lowest_common_ancestor(preemptor, victim)
    asked, given_up = {j for j, _ in ask} - {PODS}, {j for j, _ in items} - {PODS}
    wanted = {j for leaf in world.leaves for j, _ in leaf.ask or ()} - {PODS}
    views = [
        ratings(world.tree, world.capacity, resources=over) for over in (asked | given_up, asked | given_up | wanted)
    ]

    def keys(side: ShareNode) -> list[Fraction]:
        plain = [
            max((Fraction(side.held[j], world.capacity[j]) for j in over), default=Fraction(0)) / Fraction(side.weight)
            for over in (asked | given_up, asked & given_up)
        ]
        return [*(rated[side].share for rated in views), *plain]

    return keys(ours), keys(theirs)


def by_definition(world: World, move: Move) -> tuple[bool, bool] | None:
    """Whether the preemptor's side comes first, and whether it still does not come after; None: too close to say."""
    before = exact_keys(world, move)
    make(world, move)
    after = exact_keys(world, move)
    undo(world, move)
    grid = Fraction(1, 2**20)  # terms are rounded to 2^-34, and at most a few thousand of them are added up
    for (mine, other), gap in ((before, -TOLERANCE), (after, TOLERANCE)):
        if any(abs(a - b - Fraction(gap)) < grid and a != b for a, b in zip(mine, other, strict=True)):
            return None
    return (
        all(a < b - Fraction(TOLERANCE) for a, b in zip(*before, strict=True)),
        all(a <= b + Fraction(TOLERANCE) for a, b in zip(*after, strict=True)),
    )


@given(st.integers(0, 2**32 - 1))
def test_a_move_is_judged_as_the_full_recursion_does(seed: int) -> None:
    chance = random.Random(seed)
    world = random_world(chance)
    for _ in range(6):
        move = random_move(world, chance)
        expected = by_definition(world, move) if move is not None else None
        if move is None or expected is None:
            continue
        preemptor, ask, victim, items, _ = move
        judge = RescaledShareRule(world.order, preemptor, ask)
        world.order.charge(preemptor, ask, 1000)  # the unit is counted in before anybody is asked
        assert judge.may_lose(victim, items) is expected[0]
        world.order.uncharge(preemptor, ask, 1000)
        make(world, move)
        assert judge.agrees(victim, items) is expected[1]
        undo(world, move)


def a_legal_move(world: World, chance: random.Random) -> Move | None:
    """A legal move, and it is made; None: a few that were tried are not."""
    for _ in range(20):
        move = random_move(world, chance)
        if move is None:
            return None
        preemptor, ask, victim, items, _ = move
        judge = RescaledShareRule(world.order, preemptor, ask)
        came_first = judge.may_lose(victim, items)
        make(world, move)
        if came_first and judge.agrees(victim, items):
            return move
        undo(world, move)
    return None


def test_the_opposite_of_a_legal_move_is_illegal_whoever_waits_then() -> None:
    made = 0
    for seed in range(600):
        chance = random.Random(seed)
        world = random_world(chance)
        move = a_legal_move(world, chance)
        if move is None:
            continue
        made += 1
        preemptor, ask, victim, items, _ = move
        # The victim waits for what it lost; the preemptor has nothing left to start, or goes on waiting.
        world.order.set_candidate(victim, items, False)
        world.order.set_candidate(preemptor, chance.choice([None, ask]), False)
        back = RescaledShareRule(world.order, victim, items)
        comes_first = back.may_lose(preemptor, ask)
        undo(world, move)
        assert not (comes_first and back.agrees(preemptor, ask)), f"seed {seed}"
    assert made > 200


def test_a_question_leaves_the_sums_as_they_were() -> None:
    for seed in range(40):
        chance = random.Random(seed)
        world = random_world(chance)
        untouched = random_world(random.Random(seed))
        for leaf in world.leaves:
            world.order.share_if(world.tree.root, (CPU, MEMORY), leaf, [9] * len(world.capacity))
        asked, fresh = (w.order._lane_for((CPU, MEMORY)) for w in (world, untouched))
        assert [s.share for s in asked.of.values()] == [s.share for s in fresh.of.values()]
        assert [s.term for s in asked.of.values()] == [s.term for s in fresh.of.values()]


# --- worked ---------------------------------------------------------------------------------------------------------


def first_example() -> tuple[World, JobNode, JobNode, JobNode]:
    """10 cpu and 10 gpu: n1 wants gpu; n2 has n21, which holds all cpu, and n22, which wants gpu. 5 gpu each."""
    world = World({CPU: 10, GPU: 10})
    n1, n2 = world.group(), world.group()
    j1 = world.job(n1, ((GPU, 1),), False)
    j21 = world.job(world.group(n2), ((CPU, 1),), False)
    j22 = world.job(world.group(n2), ((GPU, 1),), False)
    for leaf, items, tasks in ((j1, ((GPU, 1),), 5), (j21, ((CPU, 1),), 10), (j22, ((GPU, 1),), 5)):
        for _ in range(tasks):
            world.start(leaf, items)
    return world, j1, j21, j22


def test_sibling_usage_of_unrequested_resource_is_not_charged() -> None:
    # Plain sums have n2 at 10/10 (its cpu) and n1 at 5/10: n1 would take all gpu. Over gpu both are at 5/10.
    world, j1, _, j22 = first_example()
    judge = RescaledShareRule(world.order, j1, ((GPU, 1),))
    assert judge.judged(lowest_common_ancestor(j1, j22)[2], j22, ((GPU, 1),)) == (0.5, 0.5)
    assert not judge.may_lose(j22, ((GPU, 1),))


@pytest.mark.parametrize(("holds", "legal"), [(0, True), (4, True), (5, False)])
def test_a_newcomer_takes_up_to_its_half_though_its_sibling_holds_all_cpu(holds: int, legal: bool) -> None:
    # n22 holds so many gpu, n1 the others. 0/10 < 10/10, then 1/10 <= 9/10; 4/10 < 6/10, then a tie: legal.
    world, j1, _, j22 = first_example()
    for leaf, index in [(leaf, i) for i, (leaf, _, _) in enumerate(world.running)][::-1]:
        if leaf is j22 and j22.held[GPU] > holds:
            world.end(index)
            world.start(j1, ((GPU, 1),))
    judge = RescaledShareRule(world.order, j22, ((GPU, 1),))
    may = judge.may_lose(j1, ((GPU, 1),))
    world.order.charge(j22, ((GPU, 1),), 1000)
    world.end(next(i for i, (leaf, _, _) in enumerate(world.running) if leaf is j1))
    assert (may and judge.agrees(j1, ((GPU, 1),))) is legal


def test_siblings_take_nothing_on_account_of_one_who_can_not_be_placed() -> None:
    # a's first job holds nothing and fits nowhere: rescaled, a is at 0 whatever its second job takes. That one holds
    # 6 of 10, b holds 4.
    world = World({CPU: 10})
    a, b = world.group(), world.group()
    world.job(a, ((CPU, 9),), False)
    greedy = world.job(a, ((CPU, 1),), False)
    other = world.job(b, ((CPU, 1),), False)
    for leaf, tasks in ((greedy, 6), (other, 4)):
        for _ in range(tasks):
            world.start(leaf, ((CPU, 1),))
    judge = RescaledShareRule(world.order, greedy, ((CPU, 1),))
    assert judge.judged(a, greedy, ((CPU, 1),)) == (0.0, 0.0)
    assert not judge.may_lose(other, ((CPU, 1),))
