"""Serving orders: which job is served next. An order walks the share tree from the root to the first child.

``ServingOrder`` is the interface that the scheduling cycle uses. The cycle reports what each job would start next and
whether that can be placed now (``set_candidate``), and what starts and ends (``charge``, ``uncharge``); ``next_job``
returns the job to serve. Keys are compared on a grid of 2^-30, so that equal shares tie; ties go to the least recently
served, then by age and name. ``HeapOrder`` implements any policy whose key depends on the node's own account, such as
flat DRF below.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import lru_cache
from heapq import heapify, heappop, heappush
from operator import attrgetter

from kubebase.resource_vector import PODS, dominant_share
from pumice.engine.fairness.preemption_rules.rules import KeyRule, PreemptionRule
from pumice.engine.fairness.share_tree.share_node import Entry, JobNode, NodeKind, ShareNode, latest_start
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.engine.fairness.share_tree.waiting_line import WaitingLine
from pumice.model.specs import Items

GRID_ROUNDER = 1.5 * 2.0**22
"""(x + GRID_ROUNDER) - GRID_ROUNDER rounds x to the nearest multiple of 2^-30 (for |x| < 2^21), half to even."""


@dataclass(frozen=True, slots=True)
class PickStep:
    """One step of a pick, for reports: the chosen child, its key, and the runner-up."""

    node: str
    key: float
    runner_up: str | None = None
    runner_up_key: float | None = None


class ServingOrder:
    """Decides which job is served next. Abstract for mypy; compiled classes share the caches of an ABC's isinstance."""

    patience = -1
    """Delay after which an owed job that cannot be placed gets a reservation (microseconds); negative: never."""
    hold_limit = 0
    """How long such a reservation may last without progress."""
    has_targets = False
    """Whether jobs have targets, so that a job is owed its deficit."""
    victims_may_reclaim = True
    """Whether a job that lost a task may reclaim before anything else has changed (docs/fairness.md, section 9.4)."""
    measure = "share"
    """What the key of a node means, in reports: ``want`` or ``share``."""

    def __init__(self, tree: ShareTree, capacity: list[int]) -> None:
        self.tree = tree
        self.capacity = capacity

    def charge(self, leaf: JobNode, items: Items, stamp: int, tasks: int = 1, owed: bool = True) -> None:
        """Charge started tasks to a job."""
        self.tree.charge(leaf, items, stamp, tasks, owed)

    def uncharge(self, leaf: JobNode, items: Items, stamp: int, tasks: int = 1, owed: bool = True) -> None:
        """Uncharge tasks that ended, or whose start is undone."""
        self.tree.uncharge(leaf, items, stamp, tasks, owed)

    @property
    def lending(self) -> bool:
        """Whether all owed units are served, so that the rest is lent; only in orders with targets."""
        return False

    @abstractmethod
    def set_candidate(self, leaf: JobNode, ask: Items | None, able: bool) -> None:
        """Set the request of a job's next unit (None: it has none); able: the unit can be placed now."""

    def set_candidates(self, leaves: list[JobNode], ask: Items, able: bool) -> None:
        """The same for many jobs that wait with one unit."""
        for leaf in leaves:
            self.set_candidate(leaf, ask, able)

    def may_line_up(self, leaf: JobNode) -> bool:
        """Whether a waiting job may stand in a line of equal jobs, of which only the first is a candidate."""
        return False

    def line_up(self, leaf: JobNode, line: WaitingLine) -> None:
        """Let a job stand in a line; only in orders in which it may."""
        raise NotImplementedError

    def leave_line(self, leaf: JobNode) -> None:
        """Let a job that stands in a line wait by itself."""
        raise NotImplementedError

    def open_line(self, line: WaitingLine, able: bool) -> None:
        """Set whether the unit of a line can be placed now."""
        raise NotImplementedError

    @abstractmethod
    def next_job(self) -> JobNode | None:
        """The job to serve next among the able ones; None if there is none."""

    @abstractmethod
    def explain(self) -> tuple[PickStep, ...]:
        """Explain the next pick, level by level."""

    def is_owed(self, leaf: JobNode, ask: Items) -> bool:
        """Whether a unit with this request is within the job's entitlement; without targets every unit is."""
        return True

    def may_be_owed(self) -> Container[JobNode] | None:
        """The jobs to which ``is_owed`` may apply; None: all. A backlog has many more jobs than these."""
        return None

    def key_of(self, node: ShareNode, asked: Items = ()) -> float:
        """The key of a node among its siblings by its current holdings: smaller comes first; 0 without a key.

        A key that compares amounts considers only the requested resources.
        """
        return 0.0

    def comparison_key(self, side: ShareNode, leaf: JobNode, asked: Items) -> float:
        """The key of one side of the lowest common ancestor; the job below it is the preemptor or the victim."""
        return self.key_of(side, asked)

    def entitlement_of(self, queue: ShareNode) -> list[int]:
        """The entitlement of a queue, as far as this order defines one; else its part by weight alone."""
        part = 1.0
        node = queue
        while node.parent is not None:
            part *= node.weight / sum(child.weight for child in node.parent.children.values())
            node = node.parent
        return [int(total * part) for total in self.capacity]

    def deserved_by(self, queue: ShareNode) -> Items | None:
        """The deserved amount of a queue; None if this order does not use deserved amounts."""
        return None

    def preemption_rule(
        self, leaf: JobNode, ask: Items, scarce: Callable[[], Items], *, by_share: bool, by_class: bool
    ) -> PreemptionRule:
        """The rule that decides what other jobs may lose so that a job's unit can start.

        ``ask`` is the request of the unit, ``scarce`` the part of it that is idle on no node.
        """
        return KeyRule(self, leaf, ask, by_share=by_share, by_class=by_class)

    def transfer_entitlement(self, leaf: JobNode, heir: JobNode, items: Items) -> None:
        """Transfer this much of a job's entitlement to another; only in orders with targets."""
        return

    def remove_job(self, leaf: JobNode) -> None:
        """Forget a job that holds nothing and is no candidate, before it leaves the tree."""
        return

    def restructure(self) -> None:
        """Nodes were added or removed, or weights or the capacity changed."""
        return

    def refresh_targets(self, *, demand_changed: bool) -> list[JobNode]:
        """Called before the actions of a cycle when something changed; returns the jobs whose target changed."""
        return []

    def with_next_targets(self, ask: Callable[[], bool]) -> bool:
        """Evaluate ``ask`` with the integer targets of the next rounding, if there are any."""
        return ask()


