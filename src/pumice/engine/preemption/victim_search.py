"""Victim search: which tasks to evict so that one task can start, and on which node (docs/fairness.md, section 9.7).

The search climbs the levels of the share tree above the preemptor, nearest first, and widens to the next level only if
evictions below the current one cannot free enough. Below a level the branch furthest above its share comes first, then
the lowest priority, then the shortest runtime. This order decides which nodes are examined first; on each node the
search evicts legal victims in the same order until the task fits, then restores those it did not need. The node with
the fewest victims wins. A single victim that frees enough ends the search at once.

A job never falls below its minimum. It can only be evicted as a whole, and then only if that improves the split
(``split_improvement``); without entitlements to compare, only for a unit at least half its size.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pumice.engine.candidates.units import AllocationUnit
from pumice.engine.fairness.orders.serving_order import GRID_ROUNDER, part_of
from pumice.engine.fairness.preemption_rules.rules import PreemptionRule, lowest_common_ancestor
from pumice.engine.fairness.preemption_rules.task_rights import spares
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.engine.preemption.freeable_capacity import INFEASIBLE, FreeableCapacity
from pumice.engine.preemption.preemptible_tasks import PreemptibleTasks, ReverseOrder, is_running
from pumice.engine.preemption.split_improvement import improves_split, loses_too_much
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.job import Job
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext
    from pumice.engine.transaction import Transaction

Victims = tuple[Task, ...]
"""Tasks that are evicted together: one, or all of a job."""

Found = tuple[int, list[Victims]]
"""A node, and the victims to evict from it."""

FEW = 64  # up to this many nodes are examined one by one; beyond it, victims in order lead to their nodes

MANY = 16  # so many tasks of no use in a row are worth removing from the pool

Rank = tuple[int, tuple[tuple[float, int], ...], int, int, ReverseOrder]
"""Level, path down from it, priority, negated start time, place in its job."""

Asked = tuple[Rank, Task, JobNode]

EqualVictims = tuple[ShareNode | None, str, tuple[int, ...], tuple[int, ...], Items | None, tuple[int, ...], Items]
"""What the keys of an order know of a job and of what it would lose."""


class VictimSearch:
    """The search for victims on behalf of one preemptor."""

    def __init__(
        self,
        context: SchedulingContext,
        preemptor: JobNode,
        unit: AllocationUnit,
        judge: PreemptionRule,
        levels: list[ShareNode],
        pool: PreemptibleTasks,
        freeable: Callable[[ShareNode | None], FreeableCapacity],
        *,
        across: bool,
        max_lost_work: int = -1,
    ) -> None:
        self._context = context
        self._preemptor = preemptor
        self._unit = unit
        self.rule = judge
        self._levels = levels
        self._pool = pool
        self._freeable = freeable
        self._depth = {level: i for i, level in enumerate(levels)}
        self._across = across  # between queues (reclaim), or inside one (preempt)
        self._max_lost_work = max_lost_work
        self._size = part_of(unit.ask, context.state.capacity)
        self._ways: dict[JobNode, tuple[int, bool, tuple[tuple[float, int], ...]]] = {}
        self._asked_at: dict[int, list[Asked]] = {}
        self._refused: set[tuple[JobNode, TaskShape, ClusterNode | None]] = set()  # victims that a plugin vetoed
        self._objected: set[EqualVictims] = set()  # the rule objects to evicting one of these alone
        self._tentative = True  # whether evictions are in effect that may be undone
        self.gangs_spared: dict[JobNode, float] = {}  # jobs too large for this preemptor alone, and their size
        self.allowed_gang: JobNode | None = None
        self.pack_tightly = False  # prefer nodes that fit the most tasks, regardless of victims: a gang may need that

    def freeable_slots(self, shape: TaskShape) -> NDArray[np.int64]:
        """Per node, how many tasks of a shape might fit if every task that may be evicted were gone."""
        return self._freeable(self._levels[-1]).slots(shape)

    def find_node(self, shape: TaskShape, transaction: Transaction, *, victims: bool = True) -> Found | None:
        """The node for a task of this shape and the victims on it; None if there is none."""
        self._ways.clear()
        self._asked_at.clear()
        self._objected.clear()
        self._tentative = bool(transaction.all_evictions())
        free = self._without_victims(shape, transaction)
        if free is not None:
            return free, []
        if not victims:
            return None
        if not (self._freeable(self._levels[-1]).victims_for(shape) < INFEASIBLE).any():
            return None  # not even evicting every preemptible task would suffice
        if self._context.decided.bound:
            found = self._at_level(shape, len(self._levels) - 1, transaction, strict=False, withdrawing=True)
            if found is not None:
                return found
        if self.pack_tightly:
            return self._pack_tightly(shape, transaction)
        for strict in (True, False):
            for number in range(len(self._levels)):
                found = self._at_level(shape, number, transaction, strict=strict)
                if found is not None:
                    return found
            if not self._across:
                break
        return None

    def free_quota(self, refused: Callable[[], bool], transaction: Transaction) -> list[Victims] | None:
        """Evict tasks until a limit no longer rejects the unit, and keep them evicted; None if that cannot succeed."""
        gone: list[Victims] = []
        for number in range(len(self._levels)):
            for task in list(self.in_order(number, strict=False)):
                leaf = self._victim_leaf(task)
                victims = self._eviction_group(task, leaf) if leaf is not None else ()
                if leaf is not None and victims and self._evict(victims, leaf, transaction):
                    gone.append(victims)
                    if not refused():
                        return gone
        return None

    def _without_victims(self, shape: TaskShape, transaction: Transaction) -> int | None:
        """A node with enough idle capacity for the task, or with enough being freed that is not promised to another."""
        context = self._context
        best = context.nodes.best_node(shape)
        if best >= 0:
            return best
        index = context.nodes.index
        places = [index[gone.node.name] for gone in transaction.all_evictions() if gone.node.name in index]
        if context.nodes.freeing:
            places = [*self._freeable(self._levels[-1]).with_room(shape, context.nodes.freeing), *places]
        for i in dict.fromkeys(places):
            if _has_room(context.nodes.nodes[i], shape) and context.nodes.allows(shape, i):
                return i
        return None

    def _at_level(
        self, shape: TaskShape, number: int, transaction: Transaction, *, strict: bool, withdrawing: bool = False
    ) -> Found | None:
        """The node with the fewest victims; ``withdrawing``: only tasks bound in this cycle, which loses no work."""
        best: Found | None = None
        fewest = INFEASIBLE
        freeable = self._freeable(None if withdrawing else self._levels[number])
        if not freeable.leaves:
            return None
        at_least = freeable.victims_for(shape)
        for bound in np.flatnonzero(np.bincount(at_least[at_least < INFEASIBLE])).tolist():
            if bound >= fewest:
                break
            for index, everybody in self._nodes_in_order(number, at_least == bound, strict=strict):
                new = self._context.decided.bound
                asked = [entry for entry in everybody if entry[1] in new] if withdrawing else everybody
                victims = self._on_node(shape, index, asked, transaction)
                count = sum(map(len, victims)) if victims is not None else INFEASIBLE
                if victims is not None and count < fewest:
                    best, fewest = (index, victims), count
                    if count <= bound:
                        return best
        return best

    def _pack_tightly(self, shape: TaskShape, transaction: Transaction) -> Found | None:
        """The node where the most tasks of the shape might fit, and the victims on it."""
        everywhere = len(self._levels) - 1
        freeable = self._freeable(self._levels[everywhere])
        indices = np.flatnonzero(freeable.victims_for(shape) < INFEASIBLE).tolist()
        for index in sorted(indices, key=lambda i: -freeable.slots_for(shape, i)):
            victims = self._on_node(shape, index, self._asked_on(index, everywhere, strict=False), transaction)
            if victims is not None:
                return index, victims
        return None

    # --- order of victims -------------------------------------------------------------------------------------------

    def _nodes_in_order(
        self, number: int, which: NDArray[np.bool_], *, strict: bool
    ) -> Iterator[tuple[int, list[Asked]]]:
        """These nodes, ordered by their first victim, each with its potential victims in order."""
        if np.count_nonzero(which) <= FEW:
            indices = np.flatnonzero(which).tolist()
            asked_on = [(index, self._asked_on(index, number, strict=strict)) for index in indices]
            yield from sorted((entry for entry in asked_on if entry[1]), key=lambda entry: entry[1][0][0])
            return
        seen: set[int] = set()
        for task in self.in_order(number, strict=strict):
            index = self._context.nodes.index.get(task.node.name, -1) if task.node is not None else -1
            if index >= 0 and which[index] and index not in seen:
                seen.add(index)
                yield index, self._asked_on(index, number, strict=strict)

    def _asked_on(self, index: int, number: int, *, strict: bool) -> list[Asked]:
        """The potential victims on a node up to a level, in order."""
        everybody = self._asked_at.get(index)
        if everybody is None:
            everybody = self._asked_at[index] = self._all_victims_on(index)
        return [asked for asked in everybody if asked[0][0] <= number and (not strict or self._ways[asked[2]][1])]

    def _all_victims_on(self, index: int) -> list[Asked]:
        asked: list[Asked] = []
        for task in self._context.nodes.nodes[index].tasks.values():
            leaf = self._victim_leaf(task)
            if leaf is not None:
                rank = self._rank(task, leaf)
                if rank[0] < len(self._levels):
                    asked.append((rank, task, leaf))
        asked.sort(key=lambda entry: entry[0])
        return asked

    def in_order(self, number: int, *, strict: bool) -> Iterator[Task]:
        """Potential victims up to this level, in order."""
        for level in self._levels[: number + 1]:
            side = _side(level, self._preemptor)
            others = [child for child in level.children.values() if child is not side]
            yield from self._asked([child for child in others if not strict or self.rule.is_over_target(child)])

    def _asked(self, branches: Iterable[ShareNode]) -> Iterator[Task]:
        """The tasks below these branches, the branch furthest above its share first; tied branches are merged."""
        ranked = sorted(((self._still_running(node), node) for node in branches), key=itemgetter(0))
        for _, tied in groupby(ranked, key=itemgetter(0)):
            together = [node for _, node in tied]
            jobs = {node for node in together if isinstance(node, JobNode)}
            if jobs:
                yield from self._tasks(list(dict.fromkeys(leaf.parent for leaf in jobs if leaf.parent)), jobs)
            below = [child for node in together for child in node.children.values()]
            if below and isinstance(below[0], JobNode):
                yield from self._tasks(together)
            elif below:
                yield from self._asked(below)

    def _still_running(self, node: ShareNode) -> tuple[float, int]:
        """The rank of a branch among its siblings: how far it is above its share, then the queue's priority."""
        if isinstance(node, JobNode):
            return 0.0, 0  # jobs are not ranked; their tasks are
        queue = self._context.sync.queue_of(node)
        return -((self.rule.excess(node) + GRID_ROUNDER) - GRID_ROUNDER), queue.priority if queue is not None else 0

    def _tasks(self, parents: list[ShareNode], among: Container[JobNode] | None = None) -> Iterator[Task]:
        """The preemptible tasks of the jobs directly below these nodes, lowest priority first, then shortest runtime.

        ``among``: only of these jobs.
        """
        pool, settled = self._pool, self.rule.same_for_all and not self._tentative
        loses: dict[JobNode, bool] = {}
        unusable = 0
        lists = [pool.in_order(parent) for parent in parents]
        for entry in lists[0] if len(lists) == 1 else merge(*lists):
            task, leaf = entry[3], entry[4]
            if leaf in pool.exhausted or not is_running(self._context, task):
                unusable += 1
                continue
            if among is not None and leaf not in among:
                continue
            if leaf not in loses:
                loses[leaf] = self._has_excess(leaf)
                if not loses[leaf] and settled:
                    pool.exhausted.add(leaf)
            if loses[leaf] and (leaf, task.shape, task.node) not in self._refused:
                if unusable > MANY and not self._tentative:
                    for parent in parents:
                        pool.drop_unusable(parent)
                unusable = 0
                yield task

    def _has_excess(self, leaf: JobNode) -> bool:
        """Whether the rule would let a job lose any of its tasks, judging by their requests."""
        return any(self.rule.may_lose(leaf, shape.ask) for shape in (*leaf.job.placed, *leaf.job.pending))

    def _rank(self, task: Task, leaf: JobNode) -> Rank:
        """The place of a task in the order of victims."""
        if leaf not in self._ways:
            self._ways[leaf] = self._way_to(leaf)
        level, _, way = self._ways[leaf]
        return level, way, task.priority, -task.started, ReverseOrder(task.order)

    def _way_to(self, leaf: JobNode) -> tuple[int, bool, tuple[tuple[float, int], ...]]:
        """The common ancestor's level, whether the branch there exceeds its share, and the path down to the job."""
        level, _, branch = lowest_common_ancestor(self._preemptor, leaf)
        way: list[tuple[float, int]] = []
        node: ShareNode = leaf
        while node is not level and node.parent is not None:
            if node.kind is not NodeKind.JOB:
                way.append(self._still_running(node))
            node = node.parent
        return self._depth.get(level, len(self._levels)), self.rule.is_over_target(branch), tuple(reversed(way))

    # --- victims on one node ----------------------------------------------------------------------------------------

    def _on_node(
        self, shape: TaskShape, index: int, asked: list[Asked], transaction: Transaction
    ) -> list[Victims] | None:
        """The minimal victims on a node; all evictions are undone when this returns.

        If the first tasks of a job are too small and evicting the rest after them would be illegal, the search tries
        the largest tasks first. It does so only where integer targets bound what a job may lose: by keys alone, two
        jobs could evict each other in turn that way.
        """
        found = self._in_turn(shape, index, asked, transaction)
        if found is None and self.rule.by_target and len(asked) > 1:
            largest = sorted(asked, key=lambda entry: -part_of(entry[1].shape.ask, self._context.state.capacity))
            if largest != asked:
                found = self._in_turn(shape, index, largest, transaction)
        return found

    def _in_turn(
        self, shape: TaskShape, index: int, asked: list[Asked], transaction: Transaction
    ) -> list[Victims] | None:
        """Evict in order, as far as legal, until the task fits; then restore the victims that were not needed."""
        node = self._context.nodes.nodes[index]
        chosen: list[Victims] = []
        for _, task, leaf in asked:
            if self._fits(node, index, shape):
                break
            if not is_running(self._context, task) or not self._helps(task, node, shape):
                continue
            victims = self._eviction_group(task, leaf)
            if victims and self._evict(victims, leaf, transaction, for_good=not chosen):
                chosen.append(victims)
        fits = self._fits(node, index, shape)
        if fits and len(chosen) > 1:  # a single choice is needed: without it the task did not fit
            self._drop_unneeded_victims(chosen, node, index, shape, transaction)
        for victims in reversed(chosen):
            undo_evictions(victims, transaction)
        return chosen if fits else None

    def _drop_unneeded_victims(
        self, chosen: list[Victims], node: ClusterNode, index: int, shape: TaskShape, transaction: Transaction
    ) -> None:
        """Restore the victims that are not needed, the last ones chosen first."""
        for victims in list(reversed(chosen)):
            undo_evictions(victims, transaction)
            if self._fits(node, index, shape) and still_viable(self._context, victims[0].job, transaction):
                chosen.remove(victims)
            else:
                self.evict_all(victims, transaction)

    def _evict(self, victims: Victims, leaf: JobNode, transaction: Transaction, *, for_good: bool = False) -> bool:
        """Evict tentatively; undone on an objection. ``for_good``: no eviction precedes this one, so a veto lasts."""
        items = victims[0].shape.ask if len(victims) == 1 else _sum(victims)
        # Keys tell apart neither the tasks of a job nor equal jobs; who inherits a target depends on the node.
        equal = _equal_victims(leaf, items) if for_good and not (self._tentative or self.rule.by_target) else None
        if equal in self._objected or not self.rule.may_lose(leaf, items):
            return False
        if not self._plugins_agree(victims, leaf):
            if for_good and len(victims) == 1:
                self._refused.add((leaf, victims[0].shape, victims[0].node))
            return False
        if not self.evict_all(victims, transaction):
            return False
        whole = not leaf.job.running
        if self.rule.agrees(leaf, items) and self._queues_may_lose(leaf, items):
            worth_it = not whole or self._may_evict_job(leaf, items, transaction)
            if leaf is self.allowed_gang or (worth_it and not self.loses_too_much(transaction)):
                return True
            if whole:
                self.gangs_spared[leaf] = part_of(items, self._context.state.capacity)
        elif equal is not None:
            self._objected.add(equal)
        undo_evictions(victims, transaction)
        return False

    def evict_all(self, victims: Victims, transaction: Transaction) -> bool:
        """Evict all of them; False, and none is evicted, if a plugin now protects one after the evictions before it."""
        for i, task in enumerate(victims):
            if not self._context.policy.evictable(task):
                undo_evictions(victims[:i], transaction)
                return False
            transaction.evict(task, self._beneficiary(task) if len(victims) == 1 else None)
        return True

    def _beneficiary(self, task: Task) -> JobNode | None:
        """The job that inherits the victim's integer entitlement: none on the same node, which must be freed."""
        jobs, node = self._context.tree.jobs, task.node
        assert task.job is not None and node is not None
        leaf = jobs[task.job.key]
        if spares(leaf, task.shape.ask):
            return None
        here = {jobs[other.job.key] for other in node.tasks.values() if other.job is not None and other.job.key in jobs}
        return self.rule.beneficiary(leaf, task.shape.ask, here)

    def _fits(self, node: ClusterNode, index: int, shape: TaskShape) -> bool:
        return _has_room(node, shape) and self._context.nodes.allows(shape, index)

    def _helps(self, task: Task, node: ClusterNode, shape: TaskShape) -> bool:
        """Whether a task holds a resource that is short; with inter-pod constraints any task may be the obstacle."""
        if shape.coupled:
            return True
        has = {j for j, _ in task.shape.items}
        return any(j in has for j, amount in shape.items if node.future(j) < amount)

    # --- legal victims ----------------------------------------------------------------------------------------------

    def _victim_leaf(self, task: Task) -> JobNode | None:
        """The job of a task that may be evicted, otherwise None."""
        if task.job is None or task not in self._pool or not is_running(self._context, task):
            return None
        leaf = self._context.tree.jobs.get(task.job.key)
        if leaf is None or leaf is self._preemptor or leaf.job is not task.job:
            return None
        if (leaf, task.shape, task.node) in self._refused:
            return None
        if not self._context.policy.consent.given(self._preemptor, leaf, across=self._is_across(leaf)):
            return None
        return leaf if self.rule.may_lose(leaf, task.shape.ask) else None

    def _is_across(self, victim: JobNode) -> bool:
        """Whether a victim is in another queue; a search between queues may include the preemptor's own."""
        return self._across and victim.queue is not self._preemptor.queue

    def _plugins_agree(self, victims: Victims, leaf: JobNode) -> bool:
        policy, preemptor, unit = self._context.policy, self._preemptor, self._unit
        ask = policy.reclaimable if self._is_across(leaf) else policy.preemptable
        return all(ask(preemptor, unit, task) for task in victims)

    def _queues_may_lose(self, leaf: JobNode, items: Items) -> bool:
        """Whether the queues that would lose are reclaimable and keep their guarantees."""
        if not self._is_across(leaf):
            return True
        level, _, _ = lowest_common_ancestor(self._preemptor, leaf)
        node: ShareNode | None = leaf.queue
        while node is not None and node is not level:
            queue = self._context.sync.queue_of(node)
            if queue is not None and not queue.reclaimable:
                return False
            if node.guarantee is not None and any(node.held[j] < node.guarantee[j] for j, _ in items):
                return False
            node = node.parent
        return True

    def _may_evict_job(self, leaf: JobNode, items: Items, transaction: Transaction) -> bool:
        """Whether the gain justifies that a job has lost everything it held."""
        capacity = self._context.state.capacity
        if not self.rule.by_target:
            return leaf.job.task_count == 1 or 2 * self._size >= part_of(items, capacity)
        gone = {
            self._context.tree.jobs[d.task.job.key]: None for d in transaction.all_evictions() if d.task.job is not None
        }
        units = [(preemptor, ask) for preemptor, ask, *_ in transaction.all_charges()]
        return improves_split(units, [job for job in gone if not job.job.running], capacity)

    def loses_too_much(self, transaction: Transaction) -> bool:
        """Whether the evictions of a transaction lose more work than the configuration accepts for what they gain."""
        if self._max_lost_work < 0:
            return False
        units = [(preemptor, ask) for preemptor, ask, *_ in transaction.all_charges()]
        state, now = self._context.state, self._context.now
        return loses_too_much(units, transaction.all_evictions(), state.capacity, now, self._max_lost_work)

    def _eviction_group(self, task: Task, leaf: JobNode) -> Victims:
        """The tasks to evict with a task: itself, or its whole job if that cannot go on; () if that is illegal."""
        job = leaf.job
        if self._context.policy.can_go_on(job, without=task):
            return (task,)
        # In task order: the preemptor takes the first node that fits once they are gone.
        whole = tuple(sorted((t for t in job.each_task() if t.status.held), key=lambda t: t.order))
        if all(self._victim_leaf(t) is leaf for t in whole):
            return whole
        return ()


