"""The default order: serve the node furthest below its target (docs/fairness.md, section 3.3).

Every node has an entitlement E (the target in integer units) and a holding A; its deficit is E - A. While any candidate
is *owed* (its unit stays within its integer target) only owed candidates are served, by the largest deficit relative to
their own entitlement, (E - A) / E; after that the rest is lent, by the largest deficit relative to the cluster, (E - A)
/ r. Both count only the resources that the candidates below a node ask for. Each node has two heaps of children, one
per criterion; the second is updated only where a walk needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from heapq import heappop, heappush, heapreplace
from operator import attrgetter

from pumice.engine.fairness.fluid_target.targets import set_targets
from pumice.engine.fairness.integer_target.rounding import IntegerTargets
from pumice.engine.fairness.orders.serving_order import (
    GRID_ROUNDER,
    HeapOrder,
    asks_of,
    compact,
    count_asks,
    entry_of,
)
from pumice.engine.fairness.preemption_rules.rules import PreemptionRule, TargetRule
from pumice.engine.fairness.preemption_rules.task_rights import is_owed
from pumice.engine.fairness.share_tree.share_node import Entry, JobNode, NodeKind, ShareNode, latest_start, own_target
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.engine.fairness.share_tree.waiting_line import WaitingLine
from pumice.model.specs import Items

_lending_entry_of = attrgetter("lending_entry")


class TargetOrder(HeapOrder):
    """The default order: integer targets first, then lending."""

    has_targets = True
    measure = "want"

    def __init__(
        self, tree: ShareTree, capacity: list[int], patience: int = 300_000_000, hold_limit: int = 120_000_000
    ) -> None:
        super().__init__(tree, capacity)
        self.rounding = IntegerTargets(tree)
        self.patience = patience
        self.hold_limit = hold_limit

    def charge(self, leaf: JobNode, items: Items, stamp: int, tasks: int = 1, owed: bool = True) -> None:
        """Charge started tasks; the job may no longer be owed."""
        if leaf.waiting_line is not None:
            self.leave_line(leaf)
        self.tree.charge(leaf, items, stamp, tasks, owed)
        if leaf.counted_owed is not None and not self.is_owed(leaf, leaf.counted_owed):
            self.recount_candidate(leaf)

    def uncharge(self, leaf: JobNode, items: Items, stamp: int, tasks: int = 1, owed: bool = True) -> None:
        """Uncharge ended tasks; the job may be owed again."""
        self.tree.uncharge(leaf, items, stamp, tasks, owed)
        self.recount_candidate(leaf)

    def is_owed(self, leaf: JobNode, ask: Items) -> bool:
        """Whether one more unit stays within the integer target."""
        return is_owed(leaf, ask)

    def may_be_owed(self) -> Container[JobNode] | None:
        """The jobs that held less than their integer target when it was rounded, and those that changed since."""
        return self.rounding.may_be_owed | self.tree.moved

    def entitlement_of(self, queue: ShareNode) -> list[int]:
        """The entitlement that the solver set."""
        return queue.entitled

    def preemption_rule(
        self, leaf: JobNode, ask: Items, scarce: Callable[[], Items], *, by_share: bool, by_class: bool
    ) -> PreemptionRule:
        """Integer targets decide, whatever plugins vote about shares and classes."""
        return TargetRule(self, ask)

    def transfer_entitlement(self, leaf: JobNode, heir: JobNode, items: Items) -> None:
        """Move a unit of one job's integer target to another job."""
        own_target(leaf)
        own_target(heir)
        for j, amount in items:
            leaf.integer_target[j] -= amount
            heir.integer_target[j] += amount
        self.tree.moved[leaf] = self.tree.moved[heir] = None
        if heir.waiting_line is not None:
            self.leave_line(heir)
        self.recount_candidate(leaf)
        self.recount_candidate(heir)

    def set_candidate(self, leaf: JobNode, ask: Items | None, able: bool) -> None:
        """Count a job by itself."""
        if leaf.waiting_line is not None:
            self.leave_line(leaf)
        super().set_candidate(leaf, ask, able)

    # --- waiting lines -------------------------------------------------------------------------------------------

    def may_line_up(self, leaf: JobNode) -> bool:
        """Whether a job runs nothing, is owed nothing, and shares its entitlement with its equals."""
        return (
            leaf.equals is not None
            and not leaf.starts
            and not any(leaf.integer_target)
            and leaf not in self.tree.regroup
        )

    def line_up(self, leaf: JobNode, line: WaitingLine) -> None:
        """Let a job stand in a line: unless it becomes the head, it is no candidate."""
        super().set_candidate(leaf, None, False)
        line.add(leaf)
        if line.able and (line.head is None or leaf.rank < line.head.rank):
            self._set_head(line, leaf)

    def leave_line(self, leaf: JobNode) -> None:
        """Let a job wait by itself; the next one in its line becomes the head if it was."""
        line = leaf.waiting_line
        assert line is not None
        line.remove(leaf)
        leaf.ask, leaf.able = line.unit.ask, line.able
        if line.head is leaf:
            line.head = None
            self._set_head(line, line.first())
        self.recount_candidate(leaf)

    def open_line(self, line: WaitingLine, able: bool) -> None:
        """Set whether the unit of a line can be placed now: if so, its head is a candidate."""
        line.able = able
        head = line.first() if able else None
        if head is not line.head:
            self._set_head(line, head)

    def _set_head(self, line: WaitingLine, head: JobNode | None) -> None:
        old = line.head
        line.head = head
        if old is not None:
            super().set_candidate(old, None, False)
        if head is not None:
            super().set_candidate(head, line.unit.ask, True)

    def recount_candidate(self, leaf: JobNode) -> None:
        """Update the counts of able and of owed candidates to a job's current state."""
        able = leaf.ask if leaf.able else None
        owed = able if able is not None and self.is_owed(leaf, able) else None
        was_able, was_owed = leaf.counted_able, leaf.counted_owed
        if able is was_able and owed is was_owed:
            return
        leaf.counted_able, leaf.counted_owed = able, owed
        able_before, owed_before = leaf.able_asks, leaf.owed_asks
        asks = asks_of(able) if able is not None else ()
        leaf.able_asks, leaf.owed_asks = asks, asks if owed is not None else ()
        node: ShareNode = leaf
        while (parent := node.parent) is not None:
            if not node.dirty:
                node.dirty = True
                parent.child_heap.changed.append(node)
            inner, able_above, owed_above = parent.inner, parent.able_asks, parent.owed_asks
            if node.able_asks != able_before:
                parent.able_asks = count_asks(inner.able_count, able_before, node.able_asks, able_above)
            if node.owed_asks != owed_before:
                parent.owed_asks = count_asks(inner.owed_count, owed_before, node.owed_asks, owed_above)
            if parent.able_asks is able_above and parent.owed_asks is owed_above:
                break  # what the nodes above ask for is as before, and so are their keys
            node, able_before, owed_before = parent, able_above, owed_above

    def set_candidates(self, leaves: list[JobNode], ask: Items, able: bool) -> None:
        """The same for many jobs that wait with one unit by themselves."""
        for leaf in leaves:
            leaf.ask, leaf.able = ask, able
            self.recount_candidate(leaf)

    def remove_job(self, leaf: JobNode) -> None:
        """Drop the job's integer target."""
        self.rounding.forget(leaf)

    def restructure(self) -> None:
        """Ages and weights of nodes may differ: round everything from scratch."""
        self.rounding.forget_all()
        self.tree.reshaped = True

    def refresh_targets(self, *, demand_changed: bool) -> list[JobNode]:
        """Solve if the fluid target can have changed; round in any case."""
        if demand_changed:
            set_targets(self.tree, self.capacity)
        changed = self.rounding.run(self.capacity)
        for leaf in changed:
            self.recount_candidate(leaf)
        return changed

    def with_next_targets(self, ask: Callable[[], bool]) -> bool:
        """Evaluate ``ask`` with the integer targets that follow from what is held now; targets stay as they are."""
        return self.rounding.try_next(self.capacity, ask)

    # --- picking ---------------------------------------------------------------------------------------------

    @property
    def lending(self) -> bool:
        """Whether no placeable job is owed anything."""
        return not self.tree.root.owed_asks

    def next_job(self) -> JobNode | None:
        """The next owed job if there is one, else the next of all placeable jobs."""
        node, job = self.tree.root, NodeKind.JOB
        if node.owed_asks:
            while node.kind is not job:  # ``first_child``, inlined for every level
                front = node.child_heap
                if front.changed:
                    self._refresh_keys(node)
                heap = front.heap
                while heap[0][-1].heap_entry is not heap[0]:
                    heappop(heap)
                node = heap[0][-1]
        elif node.able_asks:
            while node.kind is not job:
                node = self._first_lent(node)
        else:
            return None
        assert isinstance(node, JobNode)
        return node

    def _refresh_keys(self, node: ShareNode) -> None:
        front, lent = node.child_heap, node.lending_heap.changed
        heap = front.heap
        for child in front.changed:
            child.dirty = False
            if child.owed_asks:
                old = child.heap_entry
                entry = child.heap_entry = self.entry(child)
                if old is not None and heap[0] is old:  # the child served last was the first of the heap
                    heapreplace(heap, entry)
                else:
                    heappush(heap, entry)
            else:
                child.heap_entry = None
            if not child.lent_flagged:
                child.lent_flagged = True
                lent.append(child)
        front.changed.clear()
        compact(heap, node)

    def _first_lent(self, node: ShareNode) -> ShareNode:
        if node.child_heap.changed:
            self._refresh_keys(node)
        front = node.lending_heap
        heap = front.heap
        if front.changed:
            for child in front.changed:
                child.lent_flagged = False
                if child.able_asks:
                    old = child.lending_entry
                    entry = child.lending_entry = self._lent_entry(child)
                    if old is not None and heap[0] is old:
                        heapreplace(heap, entry)
                    else:
                        heappush(heap, entry)
                else:
                    child.lending_entry = None
            front.changed.clear()
            compact(heap, node, _lending_entry_of)
        while True:
            entry = heap[0]
            first: ShareNode = entry[-1]
            if first.lending_entry is entry:
                return first
            heappop(heap)

    # --- keys --------------------------------------------------------------------------------------------------

    def entry(self, node: ShareNode) -> Entry:
        """The heap entry among owed candidates."""
        want = -(2.0**20)
        held, entitled = node.held, node.due
        for j in node.owed_asks:
            due = entitled[j]
            part = (due - held[j]) / due if due else 0.0
            if part > want:
                want = part
        key = -((want + GRID_ROUNDER) - GRID_ROUNDER)
        latest = latest_start(node) if node.stale else node.latest
        if isinstance(node, JobNode):  # ``entry_of`` inlined: runs at every level for every unit that starts
            return (node.before, key, node.after, latest, node.rank, node)
        return ((), key, (), latest, node.rank, node)

    def _lent_entry(self, node: ShareNode) -> Entry:
        want = -(2.0**20)
        held, entitled, capacity = node.held, node.due, self.capacity
        for j in node.able_asks:
            part = (entitled[j] - held[j]) / (capacity[j] or 1)
            if part > want:
                want = part
        return entry_of(node, -((want + GRID_ROUNDER) - GRID_ROUNDER))

    def ranked(self, node: ShareNode) -> list[Entry]:
        """The entries of the children that can be served, in the current walk (owed or lending)."""
        if self.lending:
            return sorted(self._lent_entry(child) for child in node.children.values() if child.able_asks)
        return sorted(self.entry(child) for child in node.children.values() if child.owed_asks)

    def display_key(self, entry: Entry) -> float:
        """The want: the deficit, so the largest comes first."""
        return -float(entry[1])
