"""The JobTemplate controller: the status of a template lists the jobs that flows have made from it."""

from __future__ import annotations

from kubebase.work_queue import WorkQueue
from pumice.controllers.flows.flow_plan import CREATED_BY_TEMPLATE
from pumice.controllers.manager import SharedInformers
from pumice.controllers.retry_policy import RETRY_POLICY
from pumice.kube.client.api import Api
from pumice.kube.resources import JOB_TEMPLATES, JOBS, Document
from pumice.kube.watch.change_queue import Change


class JobTemplateController:
    """Reconciles the status of JobTemplates."""

    def __init__(self, api: Api, informers: SharedInformers) -> None:
        self._api = api
        self._templates = informers.all(JOB_TEMPLATES, optional=True)
        self._jobs = informers.all(JOBS)
        self._jobs_of: dict[str, set[str]] = {}  # by template, the names of its jobs
        self._begun = False
        self.work_queue = WorkQueue(self._reconcile, retries=RETRY_POLICY)

    def on_change(self, change: Change[Document]) -> None:
        """Queue the template that a changed object concerns."""
        either = change.new or change.old
        assert either is not None  # something has changed
        if change.resource == JOB_TEMPLATES.name:
            self.work_queue.add(change.key)
        elif change.resource == JOBS.name and (key := _template_of(either)):
            if change.key in self._jobs:
                self._jobs_of.setdefault(key, set()).add(either["metadata"]["name"])
            else:
                self._jobs_of.get(key, set()).discard(either["metadata"]["name"])
            if change.old is None or change.new is None:
                self.work_queue.add(key)

    async def _reconcile(self, key: str) -> None:
        if not self._begun:
            self._begun = True  # before the first write, so that no job counts as gone whose event is pending
            for known in self._jobs.values():
                if owner := _template_of(known.object):
                    self._jobs_of.setdefault(owner, set()).add(known.object["metadata"]["name"])
        found = self._templates.get(key)
        names = sorted(self._jobs_of.get(key, ()))
        if found is None:
            return
        template = found.object
        if ((template.get("status") or {}).get("jobDependsOnList") or []) != names:
            status = {**(template.get("status") or {}), "jobDependsOnList": names}
            await self._api.update(JOB_TEMPLATES, {**template, "status": status}, subresource="status")


def _template_of(job: Document) -> str:
    """The key of the template that a job was made from; empty if there is none. A namespace contains no dot."""
    text = (job["metadata"].get("annotations") or {}).get(CREATED_BY_TEMPLATE) or ""
    namespace, _, name = text.partition(".")
    return f"{namespace}/{name}" if name and namespace == job["metadata"]["namespace"] else ""
