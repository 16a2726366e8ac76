"""The node table: vector and scalar scores are the same number, and the best node is the obvious one."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.placement.node_table import FEW, NodeTable
from pumice.engine.plugins.plugin import CapacityWeights, Plugin
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import Constraints, PodTerm
from tests.support.clusters import Cluster

RESOURCES = ("cpu", "memory", "pods", "example.com/x", "example.com/y")
WIDTH = len(RESOURCES)


class Weights(Plugin):
    """Scores by given weights, allows given nodes, prefers some; the latter two also for coupled shapes."""

    def __init__(self, weights: CapacityWeights, allowed: list[bool], static: list[float]) -> None:
        super().__init__({})
        self.weights, self.allowed, self.static = weights, allowed, static

    def node_filter(self, shape: TaskShape, nodes: NodeTable):
        return np.array(self.allowed[: len(nodes.nodes)], np.bool_)

    def node_score(self, shape: TaskShape, nodes: NodeTable):
        return np.array(self.static[: len(nodes.nodes)])

    def room_weights(self, shape: TaskShape):
        return self.weights


weight = st.floats(-1000, 1000) | st.sampled_from([0.0, 50.0, 100.0, -100.0 / 3])
amounts = st.integers(0, 12) | st.integers(0, 2**40)
indices = st.integers(0, WIDTH - 1)
room_weights = st.builds(
    CapacityWeights,
    constant=weight,
    linear=st.dictionaries(indices, weight, max_size=WIDTH),
    uneven=st.floats(0, 1000) | st.sampled_from([0.0, 100.0]),
    even=st.lists(indices, unique=True, max_size=WIDTH).map(lambda found: tuple(sorted(found))),
)
vectors = st.lists(amounts, min_size=WIDTH, max_size=WIDTH)


def cluster_of(weights: CapacityWeights, offers: list[list[int]], allowed: list[bool], static: list[float]) -> Cluster:
    cluster = Cluster(Weights(weights, allowed, static))
    for name in RESOURCES:
        cluster.state.registry.index(name)
    for i, vector in enumerate(offers):
        cluster.node(f"n{i:02}", offers={name: f"{amount}m" for name, amount in zip(RESOURCES, vector, strict=True)})
    return cluster


def asking(cluster: Cluster, name: str, vector: list[int], on: str | None = None) -> Task:
    asks = {r: f"{amount}m" for r, amount in zip(RESOURCES, vector, strict=True) if r != "pods"}
    return cluster.pod(name, on=on, asks={**asks, "pods": 0})


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    count = draw(st.integers(1, 30))
    return cluster_of(
        draw(room_weights),
        draw(st.lists(vectors, min_size=count, max_size=count)),
        draw(st.lists(st.sampled_from([True, True, True, False]), min_size=count, max_size=count)),
        draw(st.lists(weight, min_size=count, max_size=count)),
    )


@given(clusters(), vectors, st.lists(st.tuples(st.integers(0, 29), vectors), max_size=4))
def test_one_node_and_all_nodes_score_the_same_to_the_last_bit(cluster, asks, running):
    table = cluster.table
    for i, (node, vector) in enumerate(running):
        asking(cluster, f"r{i}", vector, on=f"n{node % len(table.nodes):02}")
    view = cluster.table.view(asking(cluster, "p", asks).shape)
    cluster.table.sync_idle()
    together = cluster.table._score(view, slice(None)).tolist()
    alone = [cluster.table._score_one(view, i) for i in range(len(cluster.table.nodes))]
    assert [score.hex() for score in together] == [float(score).hex() for score in alone]


def test_the_order_of_a_sum_is_the_same_for_one_node_and_for_all():
    # Idle parts like 4/7, 2/3, 9/11: the sum of five of them depends on how it is rounded on the way.
    offers = [[(i * prime) % 1009 + 2 for prime in (7, 31, 101, 211, 503)] for i in range(300)]
    offers = [[cpu, 1000 * memory, 1000 * pods, x, y] for cpu, memory, pods, x, y in offers]
    # Nothing else counts, for a larger number would swallow the last bits.
    weights = CapacityWeights(uneven=100.0, even=tuple(range(WIDTH)))
    cluster = cluster_of(weights, offers, [True] * 300, [0.0] * 300)
    table = cluster.table
    view = table.scored(asking(cluster, "p", [1, 1000, 0, 1, 1]).shape)
    assert view.scores.tolist() == [table._score_one(view, i) for i in range(300)]
    assert len(set(view.scores.tolist())) > 250


def obvious_best(cluster: Cluster, task: Task) -> set[str]:
    """The nodes with the highest score, up to rounding; none if it fits nowhere."""
    plugin, need = cluster.plugin, dict(task.shape.items)
    scores = {}
    for i, node in enumerate(cluster.table.nodes):
        if plugin.allowed[i] and all(node.idle[j] >= amount for j, amount in need.items()):
            idle = [
                (node.idle[j] - need.get(j, 0)) / node.allocatable[j] if node.allocatable[j] else 0.0
                for j in range(WIDTH)
            ]
            score = plugin.static[i] + plugin.weights.constant
            score += sum(weight * idle[j] for j, weight in plugin.weights.linear.items())
            even = [idle[j] for j in plugin.weights.even]
            if even:
                mean = sum(even) / len(even)
                score -= plugin.weights.uneven * sqrt(sum((part - mean) ** 2 for part in even) / len(even))
            scores[node.name] = score
    top = max(scores.values(), default=-inf)
    return {name for name, score in scores.items() if score >= top - 1e-9 * max(1.0, abs(top))}


@given(
    clusters(),
    st.lists(vectors, min_size=1, max_size=2),
    st.lists(st.tuples(st.integers(0, 29), st.integers(1, 4), st.booleans()), max_size=3 * FEW),
)
def test_best_is_the_obvious_best_while_tasks_come_and_go(cluster, asks, steps):
    askers = [asking(cluster, f"p{i}", vector) for i, vector in enumerate(asks)]
    running: list[Task] = []

    def check() -> None:
        for asker in askers:
            best = cluster.table.best_node(asker.shape)
            expected = obvious_best(cluster, asker)
            assert (cluster.table.nodes[best].name in expected) if best >= 0 else not expected

    check()
    for i, (node, part, ask) in enumerate(steps):
        machine = cluster.table.nodes[node % len(cluster.table.nodes)]
        if part == 4 and running:
            cluster.gone(running.pop())
        else:
            running.append(asking(cluster, f"r{i}", [max(0, idle) // part for idle in machine.idle], machine.name))
        if ask:  # else several changes are followed at once, one by one or in one pass
            check()
    check()


class Company(Weights):
    """Allows all nodes, and counts how often it was asked about other pods."""

    asked = 0

    def node_filter_now(self, shape: TaskShape, nodes: NodeTable):
        self.asked += 1


def test_plugins_are_asked_about_pods_only_where_a_node_has_room():
    cluster = Cluster(Company(CapacityWeights(linear={0: 1.0}), [True] * 3, [0.0] * 3))
    for i in range(3):
        cluster.node(f"n{i:02}", offers={"cpu": f"{i + 1}", "pods": "9"})
    near = Constraints(affinity=(PodTerm("zone", ()),))
    small, large = (cluster.pod(name, asks={"cpu": name[1:]}, constraints=near) for name in ("p2", "p4"))
    assert small.shape.coupled and large.shape.coupled
    assert cluster.table.best_node(large.shape) == -1
    assert cluster.plugin.asked == 0
    assert cluster.table.best_node(small.shape) == 2
    assert cluster.plugin.asked == 1


def test_ties_go_to_the_name_that_sorts_first():
    cluster = cluster_of(
        CapacityWeights(linear={CPU: 50.0, MEMORY: 50.0}), [[8000, 8000, 9, 0, 0]] * 3, [True] * 3, [0.0] * 3
    )
    pod = asking(cluster, "p", [1000, 1000, 0, 0, 0])
    assert cluster.table.nodes[cluster.table.best_node(pod.shape)].name == "n00"
    asking(cluster, "r", [1000, 0, 0, 0, 0], on="n00")
    assert cluster.table.nodes[cluster.table.best_node(pod.shape)].name == "n01"


def test_nowhere():
    cluster = cluster_of(CapacityWeights(), [[1000, 1000, 9, 0, 0]], [True], [0.0])
    assert cluster.table.best_node(asking(cluster, "big", [2000, 0, 0, 0, 0]).shape) == -1
    assert cluster.table.best_node(asking(cluster, "fits", [1000, 0, 0, 0, 0]).shape) == 0
    empty = cluster_of(CapacityWeights(), [], [], [])
    assert empty.table.best_node(asking(empty, "p", [1, 0, 0, 0, 0]).shape) == -1
