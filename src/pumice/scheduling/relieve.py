"""Relieving: nodes that hold more than they have, because somebody else wrote a binding of ours.

A scheduler that lost its lease writes nothing any more, but what it had sent may arrive late: after the next one has
given the same room to somebody else. The cluster takes both bindings. So whenever a pod turns up on a node by a
binding of ours that was not decided here, its node is looked at; the youngest of our pods there go until the rest fits.

A node that shrinks is none of these: what runs there runs on. Who has only just started sees every pod for the first
time, and cannot tell: but what was under way when a lease changed hands has not run for long, so nothing older goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.model.accounts import ClusterNode, Task
from pumice.scheduling.decisions import Evict
from pumice.scheduling.transaction import Departure, Transaction

if TYPE_CHECKING:
    from pumice.scheduling.engine import Engine

LATE = 60_000_000
"""For how long a pod may have run that arrived late (microseconds): longer than a write can be under way."""


def relieve(engine: Engine) -> None:
    """Look at the nodes on which pods have turned up since the last cycle."""
    arrivals, engine.state.arrivals = engine.state.arrivals, {}
    going = [task for name in arrivals for task in _superfluous(engine, engine.state.nodes.get(name))]
    if not going:
        return
    transaction = Transaction(engine)
    for task in going:
        transaction.evict(task)
    transaction.commit(explain=_explain)
    engine.took(transaction.evicted)


def _superfluous(engine: Engine, node: ClusterNode | None) -> list[Task]:
    """Which of our pods must go for the rest to fit: the youngest, as few as will do."""
    if node is None or node.spec is None:
        return []
    over = [
        ours + foreign - leaving - has
        for ours, foreign, leaving, has in zip(node.ours, node.foreign, node.releasing, node.allocatable, strict=True)
    ]
    going: list[Task] = []
    movable = [
        task for task in node.tasks.values() if task.spec.placed and task.status.shown and _is_late(engine, task)
    ]
    for task in sorted(movable, key=lambda task: (task.started > 0, -task.started, task.spec.key)):
        helps = any(over[j] > 0 and amount for j, amount in task.shape.items)
        if helps and not task.keeps_the_cluster_alive and engine.spared_until(task) <= engine.now:
            going.append(task)
            for j, amount in task.shape.items:
                over[j] -= amount
    return going


def _is_late(engine: Engine, task: Task) -> bool:
    """Whether a pod may be one that arrived late: it has not run yet, or not for long. Its job has a place to lose."""
    placed = task.job is not None and task.job.key in engine.tree.jobs
    return placed and (not task.started or task.started + LATE > engine.now)


def _explain(gone: Departure) -> Evict:
    return Evict(gone.task.spec.key, gone.node.name, gone.leaf.job.key, "", "relieve")
