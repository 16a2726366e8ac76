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


def faults(objects: Objects, announced: Collection[str] = ()) -> Iterator[Fault]:
    """Everything that can't be let in; ``announced`` are jobs that will come later."""
    layout = lay_out(objects.queues)
    for refusal in layout.refusals:
        if refusal.refused:
            yield Fault(Queue, refusal.queue, refusal.field, refusal.message)
    parents = {path[:-1] for path in layout.places}
    leaves = sorted(name for name, path in layout.path_of.items() if path not in parents)
    for job in objects.jobs.values():
        if job.queue in layout.path_of and layout.path_of[job.queue] in parents | {(ROOT,)}:
            below = [name for name in leaves if _is_below(layout.path_of[name], layout.path_of[job.queue])]
            message = f"'{job.queue}' has queues below it and takes no jobs; write one of {', '.join(below)}"
            if not below:
                message = f"'{ROOT}' stands for the cluster and takes no jobs; write the name of a queue"
            yield Fault(JobSpec, job.key, "spec.queue", message)
        elif job.queue not in layout.path_of:
            refused = " that could be let in" if job.queue in objects.queues else ""
            hint = did_you_mean(job.queue, leaves) or (f"; there are {', '.join(leaves)}" if leaves else "")
            yield Fault(JobSpec, job.key, "spec.queue", f"there is no queue '{job.queue}'{refused}{hint}")
    for task in objects.tasks.values():
        if task.job is not None and task.job not in objects.jobs and task.job not in announced:
            message = f"there is no PodGroup {task.job}{did_you_mean(task.job, objects.jobs)}"
            yield Fault(TaskSpec, task.key, f"metadata.annotations[{GROUP_NAME}]", message)


def _is_below(path: tuple[str, ...], above: tuple[str, ...]) -> bool:
    return len(path) > len(above) and path[: len(above)] == above
