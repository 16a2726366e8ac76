"""The documents of the tree and of one queue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import TypeVar

from kubebase.resource_vector import PODS, Vector, add
from pumice.model.specs import ROOT
from pumice.ui.job_documents import job_row, jobs_by_need
from pumice.ui.picture import ClusterPicture, PodSums
from pumice.ui.queue_tree import PHASES, QueueFigures, QueueForest, dominant, limit_share, share
from pumice.ui.seen_objects import ENDED, GroupSeen
from pumice.ui.values import Amounts, Document, amounts, named_amounts, time_text

JOBS_LISTED = 100
FLOWS_LISTED = 50

Key = TypeVar("Key")


def queue_row(figures: QueueFigures, forest: QueueForest, names: Sequence[str]) -> Document:
    """A queue as a row of the tree."""
    queue, capacity = figures.queue, forest.capacity
    spec = queue.spec if queue is not None else None
    width = len(names)
    place = dominant(figures.used, capacity)
    if place is None and figures.entitled is not None:
        place = dominant(figures.entitled, capacity)
    row: Document = {
        "path": figures.id,
        "name": figures.name,
        "parent": "/".join(figures.path[:-1]) or None,
        "depth": len(figures.path) - 1,
        "leaf": figures.leaf,
        "object": queue is not None,
        "weight": _number(figures.weight),
        "part": round(float(figures.part), 6) if figures.part is not None else None,
        "state": queue.state if queue is not None else "",
        "reclaimable": spec.reclaimable if spec is not None else True,
        "used": amounts(figures.used, names),
        "entitled": amounts(figures.entitled, names) if figures.entitled is not None else None,
        "own": amounts(figures.own, names),
        "borrowed": _each(width, names, figures.borrowed),
        "lent": lent_amounts(figures, forest, names),
        "owed": _owed(figures, names),
        "waiting": amounts(figures.waiting, names),
        "limit": named_amounts(figures.limit.items(), names),
        "guarantee": named_amounts(spec.guarantee, names) if spec is not None else {},
        "deserved": named_amounts(spec.deserved, names) if spec is not None else {},
        "share": {
            "used": share(figures.used, capacity),
            "entitled": share(figures.entitled, capacity),
            "own": share(figures.own, capacity) if figures.placed else None,
            "limit": limit_share(figures, capacity),
            "dominant": names[place] if place is not None else None,
        },
        "jobs": {phase.lower(): figures.phases[phase] for phase in PHASES},
        "tasks": {"running": figures.holding, "waiting": figures.pending},
        "conditions": [
            {"type": one.type, "reason": one.reason, "message": one.message, "since": time_text(one.since)}
            for one in (queue.conditions if queue is not None else ())
        ],
    }
    if not figures.placed:
        row["placed"] = False
    return row


def lent_amounts(figures: QueueFigures, forest: QueueForest, names: Sequence[str]) -> Amounts:
    """How much of a queue's own part other queues use. It changes with the usage of any queue."""
    return _each(len(names), names, lambda j: forest.lent(figures, j))


def cluster_summary(forest: QueueForest, names: Sequence[str], nodes: int, ready: int) -> Document:
    """The whole cluster in numbers; ``ready`` nodes accept pods."""
    root = forest.figures.get(ROOT)
    return {
        "capacity": amounts(forest.capacity, names),
        "used": amounts(root.used, names) if root is not None else {},
        "nodes": {"total": nodes, "ready": ready},
        "jobs": {phase.lower(): root.phases[phase] if root is not None else 0 for phase in PHASES},
        "tasks": {
            "running": root.holding if root is not None else 0,
            "waiting": root.pending if root is not None else 0,
        },
    }


def capacity_of(picture: ClusterPicture) -> Vector:
    """What the nodes offer that are ready and accept pods."""
    total: Vector = (0,) * len(picture.names)
    for node in picture.nodes.values():
        if node.ready and node.schedulable:
            total = add(total, node.offered)
    return total


def queue_document(
    figures: QueueFigures, forest: QueueForest, picture: ClusterPicture, readable: Callable[[str], bool]
) -> Document:
    """A queue with its jobs, users and namespaces; jobs only of namespaces that the viewer may read."""
    names = picture.names

    def rows(found: Iterable[QueueFigures]) -> list[Document]:
        return [queue_row(each, forest, names) for each in found]

    jobs = jobs_below(figures, forest, picture)
    shown = [key for key in jobs if readable(picture.groups[key].namespace)]
    siblings = forest.children.get("/".join(figures.path[:-1]), ()) if figures.placed else ()
    spec = figures.queue.spec if figures.queue is not None else None
    limits = {
        "minUserLimitPercent": spec.min_user_limit_percent if spec is not None else None,
        "userLimitFactor": spec.user_limit_factor if spec is not None else None,
    }
    return {
        "queue": queue_row(figures, forest, names),
        "ancestors": rows(forest.ancestors(figures)),
        "siblings": rows(forest.figures[path] for path in siblings if path != figures.id),
        "children": rows(forest.figures[path] for path in forest.children.get(figures.id, ())),
        "jobs": [job_row(key, picture, forest) for key in jobs_by_need(shown, picture)[:JOBS_LISTED]],
        "jobsTotal": len(shown),
        "users": [
            {"name": name, **part}
            for name, part in _groups(shown, lambda group: group.user or None, figures, forest, picture)
        ],
        "namespaces": _namespaces(shown, figures, forest, picture, readable),
        "flows": _flows(figures, forest, names),
        "userLimits": {name: value for name, value in limits.items() if value is not None},
        "created": time_text(spec.created) if spec is not None else None,
        "priority": spec.priority if spec is not None else 0,
        "annotations": figures.queue.annotations if figures.queue is not None else {},
    }


