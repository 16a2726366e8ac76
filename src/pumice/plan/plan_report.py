"""The result of a plan: entitlements before and after, evictions, starts and refusals, as plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubebase.resource_vector import PODS, dominant_share
from pumice.engine.engine import Engine
from pumice.engine.fairness.share_tree.share_node import NodeKind, ShareNode
from pumice.engine.preemption.cooldown import configured_cooldown
from pumice.input_errors import Problem
from pumice.plan.change_application import ObjectChange, apply_change
from pumice.plan.change_file import Change
from pumice.plan.plan_basis import PlanBasis
from pumice.plan.rest_run import Eviction, RestRun, run_to_rest
from pumice.sim.simulated_cluster import SimulatedCluster

Values = dict[str, Any]
SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class _Moment:
    """The queues at one moment, by path, and the names of resources."""

    nodes: Mapping[str, Values]
    queue_of_job: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a change would do."""

    values: Values

    @property
    def is_refused(self) -> bool:
        """Whether admission refuses a part of the change."""
        return bool(self.values["refused"])

    @property
    def changes_anything(self) -> bool:
        """Whether an object of the cluster would differ, an entitlement, or what runs."""
        return bool(self.values["changes"])


def make_plan(basis: PlanBasis, change: Change) -> Plan:
    """Run the cluster to rest without and with the change, and compare."""
    without, with_it = basis.cluster(), basis.cluster()
    before = _moment(without.engine)
    applied = apply_change(change, basis, with_it)
    after = _moment(with_it.engine)
    stays, moves = run_to_rest(without), run_to_rest(with_it)
    before_rest, after_rest = _moment(without.engine), _moment(with_it.engine)
    queues = [
        _queue(
            path, before.nodes.get(path), after.nodes.get(path), before_rest.nodes.get(path), after_rest.nodes.get(path)
        )
        for path in _in_tree_order({**before.nodes, **after.nodes})
    ]
    queue_of_job = {**after.queue_of_job, **before.queue_of_job}
    known = {(one.task, one.preemptor, one.action) for one in stays.evictions}
    evicted = [*applied.lost]
    evicted += [one for one in moves.evictions if (one.task, one.preemptor, one.action) not in known]
    mine = {(one.task, one.preemptor, one.action) for one in moves.evictions}
    spared = [one for one in stays.evictions if (one.task, one.preemptor, one.action) not in mine]
    differs = any(one.action != "unchanged" for one in applied.objects)
    more, fewer = _more_running(moves, stays, spared), _more_running(stays, moves, evicted)
    moved = any((queue["entitled"]["before"] or {}) != (queue["entitled"]["after"] or {}) for queue in queues)
    cooldown = configured_cooldown(with_it.engine.policy.config, with_it.engine.cooldown)
    values = {
        "basis": basis.name,
        "changes": differs or moved or bool(evicted or spared or more or fewer),
        "objects": [_object(one) for one in applied.objects],
        "refused": [_problem(one) for one in applied.refused],
        "queues": queues,
        "evicted": [_eviction(one, queue_of_job) for one in evicted],
        "noLongerEvicted": [_eviction(one, queue_of_job) for one in spared],
        "started": [_start(job, count, moves, with_it, queue_of_job) for job, count in more],
        "noLongerRunning": [_start(job, count, stays, without, queue_of_job) for job, count in fewer],
        "jobs": _jobs(stays, moves, evicted, queue_of_job),
        "patienceSeconds": cooldown.patience / SECOND,
        "minRuntimeSeconds": cooldown.min_runtime / SECOND,
        "settledAfterSeconds": _seconds(moves.duration),
        "notes": [*basis.notes, *change.notes, *_rest_notes(stays, moves)],
    }
    return Plan(values)


def _rest_notes(stays: RestRun, moves: RestRun) -> list[str]:
    if stays.at_rest and moves.at_rest:
        return []
    return ["the cluster does not come to rest in the plan; it shows the first decisions only"]


# ---- queues --------------------------------------------------------------------------------------------------------


def _moment(engine: Engine) -> _Moment:
    engine.prepare()
    nodes = {node.path: _figures(engine, node) for node in engine.tree.root.walk() if _is_shown(node)}
    queue_of_job = {key: leaf.queue.path for key, leaf in engine.tree.jobs.items()}
    return _Moment(nodes, queue_of_job)


def _is_shown(node: ShareNode) -> bool:
    """Queues, and the namespaces of a queue that has several."""
    if node.kind is NodeKind.NAMESPACE:
        assert node.parent is not None
        return sum(child.kind is NodeKind.NAMESPACE for child in node.parent.children.values()) > 1
    return node.kind is NodeKind.QUEUE