class HeapOrder(ServingOrder):
    """An order that picks minima of lazy heaps, one heap of children per node."""

    def set_candidate(self, leaf: JobNode, ask: Items | None, able: bool) -> None:
        """Let the nodes above a job ask for what it asks for, or no longer."""
        leaf.ask = ask
        leaf.able = able and ask is not None
        self.recount_candidate(leaf)

    def recount_candidate(self, leaf: JobNode) -> None:
        """Update what the nodes above a job ask for to its current state."""
        ask = leaf.ask if leaf.able else None
        if ask is leaf.counted_able:
            return
        leaf.counted_able = ask
        before = leaf.able_asks
        leaf.able_asks = asks_of(ask)
        self.tree.mark(leaf)
        node: ShareNode = leaf
        while (parent := node.parent) is not None and node.able_asks != before:
            above = parent.able_asks
            parent.able_asks = count_asks(parent.inner.able_count, before, node.able_asks, above)
            node, before = parent, above

    def next_job(self) -> JobNode | None:
        """Walk down the first children."""
        node = self.tree.root
        if not node.able_asks:
            return None
        while node.kind is not NodeKind.JOB:
            node = self.first_child(node)
        assert isinstance(node, JobNode)
        return node

    def first_child(self, node: ShareNode) -> ShareNode:
        """The child to serve first; the node must have a candidate below it."""
        front = node.child_heap
        heap = front.heap
        if front.changed:
            self._refresh_keys(node)
        while True:
            entry = heap[0]
            child: ShareNode = entry[-1]
            if child.heap_entry is entry:
                return child
            heappop(heap)

    def _refresh_keys(self, node: ShareNode) -> None:
        """Refresh the entries of the changed children."""
        front = node.child_heap
        heap = front.heap
        for child in front.changed:
            child.dirty = False
            entry = child.heap_entry = self.entry(child) if child.able_asks else None
            if entry is not None:
                heappush(heap, entry)
        front.changed.clear()
        compact(heap, node)

    @abstractmethod
    def entry(self, node: ShareNode) -> Entry:
        """The heap entry of a node with candidates below: its key, then the tie-breaks, then the node."""

    def ranked(self, node: ShareNode) -> list[Entry]:
        """The entries of the children that can be served, first to last (slow path, for explanations)."""
        return sorted(self.entry(child) for child in node.children.values() if child.able_asks)

    def display_key(self, entry: Entry) -> float:
        """The deciding number, as reports show it."""
        return float(entry[1])

    def explain(self) -> tuple[PickStep, ...]:
        """The levels of the next pick, each with its runner-up."""
        levels = []
        node = self.tree.root
        while node.kind is not NodeKind.JOB and (ranked := self.ranked(node)):
            chosen, second = ranked[0], ranked[1] if len(ranked) > 1 else None
            levels.append(
                PickStep(
                    chosen[-1].path,
                    self.display_key(chosen),
                    second[-1].path if second is not None else None,
                    self.display_key(second) if second is not None else None,
                )
            )
            node = chosen[-1]
        return tuple(levels)


