"""A job's line: its tasks in the order in which it is entitled to them, as units that start together.

Tasks that it holds come before pending ones. The tasks that must start together are the first unit; after that every
task is a unit. Consecutive equal units form one run.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.fairness.share_tree.share_node import JobNode


class UnitRun(NamedTuple):
    """Consecutive equal units."""

    items: Items  # the request of one unit
    tasks: int  # per unit
    number: int  # number of units
    held: bool  # whether they are running (placed) already


Line = tuple[UnitRun, ...]

SHORT = 8
"""Jobs whose lines have up to so many runs share what is equal: most jobs have one or two."""


def line_of(leaf: JobNode) -> Line:
    """The current line of a job."""
    demand = leaf.demand
    if len(demand.parts) > 1:
        return _line_of_unlike(leaf)
    runs: list[UnitRun] = []
    for items, count in demand.parts:
        j, amount = items[0]
        held = min(leaf.held[j] // amount, count)
        waiting = count - held
        gang = min(leaf.gang, count)
        if gang > 1:
            together = tuple((j, amount * gang) for j, amount in items)
            runs.append(UnitRun(together, gang, 1, held >= gang))
            held, waiting = max(0, held - gang), count - gang - max(0, held - gang)
        if held:
            runs.append(UnitRun(items, 1, held, True))
        if waiting:
            runs.append(UnitRun(items, 1, waiting, False))
    if demand.reserve:
        runs.append(UnitRun(demand.reserve, 0, 1, False))
    return _shared(tuple(runs)) if len(runs) <= SHORT else tuple(runs)


@lru_cache(maxsize=1 << 12)
def _shared(line: Line) -> Line:
    """This line, one object for all jobs that have an equal one."""
    return line


def _line_of_unlike(leaf: JobNode) -> Line:
    """The line of heterogeneous tasks: placed tasks in task order, the others in the order of the demand."""
    running = [task for task in leaf.job.each_task() if task.status.held and task.shape.ask]
    running.sort(key=lambda task: task.order)
    waiting = [task for task in leaf.path_tasks if not task.status.held]
    asks = [(task.shape.ask, True) for task in running] + [(task.shape.ask, False) for task in waiting]
    runs: list[UnitRun] = []
    gang = min(leaf.gang, len(asks))
    if gang > 1:
        total: dict[int, int] = {}
        for items, _ in asks[:gang]:
            for j, amount in items:
                total[j] = total.get(j, 0) + amount
        runs.append(UnitRun(tuple(sorted(total.items())), gang, 1, all(here for _, here in asks[:gang])))
        asks = asks[gang:]
    first = 0
    for k, ask in enumerate(asks):
        if k + 1 == len(asks) or asks[k + 1] != ask:
            runs.append(UnitRun(ask[0], 1, k + 1 - first, ask[1]))
            first = k + 1
    if leaf.demand.reserve:
        runs.append(UnitRun(leaf.demand.reserve, 0, 1, False))
    return _shared(tuple(runs)) if len(runs) <= SHORT else tuple(runs)
