"""CronJobs on a cluster that runs, with a clock that the test moves."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Any

from kubesim.kubelet.node_template import make_nodes, parse_capacity
from kubesim.server import RunningCluster, ServerSettings, running_cluster
from pumice.controllers.cron_jobs import CronJobController
from pumice.controllers.jobs import JobController
from pumice.controllers.manager import ControllerManager
from pumice.embedded.embedded_cluster import with_pumice
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Session
from tests.support.live_cluster import eventually, scheduling

JOBS, CRON_JOBS = "jobs.batch.volcano.sh", "cronjobs.batch.volcano.sh"


class Clock:
    """The time, moved forward by years."""

    def __init__(self) -> None:
        self.years = 0

    def __call__(self) -> float:
        return time.time() + self.years * 366 * 86400


def test_cron_job_makes_and_deletes_jobs(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = make_nodes(1, parse_capacity("cpu=4,memory=64Gi"))
        settings = ServerSettings(data=None, kubeconfig=tmp_path / "kubeconfig", nodes=nodes, speed=20.0)
        clock = Clock()
        async with (
            running_cluster(with_pumice(settings)) as running,
            scheduling(running.server),
            Session(Access(running.server)) as session,
            asyncio.timeout(60),
        ):
            makers = (JobController, partial(CronJobController, now=clock))
            work = asyncio.create_task(ControllerManager(Api(session), makers).run())
            try:
                await check(running, clock)
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)

    asyncio.run(story())


async def check(running: RunningCluster, clock: Clock) -> None:
    api = running.api

    def status() -> dict[str, Any]:
        return (api.read(CRON_JOBS, "default", "new-year") or {}).get("status") or {}

    def phases() -> list[str]:
        jobs = sorted(api.list(JOBS), key=lambda job: str(job["metadata"]["name"]))
        return [((job.get("status") or {}).get("state") or {}).get("phase", "") for job in jobs]

    async def pass_year() -> None:
        """Let a year pass, and the controller look: its timers are those of the real clock."""
        clock.years += 1

        def touch(found: dict[str, Any]) -> None:
            found["metadata"].setdefault("labels", {})["year"] = str(clock.years)

        await api.modify(CRON_JOBS, "default", "new-year", touch)

    template = {
        "metadata": {"annotations": {"pumice.dev/run-seconds": "1"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]},
    }
    job = {"queue": "default", "tasks": [{"name": "t", "replicas": 1, "template": template}]}
    spec = {"schedule": "@yearly", "successfulJobsHistoryLimit": 1, "jobTemplate": {"spec": job}}
    await api.create(CRON_JOBS, "default", {"metadata": {"name": "new-year"}, "spec": spec})
    await pass_year()
    await eventually(lambda: phases() == ["Completed"])
    await eventually(lambda: "lastSuccessfulTime" in status() and not status().get("active"))
    (first,) = api.list(JOBS)
    assert first["metadata"]["annotations"]["volcano.sh/user"] == "admin"  # who created the CronJob
    assert first["metadata"]["annotations"]["volcano.sh/cronjob-scheduled-timestamp"] == status()["lastScheduleTime"]
    await pass_year()
    await eventually(lambda: phases() == ["Completed"] and api.read(JOBS, "default", first["metadata"]["name"]) is None)
    wanted = {"SuccessfulCreate", "SuccessfulDelete"}
    await eventually(lambda: wanted <= {event["reason"] for event in api.list("events")})
    await api.delete(CRON_JOBS, "default", "new-year")
    await eventually(lambda: not api.list(JOBS))
