"""Everything that the engine decides on workloads and on random lives of clusters, as a digest of each.

python -m tests.support.decision_digest [LIVES]

Runs in a process of its own with either form of the engine: the digests of the compiled engine must be those of pure
Python.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from dataclasses import replace
from typing import Any

import pumice.engine.cycle
from benchmarks import measures
from benchmarks.workload import Workload
from benchmarks.workload_e import WorkloadE
from pumice.engine.engine import Engine
from pumice.engine.events import Event
from pumice.model.specs import TaskStatus
from tests.support.restless import EVERYTHING, Restless
from tests.support.taking import Shell, taking_engine

ORDERS = ("steer", "paper", "flat", "proportion", "capacity")
CYCLES = 40


def workload_digest(name: str) -> str:
    """The decisions of the cycle that places a workload."""
    engine = measures.new_engine()
    workload = WorkloadE.load(scale=0.05) if name == "E" else Workload.load(name)
    for event in workload.events(engine.state.registry):
        engine.apply(event)
    decisions = engine.cycle(0)
    assert len(decisions) > 1000, "the workload was not placed"
    return _digest(decisions)


class CountedEvents:
    """Stands for an engine, and counts the events that it is given."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.events = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def apply(self, event: Event) -> None:
        self.events += 1
        self.engine.apply(event)


def life_digest(seed: int, order: str) -> tuple[str, int, int]:
    """All decisions on a cluster on which jobs come, end and restart for 40 cycles; how many there were, and events."""
    chance = random.Random(seed)
    taste = replace(EVERYTHING, deserved=order == "capacity", coupled=seed % 3 == 0)
    patience = {"drf.patience": seed % 7} if order == "steer" else {}  # seconds, which are cycles here
    engine: Any = CountedEvents(taking_engine(order, namespaces=seed % 4 == 0, arguments=patience))
    shell = Shell(engine, grace=seed % 2, audited=False)
    life = Restless(shell, seed, taste)
    decided = []
    for _ in range(CYCLES):
        for _ in range(chance.randint(0, 2)):
            life.job(chance.choice(life.queues), chance.choice([1, 2, 4, 8]))
        for key in [key for key, task in shell.tasks.items() if task.status is TaskStatus.RUNNING]:
            if chance.random() < 0.05:
                shell.end(key, again=chance.random() < 0.5)
        decided += shell.cycle()
    return _digest(decided), len(decided), engine.events


def _digest(decisions: list[object]) -> str:
    return hashlib.sha256("\n".join(map(repr, decisions)).encode()).hexdigest()[:16]


def main(lives: int) -> None:
    found: dict[str, object] = {name: workload_digest(name) for name in ("A", "C-gang", "E")}
    decisions = events = 0
    for seed in range(lives):
        found[f"life {seed}"], decided, applied = life_digest(seed, ORDERS[seed % len(ORDERS)])
        decisions, events = decisions + decided, events + applied
    module = pumice.engine.cycle.__file__
    print(json.dumps({"module": module, "decisions": decisions, "events": events, "digests": found}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
