"""The controller of Jobs (``batch/v1``): executes the plan of ``job_plan``.

It removes the tracking finalizer from pods whose Job no longer exists.
"""

from __future__ import annotations

import asyncio

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.clock import Clock
from kubesim.controllers.controller_loop import run_controller
from kubesim.controllers.controller_refs import ControllerRefs, add_controller_ref, remove_controller_ref
from kubesim.controllers.events import EventRecorder
from kubesim.controllers.gc.garbage_collector import remove_finalizer
from kubesim.controllers.jobs.job_plan import JobPlan, is_finished, plan_job
from kubesim.controllers.jobs.job_pods import TRACKING, is_tracked, new_pod
from kubesim.controllers.retry_policy import RETRY_POLICY, WORKERS
from kubesim.registry.registry import Object
from kubesim.storage import Change

JOBS = "jobs.batch"
CONTROLLER_NAME = "kubernetes.io/job-controller"


class JobController:
    """Reconciles Jobs."""

    def __init__(self, api: InProcessClient, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._events = EventRecorder(api, "job-controller", clock)
        self.work_queue = WorkQueue(self._reconcile, workers=WORKERS, retries=RETRY_POLICY)
        self.pods = ControllerRefs(api, "pods", "batch/v1", "Job", self.work_queue.add)

    def on_job_change(self, change: Change) -> None:
        """Handle a change of a Job. Only a Job with a manual selector can match pods that it has not created."""
        manual = bool(change.object["spec"].get("manualSelector"))
        self.pods.on_owner_change(change, claims_existing=manual)

    async def _reconcile(self, key: str) -> float | None:
        namespace, name, uid = key.split("/")
        job = self._api.read(JOBS, namespace, name)
        if job is None or job["metadata"]["uid"] != uid:
            await asyncio.gather(
                *(self._remove_tracking_finalizer(pod) for pod in self.pods.children_of(uid) if is_tracked(pod))
            )
            return None
        if job["spec"].get("managedBy", CONTROLLER_NAME) != CONTROLLER_NAME:
            return None
        pods = await self.pods.claim_children(
            job,
            adopt=lambda pod: _adopt_pod(pod, job),
            release=lambda pod: _release_pod(pod, uid),
            adopts=not is_finished(job),
        )
        result = plan_job(job, pods, self._clock)
        if result.expired:
            await self._api.delete(JOBS, namespace, name, uid=uid, propagation="Foreground")
            return None
        await self._execute_plan(job, result)
        return None if result.again is None else self._clock.real(result.again)

    async def _execute_plan(self, job: Object, result: JobPlan) -> None:
        about, before = job["metadata"], job.get("status") or {}
        where = about["namespace"], about["name"]

        def edit(found: Object) -> None:
            found["status"] = result.status

        if result.status != before:
            await self._api.modify(JOBS, *where, edit, subresource="status", uid=about["uid"])
            await self._record_condition_events(job, before, result.status)
        await asyncio.gather(*(self._remove_tracking_finalizer(pod) for pod in (*result.release, *result.discard)))
        await asyncio.gather(*(self.pods.delete(pod) for pod in (*result.delete, *result.discard)))
        new = [new_pod(job, index, result.replaced.get(-1 if index is None else index)) for index in result.create]
        for pod in new[:1]:  # if the first is rejected, so are all: try one first
            await self._create_pod(job, pod)
        await asyncio.gather(*(self._create_pod(job, pod) for pod in new[1:]))

    async def _create_pod(self, job: Object, new: Object) -> None:
        namespace = job["metadata"]["namespace"]
        try:
            pod = await self._api.create("pods", namespace, new)
        except ApiError as error:
            if "being terminated" in error.message:
                return
            await self._events.record_warning(job, "FailedCreate", f"Error creating: {error.message}")
            raise
        name = pod["metadata"]["name"]
        self.pods.add_child(job["metadata"]["uid"], f"pods/{namespace}/{name}")
        await self._events.record_normal(job, "SuccessfulCreate", f"Created pod: {name}")

    async def _remove_tracking_finalizer(self, pod: Object) -> None:
        await self.pods.modify(pod, lambda found: remove_finalizer(found, TRACKING))

    async def _record_condition_events(self, job: Object, before: Object, after: Object) -> None:
        """Record events for new conditions."""
        known = [(entry["type"], entry["status"]) for entry in before.get("conditions", ())]
        for entry in after.get("conditions", ()):
            if (entry["type"], entry["status"]) in known:
                continue
            match entry["type"]:
                case "Complete":
                    await self._events.record_normal(job, "Completed", "Job completed")
                case "Failed":
                    await self._events.record_warning(job, entry["reason"], entry["message"])
                case "Suspended":
                    reason = "Suspended" if entry["status"] == "True" else "Resumed"
                    await self._events.record_normal(job, reason, entry["message"])


def _adopt_pod(pod: Object, job: Object) -> None:
    add_controller_ref(pod, job)
    if not is_tracked(pod):
        about = pod["metadata"]
        about["finalizers"] = [*about.get("finalizers", ()), TRACKING]


def _release_pod(pod: Object, uid: str) -> None:
    remove_finalizer(pod, TRACKING)
    remove_controller_ref(pod, uid)


async def run(api: InProcessClient, clock: Clock) -> None:
    """Run the Job controller until cancelled."""
    jobs = JobController(api, clock)
    await run_controller(api, jobs.work_queue, ("pods", jobs.pods.on_child_change), {JOBS: jobs.on_job_change})
