"""A witness of a cluster: it follows every pod by watch from the beginning, whatever happens to the server.

It believes nothing: no pod ever changes its node, no node ever holds more than it has, at any revision, and history has
no gaps. And it knows, at any time, which gangs have only a part of their minimum bound.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from pumice.kube.client import Client, Document
from pumice.kube.kubeconfig import Access
from pumice.kube.refusals import UnreachableError

PODS = "/api/v1/namespaces/default/pods"
GROUP = "scheduling.k8s.io/group-name"


@dataclass(frozen=True)
class Seen:
    """A pod at one revision."""

    uid: str
    node: str
    cpu: int
    gang: str
    leaving: bool
    over: bool

    @property
    def holds(self) -> bool:
        return bool(self.node) and not self.over

    @property
    def counts(self) -> bool:
        """Whether its gang has it."""
        return self.holds and not self.leaving


def seen(pod: Document) -> Seen:
    about, spec = pod["metadata"], pod["spec"]
    return Seen(
        about["uid"],
        spec.get("nodeName", ""),
        int(spec["containers"][0]["resources"]["requests"]["cpu"]),
        about["annotations"][GROUP],
        "deletionTimestamp" in about,
        pod.get("status", {}).get("phase") in {"Succeeded", "Failed"},
    )


class Witness(threading.Thread):
    """Follows all pods of the namespace ``default``, which ask for whole cpus.

    ``minimum`` says what each gang needs, ``node_cpu`` what each node has.
    """

    def __init__(self, server: str, node_cpu: int, minimum: Mapping[str, int]) -> None:
        super().__init__(daemon=True)
        self._client = Client(Access(server))
        self._node_cpu = node_cpu
        self._minimum = minimum
        self._revision = "0"
        self.stopping = False
        self.failure: BaseException | None = None
        self.pods: dict[str, Seen] = {}
        self.used: Counter[str] = Counter()  # cpu by node
        self.bound_of: Counter[str] = Counter()  # pods by gang
        self.nodes_of: dict[str, str] = {}  # by uid, for ever
        self.ever_bound: set[str] = set()  # pods, by name
        self.created: set[str] = set()  # by uid
        self.gone: dict[str, list[str]] = defaultdict(list)  # uids of pods that were deleted, by name
        self.deleted: set[str] = set()  # all of them
        self.finished: set[str] = set()  # gangs that are being taken away
        self.parts: dict[str, float] = {}  # gangs with a part of their minimum, and since when
        self.longest_part = 0.0
        self.last_event = time.monotonic()
        self.binds = 0

    def run(self) -> None:
        try:
            while not self.stopping:
                try:
                    for kind, pod in self._client.watch(PODS, self._revision):
                        self._take(kind, pod)
                        if self.stopping:
                            return
                except UnreachableError:
                    time.sleep(0.05)
        except BaseException as failure:
            self.failure = failure

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def stop(self) -> None:
        self.stopping = True

    @property
    def silence(self) -> float:
        """For how long nothing has happened."""
        return time.monotonic() - self.last_event

    def _take(self, kind: str, pod: Document) -> None:
        about = pod["metadata"]
        self._revision = about["resourceVersion"]
        if kind == "BOOKMARK":
            return
        name, now = about["name"], seen(pod)
        before = self.pods.get(name)
        assert (before is None) == (kind == "ADDED"), f"{kind} of {name} does not fit: a gap"
        assert before is None or before.uid == now.uid, f"{name} became another pod without a word"
        self.created.add(now.uid)
        self.last_event = time.monotonic()
        if now.node:
            known = self.nodes_of.setdefault(now.uid, now.node)
            assert known == now.node, f"{name} was on {known} and is on {now.node}"
            self.binds += name not in self.ever_bound
            self.ever_bound.add(name)
        if kind == "DELETED":
            self.pods.pop(name)
            self.gone[name].append(now.uid)
            self.deleted.add(now.uid)
            self._count(before, None)
        else:
            self.pods[name] = now
            self._count(before, now)
        self._follow(now.gang)

    def _count(self, before: Seen | None, now: Seen | None) -> None:
        if before is not None:
            self.used[before.node] -= before.cpu * before.holds
            self.bound_of[before.gang] -= before.counts
        if now is not None:
            self.used[now.node] += now.cpu * now.holds
            self.bound_of[now.gang] += now.counts
            full = f"{now.node} holds {self.used[now.node]} of {self._node_cpu} cpu at revision {self._revision}"
            assert not now.node or self.used[now.node] <= self._node_cpu, full

    def _follow(self, gang: str) -> None:
        if 0 < self.bound_of[gang] < self._minimum[gang] and gang not in self.finished:
            self.parts.setdefault(gang, time.monotonic())
        elif (since := self.parts.pop(gang, None)) is not None:
            self.longest_part = max(self.longest_part, time.monotonic() - since)

    def whole(self) -> list[str]:
        """The gangs that have their minimum, and are not being taken away."""
        return sorted(g for g, n in self.bound_of.items() if n >= self._minimum[g] and g not in self.finished)
