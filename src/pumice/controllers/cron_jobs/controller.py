"""The CronJob controller: watches CronJobs and their Jobs, and executes what ``plan_cron_job`` computes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from kubebase.timestamps import stamp
from kubebase.work_queue import WorkQueue
from pumice.controllers import COMPONENT
from pumice.controllers.cron_jobs.cron_plan import CronPlan, plan_cron_job, written_status
from pumice.controllers.manager import SharedInformers
from pumice.controllers.owned_jobs import OwnedJobs, controller_key, delete_job
from pumice.controllers.retry_policy import RETRY_POLICY
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError
from pumice.kube.event_recorder import EventType, record_once
from pumice.kube.resources import CRON_JOBS, JOBS, Document
from pumice.kube.watch.change_queue import Change

LATER: Final = 5.0
"""Seconds after which a job that the server rejects is tried again."""
LONGEST_WAIT: Final = 600.0
"""Seconds after which a CronJob is looked at in any case: clocks are adjusted."""
MARGIN: Final = 0.1
"""Seconds after the minute: a timer may fire a little early."""


class CronJobController:
    """Reconciles CronJobs."""

    def __init__(self, api: Api, informers: SharedInformers, now: Callable[[], float] = time.time) -> None:
        self._api = api
        self._now = now
        self._cron_jobs = informers.all(CRON_JOBS)
        self._jobs = OwnedJobs(informers.all(JOBS), lambda job: controller_key(job, CRON_JOBS))
        self._handled: dict[str, str] = {}  # by uid, the last time for which a job was made, until the cache shows it
        self.work_queue = WorkQueue(self._reconcile, retries=RETRY_POLICY)

    def on_change(self, change: Change[Document]) -> None:
        """Queue the CronJob that a changed object concerns."""
        if change.resource == CRON_JOBS.name:
            if change.new is None:
                self._handled.pop(change.uid, None)
            self.work_queue.add(change.key)
        elif owner := self._jobs.note(change):
            self.work_queue.add(owner)

    async def _reconcile(self, key: str) -> float | None:
        known = self._cron_jobs.get(key)
        if known is None:
            return None
        cron = self._with_handled_time(known.object)
        uid = cron["metadata"]["uid"]
        jobs = [job for job in self._jobs.of(key) if _owner_uid(job) == uid]
        plan = plan_cron_job(cron, jobs, self._now())
        for reason, words, kind in plan.says:
            await self._say(cron, reason, words, kind)
        for job in plan.delete:
            if await delete_job(self._api, job):
                await self._say(cron, "SuccessfulDelete", f"Deleted job {job['metadata']['name']}", "Normal")
        created: Document | None = None
        if plan.create is not None:
            created = await self._create(cron, plan.create)
            if created is None:
                return LATER
        await self._write_status(known.object, plan, created)
        return None if plan.again is None else min(max(0.0, plan.again + MARGIN - self._now()), LONGEST_WAIT)

    def _with_handled_time(self, cron: Document) -> Document:
        """The CronJob with the time of the job that was made last, which the cached status may not show yet."""
        handled = self._handled.get(cron["metadata"]["uid"], "")
        status = cron.get("status") or {}
        if handled <= (status.get("lastScheduleTime") or ""):
            return cron
        return {**cron, "status": {**status, "lastScheduleTime": handled}}

    async def _create(self, cron: Document, job: Document) -> Document | None:
        """Create a job, or find it: a controller may have stopped between the job and the status. None: try later."""
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        try:
            made = await self._api.create(JOBS, job, namespace)
        except ApiError as error:
            if not error.already_exists:
                await self._say(cron, "FailedCreate", f"Failed to create Job {name}: {error.message}", "Warning")
                if error.rejected:
                    return None
                raise
            there = await self._api.get(JOBS, name, namespace)
            if _owner_uid(there) == cron["metadata"]["uid"]:
                return there
            words = f"Failed to create Job {name}: a job of that name exists and does not belong to this CronJob"
            await self._say(cron, "FailedCreate", words, "Warning")
            return None
        await self._say(cron, "SuccessfulCreate", f"Created job {name}", "Normal")
        return made

    async def _write_status(self, cron: Document, plan: CronPlan, created: Document | None) -> None:
        status = written_status(self._with_handled_time(cron), plan, created)
        if plan.due is not None:
            self._handled[cron["metadata"]["uid"]] = stamp(plan.due)
        if status != (cron.get("status") or {}):
            await self._api.update(CRON_JOBS, {**cron, "status": status}, subresource="status")

    async def _say(self, cron: Document, reason: str, message: str, kind: EventType) -> None:
        await record_once(self._api, COMPONENT, cron, reason, message, stamp(self._now()), kind)


def _owner_uid(job: Document) -> str:
    owners = job["metadata"].get("ownerReferences") or ()
    return next((str(owner.get("uid")) for owner in owners if owner.get("controller")), "")
