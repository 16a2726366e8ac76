"""The rule ``paper``: equal to the full recursion, equal to a rebuild, and fair under churn where sums are not."""

from __future__ import annotations

import random
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.fairness import paper
from pumice.fairness.paper import GRID, LANES, Group, Lane, PaperOrder, Standing
from pumice.fairness.tree import JobNode, Kind, ShareNode, ShareTree
from pumice.model.accounts import Job
from pumice.model.objects import Items
from pumice.model.resources import CPU, MEMORY, PODS
from tests.oracles.paper_recursion import paper_pick, ratings

GPU, DISK = 3, 4
PLACES = (CPU, MEMORY, GPU, DISK)
WIDTH = 5


class World:
    """A share tree under a ``PaperOrder``, with the tasks that run in it."""

    def __init__(self, capacity: Mapping[int, int]) -> None:
        self.capacity = [capacity.get(j, 0) for j in range(WIDTH)]
        self.tree = ShareTree(WIDTH)
        self.order = PaperOrder(self.tree, self.capacity)
        self.groups: list[ShareNode] = [self.tree.root]
        self.leaves: list[JobNode] = []
        self.running: list[tuple[JobNode, Items, int]] = []
        self.count = 0  # names and ages, in the order of declaration
        self.clock = 0

    def group(self, parent: ShareNode | None = None, weight: float = 1.0, kind: Kind = Kind.QUEUE) -> ShareNode:
        self.count += 1
        name = f"group{self.count}"
        node = self.tree.child(parent or self.tree.root, kind, name)
        node.weight, node.rank = weight, (self.count, kind, name)
        self.groups.append(node)
        return node

    def job(
        self,
        parent: ShareNode,
        ask: Items | None,
        able: bool = True,
        *,
        holds: Items = (),
        weight: float = 1.0,
        name: str = "",
    ) -> JobNode:
        self.count += 1
        leaf = self.tree.add_job(Job(name or f"job{self.count}", WIDTH), parent)
        leaf.weight, leaf.rank = weight, (self.count, Kind.JOB, leaf.name)
        self.leaves.append(leaf)
        self.order.offer(leaf, ask, able)
        if holds:
            self.start(leaf, holds)
        return leaf

    def start(self, leaf: JobNode, items: Items) -> None:
        self.clock += 1
        self.order.hold(leaf, items, self.clock)
        self.running.append((leaf, items, self.clock))

    def end(self, index: int) -> tuple[JobNode, Items]:
        leaf, items, stamp = self.running.pop(index)
        self.order.release(leaf, items, stamp)
        return leaf, items

    def remove(self, leaf: JobNode) -> None:
        for index in reversed([i for i, (who, _, _) in enumerate(self.running) if who is leaf]):
            self.end(index)
        self.order.offer(leaf, None, False)
        self.tree.remove(leaf)
        self.leaves.remove(leaf)


# --- the rule, by hand --------------------------------------------------------------------------------------


def two_branches(*, n22_asks: Items | None, n22_able: bool) -> World:
    """10 cpu, 10 gpu. n1 has n11 with 5 cpu; n2 has n21 with 2 cpu and n22 with 8 gpu."""
    world = World({CPU: 10, GPU: 10})
    n1, n2 = world.group(), world.group()
    world.job(n1, ((CPU, 1),), holds=((CPU, 5),), name="n11")
    world.job(n2, ((CPU, 1),), holds=((CPU, 2),), name="n21")
    world.job(n2, n22_asks, n22_able, holds=((GPU, 8),), name="n22")
    return world


def test_children_are_scaled_to_the_least_share_among_them() -> None:
    world = two_branches(n22_asks=((GPU, 1),), n22_able=True)
    # n2: s = .2 and .8, M = .2, V = (.2, 0) + .2/.8 * (0, .8) = (.2, .2): s = .2 < .5 of n1 (the sum has .8).
    levels = world.order.explain()
    assert [(level.node, level.runner_up) for level in levels] == [
        ("root/group2", "root/group1"),
        ("root/group2/n21", "root/group2/n22"),
    ]
    assert [level.key for level in levels] == pytest.approx([0.2, 0.2], abs=2**-30)
    assert [level.runner_up_key for level in levels] == pytest.approx([0.5, 0.8], abs=2**-30)
    assert world.order.pick() is world.tree.jobs["n21"]


def test_blocked_children_are_not_scaled() -> None:
    # n22 has nothing to start, n21 asks for both: Y = {cpu, gpu}, n2: M = .2, V = (.2, 0) + (0, .8): s = .8.
    world = two_branches(n22_asks=None, n22_able=False)
    world.order.offer(world.tree.jobs["n21"], ((CPU, 1), (GPU, 1)), True)
    assert world.order.pick() is world.tree.jobs["n11"]


