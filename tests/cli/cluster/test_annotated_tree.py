"""A tree written in hierarchy annotations, as kubectl and the commands show it: what counts is what is shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cluster.calls import Caller
from tests.support.api_servers import pumice_up
from tests.support.kubectl import KUBECTL, Namespace

pytestmark = pytest.mark.skipif(not KUBECTL, reason="no kubectl here")


def annotated(name: str, path: str, weights: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {
            "name": name,
            "annotations": {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights},
        },
        "spec": {"weight": 1},
    }


@pytest.fixture(scope="module")
def up() -> Iterator[Path]:
    """16 cpu; queues prod and dev below root/eng, jobs in two namespaces of prod."""
    options = ("--nodes", "2", "--node-capacity", "cpu=8,memory=32Gi")
    with pumice_up(*options, everything=True) as (_, kubeconfig):
        yield kubeconfig


@pytest.fixture
def call(up: Path, monkeypatch: pytest.MonkeyPatch) -> Caller:
    return Caller(up, monkeypatch)


def weights(kubectl: Namespace) -> dict[str, str]:
    """The column Weight of kubectl."""
    heading, *lines = kubectl("get", "queues").splitlines()
    at = heading.index("WEIGHT")  # PARENT is empty where annotations say where a queue stands
    return {line.split()[0]: line[at:].split(maxsplit=1)[0] for line in lines if len(line) > at}


def test_effective_weights_are_shown(up: Path, call: Caller) -> None:
    kubectl = Namespace(up, "default")
    for name, numbers in (("prod", "1/2/8"), ("dev", "1/2/0.5")):
        kubectl("apply", "-f", "-", given=annotated(name, f"root/eng/{name}", numbers))
    kubectl("create", "namespace", "team-b")
    call.said("vsub one -q prod -r 4 -R cpu=1")
    call.said("vsub two -q prod -n team-b -r 2 -R cpu=1")
    kubectl.until(lambda: weights(kubectl) == {"root": "1", "default": "1", "prod": "8", "dev": "0.5"})
    kubectl.until(lambda: "25%" in call.said("vcctl queue list -o wide"))  # 4 of 16 for one
    kubectl.until(lambda: "default=25%,team-b=12%" in call.said("vqueues -o wide"))

    eng = next(line.split() for line in call.said("vqueues -o wide").splitlines() if "eng" in line)
    # 6 of 16 cpu; its weight is that of the annotations
    assert (eng[:2], eng[7:9]) == (["|--eng", "2"], ["38%", "cpu=6"])
    top = [line.split() for line in call.said("pumice top --once -o wide").splitlines()]
    names = [next(word.split("--")[-1] for word in line if word.strip("|")) for line in top[2:-1]]
    assert names == ["root", "default", "eng", "dev", "prod", "ns/default", "ns/team-b"]

    assert call.said("vcctl queue operate prod --weight 5") == "queue.scheduling.volcano.sh/prod has weight 5\n"
    kubectl.until(lambda: weights(kubectl)["prod"] == "5")
    written = kubectl.object("queue", "prod")["metadata"]["annotations"]["volcano.sh/hierarchy-weights"]
    assert written == "1/2/5"
    assert call.said("vcctl queue get prod").splitlines()[1].split()[:3] == ["prod", "eng", "5"]


def test_patched_status_is_restored(up: Path, call: Caller) -> None:
    kubectl = Namespace(up, "default")
    call.said("vsub three -q default -r 3 -R cpu=100m")
    figures = ("queue", "default", "-o", "jsonpath={.status.allocated.pods}/{.status.running}/{.status.weight}")
    kubectl.until(lambda: kubectl("get", *figures) == "3/1/1")
    patch = '{"status": {"allocated": {"pods": "99"}, "running": 7, "weight": 5}}'
    assert "patched" in kubectl("patch", "queue", "default", "--subresource=status", "--type=merge", "-p", patch)
    kubectl.until(lambda: kubectl("get", *figures) == "3/1/1")
