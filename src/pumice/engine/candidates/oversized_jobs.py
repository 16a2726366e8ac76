"""Oversized jobs: what they must start with is more than their queue may ever hold.

See docs/fairness.md, section 6.5.

Such a job has no demand, just like one that does not fit the empty cluster: otherwise it would keep an entitlement that
it can never use. It is judged by the least it could start with, so that a job with some smaller tasks is not given up.

A job that runs may become oversized: somebody lowers the capability of its queue. It has no demand from then on, as if
it were evicted already. If its demand lasted until it is evicted, the targets of its siblings would rise only then, and
they would take back what they had just lost to make up for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kubebase.resource_vector import PODS, Registry
from pumice.engine.candidates.units import Parts, missing_to_start
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.model.specs import Items


@dataclass(frozen=True, slots=True)
class OversizedJob:
    """What a job must start with at least, and the queue whose real capability is less."""

    queue: ShareNode
    resource: int
    amount: int
    tasks: int

    def message(self, registry: Registry) -> str:
        """The message for the job's condition."""
        assert self.queue.ceiling is not None
        j = self.resource
        amount, most = (f"{registry.names[j]} {registry.format_amount(j, n)}" for n in (self.amount, self._most))
        what = f"its first {self.tasks} tasks request {amount} together" if self.tasks > 1 else f"it requests {amount}"
        return f"the job can never start: {what}, but queue {self.queue.name} may hold at most {most}"

    @property
    def _most(self) -> int:
        assert self.queue.ceiling is not None
        return self.queue.ceiling[self.resource]


def find_oversize(leaf: JobNode, start: int) -> OversizedJob | None:
    """Why a job that has not started never will, by the limits of its queue and the queue's ancestors; None: it may."""
    ceilings = _ceilings(leaf)
    if not ceilings:
        return None
    missing = missing_to_start(leaf.job, start)
    waiting = tuple((shape, len(tasks)) for shape, tasks in leaf.job.pending.items())
    asked = _least(waiting, missing, leaf.held) if missing > 0 else ()
    if not leaf.job.task_count and leaf.job.spec is not None:  # its pods do not exist yet
        asked = tuple((j, n) for j, n in enumerate(leaf.job.spec.min_resources) if n and j != PODS)
        missing = leaf.job.spec.min_member
    for queue, most, whole in ceilings if asked else ():
        for j, amount in asked:
            if amount > most[j] < whole[j]:
                return OversizedJob(queue, j, amount, missing + leaf.job.running)
    return None


def could_start_anew(leaf: JobNode, start: int) -> bool:
    """Whether a job might start again if all of it were evicted now, by the limits of its queue and those above."""
    ceilings = _ceilings(leaf)
    if not ceilings:
        return True
    job = leaf.job
    tasks = (*job.unfinished.items(), *job.unreplaced.items())
    size, there = max(1, start - job.succeeded), sum(count for _, count in tasks)
    asked = _least(tasks, size)
    if 0 < there < size and job.spec is not None:  # evicted pods are gone one by one, before they are replaced
        asked = (*asked, *((j, n) for j, n in enumerate(job.spec.min_resources) if n and j != PODS))
    return all(amount <= most[j] or most[j] >= whole[j] for _, most, whole in ceilings for j, amount in asked)


def _ceilings(leaf: JobNode) -> list[tuple[ShareNode, list[int], list[int]]]:
    """The ceilings of a job's queue and its ancestors, with the cluster's capacity, which the node table checks."""
    limited: list[tuple[ShareNode, list[int]]] = []
    queue: ShareNode = leaf.queue
    while queue.parent is not None:
        if queue.ceiling is not None:
            limited.append((queue, queue.ceiling))
        queue = queue.parent
    whole = queue.ceiling
    return [(limit, most, whole) for limit, most in limited] if whole is not None else []


def _least(tasks: Parts, number: int, held: Sequence[int] = ()) -> Items:
    """Per resource, the least that so many of these tasks request, plus what is held already."""
    asks = [(dict(shape.ask), count) for shape, count in tasks]
    found: list[tuple[int, int]] = []
    for j in sorted({j for ask, _ in asks for j in ask}):
        left, total = number, held[j] if held else 0
        for amount, count in sorted((ask.get(j, 0), count) for ask, count in asks):
            total += amount * min(count, left)
            left -= min(count, left)
        found.append((j, total))
    return tuple(found)
