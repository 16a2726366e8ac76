"""Jobs (``batch/v1``): carries out what ``job_plan`` decides.

Knows which pods belong to which Job, by the uid of their controller. Pods that match a Job's selector and belong to
nobody are adopted; pods whose Job is gone lose the finalizer that kept them for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pumice.apiserver.builtin.selectors import matches
from pumice.apiserver.catalogue import Object
from pumice.apiserver.clock import Clock
from pumice.apiserver.controllers.events import Recorder
from pumice.apiserver.controllers.job_plan import Plan, is_finished, plan
from pumice.apiserver.controllers.job_pods import TRACKING, is_tracked, new_pod, reference
from pumice.apiserver.controllers.owners import drop_finalizer, place
from pumice.apiserver.controllers.work import Work
from pumice.apiserver.status import ApiError
from pumice.apiserver.storage import Change
from pumice.apiserver.verbs import Api

JOBS = "jobs.batch"
OURSELVES = "kubernetes.io/job-controller"

Edit = Callable[[Object], None]


class Jobs:
    """Makes the pods of Jobs, and counts them."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._events = Recorder(api, "job-controller", clock)
        self._pods: dict[str, set[str]] = {}  # uid of a Job: keys of its pods
        self._selectors: dict[str, dict[str, tuple[str, Object]]] = {}  # namespace, name: uid and selector
        self.work = Work(self._look)

    # ---- what is heard ------------------------------------------------------------------------------------

    def take_job(self, job: Object, *, deleted: bool) -> None:
        """Take note of a Job."""
        about = job["metadata"]
        known = self._selectors.setdefault(about["namespace"], {})
        if deleted:
            known.pop(about["name"], None)
        else:
            is_new = about["name"] not in known
            known[about["name"]] = (about["uid"], job["spec"].get("selector") or {})
            if is_new and job["spec"].get("manualSelector"):
                self._claim_existing(job)
        self.work.add(f"{about['namespace']}/{about['name']}/{about['uid']}")

    def take_pod(self, change: Change) -> None:
        """Take note of a pod: its Job is looked at again."""
        if not (b'"batch/v1"' in change.value or self._selectors):
            return
        pod = change.object
        owner = controller_of(pod)
        namespace = pod["metadata"]["namespace"]
        if owner is None:
            if not change.deleted:
                self._adoptable(change.key, pod)
        elif owner["kind"] == "Job" and owner["apiVersion"] == "batch/v1":
            pods = self._pods.setdefault(owner["uid"], set())
            if change.deleted:
                pods.discard(change.key)
                if not pods:
                    del self._pods[owner["uid"]]
            else:
                pods.add(change.key)
            self.work.add(f"{namespace}/{owner['name']}/{owner['uid']}")

    def _adoptable(self, key: str, pod: Object) -> None:
        labels = pod["metadata"].get("labels") or {}
        namespace = pod["metadata"]["namespace"]
        for name, (uid, selector) in self._selectors.get(namespace, {}).items():
            if labels and selector and matches(selector, labels):
                self._pods.setdefault(uid, set()).add(key)
                self.work.add(f"{namespace}/{name}/{uid}")

    def _claim_existing(self, job: Object) -> None:
        namespace = job["metadata"]["namespace"]
        for pod in self._api.list("pods", namespace):
            if controller_of(pod) is None:
                self._adoptable(f"pods/{namespace}/{pod['metadata']['name']}", pod)

    # ---- one Job ------------------------------------------------------------------------------------------

    async def _look(self, key: str) -> float | None:
        namespace, name, uid = key.split("/")
        job = self._api.read(JOBS, namespace, name)
        if job is None or job["metadata"]["uid"] != uid:
            await asyncio.gather(*(self._let_go(pod) for pod in self._belonging(uid) if is_tracked(pod)))
            return None
        if job["spec"].get("managedBy", OURSELVES) != OURSELVES:
            return None
        pods = await self._claimed(job)
        result = plan(job, pods, self._clock)
        if result.expired:
            await self._api.delete(JOBS, namespace, name, uid=uid, propagation="Foreground")
            return None
        await self._carry_out(job, result)
        return None if result.again is None else self._clock.real(result.again)

    def _belonging(self, uid: str) -> list[Object]:
        found = (self._api.read(*place(key)) for key in sorted(self._pods.get(uid, ())))
        return [pod for pod in found if pod is not None]

    async def _claimed(self, job: Object) -> list[Object]:
        """The Job's pods, after those that match have been adopted and those that no longer match released."""
        uid, selector = job["metadata"]["uid"], job["spec"].get("selector") or {}
        pods = []
        for pod in self._belonging(uid):
            owner = controller_of(pod)
            fits = matches(selector, pod["metadata"].get("labels") or {})
            if owner is not None and owner["uid"] == uid:
                if fits:
                    pods.append(pod)
                elif "deletionTimestamp" not in job["metadata"]:
                    await self._modify(pod, lambda found: _disown(found, uid))
            elif owner is None and fits and not _is_going(pod) and not _is_going(job) and not is_finished(job):
                adopted = await self._modify(pod, lambda found: _adopt(found, job))
                pods += [adopted] if adopted else []
        return pods

    async def _carry_out(self, job: Object, result: Plan) -> None:
        about, before = job["metadata"], job.get("status") or {}
        where = about["namespace"], about["name"]

        def edit(found: Object) -> None:
            found["status"] = result.status

        if result.status != before:
            await self._api.modify(JOBS, *where, edit, subresource="status", uid=about["uid"])
            await self._report(job, before, result.status)
        await asyncio.gather(*(self._let_go(pod) for pod in (*result.release, *result.discard)))
        await asyncio.gather(*(self._delete(pod) for pod in (*result.delete, *result.discard)))
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
        self._pods.setdefault(job["metadata"]["uid"], set()).add(f"pods/{namespace}/{name}")
        await self._events.note(job, "SuccessfulCreate", f"Created pod: {name}")

    async def _let_go(self, pod: Object) -> None:
        await self._modify(pod, lambda found: drop_finalizer(found, TRACKING))

    async def _delete(self, pod: Object) -> None:
        about = pod["metadata"]
        await self._api.delete("pods", about["namespace"], about["name"], uid=about["uid"])

    async def _modify(self, pod: Object, edit: Edit) -> Object | None:
        about = pod["metadata"]
        return await self._api.modify("pods", about["namespace"], about["name"], edit, uid=about["uid"])

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


