"""Whether evicting a whole job improves the split between the two sides (docs/fairness.md, section 9.8).

A job that cannot go on without a task is evicted as a whole: a gang at its minimum, or a job of one task. That is
justified only if the total shortfall shrinks. At the lowest common ancestor of the job and a preemptor, the shortfall
(entitlement minus held) left on the job's side must be smaller than the shortfall that the preemptors' units remove on
theirs. Example: two queues have equal weights, and a gang of 80 of 100 runs. The other queue gets no more than 20,
because 0 : 100 would be worse than 80 : 20.

A job that could not start again within the limits of its queue is entitled to nothing, so it leaves no shortfall of its
own. It is lost for good: the preemptors must gain at least half of what it holds.

The split says nothing about work: a gang that has run for days loses all of it for a few tasks. ``loses_too_much`` is
the bound on that, if a configuration sets one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pumice.engine.candidates.units import total_of
from pumice.engine.fairness.orders.serving_order import part_of
from pumice.engine.fairness.preemption_rules.rules import lowest_common_ancestor
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.transaction import Eviction

LEAST = 1e-9  # fraction of the cluster; smaller differences count as none


def improves_split(units: list[tuple[JobNode, Items]], gone: Iterable[JobNode], capacity: list[int]) -> bool:
    """Whether the units' gain exceeds the shortfall that evicting the jobs leaves on the jobs' sides.

    The accounts already include both changes: the units count as held, and the evicted jobs hold nothing. Several
    evicted jobs are judged together, each against the gain of the preemptors at their lowest common ancestor. A later
    unit that starts on the evicted job's own side, as the first preemptor sees it, only lowers the shortfall there.
    """
    short: dict[ShareNode, float] = {}
    lost = 0.0
    for job in gone:
        started: dict[ShareNode, Counter[int]] = {}
        _, _, losing = lowest_common_ancestor(units[0][0], job)
        for preemptor, items in units:
            if preemptor is not units[0][0] and _is_below(preemptor, losing):
                continue
            _, ours, theirs = lowest_common_ancestor(preemptor, job)
            started.setdefault(ours, Counter()).update(dict(items))
            lacks = (missing(theirs, j) / (capacity[j] or 1) for j in _resources(job))
            short[theirs] = max(lacks, default=0.0)
        lost += 0.0 if job.demand.total else part_of(_evicted(job), capacity)
        gained = sum(_gain(side, asked, capacity) for side, asked in started.items())
        if sum(short.values()) >= gained - LEAST or 2 * gained < lost - LEAST:
            return False
    return True


def loses_too_much(
    units: list[tuple[JobNode, Items]], gone: Iterable[Eviction], capacity: list[int], now: int, limit: int
) -> bool:
    """Whether evicted tasks lose more work than the units do in the time ``limit``.

    Work is the dominant share of a task times its run time. A later unit that starts on the side of an evicted job, as
    the first preemptor sees it, is no gain: it only replaces what went.
    """
    departures = [departure for departure in gone if not departure.was_bound_this_cycle]
    lost = sum(part_of(d.task.shape.ask, capacity) * max(0, now - d.started) for d in departures)
    if not lost:
        return False
    losing = {lowest_common_ancestor(units[0][0], d.leaf)[2] for d in departures}
    gained = sum(
        part_of(ask, capacity)
        for preemptor, ask in units
        if preemptor is units[0][0] or not any(_is_below(preemptor, side) for side in losing)
    )
    return lost > gained * limit


def _resources(gone: JobNode) -> list[int]:
    """What an evicted job asks for."""
    return [j for j, _ in gone.demand.total or _evicted(gone)]


def _evicted(gone: JobNode) -> Items:
    """What the evicted tasks of a job request together."""
    return total_of(tuple((shape.ask, number) for shape, number in gone.job.evicted.items()))


def _is_below(job: JobNode, ancestor: ShareNode) -> bool:
    node: ShareNode | None = job
    while node is not None and node is not ancestor:
        node = node.parent
    return node is ancestor


def _gain(side: ShareNode, started: Counter[int], capacity: list[int]) -> float:
    """By how much the started units lower a side's shortfall; zero for best-effort units."""
    gains = ((missing(side, j, more) - missing(side, j)) / (capacity[j] or 1) for j, more in started.items())
    return max(gains, default=0.0)


def missing(side: ShareNode, j: int, less: int = 0) -> float:
    """The shortfall of a side, or what it would be if the side held ``less`` less."""
    return max(0.0, side.due[j] - (side.held[j] - less))
