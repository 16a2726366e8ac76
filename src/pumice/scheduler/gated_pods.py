"""Pods whose scheduling gates are closed: nobody may place them yet, so nothing is kept for them.

The engine does not see them as tasks of their job. Without them it takes the job for one whose pods are still to be
created and keeps its ``minResources`` promised, and no other job could be enqueued until the gates open. So their
requests are deducted from the ``minResources`` of their job, as in Volcano.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import replace

from pumice.kube.decode import api_types
from pumice.model.specs import JobSpec, TaskSpec, TaskStatus, Vector

NO_JOBS: frozenset[str] = frozenset()


class GatedPods:
    """The requests of gated pods, by job."""

    def __init__(self, schedulers: Collection[str]) -> None:
        self._schedulers = schedulers
        self._requests: dict[str, dict[str, Vector]] = {}  # by job and pod
        self._job_of: dict[str, str] = {}  # by pod

    def follow(self, key: str, pod: api_types.Pod, task: TaskSpec) -> Set[str]:
        """Follow a pod that has changed. Returns the jobs whose gated pods are others now."""
        before = self._job_of.get(key)
        if before is None and not pod.spec.scheduling_gates:  # as nearly all pods
            return NO_JOBS
        job = task.job if self._is_gated(pod, task) else None
        if job == before and (job is None or self._requests[job][key] == task.request):
            return NO_JOBS
        changed = self.forget(key)
        if job is None:
            return changed
        self._requests.setdefault(job, {})[key] = task.request
        self._job_of[key] = job
        return changed | {job}

    def forget(self, key: str) -> Set[str]:
        """Forget a pod that is gone. Returns the job that had it among its gated pods, if one did."""
        job = self._job_of.pop(key, None)
        if job is None:
            return NO_JOBS
        del self._requests[job][key]
        if not self._requests[job]:
            del self._requests[job]
        return {job}

    def without_gated(self, key: str, job: JobSpec) -> JobSpec:
        """The job with what its minimum requests beside its gated pods."""
        requests = self._requests.get(key)
        if not requests or not job.min_resources:
            return job
        left = list(job.min_resources)
        for request in requests.values():
            for j, amount in enumerate(request[: len(left)]):
                left[j] = max(0, left[j] - amount)
        return replace(job, min_resources=tuple(left))

    def _is_gated(self, pod: api_types.Pod, task: TaskSpec) -> bool:
        """Whether a pod that is ours to place waits for its gates."""
        spec = pod.spec
        if not spec.scheduling_gates or task.status is not TaskStatus.PENDING:
            return False
        return not spec.scheduler_name or spec.scheduler_name in self._schedulers
