"""Writes on pending pods why they are pending: the condition ``PodScheduled`` with status False.

``kubectl describe pod`` shows the condition. Cluster autoscalers add nodes for pods whose condition has the reason
``Unschedulable``; ``engine/explain/pending_reason.py`` decides which pods get it.

These writes are the least urgent of all. A pod that starts within ``FIRST_CHECK`` gets none. Jobs are checked in
slices of a few milliseconds, and again only after a while. Writes have a rate limit of their own and wait while
bindings are in flight. A condition with a new text but the same reason is written rarely, and so is that of a pod whose
job goes on: of a long line of short tasks most start before anybody could read why they waited. Each write carries the
revision of the pod that it is meant for, so it never overwrites the condition of a pod that was bound meanwhile.

All pods of a job have the same text. The Event ``FailedScheduling`` is recorded on the pod if it is the only one of its
job, otherwise once on the PodGroup.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from kubebase.timestamps import stamp
from pumice.engine.decisions import Bind, Condition, Decision, Evict, Pipeline
from pumice.engine.engine import Engine
from pumice.engine.explain.pending_reason import PREEMPTING, PendingReason, PendingReasons
from pumice.kube.client.rate_limit import TokenBucket
from pumice.kube.decode import api_types
from pumice.kube.decode.pods import GROUP_NAME
from pumice.kube.event_recorder import EventRecorder, Subject
from pumice.kube.resources import POD_GROUPS, PODS
from pumice.kube.watch.change_queue import Change
from pumice.model.specs import TaskStatus

RATE = 100.0
"""Conditions per second; a gang of 1,000 pods has them within ten seconds."""
REWRITE_RATE = 10.0
"""Conditions per second of which only the message changes, or whose jobs go on."""
GOES_ON = 5.0
"""Seconds for which a job goes on after a pod of it was bound."""
FIRST_CHECK = 1.0
"""Seconds after which a new pod is checked: most pods have started by then."""
CHECK_AGAIN = 15.0
"""Seconds until a waiting job is checked again, if none of its pods changes: autoscalers look about as often."""
REWRITE = 60.0
"""Seconds for which a message stays while the reason is the same."""
TICK = 0.25
"""Seconds between two looks at which jobs are due."""
SLICE = 0.005
"""Seconds of checks before the scheduler has its turn for nine times as long."""
COUNTS_LAST = 1.0
"""Seconds for which the counts of nodes are used again for other jobs with pods of the same shape."""
BIND_WAIT = 1.0
"""The most seconds for which a write waits while bindings are in flight."""
SCHEDULED = "PodScheduled"
OVER = frozenset({"Succeeded", "Failed"})


class ConditionWriter(Protocol):
    """As much of the binder as is needed here."""

    @property
    def in_flight(self) -> int:
        """How many bindings and evictions are in flight."""

    def write_pod_condition(self, key: str, condition: dict[str, Any], *, uid: str, revision: str) -> None:
        """Write a condition of a pod."""


class Uids(Protocol):
    """As much of the cache as is needed here."""

    def uid(self, resource: str, key: str) -> str:
        """The uid of an object."""


@dataclass(slots=True)
class PendingPod:
    """A pod without a node, and its condition as last seen or written; without one the reason is empty."""

    job: str
    uid: str
    revision: str
    reason: str = ""
    message: str = ""


class PodConditions:
    """Keeps the condition ``PodScheduled`` of pending pods; ``run`` does so until cancelled."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        writer: ConditionWriter,
        recorder: EventRecorder,
        cache: Uids,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._writer = writer
        self._recorder = recorder
        self._cache = cache
        self._now = now
        self._pods: dict[str, PendingPod] = {}
        self._pods_of: dict[str, dict[str, None]] = {}  # by job
        self._due: dict[str, float] = {}  # when each job is checked next
        self._rewritten: dict[str, float] = {}  # when the message of each job was last written
        self._bound: dict[str, float] = {}  # when a pod of each job was last bound
        self._changed: dict[str, PendingReason] = {}  # pods whose reason changes
        self._reworded: dict[str, PendingReason] = {}  # pods of which only the message changes, or whose jobs go on
        self._some = asyncio.Event()
        self._buckets = TokenBucket(RATE, int(RATE)), TokenBucket(REWRITE_RATE, int(REWRITE_RATE))

    # ---- the cluster ------------------------------------------------------------------------------------------------

    def note_cycle(self, changes: Iterable[Change[Any]], decisions: Iterable[Decision]) -> None:
        """Follow the pods of the cluster, and check the jobs again about which the engine has decided something."""
        for change in changes:
            if change.resource == PODS.name:
                self._note_pod(change)
            elif change.resource == POD_GROUPS.name and change.key in self._pods_of:
                self._check_soon(change.key)
        for decision in decisions:
            if isinstance(decision, Condition | Evict | Pipeline) and decision.job in self._pods_of:
                self._check_soon(decision.job)
            elif isinstance(decision, Bind) and decision.job in self._pods_of:
                self._bound[decision.job] = self._now()

    def _note_pod(self, change: Change[api_types.Pod]) -> None:
        pod, key = change.new, change.key
        group = pod.metadata.annotations.get(GROUP_NAME) if pod is not None else None
        before = self._pods.get(key)
        if pod is None or not group or pod.spec.node_name or pod.status.phase in OVER:
            if before is not None:
                self._forget(key, before.job)
            return
        job = f"{pod.metadata.namespace}/{group}"
        if before is not None and before.job != job:
            self._forget(key, before.job)
        conditions = (each for each in pod.status.conditions if each.type == SCHEDULED and each.status == "False")
        found = next(conditions, None)
        reason, message = (found.reason, found.message) if found is not None else ("", "")
        self._pods[key] = PendingPod(job, change.uid, change.revision, reason, message)
        self._pods_of.setdefault(job, {})[key] = None
        if before is None or (before.reason, before.message) != (reason, message):
            self._check_soon(job)

    def _forget(self, key: str, job: str) -> None:
        del self._pods[key]
        for waiting in (self._changed, self._reworded):
            waiting.pop(key, None)
        pods = self._pods_of[job]
        del pods[key]
        if not pods:
            del self._pods_of[job]
            for moments in (self._due, self._rewritten, self._bound):
                moments.pop(job, None)

    def _check_soon(self, job: str) -> None:
        soon = self._now() + FIRST_CHECK
        self._due[job] = min(self._due.get(job, soon), soon)

    # ---- checks -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Check jobs and write conditions until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._check_jobs())
            for waiting, bucket in zip((self._changed, self._reworded), self._buckets, strict=True):
                tasks.create_task(self._write_all(waiting, bucket))

    async def _check_jobs(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            due = [job for job, at in self._due.items() if at <= self._now()]
            engine, began = self._engine(), self._now()
            reasons = PendingReasons(engine)
            while due:
                if self._engine() is not engine or self._now() - began > COUNTS_LAST:
                    engine, began = self._engine(), self._now()
                    reasons = PendingReasons(engine)
                ends = time.perf_counter() + SLICE
                while due and time.perf_counter() < ends:
                    self.check(due.pop(), reasons)
                await asyncio.sleep(9 * SLICE)

    def check(self, key: str, reasons: PendingReasons) -> None:
        """Find out why a job waits, and queue the conditions of its pods that differ."""
        if key not in self._pods_of:
            return
        now = self._now()
        self._due[key] = now + CHECK_AGAIN
        job = self._engine().state.jobs.get(key)
        found = reasons.of(job) if job is not None and job.pending else None
        rewrite = now - self._rewritten.get(key, -REWRITE) >= REWRITE
        goes_on = now - self._bound.get(key, -GOES_ON) < GOES_ON
        queued = False
        for name in self._pods_of[key]:
            queued |= self._queue(name, self._reason_of(name, found), rewrite=rewrite, goes_on=goes_on)
        if queued:
            self._rewritten[key] = now
            self._some.set()
            if found is not None:
                self._record(key, found)

    def _queue(self, name: str, wanted: PendingReason | None, *, rewrite: bool, goes_on: bool) -> bool:
        """Queue the condition of a pod, if it differs; returns whether it was not queued before."""
        pod = self._pods[name]
        differs = wanted is not None and (pod.reason, pod.message) != (wanted.reason, wanted.message)
        if wanted is None or not differs:
            line = None
        elif pod.reason != wanted.reason:
            line = self._reworded if goes_on else self._changed
        else:
            line = self._reworded if rewrite or name in self._reworded else None
        for other in (self._changed, self._reworded):
            if other is not line:
                other.pop(name, None)
        if line is None or wanted is None:
            return False
        known, line[name] = name in line, wanted  # a pod that is queued keeps its place in the line
        return not known

    def _reason_of(self, name: str, found: PendingReason | None) -> PendingReason | None:
        """What the condition of a pod has to say; None: nothing new."""
        task = self._engine().state.tasks.get(name)
        if task is not None and task.status is TaskStatus.PENDING:
            return found
        return PREEMPTING if task is not None and task.status is TaskStatus.PIPELINED else None

    def _record(self, key: str, found: PendingReason) -> None:
        job = self._engine().state.jobs[key]
        namespace, name = key.split("/")
        if job.task_count == 1 and (task := job.each_task()[0]).key in self._pods:
            subject = Subject("v1", "Pod", task.spec.name, namespace, self._pods[task.key].uid)
        else:
            uid = self._cache.uid("podgroups", key)
            subject = Subject(POD_GROUPS.api_version, POD_GROUPS.kind, name, namespace, uid)
        self._recorder.record(subject, "FailedScheduling", found.message, kind="Warning")

    # ---- writes -----------------------------------------------------------------------------------------------------

    async def _write_all(self, waiting: dict[str, PendingReason], bucket: TokenBucket) -> None:
        while True:
            while not waiting:
                self._some.clear()
                await self._some.wait()
            await bucket.take()
            await self._let_bindings_pass()
            if waiting:  # unless all of these pods were bound or deleted meanwhile
                name = next(iter(waiting))
                self._write(name, waiting.pop(name))

    async def _let_bindings_pass(self) -> None:
        ends = self._now() + BIND_WAIT
        while self._writer.in_flight and self._now() < ends:
            await asyncio.sleep(0.02)

    def _write(self, name: str, found: PendingReason) -> None:
        pod, task = self._pods[name], self._engine().state.tasks.get(name)
        if task is None or task.status not in (TaskStatus.PENDING, TaskStatus.PIPELINED):
            return  # it is being bound
        condition = {"type": SCHEDULED, "status": "False", "reason": found.reason, "message": found.message}
        if not pod.reason:
            condition["lastTransitionTime"] = stamp(time.time())
        pod.reason, pod.message = found.reason, found.message
        self._writer.write_pod_condition(name, condition, uid=pod.uid, revision=pod.revision)
