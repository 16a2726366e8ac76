"""Integer targets: round the fluid target to tasks that can be started (docs/fairness.md, section 3.2).

A job has a line of units: the tasks it holds, then the pending ones, each in task order. The tasks that must start
together are its first unit; each later task is a unit of its own. The integer target is the part of the line that the
job is entitled to.

Units are handed out level by level, from the jobs up to the root. The *pass* of a node of depth d hands out units below
it that fit wholly into the node's deficit (its entitlement less the integer targets below it):

    1  units for which every deeper node also has a deficit of some resource that the unit asks for;
    2  any unit: what one child cannot use stays in the group before its cousins get it (not at the root).

In each step running units come first, the largest of them first, so that small ones do not displace a gang. A walk from
the node down to the child with the largest deficit, as a fraction of the cluster, finds the next unit. At the root only
capacity limits a unit.

A unit that does not fit does not block the later tasks of its job: at the end of each step every job with heterogeneous
tasks is tried again with the first unit of its line that fits. The larger unit keeps its position in the line, and the
passes further up try it first. If later units waited until the last pass, other jobs would by then have the capacity
that is missing below the node. A pending unit that passes over running units of its job leaves them, of what it asks
for, as much as they ask for: otherwise the job would lose a running task to one that has not started. The root's pass,
the last one, does without this. Never passed over are tasks that must start together, and any task in favour of what a
job reserves for pods still to be created.

*Why a pass looks at one node only.* Before the pass of depth d no node down to that depth exceeds its entitlement. So a
unit that fits a node also fits all nodes above it, and two nodes of one depth never interfere. The result of a pass
therefore depends on nothing outside its node, and stays valid while nothing below changes: only the passes on the paths
of changed jobs are undone and repeated. With limits (``headroom``) that does not hold, and everything is rounded from
scratch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pumice.engine.fairness.integer_target.headroom import Headroom
from pumice.engine.fairness.integer_target.task_line import Line, line_of
from pumice.engine.fairness.integer_target.unit_walk import UnitWalk
from pumice.engine.fairness.integer_target.unlike_jobs import UnlikeJobs
from pumice.engine.fairness.preemption_rules.task_rights import count_integer_tasks
from pumice.engine.fairness.share_tree.equal_jobs import EXACT, EqualJobs
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode, own_target, shared_zeros
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.model.specs import Items

TOLERANCE = 10**6
"""A unit fits if it exceeds the deficit by no more than one part in this many."""
LEAST = EXACT * (TOLERANCE - 1)
HAIR = 4  # parts in this many: more than a target may be below the integer that it was set to

Given = tuple[JobNode, int]
"""A unit that was handed out: the job, and the run of its line."""


class Step(NamedTuple):
    """A step of the pass of a node."""

    group: ShareNode
    given: list[Given]
    missing_only: bool  # only units for which every node below has a deficit
    behind: bool = False  # for jobs with heterogeneous tasks, the first unit that fits, wherever it is in the line


def set_integer_targets(tree: ShareTree, capacity: list[int]) -> list[JobNode]:
    """Round every target from scratch; returns the jobs whose integer target changed."""
    return IntegerTargets(tree).run(capacity)


class IntegerTargets:
    """The integer targets of a tree, updated incrementally."""

    def __init__(self, tree: ShareTree) -> None:
        self.tree = tree
        self.headroom: Headroom | None = None
        self.capacity: list[int] = []
        self.scale: list[int] = []
        self.nothing: list[int] = []
        self._given: dict[ShareNode, list[Given]] = {}  # per node: what its pass handed out
        self._unlike = UnlikeJobs()
        self.may_be_owed: dict[JobNode, None] = {}  # jobs that held less than their integer target after the last run
        self._left: dict[ShareNode, None] = {}  # nodes below which a job was removed
        self._before: dict[JobNode, list[int]] = {}  # integer targets before this run, of the jobs touched
        self._everything = True

    def forget_all(self) -> None:
        """Discard all passes, after a change that may affect each of them: the next run starts from scratch."""
        self._everything = True

    def run(self, capacity: list[int]) -> list[JobNode]:
        """Round what changed since the last run; returns the jobs whose integer target changed."""
        tree = self.tree
        if capacity != self.capacity or tree.bounds is not None or self.headroom is not None:
            self._everything = True
        self.capacity = list(capacity)
        self.scale = [(offered or 1) * EXACT for offered in capacity]
        # A deficit below the grid on which keys are compared counts as zero.
        self.nothing = [offered * EXACT // 2**30 for offered in capacity]
        self._before = {}
        self.headroom = None
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
            self.headroom = self._limit_bases()
        for nodes in reversed(by_depth):
            for node in nodes:
                self._pass(node, self._given.setdefault(node, []))
        for leaf in (*moved, *self._before):
            self._note_shortfall(leaf)
        tree.moved.clear()
        self._everything = False
        changed = [leaf for leaf, before in self._before.items() if self._has_changed(leaf, before)]
        self._before = {}
        return changed

    def _has_changed(self, leaf: JobNode, whole: list[int]) -> bool:
        """Whether the integer target of a job differs from before, in amounts or in tasks."""
        counts = count_integer_tasks(leaf)
        if counts == leaf.integer_task_counts:
            return leaf.integer_target != whole
        leaf.integer_task_counts = counts
        return True

    def _note_shortfall(self, leaf: JobNode) -> None:
        """Record whether a job holds less than its integer target: no other job is owed anything."""
        held = leaf.held
        for j, amount in enumerate(leaf.integer_target):
            if amount > held[j]:
                self.may_be_owed[leaf] = None
                return
        self.may_be_owed.pop(leaf, None)

    # --- undoing earlier passes -----------------------------------------------------------------------------------

    def _start_over(self) -> None:
        self._given.clear()
        for node in self.tree.root.walk():
            if isinstance(node, JobNode):
                self._before.setdefault(node, node.integer_target)
                node.head, node.head_held = (), False
                node.integer_target = shared_zeros(self.tree.width)
            else:
                node.held_heads.clear()
                node.waiting_heads.clear()
                node.integer_target = [0] * self.tree.width

    def _undo(self, node: ShareNode) -> None:
        """Take back the units that the pass of a node handed out."""
        given = self._given.get(node)
        if given:
            for unit in reversed(given):
                self._take_back(unit)
            given.clear()

    def _take_back(self, unit: Given) -> None:
        leaf, run = unit
        if leaf.gone:
            return
        self._touch(leaf)
        _add(leaf, leaf.line[run].items, -1)
        leaf.integer_tasks -= leaf.line[run].tasks
        leaf.taken[run] -= 1
        leaf.run = min(leaf.run, run)
        self._set_head(leaf, leaf.run)

    def _touch(self, leaf: JobNode) -> None:
        if leaf not in self._before:
            whole = leaf.integer_target
            self._before[leaf] = whole if whole is shared_zeros(len(whole)) else list(whole)

    # --- the units that a job's own entitlement covers ------------------------------------------------------------

    def _set_base(self, leaf: JobNode, tolerance: int = 1) -> None:
        """Hand a job the units that its own entitlement covers, in line order, skipping those that do not fit."""
        self._touch(leaf)
        if (
            tolerance > 0
            and leaf.demand.alike
            and leaf.equals is not None
            and leaf.equals.demand is leaf.demand
            and leaf.equals.targets == leaf.demand.satisfied
        ):
            self._unlike.discard(leaf)
            self._set_base_to_all(leaf)
            return
        if leaf.integer_line is None:
            leaf.integer_line = _shared_line(leaf)
        line = leaf.line = leaf.integer_line
        unlike = len(leaf.demand.pieces) > 1
        if unlike:
            self._unlike.add(leaf, line)
        else:
            self._unlike.discard(leaf)
        missing, whole = list(leaf.exact), [0] * len(leaf.exact)
        leaf.run = leaf.integer_tasks = 0
        taken = leaf.taken = [0] * len(line)
        for k, (items, tasks, number, held) in enumerate(line):
            first = self._first_left(leaf)
            if first < k and not tasks:
                break
            fit = number
            kept = {} if held else running_left(leaf)
            for j, amount in items:
                free = missing[j] - kept.get(j, 0) * EXACT
                if amount * fit * EXACT > free:
                    fit = min(fit, max(0, free * TOLERANCE // (amount * EXACT * (TOLERANCE - tolerance))))
            if fit:
                taken[k] = fit
                leaf.integer_tasks += fit * tasks
                for j, amount in items:
                    whole[j] += fit * amount
                    missing[j] -= fit * amount * EXACT
            if fit < number and (not unlike or tasks > 1):
                break
        if not any(taken):
            leaf.taken = shared_zeros(len(taken))
        self._move_to_base(leaf, whole)

    def _set_base_to_all(self, leaf: JobNode) -> None:
        """The same for a job of equal tasks that is entitled to all of them: no unit of its line is left."""
        whole = [0] * len(leaf.exact)
        for j, amount in leaf.demand.total:
            whole[j] = amount
        leaf.run = 0
        leaf.integer_tasks = leaf.demand.parts[0][1]
        leaf.line, leaf.taken = (), []
        self._move_to_base(leaf, whole)

    def _move_to_base(self, leaf: JobNode, whole: list[int]) -> None:
        leaf.base = whole if any(whole) else shared_zeros(len(whole))
        if whole != leaf.integer_target:
            pairs = enumerate(zip(whole, leaf.integer_target, strict=True))
            _add(leaf, tuple((j, new - old) for j, (new, old) in pairs if new != old), 1)
        self._set_head(leaf, self._first_left(leaf))

    def _limit_bases(self) -> Headroom:
        """The headroom that the base targets leave, after jobs were cut back wherever these exceed a limit.

        Targets within a tolerance of an integer were rounded to it, so their sum may slightly exceed a limit.
        """
        assert self.tree.bounds is not None
        while True:
            headroom = Headroom(self.capacity, self.tree.bounds)
            if not any(self._step_back(jobs, j) for jobs, j in headroom.overfull()):
                return headroom

    def _step_back(self, jobs: list[JobNode], j: int) -> bool:
        """Reduce one of these jobs' base target: the youngest that was rounded up within the tolerance."""
        for leaf in sorted(jobs, key=lambda leaf: leaf.rank, reverse=True):
            before = leaf.base[j]
            if before:
                self._set_base(leaf, -HAIR)
                if leaf.base[j] < before:
                    return True
        return False

    def _first_left(self, leaf: JobNode) -> int:
        """The first run of a job's line with units that are not handed out."""
        line, taken = leaf.line, leaf.taken
        while leaf.run < len(line) and taken[leaf.run] == line[leaf.run].number:
            leaf.run += 1
        return leaf.run

    def _set_head(self, leaf: JobNode, run: int) -> None:
        """Record the unit that a job offers to the passes on its path, so that these find it."""
        leaf.at = run
        head, held = unit_at(leaf.line, run)
        leaf.head_room = head
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
        """Hand out the units below a node that fit wholly into its deficit."""
        for missing_only in (True, False) if group.parent is not None else (True,):
            step = Step(group, given, missing_only)
            # A deficit only shrinks: most often no job below a node qualifies here.
            if any(self.holds(group, unit) for heads in (group.held_heads, group.waiting_heads) for unit in heads):
                self._serve_held(step, self._candidates(step, held=True))
                self._serve_waiting(step, self._candidates(step, held=False))
            unlike = self._unlike.below(group, self.holds)
            if unlike:
                behind = step._replace(behind=True)
                running = self._standing(behind, unlike, held=True)
                self._serve_held(behind, running)
                waiting = self._standing(behind, unlike, held=False)
                self._serve_waiting(behind, waiting)
                for leaf in (*running, *waiting):
                    self._set_head(leaf, leaf.run)

    def _standing(self, step: Step, jobs: list[JobNode], *, held: bool) -> list[JobNode]:
        """The jobs with heterogeneous tasks that have a unit for a step, wherever it is in their lines.

        Of equal jobs that neither run nor have a unit yet, the first that has none answers for all.
        """
        found: list[JobNode] = []
        refused: set[EqualJobs] = set()
        for leaf in jobs:
            equals = None if leaf.starts or leaf.run or any(leaf.integer_target) else leaf.equals
            if equals is not None and equals in refused:
                continue
            if self._stand(step, leaf, held=held, start=True):
                found.append(leaf)
            elif equals is not None:
                refused.add(equals)
        return found

    def _stand(self, step: Step, leaf: JobNode, *, held: bool, start: bool = False) -> bool:
        """Whether a job has a unit for a step; if so, that unit becomes its head."""
        if not step.behind:
            return bool(leaf.head) and leaf.head_held is held and self.is_able(step, leaf)
        line, taken = leaf.line, leaf.taken
        if leaf.run == len(line):
            return False
        kept = {} if held or step.group.parent is None else running_left(leaf)
        for run in range(leaf.run if start else leaf.at, len(line)):
            items, tasks, number, here = line[run]
            if not tasks and run > leaf.run:
                break
            if taken[run] < number and here is held:
                room = tuple((j, amount + kept.get(j, 0)) for j, amount in items) if kept else items
                if self._admits(step, leaf, room):
                    self._set_head(leaf, run)
                    leaf.head_room = room
                    return True
        return False

    def _serve_waiting(self, step: Step, jobs: list[JobNode]) -> None:
        if len(jobs) == 1:  # nothing to compare it with
            self.give(jobs[0], step)
            while self._stand(step, jobs[0], held=False):
                self.give(jobs[0], step)
        elif jobs:
            walk = UnitWalk(self, step.group, jobs, missing_only=step.missing_only)
            while (served := walk.next()) is not None:
                self.give(served, step)
                for leaf in self._going_on(step, walk, served):
                    if self._stand(step, leaf, held=False):
                        walk.enter(leaf)

    def _serve_held(self, step: Step, jobs: list[JobNode]) -> None:
        """Serve running units, the largest first: each size gets a walk of its own."""
        by_size: dict[float, list[JobNode]] = {}
        for leaf in jobs:
            by_size.setdefault(self.size(leaf), []).append(leaf)
        while by_size:
            size = max(by_size)
            for leaf in by_size.pop(size):
                if self._stand(step, leaf, held=True):
                    by_size.setdefault(self.size(leaf), []).append(leaf)
            if size not in by_size or max(by_size) > size:  # some jobs have moved on to other units
                continue
            walk = UnitWalk(self, step.group, by_size.pop(size), missing_only=step.missing_only)
            while (served := walk.next()) is not None:
                self.give(served, step)
                larger = False
                for leaf in self._going_on(step, walk, served):
                    if self._stand(step, leaf, held=True):
                        next_size = self.size(leaf)
                        if next_size == size:
                            walk.enter(leaf)
                        else:
                            by_size.setdefault(next_size, []).append(leaf)
                            larger = larger or next_size > size
                if larger:
                    by_size.setdefault(size, []).extend(walk.able())
                    break

    def _going_on(self, step: Step, walk: UnitWalk, served: JobNode) -> list[JobNode]:
        """The jobs that may continue after one was served: that job, and those that may pass a unit over."""
        walk.left.clear()
        walk.served(served)
        return [served, *(leaf for leaf in walk.left if leaf is not served)] if step.behind else [served]

    def size(self, leaf: JobNode) -> float:
        """The size of a job's next unit, as a fraction of the cluster."""
        return max(amount / (self.capacity[j] or 1) for j, amount in leaf.head)

    def _candidates(self, step: Step, *, held: bool) -> list[JobNode]:
        """The jobs below a node whose next unit fits its deficit."""
        group = step.group
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
        return [leaf for leaf in found if self._is_admitted(step, leaf, leaf.head)]

    def holds(self, node: ShareNode, unit: Items) -> bool:
        """Whether a unit fits wholly into the deficit of a node."""
        if node.parent is None:
            return all(amount <= self.room(node, j) for j, amount in unit)
        exact, whole = node.exact, node.integer_target
        for j, amount in unit:  # hot path: ``room`` inlined, without a call for each resource
            if amount * LEAST > (exact[j] - whole[j] * EXACT) * TOLERANCE:
                return False
        return True

    def room(self, node: ShareNode, j: int) -> int:
        """The most of a resource that one more unit may ask for in the pass of a node."""
        if node.parent is None:
            return self.capacity[j] - node.integer_target[j]
        return (node.exact[j] - node.integer_target[j] * EXACT) * TOLERANCE // LEAST

    def is_able(self, step: Step, leaf: JobNode) -> bool:
        """Whether a job may get its next unit in a step."""
        return self._admits(step, leaf, leaf.head)

    def _admits(self, step: Step, leaf: JobNode, unit: Items) -> bool:
        return self.holds(step.group, unit) and self._is_admitted(step, leaf, unit)

    def _is_admitted(self, step: Step, leaf: JobNode, unit: Items) -> bool:
        """Whether limits admit the unit and, if required, every node between job and group has a deficit."""
        if step.missing_only:
            node: ShareNode | None = leaf
            while node is not None and node is not step.group:
                if not self.misses(node, unit):
                    return False
                node = node.parent
        return self.headroom is None or self.headroom.fits(leaf, unit)

    def misses(self, node: ShareNode, unit: Items) -> bool:
        """Whether a node has a deficit of some resource that a unit asks for."""
        exact, whole, nothing = node.exact, node.integer_target, self.nothing
        for j, _ in unit:
            if exact[j] - whole[j] * EXACT > nothing[j]:
                return True
        return False

    def give(self, leaf: JobNode, step: Step) -> None:
        """Hand a job its head unit."""
        self._touch(leaf)
        run = leaf.at
        items, tasks, _, _ = leaf.line[run]
        step.given.append((leaf, run))
        _add(leaf, items, 1)
        leaf.integer_tasks += tasks
        if leaf.taken is shared_zeros(len(leaf.taken)):
            leaf.taken = list(leaf.taken)
        leaf.taken[run] += 1
        if self.headroom is not None:
            self.headroom.take(leaf, items)
        first = self._first_left(leaf)
        if not step.behind:
            self._set_head(leaf, first)

    def forget(self, leaf: JobNode) -> None:
        """Forget a job that is about to leave the tree."""
        leaf.line, leaf.taken, leaf.run = (), [], 0
        self._set_head(leaf, 0)
        _add(leaf, tuple((j, amount) for j, amount in enumerate(leaf.integer_target) if amount), -1)
        self._unlike.discard(leaf)
        self.may_be_owed.pop(leaf, None)
        if leaf.parent is not None:
            self._left[leaf.parent] = None

    def _left_by_jobs(self) -> list[ShareNode]:
        """The closest ancestors, still in the tree, of removed jobs."""
        found: dict[ShareNode, None] = {}
        for start in self._left:
            node = start
            while node.gone and node.parent is not None:
                self._given.pop(node, None)
                node = node.parent
            found[node] = None
        self._left.clear()
        return list(found)


