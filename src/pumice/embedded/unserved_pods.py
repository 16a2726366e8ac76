"""Events on pods that wait for a scheduler which does not run in this cluster.

A pod without ``schedulerName`` is for kube-scheduler, which ``pumice up`` does not have. Whoever creates such a pod
directly gets a warning from admission; the creator of a Deployment or Job gets none, and its pods would wait without a
word. So each pod that is still unbound after a moment gets one event. After the moment, because a scheduler of another
name may run beside this cluster and bind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.clock import Clock
from kubesim.controllers.events import EventRecorder
from kubesim.controllers.retry_policy import RETRY_POLICY
from kubesim.registry.registry import Object
from kubesim.storage import Change

KUBE_SCHEDULER = "default-scheduler"
WAIT_SECONDS = 1.0
REASON = "FailedScheduling"


class UnservedPods:
    """Finds the pods for other schedulers, and records one event for each."""

    def __init__(
        self, api: InProcessClient, clock: Clock, schedulers: Collection[str], wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._api = api
        self._schedulers = schedulers
        self._served_in_json = tuple(f'"schedulerName":"{name}"'.encode() for name in sorted(schedulers))
        self._events = EventRecorder(api, "pumice-up", clock)
        self._wait_seconds = wait_seconds
        self._found: dict[str, str] = {}  # key of a pod: its uid; only pods for other schedulers
        self._work_queue = WorkQueue(self._reconcile, workers=4, retries=RETRY_POLICY)

    def on_change(self, change: Change) -> None:
        """Handle a change of a pod. Most pods are ours or bound, and are not even decoded."""
        if change.deleted:
            self._found.pop(change.key, None)
        elif b'"nodeName"' not in change.value and not any(name in change.value for name in self._served_in_json):
            uid = change.object["metadata"]["uid"]
            if self._found.get(change.key) != uid:
                self._found[change.key] = uid
                self._work_queue.add_later(change.key, self._wait_seconds)

    async def _reconcile(self, key: str) -> None:
        _, namespace, name = key.split("/")
        pod = self._api.read("pods", namespace, name)
        if pod is not None and self._waits_for_another(pod):
            await self._events.record_warning(pod, REASON, unserved_message(pod["spec"]["schedulerName"]))

    def _waits_for_another(self, pod: Object) -> bool:
        spec = pod["spec"]
        bound = spec.get("nodeName") or "deletionTimestamp" in pod["metadata"]
        return not bound and spec.get("schedulerName") not in self._schedulers

    async def run(self) -> None:
        """Follow all pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._work_queue.run())
            async for batch in self._api.follow("pods"):
                for change in batch:
                    self.on_change(change)


def unserved_message(scheduler: str) -> str:
    """The text of the event: which scheduler is missing, and how the pod gets one."""
    missing = f"no scheduler named '{scheduler}' runs in this cluster"
    remedy = "set schedulerName: pumice in the pod, or in the template that it is made from"
    if scheduler == KUBE_SCHEDULER:
        remedy += "; pumice up --default-scheduler places pods that name no scheduler"
    return f"{missing}: {remedy}"
