"""Usage ledger: the counters of every job beside its holdings, summed at every level (docs/fairness.md, section 6.6).

- *request*: its total demand, holdings included (docs/fairness.md, section 3.1).
- *inqueue*: what it was promised on enqueue and does not hold yet: its minResources less its holdings. Once the pods of
  its minimum exist, at most the requests of the pending ones: a job whose tasks are ending frees its promise.
- *elastic*: its holdings beyond its minimum, which it could run without: beyond its minResources or, without these,
  beyond the requests of its gang.

Kept only if a plugin reads it. The share tree records which jobs to recount; the ledger recounts them just before a
read, so that a thousand placements of a job cost one count.
"""

from __future__ import annotations

from kubebase.resource_vector import PODS
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.engine.fairness.share_tree.usage_sums import count_job
from pumice.engine.state.job import Job
from pumice.model.specs import Items, JobPhase

ADMITTED = (JobPhase.INQUEUE, JobPhase.RUNNING, JobPhase.UNKNOWN)


class Ledger:
    """Keeps ``request``, ``inqueue`` and ``elastic`` of all nodes of a tree."""

    def __init__(self, tree: ShareTree) -> None:
        self._tree = tree
        if tree.touched is None:
            tree.touched = dict.fromkeys(tree.jobs.values())

    def sync(self) -> None:
        """Recount the jobs that changed."""
        touched = self._tree.touched
        if touched:
            for leaf in touched:
                count_job(leaf, *counters(leaf))
            touched.clear()


def counters(leaf: JobNode) -> tuple[list[int], list[int], list[int]]:
    """The counters of a job: request, inqueue and elastic."""
    job, held, demand = leaf.job, leaf.held, leaf.demand
    request, inqueue, elastic = [0] * len(held), [0] * len(held), [0] * len(held)
    for j, amount in demand.total:
        request[j] = amount
    least = least_of(job)
    if least and job.phase in ADMITTED:
        for j, amount in least:
            inqueue[j] = max(0, amount - held[j])
        if _all_exist(job):
            waiting = _waiting(job)
            inqueue = [min(promised, waiting.get(j, 0)) for j, promised in enumerate(inqueue)]
    if job.running:
        minimum = dict(least or _starts_with(leaf))
        elastic = [max(0, amount - minimum.get(j, 0)) if amount else 0 for j, amount in enumerate(held)]
    return request, inqueue, elastic


def least_of(job: Job) -> Items:
    """A job's minResources, as far as they count for shares; empty if it has none."""
    if job.spec is None:
        return ()
    return tuple((j, amount) for j, amount in enumerate(job.spec.min_resources) if amount and j != PODS)


def _starts_with(leaf: JobNode) -> Items:
    """What a job must start with. One that could not start again has no demand, and needs all that it holds."""
    demand = leaf.demand
    return demand.gang_items or (demand.parts[0][0] if demand.parts else tuple(enumerate(leaf.held)))


def _all_exist(job: Job) -> bool:
    assert job.spec is not None
    return job.unfinished_tasks + job.succeeded >= max(job.spec.min_member, 1)


def _waiting(job: Job) -> dict[int, int]:
    waiting: dict[int, int] = {}
    for shape, tasks in job.pending.items():
        for j, amount in shape.ask:
            waiting[j] = waiting.get(j, 0) + amount * len(tasks)
    return waiting
