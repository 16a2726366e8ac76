"""The cluster in plain dicts: what was described, where the pods are, and what can be read off that.

Every reading goes over all pods again. Nothing is kept but what events said and what the rules say is remembered: when
pods started and whether they were owed, and which units were tried in vain since room last grew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kubebase.resource_vector import PODS
from pumice.engine.events import BindFailed, Event, Gone
from pumice.model.specs import (
    JobSpec,
    NodeSpec,
    PodTerm,
    PriorityClass,
    Queue,
    QueueState,
    Quota,
    TaskSpec,
    TaskStatus,
    Vector,
)
from tests.oracles.kube_filters import chosen
from tests.oracles.slow_nodes import NodeRules, Pod, could_ever, idle, resources, slots
from tests.oracles.slow_targets import Amounts, Wish, add_up
from tests.oracles.slow_tree import Branch

Shape = tuple[object, ...]
UnitKey = tuple[Shape, ...]
Most = dict[Shape, int]
"""How many tasks of a shape may be in a gang; any number of a shape that is not named."""


@dataclass(frozen=True)
class Tried:
    """How a unit was tried in vain."""

    coupled: bool  # whether other pods decide where it may run
    short: Shape  # of this shape only so many of its tasks found a place
    placed: int


@dataclass(frozen=True)
class Rules:
    """The configuration, as far as it differs between tests."""

    hierarchy: bool = True  # H-DRF by ``steer``; otherwise flat DRF
    namespaces: bool = True
    patience: int = -1  # seconds
    hold_limit: int = 120
    nodes: NodeRules = field(default_factory=NodeRules)


@dataclass
class SlowCluster:
    """What was described, the pods, and what is remembered."""

    rules: Rules = field(default_factory=Rules)
    nodes: dict[str, NodeSpec] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    quotas: dict[str, Quota] = field(default_factory=dict)
    classes: dict[str, PriorityClass] = field(default_factory=dict)
    jobs: dict[str, JobSpec] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    repelling: set[PodTerm] = field(default_factory=set)  # every anti-affinity term that was ever seen
    in_vain: dict[UnitKey, Tried] = field(default_factory=dict)
    turns: dict[tuple[str, ...], int] = field(default_factory=dict)  # when each queue was last served while owed
    nodes_changed: bool = False  # the rest since the last cycle
    room_grew: bool = False
    pods_moved: bool = False
    stamp: int = 0  # the latest start

    # --- events -------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Take in one event."""
        if isinstance(event, BindFailed):
            pod = self.pods.get(event.task)
            if pod is not None and pod.status is TaskStatus.BINDING:
                self._leaves(pod)
                self.pods[event.task] = Pod(pod.spec, TaskStatus.PENDING)
        elif isinstance(event, Gone):
            if event.kind is TaskSpec:
                self._leaves(self.pods.pop(event.key, None))
            else:
                self.nodes_changed |= event.kind is NodeSpec and event.key in self.nodes
                self._described(event.kind).pop(event.key, None)
        elif isinstance(event.object, TaskSpec):
            self._describe_pod(event.object)
        else:
            thing = event.object
            key = thing.name if isinstance(thing, NodeSpec | Queue | PriorityClass) else thing.key
            self.nodes_changed |= isinstance(thing, NodeSpec) and self.nodes.get(key) != thing
            self._described(type(thing))[key] = thing

    def _described(self, kind: type) -> dict[str, Any]:
        if kind is NodeSpec:
            return self.nodes
        if kind is Queue:
            return self.queues
        if kind is Quota:
            return self.quotas
        return self.classes if kind is PriorityClass else self.jobs

    def _describe_pod(self, spec: TaskSpec) -> None:
        old = self.pods.get(spec.key)
        new = Pod(spec, spec.status, spec.node, spec.started)
        self.repelling.update(spec.constraints.anti_affinity)
        if old is not None:
            if old.status is TaskStatus.BINDING and spec.status is TaskStatus.PENDING:
                new.status, new.node = old.status, old.node  # nobody has seen our decision yet
            if new.status.on_node and old.started:
                new.started = old.started
            new.owed = old.owed
            if old.node != new.node or not new.status.on_node or new.status is TaskStatus.RELEASING:
                self._leaves(old)
        self.pods[spec.key] = new
        if new.status.on_node:
            self.stamp = max(self.stamp, new.started)
            self.pods_moved |= old is None or old.node != new.node

    def _leaves(self, pod: Pod | None) -> None:
        if pod is not None and pod.status.on_node and pod.node is not None:
            self.pods_moved = True
            self.room_grew |= pod.node in self.nodes

    # --- pods and jobs ----------------------------------------------------------------------------------------------

    def tasks(self, job: str) -> list[Pod]:
        """The pods of a job in task order."""
        return sorted((pod for pod in self.pods.values() if pod.spec.job == job), key=self._task_order)

    def _task_order(self, pod: Pod) -> tuple[int, int, int, str, str]:
        """Priority, the number at the end of names like job-role-3, age, name."""
        *rest, last = pod.spec.name.split("-")
        number = int(last) if len(rest) >= 2 and last.isdecimal() else -1
        return (-self.priority(pod.spec), number, pod.spec.created, pod.spec.namespace, pod.spec.name)

    def waiting(self, job: str) -> list[Pod]:
        """The pods of a job that wait."""
        return [pod for pod in self.tasks(job) if pod.status is TaskStatus.PENDING]

    def running(self, job: str) -> list[Pod]:
        """The pods of a job that hold a place."""
        return [pod for pod in self.tasks(job) if pod.status.held]

    def priority(self, spec: TaskSpec) -> int:
        """A pod's own priority, else its class's, else the default's."""
        return spec.priority if spec.priority is not None else self._class_value(spec.priority_class)

    def _class_value(self, name: str | None) -> int:
        if name in self.classes:
            return self.classes[name].value
        return max((c.value for c in self.classes.values() if c.default), default=0)

    def job_priority(self, job: JobSpec) -> int:
        """The class of a job, else its most important unfinished pod."""
        if job.priority_class in self.classes:
            return self._class_value(job.priority_class)
        own = [self.priority(pod.spec) for pod in self.tasks(job.key) if pod.status.unfinished]
        return max(own, default=self._class_value(None))

    def tiers(self, job: JobSpec) -> tuple[int, ...]:
        """What decides among jobs before their share: priority, then those that have not started."""
        return (-self.job_priority(job), int(self.started(job)))

    def asks(self, pods: Sequence[Pod]) -> Amounts:
        """What these ask for together, places aside."""
        return add_up([{j: pod.spec.request[j] for j in resources(pod.spec.request)} for pod in pods])

    def capacity(self) -> Vector:
        """What there is to share (docs/fairness.md, section 1.1)."""
        total = [0] * max(len(thing) for thing in self._vectors())
        for name in {*self.nodes, *(str(pod.node) for pod in self.pods.values() if pod.node is not None)}:
            node = self.nodes.get(name)
            here = [p for p in self.pods.values() if p.node == name and p.status.on_node]
            if node is not None and node.ready and not node.unschedulable:
                gives = [max(0, left) for left in idle(node, [p for p in here if not p.spec.managed])]
            else:
                still_held = [p for p in here if p.spec.managed and p.status.held]
                gives = [-left for left in idle(NodeSpec(name, ()), still_held)]
            for j, amount in enumerate(gives):
                total[j] += amount
        return tuple(total)

    def _vectors(self) -> list[Vector]:
        return [
            *(node.allocatable for node in self.nodes.values()),
            *(pod.spec.request for pod in self.pods.values()),
            *(job.min_resources for job in self.jobs.values()),
            (0, 0, 0),
        ]

    def shape(self, spec: TaskSpec) -> Shape:
        """What makes tasks alike: the request, the constraints and, where others look at it, who it is."""
        constraints = spec.constraints
        looks = constraints.affinity or constraints.anti_affinity or constraints.spread
        seen = looks or any(chosen(term, spec) for term in self.repelling)
        items = tuple((j, amount) for j, amount in enumerate(spec.request) if amount)
        return (items, constraints, (spec.namespace, frozenset(spec.labels.items())) if seen else None)

    def coupled(self, spec: TaskSpec) -> bool:
        """Whether other pods decide where it may run."""
        return spec.constraints.coupled or self.shape(spec)[2] is not None

    def takes_work(self, line: list[Branch]) -> bool:
        """Whether a job's queue is a leaf and open, like every queue above it."""
        queues = [branch for branch in line if branch.kind == 0]
        if any(child.kind == 0 for child in queues[-1].children):
            return False
        objects = [self.queues[str(branch.queue)] for branch in queues if branch.queue in self.queues]
        return all(queue.state is QueueState.OPEN for queue in objects)

    # --- units --------------------------------------------------------------------------------------------------------

    def gang(self, job: JobSpec) -> int:
        """The minimum less what has succeeded, at most what is unfinished."""
        tasks = self.tasks(job.key)
        least = max(job.min_member, sum(job.min_task_member.values()))
        succeeded = sum(1 for pod in tasks if pod.status is TaskStatus.SUCCEEDED)
        return min(least - succeeded, sum(1 for pod in tasks if pod.status.unfinished))

    def missing(self, job: JobSpec) -> int:
        """How many tasks a job must still start together; 0 or less: it may go on one by one."""
        missing = self.gang(job) - len(self.running(job.key))
        return missing if missing > 0 else sum(self._roles_missing(job).values())

    def _roles_missing(self, job: JobSpec) -> Counter[str]:
        there = Counter(
            pod.spec.role for pod in self.tasks(job.key) if pod.status.held or pod.status is TaskStatus.SUCCEEDED
        )
        return Counter({role: max(0, least - there[role]) for role, least in job.min_task_member.items()})

    def started(self, job: JobSpec) -> bool:
        """Whether a job has what it starts with; one of which nothing runs has not started (again)."""
        return self.missing(job) <= 0 and bool(self.running(job.key))

    def valid(self, job: JobSpec) -> bool:
        """Whether all pods of the minimum exist."""
        tasks = self.tasks(job.key)
        alive = [pod for pod in tasks if pod.status.unfinished or pod.status is TaskStatus.SUCCEEDED]
        roles = Counter(pod.spec.role for pod in tasks if pod.status is not TaskStatus.FAILED)
        return len(alive) >= job.min_member and all(roles[role] >= n for role, n in job.min_task_member.items())

    def choose(
        self, pods: Sequence[Pod], needs: Counter[str], size: int, most: Most | None, capacity: Vector
    ) -> list[Pod]:
        """What a job starts with, of these, in task order; empty: they are too few.

        What every role needs; then tasks that ask for nothing; then others. most: how many of a shape there may be, and
        all together no more than capacity; whoever has no room beside those already chosen is passed over. None: there
        is room for all.
        """
        unit: list[Pod] = []

        def has_room(pod: Pod) -> bool:
            shape = self.shape(pod.spec)
            alike = sum(1 for other in unit if self.shape(other.spec) == shape)
            return most is None or (
                alike < most.get(shape, len(pods))
                and all(amount <= capacity[j] for j, amount in self.asks([*unit, pod]).items() if pod.spec.request[j])
            )

        for pod in pods:
            if needs[pod.spec.role] > sum(1 for other in unit if other.spec.role == pod.spec.role) and has_room(pod):
                unit.append(pod)
        roles = Counter(pod.spec.role for pod in unit)
        if any(roles[role] < need for role, need in needs.items()):
            return []
        others = sorted((pod for pod in pods if pod not in unit), key=lambda pod: bool(resources(pod.spec.request)))
        for pod in others:
            if len(unit) < size and has_room(pod):
                unit.append(pod)
        return [pod for pod in pods if pod in unit] if len(unit) >= size else []

    def slots_if_empty(self, pods: Sequence[Pod]) -> Most:
        """How many tasks of each of these shapes would fit if all nodes were empty; where other pods decide, any."""
        nodes = list(self.nodes.values())
        plain = [pod.spec for pod in pods if not self.coupled(pod.spec)]
        return {self.shape(spec): slots(spec, nodes, self.rules.nodes) for spec in plain}

    def starts_together(self, job: JobSpec) -> bool:
        """Whether it starts with several tasks, or with those of certain roles."""
        missing = self.missing(job)
        return missing > 1 or (missing == 1 and bool(job.min_task_member))

    def gang_of(self, job: JobSpec, most: Most | None, capacity: Vector) -> list[Pod]:
        """The waiting tasks that a job would start together."""
        waiting = [pod for pod in self.waiting(job.key) if self.possible(pod.spec)]
        return self.choose(waiting, self._roles_missing(job), self.missing(job), most, capacity)

    def single_tasks(self, job: JobSpec) -> list[list[Pod]]:
        """The first task of each shape that waits, in task order."""
        first: dict[Shape, list[Pod]] = {}
        for pod in self.waiting(job.key):
            if self.asks([pod]):
                first.setdefault(self.shape(pod.spec), [pod])
        return list(first.values())

    def unit_key(self, unit: Sequence[Pod]) -> UnitKey:
        """The shapes of its tasks in task order: units that are alike in that are one."""
        return tuple(self.shape(pod.spec) for pod in unit)

    # --- demand -------------------------------------------------------------------------------------------------------

    def possible(self, spec: TaskSpec) -> bool:
        """Whether some empty node would do."""
        return any(could_ever(spec, node, self.rules.nodes) for node in self.nodes.values())

    def can_ever_start(self, job: JobSpec, capacity: Vector) -> bool:
        """Whether what it must start with would fit the empty cluster, shape by shape; pods to come may help."""
        waiting, missing, roles = self.waiting(job.key), self.missing(job), self._roles_missing(job)
        if missing <= 0 or not self.choose(waiting, roles, missing, None, capacity):
            return True
        return bool(self.gang_of(job, self.slots_if_empty(waiting), capacity))

    def wish(self, job: JobSpec, takes_work: bool, capacity: Vector) -> Wish:
        """What a job asks for, as far as it can ever run, and what it has."""
        waiting_counts = takes_work and self.can_ever_start(job, capacity)
        unfinished = [pod for pod in self.tasks(job.key) if pod.status.unfinished]
        counting = [p for p in unfinished if p.status.held or (waiting_counts and self.possible(p.spec))]
        first = self._first_tasks(job, counting, capacity)
        path = [pod for pod in sorted(counting, key=lambda pod: pod not in first) if self.asks([pod])]
        return Wish(
            path=[(self.asks([pod]), pod.status.held) for pod in path],
            running=[self.asks([pod]) for pod in self.running(job.key) if self.asks([pod])],
            floor=self._floor(job, capacity) if waiting_counts else {},
            gang=sum(1 for pod in first if self.asks([pod])),
            rank=(-self.job_priority(job),),
            tiers=self.tiers(job),
            served=max((pod.started for pod in self.running(job.key) if pod.owed), default=0),
        )

    def _first_tasks(self, job: JobSpec, counting: list[Pod], capacity: Vector) -> list[Pod]:
        """The tasks a job would start with if nothing of it ran; those that hold a place have room beside others."""
        size, roles = min(self.gang(job), len(counting)), self._first_roles(job, counting)
        most = self.slots_if_empty([pod for pod in counting if pod.status is TaskStatus.PENDING])
        for shape in most:
            alike = [pod for pod in counting if self.shape(pod.spec) == shape]
            waiting = [pod for pod in alike if pod.status is TaskStatus.PENDING]
            most[shape] = min(most[shape], len(waiting)) + len(alike) - len(waiting)
        return self.choose(counting, roles, size, most, capacity) or self.choose(counting, roles, size, None, capacity)

    def _floor(self, job: JobSpec, capacity: Vector) -> dict[int, int]:
        """The minimum that a job asks for whatever its pods do; none if they all have ended, or it can never fit."""
        pods = self.tasks(job.key)
        if pods and not any(pod.status.unfinished for pod in pods):
            return {}
        asked = {j: n for j, n in enumerate(job.min_resources) if n and j != PODS}
        if not self.running(job.key) and any(n > capacity[j] for j, n in asked.items()):
            return {}
        return {j: n for j, n in asked.items() if capacity[j]}

    def _first_roles(self, job: JobSpec, wanted: list[Pod]) -> Counter[str]:
        """The role minimums less what has succeeded, at most what is there."""
        there = Counter(pod.spec.role for pod in wanted)
        succeeded = Counter(p.spec.role for p in self.tasks(job.key) if p.status is TaskStatus.SUCCEEDED)
        return Counter({r: max(0, min(n - succeeded[r], there[r])) for r, n in job.min_task_member.items()})