def _figures(engine: Engine, node: ShareNode) -> Values:
    entitled = [0 if j == PODS else amount for j, amount in enumerate(engine.order.entitlement_of(node))]
    held = [0 if j == PODS else amount for j, amount in enumerate(node.held)]
    owed = [max(0, due - has) for due, has in zip(entitled, held, strict=True)]
    registry, capacity = engine.state.registry, engine.state.capacity
    return {
        "kind": "namespace" if node.kind is NodeKind.NAMESPACE else "queue",
        "weight": node.weight,
        "entitled": registry.format(entitled),
        "share": round(dominant_share(entitled, capacity), 6),
        "used": registry.format(held),
        "usedShare": round(dominant_share(held, capacity), 6),
        "owed": registry.format(owed),
    }


def _queue(path: str, before: Values | None, after: Values | None, rest: Values | None, moved: Values | None) -> Values:
    some = after or before
    assert some is not None
    return {
        "path": path,
        "kind": some["kind"],
        "depth": path.count("/"),
        "weight": _pair(before, after, "weight"),
        "entitled": _pair(before, after, "entitled"),
        "entitledShare": _pair(before, after, "share"),
        "used": (before or {}).get("used", {}),
        "usedShare": (before or {}).get("usedShare", 0.0),
        "owed": _pair(before, after, "owed"),
        "usedAtRest": _pair(rest, moved, "used"),
        "usedShareAtRest": _pair(rest, moved, "usedShare"),
    }


def _pair(before: Values | None, after: Values | None, name: str) -> Values:
    return {"before": before[name] if before else None, "after": after[name] if after else None}


def _in_tree_order(paths: Iterable[str]) -> list[str]:
    return sorted(paths, key=lambda path: path.split("/"))


# ---- tasks ---------------------------------------------------------------------------------------------------------


def _more_running(one: RestRun, other: RestRun, evicted: Sequence[Eviction]) -> list[tuple[str, int]]:
    """Jobs that run more tasks at rest in the first run than in the other, and how many more.

    Tasks that only the other run evicts do not count: they are reported as evicted.
    """
    lost = Counter(eviction.job for eviction in evicted)
    more = {job: count - other.running[job] - lost[job] for job, count in one.running.items()}
    found = [(job, count) for job, count in more.items() if count > 0]
    return sorted(found, key=lambda item: (one.first_start.get(item[0], 0), item[0]))


def _start(job: str, count: int, run: RestRun, cluster: SimulatedCluster, queue_of_job: Mapping[str, str]) -> Values:
    known = cluster.engine.state.jobs[job]
    return {
        "job": job,
        "queue": queue_of_job.get(job, ""),
        "tasks": count,
        "taskNames": run.started_tasks.get(job, []),
        "running": run.running[job],
        "wanted": known.unfinished_tasks,
        "afterSeconds": _seconds(run.first_start.get(job, 0)),
        "afterEvictions": any(one.preemptor == job for one in run.evictions),
    }


def _jobs(
    stays: RestRun, moves: RestRun, evicted: Sequence[Eviction], queue_of_job: Mapping[str, str]
) -> dict[str, Values]:
    """How many tasks run at rest of each job that runs more or fewer, or is evicted from."""
    touched = {one.job for one in evicted}
    touched |= {job for job in {*stays.running, *moves.running} if stays.running[job] != moves.running[job]}
    return {
        job: {
            "queue": queue_of_job.get(job, ""),
            "running": {"before": stays.running[job], "after": moves.running[job]},
        }
        for job in sorted(touched)
    }


def _eviction(one: Eviction, queue_of_job: Mapping[str, str]) -> Values:
    return {
        "task": one.task,
        "job": one.job,
        "queue": queue_of_job.get(one.job, ""),
        "node": one.node,
        "for": one.preemptor,
        "action": one.action,
        "afterSeconds": _seconds(one.after),
    }


def _seconds(after: int) -> float:
    """To the millisecond: starts of one cycle are some microseconds apart."""
    return round(after / SECOND, 3)


# ---- objects -------------------------------------------------------------------------------------------------------


def _object(one: ObjectChange) -> Values:
    fields = [{"field": field, "before": before, "after": after} for field, before, after in one.fields]
    return {"object": one.object, "action": one.action, "fields": fields}


def _problem(one: Problem) -> Values:
    return {"file": one.file, "object": one.object, "field": one.field, "message": one.message}
