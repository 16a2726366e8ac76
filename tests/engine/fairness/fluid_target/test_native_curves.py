"""The arithmetic on curves in C computes what NumPy computes, to the last bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pumice.engine.fairness.fluid_target import native_curves
from pumice.engine.fairness.fluid_target.flat_tree import JobNodes
from pumice.engine.fairness.fluid_target.polyline import CurvePoint, FloatArray, add_up, leaf_curves, locate
from pumice.engine.fairness.fluid_target.solver import solve_targets
from tests.support.bounded_trees import BoundedTree, bounded_trees
from tests.support.compiled_kernels import load_kernel
from tests.support.share_trees import Tree, halting_trees, trees, wide_tree
from tools import compile_kernel, compile_shim

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(compile_shim.missing_compiler() is not None, reason="no C compiler"),
]
one_kernel_for_all = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The module in C, made from the sources of the checkout."""
    module = load_kernel(compile_kernel.CURVES, tmp_path_factory.mktemp("kernel"))
    before = native_curves.native
    yield module
    native_curves.native = before


Both = Callable[[Callable[[], object]], tuple[object, object]]


@pytest.fixture
def both(kernel: ModuleType) -> Both:
    """Compute something in both forms: NumPy first, then C."""

    def compute(work: Callable[[], object]) -> tuple[object, object]:
        native_curves.native = None
        reference = work()
        native_curves.native = kernel
        return reference, work()

    return compute


def assert_equal(results: tuple[object, object]) -> None:
    """Equal to the last bit, in whatever the arrays lie."""
    reference, native = (list(flat(result)) for result in results)
    assert len(reference) == len(native)
    for a, b in zip(reference, native, strict=True):
        assert np.array_equal(a, b)


def flat(result: object) -> Iterator[object]:
    """The arrays and numbers in nested tuples and objects with slots."""
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from flat(part)
    elif hasattr(result, "__slots__"):
        for name in result.__slots__:
            yield from flat(getattr(result, name))
    else:
        yield result


# --- whole targets ----------------------------------------------------------------------------------------------


@one_kernel_for_all
@given(st.one_of(trees(), trees(ranked=True, unlike=True), halting_trees()))
def test_targets_are_equal(both: Both, tree: Tree) -> None:
    assert_equal(both(tree.target))


@one_kernel_for_all
@given(bounded_trees())
def test_targets_within_limits_are_equal(both: Both, bounded: BoundedTree) -> None:
    assert_equal(both(bounded.target))


@pytest.mark.parametrize("servers", [30, 500])
def test_targets_of_wide_trees_are_equal(both: Both, servers: int) -> None:
    for seed in range(3):
        assert_equal(both(wide_tree(seed, servers).target))


def uneven_tree(seed: int) -> Callable[[], FloatArray]:
    """A solve with numbers that are nowhere round: queues of jobs, of unlike tasks too, in classes."""
    chance = np.random.default_rng(seed)
    inner = int(chance.integers(1, 40))
    parent = [-1, *(int(chance.integers(0, k)) for k in range(1, inner))]
    weight = [1.0, *chance.uniform(0.2, 5, inner - 1)]
    leaves = int(chance.integers(1, 400))
    holders = [int(chance.integers(0, inner)) for _ in range(leaves)]
    job_node, job_rank, leaf, rank, direction, demand = [], [], [], [], [], []
    shapes = chance.uniform(0.0001, 0.02, (12, 3)) * (chance.random((12, 3)) < 0.8)
    jobs = [holder for holder in holders if chance.random() < 0.2]
    for holder in jobs:
        parent.append(holder)
        weight.append(float(chance.integers(1, 4)))
        job_node.append(len(parent) - 1)
        job_rank.append(int(chance.integers(0, 2)))
    for k, above in enumerate([*holders, *(job for job in job_node for _ in range(3))]):
        parent.append(above)
        weight.append(float(chance.integers(1, 4)))
        leaf.append(len(parent) - 1)
        rank.append(k % 3 if k >= leaves else int(chance.integers(0, 2)))
        direction.append(shapes[chance.integers(0, len(shapes))])
        demand.append(float(chance.integers(0, 30)))
    arrays = np.array(parent), np.array(weight), np.array(leaf), np.array(direction), np.array(demand)
    nodes = JobNodes(np.array(job_node, dtype=np.int64), np.array(job_rank, dtype=np.int64))
    return lambda: solve_targets(*arrays, np.array(rank), None, nodes)


def test_targets_of_uneven_trees_are_equal(both: Both) -> None:
    for seed in range(60):
        assert_equal(both(uneven_tree(seed)))


# --- function by function -----------------------------------------------------------------------------------------


