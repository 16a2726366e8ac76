"""A witness of a cluster: it follows every pod by watch from the beginning, whatever happens to the server.

It believes nothing: no pod ever changes its node, no node ever holds more than it has, at any revision, and history has
no gaps. And it knows, at any time, which gangs have only a part of their minimum bound.

A server that begins again may have forgotten the revision where the witness stands. Then, and only then, it looks at
what there is and takes the difference for what has happened. And where late writes may land (``forgives``), a node that
holds too much is no failure: it is noted how often that happened, and for how long.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.sync_client import Client, Document

PODS = "/api/v1/namespaces/default/pods"
GROUP = "scheduling.k8s.io/group-name"
LATER = frozenset({429, 500, 502, 503, 504})
"""What a server says that is not, or not yet, itself."""


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

    def __init__(self, access: Access, node_cpu: int, minimum: Mapping[str, int]) -> None:
        super().__init__(daemon=True)
        self._client = Client(access)
        self._node_cpu = node_cpu
        self._minimum = minimum
        self._revision = ""  # nothing seen yet, or nothing that the server still knows
        self.stopping = False
        self.lists = 0
        self.forgives = False  # nodes that hold too much for a while
        self.over: dict[str, float] = {}  # those that do, and since when
        self.overs = 0  # how often a node has begun to
        self.longest_over = 0.0
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
                    self._follow_on()
                except UnreachableError:
                    time.sleep(0.05)
                except ApiError as error:
                    if error.expired:
                        self._revision = ""
                    elif error.code not in LATER:
                        raise
                    time.sleep(0.05)
        except BaseException as failure:
            self.failure = failure

    def _follow_on(self) -> None:
        if not self._revision:
            self._look()
        for kind, pod in self._client.watch(PODS, self._revision):
            self._revision = pod["metadata"]["resourceVersion"]
            if kind != "BOOKMARK":
                self._take(kind, pod)
            if self.stopping:
                return

    def _look(self) -> None:
        """Take what there is for what has become of what there was: first what is gone, then what is new."""
        found = self._client.list(PODS)
        self._client.close()  # of the connections to a server only the watch is kept
        there = {pod["metadata"]["name"]: pod for pod in found.items}
        self._revision, self.lists = found.revision, self.lists + 1
        for name, before in list(self.pods.items()):
            if name not in there or there[name]["metadata"]["uid"] != before.uid:
                self._note(name, None, before)
        for name, pod in there.items():
            self._take("MODIFIED" if name in self.pods else "ADDED", pod)

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
        name, now = pod["metadata"]["name"], seen(pod)
        before = self.pods.get(name)
        assert (before is None) == (kind == "ADDED"), f"{kind} of {name} does not fit: a gap"
        assert before is None or before.uid == now.uid, f"{name} became another pod without a word"
        self.created.add(now.uid)
        if now.node:
            known = self.nodes_of.setdefault(now.uid, now.node)
            assert known == now.node, f"{name} was on {known} and is on {now.node}"
            self.binds += name not in self.ever_bound
            self.ever_bound.add(name)
        self._note(name, None if kind == "DELETED" else now, before or now)

    def _note(self, name: str, now: Seen | None, before: Seen) -> None:
        """A pod is so now, or gone."""
        self.last_event = time.monotonic()
        counted = self.pods.get(name)
        if now is None:
            self.pods.pop(name)
            self.gone[name].append(before.uid)
            self.deleted.add(before.uid)
        else:
            self.pods[name] = now
        self._count(counted, now)
        self._follow(before.gang)

    def _count(self, before: Seen | None, now: Seen | None) -> None:
        if before is not None:
            self.used[before.node] -= before.cpu * before.holds
            self.bound_of[before.gang] -= before.counts
        if now is not None:
            self.used[now.node] += now.cpu * now.holds
            self.bound_of[now.gang] += now.counts
        for pod in filter(None, (before, now)):
            if pod.node:
                self._weigh(pod.node)

    def _weigh(self, node: str) -> None:
        if self.used[node] <= self._node_cpu:
            if (since := self.over.pop(node, None)) is not None:
                self.longest_over = max(self.longest_over, time.monotonic() - since)
            return
        full = f"{node} holds {self.used[node]} of {self._node_cpu} cpu at revision {self._revision}"
        assert self.forgives, full
        if node not in self.over:
            self.over[node] = time.monotonic()
            self.overs += 1

    def _follow(self, gang: str) -> None:
        if 0 < self.bound_of[gang] < self._minimum[gang] and gang not in self.finished:
            self.parts.setdefault(gang, time.monotonic())
        elif (since := self.parts.pop(gang, None)) is not None:
            self.longest_part = max(self.longest_part, time.monotonic() - since)

    def whole(self) -> list[str]:
        """The gangs that have their minimum, and are not being taken away."""
        bound = list(self.bound_of.items())  # at once: it is counted on meanwhile
        return sorted(g for g, n in bound if n >= self._minimum[g] and g not in self.finished)
