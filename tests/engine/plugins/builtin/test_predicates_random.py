"""The filters against the slow and obvious reference, on random small clusters that keep changing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.label_selector import Requirement
from pumice.engine.plugins.builtin.predicates import PredicatesPlugin
from pumice.engine.plugins.builtin.predicates import placed_pods as census_module
from pumice.engine.state.task import Task
from pumice.model.specs import (
    FREE,
    Attachment,
    Constraints,
    NodeSpec,
    NodeTerm,
    PodTerm,
    Spread,
    Taint,
    TaskSpec,
    TaskStatus,
    Toleration,
    VolumeDemand,
    VolumeNodes,
)
from tests.oracles.kube_filters import may_run
from tests.support.clusters import Cluster
from tests.support.examples import fewer_examples

Anything = st.SearchStrategy[Any]
NODES = 5


def tuples(items: Anything, least: int, most: int) -> Anything:
    return st.lists(items, min_size=least, max_size=most, unique=True).map(tuple)


def labels(**choices: list[str | None]) -> Anything:
    """Some of these labels; None stands for one that is missing."""
    drawn = st.fixed_dictionaries({key: st.sampled_from(values) for key, values in choices.items()})
    return drawn.map(lambda found: {key: value for key, value in found.items() if value is not None})


def requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    count = {"Exists": 0, "DoesNotExist": 0, "Gt": 1, "Lt": 1}.get(operator, len(values))
    return Requirement(key, operator, values[:count])


# Few values and many of each, so that the constraints bite.
node_labels = labels(
    zone=["1", "1", "2", "2", "3", None],
    rack=["1", "2", "3", "4", "4", None],
    disk=["1", "2", "2", None],
)
pod_labels = labels(app=["1", "1", "1", "2", None], tier=["1", "2", None], other=["1", "2"])
topology_keys = st.sampled_from(["zone", "zone", "rack", "disk"])
selectors = st.one_of(
    st.just((Requirement("app", "In", ("1",)),)),
    st.just((Requirement("app", "In", ("1",)),)),
    tuples(
        st.builds(
            requirement,
            st.sampled_from(["app", "tier"]),
            st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]),
            st.sampled_from([("1",), ("2",), ("1", "2")]),
        ),
        0,
        2,
    ),
    st.none(),
)
namespaces = st.sampled_from(["one", "one", "two"])
pod_terms = st.builds(PodTerm, topology_keys, selectors, st.sampled_from([None, ("one",), ("one", "two"), ("two",)]))
spread_constraints = st.builds(
    Spread,
    topology_keys,
    st.sampled_from([1, 1, 2]),
    selectors,
    hard=st.sampled_from([True, True, True, False]),
    min_domains=st.sampled_from([1, 1, 2, 3, 4]),
    honor_affinity=st.booleans(),
    honor_taints=st.booleans(),
)
ports = st.tuples(
    st.sampled_from(["TCP", "TCP", "UDP"]),
    st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.1", "10.0.0.2"]),
    st.sampled_from([80, 80, 443]),
)
node_terms = st.builds(
    NodeTerm,
    tuples(
        st.builds(
            requirement,
            st.sampled_from(["zone", "disk"]),
            st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
            st.sampled_from([("1",), ("2",), ("1", "2")]),
        ),
        0,
        2,
    ),
    tuples(st.sampled_from([Requirement("metadata.name", op, ("n0", "n2")) for op in ("In", "NotIn")]), 0, 1),
)
taints = st.builds(
    Taint,
    st.sampled_from(["gpu", "gpu", "old"]),
    st.sampled_from(["", "1"]),
    st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
)
taint_sets = st.just(()) | tuples(taints, 1, 2)
tolerations = st.one_of(
    st.builds(
        Toleration,
        st.sampled_from(["gpu", "old"]),
        st.just("Equal"),
        st.sampled_from(["", "1"]),
        st.sampled_from(["", "NoSchedule", "NoExecute"]),
    ),
    st.builds(Toleration, st.sampled_from(["", "gpu"]), st.just("Exists")),
)
on_nodes = {
    "node_selector": st.sampled_from([(), (), (), (("disk", "2"),)]),
    "node_required": st.none() | tuples(node_terms, 0, 2),
    "tolerations": tuples(tolerations, 0, 2),
}

shared_volumes = tuples(st.sampled_from(["v1", "v2", "v3"]), 0, 2)
attachments = st.builds(Attachment, st.just("disk"), st.sampled_from([0, 1, 1, 2]), shared_volumes) | st.builds(
    Attachment, st.just("share"), st.sampled_from([0, 1]), shared_volumes
)
volume_demands = st.builds(
    VolumeDemand,
    waits_for=st.sampled_from(["", "", "", "", "", "a claim is missing"]),
    nodes=tuples(st.builds(VolumeNodes, tuples(node_terms, 0, 2), st.just("elsewhere")), 0, 1),
    attached=st.lists(attachments, max_size=2, unique_by=lambda each: each.driver).map(tuple),
    exclusive=st.sampled_from([(), (), (), ("only",)]),
)
VOLUME_LIMITS = {"n0": (("disk", 2),), "n1": (("disk", 1), ("share", 1)), "n2": (("share", 2),), "n3": (("disk", 0),)}

FAMILIES: dict[str, Anything] = {
    "nodes": st.builds(Constraints, **on_nodes),
    "ports": st.builds(Constraints, ports=tuples(ports, 1, 2)),
    "affinity": st.builds(Constraints, affinity=tuples(pod_terms, 1, 2)),
    "anti-affinity": st.builds(Constraints, anti_affinity=tuples(pod_terms, 1, 2)),
    "volumes": st.builds(Constraints, volumes=volume_demands),
    "spread": st.builds(Constraints, spread=tuples(spread_constraints, 1, 2), **on_nodes),
}
FAMILIES["mixed"] = st.one_of(*FAMILIES.values())


@dataclass
class World:
    """A cluster under test, and beside it all that the reference needs."""

    cluster: Cluster = field(default_factory=lambda: Cluster(PredicatesPlugin({})))
    nodes: dict[str, NodeSpec] = field(default_factory=dict)
    pods: list[Task] = field(default_factory=list)

    def describe(self, name: str, labels: dict[str, str], its_taints: tuple[Taint, ...]) -> None:
        self.cluster.node(name, labels, taints=its_taints, volume_limits=VOLUME_LIMITS.get(name, ()))
        spec = self.cluster.state.nodes[name].spec
        assert spec is not None
        self.nodes[name] = spec

    def put(self, i: int, where: str | None, *, deleted: bool = False) -> None:
        """Describe a pod again: on a node, there but being deleted, or pending."""
        spec = self.pods[i].spec
        self.pods[i] = self.cluster.pod(
            spec.name,
            spec.labels,
            on=where,
            constraints=spec.constraints,
            namespace=spec.namespace,
            status=TaskStatus.RELEASING if deleted else None,
        )

    def expected(self, task: Task) -> set[str]:
        nodes = list(self.nodes.values())
        placed: list[tuple[TaskSpec, str, bool]] = [
            (pod.spec, pod.node.name, pod.status is TaskStatus.RELEASING)
            for pod in self.pods
            if pod.node is not None and pod.status.on_node
        ]
        return {node.name for node in nodes if all(may_run(task.spec, node, nodes, placed).values())}

    def check(self) -> None:
        for task in self.pods:
            if task.status is TaskStatus.PENDING:
                assert self.cluster.allowed(task) == self.expected(task), task.spec
        self.cluster.plugin._census.validate()


@st.composite
def worlds(draw: st.DrawFn, constraints: Anything) -> World:
    world = World()
    for i in range(draw(st.integers(2, NODES))):
        world.describe(f"n{i}", draw(node_labels), draw(taint_sets))
    for i in range(draw(st.integers(4, 9))):
        world.pods.append(
            world.cluster.pod(
                f"p{i}",
                draw(pod_labels),
                constraints=draw(st.one_of(st.just(FREE), constraints, constraints)),
                namespace=draw(namespaces),
            )
        )
    return world


# A node that is never described may have pods, too.
moves = st.lists(
    st.tuples(st.sampled_from(["put", "put", "put", "delete", "take"]), st.integers(0, 8), st.integers(0, NODES)),
    min_size=2,
    max_size=8,
)


def move(world: World, moves: list[tuple[str, int, int]]) -> None:
    for what, pod, node in moves:
        where = None if what == "take" else f"n{node}"
        world.put(pod % len(world.pods), where, deleted=what == "delete")


@pytest.mark.parametrize("family", FAMILIES)
@fewer_examples(2)
@given(st.data())
def test_filters_agree_with_the_reference(family, data):
    world = data.draw(worlds(FAMILIES[family]))
    move(world, data.draw(moves))
    world.check()
    move(world, data.draw(moves))
    world.check()
    world.describe("n0", data.draw(node_labels), data.draw(taint_sets))
    world.check()


@given(worlds(FAMILIES["mixed"]), moves, moves)
def test_filters_agree_however_few_counters_are_kept(world, first, second):
    most, census_module.MOST_COUNTERS = census_module.MOST_COUNTERS, 1
    try:
        move(world, first)
        world.check()
        move(world, second)
        world.check()
    finally:
        census_module.MOST_COUNTERS = most


def snapshot(world: World) -> tuple[dict, dict, dict, dict]:
    """All groups and counters, by value."""
    census = world.cluster.plugin._census
    groups = {key: {n.name: count for n, count in pods.where.items()} for key, pods in census._groups.items()}
    counters = {key: (c.counts.tolist(), c.total) for key, c in census._counters.items()}
    terms = {pair: set(terms) for pair, terms in census._terms_with.items()}
    handles = {handle: len(pods) for handle, pods in census._groups_with.items()}
    return groups, counters, terms, handles


@given(
    worlds(FAMILIES["mixed"]),
    moves,
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, NODES), st.booleans()), min_size=2, max_size=8),
)
def test_what_is_placed_and_removed_leaves_no_trace(world, first, tried):
    plugin, cluster = world.cluster.plugin, world.cluster
    move(world, first)
    for task in world.pods:  # from here on every question but those about carried terms is known
        cluster.allowed(task)
    before = snapshot(world)
    waiting = {i: task for i, task in enumerate(world.pods) if task.status is TaskStatus.PENDING}
    done = []
    for pod, node, ask in tried:
        machine = cluster.state.nodes.get(f"n{node}")
        if pod in waiting and machine is not None:
            task = waiting.pop(pod)
            plugin.placed(task, machine)
            done.append((task, machine))
            if ask:  # otherwise it may be gone before anybody looked
                for anybody in world.pods:
                    cluster.allowed(anybody)
                plugin._census.validate()
    for task, machine in reversed(done):
        plugin.removed(task, machine)
    world.check()
    groups, counters, terms, handles = snapshot(world)
    assert (groups, terms, handles) == (before[0], before[2], before[3])
    assert {key: counters[key] for key in before[1]} == before[1]
    assert not any(total for key, (_, total) in counters.items() if key not in before[1])
