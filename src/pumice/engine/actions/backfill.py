"""backfill: place tasks without resource requests on any node that accepts them.

These best-effort tasks are not served through the share tree. They still count towards their job's minimum, so those of
a job that has not started are placed only together with the tasks that allocate has placed for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.candidates.units import missing_to_start, parts_of
from pumice.engine.placement.domain_placement import domains_with_room, inside
from pumice.engine.placement.pipelined_tasks import must_wait
from pumice.engine.state.task_shapes import TaskShape
from pumice.engine.transaction import Transaction
from pumice.model.specs import JobPhase

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext
    from pumice.engine.fairness.share_tree.share_node import JobNode


def backfill(context: SchedulingContext) -> None:
    """Place every waiting best-effort task, job by job."""
    for leaf in context.sync.waiting_for_backfill():
        if leaf.job.phase is JobPhase.PENDING and context.policy.enqueues:
            continue
        if context.policy.job_valid(leaf.job) is None:
            _fill(context, leaf)


def _fill(context: SchedulingContext, leaf: JobNode) -> None:
    job = leaf.job
    missing = max(1, missing_to_start(job, context.policy.start_size(job)))
    shapes = [shape for shape in job.pending if shape.best_effort]
    shapes.sort(key=lambda shape: job.pending[shape][-1].order)
    rule = shapes[0].topology if shapes else None
    if rule is None or not rule.hard or rule.chain is not None:
        _place_shapes(context, leaf, shapes)
        return
    tasks = [task for shape in shapes for task in reversed(job.pending[shape])]
    for domain in domains_with_room(context.nodes, parts_of(tasks[:missing]), rule):
        with inside(context.nodes, domain):
            if _place_shapes(context, leaf, shapes):
                return


def _place_shapes(context: SchedulingContext, leaf: JobNode, shapes: list[TaskShape]) -> bool:
    """Place as many tasks of these shapes as fit; False, and none is placed, if the job cannot start with them."""
    job = leaf.job
    transaction = Transaction(context)
    stamp = context.next_start_time()
    all_tasks = [task for shape in shapes for task in job.pending[shape]]
    waits = bool(context.pipelined.tasks) and must_wait(context, job, all_tasks)
    place = transaction.pipeline if waits else transaction.place
    for shape in shapes:
        for task in reversed(list(job.pending[shape])):
            index = context.nodes.best_node(shape)
            if index < 0:
                break
            place(task, index, stamp)
            transaction.charge(leaf, shape.ask, stamp, 1, True)
    if missing_to_start(job, context.policy.start_size(job)) > 0:
        transaction.discard()
        return False
    transaction.commit()
    context.sync.refresh_leaf(leaf)
    return True
