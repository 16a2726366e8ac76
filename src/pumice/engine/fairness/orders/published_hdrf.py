"""The published dynamic H-DRF, made precise, with updates that cost one path per event.

See docs/fairness.md, section 3.5.

Y is the set of resources that placeable jobs ask for. A job is *blocked* if it has nothing to start or asks for a
resource outside Y; a group is blocked if all its children are. The share s of a node is the largest fraction, over Y,
of its vector V, divided by its weight. A job's V is what it holds. A group's V takes its blocked children as they are
and scales each of the others to M, the least share among those:

    V = B + M * P      B: sum of V_c over the blocked      P: sum of V_c / s_c over the others

So a changed child moves one term of B or P and one of the shares that M is the minimum of, and the climb ends at the
first group that does not change. Terms are integers, in steps of 2^-34: sums are exact whatever the history, and an
incrementally updated state equals a rebuilt one, bit for bit.

All of this depends on Y, so there is a *lane* for each recent Y, brought up to date when it is used. For the children
of a group a lane keeps two structures that look alike but differ: the shares of the children that are not blocked,
whose minimum is M, and the heap of those with a candidate below, which decides picks. A job that could continue but
does not fit now counts in M but is absent from the heap.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from kubebase.resource_vector import PODS
from pumice.engine.fairness.orders.serving_order import GRID_ROUNDER, HeapOrder, PickStep, entry_of
from pumice.engine.fairness.preemption_rules.rescaled_share_rule import RescaledShareRule
from pumice.engine.fairness.preemption_rules.rules import PreemptionRule
from pumice.engine.fairness.share_tree.share_node import Entry, JobNode, ShareNode
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.model.specs import Items

GRID = 2.0**34
STEP = 1.0 / GRID

LANES = 8
"""Lanes kept at a time. Y takes few values in practice; each lane costs memory for every job."""


class PublishedHdrfOrder(HeapOrder):
    """H-DRF by rescaled shares: at each level the smallest, among the children with a candidate below."""

    victims_may_reclaim = False

    def __init__(self, tree: ShareTree, capacity: list[int]) -> None:
        super().__init__(tree, capacity)
        self.lanes: dict[tuple[int, ...], ResourceLane] = {}  # by Y; the most recently used comes last
        self.lane = ResourceLane(tree, capacity, ())  # the one in force

    def set_candidate(self, leaf: JobNode, ask: Items | None, able: bool) -> None:
        """The request of a job decides whether it is blocked, even while it cannot be placed."""
        if ask is not leaf.ask or ask is None:
            self.tree.mark(leaf)
        super().set_candidate(leaf, ask, able)

    def preemption_rule(
        self, leaf: JobNode, ask: Items, scarce: Callable[[], Items], *, by_share: bool, by_class: bool
    ) -> PreemptionRule:
        """Rescaled shares decide, as in serving."""
        return RescaledShareRule(self, leaf, ask, by_share=by_share, by_class=by_class)

    def restructure(self) -> None:
        """Weights or the capacity changed: discard all lanes.

        Nodes that are added or removed need no call. A lane adds a job, with the groups above it, when the job first
        becomes a candidate, and drops it when the lane catches up after the candidate was withdrawn and finds it gone.
        """
        _gather(self.tree.root)
        self.lanes.clear()
        self.lane = ResourceLane(self.tree, self.capacity, ())

    def next_job(self) -> JobNode | None:
        """Walk down the lane of the resources that candidates ask for now."""
        if not self.tree.root.able_asks:
            return None
        self._choose_lane()
        return super().next_job()

    def first_child(self, node: ShareNode) -> ShareNode:
        """The child to serve first; the node must have a candidate below it."""
        return self.lane.first(node)

    def entry(self, node: ShareNode) -> Entry:
        """The heap entry of a node by its share in the current lane."""
        return self.lane.of[node].next_entry()

    def key_of(self, node: ShareNode, asked: Items = ()) -> float:
        """The node's rescaled share with Y set to the requested resources."""
        standing = self._lane_for(tuple(j for j, _ in asked if j != PODS)).of.get(node)
        return (standing.share + GRID_ROUNDER) - GRID_ROUNDER if standing is not None else 0.0

    def share_if(self, node: ShareNode, resources: tuple[int, ...], leaf: JobNode, held: list[int]) -> float:
        """The rescaled share of a node if Y were these resources and a job below it held that much."""
        return self._lane_for(resources).share_if(node, leaf, held)

    def explain(self) -> tuple[PickStep, ...]:
        """The levels of the next pick, with the shares that decide."""
        if not self.tree.root.able_asks:
            return ()
        self._choose_lane()
        return super().explain()

    def _choose_lane(self) -> None:
        """Switch to the lane for the resources that placeable jobs ask for now."""
        self.lane = self._lane_for(tuple(j for j in self.tree.root.able_asks if j != PODS))

    def _lane_for(self, wanted: tuple[int, ...]) -> ResourceLane:
        """The lane of these resources. Passes the changed jobs to every lane, and brings this one up to date."""
        changed = _gather(self.tree.root)
        for resources, lane in list(self.lanes.items()):
            lane.behind.update(changed)
            if lane.lags:
                del self.lanes[resources]
        chosen = self.lanes.pop(wanted, None)
        if chosen is None:
            chosen = ResourceLane(self.tree, self.capacity, wanted)
            chosen.build()
        else:
            chosen.catch_up()
        self.lanes[wanted] = chosen
        if len(self.lanes) > LANES:
            del self.lanes[next(iter(self.lanes))]
        return chosen


