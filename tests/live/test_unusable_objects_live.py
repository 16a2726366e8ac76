"""All processes of ``pumice up`` on data with objects that cannot be used: everything else works."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import kubernetes
from tests.embedded.test_unusable_objects import as_format_1
from tests.support.api_servers import pumice_up
from tests.support.installed import until
from tests.support.kubectl import Namespace

pytestmark = [pytest.mark.long, pytest.mark.process]

QUEUES, GROUPS, JOBS = "queues.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh", "jobs.batch.volcano.sh"


def job(name: str) -> dict[str, object]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    about = {"annotations": {"pumice.dev/run-seconds": "0.2"}}
    task = {"name": "t", "replicas": 2, "template": {"metadata": about, "spec": {"containers": [container]}}}
    spec = {"minAvailable": 2, "schedulerName": "pumice", "queue": "default", "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def test_jobs_run_beside_unusable_queues_groups_and_jobs(tmp_path: Path) -> None:
    data, phase = tmp_path / "data", "jsonpath={.status.state.phase}"
    with pumice_up("--nodes", "2", data=data, everything=True) as (_, kubeconfig):
        kubectl = Namespace(kubeconfig, "default")
        for name in ("heavy", "listed"):
            made = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
            kubectl("create", "-f", "-", given={**made, "spec": {"weight": 1}})
        for name in ("one", "two"):
            kubectl("create", "-f", "-", given=job(name))
            until(lambda name=name: kubectl("get", JOBS, name, "-o", phase) == "Completed", seconds=150, what="it runs")
        groups = kubectl("get", GROUPS, "-o", "jsonpath={.items[*].metadata.name}").split()
    as_format_1(
        data,
        {
            f"{QUEUES}/heavy": lambda queue: queue["spec"].update(weight="heavy", parent=5),
            f"{QUEUES}/listed": lambda queue: queue.update(spec=[], status="x"),
            f"{JOBS}/default/one": lambda found: found.update(spec={"tasks": 7}),
            f"{JOBS}/default/two": lambda found: found.update(status=[1]),
            f"{GROUPS}/default/{groups[0]}": lambda found: found.update(spec="x"),
        },
    )
    log = tmp_path / "log"
    kubeconfig = tmp_path / "kubeconfig"
    command = [sys.executable, "-m", "pumice", "up", "--data", str(data), "--port", "0", "--no-ui"]
    with kubernetes.started(log, [*command, "--kubeconfig", str(kubeconfig)]) as process:
        until(lambda: "are running" in log.read_text(), seconds=150, what="it is up", said=log)
        kubectl = Namespace(kubeconfig, "default")
        kubectl("create", "-f", "-", given=job("later"))
        until(
            lambda: kubectl("get", JOBS, "later", "-o", phase) == "Completed",
            seconds=150,
            what="a new job runs",
            said=log,
        )
        kubectl("delete", "queue", "heavy", "--wait=false")
        kubectl("delete", JOBS, "one")
        assert process.poll() is None
    said = log.read_text()
    assert "exited" not in said, said
    for key in (f"{QUEUES}/heavy", f"{QUEUES}/listed", f"{JOBS}/default/one", f"{GROUPS}/default/{groups[0]}"):
        assert key in said
