"""The units of its line that the entitlement of a job covers."""

from __future__ import annotations

from pumice.engine.fairness.integer_target.deficits import LEAST, TOLERANCE
from pumice.engine.fairness.integer_target.task_line import Line
from pumice.engine.fairness.share_tree.equal_jobs import EXACT
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.model.specs import Items

NEAR = 2 / TOLERANCE
"""An entitlement that is further than this part of itself below the next task does not cover it."""


def base_units(exact: list[int], line: Line) -> list[int]:
    """How many units of each run of a line of equal tasks an entitlement covers."""
    units = [0] * len(line)
    missing = list(exact)
    for k, (items, _, number, _) in enumerate(line):
        fit = number
        for j, amount in items:
            if amount * fit * EXACT > missing[j]:
                fit = min(fit, max(0, missing[j] * TOLERANCE // (amount * LEAST)))
        units[k] = fit
        for j, amount in items:
            missing[j] -= fit * amount * EXACT
        if fit < number:
            break
    return units


def covered_tasks(target: float, line: Line) -> int:
    """How many tasks of a line of equal tasks an entitlement to so many of them covers, within the tolerance."""
    whole = int(target)
    if whole + 1 - target > NEAR * (whole + 1):  # so far from the next task that arithmetic plays no part
        return 0 if whole < line[0].tasks else min(whole, sum([tasks * number for _, tasks, number, _ in line]))
    covered, left = 0, round(target * EXACT)
    for _, tasks, number, _ in line:
        units = number
        if tasks * units * EXACT > left:
            units = min(units, max(0, left * TOLERANCE // (tasks * LEAST)))
        covered += units * tasks
        left -= units * tasks * EXACT
        if units < number:
            break
    return covered


def covers_the_same(leaf: JobNode) -> bool:
    """Whether a job's entitlement covers exactly the units that it has of its line; False also if that is close.

    The rounded entitlement tells, but for half a part of each resource.
    """
    left, taken = list(leaf.entitled), leaf.taken
    unlike = len(leaf.demand.pieces) > 1
    passed_over = running = False  # whether units are left of runs before, and of running ones
    for k, (items, tasks, number, held) in enumerate(leaf.line):
        units = taken[k]
        if passed_over and not tasks:
            return True
        if running and not held:
            return False  # what waits leaves them their part
        if not _holds(left, items, units) or (units < number and not _lacks(left, items, units + 1)):
            return False
        if units:
            for j, amount in items:
                left[j] -= units * amount
        if units < number:
            if not unlike or tasks > 1:
                return True
            passed_over, running = True, running or held
    return True


def _holds(left: list[int], items: Items, units: int) -> bool:
    for j, amount in items:
        if units * amount >= left[j] and units:
            return False
    return True


def _lacks(left: list[int], items: Items, units: int) -> bool:
    for j, amount in items:
        if units * amount > left[j] + 2 + units * amount // TOLERANCE:
            return True
    return False
