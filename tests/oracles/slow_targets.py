"""What every job is entitled to, in real numbers and in whole tasks, from scratch.

See docs/fairness.md, sections 3.1 and 3.2.

The divisible target comes from the solver, which has its own exact test, and rounding by levels from ``slow_rounding``;
everything around them is here: the path of a job's demand, what the solver is given, entitlements without the noise of
its last bits, and the line of units that rounding hands out. Fractions are exact.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby

import numpy as np

from pumice.engine.fairness.fluid_target.flat_tree import JobNodes
from pumice.engine.fairness.fluid_target.solver import solve_targets
from pumice.model.specs import Vector
from tests.oracles.slow_rounding import LineUnit, SlowJob, amounts_of, slow_round
from tests.oracles.slow_tree import Branch, on_grid

SNAP = 1e-6
STEPS = 2**40  # entitlements are counted in this part of a task

Amounts = dict[int, int]
"""What is asked for or held, by resource, nothing at zero and never ``pods``."""
Piece = tuple[Amounts, int]
"""Equal tasks in a row, and how many."""


@dataclass
class Wish:
    """A job's demand, and what else rounding has to know of it."""

    path: list[tuple[Amounts, bool]]  # of each task that counts what it asks for, and whether it holds its place
    running: list[Amounts]  # what each task that holds its place asks for, in task order
    floor: Amounts  # minResources
    gang: int  # how many it starts with
    rank: tuple[int, ...]  # its class among the jobs of its parent
    tiers: tuple[int, ...]  # its keys ahead of the share
    served: int  # latest start of a task that it holds and that was owed, 0 for none
    targets: list[float] = field(default_factory=list)  # for each piece of its demand
    entitled: dict[int, Fraction] = field(default_factory=dict)
    whole: Amounts = field(default_factory=dict)
    whole_tasks: list[Amounts] = field(default_factory=list)  # what each task in it asks for; of a gang all together

    @property
    def reserve(self) -> Amounts:
        """What minResources ask for beyond the tasks."""
        total = add_up([asks for asks, _ in self.path])
        return {j: least - total.get(j, 0) for j, least in self.floor.items() if least > total.get(j, 0)}

    @property
    def pieces(self) -> list[Piece]:
        """The path with equal neighbours together; the reserve comes last."""
        pieces = [(asks, len(list(equal))) for asks, equal in groupby(asks for asks, _ in self.path)]
        return [*pieces, (self.reserve, 1)] if self.reserve else pieces

    @property
    def line(self) -> list[LineUnit]:
        """The units it has a right to one after another: what runs, what waits, the reserve; its gang is one unit."""
        tasks = [(asks, True) for asks in self.running] + [(asks, False) for asks, held in self.path if not held]
        gang = min(self.gang, len(tasks))
        together = [LineUnit(add_up([asks for asks, _ in tasks[:gang]]), gang, all(held for _, held in tasks[:gang]))]
        line = (together if gang else []) + [LineUnit(asks, 1, held) for asks, held in tasks[gang:]]
        return [*line, LineUnit(self.reserve, 0, False)] if self.reserve else line


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


@dataclass
class Solved:
    """What the solver is given: inner nodes; leaves, each a piece of what a job, or several equal ones, ask for."""

    parent: list[int] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    job_nodes: dict[int, tuple[int, ...]] = field(default_factory=dict)  # jobs of several pieces, and their classes
    leaves: list[tuple[int, list[Wish], int]] = field(default_factory=list)  # the parent, whose piece, and which


