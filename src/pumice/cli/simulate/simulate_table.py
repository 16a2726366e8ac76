"""The tables of ``pumice simulate``: policies side by side, then each policy queue by queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from pumice.cli.text_table import Column, Table

Values = dict[str, Any]

_MEASURES = {
    "waitMean": "wait mean, s",
    "waitP95": "wait p95, s",
    "boundedSlowdownMean": "slowdown",
    "evictions": "evicted tasks",
    "neverStarted": "never started",
    "hours": "length of the run, h",
}
_DAY, _HOUR, _MINUTE = 86400, 3600, 60


def table_lines(values: Values) -> Iterator[str]:
    """All tables."""
    policies: dict[str, Values] = values["policies"]
    resource = busiest_resource(policies)
    rows = [
        [name, *_cells(policy["queues"]["root"], policy, resource, policy["queueShortfall"])]
        for name, policy in policies.items()
    ]
    yield from _lines(_columns("POLICY", resource), rows)
    for name, policy in policies.items():
        if len(policy["queues"]) == 1:
            continue
        yield ""
        heading = f"{click.style(name, bold=True)}: {duration(policy['seconds'])}, {resource} "
        yield f"{heading}{percent(policy['utilisation'][resource])} used"
        rows = [
            [_indented(path, queue["depth"]), *_cells(queue, policy, resource, queue["shortfall"])]
            for path, queue in policy["queues"].items()
        ]
        yield from _lines(_columns("QUEUE", resource), rows)
    yield from _difference_lines(values["differences"])


def busiest_resource(policies: dict[str, Values]) -> str:
    """The resource of which most is used: the one that jobs wait for."""
    used: dict[str, float] = {}
    for policy in policies.values():
        for name, part in policy["utilisation"].items():
            used[name] = used.get(name, 0.0) + part
    return max(used, key=lambda name: (used[name], name))


def _columns(first: str, resource: str) -> list[Column]:
    unit = f"{resource.rpartition('/')[2].upper()}-H"
    return [
        Column(first),
        *(
            Column(heading, align_right=True)
            for heading in (
                "JOBS",
                "WAIT MEAN",
                "MEDIAN",
                "P95",
                "MAX",
                "SLOWDOWN",
                "SHARE",
                "ENTITLED",
                f"SHORT {unit}",
                f"IDLE {unit}",
                "EVICTED",
                f"LOST {unit}",
                "NEVER STARTED",
            )
        ),
    ]


def _cells(queue: Values, policy: Values, resource: str, shortfall: Values) -> list[str]:
    wait, slowdown = queue["wait"] or {}, queue["boundedSlowdown"] or {}
    return [
        _count(queue["jobs"]),
        *(duration(wait[key]) if wait else "-" for key in ("mean", "median", "p95", "max")),
        f"{slowdown['mean']:.1f}" if slowdown else "-",
        percent(queue["meanShare"]),
        percent(queue["meanEntitledShare"]),
        f"{shortfall[resource]:.1f}",
        f"{policy['idleWhileWaiting'][resource]:.1f}" if queue["depth"] == 0 else "",
        _count(queue["evictions"]),
        f"{queue['lost'][resource]:.1f}",
        _count(queue["neverStarted"]),
    ]


def _difference_lines(differences: Sequence[Values]) -> Iterator[str]:
    """Differences over repeats, with their intervals."""
    if not differences or any(one["measures"]["waitMean"]["low"] is None for one in differences):
        return
    yield ""
    rows = [
        [
            one["policy"],
            one["against"],
            measure_name(measure),
            f"{found['mean']:+.1f}",
            f"{found['low']:+.1f} to {found['high']:+.1f}",
        ]
        for one in differences
        for measure, found in one["measures"].items()
    ]
    right = ("DIFFERENCE", "95 % INTERVAL")
    headings = ("POLICY", "AGAINST", "MEASURE", *right)
    yield from _lines([Column(heading, align_right=heading in right) for heading in headings], rows)


def _lines(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    table = Table(columns)
    table.widen(rows)
    yield table.heading()
    yield from map(table.line, rows)


def _indented(path: str, depth: int) -> str:
    name = path.rpartition("/")[2]
    return name if depth == 0 else f"{'|  ' * (depth - 1)}|--{name}"


def _count(number: float) -> str:
    """A number of jobs or tasks; over repeats it is a mean."""
    return f"{number:.0f}" if number == int(number) else f"{number:.1f}"


def measure_name(measure: str) -> str:
    """A measure of differences for people, with its unit."""
    if measure in _MEASURES:
        return _MEASURES[measure]
    kind, _, resource = measure.partition(" ")
    return f"{kind} {resource}-hours"


def percent(part: float) -> str:
    """A part as a percentage."""
    return f"{100 * part:.1f}%"


def duration(seconds: float) -> str:
    """A duration in two units: 2d03h, 1h05m, 3m20s, 12.5s."""
    if seconds >= _DAY:
        hours = round(seconds / _HOUR)
        return f"{hours // 24}d{hours % 24:02d}h"
    if seconds >= _HOUR:
        minutes = round(seconds / _MINUTE)
        return f"{minutes // 60}h{minutes % 60:02d}m"
    if seconds >= _MINUTE:
        return f"{round(seconds) // 60}m{round(seconds) % 60:02d}s"
    return f"{seconds:.3g}s"
