"""What every job is entitled to, in real numbers and in whole tasks, from scratch (fairness.md 3).

The divisible target comes from the solver, which has its own exact test; everything around it is here: what it is
given, entitlements without the noise of its last bits, and rounding by walks. Fractions are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from pumice.fairness.entitlement import solve
from pumice.model.objects import Vector
from tests.oracles.slow_tree import GRID, Branch, Key, on_grid, walk

SNAP = 1e-6

Amounts = dict[int, int]
"""What is asked for or held, by resource, nothing at zero and never ``pods``."""


@dataclass
class Wish:
    """A job's demand, and what else rounding has to know of it."""

    tasks: list[Amounts]  # what each unfinished task that counts asks for, in task order
    floor: Amounts  # minResources
    gang: int  # how many it starts with
    first: list[int]  # which of the tasks make its gang
    any_first: bool  # whether any task would do as its gang
    rank: tuple[int, ...]  # its class among the jobs of its parent
    held: Amounts
    tiers: tuple[int, ...]  # its keys ahead of the share
    served: int  # latest start of a task that it holds and that was owed, 0 for none
    target: float = 0.0
    entitled: dict[int, Fraction] = field(default_factory=dict)
    whole: Amounts = field(default_factory=dict)

    @property
    def kinds(self) -> list[tuple[Amounts, int]]:
        """How many tasks there are of each request, in task order of the first."""
        kinds: list[tuple[Amounts, int]] = []
        for request in self.tasks:
            if request not in [kind for kind, _ in kinds]:
                kinds.append((request, self.tasks.count(request)))
        return kinds

    @property
    def alike(self) -> bool:
        """Whether a target is a number of equal tasks, or else a part of the whole demand."""
        return len(self.kinds) == 1 and within(self.floor, add_up(self.tasks))

    @property
    def direction(self) -> Amounts:
        """What one unit of target holds."""
        if self.alike:
            return self.tasks[0]
        total = add_up(self.tasks)
        return {j: max(total.get(j, 0), self.floor.get(j, 0)) for j in {*total, *self.floor}}

    @property
    def count(self) -> int:
        """The largest target."""
        return len(self.tasks) if self.alike else int(bool(self.direction))

    def asks(self, tasks: list[int]) -> Amounts:
        """What these of its tasks ask for together."""
        return add_up([self.tasks[i] for i in tasks])


def add_up(vectors: Sequence[Amounts]) -> Amounts:
    """The sum."""
    total: Amounts = {}
    for vector in vectors:
        for j, amount in vector.items():
            total[j] = total.get(j, 0) + amount
    return total


def within(small: Amounts, large: Amounts) -> bool:
    """Whether small <= large everywhere."""
    return all(amount <= large.get(j, 0) for j, amount in small.items())


def entitled_below(branch: Branch, wishes: Mapping[str, Wish]) -> dict[int, Fraction]:
    """E of a branch: the sum over its jobs."""
    total: dict[int, Fraction] = {}
    for leaf in branch.jobs():
        for j, amount in wishes[leaf.name].entitled.items():
            total[j] = total.get(j, Fraction(0)) + amount
    return total


# --- the divisible target -------------------------------------------------------------------------------------------


def set_targets(root: Branch, wishes: Mapping[str, Wish], capacity: Vector) -> None:
    """Solve, and set the target and the entitlement of every job."""
    parent, weight = [-1], [root.weight]
    leaves: list[tuple[int, list[Wish]]] = []  # the parent's number, and jobs that are equal to the solver

    def visit(node: Branch, number: int) -> None:
        alike: list[list[Wish]] = []
        for child in sorted(node.children, key=lambda child: child.rank):
            if child.job is None:
                parent.append(number)
                weight.append(child.weight)
                visit(child, len(parent) - 1)
            # What the cluster has nothing of can't be given.
            elif wishes[child.name].count and all(capacity[j] for j in wishes[child.name].direction):
                _join(alike, wishes[child.name])
        leaves.extend((number, group) for group in alike)

    visit(root, 0)
    if leaves:
        _solve(parent, weight, leaves, capacity)
    for wish in wishes.values():
        # The last bits of the target are noise; in steps of 2^-32 everything that follows is exact.
        target = Fraction(round(wish.target * 2**32), 2**32)
        wish.entitled = {j: target * amount for j, amount in wish.direction.items()}


def _join(groups: list[list[Wish]], wish: Wish) -> None:
    for group in groups:
        if (group[0].direction, group[0].count, group[0].rank) == (wish.direction, wish.count, wish.rank):
            group.append(wish)
            return
    groups.append([wish])


def _solve(parent: list[int], weight: list[float], leaves: list[tuple[int, list[Wish]]], capacity: Vector) -> None:
    used = sorted({j for _, (wish, *_) in leaves for j in wish.direction})
    classes = sorted({wish.rank for _, (wish, *_) in leaves})
    tasks = solve(
        np.array([*parent, *(number for number, _ in leaves)]),
        np.array([*weight, *(float(len(group)) for _, group in leaves)]),
        np.arange(len(parent), len(parent) + len(leaves)),
        np.array([[group[0].direction.get(j, 0) / capacity[j] for j in used] for _, group in leaves]),
        np.array([float(group[0].count * len(group)) for _, group in leaves]),
        np.array([classes.index(group[0].rank) for _, group in leaves]),
    )
    for (_, group), total in zip(leaves, tasks.tolist(), strict=True):
        for wish in group:
            each = total / len(group)
            wish.target = snap(each) if wish.alike or each > 1 - SNAP / max(1, len(wish.tasks)) else each


