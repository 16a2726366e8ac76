"""Preemptors: jobs whose next unit fits nowhere and that may evict others to start (docs/fairness.md, section 9.1).

The serving order of the share tree also decides which preemptor is next. Its unit is tried as a whole, in one
transaction: each task is pipelined to a node, evicting victims where necessary. No task is evicted unless the entire
unit can start. The victims still occupy the capacity, so the unit's tasks wait on their nodes until it is freed (see
``pipelined_tasks``).

A job must have been starved for some time before it preempts, and tasks that have just started are protected (see
``cooldown``). A failed attempt is not repeated until the cluster changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pumice.engine.candidates.units import AllocationUnit, Parts, unit_tasks
from pumice.engine.checkpoint.engine_checkpoint import PreemptorsCheckpoint
from pumice.engine.fairness.preemption_rules.rules import PreemptionRule, equality
from pumice.engine.fairness.preemption_rules.task_rights import holds_more
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.engine.preemption.cooldown import PreemptionCooldown
from pumice.engine.preemption.eviction_plan import lowers_shortfall, plan_evictions
from pumice.engine.preemption.eviction_reason import EvictionReason, sibling_keys
from pumice.engine.preemption.exchange import ExchangeRule, exchange_units, groups_above, jobs_instead, shortfalls
from pumice.engine.preemption.freeable_capacity import INFEASIBLE, FreeableCapacity
from pumice.engine.preemption.next_rounding import are_all_alike, rounding_undoes
from pumice.engine.preemption.preemptible_tasks import PreemptibleTasks
from pumice.engine.preemption.scarce_resources import scarce_everywhere
from pumice.engine.preemption.shared_gang_victims import evict_shared_gang
from pumice.engine.preemption.victim_search import VictimSearch
from pumice.engine.state.job import Job
from pumice.engine.transaction import Transaction

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext

CONFIRMATION = 1_000_000
"""How long a job that is starved waits for bindings to be confirmed (microseconds).

