"""What happened over time, as plain values: what the page plots and report.json holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pumice.simulate.distribution import Distribution
from pumice.simulate.figures import QueueFigures, RunFigures
from pumice.simulate.workload import SECOND

CURVE_POINTS = 200


def series_values(runs: Sequence[RunFigures]) -> list[dict[str, Any]]:
    """The first repeat of each policy: amounts held and entitled to in steps of so many seconds, and waiting times."""
    return [_series(run) for run in runs if run.repeat == 0]


def _series(run: RunFigures) -> dict[str, Any]:
    return {
        "policy": run.policy,
        "step": run.series_width / SECOND,
        "evictions": run.evictions_series,
        "queues": [_queue_series(queue) for queue in run.queues],
        "waits": _curve(run.root.waits, run.root.arrived),
    }


def _queue_series(queue: QueueFigures) -> dict[str, Any]:
    return {
        "path": queue.path,
        "depth": queue.depth,
        "used": {name: [round(level, 3) for level in levels] for name, levels in queue.used_series.items()},
        "entitled": {name: [round(level, 3) for level in levels] for name, levels in queue.entitled_series.items()},
    }


def _curve(waits: Distribution, jobs: int) -> list[list[float]]:
    """Times and the part of all jobs that had started by then, in at most some hundred points.

    Jobs that never started keep a curve below 1: without them a policy that leaves the long waits out looks best.
    """
    steps = list(waits.steps())
    stride = -(-len(steps) // CURVE_POINTS) or 1
    seen, times, parts = 0, [], []
    for i, (middle, count) in enumerate(steps):
        seen += count
        if i % stride == 0 or i == len(steps) - 1:
            times.append(round(middle / SECOND, 3))
            parts.append(round(seen / max(jobs, waits.count), 6))
    return [times, parts]
