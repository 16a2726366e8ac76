"""Plugin consent: which plugins support a preemption. Every plugin may veto a victim; the plugins here are in favour.

A task is evicted only if at least one plugin supports it (docs/fairness.md, section 9.9): between queues the plugin
that orders the queues; inside a queue ``priority`` for jobs of lower classes, and ``drf``, or whichever plugin orders
jobs by share, for jobs of the same class. A plugin whose ``enableReclaimable`` or ``enablePreemptable`` is off does not
count. If no plugin supports a kind of preemption, it does not happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pumice.engine.config.scheduler_config import Flag, PluginConfig
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.plugins.plugin import Plugin


@dataclass(frozen=True, slots=True)
class PluginConsent:
    """The kinds of preemption that at least one plugin supports."""

    queues: bool  # one queue reclaims from another, by their shares
    shares: bool  # a job or namespace preempts another in its queue, by their shares
    classes: bool  # a job preempts one of a lower priority class in its queue
    tasks: bool  # a task preempts a lower-priority task of its own job

    def given(self, preemptor: JobNode, victim: JobNode, *, across: bool) -> bool:
        """Whether a plugin may support that ``preemptor`` preempts ``victim``; the rule compares their shares."""
        if across:
            return self.queues
        if self.shares:
            return True
        return self.classes and preemptor.parent is victim.parent and preemptor.rank_class < victim.rank_class


def consent_of_plugins(plugins: Sequence[tuple[PluginConfig, Plugin]]) -> PluginConsent:
    """What the plugins of a configuration support, once it is known which of them orders the queues."""
    by_share = [entry for entry, plugin in plugins if plugin.orders_jobs_by_share()]
    by_class = [entry for entry, plugin in plugins if plugin.makes_classes]
    by_queue = [entry for entry, plugin in plugins if plugin.orders_queues] or by_share
    return PluginConsent(
        queues=any(entry.on(Flag.RECLAIMABLE) for entry in by_queue),
        shares=any(entry.on(Flag.PREEMPTABLE) for entry in by_share),
        classes=any(entry.on(Flag.PREEMPTABLE) for entry in by_class),
        tasks=all(entry.on(Flag.PREEMPTABLE) for entry in by_class),
    )
