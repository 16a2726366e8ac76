"""The engine decides what the slow scheduler decides: same binds, same order, same nodes, cycle after cycle.

Random small clusters in the style of workload E: labelled and tainted nodes, a tree of queues with weights, two
namespaces, gangs, unlike tasks, selectors, affinities, spreading, priorities; about half again as much demand as
capacity; tasks end, jobs come and go and nodes, queues and weights change between cycles.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.workload import GPU
from benchmarks.workload_e import WorkloadE
from kubebase.label_selector import Requirement
from pumice.engine.config.scheduler_config import parse_config
from pumice.engine.decisions import Bind
from pumice.engine.engine import Engine
from pumice.engine.events import BindFailed, Changed, Event, Gone
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.model.specs import (
    FREE,
    Constraints,
    JobPhase,
    JobSpec,
    NodeSpec,
    NodeTerm,
    PodTerm,
    PriorityClass,
    Queue,
    QueueState,
    Quota,
    Spread,
    Taint,
    TaskSpec,
    TaskStatus,
    Toleration,
)
from tests.oracles.slow_nodes import NodeRules
from tests.oracles.slow_scheduler import Rules, SlowScheduler
from tests.support.examples import fewer_examples

CONFIG = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}]
- plugins:
  - name: drf
    enableHierarchy: {hierarchy}
    enableNamespaceOrder: {namespaces}
    arguments: {{drf.patience: {patience}, drf.holdLimit: {limit}}}
{nodes}"""

GI = 2**30
STEP = 50_000_000  # 50 s between cycles
TOPOLOGIES = ("zone", "hostname")

seeds = st.integers(0, 2**32)


def make_engine(rules: Rules) -> Engine:
    """An engine with the configuration that the rules stand for."""
    nodes = [name for name in ("predicates", "nodeorder") if getattr(rules.nodes, name)]
    text = CONFIG.format(
        hierarchy=str(rules.hierarchy).lower(),
        namespaces=str(rules.namespaces).lower(),
        patience=rules.patience,
        limit=rules.hold_limit,
        nodes="".join(f"  - name: {name}\n" for name in nodes),
    )
    engine = Engine(
        parse_config(text, known_plugins=BUILT_IN, known_actions=["enqueue", "allocate", "backfill"]), BUILT_IN
    )
    engine.state.registry.index(GPU)
    return engine


