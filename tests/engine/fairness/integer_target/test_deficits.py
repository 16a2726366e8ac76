"""Deficits compared in machine words: the answers are those of exact arithmetic, above all where it is close."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.fairness.integer_target.deficits import TOLERANCE, Deficits
from pumice.engine.fairness.orders.serving_order import GRID_ROUNDER
from pumice.engine.fairness.share_tree.equal_jobs import EXACT
from pumice.engine.fairness.share_tree.share_node import NodeKind, ShareNode

STEP = Fraction(1, 2**30)
amounts = st.integers(1, 100) | st.integers(1, 2**50)
hairs = st.integers(-3, 3) | st.integers(-(2**30), 2**30) | st.integers(-(2**42), 2**42)


def node_of(exact: list[int], whole: list[int]) -> ShareNode:
    root = ShareNode(NodeKind.QUEUE, "root", None, len(exact))
    node = ShareNode(NodeKind.QUEUE, "q", root, len(exact))
    node.entitle(exact)
    node.integer_target = whole
    return node


def deficit(node: ShareNode, j: int) -> Fraction:
    return Fraction(node.exact[j], EXACT) - node.integer_target[j]


@given(amounts, st.integers(0, 2**50), hairs)
def test_a_unit_fits_within_the_tolerance(amount: int, whole: int, hair: int) -> None:
    just = -(-amount * EXACT * (TOLERANCE - 1) // TOLERANCE)  # the least deficit into which it fits
    node, deficits = node_of([whole * EXACT + just + hair], [whole]), Deficits([2**51])
    fits = amount * (1 - Fraction(1, TOLERANCE)) <= deficit(node, 0)
    assert fits == (hair >= 0)
    assert deficits.holds(node, ((0, amount),)) == fits
    assert deficits.lacks(node, 0, amount) != fits


@given(amounts, st.integers(0, 2**50), st.integers(0, 2**51))
def test_a_unit_fits_into_any_deficit_that_is_large_enough(amount: int, whole: int, entitled: int) -> None:
    node = node_of([entitled * EXACT // 3], [whole])
    fits = amount * (1 - Fraction(1, TOLERANCE)) <= deficit(node, 0)
    assert Deficits([2**51]).holds(node, ((0, amount),)) == fits


@given(amounts, st.integers(0, 2**50))
def test_at_the_root_it_fits_into_what_is_left_of_the_cluster(amount: int, whole: int) -> None:
    root = ShareNode(NodeKind.QUEUE, "root", None, 1)
    root.integer_target = [whole]
    for more in (-1, 0, 1):
        deficits = Deficits([whole + amount + more])
        assert deficits.holds(root, ((0, amount),)) == (more >= 0)
        assert deficits.lacks(root, 0, amount) == (more < 0)


@given(st.integers(0, 2**52), st.integers(0, 2**50), hairs)
def test_a_deficit_counts_from_one_step_of_the_grid(offered: int, whole: int, hair: int) -> None:
    deficits = Deficits([offered])
    node = node_of([whole * EXACT + offered * EXACT // 2**30 + hair], [whole])
    assert deficits.misses_some(node, 0) == (hair > 0) == deficits.misses(node, ((0, 1),))


@given(st.lists(st.tuples(st.integers(0, 2**50), st.integers(0, 2**31), hairs), min_size=1, max_size=3))
def test_keys_are_those_of_exact_parts(resources: list[tuple[int, int, int]]) -> None:
    exact, whole, capacity = [], [], []
    for offered, halves, hair in resources:
        # About halfway between two multiples of 2^-30, where the last bit decides.
        part = Fraction(2 * halves + 1, 2) * STEP
        whole.append(offered // 3)
        exact.append(whole[-1] * EXACT + round(part * offered * EXACT) + hair)
        capacity.append(offered)
    node = node_of(exact, whole)
    want = max((e - w * EXACT) / ((n or 1) * EXACT) for e, w, n in zip(exact, whole, capacity, strict=True))
    key = Deficits(capacity).key(node, range(len(capacity)))
    assert key == -((want + GRID_ROUNDER) - GRID_ROUNDER)
    assert key * 2**30 == int(key * 2**30)


def test_a_key_without_resources_comes_last() -> None:
    assert Deficits([1]).key(node_of([0], [0]), ()) == 2.0**20
