"""A second agent, as on another machine: over TLS with the token of a kubeconfig, at an address of its own."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.kubernetes import free_ports
from pumice.kube.resources import NODES, PODS
from tests.support.agents import end_processes_in
from tests.support.killable import Program
from tests.support.machines import Machine

UNREACHABLE, RUNTIME = "node.kubernetes.io/unreachable", "pumice.dev/runtime"

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    (port,) = free_ports(1)
    found = Machine(tmp_path, "cpu=2,memory=8Gi", port=port)
    yield found
    found.end()


def ready(machine: Machine, name: str) -> bool:
    node = machine.client.get(NODES.path(name=name))
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


def conditions(machine: Machine, name: str) -> dict[str, str]:
    """The conditions and taints of a node: each with its status or effect."""
    node = machine.client.get(NODES.path(name=name))
    found = {entry["type"]: entry["status"] for entry in node["status"]["conditions"]}
    return found | {
        taint["key"]: taint["effect"] for taint in node["spec"].get("taints") or () if taint["effect"] == "NoExecute"
    }


def test_a_node_whose_agent_is_gone_is_not_ready_and_its_pods_go_on(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    words = ["--kubeconfig", str(machine.data / "kubeconfig"), "--name", "other", "--address", "127.0.0.2"]
    agent = Program(tmp_path / "other", "agent", *words, "--data", str(tmp_path / "other"), "--capacity", "cpu=2")
    agent.start()
    try:
        machine.until(lambda: ready(machine, "other"))
        chosen = ["-q", "default", "--node-selector", "kubernetes.io/hostname=other", "--"]
        script = f"while ! test -e {tmp_path}/go; do sleep 0.05; done; exit 6"
        assert machine.run("vsub", "far", *chosen, "sh", "-c", script).returncode == 0
        machine.until(
            lambda: machine.client.get(PODS.path("default", "far-main-0"))["status"].get("phase") == "Running"
        )
        agent.end(signal.SIGKILL)
        machine.until(lambda: UNREACHABLE in conditions(machine, "other"))
        found = conditions(machine, "other")
        assert (found["Ready"], found[UNREACHABLE]) == ("Unknown", "NoExecute")
        assert machine.run("vsub", "waits", *chosen, "true").returncode == 0
        (tmp_path / "go").touch()
        agent.start()
        machine.until(lambda: machine.phase("far") == "Failed" and machine.phase("waits") == "Completed")
        pod = machine.client.get(PODS.path("default", "far-main-0"))
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 6
        assert UNREACHABLE not in conditions(machine, "other")
        machine.clear()
    finally:
        agent.end(signal.SIGTERM)
        end_processes_in(tmp_path / "other")


def test_simulated_nodes_stand_beside_the_real_one(tmp_path: Path) -> None:
    """Scripts run on the real one; jobs with an image, for which nobody asked for processes, on any."""
    machine = Machine(tmp_path, "cpu=2,memory=8Gi", "--nodes", "3")
    try:
        machine.until(lambda: len(machine.client.list(NODES.path()).items) == 4)
        said = machine.run("vsub", "real", "-q", "default", "--wait", "--", "echo", "here")
        assert (said.returncode, said.stdout) == (0, "here\n"), said
        simulated = ["-q", "default", "-i", "busybox", "--run-seconds", "1", "--node-selector"]
        (node, *_) = [each for each in machine.client.list(NODES.path()).items if RUNTIME not in labels(each)]
        label = f"kubernetes.io/hostname={labels(node)['kubernetes.io/hostname']}"
        assert machine.run("vsub", "pretended", *simulated, label, "--", "no-such-program").returncode == 0
        machine.until(lambda: machine.phase("pretended") == "Completed")
        nodes = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in machine.pods()}
        assert nodes["pretended-main-0"] == node["metadata"]["name"] != nodes["real-main-0"]
    finally:
        machine.end()


def labels(node: dict[str, Any]) -> dict[str, str]:
    return dict(node["metadata"]["labels"])


def test_a_second_agent_runs_pods_and_outlives_the_api_server(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    words = ["--kubeconfig", str(machine.data / "kubeconfig"), "--name", "other", "--address", "127.0.0.2"]
    agent = Program(tmp_path / "other", "agent", *words, "--data", str(tmp_path / "other"), "--capacity", "cpu=2")
    agent.start()
    try:
        machine.until(lambda: ready(machine, "other"))
        chosen = ["-q", "default", "--node-selector", "kubernetes.io/hostname=other", "--"]
        script = f"echo on; while ! test -e {tmp_path}/go; do sleep 0.05; done; echo off; exit 6"
        assert machine.run("vsub", "far", *chosen, "sh", "-c", script).returncode == 0
        machine.until(
            lambda: machine.client.get(PODS.path("default", "far-main-0"))["status"].get("phase") == "Running"
        )
        machine.kill("up")  # at the port that it had: the kubeconfig of the other machine stays as it is
        (tmp_path / "go").touch()
        machine.until(lambda: machine.phase("far") == "Failed")
        pod = machine.client.get(PODS.path("default", "far-main-0"))
        assert pod["spec"]["nodeName"] == "other"
        assert pod["status"]["hostIP"] == "127.0.0.2"
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 6
        path = PODS.path("default", "far-main-0", "log")
        assert b"".join(machine.client.text_lines(path, {})) == b"on\noff\n"  # from the other agent, over TLS
        machine.clear()
    finally:
        agent.end(signal.SIGTERM)
        end_processes_in(tmp_path / "other")
