"""Cooldowns that keep preemption from thrashing (docs/fairness.md, section 9.1).

Every arrival moves the targets a little. Therefore a job must have been owed its unit for some time before it preempts
(``reclaim.patience``), and a task that has just started is protected (``reclaim.minRuntime``)::

    configurations:
    - name: reclaim
      arguments: {reclaim.patience: 30, reclaim.minRuntime: 60}     # seconds

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
TAKES = (
    Argument(PATIENCE, "30, in a scenario 0", "seconds a job must have been owed before it takes"),
    Argument(MIN_RUNTIME, "60, in a scenario 0", "seconds a task is left alone after its start"),
)


@dataclass(frozen=True, slots=True)
class PreemptionCooldown:
    """How long a preemptor waits and how long a started task is protected, in microseconds."""

    patience: int = 0
    min_runtime: int = 0


NO_COOLDOWN = PreemptionCooldown()
LIVE = PreemptionCooldown(30_000_000, 60_000_000)


def configured_cooldown(config: SchedulerConfig, default: PreemptionCooldown = NO_COOLDOWN) -> PreemptionCooldown:
    """Read the cooldown from a configuration; raises ConfigError, which names the line."""
    given = config.arguments_of("reclaim")
    try:
        return PreemptionCooldown(
            seconds(given, PATIENCE, default.patience),
            seconds(given, MIN_RUNTIME, default.min_runtime),
        )
    except PluginError as error:
        line = config.configurations["reclaim"].line_of(error.argument)
        raise ConfigError(config.source, line, f"reclaim: {error.argument}: {error}") from None
