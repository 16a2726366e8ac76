"""capacity: queues have explicit quantities, at any depth (fairness.md 6).

``guarantee`` is reserved, ``deserved`` is a queue's own part, which it can take back from those who borrowed it, and
``capability`` is the most it may hold. A flat set of queues is a tree of one level: a queue's parent counts whether
or not ``enableHierarchy`` is on. Arguments:

- ``ancestorReclaimLevel`` (0): whose deserved a taker is judged by, so many levels above its queue. Of queues that
  taker and victim have in common nobody can be the judge: then it is the last one below.
- ``onViolation`` (isolate): where the numbers of a tree contradict each other, nothing starts in that subtree; with
  ``halt`` nothing starts anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pumice.fairness.taking import parting
from pumice.fairness.tree import JobNode, ShareNode
from pumice.fairness.violations import violations
from pumice.model.accounts import Task
from pumice.model.hierarchy import lay_out
from pumice.model.objects import Items
from pumice.scheduling.plugin import Argument, Arguments, PluginError
from pumice.scheduling.plugins.limits import QueueLimits, queues_between

if TYPE_CHECKING:
    from pumice.scheduling.units import Unit

LEVEL = "ancestorReclaimLevel"
ON_VIOLATION = "onViolation"


class CapacityPlugin(QueueLimits):
    """Quantities that somebody wrote, and what follows from them."""

    name = "capacity"
    takes = (
        Argument(LEVEL, "0", "whose deserved a taker is judged by: so many levels above its queue"),
        Argument(
            ON_VIOLATION, "isolate", "what quantities that contradict each other stop: their subtree, or all (halt)"
        ),
    )

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self.level = _level(arguments)
        self.on_violation = arguments.get(ON_VIOLATION, "isolate")
        if self.on_violation not in ("isolate", "halt"):
            raise PluginError(ON_VIOLATION, f"{ON_VIOLATION} is {self.on_violation!r}; write isolate or halt")

    def deserves(self) -> Mapping[ShareNode, Items]:
        """What the queues name, between their guarantee and their real capability."""
        return {node: node.deserved for node in self.tree.queues() if node.deserved is not None}

    def queue_refusals(self) -> Mapping[str, str]:
        """Queues whose numbers contradict each other; with ``halt`` all queues if there is one."""
        queues = self.state.queues
        unplaced = [refusal for refusal in lay_out(queues).refusals if refusal.refused]
        wrong = {refusal.queue: f"{refusal.field}: {refusal.message}" for refusal in unplaced}
        wrong = {**violations(self.tree, queues, self.registry), **wrong}
        if wrong and self.on_violation == "halt":
            first = min(wrong)
            halted = f"all queues are halted because of queue {first}: {wrong[first]}"
            return {**dict.fromkeys(sorted(queues), halted), **wrong}
        return wrong

    # --- taking back ----------------------------------------------------------------------------------------------

    def may_take(self, leaf: JobNode, unit: Unit) -> str | None:
        """Whether the queue could hold the unit and is to have it by right, or somebody above it who may judge."""
        reason = super().may_take(leaf, unit)
        if reason is not None or not self.orders_queues:
            return reason
        judges = queues_between(leaf, self.tree.root)[: self.level + 1]
        if any(_within_deserved(queue, unit.ask, counted=False) for queue in judges):
            return None
        return f"queue {leaf.queue.name} does not deserve so much"

    def reclaimable(self, taker: JobNode, unit: Unit, victim: Task) -> bool:
        """Whether the taker's side stays within what it deserves and the victim's is above it on what helps."""
        if not super().reclaimable(taker, unit, victim):
            return False
        if not self.orders_queues:
            return True
        assert victim.job is not None
        loser = self.tree.jobs[victim.job.key]
        level, _, _ = parting(taker, loser)
        # A queue that names nothing of it is no judge: it leaves that to those below.
        asked = {j for j, _ in unit.ask}
        judges = [q for q in queues_between(taker, level)[: self.level + 1] if asked & {j for j, _ in q.deserved or ()}]
        if not judges or not _within_deserved(judges[-1], unit.ask, counted=True):
            return False
        helpful = {j for j, _ in unit.ask} & {j for j, _ in victim.shape.ask}
        return any(_above_deserved(loser, level, j) for j in helpful)

    def preemptable(self, taker: JobNode, unit: Unit, victim: Task) -> bool:
        """Whether the queue does not come to hold more, beyond what it deserves, of something it names.

        Others would reclaim that, what the victim had by right would be reclaimed for it, and so on in a circle.
        """
        if not self.orders_queues:
            return True
        gives, queue = dict(victim.shape.ask), taker.queue
        deserved = dict(queue.deserved or ())
        return not any(
            queue.held[j] - gives.get(j, 0) > deserved[j] for j, n in unit.ask if j in deserved and n > gives.get(j, 0)
        )


def _within_deserved(queue: ShareNode, ask: Items, *, counted: bool) -> bool:
    """Whether a queue deserves what it holds and this; it must deserve some of it. Counted: it holds this already."""
    deserved = dict(queue.deserved or ())
    judged = [(j, amount) for j, amount in ask if j in deserved]
    return bool(judged) and all(queue.held[j] + (0 if counted else amount) <= deserved[j] for j, amount in judged)


def _above_deserved(loser: JobNode, level: ShareNode, j: int) -> bool:
    """Whether a job's queue, and everyone above it below the level, holds more of a resource than it deserves.

    What a queue above does not name it does not claim; what the job's own queue does not name is borrowed.
    """
    for queue in queues_between(loser, level):
        deserved = dict(queue.deserved or ()).get(j)
        if deserved is not None and queue.held[j] <= deserved:
            return False
    return True


def _level(arguments: Arguments) -> int:
    value = arguments.get(LEVEL, 0)
    if isinstance(value, bool) or not str(value).isdecimal():
        raise PluginError(LEVEL, f"{LEVEL} is {value!r}; write a number: 0 for the queue itself, 1 for its parent")
    return int(str(value))
