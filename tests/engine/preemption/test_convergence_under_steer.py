"""Quiet clusters: once nothing happens from outside, evictions stop after a few cycles.

See docs/fairness.md, section 9.2.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.support.restless import Restless, Taste
from tests.support.taking import Shell, taking_engine

FEW = 15
"""An exchange waits until the victims of the one before it are gone (docs/fairness.md, section 9.12)."""


def quiet_after(seed: int) -> int:
    """Three waves of jobs on a random cluster, then nothing; returns the cycle of the last eviction."""
    chance = random.Random(seed)
    coupled = seed % 3 == 0
    plugins = ["priority", "gang", "conformance"]
    plugins += ["predicates"] if coupled else []
    plugins += ["nodeorder"] if seed % 5 == 0 else []
    engine = taking_engine(
        plugins=plugins, namespaces=chance.random() < 0.3, arguments={"drf.patience": chance.choice([-1, 0, 5])}
    )
    shell = Shell(engine, grace=chance.choice([0, 0, 1, 2]))
    world = Restless(shell, seed, Taste(coupled=coupled))
    for _ in range(3):
        for _ in range(world.rng.randint(1, 8)):
            world.job()
        for _ in range(world.rng.choice([1, 2, 3])):
            shell.cycle()
    return shell.settle(60)


def test_evictions_stop_on_30_clusters() -> None:
    late = {seed: last for seed in range(30) if (last := quiet_after(seed)) > FEW}
    assert not late, f"seed: cycle of the last eviction: {late}"


@pytest.mark.long
def test_evictions_stop_on_2000_clusters() -> None:
    found = {seed: quiet_after(seed) for seed in range(2000)}
    print(f"\ncycle of the last eviction: how many clusters: {dict(sorted(Counter(found.values()).items()))}")
    late = {seed: last for seed, last in found.items() if last > FEW}
    assert not late, f"seed: cycle of the last eviction: {late}"


def test_job_that_is_not_owed_takes_nothing_inside_a_target() -> None:
    # 12 cpu, 2 : 1. ours is entitled to 8 and holds 6, three tasks of count; train waits for the memory of large. The
    # one task that could make way for a fourth of count is that of small, which is entitled to just that and would
    # take it back: the two must not evict each other in turn.
    shell = Shell(taking_engine())
    shell.node("pool", 12, 4)
    shell.queue("root/ours", "1/2")
    shell.queue("root/theirs", "1/1")
    shell.job("theirs", [(0, 4)], name="large")
    shell.job("theirs", [(4, 0)], name="middle")
    shell.cycle()
    shell.job("theirs", [(2, 0)], name="small")
    shell.cycle()
    shell.job("ours", [(2, 0)] * 5, name="count")
    shell.job("ours", [(3, 1)], name="train")
    shell.settle()
    assert [shell.running(f"ns/{job}") for job in ("count", "train", "small", "middle")] == [3, 0, 1, 1]
    assert shell.evictions == []


def test_job_that_is_not_owed_leaves_reserved_capacity_alone() -> None:
    # Two nodes of 4 cpu, two equal queues. theirs runs 7 tasks of 1 cpu and need not give any back; big, the more
    # important job of ours, waits for a whole node, where the idle cpu is reserved for it. small must not take that.
    shell = Shell(taking_engine(arguments={"drf.patience": 0}))
    shell.node("n0", 4)
    shell.node("n1", 4)
    shell.queue("root/ours")
    shell.queue("root/theirs", reclaimable=False)
    shell.job("theirs", [(1,)] * 7, name="many")
    shell.cycle()
    shell.job("ours", [(4,)], name="big", priority=5)
    shell.job("ours", [(2,), (1,)], name="small")
    shell.settle()
    assert [shell.running(f"ns/{job}") for job in ("many", "big", "small")] == [7, 0, 0]
    ends = [task.key for task in shell.tasks.values() if task.node == "n1"]
    assert len(ends) == 3
    for key in ends:
        shell.end(key)
        shell.settle()
    assert [shell.running(f"ns/{job}") for job in ("many", "big", "small")] == [4, 1, 0]
