"""``pumice up --default-scheduler``: manifests that know nothing of Pumice run as they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.api_servers import pumice_up
from tests.support.kubectl import Namespace, rows


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with pumice_up("--nodes", "2", "--default-scheduler", "--speed", "100", everything=True) as (_, written):
        yield written


@pytest.fixture
def kubectl(kubeconfig: Path, request: pytest.FixtureRequest) -> Namespace:
    name = request.node.name.removeprefix("test_").replace("_", "-")
    Namespace(kubeconfig, "default")("create", "namespace", name)
    return Namespace(kubeconfig, name)


def test_a_deployment_without_scheduler_name_runs(kubectl: Namespace) -> None:
    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2")
    kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    assert kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.schedulerName}").split() == ["default-scheduler"] * 2
    assert "Warning" not in kubectl("run", "alone", "--image=busybox")


def test_top_logs_and_exec_answer_for_simulated_pods(kubectl: Namespace) -> None:
    kubectl("run", "short", "--image=busybox", "--restart=Never", "--annotations=pumice.dev/run-seconds=200")
    kubectl("run", "work", "--image=busybox", "--restart=Never")
    kubectl("wait", "--for=condition=Ready", "pod/work")
    assert ["work", "0m", "0Mi"] in rows(kubectl("top", "pods"))
    assert kubectl("top", "nodes").splitlines()[1].split()[0] == "node-000"
    kubectl.until(lambda: "short: started" in kubectl.tried("logs", "short")[1])
    assert kubectl("logs", "-f", "short").endswith("short: exited with 0\n")
    simulated = "nodes are simulated, or run pods as processes without containers"
    for command in (
        ("attach", "work"),
        ("cp", "work:/etc/hosts", "-"),
        ("debug", "work", "--image=busybox"),
        ("exec", "work", "--", "ls"),
        ("port-forward", "work", "0:80"),
    ):
        status, said = kubectl.tried(*command)
        assert status == 1 and simulated in said, said