def test_curves_of_leaves_are_equal_also_where_many_reach_one_level(both: Both) -> None:
    for seed in range(40):
        chance = random.Random(seed)
        count = chance.randint(1, 300)
        of = np.array(sorted(chance.choices((1, 2, 5, 9), k=count)))
        weight, held = (np.array([chance.choice((0.3, 1.0, 1.7)) for _ in of]) for _ in range(2))
        held *= [chance.choice((0, 0, 0.1, 1 / 3)) for _ in of]
        most = held + [chance.choice((0.1, 0.7, 1 / 7)) for _ in of]
        rows = np.array([[chance.choice((0.0, 1 / 3, 1.0)), chance.random(), 1.0] for _ in of])
        assert_equal(both(lambda inputs=(of, weight, held, most, rows): leaf_curves(*inputs)))


def test_sums_of_curves_are_equal_also_where_they_halt(both: Both) -> None:
    for seed in range(60):
        chance = random.Random(seed)
        curve, group, level, rows = [], [], [], []
        for number in range(chance.randint(1, 40)):
            at, given = chance.choice((0.0, 0.25)), 0.0
            for _ in range(chance.randint(1, 30)):
                curve.append(number)
                group.append(number // 7)
                level.append(at * (1 + chance.choice((0, 1e-16))))
                rows.append([given / 3, given])
                at += chance.choice((0.0, 0.1, 1 / 3))
                given += chance.choice((0.0, 0.2, 1 / 7))
        arrays = np.array(curve), np.array(group), np.array(level), np.array(rows)
        assert_equal(both(lambda arrays=arrays: add_up(*arrays)))


def test_a_sliver_that_rounding_lets_fall_is_the_one_before(both: Both) -> None:
    # One curve halts at 0.5; its third point has a hair less than its second.
    level = np.array([0.0, 0.5, 0.5, 0.5, 1.0, 0.0, 0.5, 0.5, 1.0])
    given_ = np.array([0.0, 0.1, 0.3, 0.3 - 1e-16, 0.6, 0.0, 0.2, 0.25, 0.5])
    curve, rows = np.repeat([0, 1], [5, 4]), np.stack([given_, given_], axis=1)
    results = both(lambda: add_up(curve, np.zeros(9, dtype=np.int64), level, rows))
    assert_equal(results)
    _, at = results[0]  # type: ignore[misc]  # add_up returns a pair, which `both` knows as an object
    assert at.sliver[3] == at.sliver[2]


def test_positions_are_equal(both: Both) -> None:
    chance = random.Random(5)
    for _ in range(40):
        lengths = [chance.randint(1, 9) for _ in range(chance.randint(1, 20))]
        start = np.cumsum([0, *lengths[:-1]])
        level = np.concatenate([np.sort([chance.choice((0.0, 0.5, 1.0)) for _ in range(n)]) for n in lengths])
        sliver = np.array([chance.choice((0.0, 0.1, 0.2)) for _ in level])
        asked = CurvePoint(
            np.array([chance.choice((-1.0, 0.0, 0.3, 0.5, np.inf)) for _ in lengths]),
            np.array([chance.choice((0.0, 0.15)) for _ in lengths]),
        )
        points = CurvePoint(level, sliver)
        assert_equal(both(lambda asked=asked, start=start, points=points: locate(asked, start, points)))


# --- what is not taken --------------------------------------------------------------------------------------------


def test_wrong_arrays_are_refused(kernel: ModuleType) -> None:
    whole, part, rows = np.zeros(3, dtype=np.int64), np.zeros(3), np.ones((3, 2))
    with pytest.raises(TypeError, match="more arrays"):
        kernel.add_up(whole, whole, part)
    with pytest.raises(TypeError, match="fewer arrays"):
        kernel.add_up(whole, whole, part, rows, rows)
    with pytest.raises(ValueError, match="another type"):
        kernel.add_up(part, whole, part, rows)
    with pytest.raises(ValueError, match="another type"):
        kernel.add_up(whole.astype(np.int32), whole, part, rows)
    with pytest.raises(ValueError, match="another length"):
        kernel.add_up(whole, whole, part[:2], rows)
    with pytest.raises(ValueError, match="contiguous"):
        kernel.add_up(whole, whole, part, np.ones((2, 3)).T)
    with pytest.raises(ValueError, match="has no points"):
        kernel.locate(np.array([0, 3]), np.zeros(2), np.zeros(2), part, part)
    with pytest.raises(IndexError):
        kernel.shares(np.array([0, 7, 0]), rows, np.ones((1, 2)), np.array([False]), np.ones(1), np.ones(2, dtype=bool))
    node = np.array([7])
    with pytest.raises(IndexError):
        kernel.descend(whole, part, part, whole, whole, node, node, *[np.zeros(1)] * 4)
    with pytest.raises(ValueError, match="no classes"):
        kernel.paths_within(whole, part, part, rows, np.ones(2), np.array([0]))


def test_nothing_is_taken_from_an_empty_tree(kernel: ModuleType) -> None:
    none, no_rows = np.zeros(0), np.zeros((0, 2))
    empty = np.zeros(0, dtype=np.int64)
    assert kernel.add_up(empty, empty, none, no_rows) == (bytearray(),) * 6
    assert kernel.leaf_curves(empty, none, none, none, no_rows) == (bytearray(),) * 3