@dataclass
class Cluster:
    """A random cluster: first ``start``, then any number of ``step``. Everything is drawn from ``rng``."""

    rng: random.Random
    constrained: float = 0.3  # part of the jobs that say where they run
    unlike: float = 0.2  # part of the jobs whose tasks differ
    upheaval: float = 0.1  # chance of each kind of change to nodes, queues and weights per step
    ending: float = 0.3  # chance of a task that runs to end per step
    alike: bool = False  # whether all tasks ask for the same, so that ties are everywhere
    nodes: dict[str, NodeSpec] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    jobs: dict[str, JobSpec] = field(default_factory=dict)
    tasks: dict[str, TaskSpec] = field(default_factory=dict)
    number: int = 0

    def start(self) -> Iterator[Event]:
        """Nodes, queues, weights, classes; and jobs for half again what the nodes have."""
        for i in range(self.rng.randint(3, 8)):
            yield self._node(f"n{i}")
        yield from self._queue_tree()
        for namespace in ("blue", "green"):
            if self.rng.random() < 0.6:
                yield Changed(Quota(namespace, "quota", self.rng.randint(1, 3)))
        yield Changed(PriorityClass("high", 10))
        yield from self._arrivals()

    def step(self, held: dict[str, tuple[str, TaskStatus]]) -> Iterator[Event]:
        """Some of what runs ends, some changes, and new jobs come. ``held``: node and status of tasks on nodes."""
        rng = self.rng
        for key, (node, status) in held.items():
            luck, spec = rng.random(), self.tasks[key]
            if luck < self.ending * 0.8:
                yield self._task(replace(spec, node=node, status=rng.choice([TaskStatus.SUCCEEDED, TaskStatus.FAILED])))
            elif luck < self.ending:
                yield self._gone(key)
            elif luck < self.ending + 0.03 and status is not TaskStatus.RELEASING:
                yield self._task(replace(spec, node=node, status=TaskStatus.RELEASING))
            elif luck < self.ending + 0.06 and status is TaskStatus.BINDING:
                yield BindFailed(key)
            elif luck < self.ending + 0.4 and status is TaskStatus.BINDING:
                yield self._task(replace(spec, node=node, status=TaskStatus.RUNNING))
        yield from self._upheavals()
        for key in list(self.jobs):
            mine = [task for task in self.tasks.values() if task.job == key]
            if all(task.status > TaskStatus.RELEASING for task in mine) or rng.random() < 0.03:
                for task in mine:
                    yield self._gone(task.key)
                yield Gone(JobSpec, key)
                del self.jobs[key]
        yield from self._arrivals()

    # --- changes ---------------------------------------------------------------------------------------------------

    def _upheavals(self) -> Iterator[Event]:
        rng = self.rng
        if rng.random() < self.upheaval:
            name = rng.choice(list(self.nodes))
            self.nodes[name] = replace(self.nodes[name], unschedulable=not self.nodes[name].unschedulable)
            yield Changed(self.nodes[name])
        if rng.random() < self.upheaval:
            yield self._node(f"n{rng.randint(0, 8)}")
        if rng.random() < self.upheaval and len(self.nodes) > 3:
            name = rng.choice(list(self.nodes))
            del self.nodes[name]
            yield Gone(NodeSpec, name)
        if rng.random() < self.upheaval:
            queue = rng.choice(list(self.queues.values()))
            weights = queue.path_weights.rsplit("/", 1)[0] + rng.choice(["/1", "/3"])
            self.queues[queue.name] = replace(queue, path_weights=weights)
            yield rng.choice([Changed(self.queues[queue.name]), Gone(Queue, queue.name)])
        if rng.random() < self.upheaval:
            name = rng.choice(list(self.queues))
            state = QueueState.CLOSED if self.queues[name].state is QueueState.OPEN else QueueState.OPEN
            self.queues[name] = replace(self.queues[name], state=state)
            yield Changed(self.queues[name])
        if rng.random() < self.upheaval:
            yield Changed(Quota(rng.choice(["blue", "green"]), "quota", rng.randint(1, 3)))
        if rng.random() < self.upheaval:
            yield Changed(PriorityClass("high", rng.choice([0, 10])))
        if rng.random() < self.upheaval and self.jobs:
            job = rng.choice(list(self.jobs))
            self.jobs[job] = replace(self.jobs[job], min_member=rng.randint(1, 4))
            yield Changed(self.jobs[job])
        if rng.random() < self.upheaval:
            self.number += 1
            request = (rng.randint(0, 6000), rng.randint(0, 6) * GI, 1)
            where = rng.choice(list(self.nodes))
            yield self._task(
                TaskSpec("kube", f"foreign{self.number}", request, node=where, status=TaskStatus.RUNNING, managed=False)
            )

    def _task(self, spec: TaskSpec) -> Changed:
        self.tasks[spec.key] = spec
        return Changed(spec)

    def _gone(self, key: str) -> Gone:
        del self.tasks[key]
        return Gone(TaskSpec, key)

    # --- nodes and queues --------------------------------------------------------------------------------------------

    def _node(self, name: str) -> Changed:
        rng = self.rng
        cpu, memory = rng.choice([4000, 8000, 8000, 16000]), rng.choice([8, 16, 32]) * GI
        labels = {"hostname": name, "disk": rng.choice(["ssd", "hdd"])}
        if rng.random() < 0.9:
            labels["zone"] = rng.choice("abc")
        taints = [
            Taint(key, "", effect)
            for key, effect in (("gpu", "NoSchedule"), ("old", "PreferNoSchedule"))
            if rng.random() < 0.2
        ]
        offered = (cpu, memory, rng.choice([4, 110, 110]), rng.choice([0, 0, 2000, 4000]))
        self.nodes[name] = NodeSpec(name, offered, labels=labels, taints=tuple(taints))
        return Changed(self.nodes[name])

    def _queue_tree(self) -> Iterator[Changed]:
        """Queues two to four levels below the root."""
        rng = self.rng
        paths: list[tuple[str, str]] = []

        def grow(path: str, weights: str, depth: int) -> None:
            for i in range(rng.randint(1, 3)):
                here = f"{path}/{'abcd'[depth]}{i}", f"{weights}/{rng.choice(['1', '1', '2', '3', '0.5'])}"
                if depth < 3 and rng.random() < (0.7 if depth < 1 else 0.35):
                    grow(*here, depth + 1)
                else:
                    paths.append(here)

        grow("root", "1", 0)
        for i, (path, weights) in enumerate(paths):
            queue = Queue(f"q{i}", created=rng.randint(0, 3), path=path, path_weights=weights)
            self.queues[queue.name] = queue
            yield Changed(queue)

    # --- jobs ---------------------------------------------------------------------------------------------------

    def _arrivals(self) -> Iterator[Changed]:
        while self._asked() < 1.5 and len(self.jobs) < 25:
            yield from self._job()

    def _asked(self) -> float:
        """The part of the nodes' cpu or memory that unfinished tasks ask for, whichever is more."""
        unfinished = [task for task in self.tasks.values() if task.status.unfinished]
        offered = [sum(node.allocatable[j] for node in self.nodes.values()) for j in (0, 1)]
        return max(sum(task.request[j] for task in unfinished) / offered[j] for j in (0, 1))

    def _job(self) -> Iterator[Changed]:
        rng = self.rng
        self.number += 1
        namespace, name = rng.choice(["blue", "green"]), f"job{self.number}"
        size = rng.choice([1, 1, 2, 3, 4, 6])
        unlike = rng.random() < self.unlike
        requests = [self._request() for _ in range(rng.choice([2, 2, 3]) if unlike else 1)]
        labels = {"app": rng.choice("xyz")}
        places = [self._constraints() if rng.random() < self.constrained else FREE for _ in requests]
        roles = {"lead": 1} if unlike and rng.random() < 0.3 else {}
        job = JobSpec(
            namespace,
            name,
            rng.choice(list(self.queues)),
            created=rng.randint(0, 5),
            min_member=rng.choice([1, 1, size, rng.randint(1, size)]),
            min_task_member=roles,
            min_resources=rng.choice([(), (), (), (2000, 6 * GI, 0, 0), (0, 0, 4, 1000), (24000, 0, 0, 0)]),
            priority_class=rng.choice([None, None, None, "high"]),
            phase=rng.choice([JobPhase.INQUEUE, JobPhase.PENDING]),
        )
        self.jobs[job.key] = job
        yield Changed(job)
        for i in range(size):
            kind = rng.randrange(len(requests))
            spec = TaskSpec(
                namespace,
                f"{name}-t-{5 * i}",  # names do not sort as numbers do
                requests[kind],
                job=job.key,
                role="lead" if roles and i == size - 1 else "",
                priority=rng.choice([None, None, None, 5]) if unlike else None,
                labels=labels,
                constraints=places[kind],
            )
            yield self._task(spec)

    def _request(self) -> tuple[int, ...]:
        rng = self.rng
        if self.alike:
            return (1000, 2 * GI, 1, 0)
        if rng.random() < 0.05:
            return (0, 0, 1, 0)  # nothing but a place
        cpu, memory = rng.choice([0, 500, 1000, 2000, 3000]), rng.choice([1, 1, 2, 4, 6]) * GI
        return (cpu, memory, 1, rng.choice([0, 0, 0, 0, 1000, 2000]))

    def _constraints(self) -> Constraints:
        rng = self.rng
        term = PodTerm(rng.choice(TOPOLOGIES), (Requirement("app", "In", (rng.choice("xyz"),)),), None)
        spread = Spread(rng.choice(TOPOLOGIES), rng.randint(1, 2), (Requirement("app", "In", (rng.choice("xyz"),)),))
        return rng.choice(
            [
                Constraints(node_selector=(("disk", "ssd"),)),
                Constraints(node_required=(NodeTerm((Requirement("zone", "In", ("a", "b")),)),)),
                Constraints(node_preferred=(NodeTerm((Requirement("zone", "In", ("a",)),), weight=5),)),
                Constraints(tolerations=(Toleration("gpu", "Exists"),)),
                Constraints(affinity=(term,)),
                Constraints(anti_affinity=(term,)),
                Constraints(anti_affinity=(replace(term, topology_key="hostname"),)),
                Constraints(spread=(spread,)),
                Constraints(spread=(replace(spread, hard=False),)),
                Constraints(ports=(("TCP", "0.0.0.0", 80),)),
            ]
        )


