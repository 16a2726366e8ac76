"""What ``pumice at`` shows of a moment: tables for people, plain values for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from pumice.cli.replay_command import cycle_values, time_text
from pumice.cli.scenario.run_tables import ColumnCells, bar_legend, column_table, job_lines, notice_lines, tree_lines
from pumice.decision_log.replay import Replayed
from pumice.decision_log.seek import PastMoment
from pumice.engine.decisions import Bind, Condition, Decision, Enqueue, Evict, Pipeline, QueueCondition
from pumice.engine.engine import Engine
from pumice.engine.state.cluster_node import ClusterNode
from pumice.sim.run_overview import overview_of_engine


def view_lines(then: PastMoment, view: str, *, wide: bool) -> Iterator[str]:
    """The lines of a view: tree, jobs, nodes or decisions."""
    if view == "nodes":
        yield from _node_lines(then.engine)
        return
    if view == "decisions":
        yield from _decision_lines(then)
        return
    overview = overview_of_engine(then.engine)
    if view == "jobs":
        yield from job_lines(overview, wide=wide) if overview.jobs else ["no jobs"]
    else:
        yield from tree_lines(overview, wide=wide)
        legend = bar_legend(overview)
        if legend:
            yield legend
    notices = list(notice_lines(overview))
    if notices:
        yield ""
        yield from notices


def view_values(then: PastMoment, view: str) -> dict[str, Any]:
    """A view as plain values."""
    engine = then.engine
    if view == "nodes":
        return {"nodes": [_node_values(engine, node) for node in _nodes(engine)]}
    if view == "decisions":
        return {"cycles": [cycle_values(cycle) for cycle in then.recent if cycle.decisions]}
    if view == "jobs":
        return {"jobs": [asdict(job) for job in overview_of_engine(engine).jobs]}
    from pumice.ui.then_document import tree_of_engine

    return tree_of_engine(engine)


# ---- nodes -----------------------------------------------------------------------------------------------------------


def _nodes(engine: Engine) -> list[ClusterNode]:
    return sorted(engine.state.nodes.values(), key=lambda node: node.name)


def _node_values(engine: Engine, node: ClusterNode) -> dict[str, Any]:
    registry = engine.state.registry
    return {
        "name": node.name,
        "schedulable": node.schedulable,
        "tasks": sorted(task.key for task in node.tasks.values()),
        "starting": sorted(task.key for task in node.waiting.values()),
        "allocatable": registry.format(node.allocatable),
        "idle": registry.format([max(0, amount) for amount in node.idle]),
    }


def _node_lines(engine: Engine) -> Iterator[str]:
    nodes = _nodes(engine)
    if not nodes:
        yield "no nodes"
        return
    registry = engine.state.registry
    shown = [j for j in range(len(registry)) if any(node.allocatable[j] for node in nodes)]

    def amounts(j: int) -> list[str]:
        return [
            f"{registry.format_amount(j, max(0, node.idle[j]))} of {registry.format_amount(j, node.allocatable[j])}"
            for node in nodes
        ]

    yield from column_table(
        [
            ColumnCells("NODE", [node.name for node in nodes]),
            ColumnCells("STATUS", [_status(node) for node in nodes]),
            ColumnCells("TASKS", [str(len(node.tasks)) for node in nodes], align_right=True),
            ColumnCells("STARTING", [str(len(node.waiting) or "") for node in nodes], align_right=True),
            *(ColumnCells(f"IDLE {registry.names[j].upper()}", amounts(j), align_right=True) for j in shown),
        ]
    )


def _status(node: ClusterNode) -> str:
    if node.spec is None:
        return "Deleted"
    if not node.spec.ready:
        return "NotReady"
    return "Cordoned" if node.spec.unschedulable else "Ready"


# ---- decisions -------------------------------------------------------------------------------------------------------


def _decision_lines(then: PastMoment) -> Iterator[str]:
    decided = [cycle for cycle in then.recent if cycle.decisions]
    if not decided:
        yield "nothing was decided"
    for number, cycle in enumerate(decided):
        if number:
            yield ""
        yield from _cycle_lines(cycle)


def _cycle_lines(cycle: Replayed) -> Iterator[str]:
    yield f"{time_text(cycle.now)}, cycle {cycle.number}"
    for decision in cycle.decisions:
        yield f"  {decision_text(decision)}"


def decision_text(decision: Decision) -> str:
    """A decision in a line."""
    match decision:
        case Enqueue(job=job):
            return f"let in     {job}"
        case Bind(task=task, node=node):
            return f"bind       {task} to {node}"
        case Pipeline(task=task, node=node):
            return f"pipeline   {task} to {node}, when victims have left"
        case Evict(task=task, node=node):
            by = f" for {decision.preemptor}" if decision.preemptor else ""
            return f"evict      {task} from {node}{by} ({decision.action})"
        case Condition(job=job, message=message):
            return f"condition  {job}: {message}"
        case QueueCondition(queue=queue, message=message):
            return f"condition  queue {queue}: {message or 'is over'}"
