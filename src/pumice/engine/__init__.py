"""The scheduling engine: events in, decisions out. Pure and deterministic; usable as a library.

The names below are the public API of the engine. They stay as they are; what a release changes in them is in the
changelog. docs/engine.md shows how to use them.

- The engine: ``Engine``; ``PreemptionCooldown`` and ``NO_COOLDOWN`` say how soon jobs may take resources from others.
- Configuration: ``parse_config`` reads the text of a file such as ``DEFAULT_CONFIG`` into a ``SchedulerConfig``, or
  raises ``ConfigError``. ``ACTIONS`` and ``BUILT_IN`` are the actions and plugins that come with Pumice, by name, and
  a ``PluginFactory`` makes a plugin (see ``pumice.plugin``).
- Events (``Event``): ``Changed``, ``Gone``, ``BindFailed``, ``EvictFailed``.
- Decisions (``Decision``): ``Enqueue``, ``Bind``, ``Pipeline``, ``Evict``, ``Condition``, ``QueueCondition``. While
  ``engine.context.tracing`` is on, ``PickStep`` tells why a job was picked and ``Sides`` why a task was evicted.
- Objects of the cluster, which ``Changed`` describes: ``NodeSpec`` with ``Taint``; ``Queue`` with ``QueueState``,
  ``GroupAffinity`` and ``HierarchyEntry``; ``Quota``; ``PriorityClass``; ``DisruptionBudget``; ``HyperNode`` with
  ``HyperNodeMember``; ``JobSpec`` with ``JobPhase`` and ``NetworkTopology``; ``TaskSpec`` with ``TaskStatus`` and
  ``Constraints`` (``NodeTerm``, ``PodTerm``, ``Spread``, ``Toleration``, ``VolumeDemand`` with ``VolumeNodes`` and
  ``Attachment``, and label requirements: ``Requirement``).
- Amounts: ``Registry`` turns quantities such as ``4Gi`` into a ``Vector`` of integers; ``Items`` are the entries of a
  vector that are not zero. Times are integers too, in microseconds.
- Checkpoints: ``snapshot_engine`` gives an ``EngineSnapshot``, from which ``restore_engine`` makes an engine that goes
  on where the first one stopped; ``reconfigured`` does both, under another configuration.

The packages, in the order of a cycle: ``state`` (the cluster as reported by events), ``fairness`` (the share tree and
the targets), ``prepare`` (brings both up to date), ``candidates`` (the next unit of each job), ``placement`` (the node
for each task), ``preemption`` (evicting victims), ``recovery`` (repairs after a crash or a change of leader),
``actions`` and ``plugins`` (named by the configuration), ``config``, ``checkpoint`` (replacing an engine) and
``explain`` (why a job waits).

The names are loaded on first use: commands that read only events or configurations import submodules of this package,
and must not pay for NumPy and the solver.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubebase.label_selector import Requirement
    from kubebase.resource_vector import Registry
    from pumice.engine.actions import ACTIONS
    from pumice.engine.checkpoint.restore import EngineSnapshot, reconfigured, restore_engine, snapshot_engine
    from pumice.engine.config.scheduler_config import DEFAULT_CONFIG, ConfigError, SchedulerConfig, parse_config
    from pumice.engine.decisions import Bind, Condition, Decision, Enqueue, Evict, Pipeline, QueueCondition, Sides
    from pumice.engine.engine import Engine
    from pumice.engine.events import BindFailed, Changed, Event, EvictFailed, Gone
    from pumice.engine.fairness.orders.serving_order import PickStep
    from pumice.engine.plugins.builtin import BUILT_IN
    from pumice.engine.plugins.plugin_chain import PluginFactory
    from pumice.engine.preemption.cooldown import NO_COOLDOWN, PreemptionCooldown
    from pumice.model.hyper_nodes import HyperNode, HyperNodeMember, NetworkTopology
    from pumice.model.specs import (
        Attachment,
        Constraints,
        DisruptionBudget,
        GroupAffinity,
        HierarchyEntry,
        Items,
        JobPhase,
        JobSpec,
        NodeSpec,
        NodeTerm,
        PodTerm,
        PriorityClass,
        Queue,
        QueueState,
        Quota,
        Spread,
        Taint,
        TaskSpec,
        TaskStatus,
        Toleration,
        Vector,
        VolumeDemand,
        VolumeNodes,
    )

__all__ = [
    "ACTIONS",
    "BUILT_IN",
    "DEFAULT_CONFIG",
    "NO_COOLDOWN",
    "Attachment",
    "Bind",
    "BindFailed",
    "Changed",
    "Condition",
    "ConfigError",
    "Constraints",
    "Decision",
    "DisruptionBudget",
    "Engine",
    "EngineSnapshot",
    "Enqueue",
    "Event",
    "Evict",
    "EvictFailed",
    "Gone",
    "GroupAffinity",
    "HierarchyEntry",
    "HyperNode",
    "HyperNodeMember",
    "Items",
    "JobPhase",
    "JobSpec",
    "NetworkTopology",
    "NodeSpec",
    "NodeTerm",
    "PickStep",
    "Pipeline",
    "PluginFactory",
    "PodTerm",
    "PreemptionCooldown",
    "PriorityClass",
    "Queue",
    "QueueCondition",
    "QueueState",
    "Quota",
    "Registry",
    "Requirement",
    "SchedulerConfig",
    "Sides",
    "Spread",
    "Taint",
    "TaskSpec",
    "TaskStatus",
    "Toleration",
    "Vector",
    "VolumeDemand",
    "VolumeNodes",
    "parse_config",
    "reconfigured",
    "restore_engine",
    "snapshot_engine",
]

_HOMES = {
    "kubebase.label_selector": ("Requirement",),
    "kubebase.resource_vector": ("Registry",),
    "pumice.engine.actions": ("ACTIONS",),
    "pumice.engine.checkpoint.restore": ("EngineSnapshot", "reconfigured", "restore_engine", "snapshot_engine"),
    "pumice.engine.config.scheduler_config": ("DEFAULT_CONFIG", "ConfigError", "SchedulerConfig", "parse_config"),
    "pumice.engine.decisions": (
        "Bind",
        "Condition",
        "Decision",
        "Enqueue",
        "Evict",
        "Pipeline",
        "QueueCondition",
        "Sides",
    ),
    "pumice.engine.engine": ("Engine",),
    "pumice.engine.events": ("BindFailed", "Changed", "Event", "EvictFailed", "Gone"),
    "pumice.engine.fairness.orders.serving_order": ("PickStep",),
    "pumice.engine.plugins.builtin": ("BUILT_IN",),
    "pumice.engine.plugins.plugin_chain": ("PluginFactory",),
    "pumice.engine.preemption.cooldown": ("NO_COOLDOWN", "PreemptionCooldown"),
    "pumice.model.hyper_nodes": ("HyperNode", "HyperNodeMember", "NetworkTopology"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

if not TYPE_CHECKING:  # for mypy the imports above count, so that it reports names that do not exist

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(_HOME_OF.get(name, "pumice.model.specs")), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
