"""Jobs that cannot start, however much capacity is freed: too few pods, no suitable node, or no queue.

A job is checked at the end of the cycle in which it changed (``mark_changed``), and every job is checked when nodes or
queues change. An obstacle is reported once, as a condition of the podgroup. Some obstacles are gone in a moment, while
objects are being created one after the other; these are reported only after they have lasted for ``REPORT_DELAY``.

``OBSTACLE_CHECKS`` run in turn, and the first obstacle found counts. To report another kind, add a function there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kubebase.resource_vector import PODS
from pumice.engine.candidates.job_demand import barred_shapes, can_ever_start, volume_wait
from pumice.engine.candidates.oversized_jobs import find_oversize
from pumice.engine.candidates.units import gang_tasks, missing_to_start, parts_of, sum_asks
from pumice.engine.decisions import Bind, Enqueue, Evict
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.placement.domain_placement import say_largest
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.job import Job
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import Items, JobPhase

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext

REPORT_DELAY = 10_000_000
"""How long a possibly short-lived obstacle must last before it is reported (microseconds)."""


class Obstacle(NamedTuple):
    """Why a job cannot start: a reason in one word and a message for people."""

    reason: str
    message: str
    patience: int = 0


class UnstartableJobs:
    """The jobs that cannot start, and since when."""

    def __init__(self) -> None:
        self._changed: dict[str, None] = {}
        self._found: dict[str, tuple[Obstacle, int]] = {}
        self._untold: dict[str, None] = {}
        self._told: dict[str, None] = {}

    def mark_changed(self, key: str) -> None:
        """Record that a job was added, changed or removed."""
        self._changed[key] = None

    def is_reported(self, key: str) -> bool:
        """Whether a job is known to be unable to start and its condition says so."""
        return key in self._told

    @property
    def has_unreported(self) -> bool:
        """Whether there is an obstacle that will be reported if it lasts."""
        return bool(self._untold)

    def report_obstacles(self, context: SchedulingContext) -> None:
        """Check the jobs that changed, also by decisions of this cycle, and report the obstacles that are due."""
        again: list[str] = []
        if self._found:  # there are many decisions, but few jobs that cannot start
            decided = {each.job for each in context.decided.decisions if isinstance(each, (Enqueue, Bind, Evict))}
            again = sorted(decided & self._found.keys())
        for key in (*self._changed, *again):
            self._look(context, key)
        self._changed.clear()
        for key in list(self._untold):
            obstacle, since = self._found[key]
            if context.now - since >= obstacle.patience:
                del self._untold[key]
                self._tell(context, key, obstacle)

    def _look(self, context: SchedulingContext, key: str) -> None:
        job = context.state.jobs.get(key)
        obstacle = obstacle_of(context, job) if job is not None else None
        found, _ = self._found.get(key, (None, 0))
        if obstacle is None:
            self._found.pop(key, None)
            self._untold.pop(key, None)
            if key in self._told:
                del self._told[key]
                self._tell_gone(context, key)
        elif found != obstacle:
            self._found[key] = obstacle, context.now
            self._untold[key] = None
        elif key in self._told and context.decided.conditions.get(key) != obstacle.message:
            self._untold[key] = None  # a new job of that name, or another condition was written meanwhile
        if job is None or job.spec is None:
            context.decided.conditions.pop(key, None)

    def _tell(self, context: SchedulingContext, key: str, obstacle: Obstacle) -> None:
        self._told[key] = None
        context.decided.condition_once(key, obstacle.reason, obstacle.message)

    def _tell_gone(self, context: SchedulingContext, key: str) -> None:
        """Report that the obstacle is gone, unless the job starts or is blocked, which is reported elsewhere."""
        leaf = context.tree.jobs.get(key)
        waits = leaf is not None and leaf.unit is not None and not leaf.job.running
        if waits and leaf is not None and leaf not in context.candidates.blocked_jobs:
            message = "the obstacle is gone; the job waits for its turn"
            context.decided.conditions[key] = message
            context.decided.condition(key, "Unschedulable", "Waiting", message)
        elif leaf is not None and leaf.job.phase is JobPhase.PENDING and context.policy.enqueues:
            # Until it is admitted others write why not (``scheduler.enqueue_conditions``): over this condition, so the
            # obstacle is news if it returns.
            context.decided.conditions.pop(key, None)

    def checkpoint(self) -> dict[str, int]:
        """Since when each obstacle has existed, by job."""
        return {key: since for key, (_, since) in self._found.items()}

    def restore(self, memory: Mapping[str, int], context: SchedulingContext) -> None:
        """Continue from a checkpoint, so that a restart does not reset the age of obstacles that still exist."""
        for key, since in memory.items():
            job = context.state.jobs.get(key)
            obstacle = obstacle_of(context, job) if job is not None else None
            if obstacle is not None:
                self._found[key] = obstacle, since
                is_told = context.decided.conditions.get(key) == obstacle.message
                (self._told if is_told else self._untold)[key] = None


# ---- obstacles -----------------------------------------------------------------------------------------------------


def obstacle_of(context: SchedulingContext, job: Job) -> Obstacle | None:
    """What keeps a job from ever starting in the present cluster; None: no obstacle, or nothing to start."""
    if job.spec is None or job.phase is JobPhase.COMPLETED or (job.task_count and not job.unfinished_tasks):
        return None
    leaf = context.tree.jobs.get(job.key)
    if leaf is None:
        return _no_queue(context, job.spec.queue)
    for find in OBSTACLE_CHECKS:
        found = find(context, leaf)
        if found is not None:
            return found
    return None


def _no_queue(context: SchedulingContext, queue: str) -> Obstacle:
    refusal = next(
        (found for found in context.sync.queue_tree.refusals if found.queue == queue and found.refused), None
    )
    if refusal is not None:
        message = f"queue '{queue}' is not part of the queue tree: {refusal.field}: {refusal.message}"
        return Obstacle("QueueNotPlaced", message, REPORT_DELAY)
    return Obstacle("QueueNotFound", f"queue '{queue}' not found; create it or use another queue", REPORT_DELAY)


def queue_takes_no_jobs(context: SchedulingContext, leaf: JobNode) -> Obstacle | None:
    """Only leaf queues start jobs."""
    if context.sync.is_leaf_queue(leaf.queue):
        return None
    return Obstacle(
        "QueueNotLeaf", f"queue '{leaf.queue.queue_name}' is a parent queue; use one of its leaf queues", REPORT_DELAY
    )


def asks_for_more_than_there_is(context: SchedulingContext, leaf: JobNode) -> Obstacle | None:
    """A job still to be enqueued whose minResources exceed the capacity of the whole cluster."""
    spec, capacity = leaf.job.spec, context.state.capacity
    if spec is None or leaf.job.phase is not JobPhase.PENDING or not context.policy.enqueues:
        return None
    more = tuple((j, n) for j, n in enumerate(spec.min_resources) if j != PODS and n > capacity[j])
    if not more or context.policy.enqueueable(leaf, context.now) is None:
        return None
    there = _amounts(context, tuple((j, capacity[j]) for j, _ in more))
    message = f"spec.minResources asks for {_amounts(context, more)}, but the cluster has {there}"
    return Obstacle("ClusterTooSmall", message)


def has_too_few_pods(context: SchedulingContext, leaf: JobNode) -> Obstacle | None:
    """A job without all the pods of its minimum; before it is enqueued they need not exist."""
    job = leaf.job
    if job.running or (job.phase is JobPhase.PENDING and context.policy.enqueues):
        return None
    reason = context.policy.job_valid(job)
    if reason is None:
        return None
    return Obstacle("NotEnoughTasks", f"{reason}; the job can start after the remaining pods are created", REPORT_DELAY)


def fits_no_node(context: SchedulingContext, leaf: JobNode) -> Obstacle | None:
    """A job whose waiting tasks, or as many as must start together, would not fit even an empty cluster."""
    job, nodes = leaf.job, context.nodes
    if not job.pending:
        return None
    barred, start = barred_shapes(job, nodes), context.policy.start_size(job)
    if len(barred) < len(job.pending) and can_ever_start(job, start, barred, nodes, context.state.capacity):
        return None
    if reason := volume_wait(barred):
        return Obstacle("WaitingForVolume", f"its pods wait for a volume: {reason}", REPORT_DELAY)
    if barred:
        shape = min(barred, key=lambda shape: shape.index)
        which = "its tasks" if len(job.pending) == 1 else "some of its tasks"
        ask = _amounts(context, shape.ask) or "nothing but a place"
        message = f"{which} ({ask}) would fit no node, not even an empty one: {_lacking(context, shape)}"
        return Obstacle("NoNodeFits", message)
    tasks = gang_tasks(job, missing_to_start(job, start), barred) or []
    ask = _amounts(context, sum_asks(parts_of(tasks)))
    rule = tasks[0].shape.topology if tasks else None
    if rule is not None and rule.hard:
        where = f"any HyperNode of tier <= {rule.highest} could hold if it were empty"
        where += say_largest(nodes, parts_of(tasks), rule, empty=True)
    else:
        where = "the cluster could hold if it were empty"
    return Obstacle("ClusterTooSmall", f"the job must start {len(tasks)} tasks together ({ask}), more than {where}")


def queue_holds_too_little(context: SchedulingContext, leaf: JobNode) -> Obstacle | None:
    """A job must start with no more than its queue and the queue's ancestors may ever hold."""
    if context.tree.root.ceiling is None:  # no queue has a limit
        return None
    found = find_oversize(leaf, context.policy.start_size(leaf.job))
    return Obstacle("QueueTooSmall", found.message(context.state.registry)) if found is not None else None


