"""The share tree: root, queues at any depth, namespaces, jobs. One tree serves every policy.

A node keeps the holdings of the jobs below it (the plain sum, integers) and the time when a job below it was last
served. A placement or a release changes one path: a vector addition per level, and a mark at each parent that this
child changed, so that an order (see ``serving_order``) refreshes only what changed. The tree can be rebuilt from the
running tasks with an identical result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pumice.engine.fairness.share_tree.equal_jobs import EqualJobs
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.engine.fairness.share_tree.shared_vectors import shared_zeros
from pumice.engine.fairness.share_tree.start_times import add_starts, remove_starts
from pumice.engine.fairness.share_tree.usage_sums import claim, claim_anew, count_job
from pumice.engine.state.job import Job
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.fairness.fluid_target.solver_bounds import SolverBounds
    from pumice.engine.fairness.limits.user_limits import LimitedQueue


class ShareTree:
    """The tree with its accounts. ``tree_sync`` changes its structure, ``charge`` and ``uncharge`` its accounts."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.root = ShareNode(NodeKind.QUEUE, "root", None, width)
        self.jobs: dict[str, JobNode] = {}
        self.bounds: SolverBounds | None = None  # the limits for which the targets were solved; None: there are none
        self.limited: dict[ShareNode, LimitedQueue] = {}  # leaf queues whose users are limited
        self.reserving = False  # whether any queue has a guarantee, so that claims are kept
        # Resources of units that no gate rejects and that find no room. Allocate sets it before gates give way.
        self.awaited: frozenset[int] = frozenset()
        self.touched: dict[JobNode, None] | None = None  # jobs to recount (see ``usage_ledger``); None: not tracked
        self.moved: dict[JobNode, None] = {}  # jobs to round again: their holdings or demand changed
        self.entitled_anew: dict[EqualJobs, None] = {}  # jobs to round again: their entitlement changed
        self.regroup: dict[JobNode, None] = {}  # jobs whose class, demand or user changed since targets were solved
        self.regrouped: list[JobNode] = []  # jobs that joined other equals then
        self.regrouped_below: dict[ShareNode, None] = {}  # nodes whose groups of equal jobs changed since
        self.reshaped = True  # queues came or went, or weights changed, since targets were solved
        self.branched = False  # namespaces came or went since then
        self.known_targets: Any = None  # what ``fluid_target.targets`` keeps from solve to solve

    # --- structure ---------------------------------------------------------------------------------------

    def child(self, parent: ShareNode, kind: NodeKind, name: str) -> ShareNode:
        """The child of that name, created if missing."""
        node = parent.branches.get((kind, name))
        if node is None:
            node = parent.branches[kind, name] = parent.children[kind, name] = ShareNode(kind, name, parent, self.width)
            self._branch(node)
            self.mark(node)
        return node

    def add_job(self, job: Job, parent: ShareNode) -> JobNode:
        """Add a leaf below a queue or namespace."""
        leaf = JobNode(job, parent, self.width)
        if job.spec is not None:
            leaf.rank = (job.spec.created, NodeKind.JOB, job.key, leaf.serial)
        parent.children[leaf.serial] = leaf
        self.jobs[job.key] = leaf
        self.moved[leaf] = self.regroup[leaf] = None
        return leaf

    def remove(self, node: ShareNode) -> None:
        """Remove a node that holds nothing and has no children."""
        assert node.parent is not None and not node.children and not any(node.held) and not any(node.integer_target)
        siblings = node.parent.children
        node.gone = True
        node.heap_entry = node.lending_entry = None
        if not isinstance(node, JobNode):
            del siblings[node.kind, node.name], node.parent.branches[node.kind, node.name]
            self._branch(node)
        else:
            del siblings[node.serial]
            nothing = [0] * self.width
            count_job(node, nothing, nothing, nothing)
            if self.touched is not None:
                self.touched.pop(node, None)
            self.moved.pop(node, None)
            self.regroup.pop(node, None)
            self._leave_equals(node)
            del self.jobs[node.name]
        node.parent.child_heap.leave(len(siblings))
        node.parent.lending_heap.leave(len(siblings))

    def _branch(self, node: ShareNode) -> None:
        """Note that a node that is no job came or went."""
        if node.kind is NodeKind.NAMESPACE:
            self.branched = True
        else:
            self.reshaped = True

    def group_equal_jobs(self) -> None:
        """Let the jobs that changed join their equals, in the order of the changes."""
        for leaf in self.regroup:
            equality = (leaf.rank_class, leaf.demand, leaf.user)
            if leaf.equals is not None and leaf.equals.equality == equality:
                leaf.demand = leaf.equals.demand
                continue
            self._leave_equals(leaf)
            assert leaf.parent is not None
            equals = leaf.parent.equal_jobs.get(equality)
            if equals is None:
                equals = leaf.parent.equal_jobs[equality] = EqualJobs(equality, leaf.parent, self.width)
            equals.join(leaf)
            self.regrouped_below[leaf.parent] = None
            self.regrouped.append(leaf)
        self.regroup.clear()

    def _leave_equals(self, leaf: JobNode) -> None:
        equals = leaf.equals
        if equals is not None:
            equals.leave(leaf)
            self.regrouped_below[equals.parent] = None
            if not equals.members:
                assert leaf.parent is not None
                del leaf.parent.equal_jobs[equals.equality]

    def queues(self) -> list[ShareNode]:
        """All queues, parents first."""
        found = [self.root]
        for queue in found:
            found += [child for child in queue.children.values() if child.kind is NodeKind.QUEUE]
        return found

    # --- accounts ------------------------------------------------------------------------------------------

    def charge(self, leaf: JobNode, items: Items, stamp: int, tasks: int = 1, owed: bool = True) -> None:
        """Charge started tasks of a job to its whole path."""
        if not leaf.starts:
            leaf.starts = leaf.owed_starts = []
        if not owed:
            _part_starts(leaf)
        add_starts(leaf.starts, stamp, tasks)
        if owed and leaf.owed_starts is not leaf.starts:
            add_starts(leaf.owed_starts, stamp, tasks)
        if leaf.user_held is not None:
            for j, amount in items:
                leaf.user_held[j] += amount
        leaf.held = list(leaf.held)  # it may be shared
        node: ShareNode = leaf
        while True:
            held = node.held
            for j, amount in items:
                held[j] += amount
            if stamp > node.latest:
                node.latest = stamp
                node.stale = False
            if owed and stamp > node.latest_owed:
                node.latest_owed = stamp
                node.stale_owed = False
            parent = node.parent
            if parent is None:
                break
            if not node.dirty:
                node.dirty = True
                parent.child_heap.changed.append(node)
            node = parent
        if self.reserving:
            claim(leaf.queue, items)
        self.moved[leaf] = leaf.integer_line = None
        if self.touched is not None:
            self.touched[leaf] = None

    def remember_turn(self, leaf: JobNode, stamp: int) -> None:
        """Record that an owed unit has started for good: its job and its queues had their turn.

        Otherwise a job that no longer runs anything would leave no trace of having been served: the older of two gangs
        that alternate, or of two jobs with half a task each, would win every time. It is the last tie-break before age,
        so that a scheduler that has just started, and knows no turns, differs in nothing else.
        """
        self.moved[leaf] = None
        namespace = NodeKind.NAMESPACE
        node: ShareNode | None = leaf
        while node is not None:
            if node.kind is not namespace:
                node.last_turn = stamp
            node = node.parent

    def turns(self) -> dict[str, int]:
        """The latest turn of every node that had one, by path."""
        return {node.path: node.last_turn for node in self.root.walk() if node.last_turn}

    def restore_turns(self, turns: Mapping[str, int]) -> None:
        """Take over the turns that ``turns`` returned. Rounding starts anew, because ties may now go the other way."""
        for node in self.root.walk():
            node.last_turn = turns.get(node.path, 0)
        self.moved.update(dict.fromkeys(self.jobs.values()))

    def uncharge(self, leaf: JobNode, items: Items, stamp: int, tasks: int = 1, owed: bool = True) -> None:
        """Exactly undo ``charge``."""
        if not owed:
            _part_starts(leaf)
        remove_starts(leaf.starts, stamp, tasks)
        if owed and leaf.owed_starts is not leaf.starts:
            remove_starts(leaf.owed_starts, stamp, tasks)
        if leaf.user_held is not None:
            for j, amount in items:
                leaf.user_held[j] -= amount
        leaf.held = list(leaf.held)
        node: ShareNode = leaf
        while True:
            held = node.held
            for j, amount in items:
                held[j] -= amount
            if stamp == node.latest:
                node.stale = True
            if owed and stamp == node.latest_owed:
                node.stale_owed = True
            parent = node.parent
            if parent is None:
                break
            if not node.dirty:
                node.dirty = True
                parent.child_heap.changed.append(node)
            node = parent
        if self.reserving:
            claim(leaf.queue, tuple((j, -amount) for j, amount in items))
        self.moved[leaf] = leaf.integer_line = None
        if self.touched is not None:
            self.touched[leaf] = None

    def reserve(self) -> None:
        """Recompute claims after guarantees have changed."""
        queues = self.queues()
        self.reserving = any(queue.guarantee is not None for queue in queues)
        if self.reserving:
            claim_anew(queues)

    def touch(self, leaf: JobNode) -> None:
        """Note that the counters of a job must be recomputed."""
        if self.touched is not None:
            self.touched[leaf] = None

    def flag(self, node: ShareNode) -> None:
        """Mark that the key of this node alone may have changed."""
        if not node.dirty and node.parent is not None:
            node.dirty = True
            node.parent.child_heap.changed.append(node)

    def mark(self, node: ShareNode) -> None:
        """Mark that the keys of a node and of its ancestors may have changed."""
        while (parent := node.parent) is not None:
            if not node.dirty:
                node.dirty = True
                parent.child_heap.changed.append(node)
            node = parent

    def widen(self, width: int) -> None:
        """Extend all vectors for resources that were registered later."""
        more = [0] * (width - self.width)
        for node in self.root.walk():
            node.held, node.integer_target = _widened(node.held, width), _widened(node.integer_target, width)
            if not isinstance(node, JobNode):
                _widen_inner(node, width)
            if not isinstance(node, JobNode) or node.equals is None:
                node.exact, node.entitled = _widened(node.exact, width), _widened(node.entitled, width)
                node.due = [*node.due, *[0.0] * len(more)]
            request, inqueue, elastic = node.counters
            node.counters = _widened(request, width), _widened(inqueue, width), _widened(elastic, width)
            if isinstance(node, JobNode):
                node.base = _widened(node.base, width)
        self.width = width
        self.reshaped = True

    def validate(self) -> None:
        """Check all holdings against a full recount."""
        for leaf in self.jobs.values():
            held = [0] * self.width
            starts = []
            for task in leaf.job.each_task():
                if task.status.held:
                    starts.append(task.started)
                    for j, amount in task.shape.ask:
                        held[j] += amount
            assert held == leaf.held, f"{leaf.path} holds {held}, the tree says {leaf.held}"
            assert sorted(starts) == leaf.starts
        for node in self.root.walk():
            if node.kind is not NodeKind.JOB:
                total = [sum(column) for column in zip(*(c.held for c in node.children.values()), strict=True)]
                assert (total or [0] * self.width) == node.held, f"{node.path}: children do not add up"


def _part_starts(leaf: JobNode) -> None:
    """Before a start that was not owed is added or removed: it is in only one of the lists."""
    if leaf.owed_starts is leaf.starts:
        leaf.owed_starts = list(leaf.starts)


def _widen_inner(node: ShareNode, width: int) -> None:
    """Extend what a queue or namespace has beyond what jobs have, too."""
    node.able_count, node.owed_count = _widened(node.able_count, width), _widened(node.owed_count, width)
    node.claims = _widened(node.claims, width)
    for vector in (node.guarantee or [], node.ceiling or []):  # zero of the new resources until bounds are set again
        vector.extend([0] * (width - len(vector)))
    for equals in node.equal_jobs.values():
        equals.widen(width - len(equals.exact))


def _widened(vector: list[int], width: int) -> list[int]:
    """A vector with zeros for resources that were registered later; shared zeros stay shared."""
    if vector is shared_zeros(len(vector)):
        return shared_zeros(width)
    return vector + [0] * (width - len(vector))
