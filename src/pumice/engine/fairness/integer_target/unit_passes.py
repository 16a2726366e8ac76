"""The passes of rounding: hand out the units that fit wholly into the deficits of nodes.

See docs/fairness.md, section 3.2. A pass takes *groups*, nodes of one depth, in two stages (``rounding`` says why). In
each stage running units come first, the largest of them first, so that small ones do not displace a gang; then pending
ones. A walk from the top down to the child with the largest deficit, as a fraction of the cluster, finds the next unit.

A unit that does not fit does not block the later tasks of its job: at the end of each stage every job with
heterogeneous tasks is tried again with the first unit of its line that fits. The larger unit keeps its position in the
line, and the passes further up try it first. If later units waited until the last pass, other jobs would by then have
the capacity that is missing below the node. A pending unit that passes over running units of its job leaves them, of
what it asks for, as much as they ask for: otherwise the job would lose a running task to one that has not started. The
root's pass, the last one, does without this. Never passed over are tasks that must start together, and any task in
favour of what a job reserves for pods still to be created.
"""

from __future__ import annotations

from pumice.engine.fairness.integer_target.deficits import Deficits
from pumice.engine.fairness.integer_target.headroom import Headroom
from pumice.engine.fairness.integer_target.line_position import (
    add_to_targets,
    count_taken,
    first_left,
    running_left,
    set_head,
)
from pumice.engine.fairness.integer_target.unit_walk import UnitWalk
from pumice.engine.fairness.integer_target.unlike_jobs import UnlikeJobs
from pumice.engine.fairness.share_tree.equal_jobs import EqualJobs
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.model.specs import Items

Given = tuple[JobNode, int]
"""A unit that was handed out: the job, and the run of its line."""


class UnitGroups:
    """The groups of a pass, and the node from which it walks: the group itself if there is only one."""

    __slots__ = ("nodes", "only", "top")

    def __init__(self, top: ShareNode, nodes: list[ShareNode]) -> None:
        self.top = top
        self.nodes = dict.fromkeys(nodes)
        self.only = top if top in self.nodes else None

    def group_of(self, leaf: JobNode) -> ShareNode:
        """The group that a job is in."""
        if self.only is not None:
            return self.only
        node = leaf.parent
        while node is not None:
            if node in self.nodes:
                return node
            node = node.parent
        raise LookupError(f"{leaf} is below no group of the pass")


class Step:
    """A step of a pass."""

    __slots__ = ("behind", "given", "groups", "missing_only")

    def __init__(self, groups: UnitGroups, given: list[Given], *, missing_only: bool, behind: bool = False) -> None:
        self.groups = groups
        self.given = given
        self.missing_only = missing_only  # only units for which every node below the group has a deficit
        self.behind = behind  # for jobs with heterogeneous tasks, the first unit that fits, wherever it is in the line


