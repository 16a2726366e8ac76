"""Draws the pictures of docs/simulate.md, docs/plan.md and docs/last-night.md from the examples, as SVG.

python -m tools.what_if_pictures [FOLDER]

The same examples always give the same bytes, so a test can compare them with the pictures in docs/pictures/what-if.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from html import escape
from math import log10
from pathlib import Path
from typing import Any

from pumice.cli.plan.plan_sources import scenario_basis
from pumice.plan.change_file import read_change
from pumice.plan.plan_report import make_plan
from pumice.simulate.figures import RunFigures
from pumice.simulate.node_groups import read_node_groups
from pumice.simulate.policies import read_policy
from pumice.simulate.recorded.log_plan import LogPlan, recorded_policy
from pumice.simulate.simulation_run import RunPlan, simulate
from pumice.simulate.workload import SECOND
from pumice.simulate.workload_file import scan

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs" / "pictures" / "what-if"
EXAMPLES = ROOT / "examples"
GPU = "nvidia.com/gpu"
WIDTH, LEFT, TOP, ROW = 760, 110, 34, 90
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee")


def main(folder: Path) -> None:
    """Write all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = {name: _run(name) for name in ("steer", "fcfs")}
    days = f"{runs['steer'].duration / SECOND / 86400:.1f} days"
    title = "GPUs used (area) and entitled to (line) over time, policy steer"
    (folder / "shares.svg").write_text(shares_picture(runs["steer"], GPU, title, ("0", days)), encoding="utf-8")
    (folder / "waits.svg").write_text(waits_picture(runs), encoding="utf-8")
    (folder / "plan.svg").write_text(plan_picture(_plan()), encoding="utf-8")
    night, title = _night(), "cpus used (area) and entitled to (line), by the log of the night"
    end = f"{night.duration / SECOND / 60:.0f} minutes later"
    (folder / "night.svg").write_text(shares_picture(night, "cpu", title, ("02:00", end)), encoding="utf-8")


def _run(policy: str) -> RunFigures:
    place = EXAMPLES / "simulate"
    groups = tuple(read_node_groups(f"4:cpu=64,{GPU}=8", 0))
    workload = scan(str(place / "workload.csv"))
    plan = RunPlan(workload, read_policy(policy), (str(place / "cluster.yaml"),), groups, grace=30 * SECOND)
    return simulate(plan)


def _night() -> RunFigures:
    return LogPlan(EXAMPLES / "last-night", recorded_policy()).run(lambda ended, now: None)


def _plan() -> dict[str, Any]:
    place = EXAMPLES / "plan"
    basis = scenario_basis([str(place / "cluster.yaml")], None)
    return make_plan(basis, read_change([str(place / "change.yaml")], ())).values


# ---- pictures ------------------------------------------------------------------------------------------------------


def shares_picture(run: RunFigures, resource: str, title: str, span: tuple[str, str]) -> str:
    """What every leaf queue uses over time, with its entitlement as a line; ``span`` names both ends of the time."""
    leaves = [queue for queue in run.queues if queue.is_leaf and queue.arrived]
    parts = [_text(LEFT, 18, title)]
    most, length = run.capacity[resource], len(run.root.used_series[resource])
    for number, queue in enumerate(leaves):
        top = TOP + number * ROW
        used = _points(queue.used_series[resource], length, most, top)
        entitled = _points(queue.entitled_series[resource], length, most, top)
        bottom = top + ROW - 20
        area = [(LEFT, bottom), *used, (used[-1][0], bottom)]
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<polygon points="{_joined(area)}" fill="{colour}" fill-opacity="0.6"/>')
        parts.append(f'<polyline points="{_joined(entitled)}" fill="none" stroke="#222" stroke-width="1.3"/>')
        parts.append(_frame(top))
        parts.append(_text(LEFT - 8, top + 14, queue.path.removeprefix("root/"), anchor="end"))
        parts.append(_text(LEFT - 8, top + 30, f"of {most:g}", anchor="end", size=10))
    bottom = TOP + len(leaves) * ROW
    parts.append(_text(LEFT, bottom, span[0]))
    parts.append(_text(WIDTH - 20, bottom, span[1], anchor="end"))
    return _svg(bottom + 12, parts)