class FirstComeOrder(HeapOrder):
    """First come, first served: no shares, only the tier keys, then age and name."""

    def entry(self, node: ShareNode) -> Entry:
        """The tier keys, then age and name."""
        if isinstance(node, JobNode):
            return (node.before, 0.0, node.after, 0, node.rank, node)
        return ((), 0.0, (), 0, node.rank, node)


class FlatDrfOrder(HeapOrder):
    """Flat DRF: jobs and namespaces by weighted share of the cluster, smallest first.

    See docs/fairness.md, sections 2 and 7.

    Where no plugin orders queues, a queue ranks by its best child.
    """

    def entry(self, node: ShareNode) -> Entry:
        """Queues by their best child, the others by their share."""
        if node.kind is NodeKind.QUEUE:
            best = self.first_child(node).heap_entry
            assert best is not None
            # Children of different queues may have the same rank but for the serial number (namespaces do): then the
            # ranks of the queues decide.
            return (*best[:-2], (*best[-2][:-1], *node.rank), node)
        return entry_of(node, self.key_of(node))

    def key_of(self, node: ShareNode, asked: Items = ()) -> float:
        """The node's weighted share of the cluster."""
        return (dominant_share(node.held, self.capacity) / node.weight + GRID_ROUNDER) - GRID_ROUNDER


def part_of(items: Items, capacity: list[int]) -> float:
    """The dominant share of a unit's request."""
    parts = [amount / capacity[j] if capacity[j] > 0 else 1.0 for j, amount in items if j != PODS]
    return max(parts, default=0.0)


def compact(
    heap: list[Entry], node: ShareNode, current: Callable[[ShareNode], Entry | None] = attrgetter("heap_entry")
) -> None:
    """Drop the stale entries of a heap once they outnumber the children."""
    if len(heap) > 4 * len(node.children) + 64:
        heap[:] = [entry for entry in heap if current(entry[-1]) is entry]
        heapify(heap)


def entry_of(node: ShareNode, key: float) -> Entry:
    """The key with its tie-breaks; for a job, with its tier keys around it."""
    latest = latest_start(node) if node.stale else node.latest
    if node.kind is NodeKind.JOB:
        assert isinstance(node, JobNode)
        return (node.before, key, node.after, latest, node.rank, node)
    return ((), key, (), latest, node.rank, node)


@lru_cache(maxsize=1 << 12)
def asks_of(ask: Items | None) -> tuple[int, ...]:
    """The resources of a request, ascending; none for a job that is no candidate. One object for equal requests."""
    return tuple(sorted([j for j, _ in ask])) if ask else ()


def count_asks(
    count: list[int], before: tuple[int, ...], now: tuple[int, ...], asks: tuple[int, ...]
) -> tuple[int, ...]:
    """Count a child that asked for some resources at its parent, now that it asks for others.

    Returns the resources that any child asks for: the same object, ``asks``, if these are as before.
    """
    changed = False
    for j in before:
        count[j] -= 1
        changed = changed or not count[j]
    for j in now:
        count[j] += 1
        changed = changed or count[j] == 1
    return tuple([j for j, children in enumerate(count) if children]) if changed else asks
