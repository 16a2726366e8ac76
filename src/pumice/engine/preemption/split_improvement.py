"""Whether evicting a whole job improves the split between the two sides (docs/fairness.md, section 9.8).

A job that cannot go on without a task is evicted as a whole: a gang at its minimum, or a job of one task. That is
justified only if the total shortfall shrinks. At the lowest common ancestor of the job and a preemptor, the shortfall
(entitlement minus held) left on the job's side must be smaller than the shortfall that the preemptors' units remove on
theirs. Example: two queues have equal weights, and a gang of 80 of 100 runs. The other queue gets no more than 20,
because 0 : 100 would be worse than 80 : 20.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pumice.engine.fairness.preemption_rules.rules import lowest_common_ancestor
from pumice.engine.fairness.share_tree.tree import JobNode, ShareNode
from pumice.model.specs import Items

LEAST = 1e-9  # fraction of the cluster; smaller differences count as none


def improves_split(units: list[tuple[JobNode, Items]], gone: Iterable[JobNode], capacity: list[int]) -> bool:
    """Whether the units' gain exceeds the shortfall that evicting the jobs leaves on the jobs' sides.

    The accounts already include both changes: the units count as held, and the evicted jobs hold nothing. Several
    evicted jobs are judged together, each against the gain of the preemptors at their lowest common ancestor.
    """
    short: dict[ShareNode, float] = {}
    for job in gone:
        started: dict[ShareNode, Counter[int]] = {}
        for preemptor, items in units:
            _, ours, theirs = lowest_common_ancestor(preemptor, job)
            started.setdefault(ours, Counter()).update(dict(items))
            lacks = (_missing(theirs, j) / (capacity[j] or 1) for j, _ in job.demand.total)
            short[theirs] = max(lacks, default=0.0)
        gained = sum(_gain(side, asked, capacity) for side, asked in started.items())
        if sum(short.values()) >= gained - LEAST:
            return False
    return True


def _gain(side: ShareNode, started: Counter[int], capacity: list[int]) -> float:
    """By how much the started units lower a side's shortfall; zero for best-effort units."""
    gains = ((_missing(side, j, more) - _missing(side, j)) / (capacity[j] or 1) for j, more in started.items())
    return max(gains, default=0.0)


def _missing(side: ShareNode, j: int, less: int = 0) -> float:
    """The shortfall of a side, or what it would be if the side held ``less`` less."""
    return max(0.0, side.due[j] - (side.held[j] - less))
