"""Pumice on real nodes, and Volcano Jobs whose containers do something.

Containers run Python, which the image of Pumice has. They write the times at which they started and ended into a folder
that every container and the test see, so that a test can compare them.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kubebase.quantity import parse
from pumice.kube.client.api_errors import ApiError
from tests.node.cluster import SLOT, NodeCluster
from tests.support.kubectl import Namespace
from tests.support.processes import run_process
from tools import node_binaries

ROOT = Path(__file__).parent.parent.parent
CHECKOUT_IMAGE = "test.invalid/pumice:checkout"
HOME = "pumice-system"
COMPONENTS = ("scheduler", "controllers", "webhooks", "ui")
PREVIOUS_COMPONENTS = ("scheduler", "controllers", "webhooks")
"""Those of the previous release, which has no web page."""
WORK = "work"
"""The namespace of the tests' jobs."""
CORE, APPS, BATCH = "/api/v1", "/apis/apps/v1", "/apis/batch.volcano.sh/v1alpha1"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
LEASES = "/apis/coordination.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Object = dict[str, Any]

NOTES = """
import os, signal, sys, time
def note(word):
    with open(f"/notes/{os.environ['HOSTNAME']}.{word}", "a") as file:
        file.write(f"{time.time()}\\n")
note("started")
"""
ENDLESS = f"""{NOTES}
def end(*_):
    note("ended")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("works", flush=True)
while True:
    signal.pause()
"""
"""Works until SIGTERM."""
STUBBORN = f"""{NOTES}
signal.signal(signal.SIGTERM, lambda *_: note("asked"))
while True:
    note("alive")
    time.sleep(0.1)
"""
"""Does not end at SIGTERM."""


def saving(seconds: float) -> str:
    """A program that takes some seconds to save its work after SIGTERM."""
    return ENDLESS.replace('    note("ended")', f'    time.sleep({seconds})\n    note("ended")')


def ending(status: int) -> str:
    """A program that ends at once."""
    return f"{NOTES}\nsys.exit({status})"


