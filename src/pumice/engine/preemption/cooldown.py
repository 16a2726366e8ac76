"""Cooldowns that keep preemption from thrashing (docs/fairness.md, section 9.1).

Every arrival moves the targets a little. Therefore a job must have been owed its unit for some time before it preempts
(``reclaim.patience``), and a task that has just started is protected (``reclaim.minRuntime``). Where nothing writes
checkpoints, ``reclaim.maxLostWork`` bounds the work that a reclaim may destroy (section 9.8)::

    configurations:
    - name: reclaim
      arguments: {reclaim.patience: 30, reclaim.minRuntime: 60, reclaim.maxLostWork: 3600}     # seconds

The caller supplies the defaults for a configuration that sets neither: the live scheduler uses ``LIVE``, a simulated
scenario uses no cooldown.
"""

from __future__ import annotations

from dataclasses import dataclass

from pumice.engine.config.scheduler_config import ConfigError, SchedulerConfig
from pumice.engine.plugins.builtin.arguments import seconds
from pumice.engine.plugins.plugin import Argument, PluginError

PATIENCE = "reclaim.patience"
MIN_RUNTIME = "reclaim.minRuntime"
MAX_LOST_WORK = "reclaim.maxLostWork"
TAKES = (
    Argument(PATIENCE, "30, in a scenario 0", "seconds a job must have been owed before it takes"),
    Argument(MIN_RUNTIME, "60, in a scenario 0", "seconds a task is left alone after its start"),
    Argument(
        MAX_LOST_WORK, "-1: no limit", "work that evictions may lose, in seconds of the capacity that is reclaimed"
    ),
)


@dataclass(frozen=True, slots=True)
class PreemptionCooldown:
    """How long a preemptor waits and how long a started task is protected, in microseconds.

    ``max_lost_work``: the work that a reclaim may destroy, in microseconds of the units that start; below 0: any.
    """

    patience: int = 0
    min_runtime: int = 0
    max_lost_work: int = -1


NO_COOLDOWN = PreemptionCooldown()
LIVE = PreemptionCooldown(30_000_000, 60_000_000)


def configured_cooldown(config: SchedulerConfig, default: PreemptionCooldown = NO_COOLDOWN) -> PreemptionCooldown:
    """Read the cooldown from a configuration; raises ConfigError, which names the line."""
    given = config.arguments_of("reclaim")
    try:
        return PreemptionCooldown(
            seconds(given, PATIENCE, default.patience),
            seconds(given, MIN_RUNTIME, default.min_runtime),
            seconds(given, MAX_LOST_WORK, default.max_lost_work, never=True),
        )
    except PluginError as error:
        line = config.configurations["reclaim"].line_of(error.argument)
        raise ConfigError(config.source, line, f"reclaim: {error.argument}: {error}") from None
