"""The picture of the cluster that all viewers share: objects, and sums over them, kept up to date change by change.

The sums of a job and of a queue follow every change of a pod, so that a document is made from sums and never from all
pods. ``take_changes`` says what has changed since it was last asked; the documents made from that are remade.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kubebase.resource_vector import Registry, Vector, add, subtract
from pumice.kube.decode.convert import SCHEDULERS
from pumice.kube.watch.change_queue import Change
from pumice.model.specs import ROOT
from pumice.ui.object_decode import SeenObjects
from pumice.ui.seen_objects import ENDED, HOLDING, GroupSeen, NodeSeen, PodSeen, QueueSeen

MOST_REMEMBERED = 10_000
"""Deleted pods whose jobs are remembered: Events and decisions name them later."""


@dataclass(slots=True)
class PodSums:
    """Sums over pods: how many are in each state, what those with a node hold, and what those without one request."""

    states: Counter[str] = field(default_factory=Counter)
    used: Vector = ()
    waiting: Vector = ()

    def add(self, pod: PodSeen) -> None:
        """Count a pod."""
        self.states[pod.state] += 1
        if pod.state in HOLDING:
            self.used = add(self.used, pod.request)
        elif pod.state == "waiting":
            self.waiting = add(self.waiting, pod.request)

    def remove(self, pod: PodSeen) -> None:
        """Count a pod no longer."""
        self.states[pod.state] -= 1
        if pod.state in HOLDING:
            self.used = subtract(self.used, pod.request)
        elif pod.state == "waiting":
            self.waiting = subtract(self.waiting, pod.request)

    def merge(self, other: PodSums, sign: int = 1) -> None:
        """Add the sums of other pods, or take them away."""
        combine = add if sign > 0 else subtract
        for state, number in other.states.items():
            self.states[state] += sign * number
        self.used = combine(self.used, other.used)
        self.waiting = combine(self.waiting, other.waiting)

    @property
    def holding(self) -> int:
        """How many pods have a node, have not ended and are not being deleted."""
        return sum(self.states[state] for state in HOLDING)

    @property
    def pending(self) -> int:
        """How many pods have no node."""
        return self.states["waiting"]


@dataclass(slots=True)
class QueueSums:
    """Sums over the jobs that name a queue."""

    phases: Counter[str] = field(default_factory=Counter)
    pods: PodSums = field(default_factory=PodSums)
    jobs: set[str] = field(default_factory=set)


@dataclass(slots=True)
class PictureChanges:
    """What has changed: keys of jobs, names of queues that jobs name, names of nodes; and whether the tree has."""

    jobs: set[str] = field(default_factory=set)
    queues: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    tree: bool = False

    def __bool__(self) -> bool:
        return bool(self.jobs or self.queues or self.nodes or self.tree)


class ClusterPicture:
    """Objects by key, and sums over pods by job, queue and node."""

    def __init__(self, registry: Registry | None = None) -> None:
        self.seen = SeenObjects(registry or Registry())
        self.queues: dict[str, QueueSeen] = {}
        self.groups: dict[str, GroupSeen] = {}
        self.pods: dict[str, PodSeen] = {}
        self.nodes: dict[str, NodeSeen] = {}
        self.by_queue: defaultdict[str, QueueSums] = defaultdict(QueueSums)
        self._by_group: dict[str, PodSums] = {}
        self._group_pods: defaultdict[str, set[str]] = defaultdict(set)
        self._node_pods: defaultdict[str, set[str]] = defaultdict(set)
        self._named: defaultdict[str, list[str]] = defaultdict(list)  # namespace/name of the owner: keys of PodGroups
        self._changes = PictureChanges(tree=True)
        self._gone: dict[str, str] = {}  # deleted pods, with the keys of their jobs
        self.queue_paths: dict[str, str] = {}  # of each Queue object, as of the last tree that was built
        self.revision = 0  # grows with every change
        seen = self.seen
        self._follow: dict[str, Callable[[str, Any, Any], None]] = {
            seen.queues.name: self._note_queue,
            seen.groups.name: self._note_group,
            seen.pods.name: self._note_pod,
            seen.nodes.name: self._note_node,
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The resources by their places in vectors."""
        return self.seen.registry.names

    @property
    def schedulers(self) -> Collection[str]:
        """The schedulerNames of the pods that Pumice places, as the scheduler publishes them."""
        root = self.queues.get(ROOT)
        listed = root.scheduler.get("names") if root is not None else None
        return frozenset(map(str, listed)) if isinstance(listed, list) and listed else SCHEDULERS

    def apply(self, changes: Iterable[Change[Any]]) -> None:
        """Follow changes of objects."""
        for change in changes:
            if change.old == change.new:  # in nothing that the page shows
                continue
            self.revision += 1
            self._follow[change.resource](change.key, change.old, change.new)

    def take_changes(self) -> PictureChanges:
        """What has changed since the last call."""
        found, self._changes = self._changes, PictureChanges()
        return found

    @property
    def namespaces(self) -> set[str]:
        """The namespaces that have jobs or pods."""
        return {group.namespace for group in self.groups.values()} | {pod.namespace for pod in self.pods.values()}

    # ---- what there is ------------------------------------------------------------------------------------

    def sums_of(self, job: str) -> PodSums:
        """The sums over the pods of a job."""
        return self._by_group.get(job) or PodSums()

    def pods_of(self, job: str) -> list[PodSeen]:
        """The pods of a job, by name."""
        return [self.pods[key] for key in sorted(self._group_pods.get(job, ()))]

    def pods_on(self, node: str) -> Iterator[PodSeen]:
        """The pods on a node that have not ended."""
        return (pod for key in self._node_pods.get(node, ()) if (pod := self.pods[key]).state not in ENDED)

    def job_of(self, pod: str) -> str:
        """The key of the job of a pod, also of one that was deleted a moment ago; empty if it has none."""
        found = self.pods.get(pod)
        return found.group if found is not None else self._gone.get(pod, "")

    def find_job(self, namespace: str, name: str) -> str | None:
        """The key of the PodGroup of this name, else of the newest one whose owner has this name."""
        key = f"{namespace}/{name}"
        if key in self.groups:
            return key
        owned = self._named.get(key)
        return max(owned, key=lambda each: (self.groups[each].created, each)) if owned else None

    def job_name(self, key: str) -> str:
        """The name of a job for people and in URLs: that of its owner, if it leads back to this job."""
        group = self.groups.get(key)
        if group is None:
            return key
        called = f"{group.namespace}/{group.name}"
        return called if self.find_job(group.namespace, group.name) == key else key

    # ---- changes ------------------------------------------------------------------------------------------

    def _note_queue(self, key: str, old: QueueSeen | None, new: QueueSeen | None) -> None:
        if new is None:
            self.queues.pop(key, None)
        else:
            self.queues[key] = new
        self._changes.tree = True
        self._changes.queues.add(key)

    def _note_group(self, key: str, old: GroupSeen | None, new: GroupSeen | None) -> None:
        if old is not None:
            sums = self.by_queue[old.queue]
            sums.phases[old.phase] -= 1
            sums.jobs.discard(key)
            sums.pods.merge(self.sums_of(key), -1)
            self._changes.queues.add(old.queue)
            self._forget_name(key, old)
            del self.groups[key]
        if new is not None:
            self.groups[key] = new
            sums = self.by_queue[new.queue]
            sums.phases[new.phase] += 1
            sums.jobs.add(key)
            sums.pods.merge(self.sums_of(key))
            self._changes.queues.add(new.queue)
            self._named[f"{new.namespace}/{new.name}"].append(key)
        self._changes.jobs.add(key)

    def _forget_name(self, key: str, group: GroupSeen) -> None:
        called = f"{group.namespace}/{group.name}"
        keys = self._named[called]
        keys.remove(key)
        if not keys:
            del self._named[called]

    def _note_pod(self, key: str, old: PodSeen | None, new: PodSeen | None) -> None:
        if old is not None:
            self._uncount(key, old)
        if new is None:
            self.pods.pop(key, None)
            if old is not None and old.group:
                self._remember(key, old.group)
        else:
            self.pods[key] = new
            self._count(key, new)

    def _remember(self, key: str, group: str) -> None:
        if len(self._gone) >= MOST_REMEMBERED:
            self._gone.clear()
        self._gone[key] = group

    def _count(self, key: str, pod: PodSeen) -> None:
        if pod.group:
            self._by_group.setdefault(pod.group, PodSums()).add(pod)
            self._group_pods[pod.group].add(key)
            self._charge(pod, PodSums.add)
        if pod.node:
            self._node_pods[pod.node].add(key)
            self._changes.nodes.add(pod.node)

    def _uncount(self, key: str, pod: PodSeen) -> None:
        if pod.group:
            sums = self._by_group[pod.group]
            sums.remove(pod)
            keys = self._group_pods[pod.group]
            keys.discard(key)
            if not keys:
                del self._group_pods[pod.group], self._by_group[pod.group]
            self._charge(pod, PodSums.remove)
        if pod.node:
            keys = self._node_pods[pod.node]
            keys.discard(key)
            if not keys:
                del self._node_pods[pod.node]
            self._changes.nodes.add(pod.node)

    def _charge(self, pod: PodSeen, step: Callable[[PodSums, PodSeen], None]) -> None:
        """Count a pod in the sums of its job's queue."""
        self._changes.jobs.add(pod.group)
        group = self.groups.get(pod.group)
        if group is not None:
            step(self.by_queue[group.queue].pods, pod)
            self._changes.queues.add(group.queue)

    def _note_node(self, key: str, old: NodeSeen | None, new: NodeSeen | None) -> None:
        if new is None:
            self.nodes.pop(key, None)
        else:
            self.nodes[key] = new
        self._changes.nodes.add(key)
        self._changes.tree = True