def controller_of(found: Object) -> Object | None:
    """The owner reference of an object's controller."""
    return next((o for o in found["metadata"].get("ownerReferences", ()) if o.get("controller")), None)


def _is_going(found: Object) -> bool:
    return "deletionTimestamp" in found["metadata"]


def _adopt(pod: Object, job: Object) -> None:
    about = pod["metadata"]
    about["ownerReferences"] = [*about.get("ownerReferences", ()), reference(job)]
    if not is_tracked(pod):
        about["finalizers"] = [*about.get("finalizers", ()), TRACKING]


def _disown(pod: Object, uid: str) -> None:
    drop_finalizer(pod, TRACKING)
    about = pod["metadata"]
    about["ownerReferences"] = [owner for owner in about.get("ownerReferences", ()) if owner["uid"] != uid]


async def run(api: Api, clock: Clock) -> None:
    """Carry out Jobs until cancelled."""
    jobs = Jobs(api, clock)

    async def follow_jobs() -> None:
        async for batch in api.follow(JOBS):
            for change in batch:
                jobs.take_job(change.object, deleted=change.deleted)

    async with asyncio.TaskGroup() as tasks:
        async for batch in api.follow("pods"):
            for change in batch:
                jobs.take_pod(change)
            if not batch:  # not before the pods are known may a Job be judged
                tasks.create_task(follow_jobs())
                tasks.create_task(jobs.work.run())
