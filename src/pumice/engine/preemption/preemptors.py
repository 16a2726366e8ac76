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

from pumice.engine.candidates.units import AllocationUnit, unit_tasks
from pumice.engine.checkpoint.engine_checkpoint import PreemptorsCheckpoint
from pumice.engine.fairness.preemption_rules.rules import PreemptionRule, equality
from pumice.engine.fairness.preemption_rules.task_rights import holds_more
from pumice.engine.fairness.share_tree.tree import JobNode, NodeKind, ShareNode, ShareTree
from pumice.engine.preemption.cooldown import PreemptionCooldown
from pumice.engine.preemption.eviction_plan import lowers_shortfall, plan_evictions
from pumice.engine.preemption.eviction_reason import EvictionReason, sibling_keys
from pumice.engine.preemption.freeable_capacity import INFEASIBLE, FreeableCapacity
from pumice.engine.preemption.preemptible_tasks import PreemptibleTasks
from pumice.engine.preemption.scarce_resources import scarce_everywhere
from pumice.engine.preemption.shared_gang_victims import evict_shared_gang
from pumice.engine.preemption.victim_search import VictimSearch
from pumice.engine.transaction import Transaction

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext

Attempt = tuple[AllocationUnit, ShareNode | None, str]


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """When a unit was tried in vain, and from when on time alone may help."""

    moves: int
    until: int | None


