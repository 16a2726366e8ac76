"""A whole scheduling cycle, the slow and obvious way: every number is computed again each time it is needed.

``SlowScheduler`` takes the same events as the engine and decides the same, with plain dicts of descriptions and pods
and nothing else kept but two things that the rules say are remembered: when pods started, and which units were tried
in vain. What a job is entitled to: ``slow_targets``. The tree and the walk: ``slow_tree``. Nodes: ``slow_nodes``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction

from pumice.model.events import BindFailed, Changed, Event, Gone
from pumice.model.objects import (
    JobPhase,
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
from tests.oracles.slow_nodes import (
    NodeRules,
    Pod,
    best_node,
    could_ever,
    fits_somewhere,
    idle,
    resources,
    slots,
)
from tests.oracles.slow_targets import Amounts, Wish, add_up, entitled_below, set_targets, set_whole_targets
from tests.oracles.slow_tree import Branch, Key, on_grid, plant, walk

Shape = tuple[object, ...]
Bind = tuple[str, str]
"""A task and its node."""


@dataclass(frozen=True)
class Rules:
    """The configuration, as far as it differs between tests."""

    hierarchy: bool = True  # H-DRF by ``steer``; otherwise flat DRF
    namespaces: bool = True
    nodes: NodeRules = NodeRules()


@dataclass
class SlowScheduler:
    """What was described, the pods, and what is remembered."""

    rules: Rules = Rules()
    nodes: dict[str, NodeSpec] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    quotas: dict[str, Quota] = field(default_factory=dict)
    classes: dict[str, PriorityClass] = field(default_factory=dict)
    jobs: dict[str, JobSpec] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    repelling: set[PodTerm] = field(default_factory=set)  # every anti-affinity term that was ever seen
    in_vain: dict[frozenset[tuple[Shape, int]], bool] = field(default_factory=dict)  # units tried; are they coupled
    room_grew: bool = False
    pods_moved: bool = False
    now: int = 0
    stamp: int = 0

    # --- events -------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> None:
        """Take in one event."""
        if isinstance(event, BindFailed):
            self._describe_pod(event.task, None)
        elif isinstance(event, Gone):
            if event.kind is TaskSpec:
                self._leaves(self.pods.pop(event.key, None))
            else:
                self._kept(event.kind).pop(event.key, None)
                self.room_grew |= event.kind is NodeSpec
        elif isinstance(event, Changed):
            thing = event.object
            if isinstance(thing, TaskSpec):
                self._describe_pod(thing.key, thing)
            else:
                key = thing.name if isinstance(thing, NodeSpec | Queue | PriorityClass) else thing.key
                self.room_grew |= isinstance(thing, NodeSpec) and self.nodes.get(key) != thing
                self._kept(type(thing))[key] = thing

    def _kept(self, kind: type) -> dict[str, object]:
        kept = {NodeSpec: self.nodes, Queue: self.queues, Quota: self.quotas}
        kept |= {PriorityClass: self.classes, JobSpec: self.jobs}
        found: dict[str, object] = kept[kind]
        return found

    def _describe_pod(self, key: str, spec: TaskSpec | None) -> None:
        """A pod is as described; None: the bind we decided failed."""
        old = self.pods.get(key)
        if spec is None:
            if old is not None and old.status is TaskStatus.BINDING:
                self._leaves(old)
                self.pods[key] = Pod(old.spec, TaskStatus.PENDING)
            return
        self.repelling.update(spec.constraints.anti_affinity)
        new = Pod(spec, spec.status, spec.node, spec.started)
        if old is not None:
            if old.status is TaskStatus.BINDING and spec.status is TaskStatus.PENDING:
                new.status, new.node = old.status, old.node  # nobody has seen our decision yet
            if new.status.on_node and old.started:
                new.started = old.started
            new.owed = old.owed
            if old.node != new.node or not new.status.on_node or new.status is TaskStatus.RELEASING:
                self._leaves(old)
        self.pods[key] = new
        if new.status.on_node:
            self.stamp = max(self.stamp, new.started)
            self.pods_moved |= old is None or old.node != new.node

    def _leaves(self, pod: Pod | None) -> None:
        if pod is not None and pod.status.on_node and pod.node is not None:
            self.pods_moved = True
            self.room_grew |= pod.node in self.nodes

    # --- readings -------------------------------------------------------------------------------------------------

    def tasks(self, job: str) -> list[Pod]:
        """The pods of a job in task order."""
        return sorted((pod for pod in self.pods.values() if pod.spec.job == job), key=self._task_order)

    def _task_order(self, pod: Pod) -> tuple[int, int, int, str, str]:
        """Priority, the number at the end of names like job-role-3, age, name."""
        *rest, last = pod.spec.name.split("-")
        number = int(last) if len(rest) >= 2 and last.isdecimal() else -1
        return (-self.priority(pod.spec), number, pod.spec.created, pod.spec.namespace, pod.spec.name)

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

    def capacity(self) -> Vector:
        """What there is to share."""
        width = max(len(spec.allocatable) for spec in self.nodes.values())
        width = max([width, *(len(pod.spec.request) for pod in self.pods.values())])
        total = [0] * width
        names = {*self.nodes, *(pod.node for pod in self.pods.values() if pod.node is not None)}
        for name in names:
            node = self.nodes.get(name)
            here = [p for p in self.pods.values() if p.node == name and p.status.on_node]
            ours = [p for p in here if p.spec.managed]
            others = [p for p in here if not p.spec.managed]
            if node is not None and node.ready and not node.unschedulable:
                gives = [max(0, amount) for amount in idle(node, others)]
            else:
                gives = [-amount for amount in idle(NodeSpec(name, ()), ours)]
            for j, amount in enumerate(gives):
                total[j] += amount
        return tuple(total)

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
        objects = [self.queues[branch.queue] for branch in queues if branch.queue in self.queues]
        return all(queue.state is QueueState.OPEN for queue in objects)

    # --- units -----------------------------------------------------------------------------------------------------

    def least(self, job: JobSpec) -> int:
        """How many tasks a job starts with."""
        return max(job.min_member, sum(job.min_task_member.values()))

    def gang(self, job: JobSpec) -> int:
        """The minimum less what has succeeded, at most what is unfinished."""
        tasks = self.tasks(job.key)
        succeeded = sum(1 for pod in tasks if pod.status is TaskStatus.SUCCEEDED)
        return min(self.least(job) - succeeded, sum(1 for pod in tasks if pod.status.unfinished))

    def missing(self, job: JobSpec) -> int:
        """How many tasks a job must still start together; 0 or less: it may go on one by one."""
        missing = self.gang(job) - self.running(job)
        if missing <= 0:
            there = [p.spec.role for p in self.tasks(job.key) if p.status.held or p.status is TaskStatus.SUCCEEDED]
            return sum(max(0, least - there.count(role)) for role, least in job.min_task_member.items())
        return missing

    def running(self, job: JobSpec) -> int:
        """How many tasks hold a place."""
        return sum(1 for pod in self.tasks(job.key) if pod.status.held)

    def started(self, job: JobSpec) -> bool:
        """Whether a job has what it starts with; one of which nothing runs has not started (again)."""
        return self.missing(job) <= 0 and self.running(job) > 0

    def valid(self, job: JobSpec) -> bool:
        """Whether all pods of the minimum exist."""
        tasks = self.tasks(job.key)
        alive = [pod for pod in tasks if pod.status.unfinished or pod.status is TaskStatus.SUCCEEDED]
        roles = Counter(pod.spec.role for pod in tasks if pod.status is not TaskStatus.FAILED)
        return len(alive) >= job.min_member and all(roles[role] >= n for role, n in job.min_task_member.items())

    def gang_tasks(self, job: JobSpec, missing: int, waiting: list[Pod], there: list[Pod]) -> list[Pod]:
        """What a job starts with, of these; in task order. Empty: too few.

        What every role lacks of its minimum; then tasks that ask for nothing; then others.
        """
        needs = Counter(job.min_task_member)
        needs.subtract(pod.spec.role for pod in there)
        unit: list[Pod] = []
        for pod in waiting:
            if needs[pod.spec.role] > 0:
                needs[pod.spec.role] -= 1
                unit.append(pod)
        if any(needs[role] > 0 for role in job.min_task_member):
            return []
        others = sorted((p for p in waiting if p not in unit), key=lambda p: bool(resources(p.spec.request)))
        unit += others[: max(0, missing - len(unit))]
        return [pod for pod in waiting if pod in unit] if len(unit) >= missing else []

    def units(self, job: JobSpec) -> list[list[Pod]]:
        """What a job may start next: its gang, or one task of each shape, in task order."""
        waiting = [pod for pod in self.tasks(job.key) if pod.status is TaskStatus.PENDING]
        missing = self.missing(job)
        if missing > 1 or (missing == 1 and job.min_task_member):
            there = [p for p in self.tasks(job.key) if p.status.held or p.status is TaskStatus.SUCCEEDED]
            unit = self.gang_tasks(job, missing, [pod for pod in waiting if self.possible(pod.spec)], there)
            return [unit] if any(resources(pod.spec.request) for pod in unit) else []
        first: dict[Shape, list[Pod]] = {}
        for pod in waiting:
            if resources(pod.spec.request):
                first.setdefault(self.shape(pod.spec), [pod])
        return list(first.values())

    def key_of(self, unit: list[Pod]) -> frozenset[tuple[Shape, int]]:
        """How many tasks of each shape."""
        return frozenset(Counter(self.shape(pod.spec) for pod in unit).items())

    def open(self, unit: list[Pod]) -> bool:
        """Whether a unit can be placed now, as far as is known."""
        nodes, pods = list(self.nodes.values()), list(self.pods.values())
        return self.key_of(unit) not in self.in_vain and all(
            self.coupled(pod.spec) or fits_somewhere(pod.spec, nodes, pods, self.rules.nodes) for pod in unit
        )

    # --- the cycle -----------------------------------------------------------------------------------------------------

    def cycle(self, now: int) -> list[Bind]:
        """Decide; returns the binds in order."""
        self.now = max(self.now, now)
        for unit, coupled in list(self.in_vain.items()):
            if self.room_grew or (coupled and self.pods_moved):
                del self.in_vain[unit]
        self.room_grew = self.pods_moved = False
        root, lines = plant(self.queues, self.quotas, self.jobs, namespaces=self.rules.namespaces)
        capacity = self.capacity()
        wishes: dict[str, Wish] = {}
        if self.rules.hierarchy:
            wishes = {key: self.wish(job, self.takes_work(lines[key])) for key, job in self.jobs.items()}
            set_targets(root, wishes, capacity)
            set_whole_targets(root, lines, wishes, capacity)
        binds: list[Bind] = []
        while (turn := self.pick(root, lines, wishes, capacity)) is not None:
            unit, owed = turn
            placed = self.place(unit, owed)
            binds += placed
            if not placed:
                self.in_vain[self.key_of(unit)] = any(self.coupled(pod.spec) for pod in unit)
        return binds

    def place(self, unit: list[Pod], owed: bool) -> list[Bind]:
        """Put every task of a unit on the best node for it, or none."""
        self.stamp = max(self.now, self.stamp + 1)
        for pod in unit:
            node = best_node(pod.spec, list(self.nodes.values()), list(self.pods.values()), self.rules.nodes)
            if node is None:
                for other in unit:
                    other.status, other.node, other.started = TaskStatus.PENDING, None, 0
                return []
            pod.status, pod.node, pod.started, pod.owed = TaskStatus.BINDING, node, self.stamp, owed
        self.pods_moved = True
        return [(pod.spec.key, str(pod.node)) for pod in unit]

    def pick(
        self, root: Branch, lines: dict[str, list[Branch]], wishes: dict[str, Wish], capacity: Vector
    ) -> tuple[list[Pod], bool] | None:
        """Whose turn it is: the unit, and whether it is owed. None: nobody can start anything."""
        offers: dict[str, list[Pod]] = {}
        for key, job in self.jobs.items():
            if self.takes_work(lines[key]) and self.valid(job):
                fitting = [unit for unit in self.units(job) if self.open(unit)]
                first = [unit for unit in fitting if self.owed(key, unit, wishes)] or fitting
                if first:
                    offers[key] = first[0]
        owed = {key for key, unit in offers.items() if self.owed(key, unit, wishes)}
        candidates = [lines[key][-1] for key in (owed or offers)]
        if not candidates:
            return None

        def key(branch: Branch, below: list[Branch]) -> Key:
            if not self.rules.hierarchy:
                return self.flat_key(branch, below, capacity)
            asked = {j for leaf in below for pod in offers[leaf.name] for j in resources(pod.spec.request)}
            held, due = self.held(branch), entitled_below(branch, wishes)
            want = max(self.want(due.get(j, Fraction(0)), held.get(j, 0), capacity[j], bool(owed)) for j in asked)
            return (self.tiers(branch), -on_grid(want), self.latest(branch), branch.rank)

        name = walk(root, candidates, key).name
        return offers[name], name in owed

    @staticmethod
    def want(entitled: Fraction, held: int, whole: int, owed: bool) -> Fraction:
        """How far below its entitlement somebody is: as a part of it, or when room is lent, of the cluster."""
        if owed:
            return (entitled - held) / entitled if entitled else Fraction(0)
        return (entitled - held) / (whole or 1)

    def flat_key(self, branch: Branch, below: list[Branch], capacity: Vector) -> Key:
        """Jobs and namespaces by their share of the cluster; a queue is as good as the best below it."""
        if branch.kind == 0:
            those = [(child, [leaf for leaf in child.jobs() if leaf in below]) for child in branch.children]
            best = min(self.flat_key(child, leaves, capacity) for child, leaves in those if leaves)
            return (*best, branch.rank)  # namespaces of different queues can have the same name
        held = self.held(branch)
        share = max([amount / capacity[j] if capacity[j] else 1.0 for j, amount in held.items()], default=0.0)
        return (self.tiers(branch), on_grid(share / branch.weight), self.latest(branch), branch.rank)

    def owed(self, key: str, unit: list[Pod], wishes: dict[str, Wish]) -> bool:
        """Whether the unit stays within the job's whole target on every resource it asks for."""
        if not self.rules.hierarchy:
            return True
        wish, ask = wishes[key], self.asks(unit)
        held = self.job_holds(key)
        return all(held.get(j, 0) + amount <= wish.whole.get(j, 0) for j, amount in ask.items())

    def tiers(self, branch: Branch) -> tuple[int, ...]:
        """What decides among jobs before their share: priority, then those that have not started."""
        if branch.job is None:
            return ()
        return (-self.job_priority(branch.job), int(self.started(branch.job)))

    def latest(self, branch: Branch) -> int:
        """When somebody below was last served, of what still runs."""
        pods = [pod for leaf in branch.jobs() for pod in self.tasks(leaf.name)]
        return max((pod.started for pod in pods if pod.status.held), default=0)

    def asks(self, pods: list[Pod]) -> Amounts:
        """What these ask for together, places aside."""
        return add_up([{j: pod.spec.request[j] for j in resources(pod.spec.request)} for pod in pods])

    def job_holds(self, key: str) -> Amounts:
        """What a job holds."""
        return self.asks([pod for pod in self.tasks(key) if pod.status.held])

    def held(self, branch: Branch) -> Amounts:
        """What the jobs below hold."""
        return add_up([self.job_holds(leaf.name) for leaf in branch.jobs()])

    def wish(self, job: JobSpec, takes_work: bool) -> Wish:
        """What a job asks for, as far as it can ever run, and what it has."""
        tasks = [pod for pod in self.tasks(job.key) if pod.status.unfinished and resources(pod.spec.request)]
        unfinished = [pod for pod in self.tasks(job.key) if pod.status.unfinished]
        gang = self.gang(job) - (len(unfinished) - len(tasks))  # those that ask for nothing cost nothing
        wanted = [p for p in tasks if p.status.held or (takes_work and self.possible(p.spec))]
        waiting = [p for p in wanted if not p.status.held]
        if waiting and not self.can_ever_start(job):
            wanted = [p for p in wanted if p.status.held]
        gang = max(1, min(gang, len(wanted)))
        first = self.gang_tasks(self.as_far_as(job, wanted), gang, wanted, [])
        floor = {j: amount for j, amount in enumerate(job.min_resources) if amount and j != 2} if takes_work else {}
        started = [pod.started for pod in tasks if pod.status.held and pod.owed]
        return Wish(
            tasks=[self.asks([pod]) for pod in wanted],
            floor=floor,
            gang=gang,
            first=[wanted.index(pod) for pod in first],
            any_first=gang == 1 and not job.min_task_member,
            rank=(-self.job_priority(job),),
            held=self.job_holds(job.key),
            tiers=(-self.job_priority(job), int(self.started(job))),
            served=max(started, default=0),
        )

    def as_far_as(self, job: JobSpec, wanted: list[Pod]) -> JobSpec:
        """The job with role minimums less what has succeeded, at most what is there."""
        succeeded = Counter(p.spec.role for p in self.tasks(job.key) if p.status is TaskStatus.SUCCEEDED)
        there = Counter(pod.spec.role for pod in wanted)
        least = {role: min(n - succeeded[role], there[role]) for role, n in job.min_task_member.items()}
        return replace(job, min_task_member={role: max(0, n) for role, n in least.items()})

    def possible(self, spec: TaskSpec) -> bool:
        """Whether some empty node would do."""
        return any(could_ever(spec, node, self.rules.nodes) for node in self.nodes.values())

    def can_ever_start(self, job: JobSpec) -> bool:
        """Whether what it must start with would fit the empty cluster, shape by shape; pods to come may help."""
        tasks = self.tasks(job.key)
        waiting = [pod for pod in tasks if pod.status is TaskStatus.PENDING]
        there = [pod for pod in tasks if pod.status.held or pod.status is TaskStatus.SUCCEEDED]
        missing = self.missing(job)
        if missing <= 0 or not self.gang_tasks(job, missing, waiting, there):
            return True
        unit = self.gang_tasks(job, missing, [pod for pod in waiting if self.possible(pod.spec)], there)
        alike = [[p for p in unit if self.shape(p.spec) == self.shape(pod.spec)] for pod in unit]
        nodes = list(self.nodes.values())
        return bool(unit) and all(
            self.coupled(pods[0].spec) or slots(pods[0].spec, nodes, self.rules.nodes) >= len(pods) for pods in alike
        )
