"""What a cluster would not let in: queues that have no place in the tree, jobs without a queue that takes them.

``faults`` judges a whole set of objects at once and changes nothing. A file is judged when it is read; what an
event brings is judged together with what is there, and refused if that adds a fault.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from pumice.kube.pods import GROUP_NAME
from pumice.model.events import Described
from pumice.model.hierarchy import lay_out
from pumice.model.objects import DEFAULT_QUEUE, ROOT, JobSpec, Queue, TaskSpec
from pumice.model.queue_amounts import QueueAmounts
from pumice.model.resources import Registry
from pumice.sim.objects import Objects
from pumice.sim.problems import did_you_mean


@dataclass(frozen=True, slots=True)
class Fault:
    """Why one object can't be let in."""

    kind: type[Described]
    key: str
    field: str
    message: str


def complete(objects: Objects) -> None:
    """Add what every cluster has: the queue ``default``, where something uses it."""
    used = any(job.queue == DEFAULT_QUEUE for job in objects.jobs.values())
    if used and DEFAULT_QUEUE not in objects.queues:
        objects.put(Queue(DEFAULT_QUEUE))


def faults(objects: Objects, registry: Registry, announced: Collection[str] = ()) -> Iterator[Fault]:
    """Everything that can't be let in; ``announced`` are jobs that will come later."""
    layout = lay_out(objects.queues)
    for refusal in layout.refusals:
        if refusal.refused:
            yield Fault(Queue, refusal.queue, refusal.field, refusal.message)
    yield from _amounts(QueueAmounts(layout.places, objects.queues), registry)
    parents = {path[:-1] for path in layout.places} | {(ROOT,)}
    leaves = {name: path for name, path in layout.path_of.items() if path not in parents}
    for job in objects.jobs.values():
        path = layout.path_of.get(job.queue)
        if path is None:
            known = {*leaves, DEFAULT_QUEUE}
            hint = did_you_mean(job.queue, known) or f"; there are {_some(known)}"
            why = "was refused" if job.queue in objects.queues else f"does not exist{hint}"
            yield Fault(JobSpec, job.key, "spec.queue", f"the queue '{job.queue}' {why}")
        elif path in parents:
            below = {name for name, leaf in leaves.items() if leaf[: len(path)] == path} or {DEFAULT_QUEUE}
            message = f"'{job.queue}' is no leaf of the tree and takes no jobs; write a queue below it: {_some(below)}"
            yield Fault(JobSpec, job.key, "spec.queue", message)
    for task in objects.tasks.values():
        if task.job is not None and task.job not in objects.jobs and task.job not in announced:
            message = f"there is no PodGroup {task.job}{did_you_mean(task.job, objects.jobs)}"
            yield Fault(TaskSpec, task.key, f"metadata.annotations[{GROUP_NAME}]", message)


def _amounts(amounts: QueueAmounts, registry: Registry) -> Iterator[Fault]:
    """Queues whose amounts contradict each other. Of several that make a sum, the one that came last is refused."""
    for excess in amounts.excesses():
        last = max(amounts.makers(excess), key=lambda queue: (queue.created, queue.name))
        resource = registry.names[excess.resource]
        field = excess.want.path if excess.together else f"{excess.want.path}.{resource}"
        yield Fault(Queue, last.name, field, excess.say(registry))


def _some(names: Collection[str]) -> str:
    """A few of the names, so that a message stays a line."""
    few = sorted(names)[:5]
    return ", ".join(few) + (", ..." if len(names) > len(few) else "")
