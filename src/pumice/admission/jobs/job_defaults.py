"""Defaults of a Job: one function per rule, each idempotent."""

from __future__ import annotations

from pumice.admission.cluster_view import ClusterView
from pumice.admission.request import Object, Request, spec_of

MAX_RETRY = 3


def name_scheduler(new: Object, request: Request, world: ClusterView) -> None:
    """Default ``schedulerName`` to the configured scheduler."""
    if not new["spec"].get("schedulerName"):
        new["spec"]["schedulerName"] = world.settings.default_scheduler


def retry_three_times(new: Object, request: Request, world: ClusterView) -> None:
    """Default ``maxRetry`` to 3."""
    if new["spec"].get("maxRetry") is None:
        new["spec"]["maxRetry"] = MAX_RETRY


def complete_tasks(new: Object, request: Request, world: ClusterView) -> None:
    """Default the name of a task to its index, and its replicas to 1."""
    tasks = new["spec"].get("tasks")
    if tasks and any(not task.get("name") or task.get("replicas") is None for task in tasks):
        new["spec"]["tasks"] = [
            {
                **task,
                "name": task.get("name") or f"default{i}",
                "replicas": 1 if task.get("replicas") is None else task["replicas"],
            }
            for i, task in enumerate(tasks)
        ]


def start_all_together(new: Object, request: Request, world: ClusterView) -> None:
    """Default ``minAvailable`` (0 counts as unset) to the sum of the tasks' minimums."""
    if new["spec"].get("minAvailable"):
        return
    kept = spec_of(request.old).get("minAvailable") if request.old else None
    least = kept or sum(least_of(task) for task in new["spec"].get("tasks") or ())
    if least:
        new["spec"]["minAvailable"] = least


def least_of(task: Object) -> int:
    """The minimum of a task: how many of its pods must start with the job."""
    least = task.get("minAvailable")
    return int((task.get("replicas") or 0) if least is None else least)


RULES = (name_scheduler, retry_three_times, complete_tasks, start_all_together)
