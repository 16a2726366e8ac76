"""The waiting lines of all units: which line a job stands in, and which unit a line of unlike tasks would start.

See ``share_tree/waiting_line`` for what a line is. Jobs of unlike tasks choose among the shapes that they wait with
(their menu): the first in task order that fits, or else the first. Jobs that are owed nothing choose alike, so a line
chooses once for all.
"""

from __future__ import annotations

from itertools import count

from pumice.engine.candidates.blocked_jobs import BlockedJobs
from pumice.engine.candidates.units import AllocationUnit, UnitTable
from pumice.engine.fairness.orders.serving_order import ServingOrder
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.fairness.share_tree.waiting_line import LineKeeper, LineKey, WaitingLine
from pumice.engine.state.task_shapes import TaskShape

Menu = tuple[TaskShape, ...]


class WaitingLines(LineKeeper):
    """All waiting lines."""

    def __init__(
        self,
        order: ServingOrder,
        units: UnitTable,
        blocked_jobs: BlockedJobs,
        heterogeneous_jobs: dict[JobNode, None],
    ) -> None:
        self._order = order
        self._units = units
        self._blocked_jobs = blocked_jobs
        self._heterogeneous_jobs = heterogeneous_jobs
        self._lines: dict[LineKey, WaitingLine] = {}
        self._choosing: dict[WaitingLine, None] = {}  # those with a menu
        self._arrivals = count(1)

    def find(self, leaf: JobNode, unit: AllocationUnit, menu: Menu | None) -> WaitingLine:
        """The line of a job that may line up, made if it is missing."""
        assert leaf.equals is not None
        key = (leaf.equals, unit if menu is None else menu, leaf.before, leaf.after)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = WaitingLine(self, key, unit, menu)
            unit.lines[line] = None
            if menu is not None:
                self._choosing[line] = None
        return line

    def enter(self, leaf: JobNode, line: WaitingLine) -> None:
        """Move a job to a line."""
        self._heterogeneous_jobs.pop(leaf, None)
        if leaf.waiting_line is line:
            line.untold[leaf.serial] = leaf  # it is offered again: another condition may have been written meanwhile
            return
        if leaf.waiting_line is not None:
            self._order.leave_line(leaf)
            self._heterogeneous_jobs.pop(leaf, None)
        self.leave_unit(leaf, line.unit)
        leaf.unit = line.unit
        self._order.line_up(leaf, line)

    def left(self, line: WaitingLine, leaf: JobNode) -> None:
        """A job has left its line: what was recorded of the line holds for it, and an empty line is forgotten."""
        reason = self._blocked_jobs.reason(line)
        if reason is not None:
            self._blocked_jobs.block(leaf, reason)
        if line.menu is not None:
            self._heterogeneous_jobs[leaf] = None
        if not line.members:
            del self._lines[line.key]
            del line.unit.lines[line]
            self._choosing.pop(line, None)

    def leave_unit(self, leaf: JobNode, unit: AllocationUnit | None) -> None:
        """Remove a job that stands alone from the unit with which it waited; ``unit``: the one that follows."""
        old: AllocationUnit | None = leaf.unit
        if old is not None:
            del old.waiting[leaf]
        if old is not unit:
            leaf.arrival = next(self._arrivals)
            if old is not None and not old.wanted and not old.tried:  # the failed attempt must be remembered
                self._units.drop(old)

    def choosing(self, shape: TaskShape | None = None) -> list[WaitingLine]:
        """The lines with a menu, or those with this shape in it."""
        return [line for line in self._choosing if shape is None or (line.menu is not None and shape in line.menu)]

    def switch(self, line: WaitingLine, unit: AllocationUnit) -> None:
        """Let all jobs of a line wait with another unit."""
        old: AllocationUnit = line.unit
        self._order.open_line(line, False)
        del old.lines[line]
        line.unit = unit
        line.arrival = next(self._arrivals)
        unit.lines[line] = None
        if not old.wanted and not old.tried:
            self._units.drop(old)

    def validate(self) -> None:
        """Check that every line has its jobs and its head, and that all of them may stand in it."""
        for key, line in self._lines.items():
            assert line.key == key and line.members and line in line.unit.lines
            assert (line.menu is not None) == (line in self._choosing)
            assert line.head is (line.first() if line.able else None)
            assert line.first() is min(line.members.values(), key=lambda leaf: leaf.rank)
            for serial, leaf in line.members.items():
                assert leaf.waiting_line is line and leaf.serial == serial and leaf.unit is line.unit
                assert leaf.equals is line.equals and (leaf.before, leaf.after) == key[2:]
                assert leaf.able == (leaf is line.head) and leaf not in line.unit.waiting
                assert self._order.may_line_up(leaf) and leaf not in self._heterogeneous_jobs
