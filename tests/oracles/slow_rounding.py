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
) -> dict[str, Amounts]:
    """The whole target of every job.

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

    def admissible(name: str, d: int, stage: int, held: bool) -> bool:
        job = jobs[name]
        if not left_in_line[name] or left_in_line[name][0].held is not held:
            return False
        unit = left_in_line[name][0]
        # In the first round whatever fits the nodes on the path fits the cluster, but for a hair (see SNAP).
        if (d == 0 or late) and any(amount > capacity[j] - total(list(jobs), j) for j, amount in unit.asks.items()):
            return False
        for depth, node in enumerate(job.path):
            if 1 <= depth <= d:
                if any(amount * (1 - MILLIONTH) > missing(node, j) for j, amount in unit.asks.items()):
                    return False
            elif depth > d and stage == 1 and not misses(node, unit):
                return False
        return within_limits(name, unit.asks, whole())

    def size(name: str) -> Fraction:
        asks = left_in_line[name][0].asks
        return max(Fraction(amount, capacity[j] or 1) for j, amount in asks.items())

    def pick(able: list[str]) -> str:
        depth, candidates = 0, able
        while True:
            done = [name for name in candidates if len(jobs[name].path) == depth + 1]
            if done:
                return done[0]
            depth += 1
            groups: dict[Hashable, list[str]] = {}
            for name in candidates:
                groups.setdefault(jobs[name].path[depth], []).append(name)

            def where(node: Hashable, groups: dict[Hashable, list[str]] = groups) -> tuple[object, ...]:
                asked = {j for name in groups[node] for j in left_in_line[name][0].asks}
                return key(node, max(missing(node, j) / (capacity[j] or 1) for j in asked))

            candidates = groups[min(groups, key=where)]

    def passes() -> None:
        deepest = max((len(job.path) - 1 for job in jobs.values()), default=0)
        for d in range(deepest, -1, -1):
            for stage in (1, 2) if d else (1,):
                for held in (True, False):
                    while able := [name for name in jobs if admissible(name, d, stage, held)]:
                        if held:
                            largest = max(map(size, able))
                            able = [name for name in able if size(name) == largest]
                        name = pick(able)
                        got[name].append(left_in_line[name].pop(0))

    def skip(name: str) -> bool:
        """Pass over the next unit of a line, and those after it that do not fit what is left; whether one is left."""
        line = left_in_line[name]
        if not line or (not got[name] and line[0].tasks > 1):
            line.clear()
            return False
        first = line[0]
        while line and (
            line[0] == first or any(n > capacity[j] - total(list(jobs), j) for j, n in line[0].asks.items())
        ):
            line.pop(0)
        return bool(line)

    def own_part(name: str) -> None:
        """What a job's own entitlement holds, in the order of its line."""
        line = left_in_line[name]
        while line:
            unit = line[0]
            fits = all(n * (1 - MILLIONTH) <= missing(jobs[name].path[-1], j) for j, n in unit.asks.items())
            if not fits or not within_limits(name, unit.asks, whole()):
                break
            got[name].append(line.pop(0))

    late = False
    for name in jobs:
        own_part(name)
    passes()
    late = True
    while True:
        going_on = [name for name in jobs if skip(name)]  # everybody passes one over
        if not going_on:
            break
        passes()
    return whole()