def snap(number: float) -> float:
    """The whole number if it is that near."""
    return float(round(number)) if abs(number - round(number)) < SNAP else number


# --- rounding ---------------------------------------------------------------------------------------------------------


def set_whole_targets(
    root: Branch,
    lines: Mapping[str, list[Branch]],
    wishes: Mapping[str, Wish],
    capacity: Vector,
    turns: Mapping[tuple[str, ...], int],
) -> None:
    """Round: the whole parts, then what is left of capacity in units, at most one a job.

    Where nothing that runs tells whose turn it is, the last turn of each queue does.
    """
    base = {name: base_of(wish) for name, wish in wishes.items()}
    unit = {name: unit_of(wish) for name, wish in wishes.items()}
    extra: dict[str, Amounts] = {}
    # Incumbent in what the unit asks for: who holds more of something else has no place to lose.
    incumbents = [
        name for name, wish in wishes.items() if any(wish.held.get(j, 0) > base[name].get(j, 0) for j in unit[name])
    ]

    def left() -> Amounts:
        used = add_up([*base.values(), *extra.values()])
        return {j: amount - used.get(j, 0) for j, amount in enumerate(capacity)}

    def lacks(branch: Branch, j: int) -> Fraction:
        """D / r: what the jobs below are entitled to, less what their whole targets hold so far."""
        names = [leaf.name for leaf in branch.jobs()]
        whole = sum(base[name].get(j, 0) + extra.get(name, {}).get(j, 0) for name in names)
        return (entitled_below(branch, wishes).get(j, Fraction(0)) - whole) / capacity[j]

    def wanting(name: str) -> bool:
        """Whether something is missing on every level, by more than a step of the grid of keys."""
        return all(max(lacks(branch, j) for j in unit[name]) > Fraction(1, GRID) for branch in lines[name])

    def ahead(branch: Branch, asked: set[int]) -> bool:
        """Whether it holds more than its whole targets so far, added up, of something that is asked for."""
        names = [leaf.name for leaf in branch.jobs()]
        held = add_up([wishes[n].held for n in names])
        whole = add_up([*(base[n] for n in names), *(extra[n] for n in names if n in extra)])
        return any(held.get(j, 0) > whole.get(j, 0) for j in asked)

    def turn(branch: Branch) -> int:
        line = next(lines[leaf.name] for leaf in branch.jobs())
        return turns.get(tuple(above.name for above in line[: line.index(branch) + 1]), 0) if branch.kind != 1 else 0

    def key(branch: Branch, able: list[Branch]) -> Key:
        asked = {j for leaf in able for j in unit[leaf.name]}
        lack = max(lacks(branch, j) for j in asked)
        served = max((wishes[leaf.name].served for leaf in branch.jobs()), default=0)
        if branch.job is None:
            return (-on_grid(lack), not ahead(branch, asked), served, turn(branch), branch.rank)
        wish = wishes[branch.name]
        # The class first (fairness.md 3); that a job has not started only breaks ties, after the incumbents.
        return (wish.rank, branch.name not in incumbents, wish.tiers, -on_grid(lack), served, turn(branch), branch.rank)

    def hand_out(names: list[str], *, wanting_only: bool) -> None:
        while True:
            fitting = [n for n in names if n not in extra and unit[n] and within(unit[n], left())]
            able = [lines[name][-1] for name in fitting if wanting(name) or not wanting_only]
            if not able:
                return
            name = walk(root, able, key).name
            extra[name] = unit[name]

    hand_out(incumbents, wanting_only=True)
    hand_out(list(wishes), wanting_only=False)
    for name, wish in wishes.items():
        wish.whole = add_up([base[name], extra.get(name, {})])


def base_of(wish: Wish) -> Amounts:
    """What the whole part of a job's target holds."""
    if not wish.alike and wish.target >= 1:
        return wish.direction
    return wish.asks(whole_part(wish))


def whole_part(wish: Wish) -> list[int]:
    """Which of its tasks the whole part of a job's target holds; none if that is less than its gang."""
    if wish.alike:
        tasks = list(range(int(wish.target)))
    else:
        tasks = []
        for request, count in wish.kinds:
            number = int(snap(wish.target * count))
            tasks += [i for i, other in enumerate(wish.tasks) if other == request][:number]
    enough = len(tasks) >= wish.gang and (wish.any_first or within(wish.asks(wish.first), wish.asks(tasks)))
    return tasks if enough else []


def unit_of(wish: Wish) -> Amounts:
    """What a job that had its whole part would start next: its gang, or one of the first kind that is missing."""
    if not wish.tasks:  # its pods are still to come
        return wish.direction if wish.target < 1 else {}
    have = whole_part(wish)
    if not have:
        return wish.asks(wish.first)
    missing = [i for i in range(len(wish.tasks)) if i not in have]
    return wish.asks([i for kind, _ in wish.kinds for i in missing if wish.tasks[i] == kind][:1])
