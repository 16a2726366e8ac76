"""The CronJob controller: executes the plan of ``cron_plan``."""

from __future__ import annotations

from typing import Final

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.clock import Clock
from kubesim.controllers.controller_loop import run_controller
from kubesim.controllers.controller_refs import ControllerRefs
from kubesim.controllers.events import EventRecorder
from kubesim.controllers.jobs.cron_plan import CronPlan, finished_condition, new_job, plan_cron_job
from kubesim.controllers.jobs.job_controller import JOBS
from kubesim.controllers.retry_policy import RETRY_POLICY, WORKERS
from kubesim.registry.registry import Object

CRON_JOBS: Final = "cronjobs.batch"


class CronJobController:
    """Reconciles CronJobs."""

    def __init__(self, api: InProcessClient, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._events = EventRecorder(api, "cronjob-controller", clock)
        self.work_queue = WorkQueue(self._reconcile, workers=WORKERS, retries=RETRY_POLICY)
        self.jobs = ControllerRefs(
            api, JOBS, "batch/v1", "CronJob", self.work_queue.add, selector_of=lambda cron: {}
        )  # Jobs belong to the CronJob that made them; none is adopted

    async def _reconcile(self, key: str) -> float | None:
        namespace, name, uid = key.split("/")
        cron = self._api.read(CRON_JOBS, namespace, name)
        if cron is None or cron["metadata"]["uid"] != uid:
            return None
        plan = plan_cron_job(cron, self.jobs.children_of(uid), self._clock.now())
        if plan.missed:
            await self._events.record_normal(cron, "JobAlreadyActive", plan.missed)
        for job in plan.delete:
            await self.jobs.delete(job, propagation="Background")
            await self._events.record_normal(cron, "SuccessfulDelete", f"Deleted job {job['metadata']['name']}")
        if plan.due is not None:
            await self._create_job(cron, plan.due)
        await self._record_ends(cron)
        await self._write_status(cron, plan)
        return plan.again

    async def _create_job(self, cron: Object, due: float) -> None:
        about = cron["metadata"]
        try:
            job = await self._api.create(JOBS, about["namespace"], new_job(cron, due))
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return  # made before the status was written
            await self._events.record_warning(cron, "FailedCreate", f"Error creating job: {error.message}")
            raise
        name = job["metadata"]["name"]
        self.jobs.add_child(about["uid"], f"{JOBS}/{about['namespace']}/{name}")
        await self._events.record_normal(cron, "SuccessfulCreate", f"Created job {name}")

    async def _record_ends(self, cron: Object) -> None:
        """Record an event for each Job that was active when the status was written last and has finished since."""
        for reference in (cron.get("status") or {}).get("active") or ():
            job = self._api.read(JOBS, cron["metadata"]["namespace"], reference["name"])
            if job is not None and (end := finished_condition(job)):
                words = f"Saw completed job: {reference['name']}, condition: {end}"
                await self._events.record_normal(cron, "SawCompletedJob", words)

    async def _write_status(self, cron: Object, plan: CronPlan) -> None:
        about = cron["metadata"]

        def edit(found: Object) -> None:
            found["status"] = plan.status

        if plan.status != cron.get("status"):
            await self._api.modify(
                CRON_JOBS, about["namespace"], about["name"], edit, subresource="status", uid=about["uid"]
            )


async def run(api: InProcessClient, clock: Clock) -> None:
    """Run the CronJob controller until cancelled."""
    crons = CronJobController(api, clock)
    owners = {CRON_JOBS: crons.jobs.on_owner_change}
    await run_controller(api, crons.work_queue, (JOBS, crons.jobs.on_child_change), owners)
