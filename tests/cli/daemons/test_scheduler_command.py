"""``pumice scheduler``, as a process of its own beside ``pumice up``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.cli.command import pumice_command
from tests.support.api_servers import pumice_up
from tests.support.processes import started_process

PUMICE = (sys.executable, "-m", "pumice")
WITHOUT_METRICS = ("--metrics-address", "")

GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "g"},
    "spec": {"minMember": 2, "queue": "default"},
}


def send(url: str, body: dict[str, Any] | None = None) -> Any:
    content = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def pod(name: str) -> dict[str, Any]:
    about = {"name": name, "annotations": {"scheduling.k8s.io/group-name": "g"}}
    containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]
    return {"kind": "Pod", "metadata": about, "spec": {"schedulerName": "pumice", "containers": containers}}


def test_scheduler_places_a_gang_and_stops_on_signal() -> None:
    with pumice_up("--nodes", "2") as (endpoint, kubeconfig):
        command = [*PUMICE, "scheduler", "--kubeconfig", str(kubeconfig), *WITHOUT_METRICS]
        with started_process(command, stderr=subprocess.PIPE, text=True) as scheduler:
            send(f"{endpoint.url}/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups", GROUP)
            pods = f"{endpoint.url}/api/v1/namespaces/default/pods"
            for name in ("a", "b"):
                send(pods, pod(name))
            while not all(found["spec"].get("nodeName") for found in send(pods)["items"]):
                assert scheduler.poll() is None
                time.sleep(0.05)
            os.kill(scheduler.pid, signal.SIGTERM)
            _, said = scheduler.communicate(timeout=20)
            assert scheduler.returncode == 0
            assert said == f"scheduling {endpoint.url}\n"


def test_controllers_create_a_podgroup_and_stop_on_signal() -> None:
    with pumice_up("--nodes", "1") as (endpoint, kubeconfig):
        command = [*PUMICE, "controllers", "--kubeconfig", str(kubeconfig), *WITHOUT_METRICS]
        with started_process(command, stderr=subprocess.PIPE, text=True) as running:
            alone = pod("alone")
            del alone["metadata"]["annotations"]
            send(f"{endpoint.url}/api/v1/namespaces/default/pods", alone)
            groups = f"{endpoint.url}/apis/scheduling.volcano.sh/v1beta1/podgroups"
            while not send(groups)["items"]:
                assert running.poll() is None
                time.sleep(0.05)
            os.kill(running.pid, signal.SIGTERM)
            _, said = running.communicate(timeout=20)
            assert (running.returncode, said) == (0, f"running controllers for {endpoint.url}\n")


def test_invalid_options_are_named(tmp_path: Path) -> None:
    bad = tmp_path / "config.yaml"
    bad.write_text("actions: dance\n")
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text("nonsense: true\n")
    done = pumice_command("scheduler", "--kubeconfig", kubeconfig)
    assert done.returncode == 2 and str(kubeconfig) in done.stderr
    kubeconfig.write_text(
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
    )
    done = pumice_command("scheduler", "--kubeconfig", kubeconfig, "--config", bad)
    assert done.returncode == 2 and str(bad) in done.stderr and "dance" in done.stderr


def test_health_is_served_at_metrics_address() -> None:
    with pumice_up("--nodes", "1") as (_, kubeconfig):
        for worker, shows in (("scheduler", "volcano_queue_weight"), ("controllers", "pumice_informer_lists_total")):
            command = [*PUMICE, worker, "--kubeconfig", str(kubeconfig), "--metrics-address", "127.0.0.1:0"]
            with started_process(command, stderr=subprocess.PIPE, text=True) as running:
                assert running.stderr is not None
                said = running.stderr.readline()
                assert said.startswith("metrics at http://127.0.0.1:")
                url = said.split()[-1].removesuffix("/metrics")
                while ask(f"{url}/readyz")[0] != 200:
                    assert running.poll() is None
                    time.sleep(0.05)
                assert ask(f"{url}/healthz") == (200, "ok\n")
                assert shows in ask(f"{url}/metrics")[1]
                taken = url.removeprefix("http://")
                done = pumice_command(worker, "--kubeconfig", kubeconfig, "--metrics-address", taken)
                assert done.returncode == 1 and f"--metrics-address {taken}: " in done.stderr
                assert "Traceback" not in done.stderr
            assert running.returncode == 0


def ask(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_an_address_that_is_none_is_named() -> None:
    done = pumice_command("scheduler", "--metrics-address", "8080")
    assert (
        done.returncode == 2
        and "Invalid value: '8080': must be an address to listen on, such as 127.0.0.1:8080" in done.stderr
    )
