"""An engine whose every word is recorded, and that is replaced by one that knows the same whenever somebody likes."""

from __future__ import annotations

from typing import Any

from pumice.decision_log.writer import DecisionLog
from pumice.engine.checkpoint.restore import restore_engine, snapshot_engine
from pumice.engine.decisions import Decision
from pumice.engine.engine import Engine
from pumice.engine.events import Event
from pumice.engine.plugins.builtin import BUILT_IN


class Recorded:
    """Stands for its engine. Without a log it is only replaced."""

    def __init__(self, engine: Engine, log: DecisionLog | None = None) -> None:
        self.engine = engine
        self.log = log
        self.cycles = 0
        self.replace()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def replace(self) -> None:
        """Another engine in its place."""
        before = self.engine
        config, registry = before.policy.config, before.state.registry
        inherited = snapshot_engine(before)
        self.engine = restore_engine(inherited, config, BUILT_IN, registry, before.cooldown)
        if self.log is not None:
            self.log.begin(config, before.cooldown, registry, self.cycles, inherited, before.now)

    def apply(self, event: Event) -> None:
        if self.log is not None:
            self.log.told(event, self.engine.state.registry)
        self.engine.apply(event)

    def cycle(self, now: int) -> list[Decision]:
        if self.log is not None:
            self.log.decides(self.engine.state.registry)
        decisions = self.engine.cycle(now)
        self.cycles += 1
        if self.log is not None:
            self.log.decided(self.cycles, now, decisions, self.engine)
        return decisions
