"""The scheduler configuration a scenario runs under: read and tried whole before anything follows it."""

from __future__ import annotations

from pumice.scheduling.actions import ACTIONS
from pumice.scheduling.config import DEFAULT_CONFIG, ConfigError, SchedulerConfig, parse_config
from pumice.scheduling.plugin import PluginError
from pumice.scheduling.plugins import BUILT_IN

__all__ = ["SchedulerConfig", "default_config", "read_config"]


def read_config(text: str, source: str) -> SchedulerConfig:
    """The configuration in this text; raises ConfigError, also for arguments that a plugin refuses."""
    config = parse_config(text, source=source, known_plugins=BUILT_IN, known_actions=ACTIONS)
    for entry in config.plugins:
        try:
            BUILT_IN[entry.name](entry.arguments)
        except PluginError as error:
            message = f"{entry.name}: {error.argument}: {error}"
            raise ConfigError(source, entry.line_of(error.argument), message) from None
    return config


def default_config() -> SchedulerConfig:
    """What is in force when nobody says anything."""
    return read_config(DEFAULT_CONFIG, "the default configuration")
