"""mpi-operator on ``pumice up``, built from its own module: neither of them knows of the other.

``make test-operators`` builds it outside of the checkout (``tools/operator_binaries.py``).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_servers import pumice_up
from tests.support.kubectl import Namespace
from tests.support.processes import started_process
from tools.operator_binaries import DEFINITION, PROGRAM

OPERATOR = Path(os.environ.get("PUMICE_OPERATORS", "/nonexistent"))

pytestmark = [
    pytest.mark.operators,
    pytest.mark.skipif(not (OPERATOR / PROGRAM).exists(), reason="`make test-operators` builds the operator"),
]


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespace]:
    """A cluster of three CPUs with the operator at work, which asks Volcano's API for gangs."""
    log = tmp_path_factory.mktemp("operator") / "log"
    options = ("--nodes", "1", "--node-capacity", "cpu=3,memory=8Gi", "--speed", "50")
    with pumice_up(*options, everything=True) as (_, kubeconfig), log.open("wb") as output:
        admin = Namespace(kubeconfig, "default")
        admin("create", "-f", str(OPERATOR / DEFINITION))
        admin("create", "namespace", "mpi-operator")  # where it elects its leader
        command = [OPERATOR / PROGRAM, "--kubeConfig", kubeconfig, "--gang-scheduling", "volcano"]
        with started_process(command, stdout=output, stderr=subprocess.STDOUT):
            yield admin


def mpi_job(name: str, workers: int) -> dict[str, Any]:
    """A launcher that runs for a minute, and workers that run until they are stopped; one CPU each."""
    container = {"name": "main", "image": "mpi-pi", "resources": {"requests": {"cpu": "1"}}}
    worker = {"spec": {"schedulerName": "volcano", "containers": [container]}}
    launcher = {"metadata": {"annotations": {"pumice.dev/run-seconds": "60"}}, **worker}
    replicas = {
        "Launcher": {"replicas": 1, "template": launcher},
        "Worker": {"replicas": workers, "template": worker},
    }
    spec = {"slotsPerWorker": 1, "runPolicy": {"cleanPodPolicy": "Running"}, "mpiReplicaSpecs": replicas}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": name}, "spec": spec}


def test_mpi_job_runs_to_its_end(kubectl: Namespace) -> None:
    kubectl("create", "-f", "-", given=mpi_job("pi", workers=2))
    kubectl("wait", "--for=condition=Succeeded", "mpijob/pi", "--timeout=120s")
    assert kubectl.object("service", "pi")["spec"]["clusterIP"] == "None"
    kubectl("wait", "--for=delete", "pod", "-l", "training.kubeflow.org/job-role=worker", "--timeout=60s")
    assert kubectl("get", "job", "pi-launcher", "-o", "jsonpath={.status.succeeded}") == "1"


def test_gang_that_does_not_fit_waits_as_a_whole(kubectl: Namespace) -> None:
    kubectl("create", "-f", "-", given=mpi_job("large", workers=3))
    waits = 'jsonpath={.status.conditions[?(@.type=="Unschedulable")].status}=True'
    kubectl("wait", "--for=create", "podgroup/large", "--timeout=120s")  # the operator makes it
    kubectl("wait", f"--for={waits}", "podgroup/large", "--timeout=120s")
    placed = kubectl("get", "pods", "-o", "jsonpath={.items[?(@.spec.nodeName)].metadata.name}").split()
    assert [name for name in placed if name.startswith("large")] == []
    kubectl("delete", "mpijob", "large")
