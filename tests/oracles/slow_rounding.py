"""Rounding by levels the slow and obvious way (docs/fairness.md, section 3.2): sets, loops and exact fractions.

It is told of every job the nodes above it, what it is entitled to, and its line of units; every number is added up
again at every step, and every condition of the rule is checked at every node it names.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Amounts = dict[int, int]
Key = Callable[[Hashable, Fraction], tuple[object, ...]]
MILLIONTH = Fraction(1, 10**6)
GRID = 2**30


@dataclass(frozen=True)
class LineUnit:
    """What starts together, and whether all of it runs already."""

    asks: Amounts
    tasks: int
    held: bool


@dataclass
class SlowJob:
    """A job as rounding sees it. path: from the root down to the job itself."""

    path: Sequence[Hashable]
    entitled: Mapping[int, Fraction]
    line: list[LineUnit]


def slow_round(
    jobs: Mapping[str, SlowJob],
    capacity: Sequence[int],
    key: Key,
    within_limits: Callable[[str, Amounts, dict[str, Amounts]], bool] = lambda name, asks, whole: True,
) -> dict[str, list[LineUnit]]:
    """The whole target of every job: the units of its line that it has by right.

    key: where a node comes among its siblings, given the largest part of the cluster that it misses; within_limits:
    whether a unit more for a job breaks no limit.
    """
    got: dict[str, list[LineUnit]] = {name: [] for name in jobs}
    left_in_line = {name: list(job.line) for name, job in jobs.items()}

    def total(names: Sequence[str], j: int) -> int:
        return sum(unit.asks.get(j, 0) for name in names for unit in got[name])

    def below(node: Hashable) -> list[str]:
        return [name for name, job in jobs.items() if node in job.path]

    def missing(node: Hashable, j: int) -> Fraction:
        names = below(node)
        return sum((jobs[name].entitled.get(j, Fraction(0)) for name in names), Fraction(0)) - total(names, j)

    def misses(node: Hashable, unit: LineUnit) -> bool:
        return any(missing(node, j) > Fraction(capacity[j], GRID) for j in unit.asks)

    def whole() -> dict[str, Amounts]:
        wide = range(len(capacity))
        return {name: {j: amount for j in wide if (amount := total([name], j))} for name in jobs}

    def kept_for_running(name: str, unit: LineUnit, d: int) -> Amounts:
        """What a waiting unit must leave, of what it asks for, to the running units of its job; at the root nothing."""
        running = [] if unit.held or d == 0 else [each for each in left_in_line[name] if each.held]
        return {j: sum(each.asks.get(j, 0) for each in running) for j in unit.asks}

    def admissible(name: str, unit: LineUnit, d: int, stage: int, held: bool) -> bool:
        if unit.held is not held:
            return False
        kept = kept_for_running(name, unit, d)
        # Whatever fits the nodes on the path fits the cluster, but for a hair (see SNAP).
        if d == 0 and any(amount > capacity[j] - total(list(jobs), j) for j, amount in unit.asks.items()):
            return False
        for depth, node in enumerate(jobs[name].path):
            if 1 <= depth <= d:
                if any((amount + kept[j]) * (1 - MILLIONTH) > missing(node, j) for j, amount in unit.asks.items()):
                    return False
            elif depth > d and stage == 1 and not misses(node, unit):
                return False
        return within_limits(name, {j: amount + kept[j] for j, amount in unit.asks.items()}, whole())

    def next_units(name: str, behind: bool) -> list[LineUnit]:
        """The unit that a job comes with: the first that is left, or, of those behind it too, the first that will do.

        Behind the tasks that must start together nothing starts before them, and a reserve comes before nothing.
        """
        left = left_in_line[name]
        tasks = [unit for unit in left if unit.tasks]
        if not behind or not tasks or tasks[0].tasks > 1:
            return left[:1]
        return tasks

    def candidates(d: int, stage: int, held: bool, behind: bool) -> dict[str, LineUnit]:
        found: dict[str, LineUnit] = {}
        for name in jobs:
            for unit in next_units(name, behind):
                if admissible(name, unit, d, stage, held):
                    found[name] = unit
                    break
        return found

    def size(unit: LineUnit) -> Fraction:
        return max(Fraction(amount, capacity[j] or 1) for j, amount in unit.asks.items())

    def pick(able: dict[str, LineUnit]) -> str:
        depth, names = 0, list(able)
        while True:
            done = [name for name in names if len(jobs[name].path) == depth + 1]
            if done:
                return done[0]
            depth += 1
            groups: dict[Hashable, list[str]] = {}
            for name in names:
                groups.setdefault(jobs[name].path[depth], []).append(name)

            def where(node: Hashable, groups: dict[Hashable, list[str]] = groups) -> tuple[object, ...]:
                asked = {j for name in groups[node] for j in able[name].asks}
                return key(node, max(missing(node, j) / (capacity[j] or 1) for j in asked))

            names = groups[min(groups, key=where)]

    def hand_out(name: str, unit: LineUnit) -> None:
        left_in_line[name].remove(unit)
        got[name].append(unit)

    def own_part(name: str) -> None:
        """What a job's own entitlement holds: its units in the order of its line, as far as they fit."""
        for unit in list(left_in_line[name]):
            job, kept = jobs[name].path[-1], kept_for_running(name, unit, len(jobs[name].path) - 1)
            fits = all(n * (1 - MILLIONTH) <= missing(job, j) - kept[j] for j, n in unit.asks.items())
            if unit.tasks == 0 and unit is not left_in_line[name][0]:
                break
            if fits and within_limits(name, unit.asks, whole()):
                hand_out(name, unit)
            elif unit.tasks > 1:
                break

    for name in jobs:
        own_part(name)
    deepest = max((len(job.path) - 1 for job in jobs.values()), default=0)
    for d in range(deepest, -1, -1):
        for stage in (1, 2) if d else (1,):
            for behind in (False, True):
                for held in (True, False):
                    while able := candidates(d, stage, held, behind):
                        if held:
                            largest = max(map(size, able.values()))
                            able = {name: unit for name, unit in able.items() if size(unit) == largest}
                        name = pick(able)
                        hand_out(name, able[name])
    return got


def amounts_of(units: Sequence[LineUnit]) -> Amounts:
    """What units ask for together."""
    return {j: sum(unit.asks.get(j, 0) for unit in units) for j in sorted({j for unit in units for j in unit.asks})}