def test_resources_nobody_can_take_do_not_count() -> None:
    # No gpu can be placed: Y = {cpu}, n22 is blocked and holds no cpu, n2: V = .2 on cpu < .5 of n1.
    world = two_branches(n22_asks=((GPU, 1),), n22_able=False)
    assert world.order.pick() is world.tree.jobs["n21"]
    # n21 takes four more: n2 has .6 on cpu, n1 comes first.
    world.start(world.tree.jobs["n21"], ((CPU, 4),))
    assert world.order.pick() is world.tree.jobs["n11"]


def test_who_waits_for_room_counts_in_the_least_but_is_passed_over() -> None:
    # 10 cpu: n11 .3; n21 .4 and n22 .1, which waits for 8 that are not free. n22 is not blocked, so M = .1,
    # n2: V = .1 + .1 = .2 < .3, and below it n21 is served, being the only one who can be.
    world = World({CPU: 10})
    n1, n2 = world.group(), world.group()
    n11 = world.job(n1, ((CPU, 1),), holds=((CPU, 3),))
    n21 = world.job(n2, ((CPU, 1),), holds=((CPU, 4),))
    n22 = world.job(n2, ((CPU, 8),), able=False, holds=((CPU, 1),))
    assert world.order.pick() is n21
    # With nothing to start it is blocked: V = .4 + .1 = .5 > .3.
    world.order.offer(n22, None, False)
    assert world.order.pick() is n11


def test_a_newcomer_pulls_its_group_to_the_front() -> None:
    # n2 holds .9 in one job; a job with nothing makes M = 0 and so V = 0 < .1 of n1.
    world = World({CPU: 10})
    n1, n2 = world.group(), world.group()
    n11 = world.job(n1, ((CPU, 1),), holds=((CPU, 1),))
    world.job(n2, ((CPU, 1),), holds=((CPU, 9),))
    assert world.order.pick() is n11
    newcomer = world.job(n2, ((CPU, 1),))
    assert world.order.pick() is newcomer


def test_weights_inside_a_branch_leave_the_split_between_branches_alone() -> None:
    # n2 holds .2 by weight 1 and .6 by weight 3: s = .2 both, M = .2, V = .2 + .6 = .8, as one job with .8 has.
    world = World({CPU: 100})
    n1, n2 = world.group(), world.group()
    world.job(n1, ((CPU, 1),), holds=((CPU, 79),), name="one")
    world.job(n2, ((CPU, 1),), holds=((CPU, 20),))
    world.job(n2, ((CPU, 1),), holds=((CPU, 60),), weight=3.0)
    assert [level.node for level in world.order.explain()] == ["root/group1", "root/group1/one"]
    level = world.order.explain()[0]
    assert (level.key, level.runner_up_key) == pytest.approx((0.79, 0.8), abs=2**-29)


def test_tiers_come_before_the_share_among_jobs_only() -> None:
    # Of the jobs of n2 the urgent one goes first although it has more; between n1 and n2 shares decide.
    world = World({CPU: 10})
    n1, n2 = world.group(), world.group()
    n11 = world.job(n1, ((CPU, 1),), holds=((CPU, 4),))
    n21 = world.job(n2, ((CPU, 1),), holds=((CPU, 1),))
    n22 = world.job(n2, ((CPU, 1),), holds=((CPU, 2),))
    n11.before, n21.before, n22.before = (-9,), (0,), (-1,)
    for leaf in world.leaves:
        world.tree.mark(leaf)
    assert world.order.pick() is n22
    # .1 + .1 scaled is .2 < .4; with 4 and 5 it is .8.
    world.start(n21, ((CPU, 3),))
    world.start(n22, ((CPU, 3),))
    assert world.order.pick() is n11


def test_places_on_nodes_are_no_share() -> None:
    world = World({CPU: 10, PODS: 10})
    many = world.job(world.tree.root, ((CPU, 1), (PODS, 1)), holds=((CPU, 1), (PODS, 9)))
    world.job(world.tree.root, ((CPU, 1), (PODS, 1)), holds=((CPU, 2), (PODS, 1)))
    assert world.order.pick() is many
    assert list(world.order.lanes) == [(CPU,)]


def test_something_held_of_a_resource_of_which_there_is_none_is_all_of_it() -> None:
    world = World({CPU: 10, GPU: 0})
    world.job(world.tree.root, ((CPU, 1), (GPU, 1)), holds=((GPU, 1),))
    other = world.job(world.tree.root, ((CPU, 1),), holds=((CPU, 9),))
    assert world.order.pick() is other


def test_nobody_to_serve() -> None:
    world = World({CPU: 10})
    assert world.order.pick() is None
    world.job(world.group(), ((CPU, 1),), able=False)
    assert world.order.pick() is None
    assert world.order.explain() == ()


# --- against the full recursion, and a rebuild ----------------------------------------------------------------

