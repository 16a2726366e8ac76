"""The board of ``pumice top`` as lines of a given width.

A bar is the whole cluster: what a queue uses of its part, what it uses beyond (it was lent that), what it is entitled
to and does not use, and a mark where its limit is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import click

from pumice.cli.terminal import can_encode
from pumice.cli.text_table import Column, Table, display_width
from pumice.cli.top.queue_usage import ClusterUsage, UsageRow

MIN_BAR, MAX_BAR = 10, 60
MIN_NAME = 8


def usage_lines(board: ClusterUsage, columns: int, *, wide: bool = False, cut: bool = True) -> list[str]:
    """The heading and a line for each queue. Cut: names give way so that all fits into so many columns."""
    figures = _columns(board, wide)
    taken = sum(max(display_width(heading), *map(display_width, cells), 0) + 2 for heading, cells in figures)
    room = columns - taken - 2
    longest = max((display_width(_name(row)) for row in board.rows), default=0)
    # Names and bars share what is left; what one does not need the other has.
    long = min(longest, max(MIN_NAME, room // 2, room - MAX_BAR)) if cut else longest
    bar = max(MIN_BAR, min(MAX_BAR, room - long))
    deepest = max((row.depth for row in board.rows), default=0)
    indent = next((step for step in (3, 2) if not cut or longest <= long or step * deepest <= long // 2), 1)
    names = [_name(row, indent) for row in board.rows]
    heading = ["QUEUE", bar_scale(bar), *(heading for heading, _ in figures)]
    table = Table([Column(text, align_right=i > 1) for i, text in enumerate(heading)])
    rows = [
        [
            shortened(name, long),
            usage_bar(row, bar),
            *(cells[i] for _, cells in figures),
        ]
        for i, (row, name) in enumerate(zip(board.rows, names, strict=True))
    ]
    table.widen(rows)
    return [table.heading(), *(table.line(row) for row in rows)]


def cluster_summary(board: ClusterUsage) -> str:
    """The cluster in a line."""
    nodes = f"{board.nodes} node{'' if board.nodes == 1 else 's'}"
    if board.nodes is None:
        nodes = "nodes unknown"
    elif board.ready_nodes != board.nodes:
        nodes = f"{board.ready_nodes} of {nodes} ready"
    root = next((row for row in board.rows if row.depth == 0), None)
    parts = [nodes]
    for name in board.resources:
        j = board.registry.index(name)
        offered = board.capacity[j] if j < len(board.capacity) else 0
        used = root.allocated.get(name, 0) if root is not None else 0
        part = f" ({used / offered:.0%})" if offered else ""
        whole = "used" if board.nodes is None else f"of {short_quantity(board, name, offered)}{part}"
        parts.append(f"{name} {short_quantity(board, name, used)} {whole}")
    return "  ".join(parts)


def bar_legend() -> str:
    """The legend of the bar characters."""
    full, lent, missing, mark = _bar_characters()
    parts = [
        f"{click.style(full, fg='green')} used",
        f"{click.style(lent, fg='yellow')} lent by others",
        f"{click.style(missing, dim=True)} entitled to, not used",
        f"{click.style(mark, fg='red')} limit",
    ]
    return "   ".join(parts)


# ---- columns -------------------------------------------------------------------------------------------------------


def _columns(board: ClusterUsage, wide: bool) -> list[tuple[str, list[str]]]:
    """The columns after the bar, without those that have no information."""
    rows = board.rows
    columns = [
        ("STATE", [_state(row.state) for row in rows]),
        ("USED", [percent(row.used) for row in rows]),
        ("ENTITLED", [percent(row.entitled) for row in rows]),
        ("LIMIT", [percent(row.limit) for row in rows]),
        ("RUN", [str(row.counts["running"]) for row in rows]),
        ("INQ", [str(row.counts["inqueue"]) for row in rows]),
        ("PEND", [str(row.counts["pending"]) for row in rows]),
        ("UNKN", [str(row.counts["unknown"]) for row in rows]),
        ("WAIT", ["-" if row.waiting is None else str(row.waiting) for row in rows]),
    ]
    silent = {"STATE": {"", "Open"}, "LIMIT": {"-"}, "UNKN": {"0"}, "WAIT": {"-"}}
    if wide:
        columns.insert(0, ("WEIGHT", [row.weight for row in rows]))
        columns += [(name.upper(), [_resource_cell(board, row, name) for row in rows]) for name in board.resources]
    else:
        columns = [column for column in columns if not set(column[1]) <= silent.get(column[0], set())]
    return columns


def _resource_cell(board: ClusterUsage, row: UsageRow, name: str) -> str:
    """Used, entitled to, and at most: 4/8/16."""
    amounts = (row.allocated, row.entitled_to, row.capability)
    parts = [short_quantity(board, name, each[name]) if name in each else "-" for each in amounts]
    return "/".join(parts)


def short_quantity(board: ClusterUsage, name: str, amount: int) -> str:
    """A quantity with few digits."""
    from pumice.cli.cluster.resource_quantities import format_quantities

    text = board.registry.format_amount(board.registry.index(name), amount)
    return format_quantities({name: text}).partition("=")[2]


def _name(row: UsageRow, indent: int = 3) -> str:
    """A queue below the one that it hangs under; on a narrow screen deep trees move together."""
    if indent == 1 or not row.depth:
        return " " * row.depth + row.name
    return f"{'|':<{indent}}" * (row.depth - 1) + f"{'|':-<{indent}}" + row.name


def shortened(name: str, most: int) -> str:
    """A name cut to so many columns."""
    if display_width(name) <= most:
        return name
    while display_width(name) > most - 1:
        name = name[:-1]
    return name + ("…" if can_encode("…") else "~")


def _state(state: str) -> str:
    return click.style(state, fg="yellow") if state not in ("", "Open") else state


def percent(share: float | None) -> str:
    """A share for a table."""
    if share is None:
        return "-"
    return f"{share:.1%}" if 0 < share < 0.0995 else f"{share:.0%}"


# ---- bars ----------------------------------------------------------------------------------------------------------


def _bar_characters() -> Sequence[str]:
    return "█▓░│" if can_encode("█▓░│") else "#+.|"


def bar_scale(cells: int) -> str:
    """The heading of bars."""
    return f"0%{'100%':>{cells - 2}}"


def usage_bar(row: UsageRow, cells: int) -> str:
    """A queue's part of the cluster as a bar."""
    full, lent, missing, mark = _bar_characters()
    used, entitled = _bar_cells(row.used, cells), _bar_cells(row.entitled, cells)
    within = used if row.entitled is None else min(used, entitled)
    signs = [_BarCell(full, "green")] * within + [_BarCell(lent, "yellow")] * (used - within)
    signs += [_BarCell(missing, dim=True)] * max(0, entitled - used)
    signs += [_BarCell(" ")] * (cells - len(signs))
    if row.limit is not None:
        signs[min(cells - 1, _bar_cells(row.limit, cells))] = _BarCell(mark, "red")
    return "".join(sign.repeated(len(list(alike))) for sign, alike in groupby(signs))


