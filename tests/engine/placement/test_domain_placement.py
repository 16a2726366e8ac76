"""Gangs with a network topology: always in one domain, in the lowest tier that holds them, never needlessly late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.config.plugin_loader import plugin_factories
from pumice.engine.checkpoint.restore import restore_engine, snapshot_engine
from pumice.engine.decisions import Condition, Evict
from pumice.engine.events import Gone
from pumice.engine.explain.explain import explain
from pumice.engine.explain.pending_reason import PendingReasons
from pumice.model.hyper_nodes import HyperNode, NetworkTopology
from pumice.model.specs import NodeSpec, TaskSpec, TaskStatus
from tests.support.network_clusters import ClusterSettings, NetworkCluster, hyper_node

RACKS = {"r0": ["a0", "a1"], "r1": ["b0", "b1"], "r2": ["c0", "c1"], "r3": ["d0", "d1"]}
BLOCKS = {"k0": ["r0", "r1"], "k1": ["r2", "r3"]}


def two_blocks(cpus: Mapping[str, int] | None = None, **settings: Unpack[ClusterSettings]) -> NetworkCluster:
    """Eight nodes of four cpus in four racks in two blocks in one fabric."""
    cluster = NetworkCluster(**settings)
    cluster.nodes({node: 4 for nodes in RACKS.values() for node in nodes} | dict(cpus or {}))
    cluster.tell(*(hyper_node(rack, 1, nodes) for rack, nodes in RACKS.items()))
    cluster.tell(*(hyper_node(block, 2, (), racks) for block, racks in BLOCKS.items()))
    cluster.tell(hyper_node("fabric", 3, (), BLOCKS))
    cluster.queues(q=1, other=1)
    return cluster


def hard(tier: int) -> NetworkTopology:
    return NetworkTopology(True, tier)


SOFT = NetworkTopology(False)


# ---- hard -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tasks", "inside"), [(2, RACKS["r0"]), (8, RACKS["r0"]), (9, [*RACKS["r0"], *RACKS["r1"]])])
def test_a_gang_goes_to_the_lowest_tier_that_holds_it(tasks, inside):
    cluster = two_blocks()
    cluster.job("j", tasks, hard(2))
    assert set(cluster.bound(cluster.cycle(), "j")) <= set(inside)
    assert len(cluster.held_on("j")) == tasks


def test_among_the_domains_of_a_tier_the_one_with_the_least_room_is_used():
    cluster = two_blocks({"c0": 3, "c1": 2})
    cluster.job("j", 5, hard(1))
    assert set(cluster.bound(cluster.cycle(), "j")) == {"c0", "c1"}


def test_a_gang_that_no_allowed_domain_holds_waits_and_says_so():
    cluster = two_blocks()
    cluster.job("running", 4, None, on=["a0"] * 4)
    cluster.job("more", 4, None, on=["b0"] * 4)
    cluster.job("others", 8, None, on=["c0"] * 4 + ["d0"] * 4)
    cluster.job("j", 5, hard(1))
    decisions = cluster.cycle()
    assert cluster.held_on("j") == []
    (condition,) = (one for one in decisions if isinstance(one, Condition) and one.job == "ns/j")
    assert condition.message == "no HyperNode of tier <= 1 has enough idle capacity for 5 tasks together (cpu 5)"
    cluster.tell(*(cluster.engine.state.tasks[f"ns/others-{i:03}"].spec for i in range(8)))
    for i in range(4):
        cluster.engine.apply(Gone(TaskSpec, f"ns/others-{i:03}"))
    assert set(cluster.bound(cluster.cycle(), "j")) == {"c0", "c1"}


def test_a_gang_larger_than_every_allowed_domain_can_never_start():
    cluster = two_blocks()
    cluster.job("j", 9, hard(1))
    decisions = cluster.cycle()
    (condition,) = (one for one in decisions if isinstance(one, Condition) and one.job == "ns/j")
    assert condition.reason == "ClusterTooSmall"
    assert condition.message == (
        "the job must start 9 tasks together (cpu 9), more than any HyperNode of tier <= 1 could hold if it were empty"
        "; the largest, r0, holds 8"
    )
    assert cluster.engine.tree.jobs["ns/j"].demand.parts == ()  # what can never run earns no entitlement


def test_nodes_outside_of_all_domains_are_not_used():
    cluster = two_blocks({"z": 64})
    cluster.job("j", 16, hard(2))
    assert "z" not in cluster.bound(cluster.cycle(), "j")
    assert len(cluster.held_on("j")) == 16


def test_without_any_hyper_node_a_hard_job_waits_and_a_soft_one_does_not():
    cluster = NetworkCluster()
    cluster.nodes({"a": 4, "b": 4})
    cluster.queues(q=1)
    cluster.job("hard", 2, hard(1))
    cluster.job("soft", 4, SOFT)
    cluster.cycle()
    assert (cluster.held_on("hard"), len(cluster.held_on("soft"))) == ([], 4)


def test_the_highest_tier_may_be_named():
    cluster = two_blocks()
    cluster.tell(HyperNode("k0", 2, "block", hyper_node("k0", 2, (), BLOCKS["k0"]).members))
    cluster.job("j", 12, NetworkTopology(True, None, "block"))
    cluster.job("k", 2, NetworkTopology(True, None, "hall"))
    cluster.cycle()
    assert len(cluster.held_on("j")) == 12
    assert cluster.held_on("k") == []


def test_later_tasks_stay_in_the_domains_of_the_placed_ones():
    cluster = two_blocks()
    cluster.job("j", 14, hard(2), least=6)
    cluster.cycle()
    held = cluster.held_on("j")
    assert set(held[:8]) <= set(RACKS["r0"])  # the rack is filled first
    assert set(held) <= {*RACKS["r0"], *RACKS["r1"]}
    assert len(held) == 14
    cluster.job("other", 1, hard(1), least=1)
    cluster.tell(*(cluster.task("j", number, 1) for number in range(14, 20)))
    cluster.cycle()
    assert len(cluster.held_on("j")) <= 16
    assert set(cluster.held_on("j")) <= {*RACKS["r0"], *RACKS["r1"]}


def test_the_rest_of_a_partial_gang_joins_its_first_tasks():
    cluster = two_blocks({"b0": 64})
    cluster.job("j", 4, hard(1), on=["c0"])
    cluster.cycle()
    assert set(cluster.held_on("j")) <= set(RACKS["r2"])
    assert len(cluster.held_on("j")) == 4


def test_placed_tasks_without_a_common_domain_get_no_more():
    cluster = two_blocks()
    cluster.job("j", 4, hard(1), least=2, on=["a0", "c0"])
    cluster.cycle()
    assert cluster.held_on("j") == ["a0", "c0"]


def test_a_gang_of_tasks_without_requests_stays_together():
    cluster = two_blocks()
    for name in ("a0", "a1"):
        cluster.tell(NodeSpec(name, cluster.registry.vector({"cpu": 4, "pods": 2}, where=name)))
    for name in ("b0", "b1", "c0", "c1", "d0", "d1"):
        cluster.tell(NodeSpec(name, cluster.registry.vector({"cpu": 4, "pods": 1}, where=name)))
    cluster.job("j", 3, hard(1), cpu=0)
    cluster.cycle()
    assert set(cluster.held_on("j")) == set(RACKS["r0"])
    assert len(cluster.held_on("j")) == 3


# ---- soft -------------------------------------------------------------------------------------------------------


def test_a_soft_gang_prefers_one_domain_and_does_not_wait_for_it():
    cluster = two_blocks()
    cluster.job("small", 8, SOFT)
    cluster.job("large", 20, SOFT, created=1)
    cluster.cycle()
    assert set(cluster.held_on("small")) == set(RACKS["r0"])
    assert len(cluster.held_on("large")) == 20


# ---- preemption and reservations ----------------------------------------------------------------------------------


def filled(actions: str, patience: int = -1) -> NetworkCluster:
    cluster = two_blocks(actions=actions, patience=patience)
    everywhere = [node for nodes in RACKS.values() for node in nodes for _ in range(4)]
    cluster.job("elastic", len(everywhere), None, least=1, queue="other", on=everywhere)
    return cluster


def test_victims_for_a_hard_gang_are_in_one_domain():
    cluster = filled("allocate, backfill, reclaim")
    cluster.job("j", 6, hard(1))
    decisions = cluster.cycle()
    victims = [one.node for one in decisions if isinstance(one, Evict)]
    assert len(victims) == 6
    assert {rack for rack, nodes in RACKS.items() if set(nodes) & set(victims)} == {"r0"}
    assert set(cluster.held_on("j")) <= set(RACKS["r0"])


def test_no_task_is_evicted_for_a_gang_that_no_domain_could_hold():
    cluster = filled("allocate, backfill, reclaim")
    cluster.job("j", 9, hard(1))
    assert not [one for one in cluster.cycle() if isinstance(one, Evict)]


def test_capacity_is_reserved_in_one_domain():
    cluster = filled("allocate, backfill", patience=1)
    cluster.job("j", 6, hard(1))
    for _ in range(3):
        cluster.cycle()
    reservations = cluster.engine.context.reservations
    assert reservations is not None
    (hold,) = reservations.active.values()
    names = {cluster.engine.nodes.nodes[index].name for index in hold.needs}
    assert names == set(RACKS["r0"])


# ---- explanations -------------------------------------------------------------------------------------------------


def test_why_names_the_domain_with_the_most_room():
    cluster = two_blocks({"c0": 3})
    cluster.job("big", 21, None, on=["a0"] * 4 + ["a1"] * 3 + ["b0"] * 4 + ["b1"] * 4 + ["c0"] * 2 + ["d0"] * 4)
    cluster.job("j", 8, hard(1))
    cluster.cycle()
    engine = cluster.engine
    (pending,) = [PendingReasons(engine).of(engine.state.jobs["ns/j"])]
    assert pending is not None
    assert pending.message == "No HyperNode of tier <= 1 has room for 8 tasks; the largest, r2, holds 5."
    report = explain(engine, "ns/j", cluster.now)
    assert report is not None
    assert report.verdict.startswith(
        "ns/j waits: no HyperNode of tier <= 1 has room for 8 tasks; the largest, r2, holds 5."
    )


def test_why_says_that_a_gang_is_larger_than_every_domain():
    cluster = two_blocks()
    cluster.job("j", 9, hard(1))
    cluster.cycle()
    report = explain(cluster.engine, "ns/j", cluster.now)
    assert report is not None
    assert report.verdict == (
        "ns/j waits and can never start: no HyperNode of tier <= 1 could hold its 9 tasks if it were empty; the "
        "largest, r0, holds 8"
    )


# ---- changes ------------------------------------------------------------------------------------------------------


def test_hyper_nodes_that_come_later_are_followed():
    cluster = NetworkCluster()
    cluster.nodes({"a": 4, "b": 4})
    cluster.queues(q=1)
    cluster.job("j", 6, hard(1))
    cluster.cycle()
    assert cluster.held_on("j") == []
    cluster.tell(hyper_node("r", 1, ["a", "b"]))
    cluster.cycle()
    assert len(cluster.held_on("j")) == 6
    cluster.engine.apply(Gone(HyperNode, "r"))
    cluster.tell(cluster.task("j", 6, 1))
    cluster.cycle()
    assert len(cluster.held_on("j")) == 6  # the placed tasks have no domain in common any more


def test_a_restored_engine_decides_the_same():
    cluster = two_blocks()
    cluster.job("j", 14, hard(2), least=6)
    cluster.job("k", 5, hard(1))
    cluster.cycle()
    for number in range(3):
        cluster.engine.apply(Gone(TaskSpec, f"ns/j-{number:03}"))
    cluster.tell(*(cluster.task("j", number, 1) for number in range(20, 30)))
    other = restore_engine(
        snapshot_engine(cluster.engine), cluster.config, plugin_factories(cluster.config), cluster.registry
    )
    decisions = cluster.engine.cycle(cluster.now + 1)
    assert decisions
    assert other.cycle(cluster.now + 1) == decisions


# ---- an oracle ------------------------------------------------------------------------------------------------------

Layout = tuple[list[int], list[int], list[int]]
"""Cpus of every node, the rack of every node (-1: none), and the block of every rack (-1: none)."""


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    count = draw(st.integers(1, 12))
    cpus = draw(st.lists(st.integers(0, 6), min_size=count, max_size=count))
    racks = draw(st.lists(st.integers(-1, 4), min_size=count, max_size=count))
    blocks = draw(st.lists(st.integers(-1, 2), min_size=5, max_size=5))
    return cpus, racks, blocks


def domains_of(layout: Layout) -> dict[int, dict[str, set[str]]]:
    """The obvious domains: names of nodes, by tier and name."""
    _, racks, blocks = layout
    found: dict[int, dict[str, set[str]]] = {1: {}, 2: {}}
    for node, rack in enumerate(racks):
        if rack >= 0:
            found[1].setdefault(f"r{rack}", set()).add(f"n{node:02}")
            if blocks[rack] >= 0:
                found[2].setdefault(f"k{blocks[rack]}", set()).add(f"n{node:02}")
    return found


def build(layout: Layout, **settings: Unpack[ClusterSettings]) -> NetworkCluster:
    cpus, racks, blocks = layout
    cluster = NetworkCluster(**settings)
    cluster.nodes({f"n{i:02}": cpu for i, cpu in enumerate(cpus)})
    for rack in sorted({rack for rack in racks if rack >= 0}):
        cluster.tell(hyper_node(f"r{rack}", 1, [f"n{i:02}" for i, one in enumerate(racks) if one == rack]))
    for block in sorted({block for block in blocks if block >= 0}):
        cluster.tell(hyper_node(f"k{block}", 2, (), [f"r{rack}" for rack, one in enumerate(blocks) if one == block]))
    cluster.queues(q=1)
    return cluster


@settings(max_examples=40)
@given(
    layouts(),
    st.lists(st.tuples(st.integers(1, 8), st.integers(1, 3), st.integers(1, 2)), min_size=1, max_size=5),
)
def test_domains_of_gangs_are_those_of_brute_force(layout, gangs):
    cluster = build(layout)
    domains = domains_of(layout)
    free = {f"n{i:02}": cpu for i, cpu in enumerate(layout[0])}
    for number, (tasks, cpu, tier) in enumerate(gangs):
        name = f"j{number}"
        cluster.job(name, tasks, hard(tier), cpu=cpu, created=number)
        cluster.cycle()
        held = cluster.held_on(name)

        def room(nodes: set[str], cpu: int = cpu) -> int:
            return sum(free[node] // cpu for node in nodes)

        holding = [
            (level, room(nodes), domain, nodes)
            for level in range(1, tier + 1)
            for domain, nodes in domains[level].items()
            if room(nodes) >= tasks
        ]
        if not holding:
            assert held == []
            continue
        assert len(held) == tasks
        if tasks > 1:
            assert set(held) <= min(holding, key=lambda found: found[:3])[3]
        for node in held:
            free[node] -= cpu
    for other, (_, _, tier) in enumerate(gangs):  # whatever happened later, nothing crosses its tier
        held = set(cluster.held_on(f"j{other}"))
        assert not held or any(held <= nodes for level in range(1, tier + 1) for nodes in domains[level].values())


# ---- random lives ---------------------------------------------------------------------------------------------------

jobs = st.tuples(
    st.sampled_from(["q", "other"]),
    st.integers(1, 6),
    st.integers(0, 6),  # how many of them start together at least
    st.integers(0, 3),
    st.sampled_from([None, SOFT, hard(1), hard(2), hard(2)]),
)
lives = st.lists(
    st.tuples(st.lists(jobs, max_size=2), st.lists(st.integers(0, 30), max_size=3)), min_size=2, max_size=8
)


@settings(max_examples=40)
@given(layouts(), lives)
def test_nothing_crosses_its_tier_whatever_happens(layout, history):
    cluster = build(layout, actions="allocate, backfill, reclaim, preempt", patience=2)
    cluster.queues(q=1, other=2)
    domains = domains_of(layout)
    wanted: dict[str, int] = {}
    for arrivals, finished in history:
        for queue, tasks, least, cpu, topology in arrivals:
            name = f"j{len(wanted)}"
            wanted[name] = topology.highest_tier if topology is not None and topology.hard else 0
            cluster.job(name, tasks, topology, cpu=cpu, least=max(1, min(least, tasks)), queue=queue)
        cluster.cycle()
        for name, tier in wanted.items():
            held = set(cluster.held_on(name)) if f"ns/{name}" in cluster.engine.state.jobs else set()
            allowed = [nodes for level in range(1, tier + 1) for nodes in domains[level].values()]
            assert not tier or not held or any(held <= nodes for nodes in allowed), (name, tier, held)
        tasks = cluster.engine.state.tasks
        running = sorted(key for key, task in tasks.items() if task.status is TaskStatus.BINDING)
        leaving = [key for key, task in tasks.items() if task.status is TaskStatus.RELEASING]
        for key in (*leaving, *{running[number] for number in finished if number < len(running)}):
            cluster.engine.apply(Gone(TaskSpec, key))
