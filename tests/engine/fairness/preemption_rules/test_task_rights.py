"""Rights of jobs of unlike tasks: each task counts by itself."""

from kubebase.resource_vector import CPU
from pumice.engine.fairness.fluid_target.targets import set_targets
from pumice.engine.fairness.orders.target_order import TargetOrder
from pumice.engine.fairness.preemption_rules.task_rights import has_lost_nothing, holds_more, is_owed, spares
from pumice.engine.fairness.share_tree.share_node import JobNode
from tests.support.groves import GPU, Grove

FOUR, ODD = ((GPU, 4000),), ((CPU, 1000), (GPU, 5000))


def with_an_odd_task() -> tuple[Grove, TargetOrder, JobNode]:
    """A job runs three tasks of 4 gpu and one of 1 cpu, 5 gpu; its whole target is four of 4 gpu."""
    grove = Grove([10_000, 0, 0, 40_000])
    order = TargetOrder(grove.tree, grove.capacity)
    job = grove.job(grove.group(), [(FOUR, 4), (ODD, 1)])
    for items in (FOUR, FOUR, FOUR, ODD):
        grove.start(order, job, items, 1)
    job.integer_target, job.integer_task_counts = [0, 0, 0, 16_000], {FOUR: 4}
    return grove, order, job


def test_a_running_task_outside_the_whole_target_may_go_and_a_waiting_one_inside_is_owed_then() -> None:
    grove, order, job = with_an_odd_task()
    assert holds_more(job)
    assert spares(job, ODD) and not spares(job, FOUR)
    assert not is_owed(job, FOUR)  # it holds more gpu than its whole target as it is
    grove.end(order, 3)
    assert has_lost_nothing(job, ODD) and not holds_more(job)
    assert is_owed(job, FOUR) and not is_owed(job, ODD)


def test_a_task_inside_the_whole_target_is_not_lost_for_one_outside() -> None:
    grove, order, job = with_an_odd_task()
    grove.end(order, 0)
    assert not has_lost_nothing(job, FOUR)


def test_a_task_of_another_kind_does_not_take_the_place_of_one_in_the_whole_target() -> None:
    _, _, job = with_an_odd_task()
    job.integer_target, job.integer_task_counts = [2000, 0, 0, 30_000], {FOUR: 4, ODD: 1}
    assert is_owed(job, FOUR) and not is_owed(job, ODD)


def test_jobs_of_equal_tasks_and_gangs_are_compared_by_amounts() -> None:
    grove = Grove([10_000, 0, 0, 40_000])
    order = TargetOrder(grove.tree, grove.capacity)
    queue = grove.group()
    equal = grove.job(queue, [(FOUR, 4)])
    gang = grove.job(queue, [(FOUR, 2), (ODD, 1)], gang=2)
    unlike = grove.job(queue, [(FOUR, 2), (ODD, 1)])
    set_targets(grove.tree, grove.capacity)
    order.refresh_targets(demand_changed=True)
    assert equal.integer_task_counts is None and gang.integer_task_counts is None
    assert unlike.integer_task_counts == {FOUR: 2, ODD: 1}
