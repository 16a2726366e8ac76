"""Writes on podgroups why the action enqueue does not admit them: the condition ``Unschedulable``, and an Event.

A Volcano Job has no pods before it is admitted, so without this ``kubectl describe`` would show nothing at all. The job
controller repeats the condition as an Event of the Job.

These writes are not decisions of the engine, and as little urgent as the conditions of pods (``pod_conditions``). A job
that is admitted within ``FIRST_CHECK`` gets none. Jobs are checked in slices of a few milliseconds. Writes have a rate
limit of their own and wait while bindings are in flight; a new text with the same reason is written rarely. The reason
is determined when it is written, because the line of waiting jobs can be long. A job about which the engine has
reported an obstacle (``unstartable_jobs``) keeps that condition, which is more specific.

When a job is admitted, its condition is removed in the same write as the phase changes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from kubebase.timestamps import stamp
from pumice.engine.decisions import Condition, Decision, Enqueue
from pumice.engine.engine import Engine
from pumice.engine.explain.pending_reason import UNSCHEDULABLE, PendingReason, PendingReasons
from pumice.kube.client.rate_limit import TokenBucket
from pumice.kube.decode import api_types
from pumice.kube.event_recorder import EventRecorder, Subject
from pumice.kube.resources import POD_GROUPS
from pumice.kube.watch.change_queue import Change
from pumice.model.specs import JobPhase

RATE = 50.0
"""Podgroups per second that get a reason; 100,000 waiting jobs have one after about half an hour."""
REWRITE_RATE = 5.0
"""Podgroups per second of which only the message changes."""
FIRST_CHECK = 10.0
"""Seconds after which a new podgroup is checked: a shorter wait needs no explanation."""
CHECK_AGAIN = 60.0
"""Seconds until a podgroup is checked again."""
REWRITE = 600.0
"""Seconds for which a message stays while the reason is the same."""
TICK = 1.0
"""Seconds between two looks at which podgroups are due."""
SLICE = 0.005
"""Seconds of checks before the scheduler has its turn for nine times as long."""
BIND_WAIT = 1.0
"""The most seconds for which a write waits while bindings are in flight."""
NOT_ADMITTED = "NotEnoughResources"
"""The reason in a podgroup where pods have ``Unschedulable``, which is the type of the condition here."""


class GroupWriter(Protocol):
    """As much of the binder as is needed here."""

    @property
    def in_flight(self) -> int:
        """How many bindings and evictions are in flight."""

    def write_podgroup_status(self, job: str, status: dict[str, Any]) -> None:
        """Write fields of the status of a podgroup."""


@dataclass(slots=True)
class WaitingGroup:
    """A podgroup that is not admitted, and its condition as last seen or written; without one the reason is empty."""

    uid: str
    due: float
    reason: str = ""
    message: str = ""
    written: float = 0.0


class EnqueueConditions:
    """Keeps the condition of podgroups that wait to be enqueued; ``run`` does so until cancelled."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        writer: GroupWriter,
        recorder: EventRecorder,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._writer = writer
        self._recorder = recorder
        self._now = now
        self._groups: dict[str, WaitingGroup] = {}
        self._changed: dict[str, None] = {}  # podgroups whose reason changes, in line
        self._reworded: dict[str, None] = {}  # podgroups of which only the message changes
        self._some = asyncio.Event()
        self._buckets = TokenBucket(RATE, int(RATE)), TokenBucket(REWRITE_RATE, int(REWRITE_RATE))

    # ---- the cluster ------------------------------------------------------------------------------------------------

    def note_cycle(self, changes: Iterable[Change[Any]], decisions: Iterable[Decision]) -> None:
        """Follow the podgroups of the cluster, and remove the conditions of those that were admitted."""
        for change in changes:
            if change.resource == POD_GROUPS.name:
                self._note_group(change)
        decided = [each for each in decisions if isinstance(each, Enqueue | Condition)]
        reported = {each.job for each in decided if isinstance(each, Condition)}
        for decision in decided:
            if isinstance(decision, Enqueue):
                self._note_admitted(decision.job, reported=decision.job in reported)

    def _note_group(self, change: Change[api_types.PodGroup]) -> None:
        group, key = change.new, change.key
        if group is None or group.status.phase not in ("", JobPhase.PENDING.value):
            self._forget(key)
            return
        known = self._groups.get(key)
        if known is None or known.uid != change.uid:
            self._forget(key)
            known = self._groups[key] = WaitingGroup(change.uid, self._now() + FIRST_CHECK, written=self._now())
        found = (each for each in group.status.conditions if each.type == UNSCHEDULABLE and each.status == "True")
        condition = next(found, None)
        known.reason, known.message = (condition.reason, condition.message) if condition is not None else ("", "")

    def _note_admitted(self, key: str, *, reported: bool) -> None:
        group = self._groups.get(key)
        if group is not None and group.reason and not reported and not self._engine_speaks_for(key):
            self._writer.write_podgroup_status(key, {"conditions": []})
        self._forget(key)

    def _forget(self, key: str) -> None:
        for line in (self._groups, self._changed, self._reworded):
            line.pop(key, None)

    # ---- checks -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Check podgroups and write conditions until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._check_groups())
            for line, bucket in zip((self._changed, self._reworded), self._buckets, strict=True):
                tasks.create_task(self._write_all(line, bucket))

    async def _check_groups(self) -> None:
        while True:
            await asyncio.sleep(TICK)
            now = self._now()
            due = [key for key, group in self._groups.items() if group.due <= now]
            due.reverse()  # the podgroup that was seen first is checked first
            while due:
                reasons, ends = PendingReasons(self._engine()), time.perf_counter() + SLICE
                while due and time.perf_counter() < ends:
                    self.check(due.pop(), reasons)
                await asyncio.sleep(9 * SLICE)

    def check(self, key: str, reasons: PendingReasons) -> None:
        """Find out why a podgroup is not admitted, and put it in line if its condition says something else."""
        group = self._groups.get(key)
        if group is None:
            return
        group.due = self._now() + CHECK_AGAIN
        found = self._reason_of(key, reasons)
        if found is None or key in self._changed or key in self._reworded:
            return
        if group.reason != found.reason:
            self._changed[key] = None
        elif group.message != found.message and self._now() - group.written >= REWRITE:
            self._reworded[key] = None
        self._some.set()

    def _reason_of(self, key: str, reasons: PendingReasons) -> PendingReason | None:
        job = self._engine().state.jobs.get(key)
        if job is None or self._engine_speaks_for(key):
            return None
        found = reasons.of_enqueue(job)
        if found is not None and found.reason == UNSCHEDULABLE:
            return PendingReason(NOT_ADMITTED, found.message)
        return found

    def _engine_speaks_for(self, key: str) -> bool:
        """Whether the engine has reported an obstacle that still holds, or why the pods of the job do not start."""
        engine = self._engine()
        context, job = engine.context, engine.state.jobs.get(key)
        has_pods = job is not None and bool(job.pending)
        return context.unstartable.is_reported(key) or (has_pods and key in context.decided.conditions)

    # ---- writes -----------------------------------------------------------------------------------------------------

    async def _write_all(self, line: dict[str, None], bucket: TokenBucket) -> None:
        while True:
            while not line:
                self._some.clear()
                await self._some.wait()
            await bucket.take()
            await self._let_bindings_pass()
            if line:  # unless all of these podgroups were admitted or deleted meanwhile
                key = next(iter(line))
                del line[key]
                self._write(key)

    async def _let_bindings_pass(self) -> None:
        ends = self._now() + BIND_WAIT
        while self._writer.in_flight and self._now() < ends:
            await asyncio.sleep(0.02)

    def _write(self, key: str) -> None:
        group, found = self._groups[key], self._reason_of(key, PendingReasons(self._engine()))
        if found is None or (found.reason, found.message) == (group.reason, group.message):
            return
        group.reason, group.message, group.written = found.reason, found.message, self._now()
        condition = {
            "type": UNSCHEDULABLE,
            "status": "True",
            "reason": found.reason,
            "message": found.message,
            "lastTransitionTime": stamp(time.time()),
            "transitionID": str(time.time_ns()),
        }
        self._writer.write_podgroup_status(key, {"conditions": [condition]})
        if not self._engine().state.jobs[key].tasks:  # of a job with pods there is an Event FailedScheduling
            namespace, name = key.split("/")
            subject = Subject(POD_GROUPS.api_version, POD_GROUPS.kind, name, namespace, group.uid)
            self._recorder.record(subject, UNSCHEDULABLE, found.message, kind="Warning")
