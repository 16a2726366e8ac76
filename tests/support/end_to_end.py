"""A whole cluster for a test, on either server: manifests and commands in, pods that run out.

Everything is a process, as a user would start it: the API with nodes as large as the test says, the controllers, and
the scheduler with the configuration that the test needs. The servers are the embedded one, and a real Kubernetes API
on which Pumice is installed, with its webhooks.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Protocol

from benchmarks.kubernetes import started
from pumice.audit.certificate import audit
from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import PODS
from tests.support.api_servers import pumice_up
from tests.support.kubectl import Namespace, run
from tests.support.processes import run_process

Object = dict[str, Any]
Counts = Mapping[str, int]

VOLCANO = "scheduling.volcano.sh/v1beta1"
SPEED = 100.0
"""Pods that are stopped use up their grace in no time; those that say so run for a hundredth of it."""
BY_SHARE = """\
actions: "enqueue, allocate, backfill, reclaim, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf, enableHierarchy: true}, {name: predicates}, {name: nodeorder}]
configurations:
- name: reclaim
  arguments: {reclaim.patience: 0, reclaim.minRuntime: 0}
"""
BY_QUANTITY = BY_SHARE.replace("{name: drf, enableHierarchy: true}", "{name: capacity, enableHierarchy: true}")
LIMITED = BY_SHARE.replace(
    "enableHierarchy: true}, ", "enableHierarchy: true}, {name: capacity, enableHierarchy: true}, ", 1
)
PATIENCE = 60.0
STILL = 1.5
"""Seconds for which counts must stay as they are to be the result."""


class Server(Protocol):
    """What a cluster is made of."""

    def up(self, count: int, capacity: str, speed: float) -> AbstractContextManager[Path]:
        """So many nodes and the controllers, for the time of a ``with`` block: the administrator's kubeconfig."""

    @property
    def scheduler(self) -> Path | None:
        """The kubeconfig of the scheduler, if it has one of its own."""


class Embedded:
    """``pumice up``, a fresh one each time."""

    scheduler = None

    @contextlib.contextmanager
    def up(self, count: int, capacity: str, speed: float) -> Iterator[Path]:
        options = ("--nodes", str(count), "--node-capacity", capacity, "--no-scheduler", "--speed", str(speed))
        with pumice_up(*options, everything=True) as (_, kubeconfig):
            yield kubeconfig


