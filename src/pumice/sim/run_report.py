"""The result of a scenario as plain values, as ``-o json`` prints them.

The keys are an interface for other programs. Amounts are canonical quantities, or plain numbers under churn, where they
are means. Shares are raw dominant shares of the cluster (docs/fairness.md, section 1.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kubebase.resource_vector import MEMORY, PODS, Registry
from pumice.engine.decisions import Bind, Condition, Decision, Enqueue, Evict, Pipeline, QueueCondition, Sides
from pumice.engine.engine import Engine
from pumice.engine.fairness.fluid_target.targets import set_targets
from pumice.engine.fairness.orders.serving_order import PickStep
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.model.queue_states import effective_state
from pumice.model.specs import Items, JobPhase, Queue, Vector
from pumice.sim.scenario_loader import SECOND
from pumice.sim.simulation import Simulation

Report = dict[str, Any]

_COUNTED = (JobPhase.PENDING, JobPhase.INQUEUE, JobPhase.RUNNING)


def run_report(simulation: Simulation) -> Report:
    """The result of a run: the tree, queues, jobs, decisions and errors."""
    cluster, scenario = simulation.cluster, simulation.scenario
    engine = cluster.engine
    seconds = cluster.cycles * scenario.spec.cycle_seconds
    nodes = [node for node in tree_order(engine.tree.root) if node.kind is not NodeKind.JOB]
    return {
        "scenario": scenario.name,
        "cycles": cluster.cycles,
        "seconds": int(seconds) if seconds == int(seconds) else seconds,
        "tree": {node.path: _tree_node(simulation, node) for node in nodes},
        "queues": {
            node.queue_name: _queue(simulation, node)
            for node in nodes
            if node.queue_name is not None and engine.context.sync.queue_of(node) is not None
        },
        "jobs": {key: _job(simulation, leaf) for key, leaf in sorted(engine.tree.jobs.items())},
        "holds": _holds(simulation),
        "reclaims": {
            "committed": engine.context.reclaimers.committed,
            "withoutGain": engine.context.reclaimers.without_gain,
        },
        "decisions": decisions_report(simulation),
        "errors": [{"object": error.object, "message": error.reason} for error in simulation.errors],
    }


def entitle_report(engine: Engine) -> Report:
    """The static fair allocation of the cluster that the engine knows; nothing is scheduled."""
    engine.prepare()
    set_targets(engine.tree, engine.state.capacity)
    queues = [node for node in tree_order(engine.tree.root) if node.kind is NodeKind.QUEUE]
    return {
        "queues": {
            # As a scenario's expectations name them: by object, or by path where there is none.
            (node.queue_name if engine.context.sync.queue_of(node) is not None else node.path): _entitlement(
                engine, node
            )
            for node in queues
            if node.parent is not None or engine.context.sync.queue_of(node) is not None
        },
        "jobs": {
            key: {"tasks": _rounded(fluid_target_tasks(leaf))} | _entitlement(engine, leaf)
            for key, leaf in sorted(engine.tree.jobs.items())
        },
    }


def _entitlement(engine: Engine, node: ShareNode) -> Report:
    return {
        "entitled": _amounts(engine.state.registry, node.entitled),
        "share": _rounded(dominant_share_of(fluid_target(node), engine.state.capacity)),
    }


def dominant_share_of(vector: Sequence[float], capacity: Sequence[int]) -> float:
    """The raw dominant share of amounts that need not be whole: means, and targets before rounding."""
    shares = [
        (amount / capacity[j] if capacity[j] > 0 else 1.0)
        for j, amount in enumerate(vector)
        if amount > 0 and j != PODS
    ]
    return max(shares, default=0.0)


def tree_order(node: ShareNode) -> Iterator[ShareNode]:
    """A node and all nodes below it: children after their parent, oldest first."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack += sorted(node.children.values(), key=lambda child: child.rank, reverse=True)


