"""Lanes of the rule ``paper``: after any history equal to the full recursion and to a rebuild, for one path."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import CPU, MEMORY, PODS
from pumice.engine.fairness.orders import published_hdrf as paper
from pumice.engine.fairness.orders.published_hdrf import GRID, LANES, Group, NodeShare, ResourceLane
from pumice.engine.fairness.share_tree.share_node import NodeKind, ShareNode
from pumice.model.specs import Items
from tests.oracles.paper_recursion import paper_pick, ratings
from tests.support.engine_forms import counts_calls
from tests.support.paper_world import GPU, PLACES, World

# --- against the full recursion, and a rebuild -------------------------------------------------------------

WEIGHTS = (1.0, 2.0, 3.0, 0.5, 0.3, 7.25)
HOW_OFTEN = {
    "start": 8,
    "serve": 16,
    "end": 14,
    "offer": 20,
    "room": 8,
    "add job": 5,
    "remove job": 5,
    "add group": 3,
    "remove group": 3,
    "reweigh": 1,
    "resize": 1,
    "tiers": 3,
}
KINDS = [kind for kind, often in HOW_OFTEN.items() for _ in range(often)]
AMOUNTS = (0, 0, 1, 2, 3)

Event = tuple[str, int, int, tuple[int, ...], bool]

events = st.tuples(
    st.sampled_from(KINDS),
    st.integers(0, 60),
    st.integers(0, 60),
    st.tuples(*[st.sampled_from(AMOUNTS)] * 4),
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
        case "serve" if (picked := world.order.next_job()) is not None:
            assert picked.ask is not None
            world.start(picked, picked.ask)
        case "end" if world.running:
            world.end(who % len(world.running))
        case "offer" if leaf is not None:
            world.order.set_candidate(leaf, None if what % 5 == 0 else items, flag)
        case "room":  # of some resources there is nothing left, so Y changes
            scarce = [j for k, j in enumerate(PLACES) if what >> k & 1]
            for each in world.leaves:
                world.order.set_candidate(each, each.ask, all(j not in scarce for j, _ in each.ask or ()))
        case "add job":
            world.job(group, None if what % 5 == 0 else items, flag, weight=WEIGHTS[what % len(WEIGHTS)])
        case "remove job" if leaf is not None:
            world.remove(leaf)
        case "add group" if depth(group) < 4:
            world.group(group, WEIGHTS[what % len(WEIGHTS)], NodeKind.NAMESPACE if flag else NodeKind.QUEUE)
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


def state(lane: ResourceLane) -> dict[ShareNode, object]:
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
    assert order.next_job() is expected
    if expected is None:
        assert levels == ()
        return
    # What is kept up to date is what a rebuild gives, and the front has been left as it was.
    fresh = ResourceLane(world.tree, world.capacity, tuple(j for j, _ in order.lane.scale))
    fresh.build()
    assert state(order.lane) == state(fresh)
    assert order.next_job() is expected
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


@pytest.mark.parametrize("seed", range(6))
def test_long_histories_do_too(seed: int) -> None:
    rng = random.Random(seed)

    def event() -> Event:
        amounts = tuple(rng.choices(AMOUNTS, k=4))
        return rng.choice(KINDS), rng.randrange(61), rng.randrange(61), amounts, rng.random() < 0.6

    world = World({j: rng.choice((7, 10, 30, 97)) for j in PLACES[: 2 + seed % 3]} | {PODS: 50})
    for _ in range(8):
        parent = rng.choice(world.groups)
        if depth(parent) < 4:
            world.group(parent, rng.choice(WEIGHTS))
    for _ in range(20):
        world.job(rng.choice(world.groups), items_of(world, event()[3]), rng.random() < 0.6)
    lanes = 0
    for _ in range(100):
        for _ in range(rng.randint(1, 5)):
            happen(world, event())
        check(world)
        lanes = max(lanes, len(world.order.lanes))
    assert lanes > 1


# --- what it costs -----------------------------------------------------------------------------------------


def wide_world() -> World:
    """3 levels of groups, 4 each, and 1,000 jobs that can all be placed."""
    world = World({CPU: 10**6, GPU: 10**6})
    groups = [world.tree.root]
    for _ in range(3):
        groups = [world.group(parent) for parent in groups for _ in range(4)]
    for i in range(1000):
        ask = ((CPU, 1 + i % 7),) if i % 3 else ((CPU, 1), (GPU, 1 + i % 5))
        world.job(groups[i % len(groups)], ask, holds=ask)
    world.order.next_job()
    return world


class Calls:
    """Counts the calls of something, and lets them through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
        self.number = 0
        original = getattr(owner, name)

        def counted(*args: Any) -> Any:
            self.number += 1
            return original(*args)

        monkeypatch.setattr(owner, name, counted)


@counts_calls
def test_an_event_costs_one_path_however_many_jobs_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    world = wide_world()
    moves = Calls(monkeypatch, NodeShare, "move")
    entries = Calls(monkeypatch, paper, "entry_of")
    for index in range(200):
        moves.number = 0
        if index % 2:
            world.end(index)
        else:
            leaf = world.leaves[index * 4]
            world.start(leaf, leaf.ask or ())
        world.order.next_job()
        assert moves.number <= 4  # the job and the three groups above it
    # Each event gives those four new entries, at most; and everybody else at most the one to begin with.
    assert entries.number <= 4 * 200 + 1000 + 4 + 16 + 64


