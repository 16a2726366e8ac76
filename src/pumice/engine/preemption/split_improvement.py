"""Whether it makes the split better that a running job goes whole (docs/fairness.md, section 9.8).

A job that cannot go on without a task goes whole: a gang at its minimum, or a job of one task. That is only right if
less is missing afterwards. Where the path of the job and that of a taker part, the shortfall (entitlement less held)
that is left on the job's side must be smaller than the shortfall that the takers' units remove on theirs. Two queues
have equal rights, a gang of 80 of 100 runs: the other queue gets no more than 20, because 0 : 100 would be worse than
80 : 20.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pumice.engine.fairness.preemption_rules.rules import lowest_common_ancestor
from pumice.engine.fairness.share_tree.tree import JobNode, ShareNode
from pumice.model.specs import Items

LEAST = 1e-9  # parts of the cluster: a difference that is none


def improves_split(units: list[tuple[JobNode, Items]], gone: Iterable[JobNode], capacity: list[int]) -> bool:
    """Whether takers that got these units gain more than the sides of the jobs that went whole are short of now.

    All of it is on the accounts already: the units count as held, and the jobs hold nothing. Several jobs that went are
    judged together, each against what the takers gain where the paths part.
    """
    short: dict[ShareNode, float] = {}
    for job in gone:
        started: dict[ShareNode, Counter[int]] = {}
        for taker, items in units:
            _, ours, theirs = lowest_common_ancestor(taker, job)
            started.setdefault(ours, Counter()).update(dict(items))
            lacks = (_missing(theirs, j) / (capacity[j] or 1) for j, _ in job.demand.total)
            short[theirs] = max(lacks, default=0.0)
        gained = sum(_gain(side, asked, capacity) for side, asked in started.items())
        if sum(short.values()) >= gained - LEAST:
            return False
    return True


def _gain(side: ShareNode, started: Counter[int], capacity: list[int]) -> float:
    """How much less a side is short of by what started on it; nothing, if that asks for nothing but a place."""
    gains = ((_missing(side, j, more) - _missing(side, j)) / (capacity[j] or 1) for j, more in started.items())
    return max(gains, default=0.0)


def _missing(side: ShareNode, j: int, less: int = 0) -> float:
    """What a side is short of; or would be, if it held so much less."""
    return max(0.0, side.due[j] - (side.held[j] - less))
