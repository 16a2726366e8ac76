"""The plugins of a configuration combined: one object that answers for all tiers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pumice.engine.config.scheduler_config import Flag, PluginConfig, SchedulerConfig
from pumice.engine.fairness.orders.serving_order import FirstComeOrder, FlatDrfOrder, ServingOrder
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.engine.fairness.share_tree.usage_ledger import Ledger
from pumice.engine.plugins.plugin import Arguments, Plugin
from pumice.engine.preemption.plugin_consent import PluginConsent, consent_of_plugins
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.job import Job
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import Rules

if TYPE_CHECKING:
    from pumice.engine.candidates.units import AllocationUnit

PluginFactory = Callable[[Arguments], Plugin]

ALWAYS = ("users", "network-topology-aware")
"""Plugins added at the end of the tiers if a file does not name them: limits of queues and domains always apply."""


class JobSortKeys:
    """A job's keys from the tiers: before the share, after it, and those that define classes."""

    __slots__ = ("after", "before", "rank_class")

    def __init__(self, before: tuple[int, ...], after: tuple[int, ...], rank_class: tuple[int, ...]) -> None:
        self.before = before
        self.after = after
        self.rank_class = rank_class


class PluginChain:
    """All plugins in the order of the tiers."""

    consent: PluginConsent
    """The plugins' consent to preemptions; set once the order of the tree is known."""

    def __init__(
        self, config: SchedulerConfig, factories: Mapping[str, PluginFactory], state: ClusterState, tree: ShareTree
    ) -> None:
        self.config = config
        self.enqueues = "enqueue" in config.actions
        # Whether preempt serves a job only until it has its minMember, as Volcano does.
        self.preempts_to_minimum = any(e.name == "gang" and e.on(Flag.JOB_STARVING) for e in config.plugins)
        self.plugins: list[tuple[PluginConfig, Plugin]] = []
        named = {entry.name for entry in config.plugins}
        unnamed = [PluginConfig(name) for name in ALWAYS if name not in named]
        for entry in (*config.plugins, *unnamed):
            plugin = factories[entry.name](entry.arguments)
            plugin.registry, plugin.state, plugin.tree = state.registry, state, tree
            plugin.config = entry
            self.plugins.append((entry, plugin))
        self._job_order = self.having("job_key", Flag.JOB_ORDER)
        by_share = [i for i, plugin in enumerate(self._job_order) if plugin.orders_jobs_by_share()]
        self._share_at = by_share[0] if by_share else len(self._job_order)
        self.jobs_by_share = bool(by_share)  # whether some plugin orders the jobs of a queue by their holdings
        for _, plugin in self.plugins:
            plugin.jobs_by_share = bool(by_share)
        self.ledger = Ledger(tree) if any(plugin.reads_ledger for _, plugin in self.plugins) else None
        self._classes = [plugin.makes_classes and i < self._share_at for i, plugin in enumerate(self._job_order)]
        self._valid = self.having("job_valid", None)
        self._start = self.having("start_size", Flag.JOB_READY)
        self._enqueue = [p for p in self._with(Flag.JOB_ENQUEUED) if _overrides(p, "enqueueable", "must_enqueue")]
        self._allocatable = self.having("allocatable", Flag.ALLOCATABLE)
        self._overused = self.having("overused", Flag.OVERUSED)
        self._may_take = self.having("preemptive", Flag.PREEMPTIVE)
        self._reclaimable = self.having("reclaimable", Flag.RECLAIMABLE)
        self._preemptable = self.having("preemptable", Flag.PREEMPTABLE)
        self._evictable = self.having("evictable", None)
        self._can_go_on = self.having("can_go_on", None)
        self._bounds = self.having("set_bounds", None)
        self._bounds_moved = self.having("bounds_moved", None)
        self._refusals = self.having("queue_refusals", None)
        self._notes = self.having("queue_notes", None)
        self._rules = self.having("node_rule", None)
        self.filters = self.having("node_filter", Flag.PREDICATE)
        self.scorers = [
            p for p in self._with(Flag.NODE_ORDER) if _overrides(p, "room_weights", "node_score", "node_score_now")
        ]
        self.followers = [p for _, p in self.plugins if _overrides(p, "placed")]
        self.shape_caches = self.having("keep_shapes", None)

    def _with(self, flag: Flag | None) -> list[Plugin]:
        return [plugin for entry, plugin in self.plugins if flag is None or entry.on(flag)]

    def having(self, hook: str, flag: Flag | None) -> list[Plugin]:
        """The plugins that implement a hook and have its flag on, in tier order."""
        return [plugin for plugin in self._with(flag) if _overrides(plugin, hook)]

    def order(self, tree: ShareTree, capacity: list[int]) -> ServingOrder:
        """The order of the share tree: that of the first plugin in the tiers that has one, else by jobs' holdings."""
        order = self._queue_order(tree, capacity)
        for _, plugin in self.plugins:
            plugin.order = order
        self.consent = consent_of_plugins(self.plugins)
        return order

    def _queue_order(self, tree: ShareTree, capacity: list[int]) -> ServingOrder:
        for plugin in self.having("queue_order", Flag.QUEUE_ORDER):
            order = plugin.queue_order(tree, capacity)
            if order is not None:
                plugin.orders_queues = True
                return order
        by_share = self.jobs_by_share or self.namespace_level
        return FlatDrfOrder(tree, capacity) if by_share else FirstComeOrder(tree, capacity)

    @property
    def namespace_level(self) -> bool:
        """Whether namespaces are a level of the tree: the drf plugin's enableNamespaceOrder."""
        return any(entry.name == "drf" and entry.on(Flag.NAMESPACE_ORDER) for entry, _ in self.plugins)

    # --- jobs --------------------------------------------------------------------------------------------------

    def job_keys(self, job: Job, priority: int, started: bool) -> JobSortKeys:
        """A job's sort keys among the jobs of its queue."""
        before: list[int] = []
        after: list[int] = []
        classes: list[int] = []
        for i, plugin in enumerate(self._job_order):
            key = plugin.job_key(job, priority, started)
            if key is not None:
                (before if i < self._share_at else after).append(key)
                if self._classes[i]:
                    classes.append(key)
        return JobSortKeys(tuple(before), tuple(after), tuple(classes))

    def start_size(self, job: Job) -> int:
        """How many tasks the job must start together; 0 if no plugin says."""
        sizes = [plugin.start_size(job) for plugin in self._start]
        return max(sizes) if sizes else 0

    def job_valid(self, job: Job) -> str | None:
        """Why a job may not start anything, None if it may."""
        for plugin in self._valid:
            reason = plugin.job_valid(job)
            if reason is not None:
                return reason
        return None

    def node_rules(self, leaf: JobNode) -> Rules:
        """The node rules of all plugins for a job."""
        rules: list[tuple[str, Hashable]] = []
        for plugin in self._rules:  # for every job that changed: no generators
            rule = plugin.node_rule(leaf)
            if rule is not None:
                rules.append((plugin.name, rule))
        return tuple(rules)

    def set_bounds(self) -> None:
        """Have every plugin set its bounds on nodes of the tree."""
        if self.ledger is not None:
            self.ledger.sync()
        for plugin in self._bounds:
            plugin.set_bounds()

    def bounds_moved(self) -> bool:
        """Whether some plugin's bounds changed through placements alone."""
        return any(plugin.bounds_moved() for plugin in self._bounds_moved)

    def queue_refusals(self) -> dict[str, str]:
        """Queues that may start nothing, and why; the first plugin that rejects a queue supplies the reason."""
        refused: dict[str, str] = {}
        for plugin in self._refusals:
            refused = {**plugin.queue_refusals(), **refused}
        return refused

    def queue_notes(self) -> dict[tuple[str, str], str]:
        """Conditions to report on queues, by queue and type of condition."""
        return {key: note for plugin in self._notes for key, note in plugin.queue_notes().items()}

    def enqueueable(self, leaf: JobNode, now: int) -> str | None:
        """Why a Pending job must wait, None if it need not. The first plugin in the tiers with a verdict decides."""
        if self.ledger is not None:
            self.ledger.sync()
        for plugin in self._enqueue:
            if plugin.must_enqueue(leaf, now):
                return None
            reason = plugin.enqueueable(leaf)
            if reason is not None:
                return reason
        return None

    def allocatable(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """Why a unit may not start now, None if it may."""
        if self._overused:
            queue = leaf.queue
            reason = _first_reason(plugin.overused(queue) for plugin in self._overused)
            if reason is not None:
                return reason
        for plugin in self._allocatable:  # hot path: no generator
            reason = plugin.allocatable(leaf, unit)
            if reason is not None:
                return reason
        return None

    def gives_way(self, leaf: JobNode, unit: AllocationUnit) -> bool:
        """Whether all plugins that reject a unit would rather start it than leave capacity idle."""
        return all(plugin.gives_way(leaf, unit) for plugin, _ in self.refusals(leaf, unit))

    def refusals(self, leaf: JobNode, unit: AllocationUnit) -> Iterator[tuple[Plugin, str]]:
        """Every plugin that rejects a unit now, and why: ``allocatable`` is None iff there is none."""
        for plugin in self._overused:
            if (reason := plugin.overused(leaf.queue)) is not None:
                yield plugin, reason
        for plugin in self._allocatable:
            if (reason := plugin.allocatable(leaf, unit)) is not None:
                yield plugin, reason

    def preemptive(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """Why a job may not take from other queues, None if it may."""
        return _first_reason(plugin.preemptive(leaf, unit) for plugin in self._may_take)

    def reclaimable(self, preemptor: JobNode, unit: AllocationUnit, victim: Task) -> bool:
        """Whether every plugin agrees to evict a task of another queue."""
        return all(plugin.reclaimable(preemptor, unit, victim) for plugin in self._reclaimable)

    def preemptable(self, preemptor: JobNode, unit: AllocationUnit, victim: Task) -> bool:
        """Whether every plugin agrees to evict a task of the same queue."""
        return all(plugin.preemptable(preemptor, unit, victim) for plugin in self._preemptable)

    def can_go_on(self, job: Job, without: Task | None = None) -> bool:
        """Whether every plugin agrees that a job can continue without that task."""
        return all(plugin.can_go_on(job, without) for plugin in self._can_go_on)

    def evictable(self, task: Task) -> bool:
        """Whether every plugin agrees that the task may be a victim."""
        return all(plugin.evictable(task) for plugin in self._evictable)


def _overrides(plugin: Plugin, *hooks: str) -> bool:
    return any(getattr(type(plugin), hook) is not getattr(Plugin, hook) for hook in hooks)


def _first_reason(reasons: Iterable[str | None]) -> str | None:
    return next((reason for reason in reasons if reason is not None), None)
