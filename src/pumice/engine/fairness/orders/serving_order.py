"""Orders: which job is served next. An order walks the share tree from the root to the child that comes first.

``Order`` is what the scheduling cycle talks to. It is told what each job would start next and whether that can
be placed now (``offer``), and what starts and ends (``hold``, ``release``); ``pick`` names the job to serve.
Keys are compared on a grid of 2^-30, so that equal shares tie; ties go to the least recently served, then by
age and name. ``HeapOrder`` serves any policy whose key depends on the node's own account: flat DRF here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from operator import attrgetter

from kubebase.resource_vector import PODS, dominant_share
from pumice.engine.fairness.preemption_rules.rules import KeyRule, PreemptionRule
from pumice.engine.fairness.share_tree.tree import Entry, JobNode, NodeKind, ShareNode, ShareTree, latest_start
from pumice.model.specs import Items

GRID_ROUNDER = 1.5 * 2.0**22
"""(x + TIE) - TIE rounds x to the nearest multiple of 2^-30 (for |x| < 2^21), half to even."""


@dataclass(frozen=True, slots=True)
class PickStep:
    """One step of a pick, for people: who was chosen, by what key, and who came next."""

    node: str
    key: float
    runner_up: str | None = None
    runner_up_key: float | None = None


class ServingOrder(ABC):
    """Decides which job is served next."""

    lending = False
    """Whether all that is owed is served and the rest is lent; only where there are targets."""
    patience = -1
    """After what time an owed job that finds no room holds some (microseconds); negative: never."""
    hold_limit = 0
    """How long such a hold may go without progress."""
    has_targets = False
    """Whether jobs have targets, so that a job is owed what it misses."""
    measure = "share"
    """What the key of a node is, in reports: ``want`` or ``share``."""

    def __init__(self, tree: ShareTree, capacity: list[int]) -> None:
        self.tree = tree
        self.capacity = capacity

    def charge(self, leaf: JobNode, items: Items, stamp: int, tasks: int = 1, owed: bool = True) -> None:
        """Tasks of a job start."""
        self.tree.charge(leaf, items, stamp, tasks, owed)

    def uncharge(self, leaf: JobNode, items: Items, stamp: int, tasks: int = 1, owed: bool = True) -> None:
        """Tasks of a job end, or a start is undone."""
        self.tree.uncharge(leaf, items, stamp, tasks, owed)

    @abstractmethod
    def set_candidate(self, leaf: JobNode, ask: Items | None, able: bool) -> None:
        """A job's next unit asks for this (None: it has none); able: it can be placed now."""

    @abstractmethod
    def next_job(self) -> JobNode | None:
        """The job to serve next among the able ones; None when there is none."""

    @abstractmethod
    def explain(self) -> tuple[PickStep, ...]:
        """How the next pick comes about, level by level."""

    def is_owed(self, leaf: JobNode, ask: Items) -> bool:
        """Whether a unit that asks for this is within the job's part; orders without targets owe everybody."""
        return True

    def key_of(self, node: ShareNode, asked: Items = ()) -> float:
        """Where a node stands among its siblings by what it holds now: smaller comes first. 0 where nothing says.

        Where a key is about quantities of resources, those that are asked for count.
        """
        return 0.0

    def comparison_key(self, side: ShareNode, leaf: JobNode, asked: Items) -> float:
        """The key by which a side is judged where two paths part; the job below it is the one that takes or loses."""
        return self.key_of(side, asked)

    def entitlement_of(self, queue: ShareNode) -> list[int]:
        """What a queue is to have by right, as far as this order says; else its part by weight alone."""
        part = 1.0
        node = queue
        while node.parent is not None:
            part *= node.weight / sum(child.weight for child in node.parent.children.values())
            node = node.parent
        return [int(total * part) for total in self.capacity]

    def deserved_by(self, queue: ShareNode) -> Items | None:
        """What a queue deserves now as a quantity; None: this order does not go by quantities."""
        return None

    def preemption_rule(
        self, leaf: JobNode, ask: Items, scarce: Callable[[], Items], *, by_share: bool, by_class: bool
    ) -> PreemptionRule:
        """The rule that decides what others may lose so that a job's unit can start.

        ``ask`` is what the unit asks for, ``scarce`` the part of it that is not idle anywhere.
        """
        return KeyRule(self, leaf, ask, by_share=by_share, by_class=by_class)

    def transfer_entitlement(self, leaf: JobNode, heir: JobNode, items: Items) -> None:
        """A job's right to this much passes to another; only where there are targets."""
        return

    def remove_job(self, leaf: JobNode) -> None:
        """A job that holds nothing and offers nothing is about to leave the tree."""
        return

    def restructure(self) -> None:
        """Nodes came or went, or weights or the capacity changed."""
        return

    def refresh_targets(self, *, demand_changed: bool) -> list[JobNode]:
        """Called before the actions of a cycle when something changed; returns jobs whose part changed."""
        return []


