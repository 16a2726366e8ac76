"""Whether it makes the split better that a running job goes whole (fairness.md 9).

A job that cannot go on without a task goes whole: a gang, or a job of one task. That is only right if less is missing
afterwards. Where the path of the job and that of a taker part, the shortfall (entitlement less held) that is left on
the job's side must be smaller than the shortfall that the takers' units remove on theirs. Two queues have equal rights,
a gang of 80 of 100 runs: the other queue gets no more than 20, because 0 : 100 would be worse than 80 : 20.
"""

from __future__ import annotations

from collections.abc import Iterable

from pumice.fairness.taking import parting
from pumice.fairness.tree import JobNode, ShareNode
from pumice.model.objects import Items

LEAST = 1e-9  # parts of the cluster: a difference that is none


def improves_split(takers: Iterable[tuple[JobNode, Items]], gone: Iterable[JobNode], capacity: list[int]) -> bool:
    """Whether takers that got these units gain more than the jobs that went whole are short of now.

    All of it is on the accounts: the units count as held, the jobs hold nothing.
    """
    removed: dict[ShareNode, dict[int, int]] = {}
    short: dict[ShareNode, float] = {}
    units = list(takers)
    for job in gone:
        for taker, items in units:
            _, ours, theirs = parting(taker, job)
            asked = removed.setdefault(ours, {})
            for j, amount in items:
                asked[j] = asked.get(j, 0) + amount
            short[theirs] = max(_missing(theirs, j, 0) / (capacity[j] or 1) for j in _asked_below(job))
        gain = sum(
            max((_missing(side, j, more) - _missing(side, j, 0)) / (capacity[j] or 1) for j, more in asked.items())
            for side, asked in removed.items()
        )
        removed.clear()
        if sum(short.values()) >= gain - LEAST:
            return False
    return True


def _missing(side: ShareNode, j: int, more: int) -> float:
    """What a side is short of, if it held so much less."""
    return max(0.0, side.due[j] - (side.held[j] - more))


def _asked_below(job: JobNode) -> list[int]:
    return [j for j, _ in job.demand.total] or [0]