OBSTACLE_CHECKS: tuple[Callable[[SchedulingContext, JobNode], Obstacle | None], ...] = (
    queue_takes_no_jobs,
    queue_holds_too_little,
    asks_for_more_than_there_is,
    has_too_few_pods,
    fits_no_node,
)


def _lacking(context: SchedulingContext, shape: TaskShape) -> str:
    """What the nodes lack for a task; the text is stable while the nodes are."""
    nodes, names = context.nodes, context.state.registry.names
    if not nodes.nodes:
        return "there are no nodes"
    most = {j: int(nodes.allocatable[j].max()) for j, _ in shape.items}
    if absent := [names[j] for j, _ in shape.items if not most[j]]:
        return f"no node has {' or '.join(absent)}"
    if short := tuple((j, most[j]) for j, amount in shape.items if amount > most[j]):
        return f"the largest node has {_amounts(context, short, pods=True)}"
    large = np.ones(len(nodes.nodes), np.bool_)
    for j, amount in shape.items:
        large &= nodes.allocatable[j] >= amount
    if not large.any():
        return "no node has enough of every resource"
    return _excluded_by(context, shape, [node for node, is_large in zip(nodes.nodes, large, strict=True) if is_large])


def _excluded_by(context: SchedulingContext, shape: TaskShape, large: list[ClusterNode]) -> str:
    """What excludes the nodes that are large enough for a task."""
    rule, domains = shape.topology, context.state.domains
    if not any(node.schedulable for node in large):
        return "every node that is large enough is cordoned or not ready"
    if rule is not None and rule.hard and rule.chain is None:
        tiers = {tier for node in large for tier in domains.domains_of(node.name)}
        if not any(tier <= rule.highest for tier in tiers):
            return f"no node that is large enough is in a HyperNode of tier <= {rule.highest}"
    if shape.constraints.volumes is not None:
        return "no node that is large enough matches the pod's constraints and can use its volumes"
    return "no node that is large enough matches the pod's node selector, node affinity and tolerations"


def _amounts(context: SchedulingContext, items: Items, *, pods: bool = False) -> str:
    registry = context.state.registry
    return ", ".join(f"{registry.names[j]} {registry.format_amount(j, n)}" for j, n in items if pods or j != PODS)
