"""Small random clusters that take back, each difficult in one way; whoever comes last has just come."""

from __future__ import annotations

import random
from dataclasses import replace
from enum import Enum

from tests.support.restless import Restless, Taste
from tests.support.taking import Shell, taking_engine


class Arrivals(Enum):
    """What makes a cluster difficult."""

    SINGLE = "one-task jobs"
    UNLIKE = "unlike tasks"
    GANGS = "gangs"
    LATE = "late arrivals"


PLAIN = Taste(nodes=3, depth=3, gangs=False, unlike=False, priorities=False, roles=False)


def arrivals(seed: int, rule: str, kind: Arrivals) -> Shell:
    """Jobs came in three waves, the last of them a moment ago."""
    chance = random.Random(seed)
    taste = replace(PLAIN, gangs=kind is Arrivals.GANGS, unlike=kind is Arrivals.UNLIKE, deserved=rule == "capacity")
    shell = Shell(taking_engine(rule, namespaces=chance.random() < 0.3), grace=chance.choice([0, 0, 1]), audited=False)
    world = Restless(shell, seed, taste)
    early = world.queues[: max(1, len(world.queues) // 2)] if kind is Arrivals.LATE else world.queues
    for wave, queues in enumerate((early, early, world.queues)):
        for _ in range(chance.choice([1, 2, 4]) if wave else 0):
            shell.cycle()
        for _ in range(chance.randint(2, 6)):
            tasks = 1 if kind is Arrivals.SINGLE else chance.choice([2, 4, 8])
            for _ in range(chance.randint(2, 5) if kind is Arrivals.SINGLE else 1):
                world.job(chance.choice(queues), tasks)
    return shell