class Rivals:
    """The slow scheduler and the engine on the same events."""

    def __init__(self, rules: Rules) -> None:
        self.slow = SlowScheduler(rules)
        self.engine = make_engine(rules)
        self.cycles = 0

    def agree(self, events: Iterable[Event]) -> list[tuple[str, str]]:
        """Both take the events and decide; returns what they agree on."""
        for event in events:
            self.slow.apply(event)
            self.engine.apply(event)
        now = self.cycles * STEP
        expected = self.slow.cycle(now)
        decided = [(d.task, d.node) for d in self.engine.cycle(now) if isinstance(d, Bind)]
        assert decided == expected, f"cycle {self.cycles}"
        self.engine.validate()
        self.cycles += 1
        return expected

    def on_nodes(self) -> dict[str, tuple[str, TaskStatus]]:
        """Node and status of every task that occupies one."""
        pods = self.slow.pods.items()
        return {key: (pod.node, pod.status) for key, pod in pods if pod.node is not None and pod.status.on_node}


def compare(rng: random.Random, rules: Rules, cycles: int, **shape: float) -> int:
    """Run both side by side; returns how many binds they agreed on."""
    cluster, rivals = Cluster(rng, **shape), Rivals(rules)
    agreed = len(rivals.agree(cluster.start()))
    for _ in range(cycles - 1):
        agreed += len(rivals.agree(cluster.step(rivals.on_nodes())))
    return agreed


