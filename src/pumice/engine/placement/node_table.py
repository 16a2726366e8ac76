"""Node table: the nodes as arrays, and for every task shape the best node at this moment.

Amounts are kept in ``(resource, node)`` arrays. For each shape there is a ``ShapeView``: the nodes where it may run at
all (kept until nodes change) and its score on every node, minus infinity where it does not fit. A placement changes one
node. A view catches up only when it is read, with just the nodes changed since: one by one while they are few, in one
NumPy pass when they are many. Both ways compute the same numbers, to the last bit. The best node is the first maximum,
so ties go to the name that sorts first.

Each view of an uncoupled shape keeps a *witness*, some node where the shape fits now. The table therefore always knows
which shapes fit nowhere, without searching.

Where the engine is compiled, the loops over nodes run in C (``native_table``); the table and its views then have a
``native`` part, which keeps the journal, the scores and the witnesses instead.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from math import inf, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pumice.engine.placement.domain_table import DomainTable
from pumice.engine.placement.native_table import native_table, native_view
from pumice.engine.plugins.plugin import CapacityWeights, Plugin
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.node_domains import NodeDomains
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.placement import node_kernel

Mask = NDArray[np.bool_]
Scores = NDArray[np.float64]
UNLIMITED = 2**31
"""Tasks that fit on a node of which they request nothing."""
FEW = 24  # up to this many changed nodes are scored one by one
SPARES = 32  # nodes found by one search for a witness that are tried before the next search


class ShapeView:
    """The nodes as seen by one shape: where it may run, and its score on each."""

    __slots__ = (
        "complete_at",
        "coupled",
        "even",
        "everywhere",
        "linear",
        "mask",
        "native",
        "possible",
        "resources",
        "scored_by_pods",
        "scores",
        "seen",
        "shape",
        "spares",
        "static",
        "uneven",
        "uniform",
        "weighed",
        "witness",
    )

    def __init__(self, shape: TaskShape, mask: Mask, static: Scores, weights: CapacityWeights) -> None:
        self.shape = shape
        self.mask = mask
        # The part of the score that idle capacity does not affect, constants included. Most shapes score all nodes
        # alike: one number is read faster than an array, and thousands of arrays would take much memory.
        same = len(static) > 0 and bool((static == static[0]).all())
        self.static = static[:1].copy() if same else static
        self.uniform: float | None = float(static[0]) if same else None
        self.everywhere = bool(mask.all())
        amounts = dict(shape.items)
        self.linear = [(j, amounts.get(j, 0), weight) for j, weight in sorted(weights.linear.items()) if weight]
        self.uneven = weights.uneven
        self.even = [(j, amounts.get(j, 0)) for j in weights.even]
        self.weighed = sorted({*((j, amount) for j, amount, _ in self.linear), *self.even})
        self.resources = sorted({j for j, _ in (*shape.items, *self.weighed)})
        self.coupled = shape.coupled
        self.scored_by_pods = shape.scored_by_pods
        self.possible = False  # whether it would fit on some empty node
        self.scores: Scores = np.empty(0)
        self.seen = -1  # journal position that the scores reflect; -1: never computed
        self.witness = -1
        self.spares: list[int] = []  # other nodes where it fitted when a witness was last searched, the next one last
        # Follows the journal and has the witness, if there is one: ``seen`` and what concerns witnesses is unused then.
        self.native: node_kernel.View | None = None
        self.complete_at = -1  # if witness and spares were all of them: the value of ``gains`` then


class NodeTable:
    """All nodes with a spec, sorted by name, and the views of all shapes in use."""

    def __init__(self, filters: Sequence[Plugin], scorers: Sequence[Plugin]) -> None:
        self.filters = filters
        self.scorers = scorers
        self._filters_now = [plugin for plugin in filters if _looks_at_pods(plugin, "node_filter_now")]
        self._scorers_now = [plugin for plugin in scorers if _looks_at_pods(plugin, "node_score_now")]
        self.nodes: list[ClusterNode] = []
        self.index: dict[str, int] = {}
        self.allocatable: NDArray[np.int64] = np.zeros((0, 0), np.int64)
        self.idle: NDArray[np.int64] = np.zeros((0, 0), np.int64)
        self.epoch = 0
        self.journal: list[int] = []  # nodes whose idle capacity changed, in order
        self._native: node_kernel.Table | None = None  # keeps the journal instead
        self._changed: NDArray[np.int64] = np.zeros(0, np.int64)  # per node, its last position in the journal
        self._offered: Scores = np.zeros((0, 0))  # allocatable as floats, infinite where it is zero
        self._schedulable: Mask = np.zeros(0, np.bool_)
        self._synced = 0  # the journal position that the idle array reflects
        self._views: dict[TaskShape, ShapeView] = {}
        self._masks: dict[bytes, Mask] = {}  # those of all views: few are different
        self._room_for: dict[tuple[TaskShape, int], int] = {}
        self._watch: list[dict[TaskShape, None]] = []  # per node, the shapes whose witness it is
        self.gains = 0  # grows whenever a node may have more idle capacity than before
        self.growths = 0  # the same, but not when an attempt is undone; only the loops in C read it
        self.searches = 0  # grows whenever a witness is looked for
        self.domains: DomainTable | None = None  # None: there are no HyperNodes
        self.within: NDArray[np.intp] | None = None  # while a domain is tried: its nodes; no other may be used
        self._inside: Mask | None = None  # the same as a mask
        self.freeing: dict[int, None] = {}  # while preempting: nodes with releasing or pipelined tasks
        self.reserved: dict[int, list[Items]] = {}  # while lending: capacity that must stay idle (see ``reservations``)

    # --- updates ----------------------------------------------------------------------------------------------

    def rebuild(self, nodes: Iterable[ClusterNode], width: int, domains: NodeDomains | None = None) -> None:
        """Start over after nodes were added, removed or changed. Views are rebuilt when they are next read."""
        self.nodes = sorted((node for node in nodes if node.spec is not None), key=lambda node: node.name)
        self.index = {node.name: i for i, node in enumerate(self.nodes)}
        shape = (width, len(self.nodes))
        self.allocatable = np.array([n.allocatable for n in self.nodes], np.int64).reshape(shape[::-1]).T.copy()
        self.idle = np.array([n.idle for n in self.nodes], np.int64).reshape(shape[::-1]).T.copy()
        self._offered = np.where(self.allocatable > 0, self.allocatable.astype(np.float64), inf)
        self._schedulable = np.array([node.schedulable for node in self.nodes], np.bool_)
        self._changed = np.full(len(self.nodes), -1, np.int64)
        self.epoch += 1
        self.journal.clear()
        self.reserved = {}
        self._synced = 0
        self._native = native_table([node.idle for node in self.nodes], self.idle, self._offered)
        self._views.clear()
        self._masks.clear()
        self._room_for.clear()
        self._watch = [{} for _ in self.nodes] if self._native is None else []
        self.domains = DomainTable([node.name for node in self.nodes], domains) if domains else None

    def touch(self, node: ClusterNode) -> int:
        """Record that a node's idle capacity changed; returns its index (-1: the node has no spec)."""
        self.gains += 1
        self.growths += 1
        i = self.index.get(node.name, -1)
        if i >= 0:
            self.mark_changed(i)
        return i

    def mark_changed(self, i: int) -> None:
        """Record that the idle capacity of the node with this index changed."""
        if self._native is not None:
            self._native.note(i)
            return
        self._changed[i] = len(self.journal)
        self.journal.append(i)

    def compact(self) -> None:
        """Truncate the journal between cycles."""
        longest = 4 * len(self.nodes) + 1000
        if self._native is not None:
            if len(self._native) > longest:
                self._native.forget()
        elif len(self.journal) > longest:
            self.sync_idle()
            for view in self._views.values():
                view.seen = 0 if view.seen == len(self.journal) else -1  # a lagging view is scored anew when read
            self.journal.clear()
            self._changed.fill(-1)
            self._synced = 0

    def keep_shapes(self, used: Container[TaskShape]) -> None:
        """Drop the views of all shapes but these."""
        self._views = {shape: view for shape, view in self._views.items() if shape in used}
        self._masks = {view.mask.tobytes(): view.mask for view in self._views.values()}
        self._room_for = {key: known for key, known in self._room_for.items() if key[0] in used}
        self._watch = [{shape: None for shape in watching if shape in used} for watching in self._watch]

    def sync_idle(self) -> None:
        """Bring the idle array up to date with the journal."""
        if self._native is not None:
            self._native.sync()
            return
        journal = self.journal
        if self._synced < len(journal):
            for i in set(journal[self._synced :]):
                self.idle[:, i] = self.nodes[i].idle
            self._synced = len(journal)

    # --- views --------------------------------------------------------------------------------------------------

    def view(self, shape: TaskShape) -> ShapeView:
        """The view of a shape, built on first use."""
        view = self._views.get(shape)
        if view is None:
            view = self._views[shape] = self._make_view(shape)
        return view

    def _make_view(self, shape: TaskShape) -> ShapeView:
        count = len(self.nodes)
        mask = self._schedulable.copy()
        for plugin in self.filters:
            allowed = plugin.node_filter(shape, self)
            if allowed is not None:
                mask &= allowed
        static = np.zeros(count)
        weights = CapacityWeights()
        for plugin in self.scorers:
            score = plugin.node_score(shape, self)
            if score is not None:
                static += score
            asked = plugin.room_weights(shape)
            if asked is not None:
                weights.constant += asked.constant
                weights.uneven += asked.uneven
                weights.even = tuple(sorted({*weights.even, *asked.even}))
                for j, weight in asked.linear.items():
                    weights.linear[j] = weights.linear.get(j, 0.0) + weight
        static += weights.constant
        view = ShapeView(shape, self._masks.setdefault(mask.tobytes(), mask), static, weights)
        fits = mask.copy()
        for j, amount in shape.items:
            fits &= self.allocatable[j] >= amount
        view.possible = bool(fits.any())
        if self._native is not None:
            view.native = native_view(self._native, view)
        return view

    def _score(self, view: ShapeView, which: slice | NDArray[np.intp]) -> Scores:
        """Score some nodes in one pass; ``_score_one`` computes the same for one node."""
        all_idle, all_offered = self.idle, self._offered
        if isinstance(which, slice):
            idle, offered = dict(enumerate(all_idle)), dict(enumerate(all_offered))
        else:  # ``take`` selects faster than an index does
            idle = {j: all_idle[j].take(which) for j in view.resources}
            offered = {j: all_offered[j].take(which) for j, _ in view.weighed}
        fits = view.mask[which]
        for j, amount in view.shape.items:
            fits = fits & (idle[j] >= amount)
        parts = {j: (idle[j] - amount) / offered[j] for j, amount in view.weighed}
        total: Scores | float = view.uniform if view.uniform is not None else view.static[which]
        for j, _, weight in view.linear:
            total = total + weight * parts[j]
        if view.uneven:
            total = total - view.uneven * _deviation([parts[j] for j, _ in view.even])
        return np.where(fits, total, -inf)

    def _score_one(self, view: ShapeView, i: int) -> float:
        node = self.nodes[i]
        idle, offered = node.idle, node.allocatable
        for j, amount in view.shape.items:
            if idle[j] < amount:
                return -inf
        if not view.everywhere and not view.mask[i]:
            return -inf
        total = view.uniform if view.uniform is not None else float(view.static[i])
        for j, amount, weight in view.linear:
            if offered[j] > 0:
                total += weight * (float(idle[j] - amount) / float(offered[j]))
        uneven = view.uneven
        if uneven and len(view.even) == 2:
            (j, amount), (k, other) = view.even
            one = float(idle[j] - amount) / float(offered[j]) if offered[j] > 0 else 0.0
            two = float(idle[k] - other) / float(offered[k]) if offered[k] > 0 else 0.0
            total -= uneven * (abs(one - two) / 2.0)
        elif uneven:
            parts = [float(idle[j] - a) / float(offered[j]) if offered[j] > 0 else 0.0 for j, a in view.even]
            if parts:
                total_parts = 0.0  # not sum(): it compensates from Python 3.12 on, the array version does not
                for part in parts:
                    total_parts += part
                mean = total_parts / len(parts)
                spread = 0.0
                for part in parts:
                    spread += (part - mean) * (part - mean)
                total -= uneven * sqrt(spread / len(parts))
        return total

    def _follow(self, view: ShapeView) -> None:
        """Rescore the nodes that changed since the view was last read."""
        journal = self.journal
        if view.seen < 0:
            self.sync_idle()
            view.scores = self._score(view, slice(None))
        elif len(journal) - view.seen <= FEW:
            scores = view.scores
            for i in journal[view.seen :]:
                scores[i] = self._score_one(view, i)
        else:
            changed = (self._changed >= view.seen).nonzero()[0]
            self.sync_idle()
            if len(changed) > len(view.scores) // 3:  # selecting most nodes costs more than scoring all
                view.scores = self._score(view, slice(None))
            else:
                view.scores[changed] = self._score(view, changed)
        view.seen = len(journal)

    # --- queries ------------------------------------------------------------------------------------------------

    def scored(self, shape: TaskShape) -> ShapeView:
        """The view of a shape, with its scores up to date."""
        view = self._views.get(shape) or self.view(shape)
        if view.native is not None:
            view.native.follow()
        elif view.seen < len(self.journal):
            self._follow(view)
        return view

    def best_node(self, shape: TaskShape) -> int:
        """Index of the best node where a task of the shape fits now, -1 for none."""
        view = self._views.get(shape) or self.view(shape)
        plain = not (self.reserved or self.within is not None)
        if view.native is not None and plain and not view.scored_by_pods:
            return view.native.best()
        scores, allowed = self.scored(shape).scores, None
        if view.scored_by_pods:
            if not self._has_room(view):  # most of those that failed in the last cycle: no need to ask the plugins
                return -1
            scores, allowed = self._scores_by_pods(view)
            if allowed is not None:
                if view.native is not None and plain and scores is view.scores:
                    return view.native.best_among(np.ascontiguousarray(allowed, np.bool_))
                scores = np.where(allowed, scores, -inf)
        if self.reserved:
            scores = self._scores_lending(view, scores)
        if self.within is not None:
            return self._best_within(scores, self.within)
        if not len(scores):
            return -1
        i = int(scores.argmax())
        return i if scores[i] > -inf else -1

    def _has_room(self, view: ShapeView) -> bool:
        """Whether any node has enough idle capacity, regardless of pods; the scores are up to date."""
        if view.native is not None:
            return view.native.best() >= 0
        return bool((view.scores > -inf).any())

    def _best_within(self, scores: Scores, members: NDArray[np.intp]) -> int:
        inside = scores.take(members)
        if not len(inside):
            return -1
        at = int(inside.argmax())
        return int(members[at]) if inside[at] > -inf else -1

    def eligible(self, shape: TaskShape) -> Mask:
        """The nodes where a task of the shape may run; while a domain is tried, those inside it."""
        mask = self.view(shape).mask
        return mask if self._inside is None else mask & self._inside

    def keep_within(self, members: NDArray[np.intp] | None) -> None:
        """Use only these nodes until further notice; None: all nodes."""
        self.within = members
        self._inside = None
        if members is not None:
            self._inside = np.zeros(len(self.nodes), np.bool_)
            self._inside[members] = True

    def idle_slots(self, shape: TaskShape) -> NDArray[np.int64]:
        """Per node, how many tasks of the shape fit now; with inter-pod constraints, at most so many."""
        self.sync_idle()
        return self._slots(shape, self.idle)

    def empty_slots(self, shape: TaskShape) -> NDArray[np.int64]:
        """Per node, how many tasks of the shape would fit if it were empty."""
        return self._slots(shape, self.allocatable)

    def _slots(self, shape: TaskShape, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        slots: NDArray[np.int64] | None = None
        for j, amount in shape.items:
            here = amounts[j] // amount
            slots = here if slots is None else np.minimum(slots, here)
        if slots is None:
            slots = np.full(len(self.nodes), UNLIMITED, np.int64)
        return np.where(self.view(shape).mask, np.maximum(slots, 0), 0)

    def _scores_by_pods(self, view: ShapeView) -> tuple[Scores, Mask | None]:
        """Scores that depend on other pods, and the nodes that inter-pod constraints allow now (None: all)."""
        scores, allowed = view.scores, None
        for plugin in self._scorers_now:
            score = plugin.node_score_now(view.shape, self)
            if score is not None:
                scores = scores + score
        for plugin in self._filters_now if view.coupled else ():
            mask = plugin.node_filter_now(view.shape, self)
            if mask is not None:
                allowed = mask if allowed is None else allowed & mask
        return scores, allowed

    def find_freeing(self) -> None:
        """Find the nodes on which capacity is being freed or awaited."""
        self.freeing = {i: None for i, node in enumerate(self.nodes) if node.waiting or any(node.releasing)}

    def allows(self, shape: TaskShape, i: int) -> bool:
        """Whether a task of the shape may run on a node as pods are now, regardless of idle capacity."""
        if not self.view(shape).mask[i] or (self._inside is not None and not self._inside[i]):
            return False
        return not shape.coupled or self.allows_now(shape, i)

    def allows_now(self, shape: TaskShape, i: int) -> bool:
        """Whether inter-pod constraints allow a task of the shape on a node now."""
        masks = (plugin.node_filter_now(shape, self) for plugin in self._filters_now)
        return all(mask is None or bool(mask[i]) for mask in masks)

    def _scores_lending(self, view: ShapeView, scores: Scores) -> Scores:
        """Scores without the nodes where a task would use reserved capacity."""
        kept = [i for i in self.reserved if self._eats(view.shape, i)]
        if kept:
            scores = scores.copy()
            scores[kept] = -inf
        return scores

    def _eats(self, shape: TaskShape, i: int) -> bool:
        idle, asks = self.nodes[i].idle, dict(shape.items)
        for needs in self.reserved[i]:
            for j, amount in needs:
                if j in asks and idle[j] - asks[j] < amount:
                    return True
        return False

    def reserve(self, room: dict[int, list[Items]], on_full: Callable[[TaskShape], None]) -> None:
        """Start to lend: apply the reservations, and report the shapes that fit only on reserved capacity."""
        self.reserved = room
        if self._native is not None:
            self._native.reserve(room)
        for i in room:
            self.capacity_lost(i, on_full)

    def unreserve(self) -> None:
        """Stop lending: lift the reservations."""
        if self.reserved:
            self.gains += 1
            self.growths += 1
            if self._native is not None:
                self._native.reserve({})
        self.reserved = {}

    def possible(self, shape: TaskShape) -> bool:
        """Whether a task of the shape would fit on some node if that were empty."""
        return self.view(shape).possible

    def fits_somewhere(self, shape: TaskShape) -> bool:
        """Whether a task of an uncoupled shape fits now; picks a new witness if the old one is full."""
        view = self.view(shape)
        self.searches += 1
        if view.native is not None:
            return view.native.fits_somewhere(self.gains, self.growths)
        if view.witness >= 0:
            if self._fits(view, view.witness):
                return True
            self._watch[view.witness].pop(shape, None)
            view.witness = -1
        while view.spares:
            i = view.spares.pop()
            if self._fits(view, i):
                self._set_witness(view, i)
                return True
        if view.complete_at == self.gains:
            return False
        self.sync_idle()
        fits = view.mask  # a witness needs enough idle capacity; its score does not matter
        for j, amount in view.shape.items:
            fits = fits & (self.idle[j] >= amount)
        return self._choose_witness(view, fits.nonzero()[0])

    def _choose_witness(self, view: ShapeView, fitting: NDArray[np.intp]) -> bool:
        """Take one of the nodes with enough idle capacity as witness, others as spares; returns whether there is one.

        They are spread out, so that few shapes need a new witness when one node fills up.
        """
        for i in self.reserved:
            if self._eats(view.shape, i):
                fitting = fitting[fitting != i]
        count = len(fitting)
        view.complete_at = self.gains if count <= SPARES else -1
        if not count:
            return False
        spares: list[int] = (fitting if count <= SPARES else fitting[:: count // SPARES]).tolist()
        self._set_witness(view, spares.pop(view.shape.index * 7919 % len(spares)))
        view.spares = spares
        return True

    def _set_witness(self, view: ShapeView, i: int) -> None:
        view.witness = i
        self._watch[i][view.shape] = None

    def _fits(self, view: ShapeView, i: int) -> bool:
        idle = self.nodes[i].idle
        for j, amount in view.shape.items:
            if idle[j] < amount:
                return False
        return bool(view.mask[i]) and not (i in self.reserved and self._eats(view.shape, i))

    def fitting_on(self, shapes: Iterable[TaskShape], grown: Iterable[int], *, nowhere_else: bool) -> list[TaskShape]:
        """Those of the shapes, which fitted nowhere, that fit on one of these nodes; it becomes their witness.

        ``nowhere_else``: no other node has more idle capacity than when a shape was found to fit nowhere.
        """
        nodes = list(grown)
        if not nodes:
            return []
        if self._native is not None:
            views = [self.view(shape).native for shape in shapes]
            return self._native.grow(views, nodes, nowhere_else, self.gains, self.growths)
        which = np.array(nodes, np.intp)
        self.sync_idle()
        idle = list(self.idle.take(which, axis=1))
        found: list[TaskShape] = []
        for shape in shapes:
            view = self.view(shape)
            fits = view.mask.take(which)
            for j, amount in shape.items:
                fits &= idle[j] >= amount
            if self._choose_witness(view, which[fits]):
                found.append(shape)
            if not nowhere_else:
                view.complete_at = -1
        return found

    def capacity_lost(self, i: int, on_full: Callable[[TaskShape], None]) -> None:
        """Report the shapes that fit nowhere now that a node has less idle capacity."""
        if self._native is not None:
            self.searches += 1
            full = self._native.lose(i, self.gains, self.growths)
            if full:
                self._report(full, on_full)
        elif watching := self._watch[i]:
            moving = [shape for shape in watching if not self._fits(self._views[shape], i)]
            full = [shape for shape in moving if not self.fits_somewhere(shape)]
            self._report(full, on_full)

    def _report(self, full: list[TaskShape], on_full: Callable[[TaskShape], None]) -> None:
        """Report shapes that fit nowhere any more, in an order that does not tell whose witness a node was first."""
        if len(full) > 1:
            full.sort(key=_index)
        for shape in full:
            on_full(shape)

    def free_slots(self, shape: TaskShape, tasks: int) -> bool:
        """Whether this many tasks of an uncoupled shape would fit if all nodes were empty."""
        return self.slots_for(shape, tasks) >= tasks

    def slots_for(self, shape: TaskShape, tasks: int) -> int:
        """How many of this many tasks of an uncoupled shape would fit if all nodes were empty."""
        known = self._room_for.get((shape, tasks))
        if known is None:
            known = self._room_for[(shape, tasks)] = self._count_room(shape, tasks)
        return known

    def _count_room(self, shape: TaskShape, tasks: int) -> int:
        view = self.view(shape)
        if not view.possible or tasks <= 1:
            return min(tasks, int(view.possible))
        slots = np.minimum(self.empty_slots(shape), tasks)
        if shape.topology is not None and shape.topology.hard and shape.topology.chain is None:
            return self.domains.largest_sum(slots, shape.topology, tasks) if self.domains is not None else 0
        return min(tasks, int(slots.sum()))


def _looks_at_pods(plugin: Plugin, hook: str) -> bool:
    """Whether a plugin has a hook that is called for every placement."""
    return getattr(type(plugin), hook) is not getattr(Plugin, hook)


def _index(shape: TaskShape) -> int:
    return shape.index


def _deviation(parts: list[Scores]) -> Scores | float:
    if len(parts) == 2:
        return np.abs(parts[0] - parts[1]) / 2.0
    if not parts:
        return 0.0
    mean = _sum(parts) / len(parts)
    return np.sqrt(_sum([(part - mean) * (part - mean) for part in parts]) / len(parts))


def _sum(parts: list[Scores]) -> Scores:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