def waits_picture(runs: dict[str, RunFigures]) -> str:
    """The part of the jobs that waited at most so long, on a logarithmic scale from a second to a day."""
    height, decades = 240, 5
    parts = [_text(LEFT, 18, "Part of the jobs that waited at most so long")]
    inner = WIDTH - LEFT - 20
    for decade in range(decades + 1):
        x = LEFT + inner * decade / decades
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{height}" stroke="#ddd"/>')
        anchor = "middle" if decade < decades else "end"
        parts.append(_text(x, height + 16, f"{10**decade:,} s", anchor=anchor))
    parts += [
        _text(LEFT - 8, height - (height - TOP) * part / 100 + 4, f"{part} %", anchor="end") for part in (0, 50, 100)
    ]
    for number, (name, run) in enumerate(runs.items()):
        total, seen, line = run.root.waits.count, 0, []
        for wait, count in run.root.waits.steps():
            x = LEFT + inner * min(1.0, max(0.0, _log10(wait / SECOND)) / decades)
            line.append((x, height - (height - TOP) * seen / total))
            seen += count
            line.append((x, height - (height - TOP) * seen / total))
        line.append((LEFT + inner, height - (height - TOP) * seen / total))
        colour = COLOURS[number]
        parts.append(f'<polyline points="{_joined(line)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(_text(LEFT + 10, TOP + 16 + 18 * number, name, colour=colour))
    return _svg(height + 28, parts)


def plan_picture(values: dict[str, Any]) -> str:
    """The entitlement of every queue before and after, and what it uses then."""
    queues = values["queues"][1:]
    parts = [_text(LEFT, 18, "Entitled before (light) and after (dark) the change, and used when it is at rest (line)")]
    inner = WIDTH - LEFT - 70
    for number, queue in enumerate(queues):
        top = TOP + number * 44
        before, after = (queue["entitledShare"][when] or 0.0 for when in ("before", "after"))
        rest = LEFT + inner * (queue["usedShareAtRest"]["after"] or 0.0)
        parts.append(_text(LEFT - 8, top + 18, queue["path"].removeprefix("root/"), anchor="end"))
        for row, (share, colour) in enumerate(((before, "#aac4de"), (after, "#4477aa"))):
            y = top + 14 * row
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{inner * share:.1f}" height="12" fill="{colour}"/>')
            parts.append(_text(LEFT + inner * share + 6, y + 10, f"{100 * share:.0f} %", size=10))
        parts.append(f'<line x1="{rest:.1f}" y1="{top - 3}" x2="{rest:.1f}" y2="{top + 29}" stroke="#222"/>')
    return _svg(TOP + len(queues) * 44 + 4, parts)


# ---- parts ---------------------------------------------------------------------------------------------------------


def _log10(seconds: float) -> float:
    return log10(seconds) if seconds > 1 else 0.0


def _points(levels: Sequence[float], length: int, most: float, top: int) -> list[tuple[float, float]]:
    """Steps of a series, from left to right."""
    step, height = (WIDTH - LEFT - 20) / length, ROW - 20
    found = []
    for i in range(length):
        level = levels[i] if i < len(levels) else 0.0
        y = top + height - height * min(1.0, level / most)
        found += [(LEFT + i * step, y), (LEFT + (i + 1) * step, y)]
    return found


def _joined(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _frame(top: int) -> str:
    return f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - 20}" height="{ROW - 20}" fill="none" stroke="#ccc"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, colour: str = "#222") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"'
    return f"<text {place}>{escape(text)}</text>"


def _svg(height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" font-family="sans-serif">'
    background = f'<rect width="{WIDTH}" height="{height:g}" fill="#fff"/>'
    return "\n".join([head, background, *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
