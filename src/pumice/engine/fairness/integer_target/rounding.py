"""Integer targets: round the fluid target to tasks that can be started (docs/fairness.md, section 3.2).

A job has a line of units: the tasks it holds, then the pending ones, each in task order. The tasks that must start
together are its first unit; each later task is a unit of its own. The integer target is the part of the line that the
job is entitled to.

Units are handed out level by level, from the jobs up to the root. The *pass* of a node of depth d hands out units below
it that fit wholly into the node's deficit (its entitlement less the integer targets below it):

    1  units for which every deeper node also has a deficit of some resource that the unit asks for;
    2  any unit: what one child cannot use stays in the group before its cousins get it (not at the root).

At the root only capacity limits a unit. ``unit_passes`` says in which order a pass serves the jobs below its node.

*Why a pass looks at one node only.* Before the pass of depth d no node down to that depth exceeds its entitlement. So a
unit that fits a node also fits all nodes above it, and two nodes of one depth never interfere. The result of a pass
therefore depends on nothing outside its node, and stays valid while nothing below changes: only the passes on the paths
of changed jobs are undone and repeated.

*With limits* (``headroom``) nodes of one depth do interfere: a user's ceiling spans the namespaces of a queue, a
queue's ceiling spans the queues below it. So one pass hands out the units of all nodes of a depth, in the order of a
walk from the root, and everything is rounded from scratch.
"""

from __future__ import annotations

from collections.abc import Callable

from pumice.engine.fairness.fluid_target.solver_bounds import SolverBounds
from pumice.engine.fairness.integer_target.covered_units import covered_tasks, covers_the_same
from pumice.engine.fairness.integer_target.deficits import TOLERANCE
from pumice.engine.fairness.integer_target.headroom import Headroom
from pumice.engine.fairness.integer_target.line_position import (
    add_to_targets,
    count_taken,
    first_left,
    running_left,
    set_head,
    share_taken,
)
from pumice.engine.fairness.integer_target.settled_passes import PassRecord, record_of
from pumice.engine.fairness.integer_target.task_line import Line, line_of
from pumice.engine.fairness.integer_target.unit_passes import Given, UnitGroups, UnitPasses
from pumice.engine.fairness.integer_target.unlike_jobs import UnlikeJobs
from pumice.engine.fairness.preemption_rules.task_rights import count_integer_tasks
from pumice.engine.fairness.share_tree.equal_jobs import EXACT, EqualJobs
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.engine.fairness.share_tree.shared_vectors import shared_vector, shared_zeros
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.engine.fairness.share_tree.tree_levels import levels_above
from pumice.model.specs import Items

HAIR = 4  # parts in this many: more than a target may be below the integer that it was set to


def set_integer_targets(tree: ShareTree, capacity: list[int]) -> list[JobNode]:
    """Round every target from scratch; returns the jobs whose integer target changed."""
    return IntegerTargets(tree).run(capacity)


