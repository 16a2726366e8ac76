"""Takers: jobs that find no room, and may have others go to start (fairness.md 9).

The order that serves the tree also says whose turn it is to take. A taker's unit is tried whole, in a transaction:
each of its tasks gets a claim on a node, and where that takes victims, they go. Nobody goes unless all of the unit
starts. What it starts in is still occupied, so its tasks wait on their nodes (see ``pipelined``).

A job must have found no room for a while, and who has only just started is spared (see ``brakes``). What could not be
helped is not looked at again until something moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pumice.fairness.order import part_of
from pumice.fairness.steer import SteerOrder
from pumice.fairness.taking import ByKeys, ByTarget, Judge, equality, parting
from pumice.fairness.tree import JobNode, Kind, ShareNode
from pumice.model.accounts import Task
from pumice.scheduling.arrange import arrange
from pumice.scheduling.brakes import Brakes
from pumice.scheduling.decisions import Evict, Sides
from pumice.scheduling.freeable import Freeable
from pumice.scheduling.transaction import Departure, Transaction
from pumice.scheduling.units import Unit, unit_tasks
from pumice.scheduling.victims import Hunt, Victims, enough_is_left, spare

if TYPE_CHECKING:
    from pumice.scheduling.engine import Engine


MOST_TO_ARRANGE = 32
"""Larger units keep the nodes that were found for them, task by task."""

Attempt = tuple[Unit, ShareNode, str]


@dataclass(frozen=True, slots=True)
class InVain:
    """When a unit was tried in vain, and whether time alone may help."""

    moves: int
    too_young: bool


class Takers:
    """Who takes, by one action: since when each has found no room, and what was tried in vain."""

    def __init__(self, action: str, brakes: Brakes, *, across: bool) -> None:
        self.action = action
        self.brakes = brakes
        self.across = across  # between queues (reclaim), or inside one (preempt)
        self._since: dict[JobNode, int] = {}
        self._losing: list[JobNode] = []
        # By the level below which victims are looked for; None: of those who got their place in this cycle.
        self._freeable: dict[ShareNode | None, Freeable] = {}
        self._in_vain: dict[tuple[Unit, ShareNode, str], InVain] = {}

    def serve(self, engine: Engine) -> None:
        """Let every taker have its turn, until none is left that can be helped."""
        takers = self._patient(engine)
        if not takers:
            return
        engine.nodes.find_freeing()
        self._losing = self._might_lose(engine)
        self._freeable.clear()
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

    # --- who --------------------------------------------------------------------------------------------------------

    def _might_lose(self, engine: Engine) -> list[JobNode]:
        """The jobs that may have to let tasks go: those beyond their part, and their equals, who may trade with them.

        What asks for nothing is nobody's part: it is never beyond it, and may be in the way.
        """
        leaves = [leaf for leaf in engine.tree.jobs.values() if leaf.job.running]
        if not isinstance(engine.order, SteerOrder):
            return leaves
        beyond = {leaf for leaf in leaves if any(h > w for h, w in zip(leaf.held, leaf.whole, strict=True))}
        traders = {equality(leaf) for leaf in beyond if leaf.demand.alike and leaf.gang <= 1}
        return [
            leaf
            for leaf in leaves
            if leaf in beyond or equality(leaf) in traders or any(not shape.ask for shape in leaf.job.unfinished)
        ]

    def _patient(self, engine: Engine) -> dict[JobNode, None]:
        """The jobs that have found no room for long enough."""
        now, candidates = engine.now, engine.candidates
        stuck = [leaf for unit in candidates.units for leaf in unit.waiting if self._stuck(engine, leaf)]
        self._since = {leaf: self._since.get(leaf, now) for leaf in stuck}
        self._in_vain = {key: tried for key, tried in self._in_vain.items() if self._still_in_vain(tried, engine)}
        waited = [leaf for leaf in stuck if now - self._since[leaf] >= self.brakes.patience]
        return {leaf: None for leaf in waited if self._key(leaf) not in self._in_vain}

    def _stuck(self, engine: Engine, leaf: JobNode) -> bool:
        """Whether a job has a unit within its part that finds no room, or that a limit keeps out."""
        unit: Unit | None = leaf.unit
        if unit is None or not engine.order.owes(leaf, unit.ask):
            return False
        return not engine.candidates.is_open(unit) or engine.policy.allocatable(leaf, unit) is not None

    def _key(self, leaf: JobNode) -> Attempt:
        """Takers with equal keys are helped or not alike (inside a queue each is on its own)."""
        return leaf.unit, leaf.queue, leaf.user if self.across else leaf.name

    def _still_in_vain(self, tried: InVain, engine: Engine) -> bool:
        return tried.moves == engine.moves and not tried.too_young

    # --- how ----------------------------------------------------------------------------------------------------

    def _take(self, engine: Engine, leaf: JobNode, takers: dict[JobNode, None]) -> bool:
        unit: Unit = leaf.unit
        key = self._key(leaf)
        if key in self._in_vain or not self._may_take(engine, leaf):
            return False
        path = engine.order.explain() if engine.tracing else ()
        judge = self._judge(engine, leaf)
        hunt = Hunt(
            engine,
            leaf,
            unit,
            judge,
            self.levels(leaf),
            lambda level: self._freeable_below(engine, level),
            across=self.across,
            min_runtime=self.brakes.min_runtime,
        )
        before = _keys(judge, leaf) if engine.tracing else {}
        transaction = Transaction(engine)
        claimed = claim(engine, transaction, hunt, leaf, unit)
        if not claimed and unit.size > 1:
            transaction.discard()
            hunt.closely = True
            claimed = claim(engine, transaction, hunt, leaf, unit)
        if not claimed:
            transaction.discard()
            if self._take_together(engine, leaf, hunt, takers):
                return True
            self._in_vain[key] = InVain(engine.moves, hunt.too_young)
            return False
        explain = _Explanation(self.action, leaf, judge, before, engine)
        transaction.commit(path, explain)
        engine.candidates.advance(leaf)
        self._took(engine, transaction, takers)
        return True

    def _freeable_below(self, engine: Engine, level: ShareNode | None) -> Freeable:
        """What could be freed by those below a level; None: by those who got their place in this cycle."""
        found = self._freeable.get(level)
        if found is None:
            if level is None:
                found = Freeable(engine, self._losing, among=engine.just_bound)
            else:
                found = Freeable(engine, [leaf for leaf in self._losing if _is_below(leaf, level)])
            self._freeable[level] = found
        return found

    def _took(self, engine: Engine, transaction: Transaction, takers: dict[JobNode, None]) -> None:
        for job in {gone.task.job: None for gone in transaction.evicted}:
            assert job is not None
            takers.pop(engine.tree.jobs[job.key], None)  # it has just had to give
        engine.took(transaction.evicted)
        for index in transaction.touched():
            for freeable in self._freeable.values():
                freeable.refresh(index)

    def _take_together(self, engine: Engine, leaf: JobNode, hunt: Hunt, takers: dict[JobNode, None]) -> bool:
        """A gang in the way is too large for one taker; let it go if several fill at least half of its room."""
        for gang, size in list(hunt.gangs_spared.items()):
            before = _keys(hunt.judge, leaf) if engine.tracing else {}
            outer = Transaction(engine)
            hunt.allowed_gang = gang
            started, filled = self._fill(engine, leaf, hunt, takers, outer, size / 2)
            if filled * 2 >= size and outer.evicted:
                outer.commit((), _Explanation(self.action, leaf, hunt.judge, before, engine))
                for taker in started:
                    engine.candidates.advance(taker)
                self._took(engine, outer, takers)
                return True
            outer.discard()
        hunt.allowed_gang = None
        return False

    def _fill(
        self,
        engine: Engine,
        leaf: JobNode,
        hunt: Hunt,
        takers: dict[JobNode, None],
        outer: Transaction,
        enough: float,
    ) -> tuple[dict[JobNode, None], float]:
        """Claims for one taker after another, with no further victims after the first; who, and how much in all."""
        order, capacity = engine.order, engine.state.capacity
        started: dict[JobNode, None] = {}
        filled, first = 0.0, True
        taker: JobNode | None = leaf
        full: list[JobNode] = []
        while taker is not None and filled < enough:
            inner = Transaction(engine, outer)
            again = taker not in started or taker.unit.size == 1
            lost = {gone.task.job for gone in outer.evicted}
            waits = (
                taker in takers
                and taker.job not in lost
                and again
                and self._waits(engine, taker)
                and self._may_take(engine, taker)
            )
            judge = hunt.judge if taker is leaf else self._judge(engine, taker)
            fits = waits and claim(engine, inner, hunt, taker, taker.unit, victims=first)
            fits = fits and agree(engine, judge, inner.departures()) and agree(engine, hunt.judge, inner.departures())
            if fits:
                inner.commit()
                started[taker] = None
                filled += part_of(taker.unit.ask, capacity)
            else:
                inner.discard()
                if first:
                    break
                full.append(taker)
                order.offer(taker, taker.unit.ask, False)
            first = False
            taker = order.pick()
        for other in full:
            order.offer(other, other.unit.ask, True)
        return started, filled

    def _waits(self, engine: Engine, leaf: JobNode) -> bool:
        """Whether a job has a unit left, within its part."""
        unit, pending = leaf.unit, leaf.job.pending
        return engine.order.owes(leaf, unit.ask) and all(len(pending.get(s, ())) >= n for s, n in unit.parts)

    def _may_take(self, engine: Engine, leaf: JobNode) -> bool:
        """Whether no plugin is against it, and no limit of its own queue: others leaving would not lift that."""
        if not self.across:
            return True
        queue = leaf.queue
        if queue.ceiling is not None and any(queue.held[j] + n > queue.ceiling[j] for j, n in leaf.unit.ask):
            return False
        return engine.policy.may_take(leaf, leaf.unit) is None

    def _judge(self, engine: Engine, leaf: JobNode) -> Judge:
        order = engine.order
        if isinstance(order, SteerOrder):
            return ByTarget(order, leaf.unit.ask)
        return ByKeys(order, leaf, leaf.unit.ask, jobs_by_share=engine.policy.jobs_by_share)

    def levels(self, leaf: JobNode) -> list[ShareNode]:
        """The nodes of the tree below which victims are looked for, nearest first."""
        queue = leaf.queue
        levels: list[ShareNode] = []
        node: ShareNode | None = queue.parent if self.across else leaf.parent
        while node is not None and (self.across or node.kind is Kind.NAMESPACE or node is queue):
            levels.append(node)
            node = node.parent if self.across or node is not queue else None
        return levels


def claim(
    engine: Engine, transaction: Transaction, hunt: Hunt, leaf: JobNode, unit: Unit, *, victims: bool = True
) -> bool:
    """Give every task of a unit a claim on a node, letting go whoever is in the way; False: there is no way."""
    stamp = engine.next_stamp()
    owed = engine.order.owes(leaf, unit.ask)
    tasks = unit_tasks(leaf, unit)
    if not all(engine.state.task_preempts(task.spec) for task in tasks):
        return False

    def refused() -> bool:
        if not unit.ask:  # a place is nobody's part: limits do not count it
            return False
        return transaction.uncharged(lambda: engine.policy.allocatable(leaf, unit) is not None)

    transaction.charge(leaf, unit.ask, stamp, unit.size, owed)
    gone: list[Victims] = []
    for task in tasks:
        found = hunt.find(task.shape, transaction, victims=victims)
        if found is None:
            return False
        index, here = found
        for together in here:
            hunt.let_go(together, transaction)
        gone += here
        transaction.pipeline(task, index, stamp, owed)
    if refused():
        lifted = hunt.lift(refused, transaction) if victims else None
        if lifted is None:
            return False
        gone += lifted
    if len(gone) > 1:
        _leave_in_peace(engine, transaction, hunt, gone, tasks, refused)
    return agree(engine, hunt.judge, transaction.evicted)


def agree(engine: Engine, judge: Judge, departures: Iterable[Departure]) -> bool:
    """Whether it is right, all in all, that they went. One after another they were; together they may not be."""
    jobs = engine.tree.jobs
    return all(judge.agrees(jobs[gone.task.job.key], gone.task.shape.ask) for gone in departures if gone.task.job)


def _leave_in_peace(
    engine: Engine,
    transaction: Transaction,
    hunt: Hunt,
    gone: list[Victims],
    tasks: list[Task],
    refused: Callable[[], bool],
) -> None:
    """Spare whoever is not needed after all, now that every task of the unit has its place."""
    coupled = [task for task in tasks if task.shape.coupled]
    for victims in reversed(gone):
        spare(victims, transaction)
        moved: list[tuple[Task, int]] = []
        needed = (
            any(not enough_is_left(engine, task.job) for task in victims)
            or refused()
            or not _make_do(engine, transaction, tasks, moved)
            or any(task.node is not None and not engine.allows_now(task, task.node) for task in coupled)
        )
        if needed:
            for task, back in reversed(moved):
                transaction.move(task, back)
            hunt.let_go(victims, transaction)


def _make_do(engine: Engine, transaction: Transaction, tasks: list[Task], moved: list[tuple[Task, int]]) -> bool:
    """Whether the unit has room on the nodes it claims, if need be in another arrangement."""
    index, nodes = engine.nodes.index, engine.nodes.nodes
    claimed = list(dict.fromkeys(index[task.node.name] for task in tasks if task.node is not None))
    if not any(nodes[i].future(j) < 0 for i in claimed for j in range(len(nodes[i].idle))):
        return True
    if len(tasks) > MOST_TO_ARRANGE:
        return False
    arrangement = arrange(engine, tasks, claimed)
    for task, i in (arrangement or {}).items():
        assert task.node is not None
        if index[task.node.name] != i:
            moved.append((task, index[task.node.name]))
            transaction.move(task, i)
    return arrangement is not None


def _is_below(leaf: JobNode, level: ShareNode) -> bool:
    node: ShareNode | None = leaf
    while node is not None and node is not level:
        node = node.parent
    return node is level


def _keys(judge: Judge, leaf: JobNode) -> dict[ShareNode, float]:
    """The keys of everybody on the taker's path and beside it, before anything moves."""
    keys: dict[ShareNode, float] = {}
    node: ShareNode | None = leaf.parent
    while node is not None:
        keys.update((child, judge.key(child)) for child in node.children.values())
        node = node.parent
    return keys


class _Explanation:
    """What is said about every victim of a taker."""

    def __init__(
        self, action: str, leaf: JobNode, judge: Judge, before: dict[ShareNode, float], engine: Engine
    ) -> None:
        self._action = action
        self._leaf = leaf
        self._judge = judge
        self._before = before
        self._engine = engine

    def __call__(self, gone: Departure) -> Evict:
        """The decision that lets a task go."""
        task = gone.task
        assert task.job is not None
        sides = None
        if self._before:
            level, ours, theirs = parting(self._leaf, self._engine.tree.jobs[task.job.key])
            key, before = self._judge.key, self._before
            sides = Sides(level.path, ours.path, theirs.path, (before[ours], before[theirs]), (key(ours), key(theirs)))
        return Evict(task.spec.key, gone.node.name, task.job.key, self._leaf.job.key, self._action, sides)
