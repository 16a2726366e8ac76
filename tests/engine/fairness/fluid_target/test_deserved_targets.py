"""What queues deserve in the target: served before weights, level by level, never reserved."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given

from tests.support.bounded_trees import BoundedTree, bounded_trees
from tests.support.share_trees import Tree, assert_close, halting_trees

F = Fraction


def flat(*asks: int, capacity: int = 16) -> tuple[Tree, list[int]]:
    """Queues of weight 1 below root, each with a leaf that asks for so much cpu."""
    tree = Tree()
    queues = [tree.node(0, 1) for _ in asks]
    for queue, ask in zip(queues, asks, strict=True):
        tree.add(queue, [F(1, capacity)], ask)
    return tree, queues


def test_twelve_to_four_written_down_is_twelve_to_four() -> None:
    tree, (a, b) = flat(16, 16)
    assert_close(BoundedTree(tree).target(), [8, 8])
    assert_close(BoundedTree(tree, deserved={a: [F(12, 16)], b: [F(4, 16)]}).target(), [12, 4])


def test_unused_deserved_amount_is_lent_to_other_queue() -> None:
    # a wants 3 of its 12: b has its 4 and the other 9.
    tree, (a, b) = flat(3, 16)
    assert_close(BoundedTree(tree, deserved={a: [F(12, 16)], b: [F(4, 16)]}).target(), [3, 13])


def test_weights_share_what_nobody_deserves() -> None:
    # a has its 6; then b and c, which name nothing, rise to 5 each by weight.
    tree, (a, _, _) = flat(16, 16, 16)
    assert_close(BoundedTree(tree, deserved={a: [F(6, 16)]}).target(), [6, 5, 5])


def test_inside_a_queue_what_is_deserved_comes_before_weights_and_out_of_its_own() -> None:
    # p deserves 10, its child x 7 of them, its child y nothing; q deserves 6. x has 7, then y the other 3 of p.
    tree = Tree()
    p, q = tree.node(0, 1), tree.node(0, 1)
    x, y = tree.node(p, 1), tree.node(p, 1)
    for queue in (x, y, q):
        tree.add(queue, [F(1, 16)], 16)
    deserved: dict[int, list[Fraction | None]] = {p: [F(10, 16)], x: [F(7, 16)], q: [F(6, 16)]}
    assert_close(BoundedTree(tree, deserved=deserved).target(), [7, 3, 6])
    # A child that would deserve more than its parent gets no more than the parent deserves.
    assert_close(BoundedTree(tree, deserved=deserved | {x: [F(14, 16)]}).target(), [10, 0, 6])


def test_deserved_counts_below_a_ceiling_of_a_cluster_with_room() -> None:
    # p may have 4 of 16 cpu, its child x deserves 3 of them and its child y 1. Both ask for 4, and nobody else for any.
    tree = Tree()
    p = tree.node(0, 1)
    x, y = tree.node(p, 1), tree.node(p, 1)
    for queue in (x, y):
        tree.add(queue, [F(1, 16)], 4)
    deserved: dict[int, list[Fraction | None]] = {x: [F(3, 16)], y: [F(1, 16)]}
    assert_close(BoundedTree(tree, ceiling={p: [F(4, 16)]}).target(), [2, 2])
    assert_close(BoundedTree(tree, ceiling={p: [F(4, 16)]}, deserved=deserved).target(), [3, 1])


def test_deserved_counts_where_others_reserve_the_rest() -> None:
    # c is guaranteed 12 of 16 cpu and wants nothing: a, which deserves 3, and b, which deserves 1, ask for 8 of 4.
    tree, (a, b, c) = flat(4, 4, 0)
    deserved: dict[int, list[Fraction | None]] = {a: [F(3, 16)], b: [F(1, 16)]}
    assert_close(BoundedTree(tree, guarantee={c: [F(12, 16)]}, deserved=deserved).target(), [3, 1, 0])


def test_a_guarantee_stays_reserved_and_what_is_deserved_does_not() -> None:
    # a is guaranteed 4, deserves 8 and wants nothing; b deserves 8 and has all but the guarantee.
    tree, (a, b) = flat(0, 16)
    bounded = BoundedTree(tree, guarantee={a: [F(4, 16)]}, deserved={a: [F(8, 16)], b: [F(8, 16)]})
    assert_close(bounded.target(), [0, 12])


def test_a_resource_that_is_not_named_comes_along() -> None:
    # a deserves 12 of 16 cpu and names no memory; each task asks for one of both, and there are 16 of both.
    tree = Tree()
    a, b = tree.node(0, 1), tree.node(0, 1)
    for queue in (a, b):
        tree.add(queue, [F(1, 16), F(1, 16)], 16)
    assert_close(BoundedTree(tree, deserved={a: [F(12, 16), None]}).target(), [12, 4])
    # Who deserves no memory is served by weight: half.
    assert_close(BoundedTree(tree, deserved={a: [F(12, 16), F(0)]}).target(), [8, 8])


# --- against the exact fluid --------------------------------------------------------------------------------------


@given(bounded_trees(ceilings=False, guarantees=False, users=False, deserved=True, ranked=True))
def test_deserved_equals_the_exact_fluid(tree: BoundedTree) -> None:
    assert_close(tree.target(), tree.exact())


@given(bounded_trees(deserved=True, ranked=True))
def test_deserved_beside_all_limits_equals_the_exact_fluid(tree: BoundedTree) -> None:
    assert_close(tree.target(), tree.exact())


@given(bounded_trees(deserved=True, of=halting_trees()))
def test_deserved_equals_the_exact_fluid_where_shares_halt(tree: BoundedTree) -> None:
    assert_close(tree.target(), tree.exact())
