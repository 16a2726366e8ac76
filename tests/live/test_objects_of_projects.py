"""What KubeRay, Spark, Kubeflow, Argo and Airflow create for Volcano runs here, in the queue that it names.

The manifests are written as the code of these projects writes them. The projects themselves do not run;
``tests/operators`` runs one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.api_servers import pumice_up
from tests.support.kubectl import KUBECTL, Namespace, pod, queue

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl is not there")

MANIFESTS = Path(__file__).parent / "manifests" / "projects"
RUNNING = {  # pods, and the podgroups that they are in
    "airflow": (2, 2),
    "argo": (2, 1),
    "batch-job": (2, 1),
    "deployment": (3, 1),
    "kuberay": (3, 1),
    "spark": (2, 1),
    "spark-operator": (2, 1),
    "statefulset": (2, 1),
    "trainer": (2, 1),
    "training-operator": (3, 1),
}


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with pumice_up("--nodes", "8", everything=True) as (_, written):
        Namespace(written, "default")("create", "-f", "-", given=queue("team", weight=1, capability={"cpu": "64"}))
        yield written


@pytest.fixture
def kubectl(kubeconfig: Path, request: pytest.FixtureRequest) -> Namespace:
    name = getattr(request.node, "callspec", None)
    called = name.params["project"] if name is not None else "halves"
    Namespace(kubeconfig, "default")("create", "namespace", called)
    return Namespace(kubeconfig, called)


def phases(kubectl: Namespace, kind: str) -> list[str]:
    return [one.get("status", {}).get("phase", "") for one in kubectl.object(kind)["items"]]


def test_every_manifest_has_an_expectation() -> None:
    assert {path.stem for path in MANIFESTS.iterdir()} == RUNNING.keys()


@pytest.mark.parametrize("project", RUNNING)
def test_its_pods_run_in_its_queue(kubectl: Namespace, project: str) -> None:
    said = kubectl("create", "-f", str(MANIFESTS / f"{project}.yaml"))
    assert "Warning" not in said
    pods, groups = RUNNING[project]
    kubectl.until(lambda: phases(kubectl, "pods") == ["Running"] * pods)
    kubectl.until(lambda: phases(kubectl, "podgroups") == ["Running"] * groups)
    assert {group["spec"]["queue"] for group in kubectl.object("podgroups")["items"]} == {"team"}


def test_a_ray_cluster_starts_whole(kubectl: Namespace) -> None:
    *first, last = yaml.safe_load_all((MANIFESTS / "kuberay.yaml").read_text())
    for one in first:
        kubectl("create", "-f", "-", given=one)
    kubectl("create", "-f", "-", given=pod("other", schedulerName="volcano"))  # it starts, and the two pods do not
    kubectl.until(lambda: kubectl.object("pod", "other")["status"]["phase"] == "Running")

    def nodes() -> dict[str, Any]:
        found = kubectl.object("pods", "-l", "ray.io/cluster=tune")["items"]
        return {one["metadata"]["name"]: one["spec"].get("nodeName") for one in found}

    assert nodes() == {"tune-head": None, "tune-small-0": None}
    kubectl("create", "-f", "-", given=last)
    kubectl.until(lambda: len(nodes()) == 3 and all(nodes().values()))
