"""The scheduler configuration: which actions run, which plugins are enabled, and in what order.

The file has Volcano's format, unchanged::

    actions: "enqueue, allocate, backfill"     # run in this order, once a cycle
    tiers:                                     # earlier tiers decide before later ones
    - plugins:
      - name: priority
      - name: gang
        enableJobOrder: false                  # a hook this plugin shall not use
    - plugins:
      - name: drf
        enableHierarchy: true
        arguments: {drf.rule: steer}           # interpreted by the plugin alone
    configurations:                            # arguments of actions
    - name: allocate
      arguments: {...}

One key is ours alone, because it concerns admission as much as the scheduler; Volcano has a command line flag for it::

    defaultQueue: default                      # of a job that names none; absent: the least used leaf

Volcano skips unknown keys; this reader rejects them, because a misspelt flag that silently does nothing is worse than
an error that names its line. A key that is known but has no effect here becomes a note. Arguments are not validated
here: the plugin that they belong to does that when it is built, and ``line_of`` gives the line of each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import yaml

from pumice.engine.config.enable_flags import EFFECTIVE, ON_BY_DEFAULT, Flag, flag_spelled
from pumice.engine.config.name_suggestions import Kind, did_you_mean, listed, problem_with_name, problem_with_option
from pumice.engine.config.yaml_document import ConfigError, Document, Entries, line_of

__all__ = [
    "DEFAULT_CONFIG",
    "ActionConfig",
    "ConfigError",
    "Flag",
    "PluginConfig",
    "SchedulerConfig",
    "parse_config",
]

DEFAULT_QUEUE_KEY = "defaultQueue"
"""The key with the queue of jobs that name none."""

DEFAULT_CONFIG = """\
actions: "enqueue, allocate, backfill, reclaim, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
    enableHierarchy: true
  - name: capacity
  - name: predicates
  - name: nodeorder
  - name: overcommit