class World:
    """A cluster and its users."""

    def __init__(self, server: Server, place: Path, stack: ExitStack) -> None:
        self._server = server
        self._place = place
        self._stack = stack
        self._client: Client
        self._decisions = place / "decisions"
        self.kubectl: Namespace

    def up(self, nodes: int = 1, **resources: object) -> World:
        """Nodes that have this each, and the controllers."""
        capacity = ",".join(f"{name}={amount}" for name, amount in {"memory": "1Ti", "pods": 1000, **resources}.items())
        written = self._stack.enter_context(self._server.up(nodes, capacity, SPEED))
        self.kubectl = Namespace(written, "default")
        self._client = Client(read_kubeconfig(written))
        self._stack.callback(self._client.close)
        return self

    def scheduler(self, config: str = BY_SHARE) -> None:
        """Start scheduling."""
        (self._place / "scheduler.yaml").write_text(config)
        kubeconfig = self._server.scheduler or self.kubectl.kubeconfig
        command = [sys.executable, "-m", "pumice", "scheduler", "--kubeconfig", str(kubeconfig)]
        command += ["--config", str(self._place / "scheduler.yaml"), "--metrics-address", ""]
        command += ["--decision-log", str(self._decisions)]
        self._stack.enter_context(started(self._place / "scheduler.log", command))

    def audit(self) -> None:
        """By the decision log of the scheduler, if one has run, everything that it did was right."""
        if self._decisions.exists():
            found = audit(self._decisions)
            assert found.clean, "\n".join(map(str, found.findings.kept[:5]))

    # ---- what people do ----------------------------------------------------------------------------------

    def apply(self, *objects: Object) -> None:
        """With kubectl, all at once."""
        everything = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        status, said = run(self.kubectl.kubeconfig, "apply", "-f", "-", given=json.dumps(everything))
        assert status == 0, said

    def vsub(self, name: str, *options: str, namespace: str = "default") -> None:
        """Submit a job."""
        self._call("vsub", name, "-n", namespace, *options)

    def vcctl(self, *words: str) -> str:
        """Do something else as users of Volcano do it."""
        return self._call("vcctl", *words)

    def _call(self, program: str, *words: str) -> str:
        code = f"from pumice.cli.cluster.volcano_programs import run_{program}; run_{program}()"
        command = [sys.executable, "-c", code, *words, "--kubeconfig", str(self.kubectl.kubeconfig)]
        done = run_process(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, f"{program} {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    # ---- what they see -----------------------------------------------------------------------------------

    def pods(self) -> list[Object]:
        """All pods."""
        return self._client.list(PODS.path()).items

    def running(self, by: Callable[[Object], str]) -> Counter[str]:
        """How many pods have a node and are not over, by something of theirs."""
        return Counter(by(pod) for pod in self.pods() if _holds(pod))

    def settles(self, expected: Counts, by: Callable[[Object], str]) -> None:
        """Sooner or later these run, and then it stays so."""
        wanted = +Counter(expected)
        end, since = time.monotonic() + PATIENCE, None
        while since is None or time.monotonic() < since + STILL:
            found = self.running(by)
            since = (since or time.monotonic()) if found == wanted else None
            assert time.monotonic() < end, f"{dict(found)} run instead of {dict(wanted)}\n{self._log()}"
            time.sleep(0.1)

    def becomes(self, wanted: Any, look: Callable[[], Any]) -> None:
        """Sooner or later this is what one sees."""
        end = time.monotonic() + PATIENCE
        while (found := look()) != wanted:
            assert time.monotonic() < end, f"{found!r} instead of {wanted!r}\n{self._log()}"
            time.sleep(0.1)

    def says(self, queue: str) -> Object:
        """The status of a queue."""
        found: Object = self.kubectl.object("queue", queue).get("status", {})
        return found

    def _log(self) -> str:
        log = self._place / "scheduler.log"
        return log.read_text()[-2000:] if log.exists() else ""


def _holds(pod: Object) -> bool:
    over = pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
    return bool(pod["spec"].get("nodeName")) and "deletionTimestamp" not in pod["metadata"] and not over


# ---- objects ---------------------------------------------------------------------------------------------


def queue(name: str, parent: str = "root", **spec: Any) -> Object:
    """A queue."""
    return {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": name}, "spec": {"parent": parent, **spec}}


def by_path(path: str, weights: str) -> Object:
    """A queue that says in annotations where it stands."""
    annotations = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
    about = {"name": path.rpartition("/")[2], "annotations": annotations}
    return {"apiVersion": VOLCANO, "kind": "Queue", "metadata": about, "spec": {"weight": 1}}


def gang(
    name: str, queue: str, pods: int, *, namespace: str = "default", least: int = 1, **asks: object
) -> list[Object]:
    """A podgroup and its pods, of one cpu each unless said."""
    about = {"namespace": namespace, "labels": {"queue": queue}}
    group = {"apiVersion": VOLCANO, "kind": "PodGroup", "metadata": {"name": name, **about}}
    group["spec"] = {"minMember": least, "queue": queue}
    requests = {resource: str(amount) for resource, amount in (asks or {"cpu": 1}).items()}
    limits = {resource: amount for resource, amount in requests.items() if "/" in resource}
    container = {"name": "main", "image": "x", "resources": {"requests": requests, "limits": limits}}
    annotations = {"scheduling.k8s.io/group-name": name}
    return [group] + [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{number}", "annotations": annotations, **about},
            "spec": {"schedulerName": "pumice", "containers": [container]},
        }
        for number in range(pods)
    ]


def namespace(name: str, weight: int) -> list[Object]:
    """A namespace with a weight."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "weight", "namespace": name}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        {**quota, "spec": {"hard": {"volcano.sh/namespace.weight": str(weight)}}},
    ]


# ---- what tells pods apart -------------------------------------------------------------------------------


def job_of(pod: Object) -> str:
    """The job, by the beginning of the pod's name."""
    return str(pod["metadata"]["name"].partition("-")[0])


def queue_of(pod: Object) -> str:
    """Of pods made here the label; of those of a job made by vsub, which is called like its queue, its name."""
    return str(pod["metadata"].get("labels", {}).get("queue") or job_of(pod))


def namespace_of(pod: Object) -> str:
    """The namespace."""
    return str(pod["metadata"]["namespace"])


def user_of(pod: Object) -> str:
    """Whose pod it is."""
    return str(pod["metadata"]["annotations"]["volcano.sh/user"])
