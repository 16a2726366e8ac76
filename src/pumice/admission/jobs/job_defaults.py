"""Defaults of a Job: one function per rule, each idempotent."""

from __future__ import annotations

from pumice.admission.cluster_view import ClusterView
from pumice.admission.request import Object, Request, spec_of

MAX_RETRY = 3
HOST_NETWORK_POLICY = "ClusterFirstWithHostNet"


def name_scheduler(new: Object, request: Request, world: ClusterView) -> None:
    """Default ``schedulerName`` to the configured scheduler."""
    if not new["spec"].get("schedulerName"):
        new["spec"]["schedulerName"] = world.settings.default_scheduler


def retry_three_times(new: Object, request: Request, world: ClusterView) -> None:
    """Default ``maxRetry`` to 3."""
    if new["spec"].get("maxRetry") is None:
        new["spec"]["maxRetry"] = MAX_RETRY


def complete_tasks(new: Object, request: Request, world: ClusterView) -> None:
    """Default the name of a task to its index, and its replicas to 1.

    Volcano's clients leave zeros out. So an update without the replicas that a task has scales the task to zero.
    """
    tasks = new["spec"].get("tasks")
    if tasks and any(not task.get("name") or task.get("replicas") is None for task in tasks):
        before = (spec_of(request.old).get("tasks") or []) if request.old else []
        counted = [task.get("replicas") is not None for task in before[: len(tasks)]]
        counted += [False] * (len(tasks) - len(counted))
        new["spec"]["tasks"] = [
            {
                **task,
                "name": task.get("name") or f"default{i}",
                "replicas": int(not counted[i]) if task.get("replicas") is None else task["replicas"],
            }
            for i, task in enumerate(tasks)
        ]


def resolve_names_on_host_network(new: Object, request: Request, world: ClusterView) -> None:
    """Let pods on the network of their node resolve the names of other pods, unless their template names a policy.

    An update only repeats what the job has: templates may not change.
    """
    tasks = new["spec"].get("tasks") or []
    before = (spec_of(request.old).get("tasks") or []) if request.old else None
    for i, task in enumerate(tasks):
        pod = (task.get("template") or {}).get("spec") or {}
        had = before is None or (i < len(before) and _dns_policy(before[i]) == HOST_NETWORK_POLICY)
        if pod.get("hostNetwork") and not pod.get("dnsPolicy") and had:
            template = {**task["template"], "spec": {**pod, "dnsPolicy": HOST_NETWORK_POLICY}}
            new["spec"]["tasks"] = [*new["spec"]["tasks"][:i], {**task, "template": template}, *tasks[i + 1 :]]


def _dns_policy(task: Object) -> object:
    return ((task.get("template") or {}).get("spec") or {}).get("dnsPolicy")


def start_all_together(new: Object, request: Request, world: ClusterView) -> None:
    """Default ``minAvailable`` of a new job (0 counts as unset) to the sum of the tasks' minimums.

    An update may set 0. One without a value keeps the value that the job has, as far as its replicas allow.
    """
    named = new["spec"].get("minAvailable")
    tasks = new["spec"].get("tasks") or ()
    kept = spec_of(request.old).get("minAvailable") if request.old else None
    if named or (named == 0 and request.old):
        return
    least = sum(map(least_of, tasks)) if kept is None else min(kept, sum(task.get("replicas") or 0 for task in tasks))
    if least or request.old:
        new["spec"]["minAvailable"] = least


def least_of(task: Object) -> int:
    """The minimum of a task: how many of its pods must start with the job."""
    least = task.get("minAvailable")
    return int((task.get("replicas") or 0) if least is None else least)


RULES = (name_scheduler, retry_three_times, complete_tasks, resolve_names_on_host_network, start_all_together)