@counts_calls
def test_a_job_that_changes_nothing_above_ends_the_climb(monkeypatch: pytest.MonkeyPatch) -> None:
    # It loses its room: it is as blocked, and holds as much, as before. Only the fronts hear of it.
    world = wide_world()
    moves = Calls(monkeypatch, NodeShare, "move")
    leaf = world.leaves[123]
    world.order.set_candidate(leaf, leaf.ask, False)
    assert world.order.next_job() is not None
    assert moves.number == 1


@counts_calls
def test_unplaceable_jobs_add_no_cost_to_pick(monkeypatch: pytest.MonkeyPatch) -> None:
    # 2,000 with less, who wait for more than there is, stand before the only one that can be placed.
    world = World({CPU: 10**6})
    group = world.group()
    for _ in range(2000):
        world.job(group, ((CPU, 5),), able=False)
    one = world.job(group, ((CPU, 1),), holds=((CPU, 10),))
    entries = Calls(monkeypatch, paper, "entry_of")
    counts = Calls(monkeypatch, ResourceLane, "_counts")
    for _ in range(20):
        assert world.order.next_job() is one
        world.start(one, ((CPU, 1),))
    assert entries.number == 2 * 20  # the job and its group, each time anew
    assert counts.number <= 2 * 2 * 20


def test_jobs_that_come_and_go_leave_nothing_behind() -> None:
    world = World({CPU: 1000, GPU: 1000})
    stay = world.job(world.group(), ((CPU, 1),))
    other = world.group()
    for round_ in range(500):
        space = world.group(other, kind=NodeKind.NAMESPACE)
        come = [world.job(space, ((CPU, 1),) if k else ((GPU, 1),)) for k in range(5)]
        picked = world.order.next_job()
        assert picked is not None
        world.start(picked, picked.ask or ())
        world.order.set_candidate(come[0], ((GPU, 1),), round_ % 2 == 0)
        world.order.next_job()
        for leaf in come:
            world.remove(leaf)
        world.tree.remove(space)
        world.groups.remove(space)
    assert world.order.next_job() is stay
    lane = world.order.lane
    assert set(lane.of) == {world.tree.root, stay.parent, stay}
    assert len(world.order.lanes) == 2
    for lane in world.order.lanes.values():
        assert not lane.lags
        for standing in lane.of.values():
            if isinstance(standing, Group):
                assert len(standing.heap) <= 4 * standing.members + 64 + 1
                assert len(standing.shares.heap) <= 2 * len(standing.shares.count) + 64
                assert set(standing.changed) <= set(lane.of.values())
    assert not any(node.child_heap.changed for node in world.tree.root.walk())


def test_lane_does_not_accumulate_unread_entries() -> None:
    # The first group has nothing and is always first. In the second, jobs come and go unseen; in the first, one
    # job takes more and more and leaves its old places in the front, below the one that is read.
    world = World({CPU: 10**6})
    first, second = world.group(), world.group()
    always = world.job(first, ((CPU, 1),))
    grows = world.job(first, ((CPU, 1),))
    world.job(second, None, holds=((CPU, 9),))
    for _ in range(300):
        leaf = world.job(second, ((CPU, 1),), holds=((CPU, 1),))
        assert world.order.next_job() is always
        world.remove(leaf)
        world.start(grows, ((CPU, 1),))
    assert world.order.next_job() is always
    read, unread = world.order.lane.of[first], world.order.lane.of[second]
    assert isinstance(read, Group) and len(read.heap) <= 4 * 2 + 64
    assert isinstance(unread, Group) and (len(unread.changed), len(unread.heap)) == (1, 0)


def test_a_lane_far_behind_is_dropped_and_one_that_is_near_catches_up() -> None:
    world = World({CPU: 10**6, GPU: 10**6})
    for _ in range(400):
        world.job(world.tree.root, ((CPU, 1),))
    gpu = world.job(world.tree.root, ((GPU, 1),))

    def lane_for(*, gpus: bool) -> ResourceLane:
        world.order.set_candidate(gpu, ((GPU, 1),), gpus)
        world.order.next_job()
        return world.order.lane

    both, cpu_only = lane_for(gpus=True), lane_for(gpus=False)
    assert both is not cpu_only
    for changes, kept in ((100, True), (390, False)):
        for leaf in world.leaves[:changes]:
            world.start(leaf, ((CPU, 1),))
            world.order.next_job()
        assert ((CPU, GPU) in world.order.lanes) is kept
        assert (lane_for(gpus=True) is both) is kept
        assert lane_for(gpus=False) is cpu_only
        check(world)


def test_lanes_are_few_and_the_oldest_goes_first() -> None:
    world = World(dict.fromkeys(PLACES, 100))
    jobs = [world.job(world.tree.root, ((j, 1),)) for j in PLACES]
    seen = []
    for mask in range(1, 16):
        for k, leaf in enumerate(jobs):
            world.order.set_candidate(leaf, leaf.ask, bool(mask >> k & 1))
        world.order.next_job()
        seen.append(tuple(j for k, j in enumerate(PLACES) if mask >> k & 1))
        assert list(world.order.lanes) == seen[-LANES:]