class Installation:
    """Pumice in a cluster of real nodes."""

    def __init__(self, cluster: NodeCluster) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.kubectl = Namespace(cluster.kubeconfig, WORK)
        self.home = Namespace(cluster.kubeconfig, HOME)
        self._notes = cluster.folder / "notes"
        self._notes.mkdir(exist_ok=True)
        self._notes.chmod(0o777)

    def until(self, holds: Callable[[], Any], what: str, seconds: float = 60) -> Any:
        """Wait until a function gives something true, and return that; otherwise fail with a picture of the cluster."""
        try:
            return self.cluster.until(holds, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.picture()}") from None

    def command(self, *arguments: str, source: Path = ROOT) -> str:
        """What a ``pumice`` command of a source tree says."""
        done = run_process(
            [sys.executable, "-m", "pumice", *arguments, "--kubeconfig", str(self.cluster.kubeconfig)],
            capture_output=True,
            text=True,
            timeout=200,
            env={**os.environ, "PYTHONPATH": str(source / "src")},
        )
        assert done.returncode == 0, f"pumice {' '.join(arguments)}:\n{done.stdout}{done.stderr}\n{self.picture()}"
        return str(done.stdout)

    def picture(self) -> str:
        """What the cluster does, for people who read the report of a failure."""
        recent = ("--all-pods", "--tail=8")
        logs = [self.home.tried("logs", f"deployment/pumice-{name}", *recent)[1] for name in COMPONENTS]
        tables = [
            self.home.tried("get", "nodes,pods,vcjob,podgroups", "--all-namespaces", "-o", "wide")[1],
            self.kubectl.tried("get", "events", "--sort-by=.lastTimestamp")[1][-3000:],
        ]
        return "\n".join([*tables, *logs])

    def uninstall(self) -> None:
        """Uninstall Pumice, and wait until its pods are gone."""
        self.command("uninstall")
        pods = f"{CORE}/namespaces/{HOME}/pods"
        self.until(lambda: not self.client.list(pods).items, "all pods of Pumice are gone")

    def remove(self) -> None:
        """Uninstall Pumice, if it is installed, and delete its definitions, all objects and the namespaces."""
        if self.cluster.ended:
            return
        self.uninstall()  # a namespace that still has pods when it is deleted waits longer than they need
        for group in ("bus", "batch", "scheduling"):
            for found in self.client.list(DEFINITIONS).items:
                if found["spec"]["group"] == f"{group}.volcano.sh":
                    self.client.delete(f"{DEFINITIONS}/{found['metadata']['name']}")
        for namespace in (WORK, HOME):
            with contextlib.suppress(ApiError):  # gone already
                self.client.delete(f"{CORE}/namespaces/{namespace}")
        paths = [f"{CORE}/namespaces/{WORK}", f"{CORE}/namespaces/{HOME}", f"{DEFINITIONS}/jobs.batch.volcano.sh"]
        self.until(lambda: all(map(self.gone, paths)), "nothing of Pumice is left")

    def images(self) -> dict[str, set[str]]:
        """The images that the pods of each component run, but for those that were told to end."""
        found: dict[str, set[str]] = {}
        for pod in self.client.list(f"{CORE}/namespaces/{HOME}/pods").items:
            if "deletionTimestamp" in pod["metadata"]:
                continue
            component = pod["metadata"]["labels"]["app.kubernetes.io/component"]
            found.setdefault(component, set()).add(pod["spec"]["containers"][0]["image"])
        return found

    def leader(self, component: str) -> Object | None:
        """The pod that leads its component, if one does."""
        lease = self._found(f"{LEASES}/namespaces/{HOME}/leases/pumice-{component}")
        holder = str(lease["spec"].get("holderIdentity") or "") if lease else ""
        pods = self.client.list(f"{CORE}/namespaces/{HOME}/pods").items
        return next((pod for pod in pods if holder.startswith(pod["metadata"]["name"])), None)

    def kill_container(self, pod: Object) -> None:
        """Let the container of a pod end without a word, as a segmentation fault would."""
        found = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        node = self.cluster.nodes[pod["spec"]["nodeName"]]
        node.run(node_binaries.folder() / "ctr", "--namespace=k8s.io", "tasks", "kill", "--signal=SIGKILL", found)

    # ---- jobs -------------------------------------------------------------------------------------------------------

    def create_namespace(self) -> None:
        """Make the namespace of the jobs, which has its service account a moment later."""
        with contextlib.suppress(ApiError):  # it is there
            self.client.create(f"{CORE}/namespaces", {"metadata": {"name": WORK}})
        self.until(lambda: self._found(f"{CORE}/namespaces/{WORK}/serviceaccounts/default"), "a service account")

    def create_queue(self, name: str, **spec: Any) -> None:
        document = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        self.client.create(QUEUES, {**document, "spec": spec})

    def submit(
        self,
        name: str,
        program: str,
        replicas: int = 1,
        *,
        minimum: int | None = None,
        queue: str = "default",
        grace: int = 2,
        resources: Object | None = None,
        pod: Object | None = None,
        **spec: Any,
    ) -> None:
        """Make a job; ``minimum`` is all of its pods unless given, ``pod`` are more fields of their specs.

        ``resources`` are those of each container: one slot unless given.
        """
        container = {
            "name": "main",
            "image": CHECKOUT_IMAGE,
            "command": ["python", "-c", program],
            "resources": resources or {"limits": {"memory": "64Mi", SLOT: "1"}, "requests": {"cpu": "10m"}},
            "volumeMounts": [{"name": "notes", "mountPath": "/notes"}],
        }
        template = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace,
            "containers": [container],
            "volumes": [{"name": "notes", "hostPath": {"path": str(self._notes), "type": "Directory"}}],
            **(pod or {}),
        }
        task = {"name": "task", "replicas": replicas, "template": {"spec": template}}
        minimum = replicas if minimum is None else minimum
        document = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}}
        wanted = {"queue": queue, "minAvailable": minimum, "schedulerName": "pumice", "tasks": [task], **spec}
        self.client.create(f"{BATCH}/namespaces/{WORK}/jobs", {**document, "spec": wanted})

    def free_cpu(self, node: str) -> int:
        """How many thousandths of a CPU no pod on a node has requested."""
        pods = [pod for pod in self.client.list(f"{CORE}/pods").items if pod["spec"].get("nodeName") == node]
        containers = [container for pod in pods for container in pod["spec"]["containers"]]
        requests = [container.get("resources", {}).get("requests", {}).get("cpu", 0) for container in containers]
        capacity = self.client.get(f"{CORE}/nodes/{node}")["status"]["allocatable"]["cpu"]
        return parse(capacity).milli() - sum(parse(request).milli() for request in requests)

    def delete(self, name: str) -> None:
        self.client.delete(f"{BATCH}/namespaces/{WORK}/jobs/{name}")

    def status(self, name: str) -> Object:
        """The status of a job."""
        return dict(self.client.get(f"{BATCH}/namespaces/{WORK}/jobs/{name}").get("status") or {})

    def await_phase(self, name: str, phase: str, seconds: float = 60) -> Object:
        """Wait until a job is in a phase; returns its status."""

        def reached() -> Object | None:
            status = self.status(name)
            return status if status.get("state", {}).get("phase") == phase else None

        return dict(self.until(reached, f"job {name} is {phase}", seconds))

    def pods(self, job: str) -> list[Object]:
        query = {"labelSelector": f"volcano.sh/job-name={job}"}
        return self.client.list(f"{CORE}/namespaces/{WORK}/pods", query).items

    def running(self, job: str) -> list[Object]:
        """The pods of a job that run and were not told to end."""
        return [
            pod
            for pod in self.pods(job)
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]

    def await_running(self, job: str, count: int, seconds: float = 60) -> list[Object]:
        """Wait until so many pods of a job run, and no more; returns them."""
        what = f"{count} pods of {job} run"
        return list(self.until(lambda: len(found := self.running(job)) == count and (found or [{}]), what, seconds))

    def remain_pending(self, job: str, seconds: float = 3) -> None:
        """Check for some seconds that no pod of a job gets a node."""

        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            placed = [pod for pod in self.pods(job) if pod["spec"].get("nodeName")]
            assert not placed, f"{names(placed)} of {job} have a node"
            time.sleep(0.2)

    def await_notes(self, pod: str, word: str) -> list[float]:
        """Wait until a container of a pod has written down a word: it may run before its program does."""
        return list(self.until(lambda: self.notes(pod, word), f"a container of {pod} noted that it {word}"))

    def notes(self, pod: str, word: str) -> list[float]:
        """The times that the containers of a pod wrote down with a word."""
        path = self._notes / f"{pod}.{word}"
        return [float(line) for line in path.read_text().split()] if path.exists() else []

    def refused(self) -> list[str]:
        """What kubelets said of pods that they did not let in."""
        events = self.client.list(f"{CORE}/namespaces/{WORK}/events").items
        return [each["message"] for each in events if each["reason"].startswith(("OutOf", "Unexpected"))]

    def clear(self, queues: Sequence[str] = ()) -> None:
        """Delete all jobs, wait until their containers are gone, and delete what they wrote and their queues."""
        if self.cluster.ended:
            return
        jobs = self.client.list(f"{BATCH}/namespaces/{WORK}/jobs").items
        for job in jobs:
            with contextlib.suppress(ApiError):
                self.delete(job["metadata"]["name"])
        self.until(lambda: not self.client.list(f"{CORE}/namespaces/{WORK}/pods").items, "all pods are gone")
        for queue in queues:
            self.client.delete(f"{QUEUES}/{queue}")
            self.until(partial(self.gone, f"{QUEUES}/{queue}"), f"queue {queue} is gone")
        for note in self._notes.iterdir():
            note.unlink()

    def gone(self, path: str) -> bool:
        """Whether an object is gone."""
        return self._found(path) is None

    def _found(self, path: str) -> Object | None:
        try:
            return self.client.get(path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise


def names(pods: Sequence[Object]) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in pods)


def uids(pods: Sequence[Object]) -> list[str]:
    return sorted(pod["metadata"]["uid"] for pod in pods)


def nodes(pods: Sequence[Object]) -> list[str]:
    return sorted(pod["spec"]["nodeName"] for pod in pods)
