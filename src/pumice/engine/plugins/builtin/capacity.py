"""capacity: queues have explicit quantities, at any depth (docs/fairness.md, section 6).

``guarantee`` is reserved, ``deserved`` is a queue's own part, which it can reclaim from borrowers, and ``capability``
is the most it may hold. A flat set of queues is a tree of one level: a queue's parent counts whether or not
``enableHierarchy`` is on. Arguments:

- ``ancestorReclaimLevel`` (0): the queue whose deserved amount judges a preemptor: this many levels above its queue or,
  where that names no deserved, above the nearest queue that does. A common ancestor of preemptor and victim cannot be
  the judge: then it is the last queue below.
- ``onViolation`` (isolate): where the amounts of a tree contradict each other, nothing starts in that subtree; with
  ``halt`` nothing starts anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from pumice.engine.fairness.limits.queue_violations import clamped, violations
from pumice.engine.fairness.preemption_rules.rules import lowest_common_ancestor
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.engine.plugins.builtin.queue_limits import QueueLimits, queues_between
from pumice.engine.plugins.plugin import Argument, Arguments, PluginError
from pumice.engine.preemption.scarce_resources import scarce_on
from pumice.engine.state.task import Task
from pumice.model.queue_tree import build_queue_tree
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.candidates.units import AllocationUnit

LEVEL = "ancestorReclaimLevel"
ON_VIOLATION = "onViolation"
SATISFIED = Fraction(1)
CLAMPED = "DeservedClamped"
"""Condition of a queue whose deserved exceeds its capability or is less than its guarantee."""


class CapacityPlugin(QueueLimits):
    """Orders and limits queues by the configured quantities."""

    name = "capacity"
    takes = (
        Argument(
            LEVEL, "0", "whose deserved a preemptor is judged by: so many levels above the nearest that names one"
        ),
        Argument(
            ON_VIOLATION, "isolate", "what quantities that contradict each other stop: their subtree, or all (halt)"
        ),
    )

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.level = _level(arguments)
        self._clamped: Mapping[str, str] = {}
        self.on_violation = arguments.get(ON_VIOLATION, "isolate")
        if self.on_violation not in ("isolate", "halt"):
            raise PluginError(ON_VIOLATION, f"{ON_VIOLATION} is {self.on_violation!r}; write isolate or halt")

    def deserves(self) -> Mapping[ShareNode, Items]:
        """The deserved amounts of queues, clamped between their guarantee and their real capability."""
        return {node: node.deserved for node in self.tree.queues() if node.deserved is not None}

    def queue_refusals(self) -> Mapping[str, str]:
        """Queues with contradicting amounts; with ``halt`` all queues if there is one."""
        queues = self.state.queues
        unplaced = [refusal for refusal in build_queue_tree(queues).refusals if refusal.refused]
        wrong = {refusal.queue: f"{refusal.field}: {refusal.message}" for refusal in unplaced}
        wrong = {**violations(self.tree, queues, self.registry), **wrong}
        self._clamped = clamped(queues, self.registry)
        if wrong and self.on_violation == "halt":
            first = min(wrong)
            halted = f"all queues are halted because of queue {first}: {wrong[first]}"
            return {**dict.fromkeys(sorted(queues), halted), **wrong}
        return wrong

    def queue_notes(self) -> Mapping[tuple[str, str], str]:
        """Also report the queues whose deserved was clamped."""
        return {**super().queue_notes(), **{(queue, CLAMPED): why for queue, why in self._clamped.items()}}

    # --- preemption rules -----------------------------------------------------------------------------------------

    def preemptive(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """Whether the queue could hold the unit and deserves some of it, or an ancestor that may judge does."""
        reason = super().preemptive(leaf, unit)
        if reason is not None or not self.orders_queues:
            return reason
        judges = self._judges(queues_between(leaf, self.tree.root))
        if any(_deserves_more(queue, j, amount) for queue in judges for j, amount in unit.ask):
            return None
        if not judges:
            return f"queue {leaf.queue.name} sets no deserved, and neither does a queue above it"
        return f"queue {judges[0].name} would hold more than it deserves"

    def reclaimable(self, preemptor: JobNode, unit: AllocationUnit, victim: Task) -> bool:
        """Whether the preemptor's side deserves what it takes, and the victim's holds more of it than it deserves.

        Only what the node lacks has to be taken. Where a limit blocks the unit and no capacity is lacking, the whole
        request counts.
        """
        if not super().reclaimable(preemptor, unit, victim):
            return False
        if not self.orders_queues:
            return True
        assert victim.job is not None and victim.node is not None
        loser = self.tree.jobs[victim.job.key]
        level, _, _ = lowest_common_ancestor(preemptor, loser)
        taken = scarce_on(victim.node, unit) or {j for j, _ in unit.ask}
        # A queue that names none of the resources is no judge: it defers to the queues below.
        judges = [queue for queue in self._judges(queues_between(preemptor, level)) if taken & _named(queue)]
        if not judges or any(_is_above(judges[-1], j) for j in taken):
            return False
        gives = dict(victim.shape.ask)
        if not any(_above_deserved(loser, level, j) for j in taken & gives.keys()):
            return False
        # A resource of which the cluster has enough idle is not contested: the victim's queue loses nothing that it
        # could not have back without a victim, and the preemptor's queue does not lack it.
        idle = [has - held for has, held in zip(self.state.capacity, self.tree.root.held, strict=False)]
        contested = [j for j, n in gives.items() if idle[j] < n and not _above_deserved(loser, level, j)]
        short = [j for j in taken & _named(judges[-1]) if idle[j] < 0]  # the unit is already charged
        # The room goes to the side that holds the smaller part of its deserved amount. The smallest of these parts
        # rises with every such move, so that two queues cannot evict each other in turn.
        before = min((_part_before(judges[-1], unit, j) for j in short), default=SATISFIED)
        return all(_part_after(loser, level, victim, j) > before for j in contested)

    def _judges(self, queues: list[ShareNode]) -> list[ShareNode]:
        """The judges among a preemptor's queue and its ancestors: the nearest with a deserved, and the levels above it.

        Without any deserved amount, the guarantee counts as deserved.
        """
        described = [self.state.queues.get(queue.queue_name or "") for queue in queues]
        naming = [i for i, queue in enumerate(described) if queue is not None and queue.deserved]
        start = next(iter(naming or [i for i, queue in enumerate(queues) if queue.deserved]), len(queues))
        return queues[start : start + self.level + 1]

    def _is_owed(self, queue: ShareNode, asked: Items) -> bool:
        """Whether a queue, or its judge, deserves the requested amounts, as far as these are not idle."""
        if not self.orders_queues:
            return super()._is_owed(queue, asked)
        way = [*queues_between(queue, self.tree.root), self.tree.root]
        taken = [(j, amount) for j, amount in asked if any(_has_no_room(above, j, amount) for above in way)]
        judges = self._judges(way[:-1])
        return any(all(_deserves_more(judge, j, judge.inqueue[j] + n) for j, n in taken) for judge in judges)

    def preemptable(self, preemptor: JobNode, unit: AllocationUnit, victim: Task) -> bool:
        """Whether the queue does not exceed its deserved amount further in a resource that it names.

        Other queues would reclaim that, the victim's rightful part would be reclaimed for it, and so on in a circle.
        """
        if not self.orders_queues:
            return True
        gives, queue = dict(victim.shape.ask), preemptor.queue
        deserved = dict(queue.deserved or ())
        return not any(
            queue.held[j] - gives.get(j, 0) > deserved[j] for j, n in unit.ask if j in deserved and n > gives.get(j, 0)
        )


def _named(queue: ShareNode) -> set[int]:
    return {j for j, _ in queue.deserved or ()}


def _has_no_room(queue: ShareNode, j: int, amount: int) -> bool:
    """Whether this much more must be taken from other jobs: inqueue counts as used, elastic as free."""
    taken = queue.held[j] + queue.inqueue[j] - queue.elastic[j]
    return queue.ceiling is not None and taken + amount > queue.ceiling[j]


def _deserves_more(queue: ShareNode, j: int, amount: int) -> bool:
    """Whether a queue names a deserved amount of a resource, and this much more is within it."""
    return any(named == j and queue.held[j] + amount <= due for named, due in queue.deserved or ())


def _is_above(queue: ShareNode, j: int) -> bool:
    """Whether a queue holds more of a resource than the deserved amount it names."""
    return any(named == j and queue.held[j] > due for named, due in queue.deserved or ())


def _above_deserved(loser: JobNode, level: ShareNode, j: int) -> bool:
    """Whether a job's queue, and each ancestor below the level, holds more of a resource than it deserves.

    A resource that an ancestor does not name is not judged there; one that the job's own queue does not name is
    borrowed.
    """
    for queue in queues_between(loser, level):
        deserved = dict(queue.deserved or ()).get(j)
        if deserved is not None and queue.held[j] <= deserved:
            return False
    return True


def _part_before(queue: ShareNode, unit: AllocationUnit, j: int) -> Fraction:
    """The part of its deserved amount that a preemptor's queue holds without the unit, which is already charged."""
    deserved = dict(queue.deserved or ())[j]
    return Fraction(queue.held[j] - dict(unit.ask).get(j, 0), deserved) if deserved else SATISFIED


def _part_after(loser: JobNode, level: ShareNode, victim: Task, j: int) -> Fraction:
    """The smallest part of a deserved amount that the victim's queues keep once it is gone, and at most all of it."""
    ask = dict(victim.shape.ask)[j]
    kept = [SATISFIED]
    for queue in queues_between(loser, level):
        deserved = dict(queue.deserved or ()).get(j)
        if deserved:
            kept.append(Fraction(queue.held[j] - ask, deserved))
    return min(kept)


def _level(arguments: Arguments) -> int:
    value = arguments.get(LEVEL, 0)
    if isinstance(value, bool) or not str(value).isdecimal():
        raise PluginError(LEVEL, f"{LEVEL} is {value!r}; write a number: 0 for the queue itself, 1 for its parent")
    return int(str(value))
