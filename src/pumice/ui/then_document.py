"""The tree of queues as it was at a time in the past: an engine that replays the decision log up to then.

This needs the engine, so it runs in a process of its own (``pumice replay --tree``).
"""

from __future__ import annotations

from pathlib import Path

from kubebase.resource_vector import add
from pumice.decision_log.seek import past_moment
from pumice.engine.engine import Engine
from pumice.scheduler.queue_status import statuses
from pumice.ui.object_decode import SeenObjects
from pumice.ui.picture import QueueSums
from pumice.ui.queue_documents import cluster_summary, queue_row
from pumice.ui.queue_tree import ForestBuilder
from pumice.ui.values import Document, time_text


def then_document(log: Path, at: int) -> Document:
    """The tree after the last cycle at or before a time, as ``/api/tree`` would have shown it. Raises ``LogError``.

    ``log`` is the file that contains the time, or a folder. Each file begins with a snapshot, so that only this one is
    replayed.
    """
    then = past_moment(log, at)
    return {
        **tree_of_engine(then.engine),
        "time": time_text(then.now),
        "then": {"asked": time_text(at), "time": time_text(then.now), "cycle": then.cycle},
    }


def tree_of_engine(engine: Engine) -> Document:
    """The tree of queues as an engine has it."""
    state = engine.state
    seen = SeenObjects(state.registry)
    written = statuses(engine)
    queues = {name: seen.status_seen(spec, written.get(name, {})) for name, spec in state.queues.items()}
    nodes = state.nodes.values()
    forest = ForestBuilder().build(queues, _sums(engine), tuple(state.capacity))
    names = state.registry.names
    ready = sum(node.schedulable for node in nodes)
    return {
        "cluster": cluster_summary(forest, names, sum(node.spec is not None for node in nodes), ready),
        "queues": [queue_row(figures, forest, names) for figures in forest.figures.values()],
        "notes": forest.notes,
    }


def _sums(engine: Engine) -> dict[str, QueueSums]:
    found: dict[str, QueueSums] = {}
    width = len(engine.state.capacity)
    for job in engine.state.jobs.values():
        if job.spec is None:
            continue
        sums = found.setdefault(job.spec.queue, QueueSums())
        sums.phases[job.phase.value] += 1
        sums.pods.states["running"] += job.running
        sums.pods.used = add(sums.pods.used, job.held)
        waiting = [0] * width
        for shape, tasks in job.pending.items():
            sums.pods.states["waiting"] += len(tasks)
            for j, amount in shape.ask:
                waiting[j] += amount * len(tasks)
        sums.pods.waiting = add(sums.pods.waiting, waiting)
    return found
