"""A cluster in memory with one Volcano Job in it: its podgroup, pods and Commands, and writes that can be cut off.

What happens to pods (they start, end, are evicted, vanish) is for the test to choose; what is written is what ``plan``
says, one write after another, so that a controller can die between any two of them.
"""

from __future__ import annotations

import copy
from typing import Any

from kubebase.timestamps import stamp
from pumice.controllers.commands import in_order
from pumice.controllers.jobs.plan import Change, Keep, Make, ObservedJob, Plan, Remove, SetStatus, Write, plan

Document = dict[str, Any]

START = 1_800_000_000.0
POD: Document = {"spec": {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m"}}}]}}


def task(name: str = "worker", replicas: int = 1, **more: Any) -> Document:
    return {"name": name, "replicas": replicas, "template": POD, **more}


def job(*tasks: Document, status: Document | None = None, **spec: Any) -> Document:
    parts = list(tasks) or [task()]
    about = {"name": "j", "namespace": "ns", "uid": "u-j", "generation": 1, "creationTimestamp": stamp(START)}
    made: Document = {"metadata": about, "spec": {"tasks": parts, "maxRetry": 3, "queue": "q", **spec}}
    return made | ({"status": status} if status else {})


class Cluster:
    """Everything there is."""

    def __init__(self, document: Document) -> None:
        self.job: Document | None = copy.deepcopy(document)
        self.group: Document | None = None
        self.pods: dict[str, Document] = {}
        self.commands: dict[str, Document] = {}
        self.kept: dict[str, Document] = {}
        self.now = START
        self.upstream: dict[str, str] = {}  # the phases of other jobs
        self.made: list[str] = []  # uids of pods, in the order in which they were made
        self._number = 0

    # ---- the controller ---------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        assert self.job is not None
        commands = in_order(self.commands.values())
        pods = [self.pods[name] for name in sorted(self.pods)]
        return plan(ObservedJob(self.job, self.group, pods, commands, upstream=self.upstream), self.now)

    def look(self, most: int = 10_000) -> int:
        """Let a controller look once and die after so many writes; how many changed anything."""
        return sum(self._apply(write) for write in list(self.plan().writes)[:most]) if self.job else 0

    def settle(self) -> None:
        """Let controllers look until there is nothing to do."""
        for _ in range(50):
            if not self.look():
                return
        raise AssertionError(f"it never settles: {self.plan()}")

    def _apply(self, write: Write) -> bool:
        match write:
            case SetStatus(status):
                assert self.job is not None and self.job.get("status") != status
                self.job["status"] = copy.deepcopy(status)
            case Make(_, {"kind": "PodGroup"} as document):
                if self.group is not None:
                    return False
                self.group = self._stored(document)
            case Make(_, {"kind": "Pod"} as document):
                if document["metadata"]["name"] in self.pods:
                    return False
                pod = self.pods[document["metadata"]["name"]] = self._stored(document)
                pod["status"] = {"phase": "Pending"}
                self.made.append(pod["metadata"]["uid"])
            case Keep(resource, document):
                before = self.kept.get(resource.name)
                self.kept[resource.name] = document
                return before != document
            case Change(_, _, uid, {"spec": spec}):
                assert self.group is not None and self.group["metadata"]["uid"] == uid
                self.group["spec"] = {k: v for k, v in {**self.group["spec"], **spec}.items() if v is not None}
            case Remove():
                return self._remove(write)
        return True

    def _remove(self, write: Remove) -> bool:
        match write.resource.plural:
            case "commands":
                return self.commands.pop(write.name, None) is not None
            case "podgroups":
                self.group = None
            case "jobs":
                self.job = None
                self.pods.clear()
            case "pods":
                pod = self.pods.get(write.name)
                if pod is None or pod["metadata"]["uid"] != write.uid or "deletionTimestamp" in pod["metadata"]:
                    return False
                pod["metadata"]["deletionTimestamp"] = stamp(self.now)
        return True

    def _stored(self, document: Document) -> Document:
        self._number += 1
        found = copy.deepcopy(document)
        found["metadata"] |= {"uid": f"u-{self._number}", "creationTimestamp": stamp(self.now)}
        return found

    # ---- the world --------------------------------------------------------------------------------------------

    def enter(self, phase: str = "Inqueue") -> None:
        """The queue lets the group in."""
        if self.group is not None:
            self.group["status"] = {"phase": phase}

    def become(self, name: str, phase: str, code: int = 1) -> None:
        """A pod starts or ends, or nobody hears of it any more; one that has ended stays as it is."""
        pod = self.pods.get(name)
        if pod is None or pod["status"]["phase"] in {"Succeeded", "Failed"}:
            return
        pod["status"] = {"phase": phase, "startTime": stamp(self.now)}
        ready = phase == "Running"
        end = {"terminated": {"exitCode": code if phase == "Failed" else 0, "finishedAt": stamp(self.now)}}
        state = end if phase in {"Succeeded", "Failed"} else {}
        pod["status"]["containerStatuses"] = [{"name": "c", "ready": ready, "restartCount": 0, "state": state}]

    def evict(self, name: str) -> None:
        if name in self.pods:
            self.pods[name]["metadata"].setdefault("deletionTimestamp", stamp(self.now))

    def vanish(self, name: str) -> None:
        self.pods.pop(name, None)

    def sweep(self) -> None:
        """The nodes remove what is being deleted."""
        self.pods = {name: pod for name, pod in self.pods.items() if "deletionTimestamp" not in pod["metadata"]}

    def command(self, action: str) -> None:
        made = self._stored({"metadata": {"name": f"c-{self._number:04}"}, "action": action})
        self.commands[made["metadata"]["name"]] = made

    # ---- what tests ask ---------------------------------------------------------------------------------------

    @property
    def status(self) -> Document:
        found: Document = (self.job or {}).get("status") or {}
        return found

    @property
    def phase(self) -> str:
        return str((self.status.get("state") or {}).get("phase", ""))

    def started(self) -> Cluster:
        """Settled, with all pods that may run now running."""
        self.settle()
        self.enter()
        for _ in range(5):
            self.settle()
            for name, pod in self.pods.items():
                if pod["status"]["phase"] == "Pending":
                    self.become(name, "Running")
        self.settle()
        return self
