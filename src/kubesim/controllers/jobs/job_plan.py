"""The plan for a Job: which pods to create or delete, and its new status. Pure."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

from kubesim.clock import Clock, parse_time, stamp
from kubesim.controllers.conditions import find_condition, is_condition_true
from kubesim.controllers.jobs.job_count import JobPodCount
from kubesim.controllers.jobs.job_pods import (
    finished_at,
    has_failed,
    index_of,
    is_active,
    is_deleted,
    is_pod_finished,
    is_ready,
    least_advanced,
    phase,
    replaces_only_failed,
    restarts,
)
from kubesim.controllers.jobs.job_policies import (
    FailureAction,
    failure_action,
    index_failure_counts,
    matched_success_rule,
)
from kubesim.registry.registry import Object

MAX_PODS_AT_ONCE = 500  # pods created or deleted in one go
FIRST_BACKOFF, LAST_BACKOFF = 10.0, 600.0  # seconds between a failure and the next pod

Verdict = tuple[str, str, str]
"""An interim condition (FailureTarget or SuccessCriteriaMet), its reason and its message."""

COMPLETIONS_REACHED: Verdict = ("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")
BACKOFF_LIMIT_EXCEEDED: Verdict = (
    "FailureTarget",
    "BackoffLimitExceeded",
    "Job has reached the specified backoff limit",
)
DEADLINE_EXCEEDED: Verdict = ("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
MAX_FAILED_INDEXES_EXCEEDED: Verdict = (
    "FailureTarget",
    "MaxFailedIndexesExceeded",
    "Job has exceeded the specified maximal number of failed indexes",
)
FAILED_INDEXES: Verdict = ("FailureTarget", "FailedIndexes", "Job has failed indexes")
FINAL_CONDITIONS = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}


@dataclass(slots=True)
class JobPlan:
    """The writes for a Job, in this order."""

    status: Object
    release: list[Object] = field(default_factory=list)  # pods that are noted and lose their finalizer
    delete: list[Object] = field(default_factory=list)
    discard: list[Object] = field(default_factory=list)  # pods to delete that count as nothing
    create: list[int | None] = field(default_factory=list)  # completion indexes, or None
    replaced: dict[int, Object] = field(default_factory=dict)  # by index: the failed pod whose place is taken
    again: float | None = None  # in how many cluster seconds to look again
    expired: bool = False  # the Job itself is to be deleted

    def reconcile_within(self, seconds: float) -> None:
        """Reconcile again within this many seconds."""
        self.again = seconds if self.again is None else min(self.again, seconds)


def is_finished(job: Object) -> bool:
    """Whether the Job is Complete or Failed."""
    status = job.get("status") or {}
    return is_condition_true(status, "Complete") or is_condition_true(status, "Failed")


def plan_job(job: Object, pods: Sequence[Object], clock: Clock) -> JobPlan:
    """The plan for a Job with these pods (all that it controls)."""
    if is_finished(job):
        return _plan_finished_job(job, clock)
    spec, status = job["spec"], copy.deepcopy(job.get("status") or {})
    result = JobPlan(status)
    now, suspended = stamp(clock.now()), bool(spec.get("suspend"))
    count = JobPodCount(job, pods, status)
    if "startTime" not in status and not suspended:
        status["startTime"] = now
    active = [pod for pod in pods if is_active(pod)]
    terminating = sum(is_deleted(pod) and not is_pod_finished(pod) for pod in pods)

    verdict = (
        _earlier_verdict(status)
        or _failure_verdict(job, pods, status, count, clock, result)
        or _success_policy_verdict(job, count)
    )
    if verdict:
        result.delete = active
    elif "deletionTimestamp" not in job["metadata"]:
        _plan_pods(result, job, pods, active, terminating, count, clock)
        left = len(active) - len(result.discard) + len(result.create)
        if _is_complete(spec, count.succeeded, left):
            verdict = COMPLETIONS_REACHED
        else:
            _set_suspended_condition(status, suspended, now)
    going = {pod["metadata"]["uid"] for pod in (*result.delete, *result.discard)}
    status["active"] = len(active) - len(going) + len(result.create)
    status["ready"] = sum(is_ready(pod) and pod["metadata"]["uid"] not in going for pod in active)
    status["terminating"] = terminating + len(going)

    result.release = count.track_finished_pods(
        everything=verdict is not None or "deletionTimestamp" in job["metadata"],
        failing=verdict is not None and verdict[0] == "FailureTarget",
        discarded=result.discard,
    )
    if verdict:
        _set_verdict_conditions(status, verdict, now, final=not result.release and not status["terminating"])
    _omit_zero_counters(status)
    return result


# ---- deciding ---------------------------------------------------------------------------------------------


def _earlier_verdict(status: Object) -> Verdict | None:
    """The verdict of an earlier plan, if there was one."""
    for kind in FINAL_CONDITIONS:
        if is_condition_true(status, kind):
            found = find_condition(status, kind) or {}
            return kind, found.get("reason", ""), found.get("message", "")
    return None


def _failure_verdict(
    job: Object, pods: Sequence[Object], status: Object, count: JobPodCount, clock: Clock, result: JobPlan
) -> Verdict | None:
    spec = job["spec"]
    for pod in pods:
        if has_failed(pod, job):
            action, why = failure_action(job, pod)
            if action is FailureAction.FAIL_JOB:
                return "FailureTarget", "PodFailurePolicy", why
    limit = spec.get("backoffLimit", 6)
    if count.failed > limit:
        return BACKOFF_LIMIT_EXCEEDED
    # Pods that restart their containers on the node use up the limit as well; they never fail as a whole.
    if spec["template"]["spec"].get("restartPolicy") == "OnFailure" and restarts(pods) >= max(limit, 1):
        return BACKOFF_LIMIT_EXCEEDED
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not spec.get("suspend"):
        left = deadline - clock.since(status["startTime"])
        if left <= 0:
            return DEADLINE_EXCEEDED
        result.reconcile_within(left)
    if count.failed_indexes:
        most = spec.get("maxFailedIndexes")
        if most is not None and len(count.failed_indexes) > most:
            return MAX_FAILED_INDEXES_EXCEEDED
        if len(count.failed_indexes) + len(count.succeeded_indexes) >= spec["completions"]:
            return FAILED_INDEXES
    return None


def _success_policy_verdict(job: Object, count: JobPodCount) -> Verdict | None:
    """The verdict of the success policy, if it is met."""
    rule = matched_success_rule(job, count.succeeded_indexes)
    return ("SuccessCriteriaMet", "SuccessPolicy", rule) if rule else None


def _is_complete(spec: Object, won: int, active: int) -> bool:
    completions = spec.get("completions")
    if completions is None:  # a work queue: done when one pod has succeeded and the others are over
        return won > 0 and active == 0
    return bool(won >= completions and active == 0)


def _plan_pods(
    result: JobPlan,
    job: Object,
    pods: Sequence[Object],
    active: Sequence[Object],
    terminating: int,
    count: JobPodCount,
    clock: Clock,
) -> None:
    """Choose the pods to create or to delete."""
    spec = job["spec"]
    completions, parallelism = spec.get("completions"), spec.get("parallelism", 1)
    if spec.get("suspend"):
        wanted = 0
    elif completions is None:
        wanted = len(active) if count.succeeded else parallelism
    else:
        wanted = max(0, min(completions - count.succeeded, parallelism))
    surplus = _pods_without_index(active, count.succeeded_indexes, completions) if count.indexed else []
    chosen = {pod["metadata"]["uid"] for pod in surplus}
    rest = sorted((pod for pod in active if pod["metadata"]["uid"] not in chosen), key=least_advanced)
    surplus += rest[: max(0, len(active) - wanted - len(surplus))]
    if surplus:
        result.discard = surplus[:MAX_PODS_AT_ONCE]
        return
    missing = wanted - len(active) - (terminating if replaces_only_failed(job) else 0)
    if missing <= 0:
        return
    missing = min(missing, MAX_PODS_AT_ONCE)
    if count.per_index:
        _plan_pods_per_index(result, job, pods, missing, count, clock)
        return
    wait = _remaining_backoff(job, pods, clock)
    if wait > 0:
        result.reconcile_within(wait)
    elif count.indexed:
        result.create.extend(_free_indexes(job, pods, count)[:missing])
    else:
        result.create = [None] * missing


def _plan_pods_per_index(
    result: JobPlan, job: Object, pods: Sequence[Object], missing: int, count: JobPodCount, clock: Clock
) -> None:
    """With a backoff limit per index, each index has its own delay after a failure."""
    for index in _free_indexes(job, pods, count)[:missing]:
        last = count.last_failed_pods.get(index)
        wait = _remaining_delay(sum(index_failure_counts(last)) + 1, finished_at(last), clock) if last else 0.0
        if wait > 0:
            result.reconcile_within(wait)
            continue
        result.create.append(index)
        if last:
            result.replaced[index] = last


def _free_indexes(job: Object, pods: Sequence[Object], count: JobPodCount) -> list[int]:
    taken = (
        count.succeeded_indexes | count.failed_indexes | {index_of(pod) for pod in pods if _occupies_index(pod, job)}
    )
    return [index for index in range(job["spec"].get("completions") or 0) if index not in taken]


def _occupies_index(pod: Object, job: Object) -> bool:
    return is_active(pod) or (replaces_only_failed(job) and not is_pod_finished(pod))


def _pods_without_index(active: Sequence[Object], done: set[int], completions: int | None) -> list[Object]:
    """Active pods of an Indexed Job with an invalid, completed or duplicate index; of duplicates, the younger."""
    taken, found = set(done), []
    for pod in sorted(active, key=least_advanced, reverse=True):
        index = index_of(pod)
        if index is None or index >= (completions or 0) or index in taken:
            found.append(pod)
        else:
            taken.add(index)
    return found


def _remaining_backoff(job: Object, pods: Sequence[Object], clock: Clock) -> float:
    """Cluster seconds until the next pod may be created: the delay doubles with each failure since the last success."""
    last_success = max((finished_at(pod) for pod in pods if phase(pod) == "Succeeded"), default=0.0)
    times = [at for pod in pods if has_failed(pod, job) and (at := finished_at(pod)) > last_success]
    return _remaining_delay(len(times), max(times), clock) if times else 0.0


def _remaining_delay(count: int, last: float, clock: Clock) -> float:
    """The remaining delay after this many failures, the last at this time."""
    delay: float = min(LAST_BACKOFF, FIRST_BACKOFF * 2 ** min(count - 1, 10))
    return delay - (clock.now() - last) * clock.speed


# ---- status -----------------------------------------------------------------------------------------------


def _set_suspended_condition(status: Object, suspended: bool, now: str) -> None:
    before = find_condition(status, "Suspended")
    was = before is not None and before["status"] == "True"
    if suspended == was:
        return
    entry = ("True", "JobSuspended", "Job suspended") if suspended else ("False", "JobResumed", "Job resumed")
    _set_job_condition(status, ("Suspended", *entry[1:]), now, holds=entry[0])
    if suspended:
        status.pop("startTime", None)
    else:
        status["startTime"] = now


def _set_verdict_conditions(status: Object, verdict: Verdict, now: str, *, final: bool) -> None:
    """Set the interim condition and, when all pods are counted or gone, the final one."""
    kind, reason, message = verdict
    if not is_condition_true(status, kind):
        _set_job_condition(status, verdict, now)
    if final:
        _set_job_condition(status, (FINAL_CONDITIONS[kind], reason, message), now)
        if FINAL_CONDITIONS[kind] == "Complete":
            status["completionTime"] = now


def _set_job_condition(status: Object, entry: Verdict, now: str, *, holds: str = "True") -> None:
    kind, reason, message = entry
    new = {"type": kind, "status": holds, "lastProbeTime": now, "lastTransitionTime": now}
    new |= {"reason": reason, "message": message}
    kept = [old for old in status.get("conditions", ()) if old["type"] != kind]
    status["conditions"] = [*kept, new]


def _omit_zero_counters(status: Object) -> None:
    """Remove counters that are zero, as kube-apiserver omits them."""
    for name in ("active", "succeeded", "failed", "completedIndexes"):
        if not status.get(name):
            status.pop(name, None)


def _plan_finished_job(job: Object, clock: Clock) -> JobPlan:
    """The plan for a finished Job: it is deleted after its TTL, if it has one."""
    status = job["status"]
    lifetime = job["spec"].get("ttlSecondsAfterFinished")
    if lifetime is None or "deletionTimestamp" in job["metadata"]:
        return JobPlan(status)
    end = (
        find_condition(status, "Complete")
        if is_condition_true(status, "Complete")
        else find_condition(status, "Failed")
    ) or {}
    left = lifetime - (clock.now() - parse_time(end["lastTransitionTime"])) * clock.speed
    return JobPlan(status, expired=True) if left <= 0 else JobPlan(status, again=left)
