"""Limits as they are collected from the tree: complete, as wide as capacity, and guarantees that can all be kept."""

from __future__ import annotations

from hypothesis import given

from pumice.engine.fairness.fluid_target.solver_bounds import SolverBounds, bounds_of
from pumice.engine.fairness.share_tree.share_node import NodeKind
from tests.support.bounded_groves import above_limits, bounded_groves
from tests.support.groves import WIDTH, Grove


def collected(grove: Grove) -> SolverBounds | None:
    inner = [node for node in grove.tree.root.walk() if node.kind is not NodeKind.JOB]
    grove.tree.bounds = bounds_of(inner, grove.capacity)
    return grove.tree.bounds


def cpu(grove: Grove) -> list[int]:
    """The cpu that every queue is guaranteed, as far as possible."""
    bounds = collected(grove)
    assert bounds is not None
    return [bounds.guarantees[node][0] for node in grove.groups if node in bounds.guarantees]


def test_collected_bounds_are_none_without_effective_limits() -> None:
    grove = Grove([10, 20, 30, 40])
    queue = grove.group()
    assert collected(grove) is None
    queue.ceiling, queue.guarantee, queue.user_ceilings = [10, 25, 30, 40], [0, 0, 0, 0], {}
    assert collected(grove) is None  # as much as there is, nothing, nobody


def test_vectors_are_as_wide_as_capacity() -> None:
    # A resource that was registered after the limits were written is not limited, and nobody is guaranteed any.
    grove = Grove([10, 20, 30, 40])
    queue = grove.group()
    queue.ceiling, queue.guarantee, queue.user_ceilings = [5, 99], [1], {"ann": [2, 3]}
    bounds = collected(grove)
    assert bounds is not None
    assert bounds.ceilings == {queue: [5, 20, 30, 40]}
    assert bounds.guarantees == {queue: [1, 0, 0, 0]}
    assert bounds.users == {queue: {"ann": [2, 3, 30, 40]}}


def test_guarantees_of_more_than_there_is_are_cut_in_proportion() -> None:
    # 100 cpu, of which 90 and 60 are promised: 60 and 40.
    grove = Grove([100, 0, 0, 0])
    for amount in (90, 60):
        grove.group().guarantee = [amount, 0, 0, 0]
    assert cpu(grove) == [60, 40]


def test_a_parents_ceiling_cuts_what_its_children_were_promised() -> None:
    # 100 cpu. Below p, which may have 30: 40 and 20 become 20 and 10. q is as it was. p itself is promised 50: 30.
    grove = Grove([100, 0, 0, 0])
    p, q = grove.group(), grove.group()
    p.ceiling = [30, 0, 0, 0]
    p.guarantee, q.guarantee = [50, 0, 0, 0], [70, 0, 0, 0]
    grove.group(p).guarantee = [40, 0, 0, 0]
    grove.group(p).guarantee = [20, 0, 0, 0]
    assert cpu(grove) == [30, 70, 20, 10]


def test_a_guarantee_inside_another_is_part_of_it() -> None:
    # p's 60 and its child's 40 are 60 together, not 100; with q's 60 that is 120 of 90: 45 (its child 40 still) and 45.
    grove = Grove([90, 0, 0, 0])
    p, q = grove.group(), grove.group()
    p.guarantee, q.guarantee = [60, 0, 0, 0], [60, 0, 0, 0]
    grove.group(p).guarantee = [40, 0, 0, 0]
    assert cpu(grove) == [45, 45, 40]


@given(bounded_groves(holdings=False))
def test_guarantees_can_all_be_kept_at_once(grove: Grove) -> None:
    bounds = collected(grove)
    nothing = {job: [0] * WIDTH for job in grove.jobs}
    assert above_limits(grove, nothing) == []
    for node in grove.groups:
        if bounds is not None and node in bounds.guarantees:
            assert node.guarantee is not None
            assert all(0 <= kept <= wish for kept, wish in zip(bounds.guarantees[node], node.guarantee, strict=True))
