"""The progress of a large job is looked at now and then; of a small job, and everything else, at once."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from pumice.controllers.jobs.controller import (
    LONGEST_MANY_PAUSE,
    LONGEST_PAUSE,
    MANY_PAUSE,
    MANY_RATIO,
    PAUSE_RATIO,
    JobController,
)
from pumice.kube.client.api import Api
from pumice.kube.resources import JOBS, POD_GROUPS, PODS, Document
from pumice.kube.watch.change_queue import Change

JOB, UID = "default/large", "u1"
OWNER = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": "large", "uid": UID, "controller": True}


class Informers:
    def all(self, resource: Any) -> dict[str, Any]:
        return {"default/pod": None} if resource is PODS else {}


class Recorded:
    """A work queue that notes what is added."""

    def __init__(self) -> None:
        self.added: list[tuple[str, float]] = []

    def add(self, key: str) -> None:
        self.added.append((key, 0.0))

    def add_later(self, key: str, seconds: float) -> None:
        self.added.append((key, seconds))


def changed(job: Document, **metadata: Any) -> Document:
    return {**job, "metadata": {**job["metadata"], **metadata}}


def test_pods_of_a_large_job_wait_for_one_another() -> None:
    async def check() -> None:
        controller = JobController(cast("Api", None), cast("Any", Informers()))
        queue = Recorded()
        controller.work_queue = cast("Any", queue)
        pod = {"metadata": {"name": "pod", "namespace": "default", "ownerReferences": [OWNER]}}
        job = {"metadata": {"name": "large", "namespace": "default", "uid": UID}}
        group = {"metadata": {"name": "group", "namespace": "default", "ownerReferences": [OWNER]}}
        pods = Change(PODS.name, "default/pod", "p1", "1", None, pod)
        for seconds, many, wait in (
            (0.0, False, 0.0),
            (0.01, False, PAUSE_RATIO * 0.01),
            (10.0, False, LONGEST_PAUSE),
            (0.001, False, 0.0),
            (0.001, True, MANY_PAUSE),
            (0.01, True, MANY_RATIO * 0.01),
            (10.0, True, LONGEST_MANY_PAUSE),
        ):
            controller._note_cost(JOB, seconds, many=many)
            controller.on_change(pods)
            assert queue.added.pop() == (JOB, wait)
        for new, old, wait in (
            (job, None, 0.0),  # created
            (None, job, 0.0),
            (changed(job, generation=2), job, 0.0),
            (changed(job, deletionTimestamp="2026-01-01T00:00:00Z"), job, 0.0),
            ({**job, "status": {"succeeded": 7}}, job, LONGEST_MANY_PAUSE),
        ):
            controller.on_change(Change(JOBS.name, JOB, UID, "1", old, new))
            assert queue.added.pop() == (JOB, wait)
        pending, inqueue, running = ({**group, "status": {"phase": at}} for at in ("Pending", "Inqueue", "Running"))
        for new, old, wait in (
            (inqueue, group, 0.0),
            (inqueue, pending, 0.0),
            (pending, inqueue, 0.0),
            (None, running, 0.0),
            ({**group, "status": {"running": 7}}, group, LONGEST_MANY_PAUSE),
            (running, inqueue, LONGEST_MANY_PAUSE),  # whenever a pod ends and the next one has not started yet
            (inqueue, running, LONGEST_MANY_PAUSE),
        ):
            controller.on_change(Change(POD_GROUPS.name, "default/group", "g1", "1", old, new))
            assert queue.added.pop() == (JOB, wait)

    asyncio.run(check())
