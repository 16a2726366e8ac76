"""report.html: the plots and tables of a simulation in one file, which needs no network.

uPlot is that of the web page. The data is JSON in the page; a less-than sign in it is escaped, so that no name of a
queue or file can end the element or add another.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from pumice.simulate.distribution import Distribution
from pumice.simulate.figures import QueueFigures, RunFigures
from pumice.simulate.workload import SECOND

CURVE_POINTS = 200
_EXPORT = "export { uPlot as default };"


def html_page(values: dict[str, Any], runs: Sequence[RunFigures]) -> str:
    """The page. Plots over time show the first repeat of each policy."""
    web, vendor = files("pumice.simulate") / "report" / "web", files("pumice.ui") / "web" / "vendor"
    plot = (vendor / "uplot.js").read_text(encoding="utf-8")
    assert plot.rstrip().endswith(_EXPORT), "uPlot is a module with one export"
    data = {"report": values, "series": [_series(run) for run in runs if run.repeat == 0]}
    parts = {
        "/*uplot.css*/": (vendor / "uplot.css").read_text(encoding="utf-8"),
        "/*report.css*/": (web / "report.css").read_text(encoding="utf-8"),
        "/*data*/": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
        "/*uplot.js*/": plot.rstrip().removesuffix(_EXPORT),
        "/*report.js*/": (web / "report.js").read_text(encoding="utf-8"),
    }
    page = (web / "report.html").read_text(encoding="utf-8")
    for mark, part in parts.items():
        before, _, after = page.partition(mark)
        page = before + part + after
    return page


def _series(run: RunFigures) -> dict[str, Any]:
    seconds = run.series_width / SECOND
    return {
        "policy": run.policy,
        "step": seconds,
        "evictions": run.evictions_series,
        "queues": [_queue_series(queue, run) for queue in run.queues],
        "waits": _curve(run.root.waits),
    }


def _queue_series(queue: QueueFigures, run: RunFigures) -> dict[str, Any]:
    return {
        "path": queue.path,
        "depth": queue.depth,
        "used": {name: [round(level, 3) for level in levels] for name, levels in queue.used_series.items()},
        "entitled": {name: [round(level, 3) for level in levels] for name, levels in queue.entitled_series.items()},
    }


def _curve(waits: Distribution) -> list[list[float]]:
    """Waiting times and the part of jobs that waited no longer, in at most some hundred points."""
    steps = list(waits.steps())
    stride = -(-len(steps) // CURVE_POINTS) or 1
    seen, times, parts = 0, [], []
    for i, (middle, count) in enumerate(steps):
        seen += count
        if i % stride == 0 or i == len(steps) - 1:
            times.append(round(middle / SECOND, 3))
            parts.append(round(seen / waits.count, 6))
    return [times, parts]