def _shared_line(leaf: JobNode) -> Line:
    """The line of a job; equal jobs that hold nothing share one."""
    equals = leaf.equals
    if equals is None or leaf.starts or leaf.demand is not equals.demand:
        return line_of(leaf)
    line = equals.lines.get(leaf.gang)
    if line is None:
        line = equals.lines[leaf.gang] = line_of(leaf)
    return line


def running_left(leaf: JobNode) -> dict[int, int]:
    """The request of the running units of a job that were not handed out to it."""
    total: dict[int, int] = {}
    for k in range(leaf.run, len(leaf.line)):
        items, _, number, held = leaf.line[k]
        if not held:
            break
        for j, amount in items if leaf.taken[k] < number else ():
            total[j] = total.get(j, 0) + amount * (number - leaf.taken[k])
    return total


def unit_at(line: Line, run: int) -> tuple[Items, bool]:
    """The request of the units of a run, and whether they are held; () at the end of the line."""
    return (line[run].items, line[run].held) if run < len(line) else ((), False)


def _add(leaf: JobNode, items: Items, sign: int) -> None:
    """Add a unit to, or subtract it from, the integer targets on a job's path."""
    own_target(leaf)
    node: ShareNode | None = leaf
    while node is not None:
        whole = node.integer_target
        for j, amount in items:
            whole[j] += sign * amount
        node = node.parent


def _dirty_nodes(jobs: Iterable[JobNode], more: Iterable[ShareNode] = ()) -> list[list[ShareNode]]:
    """The inner nodes above these jobs, and these nodes with their ancestors, by depth."""
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
