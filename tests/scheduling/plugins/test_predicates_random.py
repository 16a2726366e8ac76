"""The filters against the slow and obvious reference, on random small clusters that keep changing."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from pumice.model.accounts import Task
from pumice.model.objects import (
    Constraints,
    NodeSpec,
    NodeTerm,
    PodTerm,
    Requirement,
    Spread,
    Taint,
    TaskSpec,
    TaskStatus,
    Toleration,
)
from pumice.scheduling.plugins.predicates import PredicatesPlugin
from pumice.scheduling.plugins.predicates import census as census_module
from tests.oracles.kube_filters import may_run
from tests.support.clusters import Cluster

NAMESPACES = ("one", "two")
VALUES = ("1", "2", "3")
TOPOLOGIES = ("zone", "rack", "host")


def labels(keys: tuple[str, ...]) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(keys), st.sampled_from(VALUES))


def requirements(keys: tuple[str, ...], operators: tuple[str, ...]) -> st.SearchStrategy[Requirement]:
    def make(key: str, operator: str, values: list[str]) -> Requirement:
        count = {"Exists": 0, "DoesNotExist": 0, "Gt": 1, "Lt": 1}.get(operator, len(values))
        return Requirement(key, operator, tuple(sorted(values[:count])))

    some = st.lists(st.sampled_from(VALUES), min_size=1, max_size=2, unique=True)
    return st.builds(make, st.sampled_from(keys), st.sampled_from(operators), some)


def tuples(items: st.SearchStrategy, most: int) -> st.SearchStrategy[tuple]:
    return st.lists(items, max_size=most, unique=True).map(tuple)


pod_requirements = requirements(("app", "tier"), ("In", "In", "In", "NotIn", "Exists", "DoesNotExist"))
selectors = st.none() | tuples(pod_requirements, 2)
pod_terms = st.builds(
    PodTerm,
    st.sampled_from(TOPOLOGIES),
    selectors,
    st.none() | st.sampled_from([("one",), ("two",), NAMESPACES]),
)
node_terms = st.builds(
    NodeTerm,
    tuples(requirements(("zone", "disk"), ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")), 2),
    tuples(st.sampled_from([Requirement("metadata.name", op, ("n0", "n2")) for op in ("In", "NotIn")]), 1),
)
taints = st.builds(
    Taint,
    st.sampled_from(("gpu", "old")),
    st.sampled_from(("", "1")),
    st.sampled_from(("NoSchedule", "NoExecute", "PreferNoSchedule")),
)
tolerations = st.builds(
    Toleration,
    st.sampled_from(("gpu", "old")),
    st.just("Equal"),
    st.sampled_from(("", "1")),
    st.sampled_from(("", "NoSchedule", "NoExecute")),
) | st.builds(Toleration, st.sampled_from(("", "gpu")), st.just("Exists"))
spread_constraints = st.builds(
    Spread,
    st.sampled_from(TOPOLOGIES),
    st.integers(1, 2),
    selectors,
    hard=st.sampled_from([True, True, False]),
    min_domains=st.integers(1, 3),
    honor_affinity=st.booleans(),
    honor_taints=st.booleans(),
)
ports = st.tuples(
    st.sampled_from(("TCP", "UDP")),
    st.sampled_from(("0.0.0.0", "10.0.0.1", "10.0.0.2")),
    st.sampled_from((80, 443)),
)
constraint_sets = st.builds(
    Constraints,
    node_selector=st.sampled_from([(), (), (), (("disk", "1"),)]),
    node_required=st.none() | st.none() | tuples(node_terms, 2),
    tolerations=tuples(tolerations, 2),
    ports=tuples(ports, 2),
    affinity=tuples(pod_terms, 2),
    anti_affinity=tuples(pod_terms, 2),
    spread=tuples(spread_constraints, 2),
)
# Pods that are bound by little show most of what other pods do to them.
light_constraint_sets = st.one_of(
    st.just(Constraints()),
    st.builds(Constraints, anti_affinity=tuples(pod_terms, 1)),
    st.builds(Constraints, affinity=tuples(pod_terms, 2)),
    st.builds(Constraints, spread=tuples(spread_constraints, 2)),
    st.builds(Constraints, ports=tuples(ports, 2)),
)
node_labels = labels(("zone", "rack", "host", "disk"))


@dataclass
class World:
    """A cluster under test, and beside it all that the reference needs."""

    cluster: Cluster = field(default_factory=lambda: Cluster(PredicatesPlugin({})))
    nodes: dict[str, NodeSpec] = field(default_factory=dict)
    pods: list[Task] = field(default_factory=list)

    def describe(
        self, i: int, labels: dict[str, str], its_taints: tuple[Taint, ...], unschedulable: bool
    ) -> None:
        self.cluster.node(f"n{i}", labels, taints=its_taints, unschedulable=unschedulable)
        spec = self.cluster.state.nodes[f"n{i}"].spec
        assert spec is not None
        self.nodes[spec.name] = spec

    def put(self, i: int, where: str | None, status: TaskStatus | None = None) -> None:
        """Describe a pod again: on another node, or pending."""
        spec = self.pods[i].spec
        self.pods[i] = self.cluster.pod(
            spec.name,
            spec.labels,
            on=where,
            constraints=spec.constraints,
            namespace=spec.namespace,
            status=status,
        )

    def expected(self, task: Task) -> set[str]:
        nodes = list(self.nodes.values())
        placed: list[tuple[TaskSpec, str, bool]] = [
            (pod.spec, pod.node.name, pod.status is TaskStatus.RELEASING)
            for pod in self.pods
            if pod.node is not None and pod.status.on_node
        ]
        return {node.name for node in nodes if all(may_run(task.spec, node, nodes, placed).values())}

    def check(self) -> None:
        for task in self.pods:
            if task.status is TaskStatus.PENDING:
                assert self.cluster.allowed(task) == self.expected(task), task.spec
        self.cluster.plugin._census.validate()


@st.composite
def worlds(draw: st.DrawFn) -> World:
    world = World()
    for i in range(draw(st.integers(1, 5))):
        world.describe(
            i, draw(node_labels), draw(tuples(taints, 1)), draw(st.booleans()) and draw(st.booleans())
        )
    for i in range(draw(st.integers(2, 7))):
        world.pods.append(
            world.cluster.pod(
                f"p{i}",
                draw(labels(("app", "tier", "other"))),
                constraints=draw(light_constraint_sets | constraint_sets),
                namespace=draw(st.sampled_from(NAMESPACES)),
            )
        )
    return world


moves = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 6), st.integers(0, 5)),  # n5 is never described
        st.tuples(st.just("put"), st.integers(0, 6), st.integers(0, 5)),
        st.tuples(st.just("delete"), st.integers(0, 6), st.integers(0, 5)),
        st.tuples(st.just("take"), st.integers(0, 6), st.just(0)),
        st.tuples(st.just("ask"), st.just(0), st.just(0)),
    ),
    max_size=14,
)


@given(worlds(), moves, node_labels, tuples(taints, 1))
def test_filters_agree_with_the_reference(world, moves, new_labels, new_taints):
    for move, pod, node in moves:
        if move == "ask":
            world.check()
        elif pod < len(world.pods):
            status = TaskStatus.RELEASING if move == "delete" else None
            world.put(pod, None if move == "take" else f"n{node}", status)
    world.check()
    world.describe(0, new_labels, new_taints, False)
    world.check()


@given(worlds(), moves)
def test_filters_agree_however_few_counters_are_kept(world, moves):
    most, census_module.MOST_COUNTERS = census_module.MOST_COUNTERS, 1
    try:
        for move, pod, node in moves:
            if move == "ask":
                world.check()
            elif pod < len(world.pods):
                world.put(pod, None if move == "take" else f"n{node}")
        world.check()
    finally:
        census_module.MOST_COUNTERS = most


def snapshot(world: World) -> tuple[dict, dict, dict, dict]:
    """All groups and counters, by value."""
    census = world.cluster.plugin._census
    groups = {key: {n.name: count for n, count in pods.where.items()} for key, pods in census._groups.items()}
    counters = {key: (c.counts.tolist(), c.total) for key, c in census._counters.items()}
    terms = {pair: set(terms) for pair, terms in census._terms_with.items()}
    handles = {handle: len(pods) for handle, pods in census._groups_with.items()}
    return groups, counters, terms, handles


@given(
    worlds(),
    st.lists(st.integers(0, 5), max_size=4),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5), st.booleans()), max_size=8),
)
def test_what_is_placed_and_removed_leaves_no_trace(world, running, tried):
    plugin, cluster = world.cluster.plugin, world.cluster
    for pod, node in enumerate(running[: len(world.pods)]):
        world.put(pod, f"n{node}")
    for task in world.pods:  # from here on every question but those about carried terms is known
        cluster.allowed(task)
    before = snapshot(world)
    waiting = {i: task for i, task in enumerate(world.pods) if task.status is TaskStatus.PENDING}
    done = []
    for pod, node, ask in tried:
        machine = cluster.state.nodes.get(f"n{node}")
        if pod in waiting and machine is not None:
            task = waiting.pop(pod)
            plugin.placed(task, machine)
            done.append((task, machine))
            if ask:  # otherwise it may be gone before anybody looked
                cluster.allowed(world.pods[0])
                plugin._census.validate()
    for task, machine in reversed(done):
        plugin.removed(task, machine)
    world.check()
    groups, counters, terms, handles = snapshot(world)
    assert (groups, terms, handles) == (before[0], before[2], before[3])
    assert {key: counters[key] for key in before[1]} == before[1]
    assert not any(total for key, (_, total) in counters.items() if key not in before[1])
