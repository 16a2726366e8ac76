"""Forecast for a job if nothing else happens: run the engine ahead, cycle by cycle, to the times that matter.

These are the ends of patience and cooldown: from when on capacity is reserved for the job, and from when on it reclaims
what other jobs hold beyond their entitlement. Nothing is executed; victims stay where they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.engine.candidates.units import unit_tasks
from pumice.engine.decisions import Bind, Decision, Evict, Pipeline
from pumice.engine.explain.wait_report import Eviction, Forecast
from pumice.engine.fairness.share_tree.share_node import JobNode

if TYPE_CHECKING:
    from pumice.engine.engine import Engine

STEPS = 12
"""The maximum number of later cycles to run."""


def run_ahead(engine: Engine, job: str) -> Forecast:
    """Run the engine now and then whenever some job's patience ends, until the job starts."""
    outlook, begun = Forecast(), engine.now
    decisions = engine.cycle(engine.now)
    outlook.first = list(dict.fromkeys(d.job for d in decisions if isinstance(d, Bind)))
    leaf = engine.tree.jobs.get(job)
    if leaf is not None:
        if "reclaim" in engine.policy.config.actions:
            outlook.takes_at = engine.context.reclaimers.eligible_at(leaf)
            outlook.may_not_take = _may_not_take(engine, leaf)
        if engine.context.reservations is not None:
            outlook.patience_at = engine.context.reservations.starts_at(leaf, begun)
            outlook.kept_for = [other.name for other in engine.context.reservations.active if other is not leaf]
    for _ in range(STEPS):
        _note(engine, leaf, job, decisions, outlook)
        later = _next_time(engine)
        if outlook.starts_at is not None or later is None or leaf is None:
            break
        decisions = engine.cycle(later)
    return outlook


def _may_not_take(engine: Engine, leaf: JobNode) -> str:
    """Why a job may not preempt, whatever the victims."""
    if leaf.unit is None:
        return ""
    if not all(engine.state.task_preempts(task.spec) for task in unit_tasks(leaf, leaf.unit)):
        return "its preemptionPolicy is Never"
    if engine.context.reclaimers.is_barred(engine.context, leaf):
        return "it lost a task, and under drf.rule paper reclaims nothing until demand, queues or nodes change"
    return engine.policy.preemptive(leaf, leaf.unit) or ""


def _note(engine: Engine, leaf: JobNode | None, job: str, decisions: list[Decision], outlook: Forecast) -> None:
    starts = [d for d in decisions if isinstance(d, Bind | Pipeline) and d.job == job]
    if starts:
        outlook.starts_at, outlook.tasks = engine.now, len(starts)
        outlook.waits_for_room = not any(isinstance(d, Bind) for d in starts)
        gone = [d for d in decisions if isinstance(d, Evict) and d.preemptor == job]
        outlook.evictions = [Eviction(d.task, d.job, d.node) for d in gone]
        outlook.action = gone[0].action if gone else ""
    hold = (
        engine.context.reservations.active.get(leaf)
        if engine.context.reservations is not None and leaf is not None
        else None
    )
    if hold is not None and outlook.holds_at is None:
        outlook.holds_at, outlook.hold_lack = hold.since, hold.lack
        outlook.holds_on = sorted(engine.nodes.nodes[index].name for index in hold.needs)
        outlook.hold_ends = hold.progress + engine.order.hold_limit


def _next_time(engine: Engine) -> int | None:
    times = [engine.context.reclaimers.next_change_at(engine.now), engine.context.preemptors.next_change_at(engine.now)]
    if engine.context.reservations is not None:
        times.append(engine.context.reservations.next_change_at(engine.now))
    return min((time for time in times if time is not None), default=None)
