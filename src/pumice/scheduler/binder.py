"""Executes the engine's decisions against the API: bindings, evictions, status and Events.

The binder makes no decisions. It reports a rejected call to the engine as an event. It retries a call with an unknown
outcome (the connection broke, the API is overloaded) until the API answers. Before it treats a binding as failed it
reads the pod again, because the attempt without an answer may have succeeded.

A pod whose claims have no volumes yet waits until ``VolumeBinder`` has bound them. Its capacity is taken meanwhile, and
other pods are bound.

Bindings wait in a queue (``binding_queue``), and ``SENDERS`` coroutines send one after the other. A binding whose call
failed leaves its sender to the next one and is repeated by a task of its own. Status and Events wait behind the queue.

Token buckets limit the rate of calls. Evictions have a bucket of their own, so that queued bindings do not delay an
eviction that frees capacity.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable
from functools import partial
from typing import Any, TypeVar

from kubebase.timestamps import stamp
from pumice.engine.decisions import Bind, Condition, Decision, Enqueue, Evict, Pipeline, QueueCondition
from pumice.engine.events import Event
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError, UnreachableError, retry_after_seconds
from pumice.kube.client.rate_limit import Backoff, TokenBucket
from pumice.kube.client.session import Limits
from pumice.kube.decode.pods import GPU_INDEX, PLACED_BY
from pumice.kube.event_recorder import EventRecorder, Subject
from pumice.kube.resources import POD_GROUPS, PODS, QUEUES
from pumice.scheduler.binding_queue import Binding, BindingQueue
from pumice.scheduler.cluster_cache import Assumption, ClusterCache
from pumice.scheduler.queue_conditions import QueueConditions
from pumice.scheduler.status_writer import LATER, Status, StatusWriter
from pumice.scheduler.volumes.volume_binder import VolumeBinder
from pumice.scheduler.volumes.volume_plan import VolumePlan

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_BACKOFFS = 10_000
WRITE_RATE = 2000
"""Default rate of bindings, and of evictions, per second; also the burst after an idle second."""
SENDERS = Limits().in_flight
"""Bindings that are sent at a time."""
RETRIED_CODES = LATER - {500}
"""Errors after which the same call is retried. An internal error (500) is not among them: it may be permanent."""
EVICTION_FORBIDDEN = 429
"""For evictions this is an answer: a disruption budget forbids the eviction."""
BUDGET_CAUSE, MORE_BUDGETS = "DisruptionBudget", "more than one PodDisruptionBudget"
"""What the API server says in that answer, and in the answer (500) for a pod that several budgets select."""
EVICTION_CAUSES = {
    "repair-gangs": "because the rest of its gang could not start in time",
    "relieve-nodes": "because the node is overcommitted",
}
"""The reason in the Event of an eviction that has no preemptor."""
ENDED_CONDITIONS = {
    "Halted": ("Resumed", "the scheduler starts jobs in this queue again"),
    "DeservedClamped": ("DeservedFits", "the deserved amounts in spec.deserved are in force"),
    "GuaranteesExceedCapacity": ("GuaranteesFit", "the cluster has enough capacity for all guarantees"),
}
"""Reason and message with which a condition of a queue ends."""
PREDICATE_TIME = "volcano.sh/predicate-time"
GROUP_VERSION = "scheduling.volcano.sh/v1beta1"


class Binder:
    """Writes decisions to the cluster; calls ``report`` with events for those that the API rejected."""

    def __init__(
        self,
        api: Api,
        cache: ClusterCache,
        recorder: EventRecorder,
        report: Callable[[Iterable[Event]], None],
        rate: int = WRITE_RATE,
        budgets_count: Callable[[], bool] = lambda: True,
        queue: BindingQueue | None = None,
    ) -> None:
        self._budgets_count = budgets_count  # whether disruption budgets hold off evictions
        self._api = api
        self._binds, self._evictions = (TokenBucket(rate, burst=rate) for _ in range(2))
        self._cache = cache
        self._recorder = recorder
        self._report = report
        self._queue = BindingQueue() if queue is None else queue
        self._senders = 0  # coroutines that send bindings
        self._tasks: set[asyncio.Task[None]] = set()  # the senders, evictions, and bindings that wait or are repeated
        self._statuses = StatusWriter(api, self._queue.hold)
        self._conditions = QueueConditions(api)
        self._volumes = VolumeBinder(api, cache.volumes, self._retry_until_answered)
        self._backoffs: dict[str, Backoff] = {}  # by pod, after a rejected call
        self.bound = 0
        self.evicted = 0
        self.failed = 0  # bindings and evictions
        self.failed_binds = 0
        self.waiting_for_volumes = 0  # pods
        self.retried = 0  # bindings of pods for which a call was rejected before

    def execute(self, decisions: Iterable[Decision]) -> None:
        """Start to execute decisions. The cache assumes them from now on."""
        for decision in decisions:
            match decision:
                case Bind(task, node, cards=cards):
                    assumed = self._cache.assume_bound(task, node)
                    plan = self._cache.volumes.assume(task, node)
                    self.retried += task in self._backoffs
                    binding = Binding(task, node, assumed, cards)
                    if plan is None:
                        self._queue.add(binding)
                    else:
                        self._start(self._bind_with_volumes(binding, plan))
                case Evict():
                    self._start(self._evict(decision, self._cache.assume_evicted(decision.task)))
                case Enqueue(job):
                    self._cache.assume_enqueued(job)
                    self._statuses.write(
                        POD_GROUPS.name, job, {"phase": "Inqueue"}, self._cache.uid("podgroups", job), urgent=True
                    )
                case Condition():
                    self._set_podgroup_condition(decision)
                case QueueCondition():
                    self._set_queue_condition(decision)
                case Pipeline():
                    pass  # the task waits; its binding follows
        self._start_senders()

    def _set_queue_condition(self, decision: QueueCondition) -> None:
        subject = Subject(GROUP_VERSION, "Queue", decision.queue)
        kind, over = decision.type, ENDED_CONDITIONS[decision.type]
        self._conditions.say(decision.queue, kind, kind if decision.message else over[0], decision.message or over[1])
        if decision.message:
            self._recorder.record(subject, kind, decision.message, kind="Warning")
        else:
            self._recorder.record(subject, *over)

    async def retire_conditions(self, holds: Callable[[str, str], bool]) -> None:
        """After a start: end conditions of queues that an earlier scheduler left and that no longer hold."""
        await self._conditions.retire(ENDED_CONDITIONS, holds)

    @property
    def in_flight(self) -> int:
        """How many bindings and evictions are in flight or wait for their turn, without those that wait for volumes."""
        return len(self._queue) + len(self._tasks) - self.waiting_for_volumes

    def stop_waiting(self) -> None:
        """Before the end: give up pods that wait for volumes. The scheduler that comes next places them again."""
        self._volumes.stop()

    async def done(self) -> None:
        """Wait for all calls in flight."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        await self._statuses.done()
        await self._conditions.done()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- pods ---------------------------------------------------------------------------------------------

    def _start_senders(self) -> None:
        for _ in range(min(SENDERS - self._senders, len(self._queue))):
            self._senders += 1
            self._start(self._send_bindings())

    async def _send_bindings(self) -> None:
        """Send bindings until none waits."""
        try:
            while (binding := self._queue.take()) is not None:
                try:
                    await self._call_bind(binding)
                    self._note_bound(binding)
                except Exception as error:  # whatever it was: the others go on
                    self._start(self._repeat(binding, error))
        finally:
            self._senders -= 1

    async def _repeat(self, binding: Binding, failed: Exception) -> None:
        """After a call that failed: repeat it until the API answers, and find out what has become of the pod."""
        key, node, assumed = binding.key, binding.node, binding.assumed
        try:
            await self._retry_until_answered(key, partial(self._call_bind, binding), failed=failed)
        except Exception as error:  # whatever it was: the engine must not consider the pod bound for ever
            if not await self._retry_until_answered(key, partial(self._is_bound, binding)):
                await self._report_rejected(key, assumed, f"bind to {node}", error)
                return
        self._note_bound(binding)

    def _note_bound(self, binding: Binding) -> None:
        self.bound += 1
        key = binding.key
        self._backoffs.pop(key, None)
        namespace, name = key.split("/")
        subject = Subject("v1", "Pod", name, namespace, binding.assumed.uid)
        self._recorder.record(subject, "Scheduled", f"Successfully assigned {key} to {binding.node}")

    async def _bind_with_volumes(self, binding: Binding, plan: VolumePlan) -> None:
        if await self._bind_volumes(binding.key, binding.assumed, plan):
            self._queue.add(binding)
            self._start_senders()

    async def _bind_volumes(self, key: str, assumed: Assumption, plan: VolumePlan) -> bool:
        """Bind the volumes of a pod. False: the pod is not to be bound, and the engine knows why."""
        self.waiting_for_volumes += 1
        try:
            return await self._volumes.bind(key, plan, lambda: self._cache.is_assumed(key, assumed))
        except Exception as error:  # whatever it was: the engine must not consider the pod bound for ever
            namespace, name = key.split("/")
            subject = Subject("v1", "Pod", name, namespace, assumed.uid)
            self._recorder.record(subject, "FailedScheduling", f"binding volumes: {error}", kind="Warning")
            await self._report_rejected(key, assumed, f"bind the volumes on {plan.node}", error)
            return False
        finally:
            self.waiting_for_volumes -= 1

    async def _call_bind(self, binding: Binding) -> None:
        await self._binds.take()
        annotations = {PLACED_BY: "pumice"}
        if binding.cards:  # the device plugin of the node serves its pods by the time at which they got their cards
            annotations |= {GPU_INDEX: ",".join(map(str, binding.cards)), PREDICATE_TIME: str(time.time_ns())}
        namespace, name = binding.key.split("/")
        await self._api.bind(namespace, name, binding.node, uid=binding.assumed.uid, annotations=annotations)

    async def _is_bound(self, binding: Binding) -> bool:
        """Whether a pod is on the node: an earlier attempt may have succeeded although its answer was lost."""
        namespace, name = binding.key.split("/")
        try:
            pod = await self._api.get(PODS.raw, name, namespace)
        except ApiError as error:
            if error.not_found:
                return False
            raise UnreachableError(str(error)) from None  # the read failed, so the outcome stays unknown
        return bool(pod["metadata"]["uid"] == binding.assumed.uid and pod["spec"].get("nodeName") == binding.node)

    async def _retry_until_answered(
        self,
        key: str,
        ask: Callable[[], Awaitable[T]],
        retried_codes: Container[int] = RETRIED_CODES,
        *,
        failed: Exception | None = None,
    ) -> T:
        """Call the API until it answers. Without an answer the outcome is unknown, so the same call is repeated.

        ``failed``: what the first call raised, which somebody else has made.
        """
        backoff: Backoff | None = None
        while True:
            try:
                if failed is not None:
                    raise failed
                return await ask()
            except (UnreachableError, ApiError) as error:
                failed = None
                if isinstance(error, ApiError) and error.code not in retried_codes:
                    raise
                backoff = backoff or Backoff()
                pause = backoff.next(retry_after_seconds(error))
                log.info('API call failed, retrying: pod=%s error="%s" retryAfter=%.1fs', key, error, pause)
            await asyncio.sleep(pause)

    async def _evict(self, decision: Evict, assumed: Assumption) -> None:
        namespace, name = decision.task.split("/")
        # When a whole job is evicted, its status must say first that it no longer runs: a crash could lose the other
        # evictions.
        await self._statuses.wait_written(POD_GROUPS.name, decision.job)
        try:
            ask = partial(self._call_evict, namespace, name, assumed.uid)
            await self._retry_until_answered(decision.task, ask, RETRIED_CODES - {EVICTION_FORBIDDEN})
        except Exception as error:
            if not (isinstance(error, ApiError) and error.not_found):
                await self._report_rejected(decision.task, assumed, "evict", error)
        else:
            self.evicted += 1
            subject = Subject("v1", "Pod", name, namespace, assumed.uid)
            why = (
                f"to make room for job {decision.preemptor}" if decision.preemptor else EVICTION_CAUSES[decision.action]
            )
            words = f"Evicted from node {decision.node} {why} (action {decision.action})"
            self._recorder.record(subject, "Evict", words, kind="Warning")
            # The pod's Event goes with the pod; this one shows users of the job what became of it.
            group_namespace, group = decision.job.split("/")
            uid = self._cache.uid("podgroups", decision.job)
            owner = Subject(GROUP_VERSION, "PodGroup", group, group_namespace, uid)
            self._recorder.record(owner, "Evict", f"Evicted pod {name} from node {decision.node} {why}")

    async def _call_evict(self, namespace: str, name: str, uid: str) -> None:
        await self._evictions.take()
        try:
            await self._api.evict(namespace, name, uid=uid)
        except ApiError as error:
            if self._budgets_count() or not _is_of_budget(error):
                raise
            # Anyone may have a budget for its own pods; without the plugin pdb it keeps no share from others.
            await self._api.delete(PODS, name, namespace, uid=uid)

    async def _report_rejected(self, key: str, assumed: Assumption, what: str, error: Exception) -> None:
        """Report a rejected call to the engine after a backoff. Until then the engine assumes success."""
        self.failed += 1
        self.failed_binds += bool(assumed.node)
        log.warning('Failed to execute a decision: pod=%s call="%s" error="%s"', key, what, error)
        if len(self._backoffs) > MAX_BACKOFFS:
            self._backoffs.clear()  # most of these pods are long gone
        await asyncio.sleep(self._backoffs.setdefault(key, Backoff()).next())
        events = self._cache.failed(key, assumed)
        if not events:
            self._backoffs.pop(key, None)  # the cluster has shown the outcome
        self._report(events)

    # ---- podgroups ----------------------------------------------------------------------------------------

    def _set_podgroup_condition(self, decision: Condition) -> None:
        now = stamp(time.time())
        condition = {
            "type": decision.type,
            "status": "True",
            "reason": decision.reason,
            "message": decision.message,
            "lastTransitionTime": now,
            "transitionID": str(time.time_ns()),
        }
        self.write_podgroup_status(decision.job, {"conditions": [condition]})
        namespace, name = decision.job.split("/")
        subject = Subject(GROUP_VERSION, "PodGroup", name, namespace, self._cache.uid("podgroups", decision.job))
        waits = decision.type == "Unschedulable"
        self._recorder.record(subject, decision.type, decision.message, kind="Warning" if waits else "Normal")

    def write_podgroup_status(self, job: str, status: Status) -> None:
        """Write the phase, counts or conditions of a podgroup."""
        self._statuses.write(POD_GROUPS.name, job, status, self._cache.uid("podgroups", job))

    def write_pod_condition(self, key: str, condition: Status, *, uid: str, revision: str) -> None:
        """Write a condition of a pod, unless the pod has changed since that revision."""
        self._statuses.write(PODS.name, key, {"conditions": [condition]}, uid, revision)

    def write_queue_status(self, name: str, status: Status) -> None:
        """Write the status of a queue."""
        self._statuses.write(QUEUES.name, name, status)


def _is_of_budget(error: ApiError) -> bool:
    """Whether disruption budgets forbid an eviction: an overloaded API server answers with the same codes."""
    causes = error.details.get("causes") or ()
    return MORE_BUDGETS in error.message or any(cause.get("reason") == BUDGET_CAUSE for cause in causes)
