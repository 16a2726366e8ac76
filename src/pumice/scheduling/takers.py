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

from pumice.fairness.deserved import DeservedOrder
from pumice.fairness.deserved_taking import ByDeserved
from pumice.fairness.paper import PaperOrder
from pumice.fairness.paper_taking import ByRescaledShares
from pumice.fairness.steer import SteerOrder
from pumice.fairness.taking import ByKeys, ByTarget, Judge, equality
from pumice.fairness.tree import JobNode, Kind, ShareNode, ShareTree
from pumice.scheduling.brakes import Brakes
from pumice.scheduling.claims import claim, lowers_the_shortfall
from pumice.scheduling.explanation import Explanation, keys_beside
from pumice.scheduling.freeable import HOPELESS, Freeable
from pumice.scheduling.memory import TakersMemory
from pumice.scheduling.pool import Pool
from pumice.scheduling.scarce import scarce_everywhere
from pumice.scheduling.together import take_together
from pumice.scheduling.transaction import Transaction
from pumice.scheduling.units import Unit, unit_tasks
from pumice.scheduling.victims import Hunt

if TYPE_CHECKING:
    from pumice.scheduling.engine import Engine

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

    def serve(self, engine: Engine) -> None:
        """Let every taker have its turn, until none is left that can be helped."""
        if self.across and not engine.policy.consent.queues:
            self._since.clear()
            return
        takers = self._patient(engine)
        if not takers:
            return
        engine.nodes.find_freeing()
        self._pool = Pool(engine, self._might_lose(engine), self.brakes.min_runtime)
        self._freeable.clear()
        self._drop_hopeless(engine, takers)
        order, candidates = engine.order, engine.candidates
        passed_over: list[JobNode] = []
        for taker in takers:
            order.offer(taker, taker.unit.ask, True)
        while takers and (leaf := order.pick()) is not None:
            if leaf not in takers:  # it finds room without this; allocate will serve it
                passed_over.append(leaf)
                order.offer(leaf, leaf.unit.ask, False)
            elif self._stuck(engine, leaf) and self._take(engine, leaf, takers) and leaf.unit is not None:
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

    def _might_lose(self, engine: Engine) -> list[JobNode]:
        """The jobs that may have to let tasks go: those beyond their part, and their equals, who may trade with them.

        What asks for nothing is nobody's part: it is never beyond it, and may be in the way.
        """
        leaves = [leaf for leaf in engine.tree.jobs.values() if leaf.job.running and self._may_be_asked(engine, leaf)]
        if not isinstance(engine.order, SteerOrder):
            return leaves
        beyond = {leaf for leaf in leaves if any(h > w for h, w in zip(leaf.held, leaf.whole, strict=True))}
        traders = {equality(leaf) for leaf in beyond if leaf.demand.alike and leaf.gang <= 1}
        return [
            leaf
            for leaf in leaves
            if leaf in beyond or equality(leaf) in traders or any(not shape.ask for shape in leaf.job.unfinished)
        ]

    def _may_be_asked(self, engine: Engine, leaf: JobNode) -> bool:
        queue = engine.queue_of(leaf.queue) if self.across else None
        return queue is None or queue.reclaimable

    def _drop_hopeless(self, engine: Engine, takers: dict[JobNode, None]) -> None:
        """Those for whom no node would have room even if everybody went who might need not be looked at any further."""
        known: dict[tuple[Unit, ShareNode], bool] = {}
        for leaf in list(takers):
            unit: Unit = leaf.unit
            level = engine.tree.root if self.across else leaf.queue
            if (unit, level) not in known:
                known[unit, level] = self._is_hopeless(engine, unit, level)
            if known[unit, level]:
                del takers[leaf]
                self._in_vain[self._key(engine, leaf)] = InVain(engine.moves, self._pool.ripens)

    def _is_hopeless(self, engine: Engine, unit: Unit, level: ShareNode) -> bool:
        if engine.candidates.is_open(unit):
            return not self._pool.below(level)  # a limit is in the way: somebody must go
        shapes = [shape for shape, _ in unit.parts if not shape.coupled and shape in engine.candidates.full]
        if not self._pool.below(level) and not engine.nodes.freeing:
            return True
        freeable = self._freeable_below(engine, level)
        return any(not (freeable.victims_for(shape) < HOPELESS).any() for shape in shapes)

    def _patient(self, engine: Engine) -> dict[JobNode, None]:
        """The jobs that have found no room for long enough."""
        now, candidates = engine.now, engine.candidates
        stuck = [leaf for unit in candidates.units for leaf in unit.waiting if self._stuck(engine, leaf)]
        self._since = {leaf: self._since.get(leaf, now) for leaf in stuck}
        self._in_vain = {key: tried for key, tried in self._in_vain.items() if self._still_in_vain(tried, engine)}
        waited = [leaf for leaf in stuck if now - self._since[leaf] >= self.brakes.patience and _preempts(engine, leaf)]
        return {leaf: None for leaf in waited if self._key(engine, leaf) not in self._in_vain}

    def _stuck(self, engine: Engine, leaf: JobNode) -> bool:
        """Whether a job has a unit within its part that finds no room, or that a limit keeps out."""
        unit: Unit | None = leaf.unit
        if unit is None or not engine.order.owes(leaf, unit.ask) or not engine.candidates.lines.is_head(leaf):
            return False
        return not engine.candidates.is_open(unit) or engine.policy.allocatable(leaf, unit) is not None

    def _key(self, engine: Engine, leaf: JobNode) -> Attempt:
        """Takers with equal keys are helped or not alike. Inside a queue keys of jobs may count: each is on its own."""
        if self.across:
            return leaf.unit, leaf.queue, leaf.user
        alike = isinstance(engine.order, SteerOrder)
        return leaf.unit, leaf.parent, leaf.user if alike else leaf.name

    def _still_in_vain(self, tried: InVain, engine: Engine) -> bool:
        return tried.moves == engine.moves and (tried.until is None or engine.now < tried.until)

    # --- how ----------------------------------------------------------------------------------------------------

    def _take(self, engine: Engine, leaf: JobNode, takers: dict[JobNode, None]) -> bool:
        unit: Unit = leaf.unit
        key = self._key(engine, leaf)
        if key in self._in_vain or not self.may_take(engine, leaf):
            return False
        path = engine.order.explain() if engine.tracing else ()
        judge = self.judge(engine, leaf)
        hunt = Hunt(
            engine,
            leaf,
            unit,
            judge,
            self.levels(leaf),
            self._pool,
            lambda level: self._freeable_below(engine, level),
            across=self.across,
        )
        before = keys_beside(judge, leaf) if engine.tracing else {}
        transaction = Transaction(engine)
        claimed = claim(engine, transaction, hunt, leaf, unit)
        if not claimed and unit.size > 1:
            transaction.discard()
            hunt.closely = True
            claimed = claim(engine, transaction, hunt, leaf, unit)
        if not claimed:
            transaction.discard()
            together = take_together(self, engine, leaf, hunt, takers)
            if together is not None:
                self._took(engine, together, takers)
                return True
            self._in_vain[key] = InVain(engine.moves, self._pool.ripens)
            return False
        explain = Explanation(self.action, leaf, judge, before)
        transaction.commit(path, explain)
        engine.candidates.advance(leaf)
        self._took(engine, transaction, takers)
        return True

    def _freeable_below(self, engine: Engine, level: ShareNode | None) -> Freeable:
        """What could be freed by those below a level; None: by those who got their place in this cycle."""
        found = self._freeable.get(level)
        if found is None:
            among = engine.just_bound if level is None else None
            found = Freeable(engine, self._pool, self._pool.below(level or engine.tree.root), among)
            self._freeable[level] = found
        return found

    def _took(self, engine: Engine, transaction: Transaction, takers: dict[JobNode, None]) -> None:
        self.committed += 1
        if isinstance(engine.order, SteerOrder) and not lowers_the_shortfall(transaction, engine.state.capacity):
            self.without_gain += 1
        for job in {gone.task.job: None for gone in transaction.evicted}:
            assert job is not None
            takers.pop(engine.tree.jobs[job.key], None)  # it has just had to give
        engine.took(transaction.evicted)
        for index in transaction.touched():
            for freeable in self._freeable.values():
                freeable.refresh(index)

    def may_take(self, engine: Engine, leaf: JobNode) -> bool:
        """Whether no plugin is against it."""
        return not self.across or engine.policy.may_take(leaf, leaf.unit) is None

    def judge(self, engine: Engine, leaf: JobNode) -> Judge:
        """Who says what others may lose to a taker."""
        order, ask = engine.order, leaf.unit.ask
        if isinstance(order, SteerOrder):
            return ByTarget(order, ask)
        by_share, by_class = engine.policy.jobs_by_share, engine.policy.consent.classes
        if isinstance(order, PaperOrder):
            return ByRescaledShares(order, leaf, ask, by_share=by_share, by_class=by_class)
        if isinstance(order, DeservedOrder) and order.by_weight:
            return ByDeserved(order, leaf, ask, by_share=by_share, by_class=by_class)
        if isinstance(order, DeservedOrder):
            ask = scarce_everywhere(engine.nodes, leaf.unit)
        return ByKeys(order, leaf, ask, by_share=by_share, by_class=by_class)

    def levels(self, leaf: JobNode) -> list[ShareNode]:
        """The nodes of the tree below which victims are looked for, nearest first."""
        queue = leaf.queue
        levels: list[ShareNode] = []
        node: ShareNode | None = queue.parent if self.across else leaf.parent
        while node is not None and (self.across or node.kind is Kind.NAMESPACE or node is queue):
            levels.append(node)
            node = node.parent if self.across or node is not queue else None
        return levels


def _preempts(engine: Engine, leaf: JobNode) -> bool:
    """Whether all of a job's next unit may have others go (preemptionPolicy)."""
    return all(engine.state.task_preempts(task.spec) for task in unit_tasks(leaf, leaf.unit))
