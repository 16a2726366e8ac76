"""The tables of queues and jobs that ``pumice run`` prints.

The width of a bar is the whole cluster. It shows dominant shares: used within the entitlement, used beyond the
entitlement (lent by others), and entitled but not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import click

from pumice.cli.terminal import can_encode
from pumice.engine.fairness.share_tree.share_node import NodeKind
from pumice.sim.run_overview import JobOverview, QueueOverview, RunOverview

BAR_WIDTH = 20


class ColumnCells(NamedTuple):
    """A heading, its cells, and whether they are numbers."""

    heading: str
    cells: Sequence[str]
    align_right: bool = False


def column_table(columns: Iterable[ColumnCells]) -> Iterator[str]:
    """Columns side by side under their headings; empty columns are left out."""
    shown = [column for column in columns if any(column.cells)]
    widths = [max(map(_width, (column.heading, *column.cells))) for column in shown]
    rows = zip(*(column.cells for column in shown), strict=True)
    heading = [click.style(column.heading, bold=True) for column in shown]
    for row in (heading, *rows):
        cells = [
            " " * (width - _width(cell)) + cell if column.align_right else cell + " " * (width - _width(cell))
            for cell, width, column in zip(row, widths, shown, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def _width(cell: str) -> int:
    return len(click.unstyle(cell))


# ---- the tree ----------------------------------------------------------------------------------------------------


def tree_lines(overview: RunOverview, *, wide: bool = False, runs: bool = True, amounts: bool = True) -> Iterator[str]:
    """One line a node; namespaces where a queue has several, or in a wide table. Unless it runs, targets alone."""
    nodes = [node for node in overview.nodes if wide or _is_shown(node, overview.nodes)]
    closed = wide or any(node.state not in ("", "Open") for node in nodes)
    targets = overview.targets
    yield from column_table(
        [
            ColumnCells("QUEUE", _indented(nodes)),
            ColumnCells("WEIGHT", [f"{node.weight:g}" for node in nodes], align_right=True),
            ColumnCells("STATE", [_state(node.state) if closed and runs else "" for node in nodes]),
            ColumnCells(
                "SHARE OF THE CLUSTER",
                [usage_bar(node.used if runs else node.entitled, node.entitled, targets) for node in nodes],
            ),
            ColumnCells("USED", [_percent(node.used) if runs else "" for node in nodes], align_right=True),
            ColumnCells("ENTITLED", [_percent(node.entitled) if targets else "" for node in nodes], align_right=True),
            ColumnCells("RUNNING", [_count(node.running) if runs else "" for node in nodes], align_right=True),
            _starting_column(nodes),
            ColumnCells("PENDING", [_count(node.pending) if runs else "" for node in nodes], align_right=True),
            ColumnCells("ALLOCATED", [node.allocated if amounts else "" for node in nodes]),
            ColumnCells("ENTITLED TO", [node.entitled_amounts if wide or not runs else "" for node in nodes]),
            ColumnCells("DESERVES", [node.deserved if amounts else "" for node in nodes]),
            ColumnCells("GUARANTEED", [node.guarantee if wide else "" for node in nodes]),
            ColumnCells("AT MOST", [node.capability if wide else "" for node in nodes]),
        ]
    )


def _starting_column(lines: Sequence[QueueOverview] | Sequence[JobOverview]) -> ColumnCells:
    """Tasks that wait for the evicted to leave; a column only while there are some."""
    some = any(line.starting for line in lines)
    return ColumnCells("STARTING", [str(line.starting) if some else "" for line in lines], align_right=True)


def _is_shown(node: QueueOverview, nodes: Sequence[QueueOverview]) -> bool:
    """Whether a node is shown: a queue, or one of several namespaces of a queue."""
    above = node.path.rpartition("/")[0]
    return node.kind is NodeKind.QUEUE or sum(other.path.rpartition("/")[0] == above for other in nodes) > 1


def _indented(nodes: Sequence[QueueOverview]) -> list[str]:
    cells = []
    for node in nodes:
        branch = "|  " * (node.depth - 1) + "|--" if node.depth else ""
        name = click.style(node.name, italic=True) if node.kind is NodeKind.NAMESPACE else node.name
        cells.append(click.style(branch, dim=True) + name)
    return cells


def usage_bar(used: float, entitled: float, targets: bool = True) -> str:
    """A node's part of the cluster as a bar."""
    full, lent, missing = "█▓░" if can_encode("█▓░") else "#+."
    if not targets:
        return full * _bar_cells(used) + " " * (BAR_WIDTH - _bar_cells(used))
    within, beyond = _bar_cells(min(used, entitled)), _bar_cells(used) - _bar_cells(min(used, entitled))
    unused = max(0, _bar_cells(entitled) - _bar_cells(used))
    return (
        click.style(full * within, fg="green")
        + click.style(lent * beyond, fg="yellow")
        + click.style(missing * unused, dim=True)
        + " " * (BAR_WIDTH - within - beyond - unused)
    )


