"""kubectl as a function, and objects to try it with."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.processes import run_process

KUBECTL = shutil.which("kubectl")

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web", "tier": "front"}},
    "spec": {"containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}]},
}
QUEUE: dict[str, Any] = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "research"},
    "spec": {"weight": 3},
}


def run(
    kubeconfig: Path, *arguments: str, given: str = "", environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """The exit status of a command, and what it said on both streams."""
    done = run_process(
        [
            KUBECTL or "kubectl",
            "--kubeconfig",
            str(kubeconfig),
            f"--cache-dir={kubeconfig.parent / 'cache'}",
            *arguments,
        ],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    return done.returncode, done.stdout + done.stderr


class Namespace:
    """kubectl in one namespace."""

    def __init__(self, kubeconfig: Path, name: str) -> None:
        self.kubeconfig = kubeconfig
        self.name = name

    def __call__(self, *arguments: str, given: Any = None, **environment: str) -> str:
        """What a command that succeeds says."""
        status, said = self.tried(*arguments, given=given, **environment)
        assert status == 0, f"kubectl {' '.join(arguments)} ended with {status}:\n{said}"
        return said

    def tried(self, *arguments: str, given: Any = None, **environment: str) -> tuple[int, str]:
        """The exit status, and what it said."""
        text = "" if given is None else json.dumps(given)
        return run(self.kubeconfig, "-n", self.name, *arguments, given=text, environment=environment)

    def object(self, *arguments: str) -> Any:
        """An object or list, decoded."""
        return json.loads(self("get", *arguments, "-o", "json"))

    def until(self, seen: Callable[[], bool], seconds: float = 60) -> None:
        """Wait for something that controllers or simulated nodes do."""
        deadline = time.monotonic() + seconds
        while not seen():
            assert time.monotonic() < deadline, f"not seen within {seconds} s"
            time.sleep(0.1)


def pod(name: str, **changes: Any) -> dict[str, Any]:
    """A pod of that name; ``labels``, ``annotations`` and fields of the spec may be given."""
    metadata = {"name": name, "labels": changes.pop("labels", {"app": "web"})}
    if "annotations" in changes:
        metadata["annotations"] = changes.pop("annotations")
    return {**POD, "metadata": metadata, "spec": {**POD["spec"], **changes}}


def queue(name: str, **spec: Any) -> dict[str, Any]:
    """A queue."""
    return {**QUEUE, "metadata": {"name": name}, "spec": spec}


def vcjob(name: str, queue: str) -> dict[str, Any]:
    """A job of one pod, with a plugin that we have not."""
    template = {"spec": {"containers": [{"name": "main", "image": "work"}]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"queue": queue, "plugins": {"horovod": []}, "tasks": [{"replicas": 1, "template": template}]},
    }


def rows(text: str) -> list[list[str]]:
    """A table as words, without its header."""
    return [line.split() for line in text.splitlines()[1:]]


def nodes(kubectl: Namespace) -> list[str]:
    return kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").split()


def bind(kubectl: Namespace, name: str, node: str) -> None:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"kind": "Node", "name": node},
    }
    kubectl("create", "--raw", f"/api/v1/namespaces/{kubectl.name}/pods/{name}/binding", "-f", "-", given=binding)
