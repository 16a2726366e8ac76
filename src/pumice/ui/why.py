"""Why a job waits: the answer of ``pumice why``, with amounts as numbers and the competitors of each level."""

from __future__ import annotations

import time
from collections.abc import Callable

from pumice.ui.picture import ClusterPicture
from pumice.ui.queue_tree import QueueFigures, QueueForest, share
from pumice.ui.values import SECOND, Document, amounts, time_text

COMPETITORS_LISTED = 12
NOT_EVERYTHING = (
    "you may not list queues, nodes and the jobs of all namespaces; the answer is what the scheduler wrote into "
    "objects that you may read"
)


def why_document(
    report: Document, key: str, picture: ClusterPicture, forest: QueueForest, readable: Callable[[str], bool]
) -> Document:
    """The report with the competitors at each level, as far as the viewer may see them."""
    contest = report.get("contest")
    called = report.get("called") or picture.job_name(key)
    if not isinstance(contest, dict):
        return {**report, "called": called}
    rungs = []
    for rung in contest.get("rungs") or ():
        found = _competitors(str(rung["ours"]["name"]), key, picture, forest, readable)
        rungs.append({**rung, "competitors": found[:COMPETITORS_LISTED], "competitorsTotal": len(found)})
    return {**report, "called": called, "contest": {**contest, "rungs": rungs}}


def status_document(key: str, picture: ClusterPicture) -> Document:
    """The reason that the scheduler wrote into the PodGroup, for viewers who may not see the whole cluster.

    Like the answer of ``pumice why`` for such a user: without the jobs of others the decision cannot be explained.
    """
    group, sums = picture.groups[key], picture.sums_of(key)
    called, waits = picture.job_name(key), group.waits
    if group.phase == "Completed":
        verdict = f"{called} is not waiting: it is finished"
    elif not sums.pending and sums.holding:
        verdict = f"{called} is not waiting: it has {sums.holding} tasks on nodes"
    elif waits is None:
        verdict = f"{called} waits: the scheduler has written no reason into its PodGroup yet"
    else:
        verdict = f"{called} waits: {waits.message or waits.reason}"
    return {
        "job": key,
        "called": called,
        "cause": "status",
        "verdict": verdict,
        "queue": group.queue,
        "path": picture.queue_paths.get(group.queue, ""),
        "user": group.user,
        "phase": group.phase,
        "now": time_text(int(time.time() * SECOND)),
        "created": time_text(group.created),
        "runningSince": None,
        "lastStart": None,
        "running": sums.states["running"],
        "starting": sums.states["starting"],
        "pending": sums.pending,
        "succeeded": sums.states["succeeded"],
        "minimum": group.minimum,
        "holds": amounts(sums.used, picture.names),
        "contest": None,
        "limits": [],
        "places": [],
        "missing": [],
        "outlook": None,
        "containers": [],
        "needs": [],
        "notes": [NOT_EVERYTHING],
    }


def _competitors(
    name: str, key: str, picture: ClusterPicture, forest: QueueForest, readable: Callable[[str], bool]
) -> list[Document]:
    """Our side first, then the others of the level: those that use most first."""
    figures = forest.figures.get(name)
    if figures is not None:
        siblings = forest.children.get("/".join(figures.path[:-1]), [name])
        found = [_queue_side(forest.figures[path], picture, forest, path == name) for path in siblings]
    elif name == key:
        found = _job_sides(key, picture, forest, readable)
    else:
        found = _namespace_sides(name, picture, forest, readable)
    return sorted(found, key=lambda side: (not side["ours"], -(side["usedShare"] or 0.0), str(side["name"])))


def _queue_side(figures: QueueFigures, picture: ClusterPicture, forest: QueueForest, ours: bool) -> Document:
    return {
        "kind": "queue",
        "name": figures.name,
        "path": figures.id,
        "ours": ours,
        "weight": float(figures.weight) if figures.weight is not None else None,
        "part": round(float(figures.part), 6) if figures.part is not None else None,
        "used": amounts(figures.used, picture.names),
        "entitled": amounts(figures.entitled, picture.names) if figures.entitled is not None else None,
        "usedShare": share(figures.used, forest.capacity),
        "entitledShare": share(figures.entitled, forest.capacity),
        "tasksWaiting": figures.pending,
    }


def _namespace_sides(
    name: str, picture: ClusterPicture, forest: QueueForest, readable: Callable[[str], bool]
) -> list[Document]:
    above, _, ours = name.rpartition("/")
    figures = forest.figures.get(above)
    if figures is None or figures.queue is None:
        return []
    listed = [each for each in figures.queue.namespaces if readable(each.name)]
    total = sum(each.weight or 0 for each in figures.queue.namespaces)
    waiting: dict[str, int] = {}
    sums = picture.by_queue.get(figures.name)
    for key in sums.jobs if sums is not None else ():
        namespace = picture.groups[key].namespace
        waiting[namespace] = waiting.get(namespace, 0) + picture.sums_of(key).pending
    return [
        {
            "kind": "namespace",
            "name": each.name,
            "path": f"{above}/{each.name}",
            "ours": each.name == ours,
            "weight": each.weight,
            "part": round((each.weight or 0) / total, 6) if total else None,
            "used": amounts(each.used, picture.names),
            "entitled": amounts(each.entitled, picture.names),
            "usedShare": share(each.used, forest.capacity),
            "entitledShare": share(each.entitled, forest.capacity),
            "tasksWaiting": waiting.get(each.name, 0),
        }
        for each in listed
    ]


def _job_sides(
    key: str, picture: ClusterPicture, forest: QueueForest, readable: Callable[[str], bool]
) -> list[Document]:
    """The jobs of the same queue and namespace that run or wait."""
    job = picture.groups.get(key)
    sums = picture.by_queue.get(job.queue) if job is not None else None
    if job is None or sums is None:
        return []
    rivals = [each for each in sums.jobs if picture.groups[each].namespace == job.namespace and readable(job.namespace)]
    return [
        {
            "kind": "job",
            "name": picture.job_name(each),
            "path": each,
            "ours": each == key,
            "weight": None,
            "part": None,
            "used": amounts(picture.sums_of(each).used, picture.names),
            "entitled": None,
            "usedShare": share(picture.sums_of(each).used, forest.capacity),
            "entitledShare": None,
            "tasksWaiting": picture.sums_of(each).pending,
        }
        for each in rivals
        if each == key or picture.sums_of(each).holding or picture.sums_of(each).pending
    ]
