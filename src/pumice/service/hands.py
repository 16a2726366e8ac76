"""Carrying decisions out: bindings, evictions, and what people read about their jobs.

Nothing here decides. What the cluster refuses comes back to the engine as an event; what may or may not have arrived
(the connection broke) is looked up before it is given up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Any

from pumice.kube.api import Api
from pumice.kube.pace import Backoff
from pumice.kube.recorder import Recorder, Subject
from pumice.kube.refusals import RefusedError, UnreachableError
from pumice.kube.resources import POD_GROUPS, PODS, QUEUES
from pumice.model.events import Event
from pumice.scheduling.decisions import Bind, Condition, Decision, Enqueue, Evict, Pipeline, QueueCondition
from pumice.service.mirror import Assumption, Mirror
from pumice.service.statuses import Status, Statuses

log = logging.getLogger(__name__)

MOST_BRAKES = 10_000
GROUP_VERSION = "scheduling.volcano.sh/v1beta1"


class Hands:
    """Writes decisions to the cluster; ``report`` hears of those that it refused."""

    def __init__(self, api: Api, mirror: Mirror, recorder: Recorder, report: Callable[[Iterable[Event]], None]) -> None:
        self._api = api
        self._mirror = mirror
        self._recorder = recorder
        self._report = report
        self._tasks: set[asyncio.Task[None]] = set()
        self._statuses = Statuses(api)
        self._brakes: dict[str, Backoff] = {}  # of pods that something was refused for
        self.bound = 0
        self.failed = 0

    def carry_out(self, decisions: Iterable[Decision]) -> None:
        """Begin to do what was decided. The mirror shows it from now on."""
        for decision in decisions:
            match decision:
                case Bind(task, node):
                    self._start(self._bind(task, node, self._mirror.assume_bound(task, node)))
                case Evict():
                    self._start(self._evict(decision, self._mirror.assume_evicted(decision.task)))
                case Enqueue(job):
                    self._mirror.assume_entered(job)
                    self.write_group(job, {"phase": "Inqueue"})
                case Condition():
                    self._say_condition(decision)
                case QueueCondition(queue, message):
                    self._say_of_queue(queue, message)
                case Pipeline():
                    pass  # the task waits; its binding follows

    def _say_of_queue(self, queue: str, message: str) -> None:
        subject = Subject(GROUP_VERSION, "Queue", queue)
        if message:
            self._recorder.say(subject, "Halted", message, kind="Warning")
        else:
            self._recorder.say(subject, "Resumed", "jobs may start here again")

    async def done(self) -> None:
        """Wait for everything that is under way."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
        await self._statuses.done()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- pods ---------------------------------------------------------------------------------------------

    async def _bind(self, key: str, node: str, assumed: Assumption) -> None:
        namespace, name = key.split("/")
        try:
            await self._api.bind(namespace, name, node, uid=assumed.uid)
        except UnreachableError as error:
            if not await self._is_on(namespace, name, node, assumed.uid):
                await self._refused(key, assumed, f"cannot be bound to {node}", error)
        except Exception as error:  # whatever it was: the engine must not take it for bound for ever
            await self._refused(key, assumed, f"cannot be bound to {node}", error)
        else:
            self.bound += 1
            self._brakes.pop(key, None)
            subject = Subject("v1", "Pod", name, namespace, assumed.uid)
            self._recorder.say(subject, "Scheduled", f"Successfully assigned {key} to {node}")

    async def _is_on(self, namespace: str, name: str, node: str, uid: str) -> bool:
        """Whether a binding arrived although its answer did not."""
        try:
            pod = await self._api.get(PODS.raw, name, namespace)
        except (RefusedError, UnreachableError):
            return False
        return bool(pod["metadata"]["uid"] == uid and pod["spec"].get("nodeName") == node)

    async def _evict(self, decision: Evict, assumed: Assumption) -> None:
        namespace, name = decision.task.split("/")
        try:
            await self._api.evict(namespace, name, uid=assumed.uid)
        except Exception as error:
            if not (isinstance(error, RefusedError) and error.absent):
                await self._refused(decision.task, assumed, "cannot be evicted", error)
        else:
            subject = Subject("v1", "Pod", name, namespace, assumed.uid)
            words = f"evicted from {decision.node} to make room for {decision.taker} ({decision.action})"
            self._recorder.say(subject, "Evict", words, kind="Warning")

    async def _refused(self, key: str, assumed: Assumption, what: str, error: Exception) -> None:
        """Tell the engine, later each time: until then it takes the decision for carried out, and tries nothing."""
        self.failed += 1
        log.warning("pod %s %s: %s", key, what, error)
        if len(self._brakes) > MOST_BRAKES:
            self._brakes.clear()  # of pods that are long gone, most of them
        await asyncio.sleep(self._brakes.setdefault(key, Backoff()).next())
        events = self._mirror.failed(key, assumed)
        if not events:
            self._brakes.pop(key, None)  # the cluster has shown what became of it
        self._report(events)

    # ---- podgroups ----------------------------------------------------------------------------------------

    def _say_condition(self, decision: Condition) -> None:
        now = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": decision.type,
            "status": "True",
            "reason": decision.reason,
            "message": decision.message,
            "lastTransitionTime": now,
            "transitionID": str(time.time_ns()),
        }
        self.write_group(decision.job, {"conditions": [condition]})
        namespace, name = decision.job.split("/")
        subject = Subject(GROUP_VERSION, "PodGroup", name, namespace, self._mirror.uid("podgroups", decision.job))
        waits = decision.type == "Unschedulable"
        self._recorder.say(subject, decision.type, decision.message, kind="Warning" if waits else "Normal")

    def write_group(self, job: str, status: Status) -> None:
        """Write phase, counts or conditions of a podgroup."""
        self._statuses.write(POD_GROUPS.name, job, status)

    def write_queue(self, name: str, status: Status) -> None:
        """Write the status of a queue."""
        self._statuses.write(QUEUES.name, name, status)
