"""Relieving: nodes that hold more than they have, because somebody else wrote a binding of ours.

A scheduler that lost its lease writes nothing any more, but what it had sent may arrive late: after the next one has
given the same room to somebody else. The cluster takes both bindings. So whenever a pod turns up on a node by a binding
of ours that was not decided here, its node is looked at, and again in every cycle until it holds no more than it has:
of those that turned up there the last one to come goes first, until the rest fits. One whose eviction was refused
is asked again when its time comes (``EvictionBackoff``). What was decided here stays, and so does everything on a
node that only shrinks.

Who has only just started sees every pod for the first time. Then a pod counts as one that turned up if it was bound
within the last ``LATE`` by the API server's clock (by its age, where nobody says when it was bound). That finds
what two leaders wrote around the moment when the lease changed hands, whether it runs already or not; and it leaves
alone what was bound before that, though it may still pull its image, on a node that its administrator made smaller.
Two things cannot be told apart: a node that was made smaller under pods bound within the last minute loses the
latest of these; and of two bindings that are both older the cluster keeps both.
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
"""How long ago a pod may have been bound that is taken for one that arrived late (microseconds), at first sight."""


def evict_from_overcommitted_nodes(context: SchedulingContext) -> None:
    """Look at the nodes on which pods have turned up, until they hold no more than they have."""
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
    """Of the pods that were there from the beginning those that were bound not long ago, the last one last."""
    tasks = [task for key in context.state.unexpected_pods if (task := context.state.tasks.get(key)) is not None]
    late = [task for task in tasks if (task.started or task.spec.created) + LATE_BIND_WINDOW > context.now]
    return sorted(late, key=lambda task: (task.started or task.spec.created, task.spec.created, task.key))


def _overcommitted(context: SchedulingContext) -> dict[ClusterNode, list[Task]]:
    """Who turned up on which node that holds more than it has, counting also what is on its way out: it may stay."""
    arrived: dict[ClusterNode, list[Task]] = {}
    for key in context.state.unexpected_pods:
        task = context.state.tasks.get(key)
        node = task.node if task is not None and task.status.on_node else None
        if task is not None and node is not None and node.spec is not None:
            arrived.setdefault(node, []).append(task)
    return {node: tasks for node, tasks in arrived.items() if any(node.free(j) < 0 for j in range(len(node.ours)))}


def _latest_pods(context: SchedulingContext, node: ClusterNode, arrived: list[Task]) -> list[Task]:
    """Which of those that turned up must go for the rest to fit: the last to come, as few as will do."""
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
    """Whether a pod can be let go now: it stays otherwise, and its job has a place to lose."""
    placed = task.job is not None and task.job.key in context.tree.jobs
    stays = task.status.shown and task.spec.placed and not task.is_system_critical
    return placed and stays and context.eviction_backoff.retry_at(task.key) <= context.now


def _explain(gone: Eviction) -> Evict:
    return Evict(gone.task.spec.key, gone.node.name, gone.leaf.job.key, "", "relieve")
