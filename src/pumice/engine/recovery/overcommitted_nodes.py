"""Evict from nodes that a stale leader overcommitted.

A scheduler that lost its lease stops writing, but a bind it had already sent may still land, on capacity that the new
leader has given away meanwhile. The API accepts both binds. So whenever a pod appears on a node by a bind of ours that
this engine did not decide, its node is checked, and again in every cycle until it is no longer overcommitted: of the
unexpected pods the latest is evicted first, until the rest fits. An eviction that the API rejected is retried after
``EvictionBackoff``. Pods bound by this engine stay, and so do all pods on a node that merely shrank.

A scheduler that has just started sees every pod for the first time. It treats a pod as unexpected if it was bound
within the last ``LATE_BIND_WINDOW`` by the API server's clock (or by the pod's age, if the time of the bind is
unknown). This finds what two leaders wrote around the change of leadership, whether the pod is running yet or not. It
spares pods bound earlier, even those still pulling an image, on a node that its administrator made smaller. Two cases
cannot be told apart: a node that was made smaller under pods bound within the window loses the latest of these; and if
both conflicting binds are older, both pods stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.decisions import Evict
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.task import Task
from pumice.engine.transaction import Eviction, Transaction

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext

LATE_BIND_WINDOW = 60_000_000
"""At first sight, a pod bound no longer ago than this counts as a late bind (microseconds)."""


def evict_from_overcommitted_nodes(context: SchedulingContext) -> None:
    """Check the nodes with unexpected pods, in every cycle until they are no longer overcommitted."""
    if not context.first_cycle_done:
        context.state.unexpected_pods = dict.fromkeys(task.key for task in _recently_bound(context))
        context.first_cycle_done = True
    if not context.state.unexpected_pods:
        return
    arrived = _overcommitted(context)
    context.state.unexpected_pods = dict.fromkeys(task.key for tasks in arrived.values() for task in tasks)
    going = [task for node, tasks in arrived.items() for task in _latest_pods(context, node, tasks)]
    if not going:
        return
    transaction = Transaction(context)
    for task in going:
        transaction.evict(task)
    transaction.commit(explain=_explain)


def _recently_bound(context: SchedulingContext) -> list[Task]:
    """The initial pods that were bound within the window, the latest last."""
    tasks = [task for key in context.state.unexpected_pods if (task := context.state.tasks.get(key)) is not None]
    late = [task for task in tasks if (task.started or task.spec.created) + LATE_BIND_WINDOW > context.now]
    return sorted(late, key=lambda task: (task.started or task.spec.created, task.spec.created, task.key))


def _overcommitted(context: SchedulingContext) -> dict[ClusterNode, list[Task]]:
    """The unexpected pods by overcommitted node; terminating pods count as usage, because their eviction may fail."""
    arrived: dict[ClusterNode, list[Task]] = {}
    for key in context.state.unexpected_pods:
        task = context.state.tasks.get(key)
        node = task.node if task is not None and task.status.on_node else None
        if task is not None and node is not None and node.spec is not None:
            arrived.setdefault(node, []).append(task)
    return {node: tasks for node, tasks in arrived.items() if any(node.free(j) < 0 for j in range(len(node.ours)))}


def _latest_pods(context: SchedulingContext, node: ClusterNode, arrived: list[Task]) -> list[Task]:
    """The unexpected pods to evict so that the rest fits: the latest, as few as possible."""
    over = [-node.free(j) - leaving for j, leaving in enumerate(node.releasing)]
    going: list[Task] = []
    for task in reversed(arrived):
        helps = any(over[j] > 0 and amount for j, amount in task.shape.items)
        if helps and _may_evict(context, task):
            going.append(task)
            for j, amount in task.shape.items:
                over[j] -= amount
    return going


def _may_evict(context: SchedulingContext, task: Task) -> bool:
    """Whether a pod may be evicted now: it is not leaving anyway, and its job is in the share tree."""
    placed = task.job is not None and task.job.key in context.tree.jobs
    stays = task.status.shown and task.spec.placed and not task.is_system_critical
    return placed and stays and context.eviction_backoff.retry_at(task.key) <= context.now


def _explain(gone: Eviction) -> Evict:
    return Evict(gone.task.spec.key, gone.node.name, gone.leaf.job.key, "", "relieve-nodes")
