"""Clusters that are given no rest, by a seed: two with the same seed are led the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pumice.decision_log.writer import DecisionLog
from pumice.engine.decisions import Bind, Decision, Evict
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.engine.preemption.cooldown import PreemptionCooldown
from pumice.model.specs import NodeSpec, QueueState, TaskStatus
from tests.support.recorded import Recorded
from tests.support.restless import Restless, Taste
from tests.support.taking import SECOND, Shell, taking_engine

KINDS: dict[str, Callable[[], Engine]] = {
    "steer": lambda: taking_engine(plugins=("priority", "gang", "conformance", "predicates"), last=("nodeorder",)),
    "steer with holds and cooldown": lambda: taking_engine(
        arguments={"drf.patience": 2, "drf.holdLimit": 3}, cooldown=PreemptionCooldown(2 * SECOND, SECOND)
    ),
    "steer with namespaces": lambda: taking_engine(namespaces=True, plugins=("gang",)),
    "paper": lambda: taking_engine("paper"),
    "flat": lambda: taking_engine("flat"),
    "capacity": lambda: taking_engine("capacity"),
    "proportion": lambda: taking_engine("proportion"),
}


class Life:
    """A cluster with jobs that come and end, nodes and queues that close, binds and evictions that fail."""

    def __init__(self, engine: Any, seed: int, *, slow_controllers: bool = False) -> None:
        """``slow_controllers``: evicted tasks come again after up to 50 s, at once, or never."""
        self.rng = random.Random(seed)
        self.shell = Shell(engine, grace=self.rng.choice([0, 1, 3]), audited=False)
        self.world = Restless(self.shell, seed, Taste(nodes=4, depth=3, coupled=self.rng.random() < 0.5))
        self.nodes = [node.spec for node in engine.state.nodes.values()]
        self._tried: set[tuple[str, str]] = set()
        if slow_controllers:
            delays = random.Random(seed)
            self.shell.returns, self.shell.pace = True, 10 * SECOND
            self.shell.away = lambda: delays.choice([0, 1, 1, 3, 5, None])
            self.shell.early = lambda: delays.random() < 0.3
        if self.rng.random() < 0.5:
            self.shell.fails = self._fails

    def _fails(self, decision: Decision) -> bool:
        """Some fail once: depends on who it is, not on when."""
        assert isinstance(decision, Bind | Evict)
        about = (type(decision).__name__, decision.task)
        first = about not in self._tried
        self._tried.add(about)
        return first and sum(map(ord, decision.task)) % 5 == 0

    def second(self) -> list[Decision]:
        rng, shell = self.rng, self.shell
        for _ in range(rng.choice([0, 1, 1, 2])):
            self.world.job()
        if self.world.jobs and rng.random() < 0.2:
            shell.end_job(self.world.jobs.pop(rng.randrange(len(self.world.jobs))))
        running = sorted(task.key for task in shell.tasks.values() if task.status is TaskStatus.RUNNING)
        if running and rng.random() < 0.4:
            shell.end(rng.choice(running))
        if rng.random() < 0.15:
            node: NodeSpec = rng.choice(self.nodes)
            shell.engine.apply(Changed(replace(node, unschedulable=rng.random() < 0.5)))
        if rng.random() < 0.1:
            queue = shell.engine.state.queues[rng.choice(self.world.queues)]
            state = QueueState.OPEN if rng.random() < 0.6 else QueueState.CLOSED
            shell.engine.apply(Changed(replace(queue, state=state)))
        decisions = shell.cycle()
        shell.engine.validate()
        for found in shell.engine.state.nodes.values():
            assert all(used <= offered for used, offered in zip(found.ours, found.allocatable, strict=True))
        return decisions


def recorded_life(
    folder: Path, seed: int, *, seconds: int = 8, replaced: float = 0.3, slow_controllers: bool = False
) -> DecisionLog:
    """A restless cluster, recorded; its engine is replaced every now and then."""
    chance = random.Random(seed)
    log = DecisionLog(folder, files=1000)
    engine = Recorded(KINDS[chance.choice(list(KINDS))](), log)
    life = Life(engine, seed, slow_controllers=slow_controllers)
    for second in range(seconds):
        if second and chance.random() < replaced:
            engine.replace()
        life.second()
    log.close()
    return log


def recorded_halves(folder: Path, seconds: int = 20) -> DecisionLog:
    """Two equal queues that each fill their half of 12 cpus with tasks of 4 seconds; every task comes again."""
    log = DecisionLog(folder)
    shell = Shell(Recorded(taking_engine(plugins=("gang", "conformance")), log), audited=False)
    shell.node("n0", 12)
    for queue in ("a", "b"):
        shell.child(queue)
    for second in range(seconds):
        for task in [
            task.key for task in shell.tasks.values() if task.started and shell.now - task.started >= 4 * SECOND
        ]:
            shell.end(task)
        if second % 4 == 0:
            shell.job("a", [(1,)] * 9)
            shell.job("b", [(1,)] * 9)
        shell.cycle()
    log.close()
    return log
