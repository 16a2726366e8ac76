"""What is secret is in no log: neither in those of the processes, nor in the decision log."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import kubernetes
from tests.support.installed import until
from tests.support.kubectl import Namespace

pytestmark = [pytest.mark.long, pytest.mark.process]

MARK = "k9Zs3cretMarkQ7"
TOKEN = f"token-{MARK}"
BASE64_MARK = base64.b64encode(MARK.encode()).decode()
"""As the API has it in a Secret."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Namespace, Path]]:
    """``pumice up`` with all its processes, talkative: kubectl, and the folder with data and log."""
    kubeconfig, log = tmp_path / "kubeconfig", tmp_path / "up.log"
    command = [sys.executable, "-m", "pumice", "up", "--data", str(tmp_path / "data"), "--port", "0", "--verbose"]
    command += ["--kubeconfig", str(kubeconfig), "--token", TOKEN, "--nodes", "2"]
    with kubernetes.started(log, command):
        until(lambda: "are running" in log.read_text(), what="it is up", said=log)
        yield Namespace(kubeconfig, "default"), tmp_path


def job(name: str, **plugins: list[str]) -> dict[str, Any]:
    secret = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "marked", "key": "key"}}}
    container = {
        "name": "c",
        "image": "x",
        "env": [{"name": "PASSWORD", "value": f"env-{MARK}"}, secret],
        "args": [f"--password=args-{MARK}"],
        "command": ["run", f"command-{MARK}"],
        "resources": {"requests": {"cpu": "1"}},
    }
    about = {"annotations": {"pumice.dev/run-seconds": "0.5", "example.com/note": f"annotation-{MARK}"}}
    spec = {"containers": [container], "volumes": [{"name": "v", "secret": {"secretName": "marked"}}]}
    task = {"name": "t", "replicas": 2, "template": {"metadata": about, "spec": spec}}
    whole = {"minAvailable": 2, "schedulerName": "pumice", "queue": "default", "plugins": plugins, "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": whole}


def test_marked_secrets_are_in_no_log(cluster: tuple[Namespace, Path]) -> None:
    kubectl, folder = cluster
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "marked"}, "stringData": {"key": MARK}}
    kubectl("create", "-f", "-", given=secret)
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"key": f"map-{MARK}"}}
    kubectl("create", "-f", "-", given=settings)
    kubectl("create", "-f", "-", given=job("marked", ssh=[], svc=[], env=[]))
    phase = ("get", "jobs.batch.volcano.sh", "marked", "-o", "jsonpath={.status.state.phase}")
    until(lambda: kubectl(*phase) == "Completed", what="the job is over", said=folder / "up.log")
    # Refused, and in ways that are logged: a Secret that is no Secret, a job without a queue, a wrong token.
    wrong = {**secret, "metadata": {"name": "wrong"}, "data": {"key": f"not base64 {MARK}"}}
    assert kubectl.tried("create", "-f", "-", given=wrong)[0] == 1
    lost = job("lost")
    lost["spec"]["queue"] = "nowhere"
    assert kubectl.tried("create", "-f", "-", given=lost)[0] == 1
    assert kubectl.tried("get", "pods", f"--token=wrong-{MARK}")[0] == 1
    keys = json.loads(kubectl("get", "secrets", "-o", "json"))["items"]
    generated = [value for item in keys for value in item.get("data", {}).values() if len(value) > 100]
    assert generated, "the plugin ssh has made a key"
    kubectl("delete", "jobs.batch.volcano.sh", "marked")
    kubectl("delete", "secret", "marked")

    logs = [folder / "up.log", *(path for path in (folder / "data" / "decisions").rglob("*") if path.is_file())]
    assert any(b"default/marked-t-0" in path.read_bytes() for path in logs[1:]), "decisions are logged as text"
    for path in logs:
        content = path.read_bytes()
        for secret_text in (MARK, BASE64_MARK, TOKEN, "PRIVATE KEY", *(value[40:90] for value in generated)):
            assert secret_text.encode() not in content, f"{secret_text[:20]} is in {path.name}"
