"""``paper``: the published dynamic H-DRF, made precise, at the cost of one path an event.

See docs/fairness.md, section 3.5.

Y is the set of resources that somebody who can be placed now asks for. A job is *blocked* if it has nothing
to start or asks for a resource outside Y; a group is if everybody in it is. The share s of a node is the
largest part, over Y, of its vector V, divided by its weight. A job's V is what it holds. A group's V takes
its blocked children as they are and scales each of the others to M, the least share among those:

    V = B + M * P      B: sum of V_c over the blocked      P: sum of V_c / s_c over the others

So a child that changes moves one term of B or P and one of the shares that M is the least of, and a group
that did not change itself ends the climb. Terms are integers, in steps of 2^-34: sums are exact whatever came
and went, and a state that was kept up to date equals one made afresh, bit for bit.

All of that depends on Y, so there is a *lane* for each Y that occurred lately, brought up to date when it is
used. Of the children of a group a lane keeps two things that look alike but are not: the shares of those that
are not blocked, whose least is M, and the front, a heap of those with a candidate below, from which picks
come. A job that could go on but has no room now counts in M and stands in nobody's way in the front.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

from kubebase.resource_vector import PODS
from pumice.engine.fairness.orders.serving_order import GRID_ROUNDER, HeapOrder, PickStep, entry_of
from pumice.engine.fairness.preemption_rules.rescaled_share_rule import RescaledShareRule
from pumice.engine.fairness.preemption_rules.rules import PreemptionRule
from pumice.engine.fairness.share_tree.tree import Entry, JobNode, ShareNode, ShareTree
from pumice.model.specs import Items

GRID = 2.0**34
STEP = 1.0 / GRID

LANES = 8
"""Lanes kept at a time. Y takes few values in practice; each lane costs memory for every job."""


class PublishedHdrfOrder(HeapOrder):
    """H-DRF by rescaled shares: at each level the smallest, among the children with a candidate below."""

    def __init__(self, tree: ShareTree, capacity: list[int]) -> None:
        super().__init__(tree, capacity)
        self.lanes: dict[tuple[int, ...], ResourceLane] = {}  # by Y; the one used last comes last
        self.lane = ResourceLane(tree, capacity, ())  # the one in force

    def set_candidate(self, leaf: JobNode, ask: Items | None, able: bool) -> None:
        """What a job asks for decides whether it is blocked, even while it can't be placed."""
        if ask is not leaf.ask or ask is None:
            self.tree.mark(leaf)
        super().set_candidate(leaf, ask, able)

    def preemption_rule(
        self, leaf: JobNode, ask: Items, scarce: Callable[[], Items], *, by_share: bool, by_class: bool
    ) -> PreemptionRule:
        """Rescaled shares decide, as they do when this order serves."""
        return RescaledShareRule(self, leaf, ask, by_share=by_share, by_class=by_class)

    def restructure(self) -> None:
        """Weights or the capacity changed: no lane is worth keeping.

        Nodes that come and go need no call. A lane takes in a job, with the groups above it, when it is first
        offered, and drops it when it catches up after the offer was withdrawn and finds it gone.
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
        """The child to serve first; there is one with a candidate below."""
        return self.lane.first(node)

    def entry(self, node: ShareNode) -> Entry:
        """The entry of a node by its share in the lane in force."""
        return self.lane.of[node].next_entry()

    def key_of(self, node: ShareNode, asked: Items = ()) -> float:
        """Its rescaled share where the resources asked for are those to be had."""
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
        """Use the lane for the resources that somebody who can be placed asks for now."""
        self.lane = self._lane_for(tuple(j for j in self.tree.root.able_asks if j != PODS))

    def _lane_for(self, wanted: tuple[int, ...]) -> ResourceLane:
        """The lane of these resources. Tells every lane who changed, and brings this one up to date."""
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
    """The jobs that the tree marked as changed since the last time; takes the marks away."""
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
    """Where a node stands in a lane: blocked or not, its share, and its term in the sums above."""

    __slots__ = ("above", "blocked", "entry", "node", "share", "term")

    def __init__(self, node: ShareNode, above: Group | None, width: int) -> None:
        # A node that just came counts for nothing, as does one that may go.
        self.node = node
        self.above = above
        self.blocked = True
        self.share = 0.0
        self.term = [0] * width
        self.entry: Entry | None = None  # the one in the front of the group above that counts

    def next_entry(self) -> Entry:
        """Its entry as it stands now."""
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
    """The standing of an inner node: the sums over its children, and which of them comes first."""

    __slots__ = ("as_is", "changed", "heap", "members", "scaled", "shares")

    def __init__(self, node: ShareNode, above: Group | None, width: int) -> None:
        super().__init__(node, above, width)
        self.members = 0
        self.as_is = [0] * width  # B
        self.scaled = [0] * width  # P
        self.shares = Shares()
        self.heap: list[Entry] = []  # the front: children with a candidate below
        self.changed: dict[NodeShare, None] = {}  # those to look at again before the front is read

    def measure(self) -> tuple[list[float], bool]:
        """V, and whether everybody is blocked."""
        if not self.shares.count:
            return [b * STEP for b in self.as_is], True
        least = self.shares.least()
        return [(b + least * p) * STEP for b, p in zip(self.as_is, self.scaled, strict=True)], False


class Shares:
    """The shares of those who are not blocked, as a bag whose least is at hand: M.

    A heap of values, and how many have each; a value nobody has any more is dropped when it surfaces.
    """

    __slots__ = ("count", "heap")

    def __init__(self) -> None:
        self.count: dict[float, int] = {}
        self.heap: list[float] = []

    def add(self, share: float) -> None:
        """One more has this share."""
        have = self.count.get(share, 0)
        self.count[share] = have + 1
        if not have:
            heappush(self.heap, share)
            if len(self.heap) > 2 * len(self.count) + 64:
                self.heap[:] = self.count
                heapify(self.heap)

    def remove(self, share: float) -> None:
        """One less has it."""
        have = self.count[share]
        if have > 1:
            self.count[share] = have - 1
        else:
            del self.count[share]

    def least(self) -> float:
        """The smallest share anybody has."""
        heap = self.heap
        while heap[0] not in self.count:
            heappop(heap)
        return heap[0]


class ResourceLane:
    """The standings of all nodes with jobs below them, for one set Y of resources."""

    def __init__(self, tree: ShareTree, capacity: list[int], resources: tuple[int, ...]) -> None:
        self.tree = tree
        self.scale = tuple((j, capacity[j]) for j in resources)
        self.open = frozenset((*resources, PODS))  # asking for these does not block
        self.of: dict[ShareNode, NodeShare] = {}  # parents before their children
        self.behind: dict[JobNode, None] = {}  # jobs that changed since the lane was last used
        self._assumed: tuple[JobNode, list[int]] | None = None  # what a job holds, for the time of one question

    @property
    def lags(self) -> bool:
        """Whether it would cost more to catch up than to start afresh."""
        return len(self.behind) > len(self.tree.jobs) // 2 + 64

    def build(self) -> None:
        """Start afresh: every node once, children before parents."""
        for leaf in self.tree.jobs.values():
            self._enter(leaf)
        for standing in reversed(self.of.values()):
            if standing.above is not None:
                standing.above.changed[standing] = None
                standing.move(*self._measure(standing))

    def catch_up(self) -> None:
        """Take in the jobs that changed, each along its path."""
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
        """The share of a node if a job below it held that much; nothing is changed when this returns.

        Only the path of the job is computed anew. Fronts are not: all sums are back before anybody reads one.
        """
        standing = self.of[leaf]
        self._assumed = leaf, held
        self._carry_up(standing)
        share = self.of[node].share
        self._assumed = None
        self._carry_up(standing)
        return share

    def first(self, node: ShareNode) -> ShareNode:
        """The child of a node that its front has first."""
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
        """Give the children that changed their new place in the front, or none."""
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
        """Everybody on the path may have a new place (ties go by starts); sums only as far as they change."""
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
        """Drop a job that is gone, and the groups that have nobody left."""
        while (above := standing.above) is not None:
            del self.of[standing.node]
            del above.changed[standing]
            above.members -= 1
            if above.members:
                return
            standing = above
