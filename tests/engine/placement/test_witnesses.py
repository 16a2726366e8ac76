"""Which shapes fit nowhere: the node table knows it at all times, and agrees with a look at every node."""

from __future__ import annotations

import random
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.plugins.plugin import CapacityWeights
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import Items
from tests.engine.placement.test_node_table import asking, cluster_of

NODES = 150  # many more than are kept as spares
CPUS = 8


class Table:
    """A node table that is used as a cycle uses it: the shapes that fit nowhere are reported, or found to fit again."""

    def __init__(self, chance: random.Random) -> None:
        allowed = [chance.random() < 0.9 for _ in range(NODES)]
        offers = [[chance.randint(1, CPUS), 0, 100, chance.randint(1, CPUS), 0] for _ in range(NODES)]
        self.cluster = cluster_of(CapacityWeights(linear={0: 1.0}), offers, allowed, [0.0] * NODES)
        self.table = self.cluster.table
        self.allowed = allowed
        self.asks = {
            pod.shape: pod.shape.items
            for pod in (
                asking(self.cluster, f"ask-{cpu}-{other}", [cpu, 0, 0, other, 0])
                for cpu in range(1, CPUS, 2)
                for other in range(1, CPUS, 3)
            )
        }
        self.reserved: dict[int, list[Items]] = {}
        self.full: dict[TaskShape, None] = {}
        self.reported = 0
        for shape in self.asks:
            if not self.table.fits_somewhere(shape):
                self.full[shape] = None
        self.running: list[tuple[Task, ClusterNode]] = []
        self.grown: dict[int, None] = {}

    def report(self, shape: TaskShape) -> None:
        assert shape not in self.full, "reported twice"
        assert not self.fitting(shape), "it still fits"
        self.full[shape] = None
        self.reported += 1

    def place(self, chance: random.Random, *, keep: bool) -> None:
        """Place a task on any node with enough room; unless it is kept, take it back, as a gang that does not fit."""
        size = [chance.randint(1, 6), 0, 0, chance.randint(1, 6), 0]
        task = asking(self.cluster, f"task-{chance.random()}", size)
        fitting = [i for i, node in enumerate(self.table.nodes) if all(node.idle[j] >= n for j, n in task.shape.items)]
        if not fitting:
            return
        i = chance.choice(fitting)
        node = self.table.nodes[i]
        node.admit(task)
        self.table.mark_changed(i)
        if keep:
            self.table.capacity_lost(i, self.report)
            self.running.append((task, node))
        else:
            asked = chance.random() < 0.5
            if asked:  # somebody wants to know while the attempt stands
                for shape in self.asks.keys() - self.full.keys():
                    if not self.table.fits_somewhere(shape):
                        self.full[shape] = None
            node.release(task)
            self.table.mark_changed(i)
            if asked:
                self.table.gains += 1
                self.grow([i], nowhere_else=False)

    def end(self, chance: random.Random) -> None:
        if self.running:
            task, node = self.running.pop(chance.randrange(len(self.running)))
            node.release(task)
            self.grown[self.table.touch(node)] = None

    def follow_growth(self) -> None:
        self.grow(self.grown, nowhere_else=True)
        self.grown.clear()

    def grow(self, nodes: Iterable[int], *, nowhere_else: bool) -> None:
        for shape in self.table.fitting_on(self.full, nodes, nowhere_else=nowhere_else):
            del self.full[shape]

    def lend(self, chance: random.Random) -> None:
        """Reserve room on some nodes, place around it, and lift that again."""
        self.reserved = {i: [((0, chance.randint(1, 4)),)] for i in chance.sample(range(NODES), 20)}
        self.table.reserve(self.reserved, self.report)
        self.check()
        for _ in range(chance.randint(0, 20)):
            if chance.random() < 0.2:
                self.end(chance)
            self.place(chance, keep=True)
            self.check()
        self.table.unreserve()
        self.grow(self.reserved, nowhere_else=False)
        self.reserved = {}

    def check(self) -> None:
        for shape, items in self.asks.items():
            fitting = self.fitting(shape)
            if shape in self.full:  # until growth is followed, what has grown may have room for it
                assert fitting <= self.grown.keys(), items
            else:
                assert fitting, items
                assert self.table.fits_somewhere(shape), items

    def fitting(self, shape: TaskShape) -> set[int]:
        return {i for i in range(NODES) if self._fits(i, self.asks[shape])}

    def _fits(self, i: int, items: Items) -> bool:
        idle, asks = self.table.nodes[i].idle, dict(items)
        keeps = all(idle[j] - asks.get(j, 0) >= n for needs in self.reserved.get(i, ()) for j, n in needs if j in asks)
        return self.allowed[i] and keeps and all(idle[j] >= n for j, n in items)


@given(st.integers(0, 2**32))
def test_shapes_that_fit_nowhere_are_known_while_tasks_come_and_go(seed: int) -> None:
    chance = random.Random(seed)
    world = Table(chance)
    world.check()
    for _ in range(4):  # cycles
        for _ in range(chance.randint(0, 60)):
            world.end(chance)
        world.follow_growth()
        world.check()
        kept = chance.choice([0.8, 1.0])
        for _ in range(chance.choice([NODES // 3, 4 * NODES])):
            world.place(chance, keep=chance.random() < kept)
        world.check()
        if chance.random() < 0.5:
            world.lend(chance)
            for _ in range(NODES):
                world.place(chance, keep=True)
            world.check()


def test_filling_and_emptying_reports_shapes() -> None:
    """That the random histories above meet full clusters and clusters with room."""
    chance = random.Random(1)
    world = Table(chance)
    at_first = len(world.full)
    for _ in range(400):
        world.place(chance, keep=True)
    assert world.reported > 2
    full = len(world.full)
    assert full > at_first
    while world.running:
        world.end(chance)
    world.follow_growth()
    assert len(world.full) == at_first
    world.check()