WEIGHTS = (1.0, 2.0, 3.0, 0.5, 0.3, 7.25)
EVENTS = (
    ("start", 4),
    ("serve", 6),
    ("end", 5),
    ("offer", 8),
    ("add job", 2),
    ("remove job", 2),
    ("add group", 1),
    ("remove group", 1),
    ("reweigh", 1),
    ("resize", 1),
    ("tiers", 1),
)

Event = tuple[str, int, int, tuple[int, ...], bool]

events = st.tuples(
    st.sampled_from([kind for kind, often in EVENTS for _ in range(often)]),
    st.integers(0, 60),
    st.integers(0, 60),
    st.lists(st.sampled_from((0, 0, 1, 2, 3)), min_size=4, max_size=4).map(tuple),
    st.booleans(),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A tree of 2 to 5 levels over 2 to 4 resources, with some jobs in it."""
    resources = PLACES[: draw(st.integers(2, 4))]
    world = World({j: draw(st.sampled_from((7, 10, 12, 30, 97, 0))) for j in resources} | {PODS: 50})
    for above, weight in draw(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(WEIGHTS)), max_size=9)):
        parent = world.groups[above % len(world.groups)]
        if depth(parent) < 4:
            world.group(parent, weight)
    for where, amounts in draw(st.lists(st.tuples(st.integers(0, 9), events.map(lambda e: e[3])), max_size=12)):
        world.job(world.groups[where % len(world.groups)], items_of(world, amounts))
    return world


def depth(node: ShareNode) -> int:
    return 0 if node.parent is None else 1 + depth(node.parent)


def items_of(world: World, amounts: tuple[int, ...]) -> Items:
    """The amounts over the resources of a world, never nothing; two or more ask for a place as well."""
    vector = dict(zip(PLACES, amounts, strict=True))
    items = [(j, n) for j, n in vector.items() if n and (j in (CPU, MEMORY) or world.capacity[j])]
    if len(items) > 1:
        items.append((PODS, 1))
    return tuple(sorted(items)) or ((CPU, 1),)


def happen(world: World, event: Event) -> None:
    kind, who, what, amounts, flag = event
    leaf = world.leaves[who % len(world.leaves)] if world.leaves else None
    group = world.groups[who % len(world.groups)]
    items = items_of(world, amounts)
    match kind:
        case "start" if leaf is not None:
            world.start(leaf, items)
        case "serve" if (picked := world.order.pick()) is not None:
            assert picked.ask is not None
            world.start(picked, picked.ask)
        case "end" if world.running:
            world.end(who % len(world.running))
        case "offer" if leaf is not None:
            world.order.offer(leaf, None if what % 5 == 0 else items, flag)
        case "add job":
            world.job(group, None if what % 5 == 0 else items, flag, weight=WEIGHTS[what % len(WEIGHTS)])
        case "remove job" if leaf is not None:
            world.remove(leaf)
        case "add group" if depth(group) < 4:
            world.group(group, WEIGHTS[what % len(WEIGHTS)], Kind.NAMESPACE if flag else Kind.QUEUE)
        case "remove group" if group.parent is not None and not group.children:
            world.tree.remove(group)
            world.groups.remove(group)
        case "reweigh":
            (leaf if leaf is not None and flag else group).weight = WEIGHTS[what % len(WEIGHTS)]
            world.order.restructure()
        case "resize":
            world.capacity[PLACES[what % 2]] = 5 + who
            world.order.restructure()
        case "tiers" if leaf is not None:
            leaf.before, leaf.after = (what % 2,), (who % 2,)
            world.tree.mark(leaf)


def state(lane: Lane) -> dict[ShareNode, object]:
    """All that a lane says of its nodes."""
    return {
        node: (standing.blocked, standing.share, standing.term)
        + (
            (standing.members, standing.as_is, standing.scaled, standing.shares.count)
            if isinstance(standing, Group)
            else ()
        )
        for node, standing in lane.of.items()
    }


def check(world: World) -> None:
    order = world.order
    expected = paper_pick(world.tree, world.capacity, int(GRID))
    levels = order.explain()
    assert order.pick() is expected
    if expected is None:
        assert levels == ()
        return
    # What is kept up to date is what a rebuild gives, and the front has been left as it was.
    fresh = Lane(world.tree, world.capacity, tuple(j for j, _ in order.lane.scale))
    fresh.build()
    assert state(order.lane) == state(fresh)
    assert order.pick() is expected
    # The grid does no harm: the shares that decided are those of the exact rule.
    exact = {node.path: rating for node, rating in ratings(world.tree, world.capacity).items()}
    assert levels[-1].node == expected.path and len(levels) == depth(expected)
    for level in levels:
        assert abs(exact[level.node].share - Fraction(level.key)) < 2**-26
        assert not exact[level.node].blocked


@given(worlds(), st.lists(st.lists(events, min_size=1, max_size=5), max_size=40))
def test_any_history_gives_the_picks_of_the_full_recursion(world: World, bursts: list[list[Event]]) -> None:
    check(world)
    for burst in bursts:
        for event in burst:
            happen(world, event)
        check(world)