def _gather(root: ShareNode) -> dict[JobNode, None]:
    """The jobs that the tree marked as changed since the last call; clears the marks."""
    changed: dict[JobNode, None] = {}
    stack = [root]
    while stack:
        marked = stack.pop().child_heap.changed
        for node in marked:
            node.dirty = False
            if isinstance(node, JobNode):
                changed[node] = None
            else:
                stack.append(node)
        marked.clear()
    return changed


class NodeShare:
    """The state of a node in a lane: blocked or not, its share, and its term in the sums above."""

    __slots__ = ("above", "blocked", "entry", "node", "share", "term")

    def __init__(self, node: ShareNode, above: Group | None, width: int) -> None:
        # A new node counts for nothing, and so does one that may be removed.
        self.node = node
        self.above = above
        self.blocked = True
        self.share = 0.0
        self.term = [0] * width
        self.entry: Entry | None = None  # its valid entry in the heap of the group above

    def next_entry(self) -> Entry:
        """Its current heap entry."""
        return entry_of(self.node, (self.share + GRID_ROUNDER) - GRID_ROUNDER)

    def move(self, vector: list[float], blocked: bool) -> bool:
        """Take a new vector into the sums above; returns whether anything there changed."""
        share = (max(vector) if vector else 0.0) / self.node.weight
        if blocked:
            term = [round(part * GRID) for part in vector]
        elif share:
            term = [round(part / share * GRID) for part in vector]
        else:
            term = [0] * len(vector)
        if share == self.share and blocked == self.blocked and term == self.term:
            return False
        above = self.above
        assert above is not None
        if blocked != self.blocked or term != self.term:
            sums = above.as_is if self.blocked else above.scaled
            for k, amount in enumerate(self.term):
                sums[k] -= amount
            sums = above.as_is if blocked else above.scaled
            for k, amount in enumerate(term):
                sums[k] += amount
        if not self.blocked:
            above.shares.remove(self.share)
        if not blocked:
            above.shares.add(share)
        self.blocked, self.share, self.term = blocked, share, term
        return True


class Group(NodeShare):
    """The state of an inner node: the sums over its children, and the heap that orders them."""

    __slots__ = ("as_is", "changed", "heap", "members", "scaled", "shares")

    def __init__(self, node: ShareNode, above: Group | None, width: int) -> None:
        super().__init__(node, above, width)
        self.members = 0
        self.as_is = [0] * width  # B
        self.scaled = [0] * width  # P
        self.shares = Shares()
        self.heap: list[Entry] = []  # children with a candidate below
        self.changed: dict[NodeShare, None] = {}  # children to refresh before the heap is read

    def measure(self) -> tuple[list[float], bool]:
        """V, and whether all children are blocked."""
        if not self.shares.count:
            return [b * STEP for b in self.as_is], True
        least = self.shares.least()
        return [(b + least * p) * STEP for b, p in zip(self.as_is, self.scaled, strict=True)], False


class Shares:
    """The shares of the children that are not blocked: a multiset with a fast minimum, M.

    A heap of values and a count per value; a value whose count is 0 is dropped when it surfaces.
    """

    __slots__ = ("count", "heap")

    def __init__(self) -> None:
        self.count: dict[float, int] = {}
        self.heap: list[float] = []

    def add(self, share: float) -> None:
        """Add one occurrence of this share."""
        have = self.count.get(share, 0)
        self.count[share] = have + 1
        if not have:
            heappush(self.heap, share)
            if len(self.heap) > 2 * len(self.count) + 64:
                self.heap[:] = self.count
                heapify(self.heap)

    def remove(self, share: float) -> None:
        """Remove one occurrence of this share."""
        have = self.count[share]
        if have > 1:
            self.count[share] = have - 1
        else:
            del self.count[share]

    def least(self) -> float:
        """The smallest share."""
        heap = self.heap
        while heap[0] not in self.count:
            heappop(heap)
        return heap[0]