class HeapOrder(ServingOrder):
    """An order whose picks are minima of lazy heaps, one heap of children a node."""

    def set_candidate(self, leaf: JobNode, ask: Items | None, able: bool) -> None:
        """Count the job among the candidates of every node above it, or no longer."""
        leaf.ask = ask
        leaf.able = able and ask is not None
        self.recount_candidate(leaf)

    def recount_candidate(self, leaf: JobNode) -> None:
        """Count a job as what it is now."""
        ask = leaf.ask if leaf.able else None
        if ask is not leaf.counted_able:
            _recount(leaf, leaf.counted_able, ask)
            leaf.counted_able = ask

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
        """The child to serve first; there is one with a candidate below."""
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
        """Look again at the children that changed."""
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
        """The entries of the children that can be served, first to last (the slow way, for explanations)."""
        return sorted(self.entry(child) for child in node.children.values() if child.able_asks)

    def display_key(self, entry: Entry) -> float:
        """The number that decided, as people read it."""
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
    """No shares at all: the tiers, then age and name."""

    def entry(self, node: ShareNode) -> Entry:
        """The tiers decide, then who came first."""
        if isinstance(node, JobNode):
            return (node.before, 0.0, node.after, 0, node.rank, node)
        return ((), 0.0, (), 0, node.rank, node)


class FlatDrfOrder(HeapOrder):
    """Flat DRF: jobs and namespaces by weighted share of the cluster, smallest first.

    See docs/fairness.md, sections 2 and 7.

    Where nothing orders queues, a queue stands as high as its best child.
    """

    def entry(self, node: ShareNode) -> Entry:
        """Queues by their best child, the others by their share."""
        if node.kind is NodeKind.QUEUE:
            best = self.first_child(node).heap_entry
            assert best is not None
            # Children of different queues may have the same rank (namespaces do): then the queues' own decide.
            return (*best[:-2], (*best[-2], *node.rank), node)
        return entry_of(node, self.key_of(node))

    def key_of(self, node: ShareNode, asked: Items = ()) -> float:
        """Its weighted share of the cluster."""
        return (dominant_share(node.held, self.capacity) / node.weight + GRID_ROUNDER) - GRID_ROUNDER


def part_of(items: Items, capacity: list[int]) -> float:
    """The dominant share of what a unit asks for."""
    parts = [amount / capacity[j] if capacity[j] > 0 else 1.0 for j, amount in items if j != PODS]
    return max(parts, default=0.0)


def compact(
    heap: list[Entry], node: ShareNode, current: Callable[[ShareNode], Entry | None] = attrgetter("heap_entry")
) -> None:
    """Throw out the entries that are no child's current one, once they outnumber the children."""
    if len(heap) > 4 * len(node.children) + 64:
        heap[:] = [entry for entry in heap if current(entry[-1]) is entry]
        heapify(heap)


def entry_of(node: ShareNode, key: float) -> Entry:
    """Key with its tie-breaks; among jobs the tiers around it."""
    latest = latest_start(node) if node.stale else node.latest
    if node.kind is NodeKind.JOB:
        assert isinstance(node, JobNode)
        return (node.before, key, node.after, latest, node.rank, node)
    return ((), key, (), latest, node.rank, node)


def _recount(leaf: JobNode, old: Items | None, new: Items | None) -> None:
    node: ShareNode | None = leaf
    while node is not None:
        count, changed = node.able_count, False
        for j, _ in old or ():
            count[j] -= 1
            changed = changed or not count[j]
        for j, _ in new or ():
            count[j] += 1
            changed = changed or count[j] == 1
        if changed:
            node.able_asks = tuple(j for j, n in enumerate(count) if n)
        parent = node.parent
        if parent is not None and not node.dirty:
            node.dirty = True
            parent.child_heap.changed.append(node)
        node = parent
