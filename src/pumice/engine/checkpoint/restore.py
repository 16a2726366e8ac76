"""An engine in the place of another: the same cluster, the same memory, nothing else.

All that the new one knows passes through plain values, so two of them that were given the same are the same, whatever
was before: decisions from there on can be recorded and reproduced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kubebase.resource_vector import Registry
from pumice.engine.checkpoint.engine_checkpoint import Memory
from pumice.engine.config.scheduler_config import SchedulerConfig
from pumice.engine.engine import Engine
from pumice.engine.plugins.plugin_chain import PluginFactory
from pumice.engine.preemption.cooldown import NONE, Brakes
from pumice.engine.state.cluster_snapshot import Standing, standing, tell_objects, tell_tasks


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What an engine passes on."""

    standing: Standing
    memory: Memory


def inheritance(engine: Engine) -> Inheritance:
    """What an engine passes on, between two cycles."""
    return Inheritance(standing(engine.state), engine.checkpoint())


def resume(
    inherited: Inheritance,
    config: SchedulerConfig,
    factories: Mapping[str, PluginFactory],
    registry: Registry,
    brakes: Brakes = NONE,
) -> Engine:
    """An engine that goes on from there, under this configuration. The one before is not touched."""
    was, memory = inherited.standing, inherited.memory
    engine = Engine(config, factories, registry, brakes)
    tell_objects(engine.state, was)
    engine.prepare(memory.now)  # what plugins say of jobs is part of their tasks' shapes
    tell_tasks(engine.state, was)
    engine.restore(memory)
    return engine


def reconfigured(engine: Engine, config: SchedulerConfig, factories: Mapping[str, PluginFactory]) -> Engine:
    """The same cluster under another configuration. The engine before stays as it is, also if this raises."""
    after = resume(inheritance(engine), config, factories, engine.state.registry, engine.brakes)
    after.entering = engine.entering
    return after