"""


@dataclass(frozen=True, slots=True)
class ActionConfig:
    """The arguments of an action (``configurations`` in the file)."""

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    line: int = 0
    argument_lines: Mapping[str, int] = field(default_factory=dict)

    def line_of(self, argument: str) -> int:
        """The line of an argument; that of the whole entry if the argument is not given."""
        return self.argument_lines.get(argument, self.line)


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """A plugin of a tier: the hooks it may use and its arguments."""

    name: str
    enabled: frozenset[Flag] = ON_BY_DEFAULT
    arguments: Mapping[str, object] = field(default_factory=dict)
    line: int = 0
    argument_lines: Mapping[str, int] = field(default_factory=dict)

    def on(self, flag: Flag) -> bool:
        """Whether the plugin may use the hook."""
        return flag in self.enabled

    def line_of(self, argument: str) -> int:
        """The line of an argument; that of the whole entry if the argument is not given."""
        return self.argument_lines.get(argument, self.line)


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """The validated configuration; ``notes`` report what was read but may not do what its author expects."""

    source: str
    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginConfig, ...], ...]
    configurations: Mapping[str, ActionConfig]
    notes: tuple[str, ...] = ()
    default_queue: str = ""  # of jobs that name no queue; empty: the least used leaf
    text: str = field(default="", repr=False, compare=False)  # the source text

    @property
    def plugins(self) -> tuple[PluginConfig, ...]:
        """All plugins, in the order in which they are called."""
        return tuple(plugin for tier in self.tiers for plugin in tier)

    def arguments_of(self, action: str) -> Mapping[str, object]:
        """The arguments of an action; empty if the file gives none."""
        return self.configurations[action].arguments if action in self.configurations else {}


def parse_config(
    text: str,
    *,
    source: str = "configuration",
    known_plugins: Collection[str],
    known_actions: Collection[str],
) -> SchedulerConfig:
    """Parse a configuration file; raises ConfigError for the first error found."""
    known = {Kind.PLUGIN: known_plugins, Kind.ACTION: known_actions}
    return replace(_Reading(Document(text, source), known).config(), text=text)


class _Reading:
    """One pass over a document, from the top down, collecting notes on the way."""

    def __init__(self, document: Document, known: Mapping[Kind, Collection[str]]) -> None:
        self.document = document
        self.known = known
        self.notes: list[str] = []

    def config(self) -> SchedulerConfig:
        document = self.document
        entries = document.mapping(document.root, "the configuration")
        keys = ("actions", "tiers", "configurations", DEFAULT_QUEUE_KEY, "metrics")
        for key, (node, _) in entries.items():
            if key not in keys:
                message = f'unknown key "{key}"{did_you_mean(key, keys)}; the keys are {listed(keys)}'
                raise document.refuse(node, message)
        if "actions" not in entries:
            raise document.refuse(document.root, f"actions is missing; {self._actions_wanted()}")
        actions = self._actions(entries["actions"][1])
        tiers = self._tiers(entries["tiers"][1]) if "tiers" in entries else ()
        configurations = {}
        if "configurations" in entries:
            configurations = self._configurations(entries["configurations"][1], actions)
        if "metrics" in entries:
            self.notes.append("metrics has no effect here")
        default_queue = ""
        if DEFAULT_QUEUE_KEY in entries:
            default_queue = self._queue_name(entries[DEFAULT_QUEUE_KEY][1])
        return SchedulerConfig(document.source, actions, tiers, configurations, tuple(self.notes), default_queue)

    def _queue_name(self, node: yaml.Node) -> str:
        name = "" if self.document.value(node) is None else self.document.text(node, DEFAULT_QUEUE_KEY)
        if not name:
            message = f"{DEFAULT_QUEUE_KEY} is empty: name a queue, or remove the key to use the least used leaf queue"
            raise self.document.refuse(node, message)
        return name

    def _actions(self, node: yaml.Node) -> tuple[str, ...]:
        document = self.document
        if isinstance(node, yaml.SequenceNode):
            raise document.refuse(node, f"actions must be one text, not a list; {self._actions_wanted()}")
        text = "" if document.value(node) is None else document.text(node, "actions")
        if not text:
            raise document.refuse(node, f"actions is empty; {self._actions_wanted()}")
        names = tuple(name.strip() for name in text.split(","))
        for name in names:
            if not name:
                raise document.refuse(node, f'actions has a comma too many: "{text}"')
            self._check(Kind.ACTION, name, node)
        return names

    def _actions_wanted(self) -> str:
        return f'name one or more of: "{listed(sorted(self.known[Kind.ACTION]))}"'

    def _tiers(self, node: yaml.Node) -> tuple[tuple[PluginConfig, ...], ...]:
        document = self.document
        tiers = []
        first: dict[str, PluginConfig] = {}
        for tier in document.sequence(node, "tiers"):
            plugins = []
            for item in self._plugin_nodes(tier):
                plugin = self._plugin(item)
                if plugin.name in first:
                    line = first[plugin.name].line
                    raise document.refuse(item, f'plugin "{plugin.name}" is already on line {line}: keep one')
                first[plugin.name] = plugin
                plugins.append(plugin)
            tiers.append(tuple(plugins))
        self._check_orders(first)
        return tuple(tiers)

    def _check_orders(self, plugins: Mapping[str, PluginConfig]) -> None:
        """H-DRF and proportion both share by weight, in different ways; only one of them can order the queues."""
        drf, proportion = plugins.get("drf"), plugins.get("proportion")
        if drf is None or proportion is None or not drf.on(Flag.HIERARCHY):
            return
        if drf.on(Flag.QUEUE_ORDER) and proportion.on(Flag.QUEUE_ORDER):
            message = (
                f'plugin "drf" with enableHierarchy (line {drf.line}) and plugin "proportion" (line {proportion.line}) '
                "both order the queues by weight: keep one, or give the other enableQueueOrder: false"
            )
            raise ConfigError(self.document.source, max(drf.line, proportion.line), message)

    def _plugin_nodes(self, tier: yaml.Node) -> list[yaml.Node]:
        entries = self.document.mapping(tier, "a tier")
        for key, (node, _) in entries.items():
            if key != "plugins":
                message = f'unknown key "{key}": a tier is `- plugins:` with a list of plugins below it'
                raise self.document.refuse(node, message)
        return self.document.sequence(entries["plugins"][1] if entries else None, "plugins")

    def _plugin(self, node: yaml.Node) -> PluginConfig:
        name, entries = self._named(Kind.PLUGIN, node)
        arguments, lines = self._arguments(entries)
        return PluginConfig(name, self._enabled(name, entries), arguments, line_of(node), lines)

    def _enabled(self, plugin: str, entries: Entries) -> frozenset[Flag]:
        document = self.document
        enabled = set(ON_BY_DEFAULT)
        said: dict[Flag, str] = {}
        for key, (key_node, value_node) in entries.items():
            flag = flag_spelled(key)
            if flag is None:
                raise document.refuse(key_node, problem_with_option(key))
            if flag in said:
                raise document.refuse(key_node, f"{said[flag]} and {key} are the same flag: keep one")
            said[flag] = key
            if document.boolean(value_node, key):
                enabled.add(flag)
            else:
                enabled.discard(flag)
            if flag is Flag.HIERARCHY and plugin == "capacity" and flag not in enabled:
                self.notes.append(f"{plugin}: {key}: false has no effect here, a queue's parent always counts")
            elif flag not in EFFECTIVE:
                self.notes.append(f"{plugin}: {key} has no effect here")
            elif key != flag.value:
                # Volcano skips such a key; a user who migrates a file should know that it now has an effect.
                self.notes.append(f"{plugin}: {key} is read as {flag.value}")
        return frozenset(enabled)

    def _configurations(self, node: yaml.Node, actions: Collection[str]) -> dict[str, ActionConfig]:
        document = self.document
        configurations: dict[str, ActionConfig] = {}
        for item in document.sequence(node, "configurations"):
            name, entries = self._named(Kind.ACTION, item)
            arguments, lines = self._arguments(entries)
            for key, (key_node, _) in entries.items():
                message = f'unknown key "{key}": the configuration of an action has name and arguments'
                raise document.refuse(key_node, message)
            if name in configurations:
                line = configurations[name].line
                raise document.refuse(item, f'action "{name}" is already configured on line {line}: keep one')
            configurations[name] = ActionConfig(name, arguments, line_of(item), lines)
            if name not in actions:
                self.notes.append(f"{name}: its configuration has no effect, it is not among the actions")
        return configurations

    def _named(self, kind: Kind, node: yaml.Node) -> tuple[str, Entries]:
        """The validated name of a plugin's or an action's entry, and its other keys."""
        document = self.document
        if isinstance(node, yaml.ScalarNode) and node.value:
            raise document.refuse(node, f"a {kind.value} needs its key: write `- name: {node.value}`")
        entries = document.mapping(node, f"the {kind.value}")
        if "name" not in entries:
            raise document.refuse(node, f"the {kind.value} has no name: write `- name: ...`")
        name_node = entries.pop("name")[1]
        name = document.text(name_node, "name")
        self._check(kind, name, name_node)
        return name, entries

    def _check(self, kind: Kind, name: str, node: yaml.Node) -> None:
        problem = problem_with_name(kind, name, self.known[kind])
        if problem:
            raise self.document.refuse(node, problem)

    def _arguments(self, entries: Entries) -> tuple[dict[str, object], dict[str, int]]:
        """Remove the arguments from an entry: their values and their lines."""
        if "arguments" not in entries:
            return {}, {}
        nodes = self.document.mapping(entries.pop("arguments")[1], "arguments")
        arguments = {key: self.document.value(value) for key, (_, value) in nodes.items()}
        return arguments, {key: line_of(node) for key, (node, _) in nodes.items()}
