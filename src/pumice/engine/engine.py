"""The engine: events in, decisions out. Pure and deterministic: no I/O, no clock, no threads, no randomness.

``apply`` accepts events at any time and only records what they change. ``cycle`` brings the derived structures up to
date, runs the actions and returns the decisions. The state assumes that the engine's own decisions succeed; the caller
reports by events that they did, or that they failed.

``Engine`` is the facade for its callers. Everything inside works on its ``context``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubebase.resource_vector import Registry
from pumice.engine.checkpoint.engine_checkpoint import EngineCheckpoint
from pumice.engine.config.scheduler_config import SchedulerConfig
from pumice.engine.context import SchedulingContext
from pumice.engine.cycle import run_cycle
from pumice.engine.decisions import Decision
from pumice.engine.events import Event, EvictFailed
from pumice.engine.plugins.plugin_chain import PluginFactory
from pumice.engine.preemption.cooldown import NO_COOLDOWN, PreemptionCooldown
from pumice.engine.prepare.prepare_cycle import prepare_cycle
from pumice.engine.prepare.usage_accounting import UsageAccounting
from pumice.engine.state.cluster_state import ClusterState


def ignore_step(name: str) -> None:
    """The default for callers of ``cycle`` that do not measure its steps."""


class Engine:
    """The scheduling engine of one cluster under one configuration."""

    def __init__(
        self,
        config: SchedulerConfig,
        factories: Mapping[str, PluginFactory],
        registry: Registry | None = None,
        cooldown: PreemptionCooldown = NO_COOLDOWN,
    ) -> None:
        self.cooldown = cooldown  # the cooldown, unless the configuration sets one
        self.context = context = SchedulingContext(config, factories, ClusterState(registry), cooldown)
        self.state, self.tree, self.order = context.state, context.tree, context.order
        self.policy, self.nodes, self.candidates = context.policy, context.nodes, context.candidates
        self.state.usage_observer = UsageAccounting(context)

    @property
    def now(self) -> int:
        """The time of the latest cycle (microseconds)."""
        return self.context.now

    def apply(self, event: Event) -> None:
        """Apply one event."""
        if self.tree.width < len(self.state.registry):
            self.tree.widen(len(self.state.registry))
        self.state.apply(event)
        if isinstance(event, EvictFailed):
            self.context.eviction_backoff.failed(event.task, self.context.now)

    def cycle(self, now: int, on_step: Callable[[str], None] = ignore_step) -> list[Decision]:
        """Run one scheduling cycle at that time (microseconds, never backwards) and return its decisions.

        ``on_step`` is called with the name of each step when it begins, and with an empty name at the end.
        """
        context = self.context
        context.now = max(context.now, now)
        context.decided.begin_cycle()
        context.eviction_backoff.forget_gone(self.state.tasks, len(self.state.tasks))
        context.pipelined.forget_started()
        self.state.changed_jobs.update(dict.fromkeys(self.state.successions.pass_time(context.now)))
        run_cycle(context, on_step)
        return context.decided.decisions

    def prepare(self, now: int | None = None) -> None:
        """Bring targets and candidates up to date without deciding anything."""
        if now is not None:
            self.context.now = max(self.context.now, now)
        prepare_cycle(self.context)

    def checkpoint(self) -> EngineCheckpoint:
        """The state that only this engine has, for one that replaces it. Call it between two cycles."""
        context = self.context
        decided = context.decided
        return EngineCheckpoint(
            context.now,
            context.last_start,
            context.tracing,
            context.changes.target_version,
            dict(decided.conditions),
            dict(decided.queue_conditions),
            dict(context.pipelined.awaited),
            context.eviction_backoff.checkpoint(),
            context.tree.turns(),
            context.reclaimers.checkpoint(),
            context.preemptors.checkpoint(),
            context.reservations.checkpoint(context.nodes) if context.reservations is not None else None,
            dict(context.partial_gangs),
            tuple(context.state.unexpected_pods),
            context.first_cycle_done,
            context.unstartable.checkpoint(),
        )

    def restore(self, memory: EngineCheckpoint) -> None:
        """Continue in the place of an engine that had this checkpoint; the cluster state must be restored already."""
        context = self.context
        decided, changes = context.decided, context.changes
        context.now, context.last_start, context.tracing = memory.now, memory.stamp, memory.tracing
        decided.conditions, decided.queue_conditions = dict(memory.conditions), dict(memory.queue_conditions)
        context.pipelined.awaited = dict(memory.awaited)
        context.eviction_backoff.restore(memory.evictions_failed)
        context.partial_gangs = dict(memory.incomplete)
        context.state.unexpected_pods, context.first_cycle_done = dict.fromkeys(memory.arrivals), memory.acquainted
        prepare_cycle(context)
        context.tree.restore_turns(memory.turns)
        changes.usage = True  # rounding breaks ties by the latest turn
        changes.target_version = memory.solved
        context.reclaimers.restore(memory.reclaims, context.tree)
        context.preemptors.restore(memory.preempts, context.tree)
        context.unstartable.restore(memory.unstartable, context)
        if context.reservations is not None and memory.holds is not None:
            context.reservations.restore(memory.holds, context)

    def validate(self) -> None:
        """Check every derived structure against its source. Slow; for tests."""
        context = self.context
        context.state.validate()
        context.tree.validate()
        context.sync.validate()
        context.candidates.validate()
        context.pipelined.validate(context.state)
        assert all(key in context.tree.jobs for key in context.partial_gangs)
