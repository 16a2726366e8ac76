"""The queues and jobs of a run as rows of tables.

``run_report`` is complete and for programs; the overview is for tables that people read. Both read the same share tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kubebase.resource_vector import MEMORY, PODS
from pumice.engine.engine import Engine
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.model.specs import Items, JobPhase, Queue, QueueState, TaskStatus
from pumice.sim.run_report import (
    dominant_share_of,
    effective_queue,
    fluid_target,
    fluid_target_tasks,
    integer_target_tasks,
    jobs_below,
    tree_order,
)
from pumice.sim.scenario_loader import SECOND
from pumice.sim.simulation import Simulation


@dataclass(frozen=True, slots=True)
class QueueOverview:
    """A queue or namespace. Shares are dominant shares of the cluster.

    ``starting`` counts tasks that wait on a node for victims to leave; their requests count as allocated. ``deserved``
    is set where the order of queues uses it, ``capability`` where the limit is below the capacity of the cluster.
    """

    name: str
    path: str
    depth: int
    kind: NodeKind
    weight: float
    state: str
    used: float
    entitled: float
    running: float
    starting: int
    pending: float
    allocated: str
    entitled_amounts: str
    deserved: str
    guarantee: str
    capability: str


@dataclass(frozen=True, slots=True)
class JobOverview:
    """A job. ``target`` is in tasks, whole ones in a run; None where there is no such number."""

    key: str
    queue: str
    user: str
    phase: str
    running: float
    starting: int
    pending: float
    target: float | None
    used: float
    entitled: float
    allocated: str
    entitled_amounts: str
    reason: str


@dataclass(frozen=True, slots=True)
class ReservationOverview:
    """Room that is kept for a job: where, for how many seconds now, and what part of the cluster is lacking there."""

    job: str
    room: dict[str, str]
    seconds: float
    lack: float


@dataclass(frozen=True, slots=True)
class RunOverview:
    """All lines, in the order in which they are read. ``targets``: whether entitlements mean anything.

    ``stopped`` are queues that a plugin refuses, and why.
    """

    nodes: list[QueueOverview]
    jobs: list[JobOverview]
    targets: bool
    stopped: dict[str, str] = field(default_factory=dict)
    holds: list[ReservationOverview] = field(default_factory=list)


class TaskCounts(NamedTuple):
    """Numbers of tasks: running, waiting on a node for victims to leave, and pending."""

    running: float = 0
    starting: int = 0
    pending: float = 0


def overview_of_run(simulation: Simulation) -> RunOverview:
    """The current state of a run."""
    engine = simulation.cluster.engine
    tasks = {leaf: _tasks(simulation, leaf) for leaf in engine.tree.jobs.values()}
    return _overview(engine, tasks, simulation.usage_of, simulation.has_targets, simulation.cluster.now)


def overview_of_engine(engine: Engine) -> RunOverview:
    """The current state of an engine."""
    tasks = {}
    for leaf in engine.tree.jobs.values():
        starting = sum(task.status is TaskStatus.PIPELINED for task in leaf.job.each_task())
        waiting = leaf.job.unfinished_tasks - leaf.job.running
        tasks[leaf] = TaskCounts(leaf.job.running - starting, starting, waiting)
    return _overview(engine, tasks, lambda node: node.held, engine.order.has_targets, engine.now)


def _overview(
    engine: Engine,
    tasks: Mapping[JobNode, TaskCounts],
    usage_of: Callable[[ShareNode], Sequence[float]],
    targets: bool,
    now: int,
) -> RunOverview:
    def line(node: ShareNode) -> QueueOverview:
        columns = zip(*(tasks[leaf] for leaf in jobs_below(node)), strict=True)
        return _node_line(engine, node, usage_of(node), TaskCounts(*map(sum, columns)))

    nodes = [line(node) for node in tree_order(engine.tree.root) if node.kind is not NodeKind.JOB]
    jobs = []
    for key, leaf in sorted(engine.tree.jobs.items()):
        spec, held = leaf.job.spec, usage_of(leaf)
        assert spec is not None
        jobs.append(
            JobOverview(
                key=key,
                queue=spec.queue,
                user=spec.user or spec.namespace,
                phase=leaf.job.phase.value,
                running=tasks[leaf].running,
                starting=tasks[leaf].starting,
                pending=tasks[leaf].pending,
                target=integer_target_tasks(engine, leaf),
                used=dominant_share_of(held, engine.state.capacity),
                entitled=dominant_share_of(fluid_target(leaf), engine.state.capacity),
                allocated=_amounts(engine, held),
                entitled_amounts=_amounts(engine, fluid_target(leaf)),
                reason=_reason(engine, leaf) if tasks[leaf].pending else "",
            )
        )
    stopped = dict(sorted(engine.context.sync.refused_queues.items()))
    return RunOverview(nodes, jobs, targets, stopped, _holds(engine, now))


def _reason(engine: Engine, leaf: JobNode) -> str:
    """Why tasks of a job wait: a state of its queue, a refused enqueue, or the last condition of the job."""
    node: ShareNode | None = leaf.queue
    queue = engine.context.sync.queue_of(leaf.queue)
    if queue is not None:
        by = effective_queue(engine, queue, leaf.queue)
        if by.state is not QueueState.OPEN:
            return f"queue {by.name} is {_STOPPED[by.state]}"
    while node is not None:
        if node.queue_name in engine.context.sync.refused_queues:
            return f"queue {node.queue_name} is stopped"
        node = node.parent
    if leaf.job.phase is JobPhase.PENDING and engine.policy.enqueues:
        return engine.policy.enqueueable(leaf, engine.now) or ""
    return engine.context.decided.conditions.get(leaf.job.key, "")


def _holds(engine: Engine, now: int) -> list[ReservationOverview]:
    holds = engine.context.reservations.active if engine.context.reservations is not None else {}
    return [
        ReservationOverview(
            job=leaf.job.key,
            room={engine.nodes.nodes[at].name: _named(engine, needs) for at, needs in sorted(hold.needs.items())},
            seconds=(now - hold.since) / SECOND,
            lack=hold.lack,
        )
        for leaf, hold in sorted(holds.items(), key=lambda item: item[0].rank)
    ]


def _tasks(simulation: Simulation, leaf: JobNode) -> TaskCounts:
    starting = 0
    if simulation.means is None:
        starting = sum(task.status is TaskStatus.PIPELINED for task in leaf.job.each_task())
    return TaskCounts(simulation.running_tasks(leaf) - starting, starting, simulation.pending_tasks(leaf))


def overview_of_targets(engine: Engine) -> RunOverview:
    """The targets of all queues and jobs; nothing is scheduled. The targets must have been set before."""
    nodes = [
        _node_line(engine, node, (), TaskCounts())
        for node in tree_order(engine.tree.root)
        if node.kind is not NodeKind.JOB
    ]
    jobs = []
    for key, leaf in sorted(engine.tree.jobs.items()):
        spec = leaf.job.spec
        assert spec is not None
        share = dominant_share_of(fluid_target(leaf), engine.state.capacity)
        user, target, amounts = (
            spec.user or spec.namespace,
            fluid_target_tasks(leaf),
            _amounts(engine, fluid_target(leaf)),
        )
        jobs.append(JobOverview(key, spec.queue, user, "", 0, 0, 0, target, 0, share, "", amounts, ""))
    return RunOverview(nodes, jobs, True)


def _node_line(engine: Engine, node: ShareNode, held: Sequence[float], tasks: TaskCounts) -> QueueOverview:
    queue = engine.context.sync.queue_of(node)
    return QueueOverview(
        name=node.name if queue is None or queue.name == node.name else f"{node.name} ({queue.name})",
        path=node.path,
        depth=node.path.count("/"),
        kind=node.kind,
        weight=node.weight,
        state=_state(engine, queue, node) if queue is not None else "",
        used=dominant_share_of(held, engine.state.capacity),
        entitled=dominant_share_of(fluid_target(node), engine.state.capacity),
        running=tasks.running,
        starting=tasks.starting,
        pending=tasks.pending,
        allocated=_amounts(engine, held),
        entitled_amounts=_amounts(engine, fluid_target(node)),
        deserved=_named(engine, engine.order.deserved_by(node) or ()),
        guarantee=_amounts(engine, node.guarantee or ()),
        capability=_named(engine, _limits(engine, node)),
    )


def _limits(engine: Engine, node: ShareNode) -> Items:
    """The limits of a node of the tree, for resources where they are below the capacity of the cluster."""
    bounds = zip(node.ceiling or (), engine.state.capacity, strict=False)
    return tuple((j, most) for j, (most, whole) in enumerate(bounds) if most < whole)


_STOPPED = {
    QueueState.PAUSED: "paused",
    QueueState.CLOSING: "closed",
    QueueState.CLOSED: "closed",
    QueueState.UNKNOWN: "stopped",
}


def _state(engine: Engine, queue: Queue, node: ShareNode) -> str:
    """The state of a queue, and the queue whose state takes precedence, if there is one."""
    by = effective_queue(engine, queue, node)
    return queue.state.value if by is queue else f"{queue.state.value} ({_STOPPED[by.state]} by {by.name})"


def _named(engine: Engine, items: Items) -> str:
    """Quantities including zeros, without pods."""
    return ", ".join(f"{engine.state.registry.names[j]} {_amount(engine, j, n)}" for j, n in items if j != PODS)


def _amounts(engine: Engine, vector: Sequence[float]) -> str:
    names = zip(engine.state.registry.names, vector, strict=False)
    return ", ".join(f"{name} {_amount(engine, j, amount)}" for j, (name, amount) in enumerate(names) if amount)


def _amount(engine: Engine, index: int, amount: float) -> str:
    if isinstance(amount, int):
        return engine.state.registry.format_amount(index, amount)
    # A mean: three digits are enough.
    if index != MEMORY:
        return f"{amount / 1000:.3g}"
    return engine.state.registry.format_amount(index, int(float(f"{amount:.3g}")))
