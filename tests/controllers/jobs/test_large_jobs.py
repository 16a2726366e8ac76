"""Changes of the pods of a large job are looked at together; a small job, and everything else, at once."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from pumice.controllers.jobs.controller import LONGEST_PAUSE, PAUSE_RATIO, JobController
from pumice.kube.client.api import Api
from pumice.kube.resources import JOBS, PODS
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


def test_pods_of_a_large_job_wait_for_one_another() -> None:
    async def check() -> None:
        controller = JobController(cast("Api", None), cast("Any", Informers()))
        queue = Recorded()
        controller.work_queue = cast("Any", queue)
        pod = {"metadata": {"name": "pod", "namespace": "default", "ownerReferences": [OWNER]}}
        job = {"metadata": {"name": "large", "namespace": "default", "uid": UID}}
        pods = Change(PODS.name, "default/pod", "p1", "1", None, pod)
        for seconds, wait in ((0.0, 0.0), (0.01, PAUSE_RATIO * 0.01), (10.0, LONGEST_PAUSE), (0.001, 0.0)):
            controller._note_cost(JOB, seconds)
            controller.on_change(pods)
            assert queue.added.pop() == (JOB, wait)
        controller._note_cost(JOB, 10.0)
        controller.on_change(Change(JOBS.name, JOB, UID, "1", None, job))
        assert queue.added.pop() == (JOB, 0.0)

    asyncio.run(check())
