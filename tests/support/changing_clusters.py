"""Random clusters on which little changes at a time, and whether evictions are taken back while nothing else changes.

A cluster of one to four nodes has a tree of queues at two levels, with what people submit: plain pods, jobs of equal
and of unlike tasks, gangs. Half of the queues get work later; then weights change, a job comes, or a task ends.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pumice.engine.decisions import Bind, Evict, Pipeline
from tests.support.eviction_book import Request
from tests.support.taking import Shell, taking_engine

NODES = ((1, 17, 37), (2, 9, 18), (3, 6, 13), (4, 5, 11), (2, 7, 40))
"""How many, and what each has. No tree of small weights divides these amounts evenly."""
BY_CPU: tuple[Request, ...] = ((1, 0), (1, 0), (2, 0), (3, 0))
BY_BOTH: tuple[Request, ...] = ((1, 1), (1, 0), (2, 1), (1, 5), (3, 2), (0, 4))
MOST = 60
"""Cycles after a change in which a cluster must come to rest."""


@dataclass(frozen=True)
class TakenBack:
    """An eviction that cancelled an earlier one: both jobs hold again what they held before that."""

    preemptor: str
    victim: str
    cycles: tuple[int, int]


class ChangingCluster:
    """A random cluster, by a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        last = ("capacity",) if seed % 2 else ()
        self.shell = Shell(taking_engine(last=last), grace=rng.choice([0, 1, 1, 2]), audited=False)
        count, cpu, memory = rng.choice(NODES)
        for number in range(count):
            self.shell.node(f"n{number}", cpu, memory)
        self._queues: list[str] = []
        self._leaves: list[str] = []
        for org in "abcd"[: rng.randint(2, 4)]:
            self._grow(org)
        self._requests = rng.choice([BY_CPU, BY_BOTH, BY_BOTH])
        rng.shuffle(self._leaves)

    def _grow(self, org: str) -> None:
        weight, teams = self.rng.randint(1, 3), self.rng.choice([0, 2, 2, 3])
        self.shell.child(org, weight=weight)
        names = [f"{org}{number}" for number in range(teams)]
        for name in names:
            self.shell.child(name, org, weight=self.rng.randint(1, 3))
        self._queues += [org, *names]
        self._leaves += names or [org]

    def changes(self) -> Iterator[None]:
        """Change the cluster, once for each step; it has to come to rest in between."""
        rng, half = self.rng, max(1, len(self._leaves) // 2)
        for number in range(rng.randint(10, 14)):
            self._submit(f"first{number}", rng.choice(self._leaves[:half]))
        yield
        for leaf in self._leaves[half:]:
            for number in range(rng.randint(1, 4)):
                self._submit(f"later-{leaf}-{number}", leaf)
        yield
        for number in range(3):
            chance = rng.random()
            if chance < 0.6:
                self._weigh()
            elif chance < 0.8:
                self._submit(f"more{number}", rng.choice(self._leaves))
            else:
                self._end_a_task()
            yield

    def _submit(self, name: str, queue: str) -> None:
        rng = self.rng
        if rng.random() < 0.4:
            self.shell.job(queue, [rng.choice(self._requests)], name=name)
            return
        roles = {rng.choice(self._requests): rng.randint(1, 5) for _ in range(rng.choice([1, 1, 2, 3]))}
        tasks = [request for request, number in roles.items() for _ in range(number)]
        gang = rng.randint(2, len(tasks)) if len(tasks) > 1 and rng.random() < 0.35 else 1
        self.shell.job(queue, tasks, gang, name=name)

    def _weigh(self) -> None:
        for name in self.rng.sample(self._queues, min(len(self._queues), self.rng.randint(1, 2))):
            before = self.shell.engine.state.queues[name]
            self.shell.put(replace(before, weight=self.rng.randint(1, 6)))

    def _end_a_task(self) -> None:
        running = sorted(key for key, task in self.shell.tasks.items() if task.node and key not in self.shell.leaving)
        if running:
            self.shell.end(self.rng.choice(running))

    def rest(self) -> list[TakenBack]:
        """Cycles until nothing has been decided for some; returns the evictions that cancelled others."""
        shell, found = self.shell, []
        taken: dict[tuple[str, str], tuple[int, list[int], list[int]]] = {}
        first, still = shell.cycles, 0
        while still < 3 + shell.grace:
            assert shell.cycles - first < MOST, "the cluster does not come to rest"
            before = self._holdings()
            decisions = shell.cycle()
            still = 0 if any(isinstance(each, Bind | Pipeline | Evict) for each in decisions) else still + 1
            evictions = [each for each in decisions if isinstance(each, Evict) and each.preemptor != each.job]
            now = self._holdings()
            for evict in evictions:
                earlier = taken.get((evict.job, evict.preemptor))
                if earlier and _at_most(now[evict.job], earlier[1]) and _at_most(earlier[2], now[evict.preemptor]):
                    found.append(TakenBack(evict.preemptor, evict.job, (earlier[0], shell.cycles)))
            for evict in evictions:
                nothing = [0] * len(now[evict.job])
                held = before.get(evict.preemptor, nothing), before.get(evict.job, nothing)
                taken[evict.preemptor, evict.job] = shell.cycles, *held
        return found

    def _holdings(self) -> dict[str, list[int]]:
        return {key: list(leaf.held) for key, leaf in self.shell.engine.tree.jobs.items()}


def _at_most(amounts: list[int], others: list[int]) -> bool:
    return all(amount <= other for amount, other in zip(amounts, others, strict=True))
