"""Takers: jobs that find no room, and may have others go to start (docs/fairness.md, section 9.1).

The order that serves the tree also says whose turn it is to take. A taker's unit is tried whole, in a transaction:
each of its tasks gets a claim on a node, and where that takes victims, they go. Nobody goes unless all of the unit
starts. What it starts in is still occupied, so its tasks wait on their nodes (see ``pipelined``).

A job must have found no room for a while, and who has only just started is spared (see ``brakes``). What could not be
helped is not looked at again until something moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pumice.engine.candidates.units import Unit, unit_tasks
from pumice.engine.checkpoint.engine_checkpoint import TakersMemory
from pumice.engine.fairness.preemption_rules.rules import Judge, equality
from pumice.engine.fairness.preemption_rules.task_rights import holds_more
from pumice.engine.fairness.share_tree.tree import JobNode, Kind, ShareNode, ShareTree
from pumice.engine.preemption.cooldown import Brakes
from pumice.engine.preemption.eviction_plan import claim, lowers_the_shortfall
from pumice.engine.preemption.eviction_reason import Explanation, keys_beside
from pumice.engine.preemption.freeable_capacity import HOPELESS, Freeable
from pumice.engine.preemption.preemptible_tasks import Pool
from pumice.engine.preemption.scarce_resources import scarce_everywhere
from pumice.engine.preemption.shared_gang_victims import take_together
from pumice.engine.preemption.victim_search import Hunt
from pumice.engine.transaction import Transaction

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext

Attempt = tuple[Unit, ShareNode | None, str]


@dataclass(frozen=True, slots=True)
class InVain:
    """When a unit was tried in vain, and from when on time alone may help."""

    moves: int
    until: int | None


class Takers:
    """Who takes, by one action: since when each has found no room, and what was tried in vain."""

    def __init__(self, action: str, brakes: Brakes, *, across: bool) -> None:
        self.action = action
        self.brakes = brakes
        self.across = across  # between queues (reclaim), or inside one (preempt)
        self.committed = 0  # how often somebody took
        self.without_gain = 0  # and how often that left jobs as far below their whole targets as before: must stay 0
        self._since: dict[JobNode, int] = {}
        self._pool: Pool
        # By the level below which victims are looked for; None: of those who got their place in this cycle.
        self._freeable: dict[ShareNode | None, Freeable] = {}
        self._in_vain: dict[Attempt, InVain] = {}

    def memory(self) -> TakersMemory:
        """What is to be remembered."""
        return TakersMemory(
            {leaf.name: since for leaf, since in self._since.items()}, self.committed, self.without_gain
        )

    def recall(self, memory: TakersMemory, tree: ShareTree) -> None:
        """Go on from there: who has waited has waited."""
        self.committed, self.without_gain = memory.committed, memory.without_gain
        self._since = {tree.jobs[job]: since for job, since in memory.since.items() if job in tree.jobs}

    def serve(self, context: SchedulingContext) -> None:
        """Let every taker have its turn, until none is left that can be helped."""
        if self.across and not context.policy.consent.queues:
            self._since.clear()
            return
        takers = self._patient(context)
        if not takers:
            return
        context.nodes.find_freeing()
        self._pool = Pool(context, self._might_lose(context), self.brakes.min_runtime)
        self._freeable.clear()
        self._drop_hopeless(context, takers)
        order, candidates = context.order, context.candidates
        passed_over: list[JobNode] = []
        for taker in takers:
            order.offer(taker, taker.unit.ask, True)
        while takers and (leaf := order.pick()) is not None:
            if leaf not in takers:  # it finds room without this; allocate will serve it
                passed_over.append(leaf)
                order.offer(leaf, leaf.unit.ask, False)
            elif self._stuck(context, leaf) and self._take(context, leaf, takers) and leaf.unit is not None:
                order.offer(leaf, leaf.unit.ask, True)
            else:
                del takers[leaf]
                candidates.offer_again(leaf)
        for other in (*takers, *passed_over):
            candidates.offer_again(other)

    def waits_for_time(self, now: int) -> bool:
        """Whether somebody may take later than now, though nothing else happens."""
        return self.next_time(now) is not None

    def next_time(self, now: int) -> int | None:
        """The first time later than now from which on somebody may take, though nothing else happens."""
        patient = (since + self.brakes.patience for since in self._since.values())
        ripe = (tried.until for tried in self._in_vain.values() if tried.until is not None)
        return min((time for time in (*patient, *ripe) if time > now), default=None)

    def begins(self, leaf: JobNode) -> int | None:
        """From when on a job may take; None: it is not among those who would, as of the last cycle."""
        return self._since[leaf] + self.brakes.patience if leaf in self._since else None

    # --- who --------------------------------------------------------------------------------------------------------

    def _might_lose(self, context: SchedulingContext) -> list[JobNode]:
        """The jobs that may have to let tasks go: those beyond their part, and their equals, who may trade with them.

        What asks for nothing is nobody's part: it is never beyond it, and may be in the way.
        """
        leaves = [leaf for leaf in context.tree.jobs.values() if leaf.job.running and self._may_be_asked(context, leaf)]
        if not context.order.has_targets:
            return leaves
        beyond = {leaf for leaf in leaves if holds_more(leaf)}
        traders = {equality(leaf) for leaf in beyond if leaf.demand.alike and leaf.gang <= 1}
        return [
            leaf
            for leaf in leaves
            if leaf in beyond or equality(leaf) in traders or any(not shape.ask for shape in leaf.job.unfinished)
        ]

    def _may_be_asked(self, context: SchedulingContext, leaf: JobNode) -> bool:
        queue = context.sync.queue_of(leaf.queue) if self.across else None
        return queue is None or queue.reclaimable

    def _drop_hopeless(self, context: SchedulingContext, takers: dict[JobNode, None]) -> None:
        """Those for whom no node would have room even if everybody went who might need not be looked at any further."""
        known: dict[tuple[Unit, ShareNode], bool] = {}
        for leaf in list(takers):
            unit: Unit = leaf.unit
            level = context.tree.root if self.across else leaf.queue
            if (unit, level) not in known:
                known[unit, level] = self._is_hopeless(context, unit, level)
            if known[unit, level]:
                del takers[leaf]
                self._in_vain[self._key(context, leaf)] = InVain(context.changes.version, self._pool.ripens)

    def _is_hopeless(self, context: SchedulingContext, unit: Unit, level: ShareNode) -> bool:
        if context.candidates.is_open(unit):
            return not self._pool.below(level)  # a limit is in the way: somebody must go
        shapes = [shape for shape, _ in unit.parts if not shape.coupled and shape in context.candidates.full]
        if not self._pool.below(level) and not context.nodes.freeing:
            return True
        freeable = self._freeable_below(context, level)
        return any(not (freeable.victims_for(shape) < HOPELESS).any() for shape in shapes)

    def _patient(self, context: SchedulingContext) -> dict[JobNode, None]:
        """The jobs that have found no room for long enough."""
        now, candidates = context.now, context.candidates
        stuck = [leaf for unit in candidates.units for leaf in unit.waiting if self._stuck(context, leaf)]
        self._since = {leaf: self._since.get(leaf, now) for leaf in stuck}
        self._in_vain = {key: tried for key, tried in self._in_vain.items() if self._still_in_vain(tried, context)}
        waited = [
            leaf for leaf in stuck if now - self._since[leaf] >= self.brakes.patience and _preempts(context, leaf)
        ]
        return {leaf: None for leaf in waited if self._key(context, leaf) not in self._in_vain}

    def _stuck(self, context: SchedulingContext, leaf: JobNode) -> bool:
        """Whether a job has a unit within its part that finds no room, or that a limit keeps out."""
        unit: Unit | None = leaf.unit
        if unit is None or not context.order.owes(leaf, unit.ask) or not context.candidates.lines.is_head(leaf):
            return False
        return not context.candidates.is_open(unit) or context.policy.allocatable(leaf, unit) is not None

    def _key(self, context: SchedulingContext, leaf: JobNode) -> Attempt:
        """Takers with equal keys are helped or not alike. Inside a queue keys of jobs may count: each is on its own."""
        if self.across:
            return leaf.unit, leaf.queue, leaf.user
        alike = context.order.has_targets
        return leaf.unit, leaf.parent, leaf.user if alike else leaf.name

    def _still_in_vain(self, tried: InVain, context: SchedulingContext) -> bool:
        return tried.moves == context.changes.version and (tried.until is None or context.now < tried.until)

    # --- how ----------------------------------------------------------------------------------------------------

    def _take(self, context: SchedulingContext, leaf: JobNode, takers: dict[JobNode, None]) -> bool:
        unit: Unit = leaf.unit
        key = self._key(context, leaf)
        if key in self._in_vain or not self.may_take(context, leaf):
            return False
        path = context.order.explain() if context.tracing else ()
        judge = self.judge(context, leaf)
        hunt = Hunt(
            context,
            leaf,
            unit,
            judge,
            self.levels(leaf),
            self._pool,
            lambda level: self._freeable_below(context, level),
            across=self.across,
        )
        before = keys_beside(judge, leaf) if context.tracing else {}
        transaction = Transaction(context)
        claimed = claim(context, transaction, hunt, leaf, unit)
        if not claimed and unit.size > 1:
            transaction.discard()
            hunt.closely = True
            claimed = claim(context, transaction, hunt, leaf, unit)
        if not claimed:
            transaction.discard()
            together = take_together(self, context, leaf, hunt, takers)
            if together is not None:
                self._took(context, together, takers)
                return True
            self._in_vain[key] = InVain(context.changes.version, self._pool.ripens)
            return False
        explain = Explanation(self.action, leaf, judge, before)
        transaction.commit(path, explain)
        context.candidates.advance(leaf)
        self._took(context, transaction, takers)
        return True

    def _freeable_below(self, context: SchedulingContext, level: ShareNode | None) -> Freeable:
        """What could be freed by those below a level; None: by those who got their place in this cycle."""
        found = self._freeable.get(level)
        if found is None:
            among = context.decided.bound if level is None else None
            found = Freeable(context, self._pool, self._pool.below(level or context.tree.root), among)
            self._freeable[level] = found
        return found

    def _took(self, context: SchedulingContext, transaction: Transaction, takers: dict[JobNode, None]) -> None:
        self.committed += 1
        if context.order.has_targets and not lowers_the_shortfall(transaction, context.state.capacity):
            self.without_gain += 1
        for job in {gone.task.job: None for gone in transaction.evicted}:
            assert job is not None
            takers.pop(context.tree.jobs[job.key], None)  # it has just had to give
        for index in transaction.touched():
            for freeable in self._freeable.values():
                freeable.refresh(index)

    def may_take(self, context: SchedulingContext, leaf: JobNode) -> bool:
        """Whether no plugin is against it."""
        return not self.across or context.policy.may_take(leaf, leaf.unit) is None

    def judge(self, context: SchedulingContext, leaf: JobNode) -> Judge:
        """Who says what others may lose to a taker."""
        unit, policy = leaf.unit, context.policy
        return context.order.preemption_rule(
            leaf,
            unit.ask,
            lambda: scarce_everywhere(context.nodes, unit),
            by_share=policy.jobs_by_share,
            by_class=policy.consent.classes,
        )

    def levels(self, leaf: JobNode) -> list[ShareNode]:
        """The nodes of the tree below which victims are looked for, nearest first."""
        queue = leaf.queue
        levels: list[ShareNode] = []
        node: ShareNode | None = queue.parent if self.across else leaf.parent
        while node is not None and (self.across or node.kind is Kind.NAMESPACE or node is queue):
            levels.append(node)
            node = node.parent if self.across or node is not queue else None
        return levels


def _preempts(context: SchedulingContext, leaf: JobNode) -> bool:
    """Whether all of a job's next unit may have others go (preemptionPolicy)."""
    return all(context.state.task_preempts(task.spec) for task in unit_tasks(leaf, leaf.unit))
