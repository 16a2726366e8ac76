"""The node table's loops in C compute what those in Python compute: the same scores, nodes, witnesses and spares."""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from pumice.engine.placement import native_table
from pumice.engine.placement.node_table import NodeTable, ShapeView
from pumice.engine.plugins.plugin import CapacityWeights
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import TaskShape
from tests.engine.placement.test_node_table import WIDTH, asking, cluster_of
from tests.support.compiled_kernels import load_kernel
from tools import compile_kernel, compile_shim

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(compile_shim.missing_compiler() is not None, reason="no C compiler"),
]

NODES = 150  # several blocks of nodes, and more than are kept as spares


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The module in C, made from the sources of the checkout; no table uses it but those below."""
    module = load_kernel(compile_kernel.NODES, tmp_path_factory.mktemp("kernel"))
    before = native_table.native
    yield module
    native_table.native = before


class Both:
    """The same nodes in a table with loops in Python and in one with loops in C; whatever happens, happens to both."""

    def __init__(self, kernel: ModuleType, weights: CapacityWeights, static: list[float], seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.count = chance.choice((1, 5, 20, NODES))
        kinds = ((2, 3), (4, 8), (100,), (0, 4, 2**40), (3, 4))
        offers = [[chance.choice(kind) for kind in kinds] for _ in range(self.count)]
        allowed = [chance.random() < 0.9 for _ in range(self.count)]
        scores = [chance.choice(static) for _ in range(self.count)]
        self.cluster = cluster_of(weights, offers, allowed, scores)
        self.python, self.native = self._table(None), self._table(kernel)
        sizes = [[chance.choice((0, 1, 2, 3)), chance.choice((0, 2, 4)), 0, 0, chance.choice((0, 2))] for _ in range(6)]
        self.shapes = [asking(self.cluster, f"ask-{i}", size).shape for i, size in enumerate(sizes)]
        self.running: list[Task] = []
        self.number = 0

    def _table(self, kernel: ModuleType | None) -> NodeTable:
        native_table.native = kernel
        table = NodeTable([self.cluster.plugin], [self.cluster.plugin])
        table.rebuild(self.cluster.state.nodes.values(), WIDTH)
        return table

    @property
    def tables(self) -> tuple[NodeTable, NodeTable]:
        return self.python, self.native

    def place(self) -> None:
        """Place a task on some node, whether it has room or not, as a late write of another scheduler does."""
        i = self.chance.randrange(self.count)
        size = [self.chance.randint(0, 2) for _ in range(WIDTH)]
        self.number += 1
        task = asking(self.cluster, f"task-{self.number}", size)
        node = self.cluster.state.nodes[f"n{i:02}"]
        node.admit(task)
        task.node = node
        self.running.append(task)
        index = self.python.index[node.name]
        told: list[list[TaskShape]] = [[], []]
        for table, full in zip(self.tables, told, strict=True):
            table.mark_changed(index)
            table.capacity_lost(index, full.append)
        assert told[0] == told[1]

    def end(self) -> None:
        """End some tasks; sometimes ask which shapes fit there."""
        grown: dict[int, None] = {}
        asked = [shape for shape in self.shapes if not self.fits(shape)] if self.chance.random() < 0.7 else []
        for _ in range(min(len(self.running), self.chance.randint(1, 12))):
            task = self.running.pop(self.chance.randrange(len(self.running)))
            assert task.node is not None
            task.node.release(task)
            for table in self.tables:
                grown[table.touch(task.node)] = None
        nowhere_else = self.chance.random() < 0.5
        named = [i for i in grown if nowhere_else or self.chance.random() < 0.5]
        found = [table.fitting_on(asked, named, nowhere_else=nowhere_else) for table in self.tables]
        assert found[0] == found[1]

    def fits(self, shape: TaskShape) -> bool:
        answers = [table.fits_somewhere(shape) for table in self.tables]
        assert answers[0] is answers[1]
        return answers[0]

    def reserve(self) -> None:
        """Start to lend, or stop it."""
        room = {i: [((0, 2),)] for i in range(self.count) if self.chance.random() < 0.1}
        told: list[list[TaskShape]] = [[], []]
        for table, full in zip(self.tables, told, strict=True):
            if table.reserved:
                table.unreserve()
            else:
                table.reserve(room, full.append)
        assert told[0] == told[1]

    def stay_within(self) -> None:
        """Keep to some nodes, or no longer."""
        members = np.flatnonzero([self.chance.random() < 0.3 for _ in range(self.count)])
        for table in self.tables:
            table.keep_within(members if table.within is None else None)

    def compact(self) -> None:
        """Fill the journals so far that they are dropped."""
        for table in self.tables:
            for _ in range(4 * self.count + 1001 if self.chance.random() < 0.5 else 1):
                table.mark_changed(self.chance.randrange(self.count))
            table.compact()

    def compare(self) -> None:
        """Ask both for everything, in random order; not always, so that they lag behind sometimes."""
        for shape in self.chance.sample(self.shapes, self.chance.randint(0, len(self.shapes))):
            if self.chance.random() < 0.5:
                self.fits(shape)
            best = [table.best_node(shape) for table in self.tables]
            assert best[0] == best[1]
            python, native = (table.scored(shape) for table in self.tables)
            assert [one.hex() for one in python.scores.tolist()] == [one.hex() for one in native.scores.tolist()]
            assert _search_of(python) == _search_of(native)
        for table in self.tables:
            table.sync_idle()
        assert np.array_equal(self.python.idle, self.native.idle)


def _search_of(view: ShapeView) -> tuple[int, list[int], int]:
    return view.native.search() if view.native is not None else (view.witness, view.spares, view.complete_at)


def _weights(chance: random.Random) -> CapacityWeights:
    """How scores depend on idle capacity: by several resources, and by the deviation of none to all of them."""
    linear = {j: chance.uniform(-100, 100) for j in range(WIDTH) if chance.random() < 0.5}
    even = tuple(j for j in range(WIDTH) if chance.random() < 0.5)
    return CapacityWeights(chance.uniform(0, 10), linear, chance.choice((0.0, 1.0, 99.9)), even)


@pytest.mark.parametrize("seed", range(40))
def test_both_forms_compute_the_same(kernel, seed):
    chance = random.Random(seed)
    static = [chance.uniform(-100, 100) for _ in range(chance.choice((1, 3)))]
    both = Both(kernel, _weights(chance), static, seed)
    assert both.native._native is not None and both.python._native is None
    steps = [both.place] * 8 + [both.end] * 4 + [both.compare] * 4 + [both.reserve, both.stay_within, both.compact]
    for _ in range(both.count):  # nearly full from the beginning: then shapes run out of nodes again and again
        both.place()
    for _ in range(200):
        chance.choice(steps)()
    both.compare()


def test_many_resources_are_left_to_python(kernel, monkeypatch):
    monkeypatch.setattr(native_table, "native", kernel)
    idle, offered = np.zeros((kernel.MOST_RESOURCES + 1, 2), np.int64), np.ones((kernel.MOST_RESOURCES + 1, 2))
    rooms = [[0] * (kernel.MOST_RESOURCES + 1)] * 2
    assert native_table.native_table(rooms, idle, offered) is None
    assert native_table.native_table(rooms, idle[:-1].copy(), offered[:-1].copy()) is not None


def test_arguments_that_do_not_fit_are_refused(kernel):
    idle, offered = np.zeros((2, 3), np.int64), np.ones((2, 3))
    rooms = [[0, 0] for _ in range(3)]
    for wrong in ((rooms, 3, idle, offered), (rooms, 2, offered, offered), (rooms, 2, idle[:, ::2], offered)):
        with pytest.raises((ValueError, BufferError)):
            kernel.Table(*wrong)
    table = kernel.Table(rooms, 2, idle, offered)
    mask, fixed, scores = np.ones(3, np.bool_), np.zeros(3), np.zeros(3)
    for wrong in (
        (mask, fixed, scores, [(2, 1)], [], [], []),  # no such resource
        (mask, fixed, scores, [], [], [(0, 1, 1.0)], []),  # a weight of a part that is not listed
        (mask, fixed, scores, [], [], [], [(0, 1)]),
        (mask[:2], fixed, scores, [], [], [], []),
        (mask, mask, scores, [], [], [], []),
        (mask, fixed, scores, [(0, 1)] * 3, [], [], []),
    ):
        with pytest.raises(ValueError, match=r"(array|resources|resource is|part that)"):
            kernel.View(table, "shape", 0, *wrong, 0.0)
    with pytest.raises(TypeError):
        kernel.View(rooms, "shape", 0, mask, fixed, scores, [], [], [], [], 0.0)
    view = kernel.View(table, "shape", 0, mask, fixed, scores, [], [], [], [], 0.0)
    other = kernel.Table(rooms, 2, idle, offered)
    for wrong in (([rooms], [0]), ([view, None], [0]), (view, [0])):
        with pytest.raises(TypeError):
            table.grow(*wrong, True, 0, 0)
    with pytest.raises(TypeError):
        other.grow([view], [0], True, 0, 0)
    for room in ({0: ()}, {3: []}, {0: [((2, 1),)]}):
        with pytest.raises(ValueError, match=r"(reserved are|resource is)"):
            table.reserve(room)
    for node in (-1, 3):
        with pytest.raises(IndexError):
            table.note(node)
        with pytest.raises(IndexError):
            table.lose(node, 0, 0)
        with pytest.raises(IndexError):
            table.grow([view], [node], True, 0, 0)
    rooms[1].pop()
    table.note(1)
    with pytest.raises(ValueError, match="fewer amounts"):
        table.sync()