def bar_legend(overview: RunOverview) -> str:
    """The legend of the bar characters that occur."""
    full, lent, missing = "█▓░" if can_encode("█▓░") else "#+."
    parts = [f"{full} used"]
    if any(_bar_cells(node.used) > _bar_cells(node.entitled) for node in overview.nodes):
        parts.append(f"{lent} lent by others")
    if any(_bar_cells(node.used) < _bar_cells(node.entitled) for node in overview.nodes):
        parts.append(f"{missing} entitled to, not used")
    return click.style("   ".join(parts), dim=True) if len(parts) > 1 else ""


def _bar_cells(share: float) -> int:
    cells = round(min(share, 1.0) * BAR_WIDTH)
    return max(cells, 1) if share > 0 else 0


# ---- jobs --------------------------------------------------------------------------------------------------------


def job_lines(overview: RunOverview, *, wide: bool = False, runs: bool = True) -> Iterator[str]:
    """One line a job."""
    jobs = overview.jobs
    targets = any(job.target is not None for job in jobs)
    users = wide or any(job.user != job.key.partition("/")[0] for job in jobs)
    yield from column_table(
        [
            ColumnCells("JOB", [job.key for job in jobs]),
            ColumnCells("QUEUE", [job.queue for job in jobs]),
            ColumnCells("USER", [job.user if users else "" for job in jobs]),
            ColumnCells("PHASE", [_phase(job) for job in jobs]),
            ColumnCells("RUNNING", [_count(job.running) if runs else "" for job in jobs], align_right=True),
            _starting_column(jobs),
            ColumnCells("PENDING", [_count(job.pending) if runs else "" for job in jobs], align_right=True),
            ColumnCells(
                "TARGET" if runs else "TASKS",
                [_target(job.target) if targets else "" for job in jobs],
                align_right=True,
            ),
            ColumnCells("USED", [_percent(job.used) if runs else "" for job in jobs], align_right=True),
            ColumnCells("ENTITLED", [_percent(job.entitled) if not runs else "" for job in jobs], align_right=True),
            ColumnCells("ALLOCATED", [job.allocated for job in jobs]),
            ColumnCells("ENTITLED TO", [job.entitled_amounts if wide or not runs else "" for job in jobs]),
            ColumnCells("REASON", [job.reason if wide else "" for job in jobs]),
        ]
    )


def _phase(job: JobOverview) -> str:
    colours = {"Running": "green", "Pending": "yellow", "Inqueue": "yellow"}
    return click.style(job.phase, fg=colours.get(job.phase)) if job.phase else ""


def _state(state: str) -> str:
    return click.style(state, fg="yellow") if state not in ("", "Open") else state


def _target(target: float | None) -> str:
    return "-" if target is None else _count(target)


def _count(tasks: float) -> str:
    return str(tasks) if isinstance(tasks, int) else f"{tasks:.2f}"


def _percent(share: float) -> str:
    return f"{share:.1%}" if 0 < share < 0.0995 else f"{share:.0%}"


# ---- what else people should know --------------------------------------------------------------------------------


def notice_lines(overview: RunOverview) -> Iterator[str]:
    """Notices about stopped queues and reservations."""
    for queue, reason in overview.stopped.items():
        yield f"{click.style('stopped', fg='yellow')} queue {queue}: {reason}"
    for hold in overview.holds:
        where = ", ".join(f"{node} ({amounts})" for node, amounts in hold.room.items())
        lack = f"{_percent(hold.lack)} of the cluster is lacking there"
        yield f"{click.style('kept', fg='yellow')} for {hold.job}, for {hold.seconds:g} s now: {where}; {lack}"
