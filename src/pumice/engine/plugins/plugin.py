"""The plugin interface: the hooks of a policy, and when the engine calls them.

A plugin is a small class that overrides the hooks it needs. The cycle calls the plugins in the order of the tiers in
the configuration file; each hook's docstring states its caller, when it is called, and what the result means. A plugin
lives as long as its configuration; it must not keep state that cannot be derived from the cluster.

Order hooks return *keys* (smaller first) instead of comparing: the tiers combine them into a tuple. Node hooks run once
per shape, over all nodes at once, not once per task and node.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kubebase.resource_vector import Registry
from pumice.engine.fairness.orders.serving_order import ServingOrder
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.job import Job
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import TaskShape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pumice.engine.candidates.units import AllocationUnit
    from pumice.engine.config.scheduler_config import PluginConfig
    from pumice.engine.placement.node_table import NodeTable

Arguments = Mapping[str, object]


class Argument(NamedTuple):
    """An argument of a plugin or an action, for documentation: ``<...>`` in its name stands for any word."""

    name: str
    default: str
    meaning: str

    def is_called(self, name: str) -> bool:
        """Whether this is the argument of that name."""
        start, variable, _ = self.name.partition("<")
        return name.startswith(start) and len(name) > len(start) if variable else name == self.name


class PluginError(ValueError):
    """Invalid plugin arguments; ``argument`` names the offending one."""

    def __init__(self, argument: str, message: str) -> None:
        super().__init__(message)
        self.argument = argument


@dataclass(slots=True)
class CapacityWeights:
    """How idle capacity counts in a task's score: ``constant + sum(linear[j] * f_j) - uneven * deviation(f)``.

    ``f_j`` is the fraction of resource j that stays idle on the node with the task placed; the deviation is the
    standard deviation of ``f_j`` over ``even``. The weights of several plugins add up.
    """

    constant: float = 0.0
    linear: dict[int, float] = field(default_factory=dict)
    uneven: float = 0.0
    even: tuple[int, ...] = ()


class Plugin:
    """Base of all plugins: every hook does nothing."""

    name = ""
    takes: tuple[Argument, ...] | None = None
    """The arguments it takes; others are reported as without effect. None: not declared."""
    registry: Registry
    """Names and units of resources; set before any hook is called."""
    config: PluginConfig
    """This plugin's entry in the configuration (its flags); set before any hook is called."""
    tree: ShareTree
    """The share tree, with all accounts; set before any hook is called."""
    state: ClusterState
    """The cluster state, read-only; set before any hook is called."""
    order: ServingOrder
    """The serving order of the tree; set before any hook is called in a cycle."""
    orders_queues = False
    """Whether the order of queues in force is this plugin's; set before any hook is called."""
    jobs_by_share = False
    """Whether some plugin orders the jobs of a queue by their holdings; set before any hook is called."""
    reads_ledger = False
    """Whether it reads ``request``, ``inqueue`` or ``elastic`` of nodes; they are kept only if some plugin does."""

    def __init__(self, arguments: Arguments) -> None:
        """Read the arguments of the configuration file; raises PluginError if they are invalid."""

    # --- orders ---------------------------------------------------------------------------------------------

    def queue_order(self, tree: ShareTree, capacity: list[int]) -> ServingOrder | None:
        """Called once when the engine is built: the serving order of the share tree (enableQueueOrder).

        The first plugin in the tiers that returns one supplies it.
        """
        return None

    def job_key(self, job: Job, priority: int, started: bool) -> int | None:
        """Called whenever a job changes: its key among the jobs of its queue (enableJobOrder). None: abstain."""
        return None

    makes_classes = False
    """Whether ``job_key`` orders jobs permanently, so that they are entitled one class after another
    (docs/fairness.md, section 3.1), or only breaks ties.
    """

    def orders_jobs_by_share(self) -> bool:
        """Whether this plugin's position in the tiers is where a job's share counts."""
        return False

    # --- gates ------------------------------------------------------------------------------------------------

    def job_valid(self, job: Job) -> str | None:
        """Called when a job changes, before it may start anything: a reason to reject it, or None."""
        return None

    def start_size(self, job: Job) -> int:
        """Called when a job changes: how many tasks it must start together (enableJobReady). The largest counts."""
        return 0

    def set_bounds(self) -> None:
        """Called before targets are set, whenever queues, demand or capacity changed.

        Sets ``guarantee``, ``ceiling`` or ``deserved`` of nodes of the tree, or ``limited`` of the tree.
        """

    def bounds_moved(self) -> bool:
        """Called after tasks started or ended: whether bounds differ although queues, demand and capacity do not."""
        return False

    def queue_refusals(self) -> Mapping[str, str]:
        """Called when queues or capacity changed: queues that may start nothing, nor any below them, and why."""
        return {}

    def queue_notes(self) -> Mapping[tuple[str, str], str]:
        """Called at the end of each cycle: conditions to report on queues, by queue and type of condition."""
        return {}

    def enqueueable(self, leaf: JobNode) -> str | None:
        """Called by enqueue for a Pending job (enableJobEnqueued): a reason to reject it, or None."""
        return None

    def must_enqueue(self, leaf: JobNode, now: int) -> bool:
        """Called by enqueue for a Pending job (enableJobEnqueued): whether to enqueue it despite later plugins."""
        return False

    def overused(self, queue: ShareNode) -> str | None:
        """Called by allocate for a job's queue (enabledOverused): a reason why it gets nothing more, or None."""
        return None

    def allocatable(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """Called by allocate before a unit is placed (enabledAllocatable): a reason to reject it, or None."""
        return None

    def gives_way(self, leaf: JobNode, unit: AllocationUnit) -> bool:
        """Called by allocate for a unit that ``allocatable`` rejected (enabledAllocatable), once no other job can
        start.

        Whether it may start nevertheless, on capacity that would stay idle.
        """
        return False

    # --- nodes ------------------------------------------------------------------------------------------------

    def node_rule(self, leaf: JobNode) -> Hashable | None:
        """Called when a job or some queue changes: the property of the job that decides where its tasks may run, or
        None.

        Tasks of jobs that differ in it have different shapes; the hooks below read it with ``shape.rule_of(name)``.
        """
        return None

    def node_filter(self, shape: TaskShape, nodes: NodeTable) -> NDArray[np.bool_] | None:
        """Called once per shape until nodes change (enablePredicate): the feasible nodes, free or not."""
        return None

    def node_filter_now(self, shape: TaskShape, nodes: NodeTable) -> NDArray[np.bool_] | None:
        """Called for each placement of a coupled shape (ports, pod affinity, spreading): the nodes feasible now."""
        return None

    def node_reasons(self, shape: TaskShape, nodes: NodeTable) -> Iterable[tuple[str, NDArray[np.bool_]]]:
        """Called to explain where a shape may not run: reasons, each with the nodes that pass.

        The nodes that pass all of them are those that pass ``node_filter`` and ``node_filter_now``.
        """
        return ()

    def node_score(self, shape: TaskShape, nodes: NodeTable) -> NDArray[np.float64] | None:
        """Called once per shape until nodes change (enableNodeOrder): a score per node, whatever its usage."""
        return None

    def node_score_now(self, shape: TaskShape, nodes: NodeTable) -> NDArray[np.float64] | None:
        """Called for each placement of a shape that is coupled or has a role: a score that depends on placed pods."""
        return None

    def room_weights(self, shape: TaskShape) -> CapacityWeights | None:
        """Called once per shape: how idle capacity counts in the score (enableNodeOrder)."""
        return None

    def keep_shapes(self, used: Container[TaskShape]) -> None:
        """Called when unused shapes are dropped: forget whatever is cached for other shapes than these."""

    # --- victims ----------------------------------------------------------------------------------------------
    # Victims are judged one after another: the preemptor's unit is charged, and victims already chosen are uncharged,
    # when the next is judged. Only ``preemptive`` runs before the unit is charged. A rejection of one task of a job
    # also holds for its tasks of the same shape on the same node during that preemptor's search: with fewer tasks a job
    # has less to lose. Checks on one task alone belong in ``evictable``.

    def preemptive(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """Called by reclaim for a preemptor (enablePreemptive): a reason why it may not take from other queues."""
        return None

    def reclaimable(self, preemptor: JobNode, unit: AllocationUnit, victim: Task) -> bool:
        """Called by reclaim (enableReclaimable): whether the preemptor may evict this task of another queue."""
        return True

    def preemptable(self, preemptor: JobNode, unit: AllocationUnit, victim: Task) -> bool:
        """Called by preempt (enablePreemptable): whether the preemptor may evict this task of its own queue."""
        return True

    def can_go_on(self, job: Job, without: Task | None = None) -> bool:
        """Called by reclaim and preempt: whether a job can continue without that task.

        If not, the task can only be evicted together with the rest of the job.
        """
        return True

    def evictable(self, task: Task) -> bool:
        """Called by reclaim and preempt: whether the task may be a victim at all, for any preemptor."""
        return True

    # --- notifications ------------------------------------------------------------------------------------------

    def placed(self, task: Task, node: ClusterNode) -> None:
        """Called after a task was placed on a node, by an event or by a decision that may be undone.

        Its status determines how it counts. An evicted task is first ``removed`` with its old status, then ``placed``
        as Releasing: it occupies its node until it is gone.
        """

    def removed(self, task: Task, node: ClusterNode) -> None:
        """Called after a task left a node; exactly undoes ``placed``."""
