"""Where one task goes, the slow and obvious way: look at every node, keep those it may and can use, take the best.

May: ``kube_filters``. Can: the node has what the task asks for left. Best: the sum of nodeorder's scores with the
weights it has unless told otherwise; among equals the node whose name sorts first. The floating point operations
come in the order in which the product has them, so that equal scores are equal here and there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from kubebase.resource_vector import CPU, MEMORY, PODS, Vector
from pumice.model.specs import NodeSpec, TaskSpec, TaskStatus
from tests.oracles.kube_filters import Placed, covers, may_run, picks, selected, spread_counts, tolerated

LEAST, BALANCED, AFFINITY, TAINTS, SPREAD = 1.0, 1.0, 2.0, 3.0, 2.0  # nodeorder's default weights


Needs = dict[str, dict[int, int]]
"""By node, amounts that must stay for somebody."""


@dataclass
class Pod:
    """A task as it stands: what was asked for, and what became of it."""

    spec: TaskSpec
    status: TaskStatus
    node: str | None = None
    started: int = 0
    owed: bool = True  # whether its job was owed when it started


@dataclass(frozen=True)
class NodeRules:
    """Which of the plugins that have a say about nodes are on."""

    predicates: bool = True
    nodeorder: bool = True


def amount(vector: Vector, j: int) -> int:
    """An entry of a vector that may be older, and so shorter, than the registry."""
    return vector[j] if j < len(vector) else 0


def resources(vector: Vector) -> list[int]:
    """The resources that a request counts for in shares."""
    return [j for j, asked in enumerate(vector) if asked and j != PODS]


def idle(node: NodeSpec, pods: Sequence[Pod]) -> list[int]:
    """What nobody on the node uses."""
    left = list(node.allocatable)
    for pod in pods:
        if pod.node == node.name and pod.status.on_node:
            for j, asked in enumerate(pod.spec.request):
                if asked:
                    left.extend([0] * (j + 1 - len(left)))
                    left[j] -= asked
    return left


def has_room(node: NodeSpec, pods: Sequence[Pod], request: Vector) -> bool:
    """Whether the node has the request left."""
    left = tuple(idle(node, pods))
    return all(amount(left, j) >= asked for j, asked in enumerate(request) if asked)


def placed(pods: Sequence[Pod]) -> Placed:
    """The pods on nodes, as the filters read them."""
    return [
        (pod.spec, pod.node, pod.status is TaskStatus.RELEASING)
        for pod in pods
        if pod.node is not None and pod.status.on_node
    ]


def could_ever(task: TaskSpec, node: NodeSpec, rules: NodeRules) -> bool:
    """Whether the task would fit the node if that were empty, whatever other pods do."""
    if not node.ready or node.unschedulable:
        return False
    if rules.predicates and not (selected(task, node) and tolerated(task, node)):
        return False
    return all(amount(node.allocatable, j) >= asked for j, asked in enumerate(task.request) if asked)


def slots(task: TaskSpec, nodes: Sequence[NodeSpec], rules: NodeRules) -> int:
    """How many tasks like this would fit if all nodes were empty, whatever other pods do."""
    asked = [(j, a) for j, a in enumerate(task.request) if a]
    return sum(
        min(amount(node.allocatable, j) // a for j, a in asked) for node in nodes if could_ever(task, node, rules)
    )


def allowed(task: TaskSpec, node: NodeSpec, nodes: Sequence[NodeSpec], pods: Sequence[Pod], rules: NodeRules) -> bool:
    """Whether the task may run on the node, apart from room."""
    if not rules.predicates:
        return node.ready and not node.unschedulable
    return all(may_run(task, node, nodes, placed(pods)).values())


def eats(task: TaskSpec, node: NodeSpec, pods: Sequence[Pod], kept: Sequence[Needs]) -> bool:
    """Whether the task would take room on the node that is kept for somebody."""
    left = tuple(idle(node, pods))
    for needs in kept:
        for j, a in needs.get(node.name, {}).items():
            if amount(task.request, j) and amount(left, j) - task.request[j] < a:
                return True
    return False


def fits_somewhere(
    task: TaskSpec, nodes: Sequence[NodeSpec], pods: Sequence[Pod], rules: NodeRules, kept: Sequence[Needs] = ()
) -> bool:
    """Whether a task that no other pod concerns has a place now."""
    return any(
        could_ever(task, node, rules) and has_room(node, pods, task.request) and not eats(task, node, pods, kept)
        for node in nodes
    )


def best_node(
    task: TaskSpec, nodes: Sequence[NodeSpec], pods: Sequence[Pod], rules: NodeRules, kept: Sequence[Needs] = ()
) -> str | None:
    """The node that suits the task best now."""
    best: tuple[float, str] | None = None
    for node in sorted(nodes, key=lambda node: node.name):
        if not has_room(node, pods, task.request) or eats(task, node, pods, kept):
            continue
        if allowed(task, node, nodes, pods, rules):
            score = node_score(task, node, nodes, pods) if rules.nodeorder else 0.0
            if best is None or score > best[0]:
                best = score, node.name
    return best[1] if best is not None else None


def node_score(task: TaskSpec, node: NodeSpec, nodes: Sequence[NodeSpec], pods: Sequence[Pod]) -> float:
    """All of nodeorder's scores together."""
    parts = [affinity_score(task, node, nodes), taint_score(task, node, nodes)]
    total = add_up([part for part in parts if part is not None])
    total += 100.0 * BALANCED
    left = tuple(idle(node, pods))
    for j in (CPU, MEMORY):
        total += 100.0 * LEAST / 2 * idle_part(task, node, left, j)
    even = sorted({CPU, MEMORY, *resources(task.request)})
    total -= 100.0 * BALANCED * deviation([idle_part(task, node, left, j) for j in even])
    return total + spread_score(task, node, nodes, pods)


