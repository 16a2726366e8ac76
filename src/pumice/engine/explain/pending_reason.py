"""Why the pods of a job are pending, as the condition ``PodScheduled`` says it: one reason and one message per job.

The reason ``Unschedulable`` asks cluster autoscalers for nodes. So it is used only if the job could start in a larger
cluster. A job that a limit of its queue, its user or a plugin stops, or that lacks pods, gets another reason. Messages
about nodes follow kube-scheduler.

Unlike ``explain``, this leaves the engine as it is, so that a scheduler can ask it between two cycles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kubebase.resource_vector import PODS
from pumice.engine.candidates.job_demand import volume_wait
from pumice.engine.candidates.units import AllocationUnit, gang_tasks, missing_to_start, parts_of, sum_asks
from pumice.engine.explain.limit_report import limits_of
from pumice.engine.explain.wait_report import Limit
from pumice.engine.explain.wording import AmountFormatter, listed
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.engine.fairness.share_tree.usage_ledger import least_of
from pumice.engine.placement.domain_placement import no_domain
from pumice.engine.plugins.builtin.predicates import PredicatesPlugin
from pumice.engine.state.job import Job
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import Items, JobPhase, QueueState

if TYPE_CHECKING:
    from pumice.engine.engine import Engine
    from pumice.engine.placement.node_table import Mask, NodeTable

UNSCHEDULABLE = "Unschedulable"
"""The reason to which cluster autoscalers react."""
LIMIT_REASONS = {"capability": "QueueLimit", "user": "UserLimit", "deserved": "WaitingForShare"}
"""Reasons by kind of ``Limit``. Guarantees are not among them: a larger cluster has capacity beside them."""


@dataclass(frozen=True, slots=True)
class PendingReason:
    """The reason and the message of a condition."""

    reason: str
    message: str


PREEMPTING = PendingReason("Preempting", "Waiting for preempted pods to leave the node that was chosen for the pod.")
"""For pods that are pipelined: their capacity is being released, so no node has to be added for them."""


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """How many nodes fit a task now, how many tasks they fit, and how many are excluded for each reason."""

    nodes: int
    fitting: int
    tasks: int
    excluded: Counter[str]

    def text(self) -> str:
        """The reasons in kube-scheduler's form, the most frequent first."""
        ordered = sorted(self.excluded.items(), key=lambda entry: (-entry[1], entry[0]))
        return ", ".join(f"{number} {reason}" for reason, number in ordered)


