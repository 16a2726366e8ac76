"""The embedded server shows itself as part of Pumice, wherever its users look."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from pathlib import Path

import yaml

import pumice
from kubesim.kubelet.node_template import make_nodes, parse_capacity
from kubesim.server import RunningCluster, ServerSettings, running_cluster
from pumice.embedded.embedded_cluster import with_pumice
from tests.support.simulated import eventually

POD = {
    "metadata": {"name": "web", "annotations": {"pumice.dev/run-seconds": "1", "pumice.dev/fail": "3"}},
    "spec": {"nodeName": "node-000", "restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]},
}


def phase(running: RunningCluster) -> str:
    return running.api.list("pods", "default")[0]["status"]["phase"]


def test_embedded_server_shows_the_names_of_pumice(tmp_path: Path) -> None:
    made = make_nodes(1, parse_capacity("cpu=8,memory=16Gi"))
    settings = ServerSettings(data=tmp_path / "data", kubeconfig=tmp_path / "config", nodes=made, speed=100.0)

    async def story() -> None:
        async with running_cluster(with_pumice(settings)) as running:
            await running.api.create("pods", "default", POD)
            await eventually(lambda: phase(running) == "Failed")
            (pod,) = running.api.list("pods", "default")
            ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
            assert ended["exitCode"] == 3
            assert ended["containerID"].startswith("pumice://")
            info = running.api.list("nodes")[0]["status"]["nodeInfo"]
            assert info["containerRuntimeVersion"] == f"pumice://{pumice.__version__}"
            assert info["osImage"] == "Pumice simulated node"
            assert running.api.new_context().user == "system:pumice"
            with await asyncio.to_thread(urllib.request.urlopen, f"{running.server}/version") as answer:
                assert json.load(answer)["gitVersion"].endswith(f"+pumice.{pumice.__version__}")
            await running.api.modify(
                "nodes", "", "node-000", lambda node: node["metadata"].update(annotations={"pumice.dev/lost": "true"})
            )
            await eventually(lambda: len(running.kubelets.nodes) == 0)

    asyncio.run(story())
    config = yaml.safe_load((tmp_path / "config").read_text())
    assert config["current-context"] == "pumice"
    assert [entry["name"] for entry in config["clusters"]] == ["pumice"]
    assert (tmp_path / "data" / "pumice.db").is_file()
