"""``pumice up --default-scheduler``: manifests that know nothing of Pumice run as they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.api_servers import pumice_up
from tests.support.kubectl import Namespace


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
