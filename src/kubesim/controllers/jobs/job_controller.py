"""Jobs (``batch/v1``): carries out what ``job_plan`` decides.

Pods whose Job is gone lose the finalizer that kept them for it.
"""

from __future__ import annotations

import asyncio

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.clock import Clock
from kubesim.controllers.controller_refs import ControllerRefs, adopt, disown
from kubesim.controllers.events import EventRecorder
from kubesim.controllers.gc.garbage_collector import drop_finalizer
from kubesim.controllers.jobs.job_plan import Plan, is_finished, plan
from kubesim.controllers.jobs.job_pods import TRACKING, is_tracked, new_pod
from kubesim.controllers.retry_policy import RETRY_POLICY, WORKERS
from kubesim.registry.registry import Object

JOBS = "jobs.batch"
OURSELVES = "kubernetes.io/job-controller"


class JobController:
    """Makes the pods of Jobs, and counts them."""

    def __init__(self, api: InProcessClient, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._events = EventRecorder(api, "job-controller", clock)
        self.work = WorkQueue(self._look, workers=WORKERS, retries=RETRY_POLICY)
        self.pods = ControllerRefs(api, "pods", "batch/v1", "Job", self.work.add)

    def take_job(self, job: Object, *, deleted: bool) -> None:
        """Take note of a Job. Only one that brings a selector of its own can match pods that it has not made."""
        self.pods.take_owner(job, deleted=deleted, claims_existing=bool(job["spec"].get("manualSelector")))

    async def _look(self, key: str) -> float | None:
        namespace, name, uid = key.split("/")
        job = self._api.read(JOBS, namespace, name)
        if job is None or job["metadata"]["uid"] != uid:
            await asyncio.gather(*(self._let_go(pod) for pod in self.pods.belonging(uid) if is_tracked(pod)))
            return None
        if job["spec"].get("managedBy", OURSELVES) != OURSELVES:
            return None
        pods = await self.pods.claimed(
            job,
            adopt=lambda pod: _adopt(pod, job),
            release=lambda pod: _disown(pod, uid),
            adopts=not is_finished(job),
        )
        result = plan(job, pods, self._clock)
        if result.expired:
            await self._api.delete(JOBS, namespace, name, uid=uid, propagation="Foreground")
            return None
        await self._carry_out(job, result)
        return None if result.again is None else self._clock.real(result.again)

    async def _carry_out(self, job: Object, result: Plan) -> None:
        about, before = job["metadata"], job.get("status") or {}
        where = about["namespace"], about["name"]

        def edit(found: Object) -> None:
            found["status"] = result.status

        if result.status != before:
            await self._api.modify(JOBS, *where, edit, subresource="status", uid=about["uid"])
            await self._report(job, before, result.status)
        await asyncio.gather(*(self._let_go(pod) for pod in (*result.release, *result.discard)))
        await asyncio.gather(*(self.pods.delete(pod) for pod in (*result.delete, *result.discard)))
        new = [new_pod(job, index, result.replaced.get(-1 if index is None else index)) for index in result.create]
        for pod in new[:1]:  # if one is refused, so are all: ask once
            await self._create(job, pod)
        await asyncio.gather(*(self._create(job, pod) for pod in new[1:]))

    async def _create(self, job: Object, new: Object) -> None:
        namespace = job["metadata"]["namespace"]
        try:
            pod = await self._api.create("pods", namespace, new)
        except ApiError as error:
            if "being terminated" in error.message:
                return
            await self._events.warn(job, "FailedCreate", f"Error creating: {error.message}")
            raise
        name = pod["metadata"]["name"]
        self.pods.note(job["metadata"]["uid"], f"pods/{namespace}/{name}")
        await self._events.note(job, "SuccessfulCreate", f"Created pod: {name}")

    async def _let_go(self, pod: Object) -> None:
        await self.pods.modify(pod, lambda found: drop_finalizer(found, TRACKING))

    async def _report(self, job: Object, before: Object, after: Object) -> None:
        """Events for the conditions that are new."""
        known = [(entry["type"], entry["status"]) for entry in before.get("conditions", ())]
        for entry in after.get("conditions", ()):
            if (entry["type"], entry["status"]) in known:
                continue
            match entry["type"]:
                case "Complete":
                    await self._events.note(job, "Completed", "Job completed")
                case "Failed":
                    await self._events.warn(job, entry["reason"], entry["message"])
                case "Suspended":
                    reason = "Suspended" if entry["status"] == "True" else "Resumed"
                    await self._events.note(job, reason, entry["message"])


def _adopt(pod: Object, job: Object) -> None:
    adopt(pod, job)
    if not is_tracked(pod):
        about = pod["metadata"]
        about["finalizers"] = [*about.get("finalizers", ()), TRACKING]


def _disown(pod: Object, uid: str) -> None:
    drop_finalizer(pod, TRACKING)
    disown(pod, uid)


async def run(api: InProcessClient, clock: Clock) -> None:
    """Carry out Jobs until cancelled."""
    jobs = JobController(api, clock)

    async def follow_jobs() -> None:
        async for batch in api.follow(JOBS):
            for change in batch:
                jobs.take_job(change.object, deleted=change.deleted)

    async with asyncio.TaskGroup() as tasks:
        async for batch in api.follow("pods"):
            for change in batch:
                jobs.pods.take_child(change)
            if not batch:  # not before the pods are known may a Job be judged
                tasks.create_task(follow_jobs())
                tasks.create_task(jobs.work.run())
