"""Ceilings, guarantees and user caps in the solver: which limit blocks which leaf. Amounts are fractions of capacity.

*Claims.* A node claims its guarantee or the sum of its children's claims, whichever is more: so an unused guarantee is
unavailable to everything outside it. The claims of a node's children together stay within its ceiling, and at the root
within the cluster.

*Full.* A node is full of a resource when its children claim as much as its ceiling. Nothing below can then add to the
claims of its children: each child is full as well, at its guarantee or, if that is less, at its current claim. A leaf
is frozen when its parent is full of a resource that it asks for. A leaf that grows inside an unused guarantee adds
nothing to the claims above it; there that guarantee is the limit.

Example: 16 cpu, q1 is guaranteed 4 and has no demand. When q2 holds 12, the children of the root claim 16: the root is
full, and so is q2.

*Users.* The holdings of a user's leaves in a queue stay within the user's cap. If these leaves are children of one node
they share its level, so the solver knows in advance at which level the cap binds: the leaves end there, and nothing
else changes. If they are spread over several nodes, extra columns (*purses*) count their total up to the queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pumice.engine.fairness.fluid_target.flat_tree import FlatTree
from pumice.engine.fairness.fluid_target.polyline import (
    BoolArray,
    FloatArray,
    IntArray,
    end_to_end,
    leaf_curves,
    run_starts,
)

FULL = 1e-13  # relative: a resource with no more than this left is exhausted, a demand satisfied


@dataclass(frozen=True, slots=True)
class SolverLimits:
    """Ceilings and guarantees of nodes and caps of users. Rows of fractions of capacity; inf: no limit.

    Guarantees must be feasible: a node's guarantee is at most its ceiling, and so is the sum of its children's claims.
    """

    ceiling: FloatArray  # per node
    guarantee: FloatArray  # per node; 0: none
    user: IntArray  # per leaf: the index of its user, -1: a user without a cap
    cap: FloatArray  # per user
    home: IntArray  # per user: the node of the queue
    deserved: FloatArray | None = None  # per node: served before weights divide the rest; inf: the node names none


@dataclass(frozen=True, slots=True)
class LimitState:
    """The current state of all limits. `left` has a column for each resource, then those of the purses."""

    sums: FloatArray  # the sum of the claims of each node's children
    left: FloatArray  # how much more each node's children may claim; inf: no child could claim more, or no limit
    full: BoolArray  # per node and resource: whether the node is full of it
    spent: FloatArray  # the holding of each user
    broke: BoolArray  # per user and resource: whether the user's cap is reached
    frozen: BoolArray  # the leaves that cannot be served


@dataclass(frozen=True, slots=True)
class Restraint:
    """The limits in force during one fill of the flat tree."""

    outline: FlatTree
    ceiling: FloatArray
    guarantee: FloatArray
    needs: BoolArray  # per leaf: the resources it asks for
    user: IntArray
    cap: FloatArray
    home: IntArray
    purse: IntArray  # per user: its purse among those of its queue, -1: it needs none
    deserved: FloatArray | None = None
    serving: BoolArray | None = None  # while guarantees or deserved amounts are served: the leaves that take part
    guaranteeing: bool = False  # whether guarantees are being served

    @property
    def width(self) -> int:
        """The number of resources."""
        return int(self.ceiling.shape[1])

    @property
    def reserving(self) -> bool:
        """Whether any node has a guarantee."""
        return bool(self.guarantee.any())

    @property
    def purses(self) -> int:
        """The largest number of users with a purse in any one queue."""
        return int(self.purse.max(initial=-1)) + 1

    @property
    def claims(self) -> slice:
        """The columns of a row with the claims: those of the holdings, if there are no guarantees."""
        return slice(self.width, 2 * self.width) if self.reserving else slice(0, self.width)

    @property
    def watched(self) -> slice:
        """The columns of a row that limits apply to: claims, then purses."""
        return slice(self.claims.start, self.claims.stop + self.purses * self.width)

    def rows(self, unit: FloatArray) -> FloatArray:
        """The rows of the leaves: holdings, claims, purses, and the dominant share."""
        purse = np.where(self.user >= 0, self.purse.take(self.user, mode="clip") if len(self.purse) else -1, -1)
        parts = [unit, unit] if self.reserving else [unit]
        parts += [np.where((purse == k)[:, None], unit, 0.0) for k in range(self.purses)]
        return np.column_stack([*parts, np.ones(len(unit))])

    def none_closed(self) -> BoolArray:
        """For every node and watched column: its limit is not known to be reached."""
        return np.zeros((len(self.ceiling), self.width * (1 + self.purses)), dtype=bool)

    def standing(
        self, given: FloatArray, closed: BoolArray, before: LimitState | None = None, top: int = 0
    ) -> LimitState:
        """The state of all limits, given what each leaf holds; closed: limits known to be reached.

        Above the depth `top` everything stays as it was before: a later phase examines subtrees on their own.
        """
        outline, width = self.outline, self.width
        sums = outline.of_leaves(given)
        for depth in reversed(outline.depths[1:]):
            np.add.at(sums, outline.parent[depth], np.maximum(self.guarantee[depth], sums[depth]))
        left = np.full(closed.shape, np.inf)
        full = closed[:, :width].copy()
        start = outline.depths[top].start
        if before is not None:
            full[:start] = before.full[:start]
        for depth in outline.depths[top:]:
            bound = self.ceiling[depth]
            if depth.start > 0:
                bound = np.where(full[outline.parent[depth]], self.guarantee[depth], bound)
            full[depth] |= sums[depth] >= bound * (1 - FULL)
            left[depth, :width] = np.where(full[depth], np.inf, bound - sums[depth])
        frozen: BoolArray = np.any(full.take(outline.leaf_parent, axis=0) & self.needs, axis=1)
        if self.serving is not None:
            frozen |= ~self.serving
        spent = self.spent(given)
        broke = spent >= self.cap * (1 - FULL)
        for k in range(self.purses):
            who = np.flatnonzero(self.purse == k)
            home, columns = self.home[who], slice(width * (k + 1), width * (k + 2))
            broke[who] |= closed[home, columns]
            if before is not None:
                broke[who] = np.where((home < start)[:, None], before.broke[who], broke[who])
            left[home, columns] = np.where(broke[who], np.inf, self.cap[who] - spent[who])
        if len(broke):
            frozen |= (self.user >= 0) & (broke.take(self.user, axis=0, mode="clip") & self.needs).any(axis=1)
        return LimitState(sums, left, full, spent, broke, frozen)

    def spent(self, given: FloatArray) -> FloatArray:
        """The holding of each user."""
        mine = np.flatnonzero(self.user >= 0)
        count = len(self.cap)
        spent: FloatArray = np.column_stack([np.bincount(self.user[mine], c, count) for c in given[mine].T])
        return spent

    def within_caps(
        self, active: IntArray, rows: FloatArray, held: FloatArray, most: FloatArray, standing: LimitState
    ) -> FloatArray:
        """The maximum of each leaf whose user has no purse: it ends at the level at which the cap binds."""
        outline, width = self.outline, self.width
        mine = active[self.user[active] >= 0]
        mine = mine[self.purse[self.user[mine]] < 0]
        if len(mine) == 0:
            return most
        most = most.copy()
        room = np.where(standing.broke, np.inf, self.cap - standing.spent)
        class_ = outline.leaf_class
        mine = mine[np.lexsort((class_[mine], self.user[mine]))]
        while len(mine):
            who = self.user[mine]
            # A cap that is reached freezes the user's leaves that need that resource; the others continue to the next
            # cap.
            of, rows_here = who * outline.classes + class_[mine], rows[mine, :width]
            curves = leaf_curves(of, outline.leaf_weight[mine], held[mine], most[mine], rows_here)
            user, turn = np.divmod(curves.of, outline.classes)
            stops = first_stops(user, end_to_end(curves, user), room.take(user, axis=0))
            level = curves.place.level
            level = level[stops.before] + stops.way * (level[stops.after] - level[stops.before])
            at = np.full(len(self.cap), -1)
            at[user[stops.after]] = np.arange(len(level))
            mine = mine[at[who] >= 0]
            mark = at[self.user[mine]]
            capped = np.flatnonzero(self.needs[mine, stops.column[mark]])
            leaf, mark = mine[capped], mark[capped]
            state = np.sign(turn[stops.after[mark]] - class_[leaf])  # -1: its class would come later
            there = np.clip(level[mark] * outline.leaf_weight[leaf], held[leaf], most[leaf])
            most[leaf] = np.choose(state + 1, [held[leaf], there, most[leaf]])
            room[user[stops.after], stops.column] = np.inf
        return most

    def stages(self) -> Iterator[Restraint]:
        """The fills in sequence: guarantees, then deserved amounts, the innermost first; then the ordinary fill.

        A deserved amount is no reservation. So it acts as the ceiling of the queue while that queue, and the queues
        inside it, are served: the deserved amounts of inner queues come out of it before weights divide the rest.
        """
        for here, _ in self._inside_out(self.guarantee > 0):
            ceiling = np.where(here, np.minimum(self.ceiling, self.guarantee), self.ceiling)
            ceiling[0] = np.minimum(ceiling[0], 1.0)
            serving = self._asking_below(here)
            if serving.any():
                yield replace(self, ceiling=ceiling, serving=serving, guaranteeing=True)
        if self.deserved is not None:
            for here, around in self._inside_out(np.isfinite(self.deserved)):
                ceiling = np.where(around[:, None], np.minimum(self.ceiling, self.deserved), self.ceiling)
                serving = self._asking_below(here & (self.deserved > 0))
                if serving.any():
                    yield replace(self, ceiling=ceiling, serving=serving)
        yield self

    def _inside_out(self, named: BoolArray) -> Iterator[tuple[BoolArray, BoolArray]]:
        """The amounts that nodes name, the innermost nodes first; and the nodes that are no further inside."""
        outline = self.outline
        height = np.zeros(len(named), dtype=np.int64)  # how many naming nodes are nested below each node
        for depth in reversed(outline.depths):
            height[depth] += named[depth].any(axis=1)
            if depth.start > 0:
                np.maximum.at(height, outline.parent[depth], height[depth])
        for h in range(1, int(height.max()) + 1):
            yield named & (height == h)[:, None], height >= h

    def _asking_below(self, named: BoolArray) -> BoolArray:
        """The leaves that ask for a resource that a node above them names."""
        named = named.copy()
        for depth in self.outline.depths[1:]:
            named[depth] |= named[self.outline.parent[depth]]
        asking: BoolArray = np.any(named.take(self.outline.leaf_parent, axis=0) & self.needs, axis=1)
        return asking


@dataclass(frozen=True, slots=True)
class Stops:
    """Where curves first reach a limit: between two of their points, the fraction, and the column."""

    before: IntArray
    after: IntArray
    way: FloatArray
    column: IntArray

    def take(self, index: IntArray) -> Stops:
        """The stops at these indices."""
        return Stops(self.before[index], self.after[index], self.way[index], self.column[index])


def first_stops(curve: IntArray, rows: FloatArray, room: FloatArray) -> Stops:
    """The first stop of each curve that has one, given how much each column may grow."""
    near = room * (1 - FULL)
    over = np.flatnonzero((rows >= near).any(axis=1))
    after = over[run_starts(curve[over])]
    before = after - ~run_starts(curve)[after]  # the start of a curve has no predecessor
    a, b, limit = rows.take(before, axis=0), rows.take(after, axis=0), room.take(after, axis=0)
    reached = b >= near.take(after, axis=0)
    grown = np.where(reached, b - a, 0.0)
    way = np.divide(limit - a, grown, out=np.where(reached, 0.0, np.inf), where=grown > 0)
    column = way.argmin(axis=1)
    return Stops(before, after, np.clip(way.min(axis=1), 0.0, 1.0), column)


def restrain(
    limits: SolverLimits,
    outline: FlatTree,
    nodes: IntArray,
    leaves: IntArray,
    direction: FloatArray,
    demand: FloatArray,
) -> Restraint | None:
    """The limits of a flat tree with these nodes and leaves; None if none of them can bind."""
    needs = direction > 0
    asked = np.multiply(direction, demand[:, None], out=np.zeros_like(direction), where=needs)
    guarantee = limits.guarantee[nodes]
    guarantee[0] = 0.0  # the cluster's own
    claims = outline.of_leaves(asked)
    for depth in reversed(outline.depths[1:]):
        np.add.at(claims, outline.parent[depth], np.maximum(guarantee[depth], claims[depth]))
    ceiling = limits.ceiling[nodes]
    ceiling[claims <= ceiling] = np.inf
    user = limits.user[leaves].copy()
    mine = np.flatnonzero(user >= 0)
    home = np.full(int(nodes.max()) + 1, -1)
    home[nodes] = np.arange(len(nodes))
    restraint = Restraint(
        outline, ceiling, guarantee, needs, user, limits.cap, home[limits.home], np.full(len(limits.cap), -1)
    )
    capped: BoolArray = np.any(restraint.spent(asked) > limits.cap, axis=1)
    user[mine] = np.where(capped[user[mine]], user[mine], -1)
    # Deserved amounts matter only where somebody must go without: in the cluster, below a ceiling, or within a cap.
    bound = np.isfinite(ceiling).any() or capped.any()
    scarce = bound or (claims[0] > 1).any()
    deserved = limits.deserved[nodes] if limits.deserved is not None and scarce else None
    if not (restraint.reserving or bound or deserved is not None):
        return None
    return replace(restraint, purse=_purses(restraint), deserved=deserved)


def _purses(restraint: Restraint) -> IntArray:
    """Assign purses to the users whose leaves have more than one parent, numbered within each queue."""
    mine = np.flatnonzero(restraint.user >= 0)
    pairs = np.unique(np.column_stack([restraint.user[mine], restraint.outline.leaf_parent[mine]]), axis=0)
    spread = np.flatnonzero(np.bincount(pairs[:, 0], minlength=len(restraint.cap)) > 1)
    spread = spread[np.argsort(restraint.home[spread], kind="stable")]
    first = np.flatnonzero(run_starts(restraint.home[spread]))
    purse = np.full(len(restraint.cap), -1)
    purse[spread] = np.arange(len(spread)) - np.repeat(first, np.diff(np.append(first, len(spread))))
    return purse
