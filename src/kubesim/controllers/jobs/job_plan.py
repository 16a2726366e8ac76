"""What a Job needs next: which pods to create or delete, and what its status says. Pure."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field

from kubesim.clock import Clock, moment, stamp
from kubesim.controllers.conditions import condition, is_true
from kubesim.controllers.jobs.job_count import Count
from kubesim.controllers.jobs.job_pods import (
    finished_at,
    has_failed,
    index_of,
    is_active,
    is_deleted,
    is_over,
    is_ready,
    least_advanced,
    phase,
    replaces_only_failed,
    restarts,
)
from kubesim.controllers.jobs.job_policies import Action, failures, judged, succeeded
from kubesim.registry.registry import Object

MOST_AT_ONCE = 500  # pods created or deleted in one go
FIRST_BACKOFF, LAST_BACKOFF = 10.0, 600.0  # seconds between a failure and the next pod

Verdict = tuple[str, str, str]
"""An interim condition (FailureTarget or SuccessCriteriaMet), its reason and its message."""

REACHED: Verdict = ("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")
BACKOFF: Verdict = ("FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
DEADLINE: Verdict = ("FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
TOO_MANY_INDEXES: Verdict = (
    "FailureTarget",
    "MaxFailedIndexesExceeded",
    "Job has exceeded the specified maximal number of failed indexes",
)
SOME_INDEXES: Verdict = ("FailureTarget", "FailedIndexes", "Job has failed indexes")
FINAL = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}


@dataclass(slots=True)
class Plan:
    """What is to be done, in this order."""

    status: Object
    release: list[Object] = field(default_factory=list)  # pods that are noted and lose their finalizer
    delete: list[Object] = field(default_factory=list)
    discard: list[Object] = field(default_factory=list)  # pods to delete that count as nothing
    create: list[int | None] = field(default_factory=list)  # completion indexes, or None
    replaced: dict[int, Object] = field(default_factory=dict)  # by index: the failed pod whose place is taken
    again: float | None = None  # in how many cluster seconds to look again
    expired: bool = False  # the Job itself is to be deleted

    def look_within(self, seconds: float) -> None:
        """Look again in so many seconds, or before."""
        self.again = seconds if self.again is None else min(self.again, seconds)


def is_finished(job: Object) -> bool:
    """Whether the Job has come to its end, good or bad."""
    status = job.get("status") or {}
    return is_true(status, "Complete") or is_true(status, "Failed")


def plan(job: Object, pods: Sequence[Object], clock: Clock) -> Plan:
    """What a Job with these pods (all it controls) needs now."""
    if is_finished(job):
        return _afterlife(job, clock)
    spec, status = job["spec"], copy.deepcopy(job.get("status") or {})
    result = Plan(status)
    now, suspended = stamp(clock.now()), bool(spec.get("suspend"))
    count = Count(job, pods, status)
    if "startTime" not in status and not suspended:
        status["startTime"] = now
    active = [pod for pod in pods if is_active(pod)]
    terminating = sum(is_deleted(pod) and not is_over(pod) for pod in pods)

    verdict = _standing(status) or _failure(job, pods, status, count, clock, result) or _success(job, count)
    if verdict:
        result.delete = active
    elif "deletionTimestamp" not in job["metadata"]:
        _staff(result, job, pods, active, terminating, count, clock)
        left = len(active) - len(result.discard) + len(result.create)
        if _complete(spec, count.succeeded, left):
            verdict = REACHED
        else:
            _note_suspension(status, suspended, now)
    going = {pod["metadata"]["uid"] for pod in (*result.delete, *result.discard)}
    status["active"] = len(active) - len(going) + len(result.create)
    status["ready"] = sum(is_ready(pod) and pod["metadata"]["uid"] not in going for pod in active)
    status["terminating"] = terminating + len(going)

    result.release = count.note(
        everything=verdict is not None or "deletionTimestamp" in job["metadata"],
        failing=verdict is not None and verdict[0] == "FailureTarget",
        discarded=result.discard,
    )
    if verdict:
        _conclude(status, verdict, now, final=not result.release and not status["terminating"])
    _tidy(status)
    return result


# ---- deciding ---------------------------------------------------------------------------------------------


def _standing(status: Object) -> Verdict | None:
    """The verdict of an earlier look, if there was one."""
    for kind in FINAL:
        if is_true(status, kind):
            found = condition(status, kind) or {}
            return kind, found.get("reason", ""), found.get("message", "")
    return None


def _failure(
    job: Object, pods: Sequence[Object], status: Object, count: Count, clock: Clock, result: Plan
) -> Verdict | None:
    spec = job["spec"]
    for pod in pods:
        if has_failed(pod, job):
            action, why = judged(job, pod)
            if action is Action.FAIL_JOB:
                return "FailureTarget", "PodFailurePolicy", why
    limit = spec.get("backoffLimit", 6)
    if count.failed > limit:
        return BACKOFF
    # Pods that restart their containers on the node use up the limit as well; they never fail as a whole.
    if spec["template"]["spec"].get("restartPolicy") == "OnFailure" and restarts(pods) >= max(limit, 1):
        return BACKOFF
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not spec.get("suspend"):
        left = deadline - clock.since(status["startTime"])
        if left <= 0:
            return DEADLINE
        result.look_within(left)
    if count.given_up:
        most = spec.get("maxFailedIndexes")
        if most is not None and len(count.given_up) > most:
            return TOO_MANY_INDEXES
        if len(count.given_up) + len(count.done) >= spec["completions"]:
            return SOME_INDEXES
    return None


def _success(job: Object, count: Count) -> Verdict | None:
    """A Job may say that fewer than all of its indexes are enough."""
    rule = succeeded(job, count.done)
    return ("SuccessCriteriaMet", "SuccessPolicy", rule) if rule else None


def _complete(spec: Object, won: int, active: int) -> bool:
    completions = spec.get("completions")
    if completions is None:  # a work queue: done when one pod has succeeded and the others are over
        return won > 0 and active == 0
    return bool(won >= completions and active == 0)


def _staff(
    result: Plan,
    job: Object,
    pods: Sequence[Object],
    active: Sequence[Object],
    terminating: int,
    count: Count,
    clock: Clock,
) -> None:
    """Choose the pods to create, or those that are too many."""
    spec = job["spec"]
    completions, parallelism = spec.get("completions"), spec.get("parallelism", 1)
    if spec.get("suspend"):
        wanted = 0
    elif completions is None:
        wanted = len(active) if count.succeeded else parallelism
    else:
        wanted = max(0, min(completions - count.succeeded, parallelism))
    surplus = _misplaced(active, count.done, completions) if count.indexed else []
    chosen = {pod["metadata"]["uid"] for pod in surplus}
    rest = sorted((pod for pod in active if pod["metadata"]["uid"] not in chosen), key=least_advanced)
    surplus += rest[: max(0, len(active) - wanted - len(surplus))]
    if surplus:
        result.discard = surplus[:MOST_AT_ONCE]
        return
    missing = wanted - len(active) - (terminating if replaces_only_failed(job) else 0)
    if missing <= 0:
        return
    missing = min(missing, MOST_AT_ONCE)
    if count.per_index:
        _staff_each(result, job, pods, missing, count, clock)
        return
    wait = _backoff(job, pods, clock)
    if wait > 0:
        result.look_within(wait)
    elif count.indexed:
        result.create.extend(_free_indexes(job, pods, count)[:missing])
    else:
        result.create = [None] * missing


def _staff_each(result: Plan, job: Object, pods: Sequence[Object], missing: int, count: Count, clock: Clock) -> None:
    """Where each index has its own limit, each also waits for itself after a failure."""
    for index in _free_indexes(job, pods, count)[:missing]:
        last = count.awaiting.get(index)
        wait = _pause(sum(failures(last)) + 1, finished_at(last), clock) if last else 0.0
        if wait > 0:
            result.look_within(wait)
            continue
        result.create.append(index)
        if last:
            result.replaced[index] = last


def _free_indexes(job: Object, pods: Sequence[Object], count: Count) -> list[int]:
    taken = count.done | count.given_up | {index_of(pod) for pod in pods if _keeps_place(pod, job)}
    return [index for index in range(job["spec"].get("completions") or 0) if index not in taken]


def _keeps_place(pod: Object, job: Object) -> bool:
    return is_active(pod) or (replaces_only_failed(job) and not is_over(pod))


def _misplaced(active: Sequence[Object], done: set[int], completions: int | None) -> list[Object]:
    """Active pods of an Indexed Job that have no index of their own to complete; of two, the younger."""
    taken, found = set(done), []
    for pod in sorted(active, key=least_advanced, reverse=True):
        index = index_of(pod)
        if index is None or index >= (completions or 0) or index in taken:
            found.append(pod)
        else:
            taken.add(index)
    return found


def _backoff(job: Object, pods: Sequence[Object], clock: Clock) -> float:
    """How many cluster seconds to wait before the next pod: longer with each failure since the last success."""
    last_success = max((finished_at(pod) for pod in pods if phase(pod) == "Succeeded"), default=0.0)
    times = [at for pod in pods if has_failed(pod, job) and (at := finished_at(pod)) > last_success]
    return _pause(len(times), max(times), clock) if times else 0.0


def _pause(count: int, last: float, clock: Clock) -> float:
    """What is left of the pause after so many failures, the last of them at this moment."""
    delay: float = min(LAST_BACKOFF, FIRST_BACKOFF * 2 ** min(count - 1, 10))
    return delay - (clock.now() - last) * clock.speed


# ---- status -----------------------------------------------------------------------------------------------


def _note_suspension(status: Object, suspended: bool, now: str) -> None:
    before = condition(status, "Suspended")
    was = before is not None and before["status"] == "True"
    if suspended == was:
        return
    entry = ("True", "JobSuspended", "Job suspended") if suspended else ("False", "JobResumed", "Job resumed")
    _set(status, ("Suspended", *entry[1:]), now, holds=entry[0])
    if suspended:
        status.pop("startTime", None)
    else:
        status["startTime"] = now


def _conclude(status: Object, verdict: Verdict, now: str, *, final: bool) -> None:
    """Say how it ends; and, when all pods are gone or counted, that it has ended."""
    kind, reason, message = verdict
    if not is_true(status, kind):
        _set(status, verdict, now)
    if final:
        _set(status, (FINAL[kind], reason, message), now)
        if FINAL[kind] == "Complete":
            status["completionTime"] = now


def _set(status: Object, entry: Verdict, now: str, *, holds: str = "True") -> None:
    kind, reason, message = entry
    new = {"type": kind, "status": holds, "lastProbeTime": now, "lastTransitionTime": now}
    new |= {"reason": reason, "message": message}
    kept = [old for old in status.get("conditions", ()) if old["type"] != kind]
    status["conditions"] = [*kept, new]


def _tidy(status: Object) -> None:
    """Counters of zero are left out, as the API leaves them out."""
    for name in ("active", "succeeded", "failed", "completedIndexes"):
        if not status.get(name):
            status.pop(name, None)


def _afterlife(job: Object, clock: Clock) -> Plan:
    """A finished Job waits to be deleted, if it says when."""
    status = job["status"]
    lifetime = job["spec"].get("ttlSecondsAfterFinished")
    if lifetime is None or "deletionTimestamp" in job["metadata"]:
        return Plan(status)
    end = (condition(status, "Complete") if is_true(status, "Complete") else condition(status, "Failed")) or {}
    left = lifetime - (clock.now() - moment(end["lastTransitionTime"])) * clock.speed
    return Plan(status, expired=True) if left <= 0 else Plan(status, again=left)
