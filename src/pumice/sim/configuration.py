"""The scheduler configuration a scenario runs under: read and tried whole before anything follows it."""

from __future__ import annotations

from pumice.extensions import plugin_factories, plugin_names
from pumice.scheduling.actions import ACTIONS
from pumice.scheduling.brakes import brakes_of
from pumice.scheduling.config import DEFAULT_CONFIG, SchedulerConfig, parse_config

__all__ = ["SchedulerConfig", "default_config", "read_config"]


def read_config(text: str, source: str) -> SchedulerConfig:
    """The configuration in this text; raises ConfigError, also for plugins that can't be used as it asks."""
    config = parse_config(text, source=source, known_plugins=plugin_names(), known_actions=ACTIONS)
    plugin_factories(config)
    brakes_of(config)
    return config


def default_config() -> SchedulerConfig:
    """What is in force when nobody says anything."""
    return read_config(DEFAULT_CONFIG, "the default configuration")