def still_viable(context: SchedulingContext, job: Job | None, transaction: Transaction) -> bool:
    """Whether a job lost no task, was evicted as a whole, or can go on."""
    if job is None or not job.running or context.policy.can_go_on(job):
        return True
    return all(gone.task.job is not job for gone in transaction.all_evictions())


def _equal_victims(leaf: JobNode, items: Items) -> EqualVictims:
    return leaf.parent, leaf.user, leaf.rank_class, tuple(leaf.held), leaf.ask, leaf.able_asks, items


def undo_evictions(victims: Victims, transaction: Transaction) -> None:
    """Undo the evictions."""
    for task in reversed(victims):
        transaction.undo_evict(task)


def _has_room(node: ClusterNode, shape: TaskShape) -> bool:
    return all(node.future(j) >= amount for j, amount in shape.items)


def _side(level: ShareNode, preemptor: ShareNode) -> ShareNode:
    """The child of a level on the preemptor's path."""
    node = preemptor
    while node.parent is not level:
        assert node.parent is not None
        node = node.parent
    return node


def _sum(victims: Victims) -> Items:
    total: dict[int, int] = {}
    for task in victims:
        for j, amount in task.shape.ask:
            total[j] = total.get(j, 0) + amount
    return tuple(sorted(total.items()))
