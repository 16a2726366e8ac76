"""Workload E at a small size: the engine decides what the slow scheduler decides, first fill and churn alike."""

from __future__ import annotations

import pytest

from benchmarks.workload_e import WorkloadE
from kubebase.resource_vector import Registry
from pumice.engine.config.scheduler_config import parse_config
from pumice.engine.decisions import Bind
from pumice.engine.engine import Engine
from pumice.engine.plugins.builtin import BUILT_IN
from tests.oracles.slow_scheduler import Rules, SlowScheduler

CONFIG = """
actions: "allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins:
  - {name: drf, enableHierarchy: true, arguments: {drf.patience: -1}}
  - name: predicates
  - name: nodeorder
"""


def assert_alike(seed: int, scale: float, rounds: int) -> int:
    """Run both side by side; returns how many tasks were placed."""
    config = parse_config(CONFIG, known_plugins=BUILT_IN, known_actions=["allocate"])
    engine, slow = Engine(config, BUILT_IN, Registry()), SlowScheduler(Rules())
    workload = WorkloadE.load("E", scale)
    workload.spec["seed"] = seed
    events = list(workload.events(engine.state.registry))
    placed = 0
    for number in range(rounds + 1):
        for event in events:
            engine.apply(event)
            slow.apply(event)
        decided = [(d.task, d.node) for d in engine.cycle(number * 1_000_000) if isinstance(d, Bind)]
        assert decided == slow.cycle(number * 1_000_000), f"seed {seed}, round {number}"
        engine.validate()
        placed += len(decided)
        events = list(workload.round(engine.state, number + 1))
    return placed


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_thousandth_of_e(seed: int) -> None:
    assert assert_alike(seed, 0.001, rounds=3) > 20


@pytest.mark.long
def test_more_of_e() -> None:
    placed = [assert_alike(seed, 0.003, rounds=5) for seed in range(10, 20)]
    print(f"\nworkload E, ten seeds at 3/1000: placed {placed}, every decision equal")
