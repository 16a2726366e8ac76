"""What the configuration in a log says that the audit has to know: which plugins are enabled, and the brakes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml

from pumice.audit.log_lines import HeadingLine

SECOND = 1_000_000
_MODELLED = {
    "binpack",
    "capacity",
    "conformance",
    "drf",
    "gang",
    "nodeorder",
    "overcommit",
    "pdb",
    "predicates",
    "priority",
    "proportion",
}
"""Plugins that the computation of entitlements knows, or that have no say in it."""


@dataclass(frozen=True, slots=True)
class AuditedPolicy:
    """The policy of a file of the log. Times are microseconds."""

    plugins: tuple[str, ...]
    actions: tuple[str, ...]
    gangs: bool  # whether jobs start whole
    limited: bool  # whether capability and guarantee are enforced
    order: str  # what orders the queues: steer, paper, drf, capacity, proportion or none
    namespaces: bool  # whether namespaces are a level of the tree
    priorities: bool  # whether jobs of higher priority go first
    patience: int  # how long a job has been owed before it evicts
    min_runtime: int  # how long a task is left alone after its start
    hold_patience: int  # how long an owed job waits until room is kept for it; below 0: never
    unmodelled: str = ""  # what the computation of entitlements does not model


def policy_of(heading: HeadingLine) -> AuditedPolicy:
    """The policy of a file; raises yaml.YAMLError if its configuration is no YAML."""
    document = yaml.safe_load(heading.config) or {}
    plugins = [plugin for tier in document.get("tiers") or () for plugin in tier.get("plugins") or ()]
    by_name: dict[str, dict[str, Any]] = {plugin["name"]: plugin for plugin in plugins}
    actions = tuple(name.strip() for name in str(document.get("actions", "")).split(","))
    arguments = {each["name"]: each.get("arguments") or {} for each in document.get("configurations") or ()}
    reclaim = arguments.get("reclaim", {})
    drf = by_name.get("drf")
    settings = (drf.get("arguments") or {}) if drf is not None else {}
    return AuditedPolicy(
        plugins=tuple(by_name),
        actions=actions,
        gangs="gang" in by_name and _is_on(by_name["gang"].get("enableJobReady", True)),
        limited="capacity" in by_name or "proportion" in by_name,
        order=_order(by_name),
        namespaces=drf is not None and _is_on(drf.get("enableNamespaceOrder", True)),
        priorities="priority" in by_name and _is_on(by_name["priority"].get("enableJobOrder", True)),
        patience=_microseconds(reclaim.get("reclaim.patience"), heading.cooldown.patience),
        min_runtime=_microseconds(reclaim.get("reclaim.minRuntime"), heading.cooldown.min_runtime),
        hold_patience=_microseconds(settings.get("drf.patience"), 300 * SECOND),
        unmodelled=_unmodelled(document, by_name),
    )


def _unmodelled(document: dict[str, Any], plugins: dict[str, dict[str, Any]]) -> str:
    others = sorted(plugins.keys() - _MODELLED)
    if others:
        return f"plugin {others[0]} is enabled"
    tiers = [[plugin["name"] for plugin in tier.get("plugins") or ()] for tier in document.get("tiers") or ()]
    place = {name: number for number, names in enumerate(tiers) for name in names}
    if "priority" in place and "drf" in place and place["priority"] >= place["drf"]:
        return "priority does not come in a tier before drf"
    if "drf" in plugins and not _is_on(plugins["drf"].get("enableJobOrder", True)):
        return "drf does not order jobs"
    return ""


def _order(plugins: dict[str, dict[str, Any]]) -> str:
    for name, plugin in plugins.items():
        if name == "drf" and _is_on(plugin.get("enableHierarchy", False)):
            return str((plugin.get("arguments") or {}).get("drf.rule", "steer"))
        if name in ("capacity", "proportion") and _is_on(plugin.get("enableQueueOrder", True)):
            return name
    return "drf" if "drf" in plugins else "none"


def _is_on(flag: object) -> bool:
    return str(flag).lower() == "true"


def _microseconds(seconds: object, default: int) -> int:
    return default if seconds is None else round(float(str(seconds)) * SECOND)