def effective_queue(engine: Engine, queue: Queue, node: ShareNode) -> Queue:
    """The queue whose state takes precedence at a node of the tree: its own, or a queue above it."""
    return effective_state(queue, _queues_above(engine, node))


def _queues_above(engine: Engine, node: ShareNode) -> Iterator[Queue]:
    above = node.parent
    while above is not None:
        queue = engine.context.sync.queue_of(above)
        if queue is not None:
            yield queue
        above = above.parent


def jobs_below(node: ShareNode) -> Iterator[JobNode]:
    """The jobs below a node of the tree, itself included."""
    return (leaf for leaf in node.walk() if isinstance(leaf, JobNode))


# ---- nodes and jobs ------------------------------------------------------------------------------------------


def _tree_node(simulation: Simulation, node: ShareNode) -> Report:
    engine = simulation.cluster.engine
    shown: Report = {"kind": "queue" if node.kind is NodeKind.QUEUE else "namespace"}
    if engine.context.sync.queue_of(node) is not None:
        shown["object"] = node.queue_name
    return shown | {"weight": _number(node.weight)} | _holding(simulation, node)


def _queue(simulation: Simulation, node: ShareNode) -> Report:
    engine = simulation.cluster.engine
    queue = engine.context.sync.queue_of(node)
    assert queue is not None
    registry = engine.state.registry
    phases = [leaf.job.phase for leaf in jobs_below(node)]
    return _holding(simulation, node) | {
        "path": node.path,
        "weight": _number(node.weight),
        "state": queue.state.value,
        "effectiveState": effective_queue(engine, queue, node).state.value,
        "deserved": _named(registry, queue.deserved),
        "guarantee": _named(registry, queue.guarantee),
        "capability": _named(registry, queue.capability),
        "realCapability": _amounts(registry, node.ceiling or ()),
        "conditions": [
            {"field": warning.field, "message": warning.message}
            for warning in engine.context.sync.queue_tree.refusals
            if warning.queue == queue.name and not warning.refused
        ],
        "jobs": {phase.value.lower(): phases.count(phase) for phase in _COUNTED},
    }


def _holding(simulation: Simulation, node: ShareNode) -> Report:
    state, held = simulation.cluster.engine.state, simulation.usage_of(node)
    return {
        "allocated": _amounts(state.registry, held, mean=simulation.means is not None),
        "share": _rounded(dominant_share_of(held, state.capacity)),
        "entitled": _amounts(state.registry, node.entitled),
    }


def _job(simulation: Simulation, leaf: JobNode) -> Report:
    spec = leaf.job.spec
    assert spec is not None
    holding = _holding(simulation, leaf)
    return {
        "queue": spec.queue,
        "user": spec.user or spec.namespace,
        "phase": leaf.job.phase.value,
        "running": _count(simulation.running_tasks(leaf)),
        "pending": _count(simulation.pending_tasks(leaf)),
        "wholeTarget": integer_target_tasks(simulation.cluster.engine, leaf),
        "allocated": holding["allocated"],
        "share": holding["share"],
    }


def integer_target_tasks(engine: Engine, leaf: JobNode) -> int | None:
    """The integer target of a job in tasks; None if the policy has no targets."""
    return leaf.integer_tasks if engine.order.has_targets else None


def fluid_target(node: ShareNode) -> list[float]:
    """The target of a node as real amounts: what ``entitled`` is before it is rounded down."""
    total = [0.0] * len(node.held)
    for leaf in jobs_below(node):
        for (items, _), tasks in zip(leaf.demand.pieces, leaf.targets, strict=False):  # orders without targets set none
            for j, amount in items:
                total[j] += tasks * amount
    return total


def fluid_target_tasks(leaf: JobNode) -> float:
    """A target in tasks, a real number: targets are divisible."""
    if leaf.demand.parts or not leaf.targets:
        return leaf.target
    # A PodGroup without pods has a target relative to its minimum.
    assert leaf.job.spec is not None
    return leaf.targets[0] * leaf.job.spec.min_member