That takes milliseconds. Without waiting for it, they would decide which task is evicted.
"""

Attempt = tuple[AllocationUnit, ShareNode | None, str]


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """When an attempt to preempt for a unit failed, and the time at which it may succeed without any other change."""

    moves: int
    until: int | None


class Preemptors:
    """The preemptors of one action: how long each has been starved, and which attempts failed."""

    def __init__(self, action: str, cooldown: PreemptionCooldown, *, across: bool) -> None:
        self.action = action
        self.cooldown = cooldown
        self.across_queues = across  # between queues (reclaim), or inside one (preempt)
        self.committed = 0  # number of committed preemptions
        self.exchanged = 0  # of these, exchanges
        self.without_gain = 0  # of these, the ones that did not lower the sum of shortfalls: must stay 0
        self._since: dict[JobNode, int] = {}
        self._lost: dict[JobNode, int] = {}  # jobs that lost a task, and the version of the targets at that time
        self._pool: PreemptibleTasks
        self._all_alike: bool | None = None  # whether all tasks of the cluster are; None: not known in this action
        self._has_all_running = False  # whether the pool has all running tasks, as exchanges need it
        self._awaits_bindings = False  # whether a binding is not confirmed whose task might make way then
        # By the level below which victims are searched; None: only tasks bound in this cycle.
        self._freeable: dict[ShareNode | None, FreeableCapacity] = {}
        self._failed_attempts: dict[Attempt, FailedAttempt] = {}

    def checkpoint(self) -> PreemptorsCheckpoint:
        """The state that a checkpoint keeps."""
        return PreemptorsCheckpoint(
            {leaf.name: since for leaf, since in self._since.items()},
            self.committed,
            self.without_gain,
            {leaf.name: version for leaf, version in self._lost.items()},
        )

    def restore(self, memory: PreemptorsCheckpoint, tree: ShareTree) -> None:
        """Continue from a checkpoint, so that a restart does not reset the time a job has been starved."""
        self.committed, self.without_gain = memory.committed, memory.without_gain
        self._since = {tree.jobs[job]: since for job, since in memory.since.items() if job in tree.jobs}
        self._lost = {tree.jobs[job]: version for job, version in memory.lost.items() if job in tree.jobs}

    def run(self, context: SchedulingContext) -> None:
        """Serve the preemptors in order until no further attempt can succeed."""
        if self.across_queues and not context.policy.consent.queues:
            self._since.clear()
            return
        preemptors = self._starved_long_enough(context)
        if not preemptors:
            return
        starved, committed = list(preemptors), self.committed
        self._all_alike = None
        context.nodes.find_freeing()
        self._pool = PreemptibleTasks(context, self._possible_victims(context), self.cooldown.min_runtime)
        self._has_all_running = False
        self._freeable.clear()
        self._drop_infeasible(context, preemptors)
        self._serve(context, preemptors)
        if self.across_queues and self.committed == committed and context.order.has_targets:
            self._last_resort(context, starved)

    def _serve(self, context: SchedulingContext, preemptors: dict[JobNode, None]) -> None:
        order, candidates = context.order, context.candidates
        passed_over: list[JobNode] = []
        for preemptor in preemptors:
            order.set_candidate(preemptor, preemptor.unit.ask, True)
        while preemptors and (leaf := order.next_job()) is not None:
            if leaf not in preemptors:  # it fits without evictions; allocate will serve it
                passed_over.append(leaf)
                order.set_candidate(leaf, leaf.unit.ask, False)
            elif (
                self._is_starved(context, leaf)
                and self._try_preempt(context, leaf, preemptors)
                and leaf.unit is not None
            ):
                order.set_candidate(leaf, leaf.unit.ask, True)
            else:
                del preemptors[leaf]
                candidates.offer_again(leaf)
        for other in (*preemptors, *passed_over):
            candidates.offer_again(other)

    def waits_for_cooldown(self, now: int) -> bool:
        """Whether a preemptor becomes eligible later than now without any other event."""
        return self.next_change_at(now) is not None

    def next_change_at(self, now: int) -> int | None:
        """The first time later than now at which a preemptor becomes eligible without any other event."""
        if not self._since and not self._failed_attempts:
            return None
        patient = (since + self.cooldown.patience for since in self._since.values())
        ripe = (tried.until for tried in self._failed_attempts.values() if tried.until is not None)
        return min((time for time in (*patient, *ripe) if time > now), default=None)

    def eligible_at(self, leaf: JobNode) -> int | None:
        """When a job may start to preempt; None if it was not starved in the last cycle."""
        return self._since[leaf] + self.cooldown.patience if leaf in self._since else None

    # --- choosing preemptors ----------------------------------------------------------------------------------------

    def _possible_victims(self, context: SchedulingContext) -> list[JobNode]:
        """Jobs that may have to give up tasks: those above their integer target, and peers that may trade with them.

        Best-effort tasks are charged to no share. Their jobs are never above a target, yet may occupy a pod slot.
        """
        leaves = self._running(context)
        self._awaits_bindings = any(leaf.job.running > leaf.job.shown for leaf in leaves)
        if not context.order.has_targets:
            return leaves
        beyond = {leaf for leaf in leaves if holds_more(leaf)}
        traders = {equality(leaf) for leaf in beyond if leaf.demand.alike and leaf.gang <= 1}
        parents = {parent for parent, _, _ in traders}
        return [
            leaf
            for leaf in leaves
            if leaf in beyond
            or (leaf.parent in parents and equality(leaf) in traders)
            or not all(shape.ask for shape in (*leaf.job.placed, *leaf.job.pending))
        ]

    def _running(self, context: SchedulingContext) -> list[JobNode]:
        """The jobs that run and whose queue may lose tasks to this action."""
        running = [leaf for leaf in context.tree.jobs.values() if leaf.job.running]
        if not self.across_queues:
            return running
        asked: dict[ShareNode | None, bool] = {}  # by parent
        for leaf in running:
            if leaf.parent not in asked:
                queue = context.sync.queue_of(leaf.queue)
                asked[leaf.parent] = queue is None or queue.reclaimable
        return [leaf for leaf in running if asked[leaf.parent]]

    def _drop_infeasible(self, context: SchedulingContext, preemptors: dict[JobNode, None]) -> None:
        """Drop the preemptors that would fit on no node even if every preemptible task were evicted."""
        known: dict[tuple[AllocationUnit, ShareNode], bool] = {}
        for leaf in list(preemptors):
            unit: AllocationUnit = leaf.unit
            level = context.tree.root if self.across_queues else leaf.queue
            if (unit, level) not in known:
                known[unit, level] = self._is_infeasible(context, unit, level)
            if known[unit, level]:
                del preemptors[leaf]
                self._failed_attempts[self._key(context, leaf)] = FailedAttempt(
                    context.changes.version, self._pool.next_eligible_at
                )

    def _is_infeasible(self, context: SchedulingContext, unit: AllocationUnit, level: ShareNode) -> bool:
        if context.candidates.is_open(unit):
            return not self._pool.below(level)  # a limit rejects the unit: freeing quota takes a victim
        shapes = [
            shape for shape, _ in unit.parts if not shape.coupled and shape in context.candidates.infeasible_shapes
        ]
        if not self._pool.below(level) and not context.nodes.freeing:
            return True
        freeable = self._freeable_below(context, level)
        return any(not (freeable.victims_for(shape) < INFEASIBLE).any() for shape in shapes)

    def _starved_long_enough(self, context: SchedulingContext) -> dict[JobNode, None]:
        """The jobs that have been starved for at least ``patience``."""
        now, candidates = context.now, context.candidates
        may_be_owed = context.order.may_be_owed()
        stuck = [
            leaf
            for unit in candidates.units
            for leaf in unit.waiting
            if (may_be_owed is None or leaf in may_be_owed) and self._is_starved(context, leaf)
        ]
        self._since = {leaf: self._since.get(leaf, now) for leaf in stuck}
        self._failed_attempts = {
            key: tried for key, tried in self._failed_attempts.items() if self._still_fails(tried, context)
        }
        waited = [
            leaf for leaf in stuck if now - self._since[leaf] >= self.cooldown.patience and _preempts(context, leaf)
        ]
        return {leaf: None for leaf in waited if self._key(context, leaf) not in self._failed_attempts}

    def _is_starved(self, context: SchedulingContext, leaf: JobNode) -> bool:
        """Whether a job is owed its next unit, and the unit fits nowhere or a limit rejects it."""
        unit: AllocationUnit | None = leaf.unit
        if (
            unit is None
            or not context.order.is_owed(leaf, unit.ask)
            or not context.candidates.fifo_queues.is_head(leaf)
            or (context.policy.preempts_to_minimum and not self.across_queues and _has_minimum(leaf.job))
        ):
            return False
        return not context.candidates.is_open(unit) or context.policy.allocatable(leaf, unit) is not None

    def _key(self, context: SchedulingContext, leaf: JobNode) -> Attempt:
        """Preemptors with equal keys succeed or fail alike. Inside a queue a job's own key may count."""
        if self.across_queues:
            return leaf.unit, leaf.queue, leaf.user
        alike = context.order.has_targets
        return leaf.unit, leaf.parent, leaf.user if alike else leaf.name

    def _still_fails(self, tried: FailedAttempt, context: SchedulingContext) -> bool:
        return tried.moves == context.changes.version and (tried.until is None or context.now < tried.until)

    # --- preempting ----------------------------------------------------------------------------------------------

    def _try_preempt(self, context: SchedulingContext, leaf: JobNode, preemptors: dict[JobNode, None]) -> bool:
        unit: AllocationUnit = leaf.unit
        key = self._key(context, leaf)
        own_key = unit, leaf.parent, leaf.name
        if not self._failed_attempts.keys().isdisjoint((key, own_key)):
            return False
        if not self.may_preempt(context, leaf) or self._waits(context, leaf):
            return False
        path = context.order.explain() if context.tracing else ()
        judge = self.rule_for(context, leaf)
        hunt = self._search(context, leaf, unit, judge, self.search_levels(leaf))
        before = sibling_keys(judge, leaf) if context.tracing else {}
        transaction = Transaction(context)
        claimed = plan_evictions(context, transaction, hunt, leaf, unit)
        if not claimed and unit.size > 1:
            transaction.discard()
            hunt.pack_tightly = True
            claimed = plan_evictions(context, transaction, hunt, leaf, unit)
        if not claimed:
            transaction.discard()
            together = evict_shared_gang(self, context, leaf, hunt, preemptors)
            if together is not None:
                self._record_preemption(context, together, preemptors)
                return True
            self._failed_attempts[key] = FailedAttempt(context.changes.version, self._pool.next_eligible_at)
            return False
        if self.would_be_undone(context, transaction):
            transaction.discard()
            self._failed_attempts[own_key] = FailedAttempt(context.changes.version, self._pool.next_eligible_at)
            return False
        explain = EvictionReason(self.action, leaf, judge, before)
        transaction.commit(path, explain)
        context.candidates.choose_next_unit(leaf)
        self._record_preemption(context, transaction, preemptors)
        return True

    def _waits(self, context: SchedulingContext, leaf: JobNode) -> bool:
        """Whether a job waits for bindings to be confirmed, since their tasks become preemptible then."""
        if context.now - self._since[leaf] >= CONFIRMATION:
            return False
        return any(self._pool.awaits_binding(level) for level in self.search_levels(leaf))

    def _last_resort(self, context: SchedulingContext, starved: list[JobNode]) -> None:
        """Let one job that no other eviction helps preempt in its own queue as well, or else exchange.

        One at a time: the next rounding sees what has changed.
        """
        if context.nodes.freeing or self._pool.next_eligible_at is not None or self._awaits_bindings:
            return  # evictions under way, or possible soon, come first
        starved = [leaf for leaf in starved if self._is_starved(context, leaf) and self.may_preempt(context, leaf)]
        starved.sort(key=lambda leaf: leaf.rank)
        if not self._preempt_at_home_too(context, starved):
            self._exchange(context, starved)

    def _preempt_at_home_too(self, context: SchedulingContext, starved: list[JobNode]) -> bool:
        """Take a unit from the preemptor's own queue and from others together, where neither alone has enough."""
        if "preempt" not in context.policy.config.actions:
            return False
        tried: set[Attempt] = set()
        for leaf in starved:
            attempt = leaf.unit, leaf.parent, leaf.user
            if attempt not in tried and self._pool.below(leaf.queue) and self._try_at_home_too(context, leaf):
                return True
            tried.add(attempt)
        return False

    def _try_at_home_too(self, context: SchedulingContext, leaf: JobNode) -> bool:
        unit: AllocationUnit = leaf.unit
        judge = self.rule_for(context, leaf)
        before = sibling_keys(judge, leaf) if context.tracing else {}
        levels = [*context.preemptors.search_levels(leaf), *self.search_levels(leaf)]
        transaction = Transaction(context)
        planned = plan_evictions(context, transaction, self._search(context, leaf, unit, judge, levels), leaf, unit)
        if (
            not planned
            or not any(gone.leaf.queue is not leaf.queue for gone in transaction.evictions)
            or self.would_be_undone(context, transaction)
        ):
            transaction.discard()  # what the queue itself can give, preempt takes
            return False
        transaction.commit((), EvictionReason(self.action, leaf, judge, before))
        context.candidates.choose_next_unit(leaf)
        self._record_preemption(context, transaction, {})
        return True

    def _exchange(self, context: SchedulingContext, starved: list[JobNode]) -> None:
        """Let one job take its unit from a group with more to spare, whatever the integer targets are."""
        groups = groups_above(starved)
        short = {leaf: units for leaf in starved if (units := exchange_units(leaf, groups))}
        if self._exchange_for(context, short):
            return
        others = [
            leaf
            for leaf in dict.fromkeys(jobs_instead(context.candidates, groups))
            if leaf not in short and context.candidates.fifo_queues.is_head(leaf) and self.may_preempt(context, leaf)
        ]
        others.sort(key=lambda leaf: (shortfalls(leaf, context.state.capacity), leaf.rank))
        self._exchange_for(context, {leaf: exchange_units(leaf, groups) for leaf in others}, owed=False)

    def _exchange_for(
        self, context: SchedulingContext, short: dict[JobNode, list[AllocationUnit]], *, owed: bool = True
    ) -> bool:
        """Try an exchange for the first of these jobs that can have one of its units; ``owed``: they are owed these."""
        tried: set[tuple[Attempt, Parts]] = set()
        for leaf, units in short.items():
            for unit in units:
                attempt = self._key(context, leaf), unit.runs
                if attempt not in tried and self._try_exchange(context, leaf, unit, owed=owed):
                    return True
                tried.add(attempt)
        return False

    def _try_exchange(self, context: SchedulingContext, leaf: JobNode, unit: AllocationUnit, *, owed: bool) -> bool:
        judge = ExchangeRule(context.state.capacity, leaf, unit.ask, owed=owed)
        levels = self.search_levels(leaf)
        victims = judge.may_find_victims(levels)
        if victims or unit.topology is not None:
            self._collect_all_running(context)
        before = sibling_keys(judge, leaf) if context.tracing else {}
        transaction = Transaction(context)
        search = self._search(context, leaf, unit, judge, levels)
        owed_unit = context.order.is_owed(leaf, unit.ask)
        planned = plan_evictions(context, transaction, search, leaf, unit, victims=victims)
        if planned and not owed_unit and context.reservations is not None:
            planned = context.reservations.stay_idle(context, transaction.changed_nodes())
        if not planned or not transaction.evictions:
            transaction.discard()
            return planned  # without victims it is no exchange: allocate lends idle capacity
        self.committed += 1
        self.exchanged += 1
        transaction.commit((), EvictionReason(self.action, leaf, judge, before))
        context.candidates.choose_next_unit(leaf)
        return True

    def _collect_all_running(self, context: SchedulingContext) -> None:
        """Let exchanges search all running tasks for victims: their rule ignores integer targets.

        The exchanges of a cycle share the collection: failed ones change nothing, and the first to succeed is the last.
        """
        if not self._has_all_running:
            self._has_all_running = True
            self._pool = PreemptibleTasks(context, self._running(context), self.cooldown.min_runtime)
            self._freeable.clear()

    def _search(
        self,
        context: SchedulingContext,
        leaf: JobNode,
        unit: AllocationUnit,
        judge: PreemptionRule,
        levels: list[ShareNode],
    ) -> VictimSearch:
        return VictimSearch(
            context,
            leaf,
            unit,
            judge,
            levels,
            self._pool,
            lambda level: self._freeable_below(context, level),
            across=self.across_queues,
            max_lost_work=self.cooldown.max_lost_work,
        )

    def _freeable_below(self, context: SchedulingContext, level: ShareNode | None) -> FreeableCapacity:
        """What evictions below a level could free; None: what withdrawing bindings of this cycle could free."""
        found = self._freeable.get(level)
        if found is None:
            among = context.decided.bound if level is None else None
            found = FreeableCapacity(context, self._pool, self._pool.below(level or context.tree.root), among)
            self._freeable[level] = found
        return found

    def _record_preemption(
        self, context: SchedulingContext, transaction: Transaction, preemptors: dict[JobNode, None]
    ) -> None:
        self.committed += 1
        if context.order.has_targets and not lowers_shortfall(transaction, context.state.capacity):
            self.without_gain += 1
        for job in {gone.task.job: None for gone in transaction.evictions}:
            assert job is not None
            leaf = context.tree.jobs[job.key]
            preemptors.pop(leaf, None)  # it has just lost a task
            if not context.order.victims_may_reclaim:
                context.reclaimers.note_loss(leaf, context.changes.target_version)
        for index in transaction.changed_nodes():
            for freeable in self._freeable.values():
                freeable.refresh(index)

    def would_be_undone(self, context: SchedulingContext, transaction: Transaction) -> bool:
        """Whether the next rounding would undo evictions."""
        if self._all_alike is None:
            self._all_alike = are_all_alike(context.tree.jobs)
        return not self._all_alike and rounding_undoes(context, transaction)

    def note_loss(self, leaf: JobNode, version: int) -> None:
        """Record that a job lost a task; losses before the last change of the targets no longer count."""
        self._lost = {other: lost for other, lost in self._lost.items() if lost == version}
        self._lost[leaf] = version

    def may_preempt(self, context: SchedulingContext, leaf: JobNode) -> bool:
        """Whether no plugin forbids this job to preempt, and no loss bars it from reclaiming."""
        if not self.across_queues:
            return True
        return not self.is_barred(context, leaf) and context.policy.preemptive(leaf, leaf.unit) is None

    def is_barred(self, context: SchedulingContext, leaf: JobNode) -> bool:
        """Whether a job lost a task since the targets last changed, under an order where it then reclaims nothing."""
        return self._lost.get(leaf) == context.changes.target_version

    def rule_for(self, context: SchedulingContext, leaf: JobNode) -> PreemptionRule:
        """The rule that decides what other jobs may lose to this preemptor."""
        unit, policy = leaf.unit, context.policy
        return context.order.preemption_rule(
            leaf,
            unit.ask,
            lambda: scarce_everywhere(context.nodes, unit),
            by_share=policy.jobs_by_share,
            by_class=policy.consent.classes,
        )

    def search_levels(self, leaf: JobNode) -> list[ShareNode]:
        """The nodes of the share tree below which victims are searched, nearest first."""
        queue = leaf.queue
        levels: list[ShareNode] = []
        node: ShareNode | None = queue.parent if self.across_queues else leaf.parent
        while node is not None and (self.across_queues or node.kind is NodeKind.NAMESPACE or node is queue):
            levels.append(node)
            node = node.parent if self.across_queues or node is not queue else None
        return levels


def _has_minimum(job: Job) -> bool:
    """Whether the minMember of a job is placed or has succeeded; the minimums of its roles do not count."""
    return job.spec is not None and job.running + job.succeeded >= job.spec.min_member


def _preempts(context: SchedulingContext, leaf: JobNode) -> bool:
    """Whether every task of a job's next unit may preempt (preemptionPolicy)."""
    return all(context.state.task_preempts(task.spec) for task in unit_tasks(leaf, leaf.unit))
