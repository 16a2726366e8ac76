"""The views of jobs, users, namespaces and nodes as lines of a given width."""

from __future__ import annotations

from typing import Any

from pumice.cli.cluster.measured_use import SHORT_NAMES, short_use
from pumice.cli.text_table import Column, Table, display_width
from pumice.cli.top.queue_usage import ClusterUsage
from pumice.cli.top.usage_table import (
    MAX_BAR,
    MIN_BAR,
    MIN_NAME,
    bar_scale,
    percent,
    share_bar,
    short_quantity,
    shortened,
)
from pumice.cli.top.workload_usage import UsageGroup, View, resource_amounts, usage_groups

_HEADINGS = {View.JOBS: "JOB", View.USERS: "USER", View.NAMESPACES: "NAMESPACE", View.NODES: "NODE"}
_LEFT = ("QUEUE", "USER", "PHASE", "STATE")


def groups_of(board: ClusterUsage, view: View) -> list[UsageGroup]:
    """The lines of a view; none if the user may not list pods."""
    if board.workloads is None:
        return []
    return usage_groups(view, board.workloads, board.node_objects, board.registry, board.capacity)


def workload_lines(board: ClusterUsage, view: View, columns: int, *, wide: bool = False, cut: bool = True) -> list[str]:
    """The heading and a line for each job, user, namespace or node."""
    groups = groups_of(board, view)
    figures = _columns(board, view, groups, wide)
    taken = sum(max(display_width(heading), *map(display_width, cells), 0) + 2 for heading, cells in figures)
    room = columns - taken - 2
    longest = max((len(_HEADINGS[view]), *(display_width(group.name) for group in groups)))
    name_width = min(longest, max(MIN_NAME, room // 2, room - MAX_BAR)) if cut else longest
    bar = max(MIN_BAR, min(MAX_BAR, room - name_width))
    headings = [_HEADINGS[view], bar_scale(bar), *(heading for heading, _ in figures)]
    table = Table([Column(text, align_right=i > 1 and text not in _LEFT) for i, text in enumerate(headings)])
    rows = [
        [shortened(group.name, name_width), share_bar(group.used, bar), *(cells[i] for _, cells in figures)]
        for i, group in enumerate(groups)
    ]
    table.widen(rows)
    return [table.heading(), *(table.line(row) for row in rows)]


def _columns(board: ClusterUsage, view: View, groups: list[UsageGroup], wide: bool) -> list[tuple[str, list[str]]]:
    columns = [("USED", [percent(group.used) for group in groups])]
    names = {name: None for group in groups for name in group.texts}
    columns += [(name, [group.texts[name] for group in groups]) for name in names]
    if view is View.NODES:
        columns.append(("PODS", [str(group.running) for group in groups]))
    else:
        columns += [
            ("RUN", [str(group.running) for group in groups]),
            ("WAIT", [str(group.waiting) for group in groups]),
        ]
    for name in ("cpu", "memory", "nvidia.com/gpu"):
        if any(name in group.measured for group in groups):
            cells = [short_use(name, group.measured[name]) if name in group.measured else "-" for group in groups]
            columns.append((f"{SHORT_NAMES[name].upper()}-NOW", cells))
    if wide or view is View.NODES:
        columns += [(name.upper(), [_amount(board, group, name) for group in groups]) for name in board.resources]
    return columns


def _amount(board: ClusterUsage, group: UsageGroup, name: str) -> str:
    """The amount in use; of a node with what it offers: 4/16."""
    used = resource_amounts(group.allocated, board.registry).get(name, 0)
    text = short_quantity(board, name, used)
    if not group.offered:
        return text
    offered = resource_amounts(group.offered, board.registry).get(name, 0)
    return f"{text}/{short_quantity(board, name, offered)}"


def workload_values(board: ClusterUsage, view: View) -> dict[str, Any]:
    """A view as plain values, for programs."""

    def amounts(vector: tuple[int, ...]) -> dict[str, str]:
        found = resource_amounts(vector, board.registry)
        return {name: board.registry.format_amount(board.registry.index(name), n) for name, n in found.items() if n}

    def values(group: UsageGroup) -> dict[str, Any]:
        texts = {name.lower(): int(text) if name == "JOBS" else text for name, text in group.texts.items()}
        found: dict[str, Any] = {"name": group.name, "used": group.used, "runningPods": group.running, **texts}
        found["allocated"] = amounts(group.allocated)
        if group.measured:
            found["measured"] = {name: short_use(name, amount) for name, amount in group.measured.items()}
        if view is View.NODES:
            return {**found, "allocatable": amounts(group.offered)}
        return {**found, "waitingPods": group.waiting}

    return {view.value: [values(group) for group in groups_of(board, view)], "notes": board.notes}
