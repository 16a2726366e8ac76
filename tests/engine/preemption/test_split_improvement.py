"""Whether a job that goes whole leaves a better split, on trees made by hand: entitlements and holdings are given."""

from __future__ import annotations

import pytest

from kubebase.resource_vector import CPU
from pumice.engine.fairness.share_tree.demand import NO_DEMAND
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.preemption.split_improvement import improves_split
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import FREE
from tests.support.groves import Grove

TASK = ((CPU, 1),)


def job(grove: Grove, entitled: int, held: int) -> JobNode:
    """A job alone in its queue that is entitled to so many tasks and holds so many."""
    leaf = grove.job(grove.group(), [(TASK, 100)])
    for node in (leaf, leaf.parent):
        assert node is not None
        node.entitle([entitled * 2**40, 0, 0, 0])
    for stamp in range(held):
        grove.start(grove.tree, leaf, TASK, stamp + 1)
    return leaf


@pytest.mark.parametrize(
    ("left", "started", "better"),
    [
        # The gang's side is entitled to what is left of 100 and holds nothing now; the preemptor started so much.
        (50, 50, False),  # 50 are missing on either side: no better
        (20, 80, True),
        (80, 20, False),
        (49, 51, True),
    ],
)
def test_less_must_be_missing_afterwards(left: int, started: int, better: bool) -> None:
    grove = Grove([100, 0, 0, 0])
    gang, preemptor = job(grove, left, 0), job(grove, 100 - left, started)
    assert improves_split([(preemptor, ((CPU, started),))], [gang], grove.capacity) is better


def test_tasks_beyond_entitlement_of_preemptor_do_not_improve_split() -> None:
    grove = Grove([100, 0, 0, 0])
    gang, preemptor = job(grove, 10, 0), job(grove, 5, 60)
    assert not improves_split([(preemptor, ((CPU, 60),))], [gang], grove.capacity)


def test_jobs_that_go_are_counted_together() -> None:
    # 30 are gained. Each of two jobs leaves its queue short of 20: one of them is worth it, both are not.
    grove = Grove([100, 0, 0, 0])
    first, second, preemptor = job(grove, 20, 0), job(grove, 20, 0), job(grove, 30, 30)
    units = [(preemptor, ((CPU, 30),))]
    assert improves_split(units, [first], grove.capacity)
    assert not improves_split(units, [first, second], grove.capacity)


def test_a_place_alone_is_no_gain() -> None:
    grove = Grove([100, 0, 0, 0])
    gang, preemptor = job(grove, 1, 0), job(grove, 10, 0)
    assert not improves_split([(preemptor, ())], [gang], grove.capacity)


@pytest.mark.parametrize(("started", "better"), [(20, True), (19, False)])
def test_a_job_that_cannot_come_back_goes_for_half_of_what_it_held(started: int, better: bool) -> None:
    # It has no demand, and its side is short of nothing. It held 40.
    grove = Grove([100, 0, 0, 0])
    gang, preemptor = job(grove, 0, 0), job(grove, 100, started)
    gang.demand = NO_DEMAND
    gang.job.evicted = TaskShape(0, TASK, FREE, None).alone(40)
    assert improves_split([(preemptor, ((CPU, started),))], [gang], grove.capacity) is better
