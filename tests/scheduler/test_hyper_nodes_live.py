"""HyperNodes on a cluster: admitted by the API, followed by the scheduler, and gangs that stay inside one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubesim.api.status import ApiError
from kubesim.server import RunningCluster
from tests.support.live_cluster import GROUPS, eventually, live, placed, scheduling, submit

HYPER_NODES = "hypernodes.topology.volcano.sh"


def rack(name: str, pattern: str) -> dict[str, Any]:
    members = [{"type": "Node", "selector": {"regexMatch": {"pattern": pattern}}}]
    return {"metadata": {"name": name}, "spec": {"tier": 1, "members": members}}


def test_a_gang_stays_inside_a_hyper_node_of_a_live_cluster(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        nodes = sorted(node["metadata"]["name"] for node in running.api.list("nodes"))
        topology = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
        await submit(running, "near", 6)
        await running.api.modify(GROUPS, "default", "near", lambda found: found["spec"].update(topology))
        async with scheduling(running.server):
            with pytest.raises(ApiError, match="error parsing regexp"):
                await running.api.create(HYPER_NODES, "", rack("broken", "("))
            await running.api.create(HYPER_NODES, "", rack("one", f"^{nodes[0]}$"))
            with pytest.raises(ApiError, match="in HyperNode one of tier 1 already"):
                await running.api.create(HYPER_NODES, "", rack("all", "."))
            await running.api.create(HYPER_NODES, "", rack("two", f"^({nodes[1]}|{nodes[2]})$"))
            await eventually(lambda: len(placed(running)["near"]) == 6)
            assert set(placed(running)["near"]) == set(nodes[1:])

    live(tmp_path, check)
