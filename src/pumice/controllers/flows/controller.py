"""The JobFlow controller: watches flows, templates and jobs, and executes what ``plan_flow`` computes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from kubebase.timestamps import stamp
from kubebase.work_queue import WorkQueue
from pumice.admission.jobs.job_flows import flows_of
from pumice.controllers import COMPONENT
from pumice.controllers.flows.flow_plan import FAILED, SUCCEED, FlowPlan, job_name, owned_jobs, plan_flow
from pumice.controllers.jobs.phases import Phase
from pumice.controllers.manager import SharedInformers
from pumice.controllers.owned_jobs import controller_key, delete_job
from pumice.controllers.retry_policy import RETRY_POLICY
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError
from pumice.kube.event_recorder import EventType, record_once
from pumice.kube.resources import JOB_FLOWS, JOB_TEMPLATES, JOBS, Document
from pumice.kube.watch.change_queue import Change

LATER: Final = 5.0
"""Seconds after which a flow is reconciled again if the name of a job is taken, or the server rejects a job."""


class JobFlowController:
    """Reconciles JobFlows."""

    def __init__(self, api: Api, informers: SharedInformers, now: Callable[[], float] = time.time) -> None:
        self._api = api
        self._now = now
        self._flows = informers.all(JOB_FLOWS)
        self._templates = informers.all(JOB_TEMPLATES)
        self._jobs = informers.all(JOBS)
        self._ended: dict[str, list[Document]] = {}  # by flow, complete jobs that its status may not have recorded
        self._answers: dict[str, Document] = {}  # flows as the server returned them, until the informer has caught up
        self.work_queue = WorkQueue(self._reconcile, retries=RETRY_POLICY)

    def on_change(self, change: Change[Document]) -> None:
        """Queue the flows that a changed object concerns."""
        either = change.new or change.old
        assert either is not None  # something has changed
        if change.resource == JOB_FLOWS.name:
            self.work_queue.add(change.key)
        elif change.resource == JOBS.name:
            if key := controller_key(either, JOB_FLOWS):
                if change.new is None and _phase(either) == Phase.COMPLETED:
                    self._ended.setdefault(key, []).append(either)
                self.work_queue.add(key)
        elif change.resource == JOB_TEMPLATES.name and change.old is None:
            namespace, _, template = change.key.partition("/")
            for key, known in self._flows.items():
                if key.startswith(f"{namespace}/") and any(e["name"] == template for e in flows_of(known.object)):
                    self.work_queue.add(key)

    async def _reconcile(self, key: str) -> float | None:
        flow, ended = self._newest(key), self._ended.pop(key, [])
        if flow is None:
            return None
        namespace = flow["metadata"]["namespace"]
        names = {entry["name"] for entry in flows_of(flow)}
        templates = {
            name: known.object for name in names if (known := self._templates.get(f"{namespace}/{name}")) is not None
        }
        recorded = {record["name"] for record in (flow.get("status") or {}).get("jobStatusList") or ()}
        wanted = {job_name(flow, name) for name in names} | recorded
        there = [known.object for name in sorted(wanted) if (known := self._jobs.get(f"{namespace}/{name}"))]
        if _phase(flow) in (SUCCEED, FAILED):
            ended = []
        jobs = owned_jobs(flow, [*ended, *there])  # a job that is there replaces an earlier one of its name
        try:
            return await self._carry_out(key, flow, plan_flow(flow, templates, jobs, self._now()))
        except BaseException:
            self._ended.setdefault(key, [])[:0] = ended
            raise

    def _newest(self, key: str) -> Document | None:
        """The newest flow: from the informer, or the last response of the server while the informer is behind it."""
        known, answer = self._flows.get(key), self._answers.get(key)
        if answer is not None and (known is None or _is_current(known.object, answer)):
            del self._answers[key]
            answer = None
        return answer or (known.object if known else None)

    async def _carry_out(self, key: str, flow: Document, plan: FlowPlan) -> float | None:
        """The status first: it records what happened to jobs that may be gone the next time."""
        again: float | None = None
        if plan.status is not None:
            document = {**flow, "status": plan.status}
            self._answers[key] = await self._api.update(JOB_FLOWS, document, subresource="status")
        if plan.problem:
            await self._say(flow, "JobFlowFailed", f"No further job starts: {plan.problem}", "Warning")
        for name in plan.missing:
            words = f"JobTemplate {name} does not exist; job {job_name(flow, name)} starts once it does"
            await self._say(flow, "JobTemplateNotFound", words, "Warning")
        for job in plan.create:
            if not await self._create(flow, job):
                again = LATER
        for job in plan.delete:
            await delete_job(self._api, job)
        return again

    async def _create(self, flow: Document, job: Document) -> bool:
        """Create a job; False if the server does not take it now."""
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        try:
            await self._api.create(JOBS, job, namespace)
        except ApiError as error:
            if error.already_exists:
                there = self._jobs.get(f"{namespace}/{name}")
                if there is not None and not owned_jobs(flow, [there.object]):
                    words = f"Failed to create Job {name}: a job of that name exists and does not belong to this flow"
                    await self._say(flow, "FailedCreate", words, "Warning")
                return False
            await self._say(flow, "FailedCreate", f"Failed to create Job {name}: {error.message}", "Warning")
            if error.rejected:
                return False  # a queue may be opened, a quota raised, a template changed
            raise
        await self._say(flow, "Created", f"Created job {name}", "Normal")
        return True

    async def _say(self, flow: Document, reason: str, message: str, kind: EventType) -> None:
        await record_once(self._api, COMPONENT, flow, reason, message, stamp(self._now()), kind)


def _phase(found: Document) -> str:
    """The phase of a flow or of a job."""
    return str(((found.get("status") or {}).get("state") or {}).get("phase") or "")


def _is_current(known: Document, answer: Document) -> bool:
    """Whether a cached flow is at least as new as the server's response, or another flow."""
    one, other = known["metadata"], answer["metadata"]
    if one["uid"] != other["uid"]:
        return True
    revisions = [str(about.get("resourceVersion") or "") for about in (one, other)]
    if all(text.isdecimal() for text in revisions):
        return int(revisions[0]) >= int(revisions[1])
    return revisions[0] == revisions[1]