def set_targets(root: Branch, wishes: Mapping[str, Wish], capacity: Vector) -> None:
    """Solve, and set the targets and the entitlement of every job."""
    solved = Solved([-1], [root.weight])

    def visit(node: Branch, number: int) -> None:
        alike: list[list[Wish]] = []
        for child in sorted(node.children, key=lambda child: child.rank):
            if child.job is None:
                solved.parent.append(number)
                solved.weight.append(child.weight)
                visit(child, len(solved.parent) - 1)
            else:
                _join(alike, wishes[child.name])
        for group in alike:
            # What the cluster has nothing of can't be given.
            given = [k for k, (asks, _) in enumerate(group[0].pieces) if all(capacity[j] for j in asks)]
            above = number
            if len(given) > 1:
                solved.parent.append(number)
                solved.weight.append(float(len(group)))
                above = len(solved.parent) - 1
                solved.job_nodes[above] = group[0].rank
            solved.leaves.extend((above, group, k) for k in given)

    for wish in wishes.values():
        wish.targets = [0.0] * len(wish.pieces)
    visit(root, 0)
    if solved.leaves:
        _solve(solved, capacity)
    for wish in wishes.values():
        # The last bits of a target are noise; on the grid everything that follows is exact.
        wish.entitled = {}
        for (asks, _), target in zip(wish.pieces, wish.targets, strict=True):
            for j, amount in asks.items():
                part = Fraction(round(target * STEPS), STEPS) * amount
                wish.entitled[j] = wish.entitled.get(j, Fraction(0)) + part


def _join(groups: list[list[Wish]], wish: Wish) -> None:
    for group in groups:
        if (group[0].pieces, group[0].rank) == (wish.pieces, wish.rank):
            group.append(wish)
            return
    groups.append([wish])


def _solve(solved: Solved, capacity: Vector) -> None:
    leaves = solved.leaves
    pieces = [group[0].pieces[k] for _, group, k in leaves]
    used = sorted({j for asks, _ in pieces for j in asks})
    classes = sorted({wish.rank for _, (wish, *_), _ in leaves})
    tasks = solve_targets(
        np.array([*solved.parent, *(above for above, _, _ in leaves)]),
        np.array([*solved.weight, *(float(len(group)) for _, group, _ in leaves)]),
        np.arange(len(solved.parent), len(solved.parent) + len(leaves)),
        np.array([[asks.get(j, 0) / capacity[j] for j in used] for asks, _ in pieces]),
        np.array([float(count * len(group)) for (_, count), (_, group, _) in zip(pieces, leaves, strict=True)]),
        np.array([k if above in solved.job_nodes else classes.index(group[0].rank) for above, group, k in leaves]),
        jobs=JobNodes(
            np.array(list(solved.job_nodes), dtype=np.int64),
            np.array([classes.index(rank) for rank in solved.job_nodes.values()], dtype=np.int64),
        ),
    )
    for (_, group, k), total in zip(leaves, tasks.tolist(), strict=True):
        for wish in group:
            wish.targets[k] = snap(total / len(group))


def snap(number: float) -> float:
    """The whole number if it is that near."""
    return float(round(number)) if abs(number - round(number)) < SNAP else number


# --- rounding ---------------------------------------------------------------------------------------------------------


def set_whole_targets(
    lines: Mapping[str, list[Branch]],
    wishes: Mapping[str, Wish],
    capacity: Vector,
    turns: Mapping[tuple[str, ...], int],
) -> None:
    """Round by levels. Where nothing that runs tells whose turn it is, the last turn of each queue and job does."""

    def turn(branch: Branch) -> int:
        line = next(lines[leaf.name] for leaf in branch.jobs())
        return turns.get(tuple(above.name for above in line[: line.index(branch) + 1]), 0) if branch.kind != 1 else 0

    def key(branch: Hashable, want: Fraction) -> tuple[object, ...]:
        assert isinstance(branch, Branch)
        served = max((wishes[leaf.name].served for leaf in branch.jobs()), default=0)
        last = (-on_grid(want), served, turn(branch), branch.rank)
        return last if branch.job is None else (wishes[branch.name].rank, wishes[branch.name].tiers, *last)

    jobs = {name: SlowJob(line, wishes[name].entitled, wishes[name].line) for name, line in lines.items()}
    for name, units in slow_round(jobs, capacity, key).items():
        wishes[name].whole = amounts_of(units)
        wishes[name].whole_tasks = [unit.asks for unit in units if unit.tasks]
