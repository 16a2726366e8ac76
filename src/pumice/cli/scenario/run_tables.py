"""The tree and the jobs as people like to read them: text, one line each, columns that line up.

A bar is the whole cluster, a line's part of it by dominant share: what it uses of its entitlement, what it uses
beyond (it was lent that), and what it is entitled to but does not use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import click

from pumice.cli.terminal import can_show
from pumice.engine.fairness.share_tree.tree import NodeKind
from pumice.sim.run_overview import JobLine, NodeLine, Overview

BAR = 20


class Column(NamedTuple):
    """A heading, its cells, and whether they are numbers."""

    heading: str
    cells: Sequence[str]
    right: bool = False


def table(columns: Iterable[Column]) -> Iterator[str]:
    """Columns side by side under their headings; empty columns are left out."""
    shown = [column for column in columns if any(column.cells)]
    widths = [max(map(_width, (column.heading, *column.cells))) for column in shown]
    rows = zip(*(column.cells for column in shown), strict=True)
    heading = [click.style(column.heading, bold=True) for column in shown]
    for row in (heading, *rows):
        cells = [
            " " * (width - _width(cell)) + cell if column.right else cell + " " * (width - _width(cell))
            for cell, width, column in zip(row, widths, shown, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def _width(cell: str) -> int:
    return len(click.unstyle(cell))


# ---- the tree ----------------------------------------------------------------------------------------------------


def tree_lines(overview: Overview, *, wide: bool = False, runs: bool = True, amounts: bool = True) -> Iterator[str]:
    """One line a node; namespaces where a queue has several, or in a wide table. Unless it runs, targets alone."""
    nodes = [node for node in overview.nodes if wide or _matters(node, overview.nodes)]
    closed = wide or any(node.state not in ("", "Open") for node in nodes)
    targets = overview.targets
    yield from table(
        [
            Column("QUEUE", _indented(nodes)),
            Column("WEIGHT", [f"{node.weight:g}" for node in nodes], right=True),
            Column("STATE", [_state(node.state) if closed and runs else "" for node in nodes]),
            Column(
                "SHARE OF THE CLUSTER",
                [bar(node.used if runs else node.entitled, node.entitled, targets) for node in nodes],
            ),
            Column("USED", [_percent(node.used) if runs else "" for node in nodes], right=True),
            Column("ENTITLED", [_percent(node.entitled) if targets else "" for node in nodes], right=True),
            Column("RUNNING", [_count(node.running) if runs else "" for node in nodes], right=True),
            _starting(nodes),
            Column("PENDING", [_count(node.pending) if runs else "" for node in nodes], right=True),
            Column("ALLOCATED", [node.allocated if amounts else "" for node in nodes]),
            Column("ENTITLED TO", [node.entitled_amounts if wide or not runs else "" for node in nodes]),
            Column("DESERVES", [node.deserved if amounts else "" for node in nodes]),
            Column("GUARANTEED", [node.guarantee if wide else "" for node in nodes]),
            Column("AT MOST", [node.capability if wide else "" for node in nodes]),
        ]
    )


def _starting(lines: Sequence[NodeLine] | Sequence[JobLine]) -> Column:
    """Tasks that wait for the evicted to leave; a column only while there are some."""
    some = any(line.starting for line in lines)
    return Column("STARTING", [str(line.starting) if some else "" for line in lines], right=True)


def _matters(node: NodeLine, nodes: Sequence[NodeLine]) -> bool:
    """Whether a node says more than the line above it: a queue, or one of several namespaces."""
    above = node.path.rpartition("/")[0]
    return node.kind is NodeKind.QUEUE or sum(other.path.rpartition("/")[0] == above for other in nodes) > 1


def _indented(nodes: Sequence[NodeLine]) -> list[str]:
    cells = []
    for node in nodes:
        branch = "|  " * (node.depth - 1) + "|--" if node.depth else ""
        name = click.style(node.name, italic=True) if node.kind is NodeKind.NAMESPACE else node.name
        cells.append(click.style(branch, dim=True) + name)
    return cells


def bar(used: float, entitled: float, targets: bool = True) -> str:
    """A node's part of the cluster as a bar."""
    full, lent, missing = "█▓░" if can_show("█▓░") else "#+."
    if not targets:
        return full * _cells(used) + " " * (BAR - _cells(used))
    within, beyond = _cells(min(used, entitled)), _cells(used) - _cells(min(used, entitled))
    unused = max(0, _cells(entitled) - _cells(used))
    return (
        click.style(full * within, fg="green")
        + click.style(lent * beyond, fg="yellow")
        + click.style(missing * unused, dim=True)
        + " " * (BAR - within - beyond - unused)
    )


def legend(overview: Overview) -> str:
    """What the parts of the bars mean, as far as they occur."""
    full, lent, missing = "█▓░" if can_show("█▓░") else "#+."
    parts = [f"{full} used"]
    if any(_cells(node.used) > _cells(node.entitled) for node in overview.nodes):
        parts.append(f"{lent} lent by others")
    if any(_cells(node.used) < _cells(node.entitled) for node in overview.nodes):
        parts.append(f"{missing} entitled to, not used")
    return click.style("   ".join(parts), dim=True) if len(parts) > 1 else ""


def _cells(share: float) -> int:
    cells = round(min(share, 1.0) * BAR)
    return max(cells, 1) if share > 0 else 0


# ---- jobs --------------------------------------------------------------------------------------------------------


def job_lines(overview: Overview, *, wide: bool = False, runs: bool = True) -> Iterator[str]:
    """One line a job."""
    jobs = overview.jobs
    targets = any(job.target is not None for job in jobs)
    users = wide or any(job.user != job.key.partition("/")[0] for job in jobs)
    yield from table(
        [
            Column("JOB", [job.key for job in jobs]),
            Column("QUEUE", [job.queue for job in jobs]),
            Column("USER", [job.user if users else "" for job in jobs]),
            Column("PHASE", [_phase(job) for job in jobs]),
            Column("RUNNING", [_count(job.running) if runs else "" for job in jobs], right=True),
            _starting(jobs),
            Column("PENDING", [_count(job.pending) if runs else "" for job in jobs], right=True),
            Column("TARGET" if runs else "TASKS", [_target(job.target) if targets else "" for job in jobs], right=True),
            Column("USED", [_percent(job.used) if runs else "" for job in jobs], right=True),
            Column("ENTITLED", [_percent(job.entitled) if not runs else "" for job in jobs], right=True),
            Column("ALLOCATED", [job.allocated for job in jobs]),
            Column("ENTITLED TO", [job.entitled_amounts if wide or not runs else "" for job in jobs]),
            Column("WAITS BECAUSE", [job.reason if wide else "" for job in jobs]),
        ]
    )


def _phase(job: JobLine) -> str:
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


def notice_lines(overview: Overview) -> Iterator[str]:
    """Queues in which nothing may start, and room that is kept for jobs."""
    for queue, reason in overview.stopped.items():
        yield f"{click.style('stopped', fg='yellow')} queue {queue}: {reason}"
    for hold in overview.holds:
        where = ", ".join(f"{node} ({amounts})" for node, amounts in hold.room.items())
        lack = f"{_percent(hold.lack)} of the cluster is lacking there"
        yield f"{click.style('kept', fg='yellow')} for {hold.job}, for {hold.seconds:g} s now: {where}; {lack}"
