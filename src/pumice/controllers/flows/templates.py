"""The JobTemplate controller: the status of a template lists the jobs that flows have made from it."""

from __future__ import annotations

from kubebase.work_queue import WorkQueue
from pumice.controllers.flows.flow_plan import CREATED_BY_TEMPLATE
from pumice.controllers.manager import SharedInformers
from pumice.controllers.owned_jobs import OwnedJobs
from pumice.controllers.retry_policy import RETRY_POLICY
from pumice.kube.client.api import Api
from pumice.kube.resources import JOB_TEMPLATES, JOBS, Document
from pumice.kube.watch.change_queue import Change


class JobTemplateController:
    """Reconciles the status of JobTemplates."""

    def __init__(self, api: Api, informers: SharedInformers) -> None:
        self._api = api
        self._templates = informers.all(JOB_TEMPLATES)
        self._jobs = OwnedJobs(informers.all(JOBS), _template_of)
        self.work_queue = WorkQueue(self._reconcile, retries=RETRY_POLICY)

    def on_change(self, change: Change[Document]) -> None:
        """Queue the template that a changed object concerns."""
        if change.resource == JOB_TEMPLATES.name:
            self.work_queue.add(change.key)
        elif (template := self._jobs.note(change)) and (change.old is None or change.new is None):
            self.work_queue.add(template)

    async def _reconcile(self, key: str) -> None:
        known = self._templates.get(key)
        names = [job["metadata"]["name"] for job in self._jobs.of(key)]
        if known is None:
            return
        status = known.object.get("status") or {}
        if (status.get("jobDependsOnList") or []) != names:
            document = {**known.object, "status": {**status, "jobDependsOnList": names}}
            await self._api.update(JOB_TEMPLATES, document, subresource="status")


def _template_of(job: Document) -> str:
    """The key of the template that a job was made from; empty if there is none. A namespace contains no dot."""
    text = (job["metadata"].get("annotations") or {}).get(CREATED_BY_TEMPLATE) or ""
    namespace, _, name = text.partition(".")
    return f"{namespace}/{name}" if name and namespace == job["metadata"]["namespace"] else ""
