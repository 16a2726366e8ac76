"""Succeeded and failed pods of a Job, each counted exactly once. Pure.

This holds even if a pod is deleted by a user or the process is killed at any moment. Each pod carries a finalizer. The
uid of a finished pod is first written to ``uncountedTerminatedPods``; then the finalizer is removed; then the uid is
replaced by an increment of ``succeeded`` or ``failed``. An Indexed Job needs no uids for successes, because an index
can be completed only once.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubesim.controllers.jobs import completion_indexes
from kubesim.controllers.jobs.job_pods import finished_at, has_failed, index_of, is_active, is_tracked, phase
from kubesim.controllers.jobs.job_policies import FailureAction, fails_index, failure_action, index_failure_counts
from kubesim.registry.registry import Object

MAX_UNCOUNTED = 500


class JobPodCount:
    """What is known of a Job's pods. Moves what is settled into the counters of the status."""

    def __init__(self, job: Object, pods: Sequence[Object], status: Object) -> None:
        self._job = job
        self._status = status
        self._tracked = [pod for pod in pods if is_tracked(pod)]
        self._completions = job["spec"].get("completions") or 0
        self._uncounted: dict[str, list[str]] = {}
        self.indexed = job["spec"].get("completionMode") == "Indexed"
        self.per_index = "backoffLimitPerIndex" in job["spec"]
        self._count_released_pods()
        known = {uid for uids in self._uncounted.values() for uid in uids}
        news = [pod for pod in self._tracked if pod["metadata"]["uid"] not in known]
        lost = [pod for pod in news if has_failed(pod, job) and failure_action(job, pod)[0] is not FailureAction.IGNORE]
        won = [pod for pod in self._tracked if phase(pod) == "Succeeded"]
        self.failed = status["failed"] + len(self._uncounted["failed"]) + len(lost)
        self.succeeded_indexes = self._indexes("completedIndexes", won)
        """The indexes that have succeeded."""
        self.failed_indexes = self._failed_indexes(pods)
        """The indexes that have failed for good."""
        self.last_failed_pods = self._last_failed_pods(pods)
        """By index that needs another pod: its last failed pod, kept until it is replaced."""
        if self.indexed:
            self.succeeded = len(self.succeeded_indexes)
        else:
            fresh = sum(phase(pod) == "Succeeded" for pod in news)
            self.succeeded = status["succeeded"] + len(self._uncounted["succeeded"]) + fresh

    def _count_released_pods(self) -> None:
        """Count the recorded pods whose finalizer has been removed."""
        held = {pod["metadata"]["uid"] for pod in self._tracked}
        noted = self._status.get("uncountedTerminatedPods") or {}
        for name in ("succeeded", "failed"):
            uids = noted.get(name) or []
            self._uncounted[name] = [uid for uid in uids if uid in held]
            self._status[name] = self._status.get(name, 0) + len(uids) - len(self._uncounted[name])

    def _indexes(self, name: str, more: Sequence[Object]) -> set[int]:
        if not self.indexed:
            return set()
        known = completion_indexes.parse_indexes(self._status.get(name, ""), self._completions)
        return known | {index for pod in more if (index := self._index(pod)) is not None}

    def _index(self, pod: Object) -> int | None:
        index = index_of(pod)
        return index if index is not None and index < self._completions else None

    def _failed_indexes(self, pods: Sequence[Object]) -> set[int]:
        if not self.per_index:
            return set()
        lost = [pod for pod in pods if has_failed(pod, self._job) and fails_index(self._job, pod)]
        return self._indexes("failedIndexes", lost) - self.succeeded_indexes

    def _last_failed_pods(self, pods: Sequence[Object]) -> dict[int, Object]:
        if not self.per_index:
            return {}
        taken = self.succeeded_indexes | self.failed_indexes | {index_of(pod) for pod in pods if is_active(pod)}
        found: dict[int, Object] = {}
        for pod in pods:
            index = self._index(pod)
            if index is not None and index not in taken and has_failed(pod, self._job):
                found[index] = max(
                    found.get(index, pod), pod, key=lambda p: (sum(index_failure_counts(p)), finished_at(p))
                )
        return found

    def track_finished_pods(self, *, everything: bool, failing: bool, discarded: Sequence[Object]) -> list[Object]:
        """Record finished pods in the status. Returns the pods whose finalizer may be removed once it is written.

        ``everything``: the Job has ended, record all pods; ``failing``: running pods count as failed.
        """
        kept = {pod["metadata"]["uid"] for pod in discarded}
        if not everything:
            kept |= {pod["metadata"]["uid"] for pod in self.last_failed_pods.values()}
        release: list[Object] = []
        for pod in self._tracked:
            failed = has_failed(pod, self._job)
            if pod["metadata"]["uid"] in kept or not (everything or failed or phase(pod) == "Succeeded"):
                continue
            release.append(pod)
            self._track_finished_pod(pod, failed=failed or failing)
            if sum(map(len, self._uncounted.values())) >= MAX_UNCOUNTED:
                break
        if self.indexed:
            self._status["succeeded"] = len(self.succeeded_indexes)
            self._status["completedIndexes"] = completion_indexes.format_indexes(self.succeeded_indexes)
        if self.per_index:
            self._status["failedIndexes"] = completion_indexes.format_indexes(self.failed_indexes)
        self._status["uncountedTerminatedPods"] = {name: uids for name, uids in self._uncounted.items() if uids}
        return release

    def _track_finished_pod(self, pod: Object, *, failed: bool) -> None:
        uid = pod["metadata"]["uid"]
        if phase(pod) == "Succeeded":
            if not self.indexed and uid not in self._uncounted["succeeded"]:
                self._uncounted["succeeded"].append(uid)
        elif failed and uid not in self._uncounted["failed"]:
            belongs = not self.indexed or self._index(pod) is not None
            if belongs and failure_action(self._job, pod)[0] is not FailureAction.IGNORE:
                self._uncounted["failed"].append(uid)
