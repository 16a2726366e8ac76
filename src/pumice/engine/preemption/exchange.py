"""Exchanges: a group that stays short of a whole unit takes it from a group with more to spare.

See docs/fairness.md, section 9.12.

Integer targets may ask for an eviction that section 9.8 forbids: the job outside its target stays, because its own side
would miss it as much as the preemptor's side gains. Everything else is inside the targets, so the preemptor would wait
for ever, whatever other groups hold. Example: 5 cpu, two equal queues. One runs a task of 3 cpu and one of 1 cpu, the
other a single task of 1 cpu, and asks for more of them. The integer targets leave out the task of 3 cpu, but without
it the first queue would be left with 1 cpu of its 2.5. So the task of 1 cpu makes way: 3 : 2 instead of 4 : 1.

The job that is owed its unit may be unable to have it because it also needs a resource that nobody may lose. Then
another job below a group that both share may exchange instead, if that group is short of the other job's whole unit:
the group must not stay short because integer targets chose a job that cannot start. This one takes only what its
victims hold beyond their integer targets: they would be owed anything else, and take the unit back.

Otherwise an exchange ignores integer targets. Instead, the shortfall that it leaves on the victim's side, at every
level below the common ancestor, must be smaller than the whole unit that the preemptor's side was short of. The reverse
exchange is then never legal. A job of unlike tasks may ask for any task that may start alone, not only for its next
one: that one may be larger than what its queue is short of.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator

from pumice.engine.candidates.candidates import Candidates
from pumice.engine.candidates.units import AllocationUnit, starts_alone
from pumice.engine.fairness.preemption_rules.rules import lowest_common_ancestor
from pumice.engine.fairness.preemption_rules.task_rights import has_lost_nothing, spares
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import Items

LEAST = 1e-6  # fraction of the cluster; smaller differences count as none


def _ancestors(leaf: JobNode) -> Iterator[ShareNode]:
    """The nodes above a job, the root last."""
    node = leaf.parent
    while node is not None:
        yield node
        node = node.parent


def groups_above(starved: Iterable[JobNode]) -> set[ShareNode]:
    """The queues and inner nodes above these jobs, without the root."""
    return {group for leaf in starved for group in _ancestors(leaf) if group.parent is not None}


def jobs_instead(candidates: Candidates, groups: set[ShareNode]) -> Iterator[JobNode]:
    """Jobs that wait for something of which one of these groups is short; of equal jobs the oldest.

    A few too many: not all are below a group that is short of it (see ``exchange_units``).
    """
    oldest: dict[tuple[AllocationUnit, ShareNode | None, str], JobNode] = {}
    for unit in candidates.units:
        if not candidates.is_open(unit) and any(_is_short_of(group, unit.ask) for group in groups):
            for leaf in unit.first_jobs():
                other = oldest.setdefault((unit, leaf.parent, leaf.user), leaf)
                if leaf.rank < other.rank:
                    oldest[unit, leaf.parent, leaf.user] = leaf
    yield from oldest.values()
    short: dict[TaskShape, bool] = {}
    lines = (line for unit in candidates.units for line in unit.lines if line.menu is not None)
    for leaf in (*candidates.heterogeneous_jobs, *(first for line in lines if (first := line.first()) is not None)):
        for shape in leaf.job.pending:
            if shape not in short:
                short[shape] = any(_is_short_of(group, shape.ask) for group in groups)
        if leaf.unit is not None and any(short[shape] for shape in leaf.job.pending):
            yield leaf


def exchange_units(leaf: JobNode, groups: Container[ShareNode]) -> list[AllocationUnit]:
    """What a job may ask for in an exchange: its next unit, or else any other of its tasks that may start alone.

    A group above the job, one of those given, must be short of all of it.
    """
    next_unit: AllocationUnit = leaf.unit
    units = [next_unit]
    if next_unit.size == 1 and len(leaf.job.pending) > 1:
        shapes = sorted((shape for shape in leaf.job.pending if shape.ask), key=lambda s: leaf.job.pending[s][-1].order)
        others = [shape for shape in shapes if shape is not next_unit.parts[0][0] and starts_alone(leaf, shape)]
        units += [AllocationUnit(((shape, 1),)) for shape in others]
    short = [group for group in _ancestors(leaf) if group in groups]
    return [unit for unit in units if any(_is_short_of(group, unit.ask) for group in short)]


def shortfalls(leaf: JobNode, capacity: list[int]) -> list[float]:
    """How far the branches down to a job exceed their entitlement to its unit; a list that sorts as the walk does."""
    branches = [leaf, *_ancestors(leaf)]
    ask: Items = leaf.unit.ask
    return [min(((n.held[j] - n.due[j]) / (capacity[j] or 1) for j, _ in ask), default=0.0) for n in reversed(branches)]


class ExchangeRule:
    """Entitlements decide, whatever the integer targets are; made before the preemptor's unit is charged.

    ``owed``: whether the preemptor is owed the unit. If not, victims keep their integer targets.
    """

    measure = "want"
    by_target = True
    same_for_all = False

    def __init__(self, capacity: list[int], preemptor: JobNode, ask: Items, *, owed: bool = True) -> None:
        self._capacity = capacity
        self._owed = owed
        self._preemptor = preemptor
        self._asks = [j for j, _ in ask]
        self._before = {group: list(group.held) for group in _ancestors(preemptor)}

    def excess(self, node: ShareNode) -> float:
        """The largest excess over the entitlement, as a fraction of the cluster, over the requested resources."""
        return max(((node.held[j] - node.due[j]) / (self._capacity[j] or 1) for j in self._asks), default=0.0)

    def is_over_target(self, node: ShareNode) -> bool:
        """Whether the branch holds more than it is entitled to."""
        return any(node.held[j] > node.due[j] for j in self._asks)

    def may_find_victims(self, levels: Iterable[ShareNode]) -> bool:
        """Whether ``may_lose`` could allow any eviction below these levels; if not, a search for victims is futile.

        Only evictions and the unit itself change what is held, and neither adds to the branches beside the path up.
        """
        path = {self._preemptor, *self._before}
        for level in levels:
            children = level.children.values()
            ours = next(child for child in children if child in path)
            before = self._before[ours]
            if any(ours.due[j] > before[j] for j in self._asks) and any(
                held > due
                for child in children
                if child is not ours
                for held, due in zip(child.held, child.due, strict=True)
            ):
                return True
        return False

    def may_lose(self, victim: JobNode, items: Items) -> bool:
        """Whether the preemptor's side is short of something and the victim's side holds more than it is entitled to.

        How much the preemptor's side gains is known only once all victims are: some may be on that side too.
        """
        if not self._owed and not spares(victim, items):
            return False
        _, ours, theirs = lowest_common_ancestor(self._preemptor, victim)
        before = self._before.get(ours)  # None: a job of the same queue, which is not asked
        if before is None or not any(ours.due[j] > before[j] for j in self._asks):
            return False
        return any(theirs.held[j] > theirs.due[j] for j, _ in items)

    def agrees(self, victim: JobNode, items: Items) -> bool:
        """Whether no branch around the victim is left as short as the preemptor's side was."""
        if not self._owed and not has_lost_nothing(victim, items):
            return False
        level, ours, _ = lowest_common_ancestor(self._preemptor, victim)
        gain = self._gain(ours)
        node = victim.parent
        while gain > 0 and node is not None and node is not level:
            for j, _ in items:
                if (node.due[j] - node.held[j]) / (self._capacity[j] or 1) >= gain - LEAST:
                    return False
            node = node.parent
        return gain > 0

    def _gain(self, ours: ShareNode) -> float:
        """What a branch gains, the unit less the victims inside it; 0 if it was not short of all that."""
        before = self._before[ours]
        gains = [(j, ours.held[j] - before[j]) for j in self._asks]
        if any(gain > 0 and ours.due[j] - before[j] < gain * (1 - LEAST) for j, gain in gains):
            return 0.0
        return max((gain / (self._capacity[j] or 1) for j, gain in gains), default=0.0)

    def beneficiary(self, victim: JobNode, items: Items, spoken_for: Collection[JobNode]) -> JobNode | None:
        """An exchange transfers no entitlement."""
        return None

    def key(self, node: ShareNode) -> float:
        """The deficit, as ``TargetOrder`` compares it."""
        return -self.excess(node)

    def judged(self, side: ShareNode, leaf: JobNode, items: Items) -> tuple[float | None, float]:
        """By its key, whatever job is below."""
        return None, self.key(side)


def _is_short_of(node: ShareNode, ask: Items) -> bool:
    return bool(ask) and all(node.due[j] - node.held[j] >= amount * (1 - LEAST) for j, amount in ask)
