"""Stored objects that cannot be used: the server starts, names them, and all others work."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubesim.kubelet.node_template import make_nodes, parse_capacity
from kubesim.server import RunningCluster, ServerSettings, running_cluster
from kubesim.stored_objects import CONDITION
from pumice.cli.fsck_command import fsck
from pumice.embedded.embedded_cluster import with_pumice
from tests.support.live_cluster import QUEUES, eventually, placed, scheduling, submit

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"

Story = Callable[[RunningCluster], Awaitable[None]]


def start(data: Path, story: Story, *, nodes: int = 0) -> None:
    """Run a server with controllers' finalizers on a data directory, for as long as a story takes."""

    async def run() -> None:
        wanted = make_nodes(nodes, parse_capacity("cpu=4,memory=8Gi"))
        settings = ServerSettings(data=data, kubeconfig=data / "kubeconfig", nodes=wanted)
        async with running_cluster(with_pumice(settings, controllers=True)) as running, asyncio.timeout(60):
            await story(running)

    asyncio.run(run())


def conditions(running: RunningCluster, namespace: str) -> dict[str, str]:
    found = running.api.read("namespaces", "", namespace)
    assert found is not None
    entries = found["status"].get("conditions", ())
    return {entry["status"]: entry["message"] for entry in entries if entry["type"] == CONDITION}


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x"}]}}


async def a_job_is_placed(running: RunningCluster, name: str) -> None:
    async with scheduling(running.server):
        await submit(running, name, 2)
        await eventually(lambda: len(placed(running)[name]) == 2)


def as_format_1(data: Path, changes: dict[str, Callable[[dict[str, Any]], None]]) -> None:
    """Make the data those of a version without checksums, with some objects changed by hand."""
    with closing(sqlite3.connect(data / "pumice.db")) as connection:
        for key, edit in changes.items():
            (found,) = connection.execute("SELECT max(revision) FROM log WHERE key = ?", (key,))
            ((value,),) = connection.execute("SELECT value FROM log WHERE revision = ?", found)
            document = json.loads(value)
            edit(document)
            changed = (json.dumps(document, separators=(",", ":")).encode(), *found)
            connection.execute("UPDATE log SET value = ? WHERE revision = ?", changed)
        connection.execute("ALTER TABLE log DROP COLUMN checksum")
        connection.execute("DELETE FROM meta WHERE name = 'checksums_after'")
        connection.execute("UPDATE meta SET value = 1 WHERE name = 'format'")
        connection.commit()


def test_queue_that_a_loosened_definition_allowed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def loosen(running: RunningCluster) -> None:
        def edit(definition: dict[str, Any]) -> None:
            for version in definition["spec"]["versions"]:
                spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
                spec["type"] = {"x-kubernetes-preserve-unknown-fields": True}

        await running.api.modify(DEFINITIONS, "", QUEUES, edit)

        def nonsense(queue: dict[str, Any]) -> None:
            queue["spec"]["type"] = 7
            queue["metadata"].pop("finalizers", None)

        await running.api.modify(QUEUES, "", "default", nonsense)

    start(tmp_path, loosen)

    async def look(running: RunningCluster) -> None:
        await eventually(lambda: "True" in conditions(running, "kube-system"))
        assert "queues.scheduling.volcano.sh/default" in conditions(running, "kube-system")["True"]
        found = running.api.read(QUEUES, "", "default")
        assert found is not None and found["spec"]["type"] == 7
        await running.api.create(QUEUES, "", {"metadata": {"name": "other"}, "spec": {"weight": 2}})

    with caplog.at_level(logging.ERROR):
        start(tmp_path, look)
    assert "queues.scheduling.volcano.sh/default: spec.type: Invalid value" in caplog.text
    answer = CliRunner().invoke(fsck, [str(tmp_path)])
    assert (
        answer.exit_code == 1 and "of queues.scheduling.volcano.sh/default: spec.type: Invalid value" in answer.output
    )

    async def mend(running: RunningCluster) -> None:
        def edit(queue: dict[str, Any]) -> None:
            del queue["spec"]["type"]

        await running.api.modify(QUEUES, "", "default", edit)
        await a_job_is_placed(running, "mended")

    start(tmp_path, mend, nodes=1)

    async def see(running: RunningCluster) -> None:
        await eventually(lambda: conditions(running, "kube-system") == {"False": "All objects can be used"})

    start(tmp_path, see)


def test_rows_made_by_hand(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def fill(running: RunningCluster) -> None:
        for name in ("good", "bad", "worse"):
            await running.api.create("pods", "default", pod(name))
        await running.api.create("configmaps", "default", {"metadata": {"name": "odd"}, "data": {"a": "b"}})
        for name in ("heavy", "listed", "fine"):
            await running.api.create(QUEUES, "", {"metadata": {"name": name}, "spec": {"weight": 1}})

    start(tmp_path, fill, nodes=2)
    as_format_1(
        tmp_path,
        {
            "pods/default/bad": lambda pod: pod.update(spec=[]),
            "pods/default/worse": lambda pod: pod.update(status={"containerStatuses": 5}),
            "configmaps/default/odd": lambda odd: odd["metadata"].update(labels=["x"]),
            "nodes/node-001": lambda node: node.update(status={"capacity": {"cpu": {"a": 1}}}),
            "queues.scheduling.volcano.sh/heavy": lambda queue: queue["spec"].update(weight="heavy"),
            "queues.scheduling.volcano.sh/listed": lambda queue: queue.update(spec=[]),
        },
    )
    answer = CliRunner().invoke(fsck, [str(tmp_path)])
    assert answer.exit_code == 1
    for name in ("pods/default/bad", "pods/default/worse", "configmaps/default/odd", "nodes/node-001"):
        assert f"of {name}: " in answer.output
    for name in ("heavy", "listed"):
        assert f"of queues.scheduling.volcano.sh/{name}: " in answer.output
    assert answer.output.splitlines()[-1] == f"6 findings in {tmp_path}"

    async def look(running: RunningCluster) -> None:
        api = running.api
        assert [found["metadata"]["name"] for found in api.list("pods")] == ["good"]
        await eventually(lambda: bool(conditions(running, "default")) and bool(conditions(running, "kube-system")))
        message = conditions(running, "default")["True"]
        assert "pods/default/bad" in message and "configmaps/default/odd" in message
        assert "queues.scheduling.volcano.sh/heavy" in conditions(running, "kube-system")["True"]
        await api.create("pods", "default", pod("bad"))
        await api.delete(QUEUES, "", "heavy")
        await a_job_is_placed(running, "afterwards")

    with caplog.at_level(logging.ERROR):
        start(tmp_path, look)
    assert "pods/default/bad" in caplog.text and "queues.scheduling.volcano.sh/heavy" in caplog.text