def share_bar(share: float | None, cells: int) -> str:
    """A share without an entitlement as a bar."""
    used = _bar_cells(share, cells)
    return _BarCell(_bar_characters()[0], "green").repeated(used) + " " * (cells - used)


class _BarCell(NamedTuple):
    """A character of a bar with its style."""

    text: str
    colour: str | None = None
    dim: bool = False

    def repeated(self, number: int) -> str:
        text = self.text * number
        return click.style(text, fg=self.colour, dim=self.dim) if self.colour or self.dim else text


def _bar_cells(share: float | None, cells: int) -> int:
    number = round(min(share or 0.0, 1.0) * cells)
    return max(number, 1) if share else 0


# ---- for programs --------------------------------------------------------------------------------------------------


def usage_values(board: ClusterUsage) -> dict[str, Any]:
    """The board as plain values: shares as parts of the cluster, amounts as quantities."""

    def amounts(found: dict[str, int]) -> dict[str, str]:
        return {name: board.registry.format_amount(board.registry.index(name), n) for name, n in found.items()}

    def figures(row: UsageRow) -> dict[str, Any]:
        return {
            "weight": row.weight,
            "used": row.used,
            "entitled": row.entitled,
            "podgroups": dict(row.counts),
            "waitingPods": row.waiting,
            "allocated": amounts(row.allocated),
            "entitledTo": amounts(row.entitled_to),
        }

    namespaces: dict[str, list[dict[str, Any]]] = {}
    for row in board.rows:
        if row.namespace:
            namespaces.setdefault(row.path, []).append({"name": row.name.removeprefix("ns/"), **figures(row)})
    return {
        "nodes": {"known": board.nodes, "atWork": board.ready_nodes},
        "capacity": {name: text for name, text in board.registry.format(board.capacity).items() if name != "pods"},
        "queues": [
            {
                "name": row.name,
                "path": row.path,
                "state": row.state,
                **figures(row),
                "limit": row.limit,
                "deserved": amounts(row.deserved),
                "guarantee": amounts(row.guarantee),
                "capability": amounts(row.capability),
                "userLimits": dict(row.user_limits),
                "namespaces": namespaces.get(row.path, []),
            }
            for row in board.rows
            if not row.namespace
        ],
        "notes": board.notes,
    }
