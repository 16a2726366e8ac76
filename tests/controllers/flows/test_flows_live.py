"""JobFlows on a cluster that runs: the embedded API, simulated nodes, the scheduler and the controllers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from kubesim.kubelet.node_template import make_nodes, parse_capacity
from kubesim.server import RunningCluster, ServerSettings, running_cluster
from pumice.controllers.flows import JobFlowController, JobTemplateController
from pumice.controllers.jobs import JobController
from pumice.controllers.manager import ControllerManager
from pumice.embedded.embedded_cluster import with_pumice
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Session
from tests.support.live_cluster import eventually, scheduling

JOBS, TEMPLATES, FLOWS = "jobs.batch.volcano.sh", "jobtemplates.flow.volcano.sh", "jobflows.flow.volcano.sh"
Document = dict[str, Any]


def template(name: str, run: int = 1, **spec: Any) -> Document:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    annotations = {"pumice.dev/run-seconds": str(run)}
    task = {"name": "t", "replicas": 2, "template": {"metadata": {"annotations": annotations}, "spec": pod}}
    return {"metadata": {"name": name}, "spec": {"queue": "default", "tasks": [task], **spec}}


def flow(name: str, *entries: Document, **spec: Any) -> Document:
    return {"metadata": {"name": name}, "spec": {"flows": list(entries), **spec}}


def entry(name: str, *targets: str, **more: Any) -> Document:
    return {"name": name, **({"dependsOn": {"targets": list(targets), **more}} if targets else {})}


def test_flows_run_from_start_to_end(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = make_nodes(2, parse_capacity("cpu=4,memory=64Gi"))
        settings = ServerSettings(data=None, kubeconfig=tmp_path / "kubeconfig", nodes=nodes, speed=20.0)
        makers = (JobController, JobFlowController, JobTemplateController)
        async with (
            running_cluster(with_pumice(settings)) as running,
            scheduling(running.server),
            Session(Access(running.server)) as session,
            asyncio.timeout(60),
        ):
            work = asyncio.create_task(ControllerManager(Api(session), makers).run())
            try:
                await check(running)
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)

    asyncio.run(story())


async def check(running: RunningCluster) -> None:
    api = running.api

    def phase(name: str) -> str:
        status = (api.read(FLOWS, "default", name) or {}).get("status") or {}
        return str((status.get("state") or {}).get("phase", ""))

    def jobs() -> set[str]:
        return {job["metadata"]["name"] for job in api.list(JOBS)}

    # Before its last template, as files of a folder may be applied; jobs are gone in the moment that they are complete.
    patched = {**entry("c", "a", "b"), "patch": {"jobSpec": {"tasks": [{"name": "t", "replicas": 1}]}}}
    await api.create(FLOWS, "default", flow("all", entry("a"), entry("b", "a"), patched))
    await api.create(TEMPLATES, "default", template("a", ttlSecondsAfterFinished=0))
    await api.create(TEMPLATES, "default", template("b"))
    missing = "JobTemplate c does not exist; job all-c starts once it does"
    await eventually(lambda: missing in {event["message"] for event in api.list("events")})
    assert jobs() == {"all-b"}
    await api.create(TEMPLATES, "default", template("c"))
    await eventually(lambda: phase("all") == "Succeed")
    status = (api.read(FLOWS, "default", "all") or {})["status"]
    assert status["completedJobs"] == ["all-a", "all-b", "all-c"]
    assert jobs() == {"all-b", "all-c"}
    made = api.read(JOBS, "default", "all-c") or {}
    assert made["spec"]["tasks"][0]["replicas"] == 1
    assert made["metadata"]["labels"]["volcano.sh/createdByJobFlow"] == "default.all"
    assert made["metadata"]["annotations"]["volcano.sh/user"] == "admin"  # who created the flow
    await eventually(
        lambda: ((api.read(TEMPLATES, "default", "b") or {}).get("status") or {}).get("jobDependsOnList") == ["all-b"]
    )
    # A job that serves others never ends: what depends on it starts when its pods run.
    await api.create(TEMPLATES, "default", template("server", run=10_000))
    probe = {"taskStatusList": [{"taskName": "t", "phase": "Running"}]}
    served = flow("served", entry("server"), entry("b", "server", probe=probe), jobRetainPolicy="delete")
    await api.create(FLOWS, "default", served)
    await eventually(lambda: "served-b" in jobs())
    await api.delete(FLOWS, "default", "served")
    await eventually(lambda: jobs() == {"all-b", "all-c"})
