"""Replace an engine by one with the same cluster and the same checkpoint, and nothing else.

Everything that the new engine knows passes through plain values, so two engines restored from the same snapshot are
equal, whatever happened before. Their decisions from there on can be recorded and reproduced.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kubebase.resource_vector import Registry
from pumice.engine.checkpoint.engine_checkpoint import EngineCheckpoint
from pumice.engine.config.scheduler_config import SchedulerConfig
from pumice.engine.engine import Engine
from pumice.engine.plugins.plugin_chain import PluginFactory
from pumice.engine.preemption.cooldown import NO_COOLDOWN, PreemptionCooldown
from pumice.engine.state.cluster_snapshot import ClusterSnapshot, restore_objects, restore_tasks, snapshot_cluster


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """What an engine hands over to its replacement."""

    cluster: ClusterSnapshot
    checkpoint: EngineCheckpoint


def snapshot_engine(engine: Engine) -> EngineSnapshot:
    """Snapshot an engine between two cycles."""
    return EngineSnapshot(snapshot_cluster(engine.state), engine.checkpoint())


def restore_engine(
    snapshot: EngineSnapshot,
    config: SchedulerConfig,
    factories: Mapping[str, PluginFactory],
    registry: Registry,
    cooldown: PreemptionCooldown = NO_COOLDOWN,
) -> Engine:
    """Build an engine that continues from a snapshot, under this configuration. The previous engine is not changed."""
    was, memory = snapshot.cluster, snapshot.checkpoint
    engine = Engine(config, factories, registry, cooldown)
    restore_objects(engine.state, was)
    engine.prepare(memory.now)  # plugins determine parts of the tasks' shapes
    restore_tasks(engine.state, was)
    engine.restore(memory)
    return engine


def reconfigured(engine: Engine, config: SchedulerConfig, factories: Mapping[str, PluginFactory]) -> Engine:
    """The same cluster under another configuration. The previous engine is not changed, even if this raises."""
    return restore_engine(snapshot_engine(engine), config, factories, engine.state.registry, engine.cooldown)
