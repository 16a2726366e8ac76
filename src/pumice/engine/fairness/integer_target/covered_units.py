"""The units of a line of equal tasks that the entitlement of a job covers."""

from __future__ import annotations

from pumice.engine.fairness.integer_target.deficits import LEAST, TOLERANCE
from pumice.engine.fairness.integer_target.task_line import Line
from pumice.engine.fairness.share_tree.equal_jobs import EXACT

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
