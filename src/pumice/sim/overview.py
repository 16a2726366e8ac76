"""A cluster at a glance: one line a node of the tree, one a job, with the figures that people compare.

The report is for programs and complete; this is for the eye. Both read the same tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pumice.fairness.tree import Kind, ShareNode
from pumice.model.resources import MEMORY
from pumice.scheduling.engine import Engine
from pumice.sim.report import below, in_order, share_of, target_of, target_tasks, whole_target
from pumice.sim.simulation import Simulation


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A queue or namespace. Shares are dominant shares of the cluster; ``last`` says where lines of a tree end."""

    name: str
    path: str
    depth: int
    kind: Kind
    weight: float
    state: str
    used: float
    entitled: float
    running: float
    pending: float
    allocated: str
    entitled_amounts: str


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job. ``target`` is in tasks, whole ones in a run; None where there is no such number."""

    key: str
    queue: str
    user: str
    phase: str
    running: float
    pending: float
    target: float | None
    used: float
    entitled: float
    allocated: str
    entitled_amounts: str
    reason: str


@dataclass(frozen=True, slots=True)
class Overview:
    """All lines, in the order in which they are read. ``targets``: whether entitlements mean anything."""

    nodes: list[NodeLine]
    jobs: list[JobLine]
    targets: bool


def overview_of_run(simulation: Simulation) -> Overview:
    """How things stand in a run, now or at its end."""
    engine = simulation.cluster.engine

    def jobs_below(node: ShareNode, count: Callable[..., float]) -> float:
        return sum(count(leaf) for leaf in below(node))

    nodes = [
        _node_line(
            engine,
            node,
            simulation.held(node),
            jobs_below(node, simulation.running),
            jobs_below(node, simulation.pending),
        )
        for node in in_order(engine.tree.root)
        if node.kind is not Kind.JOB
    ]
    jobs = []
    for key, leaf in sorted(engine.tree.jobs.items()):
        spec, held = leaf.job.spec, simulation.held(leaf)
        assert spec is not None
        jobs.append(
            JobLine(
                key=key,
                queue=spec.queue,
                user=spec.user or spec.namespace,
                phase=leaf.job.phase.value,
                running=simulation.running(leaf),
                pending=simulation.pending(leaf),
                target=whole_target(engine, leaf),
                used=share_of(held, engine.state.capacity),
                entitled=share_of(target_of(leaf), engine.state.capacity),
                allocated=_amounts(engine, held),
                entitled_amounts=_amounts(engine, target_of(leaf)),
                reason=engine.conditions.get(key, ""),
            )
        )
    return Overview(nodes, jobs, simulation.has_targets)


def overview_of_targets(engine: Engine) -> Overview:
    """What everybody is entitled to in a cluster whose targets were just set; nothing runs."""
    nodes = [_node_line(engine, node, (), 0, 0) for node in in_order(engine.tree.root) if node.kind is not Kind.JOB]
    jobs = []
    for key, leaf in sorted(engine.tree.jobs.items()):
        spec = leaf.job.spec
        assert spec is not None
        share = share_of(target_of(leaf), engine.state.capacity)
        user, target, amounts = spec.user or spec.namespace, target_tasks(leaf), _amounts(engine, target_of(leaf))
        jobs.append(JobLine(key, spec.queue, user, "", 0, 0, target, 0, share, "", amounts, ""))
    return Overview(nodes, jobs, True)


def _node_line(engine: Engine, node: ShareNode, held: Sequence[float], running: float, pending: float) -> NodeLine:
    queue = engine.queue_of(node)
    return NodeLine(
        name=node.name if queue is None or queue.name == node.name else f"{node.name} ({queue.name})",
        path=node.path,
        depth=node.path.count("/"),
        kind=node.kind,
        weight=node.weight,
        state=queue.state.value if queue is not None else "",
        used=share_of(held, engine.state.capacity),
        entitled=share_of(target_of(node), engine.state.capacity),
        running=running,
        pending=pending,
        allocated=_amounts(engine, held),
        entitled_amounts=_amounts(engine, target_of(node)),
    )


def _amounts(engine: Engine, vector: Sequence[float]) -> str:
    names = zip(engine.state.registry.names, vector, strict=False)
    return ", ".join(f"{name} {_amount(engine, j, amount)}" for j, (name, amount) in enumerate(names) if amount)


def _amount(engine: Engine, index: int, amount: float) -> str:
    if isinstance(amount, int):
        return engine.state.registry.format_amount(index, amount)
    # A mean: three figures are all that anybody reads.
    if index != MEMORY:
        return f"{amount / 1000:.3g}"
    return engine.state.registry.format_amount(index, int(float(f"{amount:.3g}")))
