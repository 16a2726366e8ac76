"""Consent: which plugins speak for a taker. Every plugin may object to a victim; these are the ones that agree.

A victim goes only if some plugin is for it (docs/fairness.md, section 9.9): between queues the plugin that orders the
queues; inside a queue ``priority`` for jobs of lower classes, and ``drf``, or whoever orders jobs by share, for equals.
A plugin whose ``enableReclaimable`` or ``enablePreemptable`` is off has no say. Where nobody is left who agrees, nobody
is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pumice.engine.config.scheduler_config import Flag, PluginConfig
from pumice.engine.fairness.share_tree.tree import JobNode
from pumice.engine.plugins.plugin import Plugin


@dataclass(frozen=True, slots=True)
class PluginConsent:
    """What some plugin agrees to."""

    queues: bool  # a queue takes from another by what both hold
    shares: bool  # a job or a namespace takes from another of its queue by what both hold
    classes: bool  # a job takes from one of a lower class in its queue
    tasks: bool  # a task takes from a less important one of its own job

    def given(self, taker: JobNode, victim: JobNode, *, across: bool) -> bool:
        """Whether somebody may agree that one job takes from another; by what both hold is not said here."""
        if across:
            return self.queues
        if self.shares:
            return True
        return self.classes and taker.parent is victim.parent and taker.rank_class < victim.rank_class


def consent_of_plugins(plugins: Sequence[tuple[PluginConfig, Plugin]]) -> PluginConsent:
    """What the plugins of a configuration agree to, once it is known which of them orders the queues."""
    by_share = [entry for entry, plugin in plugins if plugin.orders_jobs_by_share()]
    by_class = [entry for entry, plugin in plugins if plugin.makes_classes]
    by_queue = [entry for entry, plugin in plugins if plugin.orders_queues] or by_share
    return PluginConsent(
        queues=any(entry.on(Flag.RECLAIMABLE) for entry in by_queue),
        shares=any(entry.on(Flag.PREEMPTABLE) for entry in by_share),
        classes=any(entry.on(Flag.PREEMPTABLE) for entry in by_class),
        tasks=all(entry.on(Flag.PREEMPTABLE) for entry in by_class),
    )
