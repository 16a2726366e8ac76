"""``pumice simulate --from-cluster``: nodes, queues and priority classes are those of a running cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import QUEUES
from tests.cli.command import pumice_command
from tests.simulate.samples import workload_file
from tests.support.api_servers import pumice_up

pytestmark = pytest.mark.process

# 40 cpus are asked for at once, and there are 16.
LINES = "".join(f"{name},0,{queue},ann,20,cpu=1,1,600,\n" for name, queue in (("a", "eng/prod"), ("b", "sci")))
WEIGHTS = {"eng": ("root", 3), "prod": ("eng", 1), "sci": ("root", 1)}


def queue(name: str) -> dict[str, Any]:
    parent, weight = WEIGHTS[name]
    spec = {"parent": parent, "weight": weight}
    return {"apiVersion": QUEUES.api_version, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def test_simulation_of_a_running_cluster_is_that_of_its_manifests(tmp_path: Path) -> None:
    path = workload_file(tmp_path, LINES)
    with pumice_up("--nodes", "2", "--node-capacity", "cpu=8,memory=16Gi,pods=100") as (_, kubeconfig):
        client = Client(read_kubeconfig(kubeconfig))
        for name in WEIGHTS:
            client.create(QUEUES.path(), queue(name))
        server = client.access.server
        client.close()
        live, again = (
            pumice_command("simulate", path, "--from-cluster", "-o", "json", KUBECONFIG=str(kubeconfig))
            for _ in range(2)
        )
    assert (live.returncode, live.stderr) == (0, "")
    assert live.stdout == again.stdout
    assert [one["name"] for one in json.loads(live.stdout)["inputs"]][1] == f"the cluster at {server}"
    manifests = tmp_path / "queues.json"
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*map(queue, WEIGHTS)]}))
    nodes = "2:cpu=8,memory=16Gi,pods=100"
    planned = pumice_command("simulate", path, "-f", manifests, "--nodes", nodes, "-o", "json")
    assert (planned.returncode, planned.stderr) == (0, "")
    ours, theirs = (json.loads(done.stdout)["policies"]["steer"]["queues"] for done in (live, planned))
    assert {"root/eng/prod", "root/sci"} <= ours.keys()
    for name in ("root", "root/eng", "root/eng/prod", "root/sci"):
        assert ours[name] == theirs[name]
    # Both ask for the same, so that only the weights make a difference.
    assert ours["root/eng/prod"] != ours["root/sci"]


def test_without_a_cluster_the_message_says_so(tmp_path: Path) -> None:
    path = workload_file(tmp_path, LINES)
    done = pumice_command(
        *("simulate", path, "--from-cluster", "--out", tmp_path / "out"), KUBECONFIG=str(tmp_path / "none")
    )
    assert done.returncode in (1, 2)
    assert done.stderr.startswith("error: ") and "Traceback" not in done.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["workload.csv"]
