"""Check a configuration of Volcano's scheduler: by the support table first, then by the code that loads it.

The loader stops at the first error. So actions and plugins that the table knows not to exist are reported and removed,
and the loader judges the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from pumice.admission.volcano_support import ACTIONS, PLUGINS, Feature, Support
from pumice.config.load import read_config
from pumice.engine.config.scheduler_config import ConfigError
from pumice.migrate.report import SEVERITY_OF_SUPPORT, MigrationReport, Severity

CONFIGURATION = "Scheduler configuration"
_ACTIONS = {feature.name: feature for feature in ACTIONS}
_PLUGINS = {feature.name: feature for feature in PLUGINS}


def check_configuration(report: MigrationReport, source: str, text: str) -> None:
    """Report the actions, plugins and arguments of a configuration that are lost or differ."""
    report.checked[CONFIGURATION] += 1
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        document = None
    missing = False
    for what, feature in _named_features(document):
        severity = SEVERITY_OF_SUPPORT.get(feature.support)
        missing |= feature.support is Support.MISSING
        if severity is not None:
            lost = severity is Severity.LOST
            message = f"{what} {feature.name}: {'does not exist' if lost else 'differs'}; {feature.note}"
            advice = "remove it from the configuration that you install with --config" if lost else ""
            report.add(severity, CONFIGURATION, source, message, advice)
    rest = yaml.safe_dump(_without_missing(document), sort_keys=False) if missing else text
    try:
        notes = read_config(rest, source).notes
    except ConfigError as error:
        report.add(Severity.LOST, CONFIGURATION, "", str(error), "correct it and install it with --config")
        return
    for note in notes:
        report.add(Severity.DIFFERS, CONFIGURATION, source, note)


def _named_features(document: object) -> Iterator[tuple[str, Feature]]:
    for name in _action_names(document):
        if name in _ACTIONS:
            yield "action", _ACTIONS[name]
    for plugin in _plugins(document):
        if plugin.get("name") in _PLUGINS:
            yield "plugin", _PLUGINS[str(plugin["name"])]


def _action_names(document: object) -> list[str]:
    actions = document.get("actions") if isinstance(document, Mapping) else None
    return [name.strip() for name in actions.split(",")] if isinstance(actions, str) else []


def _plugins(document: object) -> Iterator[Mapping[str, Any]]:
    for tier in _tiers(document):
        plugins = tier.get("plugins")
        yield from (one for one in plugins if isinstance(one, Mapping)) if isinstance(plugins, list) else ()


def _tiers(document: object) -> Iterator[Mapping[str, Any]]:
    tiers = document.get("tiers") if isinstance(document, Mapping) else None
    yield from (tier for tier in tiers if isinstance(tier, Mapping)) if isinstance(tiers, list) else ()


def _without_missing(document: Any) -> Any:
    """The configuration without the actions and plugins that do not exist here."""
    actions = [name for name in _action_names(document) if not _is_missing(_ACTIONS.get(name))]
    kept = {**document, "actions": ", ".join(actions)}
    if "tiers" in kept:
        kept["tiers"] = [
            {**tier, "plugins": [one for one in _plugins({"tiers": [tier]}) if not _is_missing_plugin(one)]}
            for tier in _tiers(document)
        ]
    if isinstance(kept.get("configurations"), list):
        kept["configurations"] = [one for one in kept["configurations"] if not _is_missing_action(one)]
    return kept


def _is_missing(feature: Feature | None) -> bool:
    return feature is not None and feature.support is Support.MISSING


def _is_missing_plugin(plugin: Mapping[str, Any]) -> bool:
    return _is_missing(_PLUGINS.get(str(plugin.get("name"))))


def _is_missing_action(entry: object) -> bool:
    return isinstance(entry, Mapping) and _is_missing(_ACTIONS.get(str(entry.get("name"))))
