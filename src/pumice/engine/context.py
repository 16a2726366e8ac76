"""What every step of a cycle works on: the cluster, the share tree, the node table and the state around them.

Actions, preemption and recovery take a ``SchedulingContext`` and not the engine, so that each of them can be run and
tested without one. The context has no logic of its own beyond the two queries at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pumice.engine.candidates.candidates import Candidates
from pumice.engine.candidates.unstartable_jobs import UnstartableJobs
from pumice.engine.config.scheduler_config import SchedulerConfig
from pumice.engine.decision_buffer import DecisionBuffer
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.engine.placement.node_table import NodeTable
from pumice.engine.placement.pipelined_tasks import PipelinedTasks
from pumice.engine.placement.reservations import Reservations
from pumice.engine.plugins.plugin_chain import PluginChain, PluginFactory
from pumice.engine.preemption.cooldown import NO_COOLDOWN, PreemptionCooldown, configured_cooldown
from pumice.engine.preemption.preemptors import Preemptors
from pumice.engine.prepare import shape_cleanup as forgetting
from pumice.engine.prepare.change_tracker import ChangeTracker
from pumice.engine.prepare.tree_sync import TreeSync
from pumice.engine.recovery.eviction_backoff import EvictionBackoff
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.task import Task

if TYPE_CHECKING:
    from pumice.engine.transaction import Eviction

    EvictionAudit = Callable[[list[Eviction]], None]


class SchedulingContext:
    """One cluster under one configuration. Each attribute's comment states what holds between two cycles."""

    def __init__(
        self,
        config: SchedulerConfig,
        factories: Mapping[str, PluginFactory],
        state: ClusterState,
        cooldown: PreemptionCooldown,
    ) -> None:
        self.state = state  #: the cluster as reported by events, with our own decisions applied
        self.tree = ShareTree(len(state.registry))  #: usage, demand and targets of queues, namespaces and jobs
        self.policy = PluginChain(config, factories, state, self.tree)  #: the plugins of the configuration
        self.order = self.policy.order(self.tree, state.capacity)  #: which job is served next
        self.nodes = NodeTable(self.policy.filters, self.policy.scorers)  #: free capacity and scores, as arrays
        self.candidates = Candidates(state, self.order, self.nodes, self.policy)  #: the next unit of every job
        self.changes = ChangeTracker()  #: what changed since the last cycle
        self.decided = DecisionBuffer()  #: the decisions of this cycle, and the latest conditions
        self.pipelined = PipelinedTasks()  #: tasks that wait on a node for their victims to leave
        self.eviction_backoff = EvictionBackoff()  #: tasks whose eviction failed
        self.partial_gangs: dict[str, int] = {}  #: jobs of whose gang only a part is bound, and since when
        self.reservations = (
            Reservations(self.order.patience, self.order.hold_limit) if self.order.patience >= 0 else None
        )
        self.unstartable = UnstartableJobs()  #: jobs that cannot start however much capacity becomes free
        self.reclaimers = Preemptors("reclaim", configured_cooldown(config, cooldown), across=True)
        self.preemptors = Preemptors("preempt", NO_COOLDOWN, across=False)
        self.sync = TreeSync(self)  #: keeps the share tree in line with queues and jobs
        self.now = 0  #: cluster time of this cycle (microseconds)
        self.last_start = 0  #: start time of the latest unit; no two units have the same
        self.tracing = False  #: whether decisions carry the path through the share tree that led to them
        self.first_cycle_done = False  #: before it, every pod is seen for the first time
        self.eviction_audit: EvictionAudit | None = None  #: called with the victims of each unit that is committed
        self.shape_limit = forgetting.FIRST_SHAPE_LIMIT  #: above this number of shapes, unused ones are dropped

    def next_start_time(self) -> int:
        """The start time of a unit that is placed now. It is used up once the unit is committed."""
        return max(self.now, self.last_start + 1)

    def allows_beside_others(self, task: Task, node: ClusterNode) -> bool:
        """Whether inter-pod constraints allow a placed task on its node, not counting the task itself."""
        for plugin in self.policy.followers:
            plugin.removed(task, node)
        allowed = self.nodes.allows_now(task.shape, self.nodes.index[node.name])
        for plugin in self.policy.followers:
            plugin.placed(task, node)
        return allowed