class PendingReasons:
    """Answers for many jobs in the same state of the engine: nodes are examined once per shape."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._counts: dict[TaskShape, NodeCounts] = {}

    def of(self, job: Job) -> PendingReason | None:
        """Why the pending tasks of a job are pending; None: nothing prevents their start."""
        engine = self._engine
        if job.spec is None:
            return PendingReason("PodGroupNotFound", f"PodGroup {job.key} does not exist.")
        leaf = engine.tree.jobs.get(job.key)
        if leaf is None:
            return self._without_queue(job.spec.queue)
        return (
            self._closed_queue(leaf)
            or self._not_admitted(leaf)
            or self._incomplete_gang(job)
            or self._without_volume(leaf)
            or self._behind_head(leaf)
            or self._stopped(leaf)
            or self._without_room(leaf)
        )

    def of_enqueue(self, job: Job) -> PendingReason | None:
        """Why the action enqueue does not admit a Pending job; None: nothing prevents it, or its queue takes no jobs.

        A queue that is missing or has queues below it is an obstacle that the engine reports itself.
        """
        leaf, engine = self._engine.tree.jobs.get(job.key), self._engine
        if leaf is None or job.phase is not JobPhase.PENDING or not engine.policy.enqueues:
            return None
        if not engine.context.sync.is_leaf_queue(leaf.queue):
            return None
        return self._closed_queue(leaf) or self._not_admitted(leaf)

    # ---- queues ---------------------------------------------------------------------------------------------------

    def _without_queue(self, queue: str) -> PendingReason:
        refusals = self._engine.context.sync.queue_tree.refusals
        found = next((one for one in refusals if one.queue == queue and one.refused), None)
        if found is None:
            return PendingReason("QueueNotFound", f"Queue {queue} does not exist.")
        return PendingReason("QueueNotFound", f"Queue {queue} is not in the tree: {found.field}: {found.message}.")

    def _closed_queue(self, leaf: JobNode) -> PendingReason | None:
        sync = self._engine.context.sync
        if not sync.is_leaf_queue(leaf.queue):
            message = f"Queue {leaf.queue.path} is not a leaf queue: only leaf queues start jobs."
            return PendingReason("QueueNotLeaf", message)
        closed = sync.closed_queue_above(leaf.queue)
        if closed is None:
            return None
        if closed.state is not QueueState.OPEN:
            return PendingReason(f"Queue{closed.state.value}", f"Queue {closed.name} is {closed.state.value}.")
        return PendingReason("QueueHalted", f"Queue {closed.name} starts no jobs: {sync.refused_queues[closed.name]}.")

    # ---- admission and gangs ----------------------------------------------------------------------------------------

    def _not_admitted(self, leaf: JobNode) -> PendingReason | None:
        """A job that the action enqueue has not admitted."""
        policy = self._engine.policy
        if leaf.job.phase is not JobPhase.PENDING or not policy.enqueues:
            return None
        why = policy.enqueueable(leaf, self._engine.now)
        if why is None:
            return None
        limited = self._beyond_capability(leaf, least_of(leaf.job), promised=True) is not None
        reason = "QueueLimit" if limited else UNSCHEDULABLE
        return PendingReason(reason, f"The job is not admitted to queue {leaf.queue.path}: {why}.")

    def _incomplete_gang(self, job: Job) -> PendingReason | None:
        reason = self._engine.policy.job_valid(job)
        return PendingReason("WaitingForGang", f"Pods of the job are missing: {reason}.") if reason else None

    def _without_volume(self, leaf: JobNode) -> PendingReason | None:
        """A claim that is missing or not bound: no added node helps."""
        unit: AllocationUnit | None = leaf.unit
        waits_for = volume_wait((shape for shape, _ in unit.parts) if unit is not None else leaf.job.pending)
        if not waits_for:
            return None
        message = f"0/{len(self._engine.nodes.nodes)} nodes are available: {waits_for}."
        return PendingReason("WaitingForVolume", message)

    # ---- limits -----------------------------------------------------------------------------------------------------

    def _behind_head(self, leaf: JobNode) -> PendingReason | None:
        """In a FIFO queue: a job waits as long as its head does, and for the same nodes."""
        fifo = self._engine.candidates.fifo_queues
        if leaf.unit is None or fifo.is_head(leaf):
            return None
        below = (node for node in leaf.queue.walk() if isinstance(node, JobNode) and node.unit is not None)
        head = next(node for node in below if fifo.is_head(node))
        found = (self._stopped(head), self._stopped(leaf))
        message = f"Queue {leaf.queue.path} is FIFO, and job {head.job.key} is at its head."
        reasons = (one.reason for one in found if one is not None and one.reason != UNSCHEDULABLE)
        return PendingReason(next(reasons, UNSCHEDULABLE), message)

    def _stopped(self, leaf: JobNode) -> PendingReason | None:
        return self._at_capability(leaf) or self._limited(leaf)

    def _at_capability(self, leaf: JobNode) -> PendingReason | None:
        """A queue that may not hold what the job would start next, however large the cluster were."""
        ask = self._next_ask(leaf)
        found = self._beyond_capability(leaf, ask)
        if found is None:
            return None
        queue, j, capability = found
        say, amount = AmountFormatter(self._engine.state.registry), dict(ask)[j]
        most, held, asked = (say.amount(j, number) for number in (capability, queue.held[j], amount))
        if amount > capability:
            message = f"The job must start with {say.name(j)} {asked}; the capability of queue {queue.path} is {most}."
        else:
            holds = f"Queue {queue.path} holds {say.name(j)} {held} of its capability of {most}"
            message = f"{holds}, and the job requests {asked} more."
        return PendingReason("QueueLimit", message)

    def _next_ask(self, leaf: JobNode) -> Items:
        """What the job would start next. A job without a unit fits no node: all that it must start with."""
        if leaf.unit is not None:
            unit: AllocationUnit = leaf.unit
            return unit.ask
        missing = missing_to_start(leaf.job, self._engine.policy.start_size(leaf.job))
        return sum_asks(parts_of(gang_tasks(leaf.job, max(1, missing)) or []))

    def _beyond_capability(
        self, leaf: JobNode, ask: Items, *, promised: bool = False
    ) -> tuple[ShareNode, int, int] | None:
        """The queue, resource and capability that an ask would exceed; with what was ``promised`` to admitted jobs.

        Compares with the spec, not with the real capability: that is also limited by the present cluster.
        """
        queue: ShareNode | None = leaf.queue
        while queue is not None:
            described = self._engine.context.sync.queue_of(queue)
            capability = dict(described.capability) if described is not None and queue.ceiling is not None else {}
            for j, amount in ask:
                taken = queue.held[j] + (queue.inqueue[j] - queue.elastic[j] if promised else 0)
                if j in capability and taken + amount > capability[j]:
                    return queue, j, capability[j]
            queue = queue.parent
        return None

    def _limited(self, leaf: JobNode) -> PendingReason | None:
        """The limit that stops the job's next unit, first of all one that no added node lifts.

        A user limit that gives way stops nothing. Beyond what its queue deserves, a unit waits for its share even if it
        may borrow what nobody else can use.
        """
        unit: AllocationUnit | None = leaf.unit
        policy = self._engine.policy
        if unit is None or policy.allocatable(leaf, unit) is None:
            return None
        limits = sorted(limits_of(self._engine, leaf, unit), key=lambda limit: limit.kind == "guarantee")
        if policy.gives_way(leaf, unit):
            limits = [limit for limit in limits if limit.kind == "deserved"]
        return _reason_of(limits[0]) if limits else None

    # ---- nodes ------------------------------------------------------------------------------------------------------

    def _without_room(self, leaf: JobNode) -> PendingReason | None:
        """The nodes that exclude the shape that is hardest to place."""
        unit: AllocationUnit | None = leaf.unit
        shapes = [shape for shape, _ in unit.parts] if unit is not None else list(leaf.job.pending)
        if not shapes:
            return None
        counts = min((self._node_counts(shape) for shape in shapes), key=lambda found: found.fitting)
        size = unit.size if unit is not None else 1
        reserved = listed(self._reserved_for_others(leaf))
        is_tried = unit is not None and not self._engine.candidates.is_open(unit)
        if counts.fitting and not reserved and not is_tried:
            return None
        message = _room_message(counts, size, reserved)
        if counts.fitting and unit is not None and (outside := no_domain(self._engine.nodes, unit)):
            message = f"{outside[0].upper()}{outside[1:]}."
        return PendingReason(UNSCHEDULABLE, message)

    def _reserved_for_others(self, leaf: JobNode) -> list[str]:
        reservations = self._engine.context.reservations
        return [other.name for other in reservations.active if other is not leaf] if reservations is not None else []

    def _node_counts(self, shape: TaskShape) -> NodeCounts:
        found = self._counts.get(shape)
        if found is None:
            found = self._counts[shape] = node_counts(self._engine.nodes, shape, self._engine.state.registry.names)
        return found


def _room_message(counts: NodeCounts, size: int, reserved: str) -> str:
    if not counts.nodes:
        return "no nodes available to schedule pods"
    rest = f": {counts.text()}" if counts.excluded else ""
    if not counts.fitting:
        together = f" {size} pods must start together." if size > 1 else ""
        return f"0/{counts.nodes} nodes are available{rest}.{together}"
    available = f"{counts.fitting}/{counts.nodes} nodes are available"
    kept = f" Free capacity is reserved for {reserved}." if reserved else ""
    if size > 1:
        fit = f"only for {counts.tasks} of the" if counts.tasks < size else "not for all"
        return f"{available}, but {fit} {size} pods that must start together{rest}.{kept}"
    return f"{available}, but none can be used now{rest}.{kept}"


def _reason_of(limit: Limit) -> PendingReason:
    message = f"{limit.message[:1].upper()}{limit.message[1:]}."
    reason = UNSCHEDULABLE if limit.kind == "guarantee" else LIMIT_REASONS.get(limit.kind, "Rejected")
    return PendingReason(reason, message)


def node_counts(nodes: NodeTable, shape: TaskShape, names: Sequence[str]) -> NodeCounts:
    """Count the nodes by the first rule that excludes each; a node that lacks several resources counts for each."""
    left = np.ones(len(nodes.nodes), np.bool_)
    excluded: Counter[str] = Counter()
    for reason, passes in _rules(nodes, shape):
        number = int((left & ~passes).sum())
        if number:
            excluded[reason] += number
            left &= passes
    nodes.sync_idle()
    fits = left.copy()
    for j, amount in shape.items:
        lacks = left & (nodes.idle[j] < amount)
        if lacks.any():
            excluded["Too many pods" if j == PODS else f"Insufficient {names[j]}"] += int(lacks.sum())
            fits &= ~lacks
    slots = [nodes.idle[j][fits] // amount for j, amount in shape.items if amount]
    tasks = int(np.minimum.reduce(slots).sum()) if slots else 0
    return NodeCounts(len(nodes.nodes), int(fits.sum()), tasks, excluded)


def _rules(nodes: NodeTable, shape: TaskShape) -> Iterator[tuple[str, Mask]]:
    specs = [node.spec for node in nodes.nodes]
    yield "node(s) were not ready", np.array([spec is not None and spec.ready for spec in specs], np.bool_)
    open_nodes = np.array([spec is not None and not spec.unschedulable for spec in specs], np.bool_)
    yield "node(s) were unschedulable", open_nodes
    for plugin in nodes.filters:
        if isinstance(plugin, PredicatesPlugin):
            yield from plugin.filter_messages(shape, nodes)
            continue
        yield from ((f"node(s) rejected: {reason}", passes) for reason, passes in plugin.node_reasons(shape, nodes))
        for mask in (plugin.node_filter(shape, nodes), plugin.node_filter_now(shape, nodes) if shape.coupled else None):
            if mask is not None:
                yield f"node(s) were rejected by plugin {plugin.name}", mask