steer, flat = Rules(), Rules(hierarchy=False)
bare = NodeRules(predicates=False, nodeorder=False)


@fewer_examples(6)
@given(seeds)
def test_steer_decides_like_the_slow_scheduler(seed):
    compare(random.Random(seed), steer, cycles=4)


@fewer_examples(10)
@given(seeds, st.sampled_from([0.3, 0.8]))
def test_steer_where_all_tasks_are_alike(seed, ending):
    compare(random.Random(seed), steer, cycles=5, alike=True, unlike=0, constrained=0, upheaval=0, ending=ending)


@fewer_examples(10)
@given(seeds)
def test_steer_where_nodes_and_queues_come_and_go(seed):
    compare(random.Random(seed), steer, cycles=5, upheaval=0.4)


@fewer_examples(10)
@given(seeds)
def test_steer_without_namespaces_and_node_plugins(seed):
    compare(random.Random(seed), Rules(namespaces=False, nodes=bare), cycles=4, unlike=0.4)


@fewer_examples(10)
@given(seeds, st.sampled_from([0, 60]))
def test_steer_keeps_room_like_the_slow_scheduler(seed, patience):
    # Steps of 50 s and a limit of 120 s: holds begin at once or after two cycles, and some give up.
    compare(random.Random(seed), Rules(patience=patience), cycles=6)


def test_steer_keeps_room_for_the_owed_one_of_unlike_tasks():
    # In the third cycle no task of a job of unlike tasks fits: room is kept for the one that is owed, not the first.
    compare(random.Random(180), Rules(patience=0), cycles=3, upheaval=0.2, unlike=0.3)


@fewer_examples(6)
@given(seeds)
def test_flat_drf_decides_like_the_slow_scheduler(seed):
    compare(random.Random(seed), flat, cycles=4)


@fewer_examples(10)
@given(seeds)
def test_flat_drf_without_namespaces_and_node_plugins(seed):
    compare(random.Random(seed), Rules(hierarchy=False, namespaces=False, nodes=bare), cycles=4, upheaval=0.3)


@fewer_examples(3)
@given(seeds, st.booleans())
def test_the_order_of_arrival_decides_nothing(seed, hierarchy):
    rng = random.Random(seed)
    events = list(Cluster(rng).start())
    shuffled = rng.sample(events, len(events))
    decisions = []
    for order in (events, shuffled):
        engine = make_engine(Rules(hierarchy=hierarchy))
        for event in order:
            engine.apply(event)
        decisions.append([(d.task, d.node) for d in engine.cycle(0) if isinstance(d, Bind)])
    assert decisions[0] == decisions[1]


@fewer_examples(30)
@given(st.integers(1, 1000))
def test_a_small_workload_e(seed):
    workload, rivals = WorkloadE.load(scale=0.002), Rivals(steer)
    workload.spec["seed"] = seed
    agreed = len(rivals.agree(workload.events(rivals.engine.state.registry)))
    agreed += len(rivals.agree(workload.round(rivals.engine.state, 1)))
    assert agreed > 20  # of some 100 tasks, for two thirds of which there is room


@pytest.mark.long
@pytest.mark.parametrize("hierarchy", [True, False])
@pytest.mark.parametrize("patience", [-1, 0])
def test_many_clusters(hierarchy, patience):
    agreed = [
        compare(random.Random(seed), Rules(hierarchy, patience=patience), cycles=7, upheaval=0.2, unlike=0.3)
        for seed in range(400)
    ]
    print(f"\nhierarchy {hierarchy}, patience {patience}: {sum(agreed)} binds in 400 clusters of 7 cycles,", end=" ")
    print(f"{min(agreed)} to {max(agreed)} each")
    assert sum(agreed) > 10_000
