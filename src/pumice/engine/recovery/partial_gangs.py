"""Repair partially started gangs.

A gang is decided atomically (docs/fairness.md, section 10) but bound pod by pod, so a crash or a permanent bind failure
can leave pods bound that can do nothing without the others. Such a job is recognized by the cluster's objects: some of
its tasks were bound by us, fewer than its minimum, and the gang has not been complete since the job last held nothing.
A gang that loses a pod later, say with its node, is therefore not affected; nor is one whose pods another scheduler
placed, nor one whose pods are created one by one.

Before any other decision the missing tasks are placed, all or nothing. A job that is still incomplete after
``REPAIR_LIMIT`` is evicted, and starts anew when it can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.actions.allocate import place_unit
from pumice.engine.candidates.units import makes_a_gang
from pumice.engine.decisions import Evict
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.state.job import Job
from pumice.engine.state.task import Task
from pumice.engine.transaction import Eviction, Transaction
from pumice.model.specs import JobPhase, TaskStatus

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext

REPAIR_LIMIT = 30_000_000
"""How long a partial gang waits for its missing tasks (microseconds)."""


def detect_partial_gang(context: SchedulingContext, job: Job) -> None:
    """Update whether a changed job is a partial gang. Its time runs until the gang is complete, whatever is decided."""
    if not job.running:
        job.gang_was_complete, job.spent = False, 0
    if job.gang_was_complete or not job.shown:
        context.partial_gangs.pop(job.key, None)
    elif job.key not in context.partial_gangs and _is_partial(context, job):
        context.partial_gangs[job.key] = context.now


def repair_partial_gangs(context: SchedulingContext) -> None:
    """Place the missing tasks, longest-waiting gangs first; evict the gangs whose time is up."""
    for key, since in sorted(context.partial_gangs.items(), key=lambda item: (item[1], item[0])):
        leaf = context.tree.jobs.get(key)
        if leaf is None or leaf.job.gang_was_complete:  # the cluster may have shown it complete since it was detected
            del context.partial_gangs[key]
        elif any(task.status is TaskStatus.BINDING for task in leaf.job.each_task()):
            continue  # the rest is being bound
        elif since + REPAIR_LIMIT <= context.now:
            _evict_part(context, leaf)
        elif not _place_missing(context, leaf) and since == context.now:
            _report(context, leaf.job, f"the rest must find a place within {REPAIR_LIMIT // 1_000_000} s, or these go")


def _is_partial(context: SchedulingContext, job: Job) -> bool:
    """Whether a gang that was never complete has some of its tasks bound by us, but not all it must start with."""
    start = context.policy.start_size(job)
    seated = [task for task in job.each_task() if task.status.held and task.status is not TaskStatus.PIPELINED]
    has_all = len(seated) + job.succeeded >= start and makes_a_gang(job, seated, start)
    return not has_all and bool(_tasks_bound_by_us(job))


def _tasks_bound_by_us(job: Job) -> list[Task]:
    """The tasks that we bound, in task order."""
    ours = [task for task in job.each_task() if task.status.shown and task.spec.placed]
    return sorted((task for task in ours if not task.is_system_critical), key=lambda task: task.order)


def _place_missing(context: SchedulingContext, leaf: JobNode) -> bool:
    """Place the missing tasks, if all of them fit."""
    if leaf.job.phase is JobPhase.PENDING and context.policy.enqueues and context.sync.may_start(leaf.job):
        leaf.job.phase = JobPhase.INQUEUE  # it was enqueued before; the write was lost
        context.decided.enqueue(leaf.job.key)
        context.sync.refresh_leaf(leaf)
    unit = leaf.unit
    if unit is None or not context.candidates.is_open(unit) or context.policy.allocatable(leaf, unit) is not None:
        return False
    transaction = Transaction(context)
    short = place_unit(context, transaction, leaf, unit)
    if short is not None:
        transaction.discard()
        context.candidates.mark_failed(unit, short)
        return False
    transaction.commit()
    context.candidates.choose_next_unit(leaf)
    return True


def _evict_part(context: SchedulingContext, leaf: JobNode) -> None:
    """Evict the part of its gang that a job has."""
    going = [
        task for task in _tasks_bound_by_us(leaf.job) if context.eviction_backoff.retry_at(task.key) <= context.now
    ]
    if not going:
        return
    _report(context, leaf.job, f"the rest found no place within {REPAIR_LIMIT // 1_000_000} s, so these go")
    transaction = Transaction(context)
    for task in going:
        transaction.evict(task)
    transaction.commit(explain=_explain)


def _explain(gone: Eviction) -> Evict:
    return Evict(gone.task.spec.key, gone.node.name, gone.leaf.job.key, "", "repair-gangs")


def _report(context: SchedulingContext, job: Job, what: str) -> None:
    has = sum(1 for task in job.each_task() if task.status.shown)
    message = f"{has} of the {context.policy.start_size(job)} pods that it must start with have a node; {what}"
    context.decided.condition_once(job.key, "GangIncomplete", message)
