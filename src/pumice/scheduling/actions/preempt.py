"""preempt: more important work of a queue first.

Between jobs of a queue it is the mirror of the order in which they are served (``takers``). Tasks that ask for
nothing but a place may take one from a job of a lower class, and a job may let less important tasks of its own go
for more important ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.fairness.taking import ByKeys
from pumice.fairness.tree import JobNode
from pumice.model.accounts import ClusterNode, Task
from pumice.model.objects import JobPhase, TaskStatus
from pumice.scheduling.claims import claim
from pumice.scheduling.decisions import Evict
from pumice.scheduling.freeable import Freeable
from pumice.scheduling.pipelined import start_pipelined
from pumice.scheduling.plugins.conformance import keeps_the_cluster_alive
from pumice.scheduling.transaction import Departure, Transaction
from pumice.scheduling.units import Unit, missing_to_start, unit_tasks
from pumice.scheduling.victims import Hunt

if TYPE_CHECKING:
    from pumice.scheduling.engine import Engine


def preempt(engine: Engine) -> None:
    """Let jobs that find no room take from others of their queue, and from themselves."""
    engine.preempts.serve(engine)
    for leaf in engine.waiting_for_backfill():
        _take_a_place(engine, leaf)
    for unit in [unit for unit in engine.candidates.units if not engine.candidates.is_open(unit)]:
        for leaf in list(unit.waiting):
            while leaf.unit is unit and leaf.started and unit.size == 1 and _take_from_itself(engine, leaf, unit):
                pass
    start_pipelined(engine)


def _take_a_place(engine: Engine, leaf: JobNode) -> None:
    """A waiting task that asks for nothing takes the place of one of a lower class."""
    job = leaf.job
    if (job.phase is JobPhase.PENDING and engine.policy.enqueues) or engine.policy.job_valid(job) is not None:
        return
    if missing_to_start(job, engine.policy.start_size(job)) > 1:
        return
    freeable = Freeable(engine, engine.tree.jobs.values())
    for shape in [shape for shape in job.pending if shape.best_effort]:
        if engine.nodes.best(shape) >= 0:
            continue  # backfill has a place for it
        unit = Unit(((shape, 1),))
        judge = ByKeys(engine.order, leaf, unit.ask, jobs_by_share=False)
        hunt = Hunt(engine, leaf, unit, judge, engine.preempts.levels(leaf), lambda _: freeable, across=False)
        transaction = Transaction(engine)
        claimed = claim(engine, transaction, hunt, leaf, unit)
        if claimed:
            _commit(engine, transaction, leaf)
        else:
            transaction.discard()


def _take_from_itself(engine: Engine, leaf: JobNode, unit: Unit) -> bool:
    """A waiting task takes the place of less important ones of its own job."""
    task = unit_tasks(leaf, unit)[0]
    if not engine.state.task_preempts(task.spec):
        return False
    by_node: dict[ClusterNode, list[Task]] = {}
    for other in sorted(leaf.job.tasks.values(), key=lambda other: (other.priority, -other.started, other.order)):
        if other.priority < task.priority and _may_make_way(engine, other, task) and other.node is not None:
            by_node.setdefault(other.node, []).append(other)
    for node, others in by_node.items():
        transaction = Transaction(engine)
        if _swap(engine, transaction, leaf, unit, task, node, others):
            _commit(engine, transaction, leaf)
            return True
        transaction.discard()
    return False


def _may_make_way(engine: Engine, other: Task, task: Task) -> bool:
    if other.status not in (TaskStatus.RUNNING, TaskStatus.BOUND) or not other.preemptable:
        return False
    assert other.job is not None and other.job.spec is not None
    same_role = other.spec.role == task.spec.role or other.spec.role not in other.job.spec.min_task_member
    return same_role and not keeps_the_cluster_alive(other) and engine.policy.evictable(other)


def _swap(
    engine: Engine,
    transaction: Transaction,
    leaf: JobNode,
    unit: Unit,
    task: Task,
    node: ClusterNode,
    others: list[Task],
) -> bool:
    """Let as many go from a node as it takes; False: that is not enough, or the job would hold more than it may."""
    index = engine.nodes.index.get(node.name, -1)
    if index < 0:
        return False
    before = list(leaf.held)
    for other in others:
        transaction.evict(other)
        if all(node.future(j) >= amount for j, amount in task.shape.items) and engine.nodes.allows(task.shape, index):
            break
    else:
        return False
    grows = any(leaf.held[j] + amount > before[j] for j, amount in unit.ask)
    if (grows and not engine.order.owes(leaf, unit.ask)) or engine.policy.allocatable(leaf, unit) is not None:
        return False
    stamp, owed = engine.next_stamp(), engine.order.owes(leaf, unit.ask)
    transaction.charge(leaf, unit.ask, stamp, 1, owed)
    transaction.pipeline(task, index, stamp, owed)
    for other in [gone.task for gone in transaction.evicted][:-1]:
        transaction.spare(other)
        if any(node.future(j) < 0 for j in range(len(node.idle))):
            transaction.evict(other)
    return engine.policy.can_go_on(leaf.job)


def _commit(engine: Engine, transaction: Transaction, leaf: JobNode) -> None:
    def explain(gone: Departure) -> Evict:
        assert gone.task.job is not None
        return Evict(gone.task.spec.key, gone.node.name, gone.task.job.key, leaf.job.key, "preempt")

    transaction.commit((), explain)
    engine.refresh(leaf)
    engine.took(transaction.evicted)