# ---- decisions -----------------------------------------------------------------------------------------------


def decisions_report(simulation: Simulation) -> list[Report]:
    """All decisions in order; with tracing, each with the levels of the tree that led to it."""
    tracing = simulation.cluster.engine.context.tracing
    return [_decision(cycle, decision, tracing) for cycle, decision in simulation.decisions]


def _decision(cycle: int, decision: Decision, tracing: bool) -> Report:
    shown: Report = {"cycle": cycle}
    if tracing:
        shown["path"] = [_level(level) for level in getattr(decision, "path", ())]
    match decision:
        case Enqueue(job):
            shown |= {"type": "enqueue", "job": job}
        case Bind(task, node):
            shown |= {"type": "bind", "pod": task, "node": node}
        case Pipeline(task, node):
            shown |= {"type": "pipeline", "pod": task, "node": node}
        case Evict(task, node, _, preemptor, action, sides):
            shown |= {"type": "evict", "pod": task, "node": node, "for": preemptor, "action": action}
            if sides is not None:
                shown |= _sides(sides)
        case QueueCondition(queue, message, kind):
            shown |= {"type": "condition", "queue": queue, "condition": kind, "message": message}
        case Condition(job, kind, reason, message):
            shown |= {"type": "condition", "job": job, "condition": kind, "reason": reason, "message": message}
    return shown


def _sides(sides: Sides) -> Report:
    """An eviction in numbers: where preemptor and victim meet, and the keys of the two sides there."""

    def keys(pair: tuple[float, float]) -> Report:
        return {"preemptor": _rounded(pair[0]), "victim": _rounded(pair[1])}

    return {
        "ancestor": sides.ancestor,
        "sides": {"preemptor": sides.preemptor, "victim": sides.victim},
        "measure": sides.measure,
        "before": keys(sides.before),
        "after": keys(sides.after),
    }


def _holds(simulation: Simulation) -> list[Report]:
    """Reservations at the end of the run; times are seconds of the run."""
    cluster = simulation.cluster
    engine, start = cluster.engine, cluster.now - cluster.cycles * cluster.cycle_length
    holds = engine.context.reservations.active if engine.context.reservations is not None else {}
    return [
        {
            "job": leaf.job.key,
            "nodes": {
                engine.nodes.nodes[index].name: _named(engine.state.registry, items)
                for index, items in sorted(hold.needs.items())
            },
            "lack": _rounded(hold.lack),
            "since": (hold.since - start) / SECOND,
            "progress": (hold.progress - start) / SECOND,
        }
        for leaf, hold in sorted(holds.items(), key=lambda held: held[0].rank)
    ]


def _level(level: PickStep) -> Report:
    return {
        "node": level.node,
        "key": _rounded(level.key),
        "runnerUp": level.runner_up,
        "runnerUpKey": None if level.runner_up_key is None else _rounded(level.runner_up_key),
    }


# ---- values ----------------------------------------------------------------------------------------------------


def _amounts(registry: Registry, vector: Vector | Sequence[float], *, mean: bool = False) -> dict[str, Any]:
    if not mean:
        return dict(registry.format([int(amount) for amount in vector]))
    return {
        name: _rounded(amount if index in (MEMORY, PODS) else amount / 1000)
        for index, (name, amount) in enumerate(zip(registry.names, vector, strict=False))
        if amount
    }


def _named(registry: Registry, items: Items) -> dict[str, str]:
    """Quantities as written, including zeros."""
    return {registry.names[j]: registry.format_amount(j, amount) for j, amount in items}


def _count(tasks: float) -> int | float:
    """A number of tasks; a mean stays a float, even if it is a whole number."""
    return tasks if isinstance(tasks, int) else _rounded(tasks)


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else _rounded(value)


def _rounded(value: float) -> float:
    """To nine places: more is noise of the arithmetic, and so is the sign of a zero."""
    return round(float(value), 9) + 0.0
