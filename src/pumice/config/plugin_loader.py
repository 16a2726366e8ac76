"""Installed plugins: those that are built in, and those that other distributions bring.

A distribution announces its plugins by the entry point group ``pumice.plugins``, each under the name by which a
configuration calls it. Nothing of it is imported until a configuration does; then whatever is wrong with it is an
error of that configuration, which names the distribution. Configurations that do not use it never notice.

This is where code from outside comes in, so it belongs to the shells: the engine is handed factories.
"""

from __future__ import annotations

from importlib.metadata import Distribution, EntryPoint, distributions

from pumice.engine.config.scheduler_config import ConfigError, PluginConfig, SchedulerConfig
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.plugins.plugin import Plugin, PluginError
from pumice.engine.plugins.plugin_chain import ALWAYS, PluginFactory

GROUP = "pumice.plugins"


class BrokenPluginError(Exception):
    """A plugin that cannot be used, with its package and the reason."""


def plugin_names() -> frozenset[str]:
    """The names that a configuration may use."""
    return frozenset(BUILT_IN) | _announced().keys()


def plugin_factories(config: SchedulerConfig) -> dict[str, PluginFactory]:
    """The factories of a configuration's plugins; raises ConfigError, also for arguments that a plugin rejects."""
    announced = _announced()
    named = {entry.name: _tried(entry, announced.get(entry.name, []), config.source) for entry in config.plugins}
    return {name: BUILT_IN[name] for name in ALWAYS} | named


def _tried(entry: PluginConfig, announced: list[EntryPoint], source: str) -> PluginFactory:
    try:
        factory = _factory(entry.name, announced)
        try:
            factory(entry.arguments)
        except PluginError as error:
            message = f"plugin {entry.name}: argument {error.argument}: {error}"
            raise ConfigError(source, entry.line_of(error.argument), message) from None
        except Exception as error:
            if not announced:
                raise
            raise BrokenPluginError(f"{_origin(announced[0])} rejected its arguments: {_said(error)}") from None
    except BrokenPluginError as error:
        raise ConfigError(source, entry.line, f'plugin "{entry.name}": {error}') from None
    return factory


def _factory(name: str, announced: list[EntryPoint]) -> PluginFactory:
    """The class of a plugin, imported if it comes from outside."""
    if not announced:
        return BUILT_IN[name]
    if name in BUILT_IN:
        raise BrokenPluginError(
            f"plugin name is built in, but {_origin(announced[0])} has a plugin of that name too; remove one of them"
        )
    if len(announced) > 1:
        both = " and ".join(map(_origin, announced))
        raise BrokenPluginError(f"{both} have a plugin of that name; remove all but one")
    try:
        found = announced[0].load()
    except (Exception, SystemExit) as error:
        raise BrokenPluginError(f"{_origin(announced[0])} cannot be imported: {_said(error)}") from None
    if not (isinstance(found, type) and issubclass(found, Plugin)):
        raise BrokenPluginError(f"{_origin(announced[0])} is not a subclass of pumice.plugin.Plugin")
    if found.name != name:
        raise BrokenPluginError(
            f"{_origin(announced[0])} has the name {found.name!r}, but its entry point is named "
            f"{name!r}; rename one of them"
        )
    return found


def _announced() -> dict[str, list[EntryPoint]]:
    """Entry points by plugin name; a distribution that stands on the path twice counts once."""
    found: dict[str, list[EntryPoint]] = {}
    seen: set[str] = set()
    for distribution in distributions():
        try:
            name, points = _field(distribution, "Name"), distribution.entry_points.select(group=GROUP)
        except Exception:  # whatever is wrong with the papers of some package, it is none of ours
            continue
        if name.lower() not in seen or not name:
            seen.add(name.lower())
            for point in points:
                found.setdefault(point.name, []).append(point)
    return found


def _origin(point: EntryPoint) -> str:
    """The package and the entry point of a plugin: ``acme-policies 1.0 (acme.policies:Quiet)``."""
    dist = point.dist
    named = dist is not None and f"{_field(dist, 'Name')} {_field(dist, 'Version')}".strip()
    return f"{named or 'a package'} ({point.value})"


def _field(distribution: Distribution, name: str) -> str:
    return str((distribution.metadata.get_all(name) or [""])[0])


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