class ResourceLane:
    """The state of all nodes with jobs below them, for one set Y of resources."""

    def __init__(self, tree: ShareTree, capacity: list[int], resources: tuple[int, ...]) -> None:
        self.tree = tree
        self.scale = tuple((j, capacity[j]) for j in resources)
        self.open = frozenset((*resources, PODS))  # asking for these does not block
        self.of: dict[ShareNode, NodeShare] = {}  # parents before their children
        self.behind: dict[JobNode, None] = {}  # jobs that changed since the lane was last used
        self._assumed: tuple[JobNode, list[int]] | None = None  # hypothetical holding, during a ``share_if``

    @property
    def lags(self) -> bool:
        """Whether catching up would cost more than rebuilding."""
        return len(self.behind) > len(self.tree.jobs) // 2 + 64

    def build(self) -> None:
        """Rebuild: visit every node once, children before parents."""
        for leaf in self.tree.jobs.values():
            self._enter(leaf)
        for standing in reversed(self.of.values()):
            if standing.above is not None:
                standing.above.changed[standing] = None
                standing.move(*self._measure(standing))

    def catch_up(self) -> None:
        """Apply the changed jobs, each along its path."""
        for leaf in self.behind:
            here = self.tree.jobs.get(leaf.name) is leaf
            standing = self.of.get(leaf)
            if standing is None:
                if not here:
                    continue
                standing = self._enter(leaf)
            self._climb(standing)
            if not here:
                self._leave(standing)
        self.behind.clear()

    def share_if(self, node: ShareNode, leaf: JobNode, held: list[int]) -> float:
        """The share of a node if a job below it held that much; restores all state before it returns.

        Only the path of the job is recomputed. Heaps are not: all sums are restored before any heap is read.
        """
        standing = self.of[leaf]
        self._assumed = leaf, held
        self._carry_up(standing)
        share = self.of[node].share
        self._assumed = None
        self._carry_up(standing)
        return share

    def first(self, node: ShareNode) -> ShareNode:
        """The first child in the heap of a node."""
        group = self.of[node]
        assert isinstance(group, Group)
        heap = group.heap
        if group.changed:
            self._settle(group)
        while True:
            entry = heap[0]
            child: ShareNode = entry[-1]
            if self._counts(entry):
                return child
            heappop(heap)

    def _settle(self, group: Group) -> None:
        """Give the changed children their new position in the heap, or remove them."""
        heap = group.heap
        for standing in group.changed:
            if standing.node.able_asks:
                standing.entry = standing.next_entry()
                heappush(heap, standing.entry)
            else:
                standing.entry = None
        group.changed.clear()
        if len(heap) > 4 * group.members + 64:
            heap[:] = [entry for entry in heap if self._counts(entry)]
            heapify(heap)

    def _counts(self, entry: Entry) -> bool:
        standing = self.of.get(entry[-1])
        return standing is not None and standing.entry is entry

    def _climb(self, standing: NodeShare) -> None:
        """Refresh the heap position of each node on the path (starts break ties); update sums while they change."""
        moving = True
        while (above := standing.above) is not None:
            above.changed[standing] = None
            if moving:
                moving = standing.move(*self._measure(standing))
            standing = above

    def _carry_up(self, standing: NodeShare) -> None:
        """Take a job's new vector into the sums above, as far as they change."""
        while standing.above is not None and standing.move(*self._measure(standing)):
            standing = standing.above

    def _measure(self, standing: NodeShare) -> tuple[list[float], bool]:
        if isinstance(standing, Group):
            return standing.measure()
        leaf = standing.node
        assert isinstance(leaf, JobNode)
        held = leaf.held
        if self._assumed is not None and self._assumed[0] is leaf:
            held = self._assumed[1]
        vector = [held[j] / whole if whole > 0 else float(held[j] > 0) for j, whole in self.scale]
        if leaf.ask is None:
            return vector, True
        for j, _ in leaf.ask:
            if j not in self.open:
                return vector, True
        return vector, False

    def _enter(self, node: ShareNode) -> NodeShare:
        above: Group | None = None
        if node.parent is not None:
            group = self.of.get(node.parent) or self._enter(node.parent)
            assert isinstance(group, Group)
            group.members += 1
            above = group
        kind = NodeShare if isinstance(node, JobNode) else Group
        standing = self.of[node] = kind(node, above, len(self.scale))
        return standing

    def _leave(self, standing: NodeShare) -> None:
        """Drop a removed job, and the groups that become empty."""
        while (above := standing.above) is not None:
            del self.of[standing.node]
            del above.changed[standing]
            above.members -= 1
            if above.members:
                return
            standing = above
