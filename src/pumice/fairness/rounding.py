"""Whole targets: how the divisible target becomes tasks that can be started (docs/fairness.md, section 3.2).

A job has a line of units: the tasks it holds, then those that wait, each in task order. The tasks it must start
together are its first unit, later tasks are a unit each. A whole target is the part of the line that a job has by
right.

Units are handed out level by level, from the jobs up to the root. At a node of depth d, its *pass*, units below it that
fit wholly into what the node still misses (its entitlement less the whole targets below it) are handed out:

    1  those below which every deeper node also misses something the unit asks for;
    2  any: what one child cannot use stays in the group before its cousins get it (not at the root).

In each step units that run already come first, the largest of them first, so that small ones do not push a gang out.
The next unit is found by a walk from the node down to the child that misses the largest part of the cluster. At the
root nothing but the capacity limits a unit. A unit that found no room in any pass does not block the later tasks of its
job: once all passes are done these are tried by the same passes.

*Why a pass looks at one node only.* Before the pass of depth d no node down to that depth has more than it is entitled
to. So a unit that fits a node fits everybody above it too, and two nodes of one depth never get into each other's way.
The result of a pass therefore depends on nothing outside its node, and stays as it is while nothing below changes: only
the passes on the paths of the jobs that changed are undone and done again. With limits (``rooms``) that does not hold,
and everything is rounded anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from pumice.fairness.line import Line, Run, line_of
from pumice.fairness.passed_over import serve_passed_over
from pumice.fairness.rooms import Rooms
from pumice.fairness.tree import EXACT, JobNode, ShareNode, ShareTree
from pumice.fairness.walk import Walk
from pumice.model.objects import Items

TOLERANCE = 10**6
"""A unit fits if it is larger than what is missing by no more than one part in so many."""
LEAST = EXACT * (TOLERANCE - 1)
HAIR = 4  # parts in so many: more than a target may be below the whole number that it is taken for

Given = tuple[JobNode, Items, int, int, int]
"""A unit that was handed out: the job, what it asks for, its number of tasks, and where the job was in its line."""


def set_whole_targets(tree: ShareTree, capacity: list[int]) -> list[JobNode]:
    """Round every target from scratch; returns the jobs whose whole target changed."""
    return Rounding(tree).run(capacity)


class Rounding:
    """The whole targets of a tree, kept up to date."""

    def __init__(self, tree: ShareTree) -> None:
        self.tree = tree
        self.rooms: Rooms | None = None
        self.capacity: list[int] = []
        self.scale: list[int] = []
        self.nothing: list[int] = []
        self._given: dict[ShareNode, list[Given]] = {}  # by each node's pass
        self._given_late: list[Given] = []  # to jobs that passed a unit of theirs over
        self.passed_over: list[tuple[JobNode, int, int]] = []  # these jobs, and where in their line
        self._unlike: dict[JobNode, None] = {}  # jobs whose tasks ask for different amounts
        self._left: dict[ShareNode, None] = {}  # nodes below which a job left
        self._before: dict[JobNode, list[int]] = {}  # whole targets before this run, of those touched
        self._everything = True

    def forget_all(self) -> None:
        """Something changed that may change every pass: the next run starts from scratch."""
        self._everything = True

    def run(self, capacity: list[int]) -> list[JobNode]:
        """Round what changed since the last run; returns the jobs whose whole target changed."""
        tree = self.tree
        if capacity != self.capacity or tree.bounds is not None or self.rooms is not None:
            self._everything = True
        self.capacity = list(capacity)
        self.scale = [(offered or 1) * EXACT for offered in capacity]
        # What is missing counts as nothing when it is nothing on the grid on which keys are compared.
        self.nothing = [offered * EXACT // 2**30 for offered in capacity]
        self._before = {}
        self.rooms = None
        self._undo_late()
        moved = list(tree.jobs.values()) if self._everything else [leaf for leaf in tree.moved if not leaf.gone]
        by_depth = _dirty_nodes(moved, self._left_by_jobs())
        if self._everything:
            self._start_over()
        else:
            for nodes in by_depth:
                for node in nodes:
                    self._undo(node)
        for leaf in moved:
            self._set_base(leaf)
        if tree.bounds is not None:
            self.rooms = self._limit_bases()
        for nodes in reversed(by_depth):
            for node in nodes:
                self._pass(node, self._given.setdefault(node, []))
        self._pass_over()
        tree.moved.clear()
        self._everything = False
        return [leaf for leaf, before in self._before.items() if leaf.whole != before]

    # --- taking back what earlier passes gave ---------------------------------------------------------------------

    def _start_over(self) -> None:
        self._given.clear()
        for node in self.tree.root.walk():
            if isinstance(node, JobNode):
                self._before.setdefault(node, node.whole)
                node.head, node.head_held = (), False
            else:
                node.held_heads.clear()
                node.waiting_heads.clear()
            node.whole = [0] * self.tree.width

    def _undo(self, node: ShareNode) -> None:
        """Take back what the pass of a node gave."""
        given = self._given.get(node)
        if given:
            for unit in reversed(given):
                self._take_back(unit)
            given.clear()

    def _undo_late(self) -> None:
        for unit in reversed(self._given_late):
            self._take_back(unit)
        self._given_late.clear()
        for leaf, run, used in reversed(self.passed_over):
            if not leaf.gone:
                leaf.run, leaf.used = run, used
                self._set_head(leaf)
        self.passed_over.clear()

    def _take_back(self, unit: Given) -> None:
        leaf, items, tasks, run, used = unit
        if leaf.gone:
            return
        self._touch(leaf)
        _add(leaf, items, -1)
        leaf.whole_tasks -= tasks
        leaf.run, leaf.used = run, used
        self._set_head(leaf)

    def _touch(self, leaf: JobNode) -> None:
        if leaf not in self._before:
            self._before[leaf] = list(leaf.whole)

    # --- the part that a job has by its own entitlement -----------------------------------------------------------

    def _set_base(self, leaf: JobNode, tolerance: int = 1) -> None:
        """Hand a job the units that its own entitlement holds, in the order of its line."""
        self._touch(leaf)
        if leaf.whole_line is None:
            leaf.whole_line = line_of(leaf)
        line, rest = leaf.whole_line, list[Run]()
        if len(leaf.demand.pieces) > 1:
            self._unlike[leaf] = None
        else:
            self._unlike.pop(leaf, None)
        missing, whole = list(leaf.exact), [0] * len(leaf.exact)
        leaf.run = leaf.used = leaf.whole_tasks = 0
        for k, (items, tasks, number, held) in enumerate(line):
            fit = number
            for j, amount in items:
                if amount * fit * EXACT > missing[j]:
                    fit = min(fit, missing[j] * TOLERANCE // (amount * EXACT * (TOLERANCE - tolerance)))
            if fit:
                leaf.whole_tasks += fit * tasks
                for j, amount in items:
                    whole[j] += fit * amount
                    missing[j] -= fit * amount * EXACT
            if fit < number:
                rest.append(Run(items, tasks, number - fit, held) if fit else line[k])
                rest += line[k + 1 :]
                break
        leaf.line = tuple(rest) if any(whole) else line
        leaf.base = whole
        if whole != leaf.whole:
            pairs = enumerate(zip(whole, leaf.whole, strict=True))
            _add(leaf, tuple((j, new - old) for j, (new, old) in pairs if new != old), 1)
        self._set_head(leaf)

    def _limit_bases(self) -> Rooms:
        """The rooms that the whole parts leave, after somebody stepped back wherever they were more than a limit.

        Targets that are as good as whole numbers are whole; together they may so be a little more than a limit is.
        """
        assert self.tree.bounds is not None
        while True:
            rooms = Rooms(self.capacity, self.tree.bounds)
            if not any(self._step_back(jobs, j) for jobs, j in rooms.overfull()):
                return rooms

    def _step_back(self, jobs: list[JobNode], j: int) -> bool:
        """One of these jobs gets less of a resource: the youngest whose target was made whole by a hair."""
        for leaf in sorted(jobs, key=lambda leaf: leaf.rank, reverse=True):
            before = leaf.base[j]
            if before:
                self._set_base(leaf, -HAIR)
                if leaf.base[j] < before:
                    return True
        return False

    def _set_head(self, leaf: JobNode) -> None:
        """Note the next unit of a job's line on its path, so that passes find it."""
        head, held = unit_at(leaf.line, leaf.run)
        if head == leaf.head and held == leaf.head_held:
            return
        node = leaf.parent
        while node is not None:
            if leaf.head:
                heads = node.held_heads if leaf.head_held else node.waiting_heads
                if heads[leaf.head] > 1:
                    heads[leaf.head] -= 1
                else:
                    del heads[leaf.head]
            if head:
                heads = node.held_heads if held else node.waiting_heads
                heads[head] = heads.get(head, 0) + 1
            node = node.parent
        leaf.head, leaf.head_held = head, held

    # --- passes -------------------------------------------------------------------------------------------------------

    def _pass(self, group: ShareNode, given: list[Given]) -> None:
        """Hand out the units below a node that fit wholly into what it misses."""
        holds = self.holds
        if not any(holds(group, unit) for heads in (group.held_heads, group.waiting_heads) for unit in heads):
            return  # what is missing only falls: nobody below has a turn here
        for missing_only in (True, False) if group.parent is not None else (True,):
            self._serve_held(group, given, missing_only=missing_only)
            self._serve_waiting(group, given, missing_only=missing_only)

    def _serve_waiting(self, group: ShareNode, given: list[Given], *, missing_only: bool) -> None:
        jobs = self._candidates(group, held=False, missing_only=missing_only)
        if len(jobs) == 1:  # nobody to compare it with
            leaf = jobs[0]
            while leaf.head and not leaf.head_held and self.is_able(group, leaf, missing_only=missing_only):
                self.give(leaf, given)
        elif jobs:
            walk = Walk(self, group, jobs, missing_only=missing_only)
            while (served := walk.next()) is not None:
                leaf = served
                self.give(leaf, given)
                walk.served(leaf)
                if leaf.head and not leaf.head_held and self.is_able(group, leaf, missing_only=missing_only):
                    walk.enter(leaf)

    def _serve_held(self, group: ShareNode, given: list[Given], *, missing_only: bool) -> None:
        """The largest units first: each size is a walk of its own."""
        by_size: dict[float, list[JobNode]] = {}
        for leaf in self._candidates(group, held=True, missing_only=missing_only):
            by_size.setdefault(self.size(leaf), []).append(leaf)
        while by_size:
            size = max(by_size)
            jobs = [leaf for leaf in by_size.pop(size) if self.is_able(group, leaf, missing_only=missing_only)]
            if len(jobs) == 1:
                leaf = jobs[0]
                self.give(leaf, given)
                if leaf.head_held:
                    by_size.setdefault(self.size(leaf), []).append(leaf)
                continue
            walk = Walk(self, group, jobs, missing_only=missing_only)
            while (served := walk.next()) is not None:
                leaf = served
                self.give(leaf, given)
                walk.served(leaf)
                if leaf.head_held and self.is_able(group, leaf, missing_only=missing_only):
                    next_size = self.size(leaf)
                    if next_size == size:
                        walk.enter(leaf)
                        continue
                    by_size.setdefault(next_size, []).append(leaf)
                    if next_size > size:
                        by_size.setdefault(size, []).extend(walk.able())
                        break

    def size(self, leaf: JobNode) -> float:
        """How much of the cluster the next unit of a job is."""
        return max(amount / (self.capacity[j] or 1) for j, amount in leaf.head)

    def _candidates(self, group: ShareNode, *, held: bool, missing_only: bool) -> list[JobNode]:
        """The jobs below a node whose next unit fits what it misses."""
        fitting = {unit for unit in (group.held_heads if held else group.waiting_heads) if self.holds(group, unit)}
        found: list[JobNode] = []
        stack = [group] if fitting else []
        while stack:
            for child in stack.pop().children.values():
                if isinstance(child, JobNode):
                    if child.head in fitting and child.head_held is held:
                        found.append(child)
                elif not fitting.isdisjoint(child.held_heads if held else child.waiting_heads):
                    stack.append(child)
        return [leaf for leaf in found if self._is_admitted(group, leaf, missing_only=missing_only)]

    def holds(self, node: ShareNode, unit: Items) -> bool:
        """Whether what a node misses holds a unit wholly."""
        if node.parent is None:
            return all(amount <= self.room(node, j) for j, amount in unit)
        exact, whole = node.exact, node.whole
        for j, amount in unit:  # asked very often: the same as above, without a call for each resource
            if amount * LEAST > (exact[j] - whole[j] * EXACT) * TOLERANCE:
                return False
        return True

    def room(self, node: ShareNode, j: int) -> int:
        """The most of a resource that one more unit may ask for in the pass of a node."""
        if node.parent is None:
            return self.capacity[j] - node.whole[j]
        return (node.exact[j] - node.whole[j] * EXACT) * TOLERANCE // LEAST

    def is_able(self, group: ShareNode, leaf: JobNode, *, missing_only: bool) -> bool:
        """Whether a job may have its next unit in the pass of a node."""
        return self.holds(group, leaf.head) and self._is_admitted(group, leaf, missing_only=missing_only)

    def _is_admitted(self, group: ShareNode, leaf: JobNode, *, missing_only: bool) -> bool:
        """Whether no limit is in the way and, if asked for, everybody between a job and a node misses something."""
        unit = leaf.head
        if missing_only:
            node: ShareNode | None = leaf
            while node is not None and node is not group:
                if not self.misses(node, unit):
                    return False
                node = node.parent
        return self.rooms is None or self.rooms.fits(leaf, unit)

    def misses(self, node: ShareNode, unit: Items) -> bool:
        """Whether a node misses some of what a unit asks for."""
        exact, whole, nothing = node.exact, node.whole, self.nothing
        for j, _ in unit:
            if exact[j] - whole[j] * EXACT > nothing[j]:
                return True
        return False

    def give(self, leaf: JobNode, given: list[Given]) -> None:
        """Hand a job its next unit."""
        self._touch(leaf)
        items, tasks, number, _ = leaf.line[leaf.run]
        given.append((leaf, items, tasks, leaf.run, leaf.used))
        _add(leaf, items, 1)
        leaf.whole_tasks += tasks
        leaf.used += 1
        if leaf.used == number:
            leaf.run, leaf.used = leaf.run + 1, 0
        if self.rooms is not None:
            self.rooms.take(leaf, items)
        self._set_head(leaf)

    # --- units that are passed over ---------------------------------------------------------------------------------

    def _pass_over(self) -> None:
        """Try the later units of jobs whose next one found no room, until none of them would fit."""
        # A job that cannot have the tasks it must start together has no use for the others.
        blocked = [leaf for leaf in self._unlike if leaf.head and (leaf.run or leaf.line[0].tasks <= 1)]
        while blocked:
            blocked = [leaf for leaf in blocked if leaf.head and self._skip(leaf)]
            serve_passed_over(self, blocked, self._given_late)

    def _skip(self, leaf: JobNode) -> bool:
        """Move to the next unit of a line that is no larger than what is left of the cluster; whether there is one."""
        for run in range(leaf.run + 1, len(leaf.line)):
            if self.holds(self.tree.root, leaf.line[run].items):
                self.passed_over.append((leaf, leaf.run, leaf.used))
                leaf.run, leaf.used = run, 0
                self._set_head(leaf)
                return True
        return False

    def forget(self, leaf: JobNode) -> None:
        """A job is about to leave the tree."""
        leaf.line, leaf.run = (), 0
        self._set_head(leaf)
        _add(leaf, tuple((j, amount) for j, amount in enumerate(leaf.whole) if amount), -1)
        self._unlike.pop(leaf, None)
        if leaf.parent is not None:
            self._left[leaf.parent] = None

    def _left_by_jobs(self) -> list[ShareNode]:
        """The nearest nodes that are still there above jobs that left."""
        found: dict[ShareNode, None] = {}
        for start in self._left:
            node = start
            while node.gone and node.parent is not None:
                self._given.pop(node, None)
                node = node.parent
            found[node] = None
        self._left.clear()
        return list(found)


def unit_at(line: Line, run: int) -> tuple[Items, bool]:
    """What the units of a run ask for, and whether they are held; () at the end of the line."""
    return (line[run].items, line[run].held) if run < len(line) else ((), False)


def _add(leaf: JobNode, items: Items, sign: int) -> None:
    """Count a unit on a job's path, or no longer."""
    node: ShareNode | None = leaf
    while node is not None:
        whole = node.whole
        for j, amount in items:
            whole[j] += sign * amount
        node = node.parent


def _dirty_nodes(jobs: Iterable[JobNode], more: Iterable[ShareNode] = ()) -> list[list[ShareNode]]:
    """The inner nodes above these jobs, and these nodes with all above them, by depth."""
    depths: dict[ShareNode, int] = {}
    for start in (*(leaf.parent for leaf in jobs), *more):
        path = []
        node = start
        while node is not None and node not in depths:
            path.append(node)
            node = node.parent
        depth = -1 if node is None else depths[node]
        for node in reversed(path):
            depth += 1
            depths[node] = depth
    by_depth: list[list[ShareNode]] = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    for node, depth in depths.items():
        by_depth[depth].append(node)
    return by_depth