class IntegerTargets:
    """The integer targets of a tree, updated incrementally."""

    def __init__(self, tree: ShareTree) -> None:
        self.tree = tree
        self._given: dict[ShareNode, list[Given]] = {}  # per node: what its pass handed out
        self.may_be_owed: dict[JobNode, None] = {}  # jobs that held less than their integer target after the last run
        self._left: dict[ShareNode, None] = {}  # nodes below which a job was removed
        self._before: dict[JobNode, list[int]] = {}  # integer targets before this run, of the jobs touched
        self._unlike = UnlikeJobs()
        self._passes = UnitPasses(self._unlike, self._before)
        self._records: dict[ShareNode, PassRecord] = {}  # of nodes whose passes were found to stay as they are
        self._replaced: dict[JobNode, tuple[list[int], dict[Items, int] | None]] = {}  # what the last run changed
        self._everything = True

    def forget_all(self) -> None:
        """Discard all passes, after a change that may affect each of them: the next run starts from scratch."""
        self._everything = True

    def run(self, capacity: list[int]) -> list[JobNode]:
        """Round what changed since the last run; returns the jobs whose integer target changed."""
        tree = self.tree
        passes = self._passes
        if capacity != passes.deficits.capacity or tree.bounds is not None or passes.headroom is not None:
            self._everything = True
        passes.start(capacity)
        self._before.clear()
        if self._everything:
            by_depth = self._start_over()
        else:
            by_depth = self._undo_changed()
        if tree.bounds is not None:
            passes.headroom = self._limit_bases(tree.bounds)
        for nodes in reversed(by_depth):
            if passes.headroom is None:
                for node in nodes:
                    if not passes.adds_nothing(node):
                        passes.run(UnitGroups(node, [node]), self._given.setdefault(node, []))
            else:
                passes.run(UnitGroups(tree.root, nodes), [])
        for leaf in self._before:
            self._note_shortfall(leaf)
            if leaf.integer_target is not leaf.base:
                _share_target(leaf, self._before[leaf])
                share_taken(leaf)
        tree.moved.clear()
        tree.entitled_anew.clear()
        self._everything = False
        self._replaced.clear()
        changed = [leaf for leaf, before in self._before.items() if self._has_changed(leaf, before)]
        self._before.clear()
        return changed

    def _has_changed(self, leaf: JobNode, whole: list[int]) -> bool:
        """Whether the integer target of a job differs from before, in amounts or in tasks."""
        before, counts = leaf.integer_task_counts, count_integer_tasks(leaf)
        if counts == before and leaf.integer_target == whole:
            return False
        self._replaced[leaf] = whole, before
        leaf.integer_task_counts = counts
        return True

    def try_next(self, capacity: list[int], ask: Callable[[], bool]) -> bool:
        """Evaluate ``ask`` with the targets that the next run would set; then those of the last run are in force again.

        The jobs whose targets differ count as moved, so that the next run starts from what the passes have handed out.
        """
        self.run(capacity)
        answer = ask()
        for leaf, (whole, counts) in self._replaced.items():
            now = leaf.integer_target
            add_to_targets(leaf, tuple([(j, n - now[j]) for j, n in enumerate(whole) if n != now[j]]), 1)
            leaf.integer_target, leaf.integer_task_counts = whole, counts
            self.tree.moved[leaf] = None
        return answer

    def _note_shortfall(self, leaf: JobNode) -> None:
        """Record whether a job holds less than its integer target: no other job is owed anything."""
        held = leaf.held
        for j, amount in enumerate(leaf.integer_target):
            if amount > held[j]:
                self.may_be_owed[leaf] = None
                return
        self.may_be_owed.pop(leaf, None)

    # --- undoing earlier passes -----------------------------------------------------------------------------------

    def _start_over(self) -> list[list[ShareNode]]:
        """Take back everything, and set the base of all jobs; returns all inner nodes above jobs, by depth."""
        self._given.clear()
        self._records.clear()
        for node in self.tree.root.walk():
            if isinstance(node, JobNode):
                self._before.setdefault(node, node.integer_target)
                node.head, node.head_held = (), False
                node.integer_target = shared_zeros(self.tree.width)
            else:
                node.held_heads.clear()
                node.waiting_heads.clear()
                node.integer_target = [0] * self.tree.width
        jobs = list(self.tree.jobs.values())
        by_depth = levels_above([*[leaf.parent for leaf in jobs if leaf.parent is not None], *self._left_by_jobs()])
        for leaf in jobs:
            self._set_base(leaf)
        return by_depth

    def _undo_changed(self) -> list[list[ShareNode]]:
        """Take back the passes above changes, and set the base of jobs that have another; returns their nodes."""
        tree = self.tree
        for leaf in tree.regrouped:
            if leaf.cohort is not None and leaf.parent is not None and leaf not in tree.moved:
                self._records.pop(leaf.parent, None)
        changed: dict[ShareNode, list[JobNode]] = {}  # by parent
        for leaf in tree.moved:
            if not leaf.gone and leaf.parent is not None:
                changed.setdefault(leaf.parent, []).append(leaf)
        groups: dict[ShareNode, list[EqualJobs]] = {}
        for equals in tree.entitled_anew:
            if equals.members:
                groups.setdefault(equals.parent, []).append(equals)
        left = self._left_by_jobs()
        by_depth = levels_above([*changed, *groups, *left])
        # Of these nodes cohorts may tell what changes below them.
        countable = {node: None for node in (*changed, *groups, *left) if _is_countable(node)}
        lowered: dict[JobNode, None] = {}
        for nodes in by_depth:
            for node in nodes:
                if node not in countable:
                    self._undo(node, lowered)
        for leaf in lowered:
            set_head(leaf, leaf.run)
        settled = {node for node in countable if self._settle(node, changed.get(node, []))}
        lowered.clear()
        for node in countable:
            if node not in settled:
                self._undo(node, lowered)
        for leaf in lowered:
            set_head(leaf, leaf.run)
        for node in dict.fromkeys([*changed, *groups]):
            if node in settled:
                continue
            jobs = changed.get(node, [])
            for leaf in jobs:
                self._set_base(leaf)
            for equals in groups.get(node, ()):
                for leaf in equals.members.values():
                    if leaf not in tree.moved and not _keeps_base(leaf):
                        self._set_base(leaf)
        return [[node for node in nodes if node not in settled] for nodes in by_depth]

    def _settle(self, node: ShareNode, moved: list[JobNode]) -> bool:
        """Bring the pass of a node up to date by cohorts; these jobs have changed. False if it has to be repeated."""
        given = self._given.setdefault(node, [])
        record = self._records.pop(node, None)
        if moved or record is None:
            changed = set(moved)
            self._given[node] = [unit for unit in given if not unit[0].gone and unit[0] not in changed]
            for unit in given:
                if unit[0] in changed:
                    self._take_back(unit)
                    set_head(unit[0], unit[0].run)
                    if unit[0].cohort is not None:
                        unit[0].cohort.served -= 1
            for leaf in moved:
                if record is not None and leaf.cohort is not None:
                    record.discard(leaf)
                self._set_base(leaf)
        if record is None:
            record = record_of(node, self._given[node], moved)
        elif not all(record.add(leaf) for leaf in moved):
            return False
        if record is None:
            return False
        flipped = record.changes(node, self._passes.deficits.nothing, self._passes.deficits.capacity)
        if flipped is None:
            return False
        self._flip(node, flipped)
        record.accept()
        self._records[node] = record
        return True

    def _flip(self, node: ShareNode, jobs: list[JobNode]) -> None:
        """Give these jobs the unit that the pass of a node has for them, or take it back from those that have it."""
        if not jobs:
            return
        losing: set[JobNode] = set()
        more: list[Given] = []
        for leaf in jobs:
            cohort = leaf.cohort
            assert cohort is not None
            if cohort.has_served(leaf):
                losing.add(leaf)
                self._take_back((leaf, cohort.run))
                set_head(leaf, leaf.run)
            else:
                more.append((leaf, cohort.run))
                self._passes.hand_out(leaf)
                set_head(leaf, first_left(leaf))
        self._given[node] = [unit for unit in self._given[node] if unit[0] not in losing] + more

    def _undo(self, node: ShareNode, lowered: dict[JobNode, None]) -> None:
        """Take back the units that the pass of a node handed out; adds the jobs, whose heads are to be set."""
        given = self._given.get(node)
        if given:
            for unit in reversed(given):
                if not unit[0].gone:
                    self._take_back(unit)
                    lowered[unit[0]] = None
            given.clear()
        self._records.pop(node, None)

    def _take_back(self, unit: Given) -> None:
        leaf, run = unit
        self._passes.touch(leaf)
        items, tasks, _, _ = leaf.line[run]
        add_to_targets(leaf, items, -1)
        leaf.integer_tasks -= tasks
        count_taken(leaf, run, -1)
        leaf.run = min(leaf.run, run)

    # --- the units that a job's own entitlement covers ------------------------------------------------------------

    def _set_base(self, leaf: JobNode, tolerance: int = 1) -> None:
        """Hand a job the units that its own entitlement covers, in line order, skipping those that do not fit."""
        self._passes.touch(leaf)
        alike = tolerance > 0 and _shares_targets(leaf)
        if alike and leaf.targets == leaf.demand.satisfied:
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
        if alike:
            self._set_base_of_alike(leaf)
            return
        missing, whole = list(leaf.exact), [0] * len(leaf.exact)
        leaf.run = leaf.integer_tasks = 0
        taken = leaf.taken = [0] * len(line)
        for k, (items, tasks, number, held) in enumerate(line):
            first = first_left(leaf)
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
        share_taken(leaf)
        self._move_to_base(leaf, whole)

    def _set_base_to_all(self, leaf: JobNode) -> None:
        """The same for a job of equal tasks that is entitled to all of them: no unit of its line is left."""
        whole = [0] * len(leaf.exact)
        for j, amount in leaf.demand.total:
            whole[j] = amount
        leaf.integer_tasks = leaf.demand.parts[0][1]
        if not leaf.line and leaf.integer_target is leaf.base and whole == leaf.base:
            return  # so it was before
        leaf.run = 0
        leaf.line, leaf.taken = (), shared_zeros(0)
        self._move_to_base(leaf, whole)

    def _set_base_of_alike(self, leaf: JobNode) -> None:
        """The same for a job of equal tasks, counted in tasks: how many of the line its entitlement covers."""
        line = leaf.line
        left = leaf.integer_tasks = covered_tasks(leaf.targets[0], line)
        whole = [0] * len(leaf.exact)
        for j, amount in leaf.demand.parts[0][0]:
            whole[j] = left * amount
        taken = []
        for _, tasks, number, _ in line:
            units = min(number, left // tasks)
            taken.append(units)
            left -= units * tasks
        leaf.run, leaf.taken = 0, taken
        share_taken(leaf)
        self._move_to_base(leaf, whole)

    def _move_to_base(self, leaf: JobNode, whole: list[int]) -> None:
        before = leaf.integer_target
        if whole != before:
            add_to_targets(leaf, tuple([(j, new - before[j]) for j, new in enumerate(whole) if new != before[j]]), 1)
        if whole != leaf.base:
            leaf.base = shared_vector(tuple(whole))
        leaf.integer_target = leaf.base
        set_head(leaf, first_left(leaf))

    def _limit_bases(self, bounds: SolverBounds) -> Headroom:
        """The headroom that the base targets leave, after jobs were cut back wherever these exceed a limit.

        Targets within a tolerance of an integer were rounded to it, so their sum may slightly exceed a limit.
        """
        while True:
            headroom = Headroom(self._passes.deficits.capacity, bounds)
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

    def forget(self, leaf: JobNode) -> None:
        """Forget a job that is about to leave the tree."""
        leaf.line, leaf.taken, leaf.run = (), shared_zeros(0), 0
        set_head(leaf, 0)
        add_to_targets(leaf, tuple((j, amount) for j, amount in enumerate(leaf.integer_target) if amount), -1)
        self._unlike.discard(leaf)
        self.may_be_owed.pop(leaf, None)
        if leaf.parent is not None:
            self._left[leaf.parent] = None
            self._records.pop(leaf.parent, None)

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


def _share_target(leaf: JobNode, before: list[int]) -> None:
    """Let a job share its integer target with jobs that have the same; most often it had it before."""
    whole = leaf.integer_target
    if whole == leaf.base:
        leaf.integer_target = leaf.base
    elif whole == before:
        leaf.integer_target = before
    else:
        leaf.integer_target = shared_vector(tuple(whole))


def _shares_targets(leaf: JobNode) -> bool:
    """Whether a job of equal tasks is entitled to what its equals are, also if its demand has changed since."""
    equals = leaf.equals
    return (
        leaf.demand.alike
        and equals is not None
        and equals.demand is leaf.demand
        and equals.targets is not None
        and len(leaf.demand.parts[0][0]) > 0
    )


def _keeps_base(leaf: JobNode) -> bool:
    """Whether the entitlement of a job still covers the same units of an unchanged line; no pass has handed it any."""
    if not _shares_targets(leaf):
        return bool(leaf.line) and covers_the_same(leaf)
    satisfied = leaf.targets == leaf.demand.satisfied
    if satisfied or not leaf.line:
        return satisfied and not leaf.line
    return covered_tasks(leaf.targets[0], leaf.line) == leaf.integer_tasks


def _shared_line(leaf: JobNode) -> Line:
    """The line of a job; equal jobs share one if they hold nothing, or as many of tasks that are all equal."""
    equals, demand = leaf.equals, leaf.demand
    if equals is None or demand is not equals.demand:
        return line_of(leaf)
    held = 0
    if leaf.starts:
        if not demand.alike:
            return line_of(leaf)
        items, count = demand.parts[0]
        held = min(leaf.held[items[0][0]] // items[0][1], count)
    key = (leaf.gang, held)
    line = equals.lines.get(key)
    if line is None:
        line = equals.lines[key] = line_of(leaf)
    return line


def _is_countable(node: ShareNode) -> bool:
    """Whether cohorts are likely to tell what the pass of a node hands out: many of its jobs are equal."""
    return node.parent is not None and not node.branches and 2 * len(node.equal_jobs) <= len(node.children)