class UnitPasses:
    """Hands out units, group by group, within deficits and limits."""

    def __init__(self, unlike: UnlikeJobs, before: dict[JobNode, list[int]]) -> None:
        self.headroom: Headroom | None = None
        self.deficits = Deficits([])
        self._unlike = unlike
        self._before = before  # integer targets before this run, of the jobs touched

    def start(self, capacity: list[int]) -> None:
        """Prepare for the passes of a run."""
        if capacity != self.deficits.capacity:
            self.deficits = Deficits(capacity)
        self.headroom = None

    def run(self, groups: UnitGroups, given: list[Given]) -> None:
        """Hand out the units below the groups that fit wholly into a group's deficit."""
        at_root = groups.only is not None and groups.only.parent is None
        # A deficit only shrinks: most often no job below a node qualifies here.
        offering = self._offering(groups)
        for missing_only in (True,) if at_root else (True, False):
            step = Step(groups, given, missing_only=missing_only)
            if offering:
                running = [leaf for leaf in offering if leaf.head_held and self._stand(step, leaf, held=True)]
                self._serve_held(step, running)
                waiting = [leaf for leaf in offering if not leaf.head_held and self._stand(step, leaf, held=False)]
                self._serve_waiting(step, waiting)
            unlike = [leaf for group in groups.nodes for leaf in self._unlike.below(group, self.deficits)]
            if unlike:
                behind = Step(groups, given, missing_only=missing_only, behind=True)
                running = self._standing(behind, unlike, held=True)
                self._serve_held(behind, running)
                waiting = self._standing(behind, unlike, held=False)
                self._serve_waiting(behind, waiting)
                for leaf in (*running, *waiting):
                    set_head(leaf, leaf.run)
            elif not offering:
                return  # nor does one in the second step

    def adds_nothing(self, node: ShareNode) -> bool:
        """Whether the pass of a node is known to hand out nothing, if those below it have been run without limits.

        Its only child misses the same, and what fits has been handed out there. For a job with heterogeneous tasks
        that is not so: behind another unit, one is tried with what the job leaves to its running units.
        """
        if node.parent is None or len(node.children) != 1 or self._unlike.are_below(node):
            return False
        for child in node.children.values():
            if child.exact != node.exact:
                return False
        return True

    def touch(self, leaf: JobNode) -> None:
        """Remember the integer target of a job that is about to change."""
        if leaf not in self._before:
            self._before[leaf] = leaf.integer_target  # a change gives the job another vector

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
        kept = {} if held or step.groups.group_of(leaf).parent is None else running_left(leaf)
        for run in range(leaf.run if start else leaf.at, len(line)):
            items, tasks, number, here = line[run]
            if not tasks and run > leaf.run:
                break
            if taken[run] < number and here is held:
                room = tuple((j, amount + kept.get(j, 0)) for j, amount in items) if kept else items
                if self._admits(step, leaf, room):
                    set_head(leaf, run)
                    leaf.head_room = room
                    return True
        return False

    def _serve_waiting(self, step: Step, jobs: list[JobNode]) -> None:
        if len(jobs) == 1:  # nothing to compare it with
            self.give(jobs[0], step)
            while self._stand(step, jobs[0], held=False):
                self.give(jobs[0], step)
        elif jobs:
            walk = UnitWalk(self, step.groups, jobs, missing_only=step.missing_only)
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
            largest = by_size.pop(size)
            if len(largest) == 1:  # nothing to compare it with
                only = largest[0]
                stands = self._stand(step, only, held=True)
                if stands and self.size(only) == size:
                    self.give(only, step)
                    stands = self._stand(step, only, held=True)
                if stands:
                    by_size.setdefault(self.size(only), []).append(only)
                continue
            for leaf in largest:
                if self._stand(step, leaf, held=True):
                    by_size.setdefault(self.size(leaf), []).append(leaf)
            if size not in by_size or max(by_size) > size:  # some jobs have moved on to other units
                continue
            walk = UnitWalk(self, step.groups, by_size.pop(size), missing_only=step.missing_only)
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
        capacity, largest = self.deficits.capacity, 0.0
        for j, amount in leaf.head:
            size = amount / (capacity[j] or 1)
            if size > largest:
                largest = size
        return largest

    def _offering(self, groups: UnitGroups) -> list[JobNode]:
        """The jobs below the groups whose next unit fits the group's deficit: no other will fit later in the pass."""
        found: list[JobNode] = []
        deficits = self.deficits
        for group in groups.nodes:
            at_root = group.parent is None
            stack = [group] if self._holds_a_head(group, group) else []
            while stack:
                node = stack.pop()
                for child in node.children.values():
                    if isinstance(child, JobNode):
                        unit = child.head
                        if unit and deficits.holds(group, unit) and (not at_root or deficits.misses(child, unit)):
                            found.append(child)
                    elif self._holds_a_head(group, child):
                        stack.append(child)
        return found

    def _holds_a_head(self, group: ShareNode, node: ShareNode) -> bool:
        """Whether the deficit of a group holds a unit that a job below a node offers.

        The root has one step, in which the node must have a deficit of what the unit asks for.
        """
        inner, deficits = node.inner, self.deficits
        at_root = group.parent is None and node is not group
        for unit in inner.held_heads:
            if deficits.holds(group, unit) and (not at_root or deficits.misses(node, unit)):
                return True
        for unit in inner.waiting_heads:
            if deficits.holds(group, unit) and (not at_root or deficits.misses(node, unit)):
                return True
        return False

    def is_able(self, step: Step, leaf: JobNode) -> bool:
        """Whether a job may get its next unit in a step."""
        return self._admits(step, leaf, leaf.head)

    def _admits(self, step: Step, leaf: JobNode, unit: Items) -> bool:
        """Whether a unit fits its group and the limits and, if required, all nodes up to the group have a deficit."""
        deficits, group = self.deficits, step.groups.group_of(leaf)
        if not deficits.holds(group, unit):
            return False
        if step.missing_only:
            node: ShareNode | None = leaf
            while node is not None and node is not group:
                if not deficits.misses(node, unit):
                    return False
                node = node.parent
        return self.headroom is None or self.headroom.fits(leaf, unit)

    def hand_out(self, leaf: JobNode) -> None:
        """Add its head unit to a job's integer target."""
        self.touch(leaf)
        run = leaf.at
        items, tasks, _, _ = leaf.line[run]
        add_to_targets(leaf, items, 1)
        leaf.integer_tasks += tasks
        count_taken(leaf, run, 1)

    def give(self, leaf: JobNode, step: Step) -> None:
        """Hand a job its head unit."""
        step.given.append((leaf, leaf.at))
        self.hand_out(leaf)
        if self.headroom is not None:
            self.headroom.take(leaf, leaf.line[leaf.at].items)
        first = first_left(leaf)
        if not step.behind:
            set_head(leaf, first)