def jobs_below(figures: QueueFigures, forest: QueueForest, picture: ClusterPicture) -> list[str]:
    """The keys of the jobs in a queue and below it."""
    sums = picture.by_queue.get(figures.name) if figures.queue is not None else None
    found = list(sums.jobs) if sums is not None else []
    for child in forest.children.get(figures.id, ()):
        found += jobs_below(forest.figures[child], forest, picture)
    return found


def _groups(
    jobs: Iterable[str],
    key: Callable[[GroupSeen], Key],
    figures: QueueFigures,
    forest: QueueForest,
    picture: ClusterPicture,
) -> list[tuple[Key, Document]]:
    """Sums over jobs by a key, the largest share first."""
    sums: dict[Key, tuple[PodSums, int]] = {}
    for job in jobs:
        group = picture.groups[job]
        pods, number = sums.get(key(group)) or (PodSums(), 0)
        pods.merge(picture.sums_of(job))
        alive = group.phase != "Completed" or any(
            count for state, count in picture.sums_of(job).states.items() if state not in ENDED
        )
        sums[key(group)] = (pods, number + alive)
    found = [(name, _group_row(pods, number, figures, forest, picture)) for name, (pods, number) in sums.items()]
    return sorted(found, key=lambda each: (-(each[1]["share"] or 0.0), -each[1]["tasks"]["waiting"], str(each[0])))


def _group_row(
    pods: PodSums, number: int, figures: QueueFigures, forest: QueueForest, picture: ClusterPicture
) -> Document:
    return {
        "used": amounts(pods.used, picture.names),
        "waiting": amounts(pods.waiting, picture.names),
        "share": share(pods.used, forest.capacity),
        "part": share(pods.used, figures.used) if any(figures.used) else None,
        "jobs": number,
        "tasks": {"running": pods.holding, "waiting": pods.pending},
    }


def _namespaces(
    jobs: Iterable[str],
    figures: QueueFigures,
    forest: QueueForest,
    picture: ClusterPicture,
    readable: Callable[[str], bool],
) -> list[Document]:
    listed = {each.name: each for each in figures.queue.namespaces} if figures.queue is not None else {}
    return [
        {
            "name": name,
            "weight": listed[name].weight if name in listed else None,
            "entitled": amounts(listed[name].entitled, picture.names) if name in listed else None,
            **part,
        }
        for name, part in _groups(jobs, lambda group: group.namespace, figures, forest, picture)
        if readable(name)
    ]


def _flows(figures: QueueFigures, forest: QueueForest, names: Sequence[str]) -> Document:
    """Per resource: which queues use this queue's own part, and whose parts this queue uses.

    The scheduler keeps no book of whose part a task runs on, so amounts are divided in proportion.
    """
    others = forest.leaves_outside(figures)
    flows: Document = {}
    for j in range(len(forest.capacity)):
        if j == PODS:
            continue
        lends = _divided(forest.lent(figures, j), [(each, each.borrowed(j)) for each in others])
        borrows = _divided(figures.borrowed(j), [(each, each.unused(j)) for each in others])
        if lends or borrows:
            flows[names[j]] = {"lendsTo": lends, "borrowsFrom": borrows}
    return flows


def _divided(amount: int, among: Sequence[tuple[QueueFigures, int]]) -> list[Document]:
    """An amount in proportion to numbers; what rounding leaves goes to the first, so that the sum is exact."""
    among = sorted((pair for pair in among if pair[1] > 0), key=lambda pair: (-pair[1], pair[0].path))
    total = sum(number for _, number in among)
    if not amount or not total:
        return []
    parts = [amount * number // total for _, number in among]
    parts[0] += amount - sum(parts)
    found: list[Document] = [
        {"path": each.id, "name": each.name, "amount": part}
        for (each, _), part in zip(among, parts, strict=True)
        if part
    ]
    if len(found) > FLOWS_LISTED:
        rest = sum(each["amount"] for each in found[FLOWS_LISTED:])
        found = [*found[:FLOWS_LISTED], {"path": None, "name": None, "amount": rest}]
    return found


def _owed(figures: QueueFigures, names: Sequence[str]) -> Amounts:
    if figures.entitled is None:
        return {}
    used = (*figures.used, *(0,) * len(figures.entitled))
    return amounts([max(0, amount - used[j]) for j, amount in enumerate(figures.entitled)], names)


def _each(width: int, names: Sequence[str], amount: Callable[[int], int]) -> Amounts:
    return {names[j]: found for j in range(width) if j != PODS and (found := amount(j))}


def _number(weight: Fraction | None) -> float | int | None:
    if weight is None:
        return None
    return weight.numerator if weight.denominator == 1 else float(weight)
