"""Load a scheduler configuration: parse it, make every plugin once, and note the arguments that have no effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches

from pumice.config.plugin_loader import plugin_factories, plugin_names
from pumice.engine.actions import ACTIONS
from pumice.engine.config.scheduler_config import (
    DEFAULT_CONFIG,
    ActionConfig,
    PluginConfig,
    SchedulerConfig,
    parse_config,
)
from pumice.engine.plugins.plugin import Argument
from pumice.engine.plugins.plugin_chain import PluginFactory
from pumice.engine.preemption.cooldown import TAKES, configured_cooldown

__all__ = ["SchedulerConfig", "default_config", "read_config"]


def read_config(text: str, source: str) -> SchedulerConfig:
    """The configuration in this text; raises ConfigError, also for plugins that can't be used as it asks."""
    config = parse_config(text, source=source, known_plugins=plugin_names(), known_actions=ACTIONS)
    factories = plugin_factories(config)
    configured_cooldown(config)
    return replace(config, notes=(*config.notes, *_without_effect(config, factories)))


def _without_effect(config: SchedulerConfig, factories: Mapping[str, PluginFactory]) -> Iterator[str]:
    """Arguments that no plugin reads: misspelt, or made for another scheduler."""
    known: dict[str, tuple[Argument, ...] | None] = dict.fromkeys(ACTIONS, ())
    known["reclaim"] = TAKES
    for plugin in config.plugins:
        known[plugin.name] = getattr(factories[plugin.name], "takes", None)
    entries: list[ActionConfig | PluginConfig] = [*config.configurations.values(), *config.plugins]
    for entry in entries:
        takes = known[entry.name]
        for name in entry.arguments if takes is not None else ():
            if not any(argument.is_called(name) for argument in takes or ()):
                close = get_close_matches(name, [argument.name for argument in takes or ()], 1, 0.9)
                meant = f', did you mean "{close[0]}"?' if close else ""
                kind = "action" if isinstance(entry, ActionConfig) else "plugin"
                yield f"{kind} {entry.name}: argument {name} has no effect{meant}"


def default_config() -> SchedulerConfig:
    """The configuration without a configuration file."""
    return read_config(DEFAULT_CONFIG, "the default configuration")