def idle_part(task: TaskSpec, node: NodeSpec, left: Vector, j: int) -> float:
    """What stays idle of a resource once the task is there, as a part of what the node has."""
    offered = amount(node.allocatable, j)
    return (amount(left, j) - amount(task.request, j)) / offered if offered > 0 else 0.0


def deviation(parts: list[float]) -> float:
    """The standard deviation."""
    if len(parts) == 2:
        return abs(parts[0] - parts[1]) / 2.0
    mean = add_up(parts) / len(parts)
    return sqrt(add_up([(part - mean) * (part - mean) for part in parts]) / len(parts))


def affinity_score(task: TaskSpec, node: NodeSpec, nodes: Sequence[NodeSpec]) -> float | None:
    """The weights of the preferred terms that the node meets, against the node that meets most."""

    def met(node: NodeSpec) -> int:
        return sum(
            term.weight
            for term in task.constraints.node_preferred
            if (term.labels or term.fields)
            and picks(term.labels, node.labels)
            and picks(term.fields, {"metadata.name": node.name})
        )

    most = max(met(other) for other in nodes)
    return met(node) * (100.0 * AFFINITY / most) if most > 0 else None


def taint_score(task: TaskSpec, node: NodeSpec, nodes: Sequence[NodeSpec]) -> float | None:
    """Full where no soft taint is untolerated, nothing where most are."""

    def disliked(node: NodeSpec) -> int:
        return sum(
            1
            for taint in node.taints
            if taint.effect == "PreferNoSchedule"
            and not any(covers(toleration, taint) for toleration in task.constraints.tolerations)
        )

    most = max(disliked(other) for other in nodes)
    return (1 - disliked(node) / most) * (100.0 * TAINTS) if most > 0 else None


def spread_score(task: TaskSpec, node: NodeSpec, nodes: Sequence[NodeSpec], pods: Sequence[Pod]) -> float:
    """For every spread that should hold: full in an empty domain, nothing in the fullest; on average."""
    wished = [spread for spread in task.constraints.spread if not spread.hard]
    scores: list[float] = []
    for spread in wished:
        counts = spread_counts(spread, task, nodes, placed(pods))
        fullest = max(1, max(counts.values(), default=0))
        domain = node.labels.get(spread.topology_key)
        scores.append(0.0 if domain is None else 100.0 * (1 - counts.get(domain, 0) / fullest))
    return add_up(scores) * (SPREAD / len(wished)) if wished else 0.0


def add_up(numbers: list[float]) -> float:
    """The sum from left to right; the built-in is more exact than the product is in some versions of Python."""
    total = 0.0
    for number in numbers:
        total += number
    return total