class Preemptors:
    """Who takes, by one action: since when each has found no room, and what was tried in vain."""

    def __init__(self, action: str, brakes: PreemptionCooldown, *, across: bool) -> None:
        self.action = action
        self.cooldown = brakes
        self.across_queues = across  # between queues (reclaim), or inside one (preempt)
        self.committed = 0  # how often somebody took
        self.without_gain = 0  # and how often that left jobs as far below their whole targets as before: must stay 0
        self._since: dict[JobNode, int] = {}
        self._pool: PreemptibleTasks
        # By the level below which victims are looked for; None: of those who got their place in this cycle.
        self._freeable: dict[ShareNode | None, FreeableCapacity] = {}
        self._failed_attempts: dict[Attempt, FailedAttempt] = {}

    def checkpoint(self) -> PreemptorsCheckpoint:
        """What is to be remembered."""
        return PreemptorsCheckpoint(
            {leaf.name: since for leaf, since in self._since.items()}, self.committed, self.without_gain
        )

    def restore(self, memory: PreemptorsCheckpoint, tree: ShareTree) -> None:
        """Go on from there: who has waited has waited."""
        self.committed, self.without_gain = memory.committed, memory.without_gain
        self._since = {tree.jobs[job]: since for job, since in memory.since.items() if job in tree.jobs}

    def run(self, context: SchedulingContext) -> None:
        """Let every taker have its turn, until none is left that can be helped."""
        if self.across_queues and not context.policy.consent.queues:
            self._since.clear()
            return
        takers = self._starved_long_enough(context)
        if not takers:
            return
        context.nodes.find_freeing()
        self._pool = PreemptibleTasks(context, self._possible_victims(context), self.cooldown.min_runtime)
        self._freeable.clear()
        self._drop_infeasible(context, takers)
        order, candidates = context.order, context.candidates
        passed_over: list[JobNode] = []
        for taker in takers:
            order.set_candidate(taker, taker.unit.ask, True)
        while takers and (leaf := order.next_job()) is not None:
            if leaf not in takers:  # it finds room without this; allocate will serve it
                passed_over.append(leaf)
                order.set_candidate(leaf, leaf.unit.ask, False)
            elif self._is_starved(context, leaf) and self._try_preempt(context, leaf, takers) and leaf.unit is not None:
                order.set_candidate(leaf, leaf.unit.ask, True)
            else:
                del takers[leaf]
                candidates.offer_again(leaf)
        for other in (*takers, *passed_over):
            candidates.offer_again(other)

    def waits_for_cooldown(self, now: int) -> bool:
        """Whether somebody may take later than now, though nothing else happens."""
        return self.next_change_at(now) is not None

    def next_change_at(self, now: int) -> int | None:
        """The first time later than now from which on somebody may take, though nothing else happens."""
        patient = (since + self.cooldown.patience for since in self._since.values())
        ripe = (tried.until for tried in self._failed_attempts.values() if tried.until is not None)
        return min((time for time in (*patient, *ripe) if time > now), default=None)

    def eligible_at(self, leaf: JobNode) -> int | None:
        """From when on a job may take; None: it is not among those who would, as of the last cycle."""
        return self._since[leaf] + self.cooldown.patience if leaf in self._since else None

    # --- who --------------------------------------------------------------------------------------------------------

    def _possible_victims(self, context: SchedulingContext) -> list[JobNode]:
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
        queue = context.sync.queue_of(leaf.queue) if self.across_queues else None
        return queue is None or queue.reclaimable

    def _drop_infeasible(self, context: SchedulingContext, takers: dict[JobNode, None]) -> None:
        """Those for whom no node would have room even if everybody went who might need not be looked at any further."""
        known: dict[tuple[AllocationUnit, ShareNode], bool] = {}
        for leaf in list(takers):
            unit: AllocationUnit = leaf.unit
            level = context.tree.root if self.across_queues else leaf.queue
            if (unit, level) not in known:
                known[unit, level] = self._is_infeasible(context, unit, level)
            if known[unit, level]:
                del takers[leaf]
                self._failed_attempts[self._key(context, leaf)] = FailedAttempt(
                    context.changes.version, self._pool.next_eligible_at
                )

    def _is_infeasible(self, context: SchedulingContext, unit: AllocationUnit, level: ShareNode) -> bool:
        if context.candidates.is_open(unit):
            return not self._pool.below(level)  # a limit is in the way: somebody must go
        shapes = [
            shape for shape, _ in unit.parts if not shape.coupled and shape in context.candidates.infeasible_shapes
        ]
        if not self._pool.below(level) and not context.nodes.freeing:
            return True
        freeable = self._freeable_below(context, level)
        return any(not (freeable.victims_for(shape) < INFEASIBLE).any() for shape in shapes)

    def _starved_long_enough(self, context: SchedulingContext) -> dict[JobNode, None]:
        """The jobs that have found no room for long enough."""
        now, candidates = context.now, context.candidates
        stuck = [leaf for unit in candidates.units for leaf in unit.waiting if self._is_starved(context, leaf)]
        self._since = {leaf: self._since.get(leaf, now) for leaf in stuck}
        self._failed_attempts = {
            key: tried for key, tried in self._failed_attempts.items() if self._still_fails(tried, context)
        }
        waited = [
            leaf for leaf in stuck if now - self._since[leaf] >= self.cooldown.patience and _preempts(context, leaf)
        ]
        return {leaf: None for leaf in waited if self._key(context, leaf) not in self._failed_attempts}

    def _is_starved(self, context: SchedulingContext, leaf: JobNode) -> bool:
        """Whether a job has a unit within its part that finds no room, or that a limit keeps out."""
        unit: AllocationUnit | None = leaf.unit
        if (
            unit is None
            or not context.order.is_owed(leaf, unit.ask)
            or not context.candidates.fifo_queues.is_head(leaf)
        ):
            return False
        return not context.candidates.is_open(unit) or context.policy.allocatable(leaf, unit) is not None

    def _key(self, context: SchedulingContext, leaf: JobNode) -> Attempt:
        """Takers with equal keys are helped or not alike. Inside a queue keys of jobs may count: each is on its own."""
        if self.across_queues:
            return leaf.unit, leaf.queue, leaf.user
        alike = context.order.has_targets
        return leaf.unit, leaf.parent, leaf.user if alike else leaf.name

    def _still_fails(self, tried: FailedAttempt, context: SchedulingContext) -> bool:
        return tried.moves == context.changes.version and (tried.until is None or context.now < tried.until)

    # --- how ----------------------------------------------------------------------------------------------------

    def _try_preempt(self, context: SchedulingContext, leaf: JobNode, takers: dict[JobNode, None]) -> bool:
        unit: AllocationUnit = leaf.unit
        key = self._key(context, leaf)
        if key in self._failed_attempts or not self.may_preempt(context, leaf):
            return False
        path = context.order.explain() if context.tracing else ()
        judge = self.rule_for(context, leaf)
        hunt = VictimSearch(
            context,
            leaf,
            unit,
            judge,
            self.search_levels(leaf),
            self._pool,
            lambda level: self._freeable_below(context, level),
            across=self.across_queues,
        )
        before = sibling_keys(judge, leaf) if context.tracing else {}
        transaction = Transaction(context)
        claimed = plan_evictions(context, transaction, hunt, leaf, unit)
        if not claimed and unit.size > 1:
            transaction.discard()
            hunt.pack_tightly = True
            claimed = plan_evictions(context, transaction, hunt, leaf, unit)
        if not claimed:
            transaction.discard()
            together = evict_shared_gang(self, context, leaf, hunt, takers)
            if together is not None:
                self._record_preemption(context, together, takers)
                return True
            self._failed_attempts[key] = FailedAttempt(context.changes.version, self._pool.next_eligible_at)
            return False
        explain = EvictionReason(self.action, leaf, judge, before)
        transaction.commit(path, explain)
        context.candidates.choose_next_unit(leaf)
        self._record_preemption(context, transaction, takers)
        return True

    def _freeable_below(self, context: SchedulingContext, level: ShareNode | None) -> FreeableCapacity:
        """What could be freed by those below a level; None: by those who got their place in this cycle."""
        found = self._freeable.get(level)
        if found is None:
            among = context.decided.bound if level is None else None
            found = FreeableCapacity(context, self._pool, self._pool.below(level or context.tree.root), among)
            self._freeable[level] = found
        return found

    def _record_preemption(
        self, context: SchedulingContext, transaction: Transaction, takers: dict[JobNode, None]
    ) -> None:
        self.committed += 1
        if context.order.has_targets and not lowers_shortfall(transaction, context.state.capacity):
            self.without_gain += 1
        for job in {gone.task.job: None for gone in transaction.evictions}:
            assert job is not None
            takers.pop(context.tree.jobs[job.key], None)  # it has just had to give
        for index in transaction.changed_nodes():
            for freeable in self._freeable.values():
                freeable.refresh(index)

    def may_preempt(self, context: SchedulingContext, leaf: JobNode) -> bool:
        """Whether no plugin is against it."""
        return not self.across_queues or context.policy.may_take(leaf, leaf.unit) is None

    def rule_for(self, context: SchedulingContext, leaf: JobNode) -> PreemptionRule:
        """Who says what others may lose to a taker."""
        unit, policy = leaf.unit, context.policy
        return context.order.preemption_rule(
            leaf,
            unit.ask,
            lambda: scarce_everywhere(context.nodes, unit),
            by_share=policy.jobs_by_share,
            by_class=policy.consent.classes,
        )

    def search_levels(self, leaf: JobNode) -> list[ShareNode]:
        """The nodes of the tree below which victims are looked for, nearest first."""
        queue = leaf.queue
        levels: list[ShareNode] = []
        node: ShareNode | None = queue.parent if self.across_queues else leaf.parent
        while node is not None and (self.across_queues or node.kind is NodeKind.NAMESPACE or node is queue):
            levels.append(node)
            node = node.parent if self.across_queues or node is not queue else None
        return levels


def _preempts(context: SchedulingContext, leaf: JobNode) -> bool:
    """Whether all of a job's next unit may have others go (preemptionPolicy)."""
    return all(context.state.task_preempts(task.spec) for task in unit_tasks(leaf, leaf.unit))
