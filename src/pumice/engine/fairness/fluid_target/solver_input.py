"""The solver's input: the leaves below each inner node of the share tree as arrays, and these put together.

``NodeLeaves`` is kept from solve to solve while the jobs below its node stay the same, and so is ``LeafTable``, which
has the leaves of all nodes end to end: after a small change only the parts of a few nodes are put in anew.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pumice.engine.fairness.fluid_target.polyline import BoolArray, FloatArray, IntArray
from pumice.engine.fairness.share_tree.demand import Demand
from pumice.engine.fairness.share_tree.equal_jobs import EqualJobs
from pumice.engine.fairness.share_tree.share_node import ShareNode
from pumice.model.specs import Items

User = tuple[ShareNode, str]
RankClass = tuple[int, ...]
ScalarT = TypeVar("ScalarT", bound=np.generic)


@dataclass(slots=True)
class Group:
    """Jobs that form one leaf of the solver: equal jobs of one user, or of all users without a limit."""

    demand: Demand
    rank_class: RankClass
    user: User | None
    pieces: list[int]  # of the demand, those that the cluster has the resources for
    equals: list[EqualJobs]
    members: int = 0


class NodeLeaves:
    """The leaves below one inner node: groups of equal jobs, or pieces of groups of jobs with heterogeneous tasks."""

    __slots__ = ("_asks", "classes", "columns", "groups", "job_members", "jobs", "never", "resources")

    def __init__(self, node: ShareNode, capacity: list[int], limited: Container[str]) -> None:
        self.never: list[EqualJobs] = []  # jobs that ask for nothing the cluster has left
        found: dict[tuple[RankClass, Demand, User | None], Group] = {}
        for equals in sorted(node.equal_jobs.values(), key=EqualJobs.first):
            demand = equals.demand
            # A resource of which the cluster has none left (other schedulers' pods hold all of it) cannot be given.
            pieces = [k for k, (items, _) in enumerate(demand.pieces) if all(capacity[j] > 0 for j, _ in items)]
            if not pieces:
                self.never.append(equals)
                continue
            user = (node.queue, equals.user) if equals.user in limited else None
            group = found.get((equals.rank_class, demand, user))
            if group is None:
                group = found[equals.rank_class, demand, user] = Group(demand, equals.rank_class, user, pieces, [])
            group.equals.append(equals)
            group.members += len(equals.members)
        self.groups = list(found.values())
        self.jobs = [group for group in self.groups if len(group.pieces) > 1]  # inner nodes of the solver
        self.classes = {group.rank_class for group in self.groups}
        self._asks: list[Items] = []
        columns: list[tuple[float, float, float, float]] = []  # one array is put together faster than four
        jobs = 0
        for number, group in enumerate(self.groups):
            unlike = len(group.pieces) > 1
            for k in group.pieces:
                items, tasks = group.demand.pieces[k]
                self._asks.append(items)
                columns.append((tasks * group.members, group.members, number, jobs if unlike else -1))
            jobs += unlike
        # Of each leaf: its tasks, the jobs behind it, their group, and of which of ``jobs`` it is a piece (-1: none).
        self.columns: FloatArray = np.array(columns, np.float64).reshape(-1, 4)
        self.job_members: FloatArray = np.array([group.members for group in self.jobs], np.float64)
        self.resources = {j for items in self._asks for j, _ in items}

    def direction(self, used: list[int], capacity: list[int]) -> FloatArray:
        """One task's request of each leaf, as fractions of the capacity of these resources."""
        column = {j: k for k, j in enumerate(used)}
        direction = np.zeros((len(self._asks), len(used)))
        for row, items in enumerate(self._asks):
            for j, amount in items:
                direction[row, column[j]] = amount / capacity[j]
        return direction

    def rank(self, classes: list[RankClass]) -> IntArray:
        """The class of each leaf among the leaves of its parent; that of a piece is its place in the demand."""
        order = {rank_class: k for k, rank_class in enumerate(classes)}
        ranks: list[int] = []
        for group in self.groups:
            ranks += group.pieces if len(group.pieces) > 1 else [order[group.rank_class]]
        return np.array(ranks, dtype=np.int64)

    def job_rank(self, classes: list[RankClass]) -> IntArray:
        """The same of each job with heterogeneous tasks."""
        order = {rank_class: k for k, rank_class in enumerate(classes)}
        return np.array([order[group.rank_class] for group in self.jobs], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Collected:
    """The input of a solve: inner nodes, parents first, then the jobs with heterogeneous tasks, then the leaves."""

    inner: int  # the number of nodes and jobs before the first leaf
    parent: IntArray
    weight: FloatArray
    direction: FloatArray
    count: FloatArray
    members: FloatArray
    rank: IntArray
    job_node: IntArray
    job_rank: IntArray
    group: IntArray  # of each leaf: the number of its group


class LeafTable:
    """The leaves of all inner nodes, end to end. Its arrays are replaced, not changed: a ``Collected`` refers to them.

    The weights of the nodes are read once: a tree in which they change is reshaped.
    """

    def __init__(
        self,
        nodes: list[ShareNode],
        leaves: dict[ShareNode, NodeLeaves],
        capacity: list[int],
        before: LeafTable | None = None,
    ) -> None:
        self.nodes = nodes
        self.number = {node: k for k, node in enumerate(nodes)}
        self._capacity = capacity
        self._weight = np.array([node.weight for node in nodes])
        self._above = np.array([-1 if node.parent is None else self.number[node.parent] for node in nodes])
        self._leaves = [leaves[node] for node in nodes]
        self._uses: dict[int, int] = {}  # how many nodes have leaves that ask for each resource,
        self._ranked: dict[RankClass, int] = {}  # or have a class
        for each in self._leaves:
            self._count(each, 1)
        # Of each node, the number of its leaves, groups and jobs with heterogeneous tasks.
        self._rows = np.array([len(each.columns) for each in self._leaves])
        self._groups = np.array([len(each.groups) for each in self._leaves])
        self._jobs = np.array([len(each.jobs) for each in self._leaves])
        self._columns = np.concatenate([each.columns for each in self._leaves])
        self._job_members = np.concatenate([each.job_members for each in self._leaves])
        self.used, self.classes = self._in_use()
        self._direction: FloatArray
        self._rank: IntArray
        self._job_rank: IntArray
        self.tasks: FloatArray = np.full(len(self._columns), np.nan)  # the targets of the last solve, for each job
        if before is None:
            self._rank_anew()
        else:
            self._take_over(before)

    def _take_over(self, before: LeafTable) -> None:
        """Take over what another table for the same capacity has of leaves that are the same."""
        starts, old_starts = _starts(self._rows).tolist(), _starts(before._rows).tolist()
        kept: list[int | None] = []  # for each node its number there, if its leaves are the same
        for node, each in zip(self.nodes, self._leaves, strict=True):
            old = before.number.get(node)
            kept.append(old if old is not None and before._leaves[old] is each else None)
        for first, stop in _runs(kept):
            old = kept[first]
            if old is not None:
                self.tasks[starts[first] : starts[stop]] = before.tasks[
                    old_starts[old] : old_starts[old + stop - first]
                ]
        if (self.used, self.classes) != (before.used, before.classes):
            self._rank_anew()
            return
        job_starts = _starts(before._jobs).tolist()
        directions: list[FloatArray] = []
        ranks: list[IntArray] = []
        job_ranks: list[IntArray] = []
        for first, stop in _runs(kept):
            old = kept[first]
            if old is None:
                each = self._leaves[first]
                directions.append(each.direction(self.used, self._capacity))
                ranks.append(each.rank(self.classes))
                job_ranks.append(each.job_rank(self.classes))
            else:
                end = old + stop - first
                rows = slice(old_starts[old], old_starts[end])
                directions.append(before._direction[rows])
                ranks.append(before._rank[rows])
                job_ranks.append(before._job_rank[job_starts[old] : job_starts[end]])
        self._direction, self._rank = np.concatenate(directions), np.concatenate(ranks)
        self._job_rank = np.concatenate(job_ranks)

    def _count(self, leaves: NodeLeaves, sign: int) -> None:
        for j in leaves.resources:
            self._uses[j] = self._uses.get(j, 0) + sign
        for rank_class in leaves.classes:
            self._ranked[rank_class] = self._ranked.get(rank_class, 0) + sign

    def _in_use(self) -> tuple[list[int], list[RankClass]]:
        """The resources that some leaf asks for, and the classes that some have."""
        used = sorted([j for j, nodes in self._uses.items() if nodes])
        return used, sorted([rank_class for rank_class, nodes in self._ranked.items() if nodes])

    def _rank_anew(self) -> None:
        """Put directions and ranks together for the resources and classes in use."""
        self._direction = np.concatenate([each.direction(self.used, self._capacity) for each in self._leaves])
        self._rank = np.concatenate([each.rank(self.classes) for each in self._leaves])
        self._job_rank = np.concatenate([each.job_rank(self.classes) for each in self._leaves])

    def replace(self, changed: dict[ShareNode, NodeLeaves]) -> None:
        """Put in the leaves of nodes whose jobs have changed; what they were entitled to is not known any more."""
        numbers = sorted([self.number[node] for node in changed])
        starts, job_starts = _starts(self._rows), _starts(self._jobs)
        rows = [(int(starts[k]), int(starts[k + 1])) for k in numbers]
        jobs = [(int(job_starts[k]), int(job_starts[k + 1])) for k in numbers]
        fresh: list[NodeLeaves] = []
        for k in numbers:
            self._count(self._leaves[k], -1)
            self._leaves[k] = changed[self.nodes[k]]
            fresh.append(self._leaves[k])
            self._count(self._leaves[k], 1)
            self._rows[k], self._groups[k] = len(self._leaves[k].columns), len(self._leaves[k].groups)
            self._jobs[k] = len(self._leaves[k].jobs)
        self._columns = _spliced(self._columns, rows, [each.columns for each in fresh])
        self.tasks = _spliced(self.tasks, rows, [np.full(len(each.columns), np.nan) for each in fresh])
        self._job_members = _spliced(self._job_members, jobs, [each.job_members for each in fresh])
        used, classes = self._in_use()
        if (used, classes) != (self.used, self.classes):
            self.used, self.classes = used, classes
            self._rank_anew()
        else:
            directions = [each.direction(self.used, self._capacity) for each in fresh]
            self._direction = _spliced(self._direction, rows, directions)
            self._rank = _spliced(self._rank, rows, [each.rank(self.classes) for each in fresh])
            self._job_rank = _spliced(self._job_rank, jobs, [each.job_rank(self.classes) for each in fresh])

    def collected(self) -> Collected:
        """The input of a solve."""
        count, members, group_below, job_below = np.ascontiguousarray(self._columns.T)
        number = np.arange(len(self.nodes))
        node = np.repeat(number, self._rows)
        inner = len(self.nodes) + len(self._job_members)
        job = job_below.astype(np.int64)
        first_job = len(self.nodes) + _starts(self._jobs)[:-1]
        leaf_parent = np.where(job >= 0, job + first_job.take(node), node)
        return Collected(
            inner=inner,
            parent=np.concatenate([self._above, np.repeat(number, self._jobs), leaf_parent]),
            # The weight of a piece has no effect: it is alone in its class.
            weight=np.concatenate([self._weight, self._job_members, members]),
            direction=self._direction,
            count=count,
            members=members,
            rank=self._rank,
            job_node=np.arange(len(self.nodes), inner),
            job_rank=self._job_rank,
            group=group_below.astype(np.int64) + _starts(self._groups)[:-1].take(node),
        )

    def groups(self) -> list[Group]:
        """All groups, in the order of their numbers."""
        return [group for each in self._leaves for group in each.groups]

    def groups_of(self, collected: Collected, leaves: BoolArray) -> list[tuple[Group, int]]:
        """The groups with these leaves, and the first leaf of each."""
        numbers = np.unique(collected.group[leaves])
        starts = _starts(self._groups)
        node = np.searchsorted(starts, numbers, side="right") - 1
        first = np.searchsorted(collected.group, numbers)
        found = zip(node.tolist(), (numbers - starts.take(node)).tolist(), first.tolist(), strict=True)
        return [(self._leaves[k].groups[place], leaf) for k, place, leaf in found]


def _runs(kept: list[int | None]) -> Iterator[tuple[int, int]]:
    """Ranges of consecutive numbers, and each None by itself: where they start and stop."""
    first = 0
    for k in range(1, len(kept) + 1):
        before = kept[k - 1]
        if k == len(kept) or before is None or kept[k] != before + 1:
            yield first, k
            first = k


def _starts(counts: IntArray) -> IntArray:
    """Where the part of each node starts, and the number of all."""
    starts = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def _spliced(
    array: NDArray[ScalarT], places: Sequence[tuple[int, int]], parts: Sequence[NDArray[ScalarT]]
) -> NDArray[ScalarT]:
    """A copy of an array with these ranges, in order, replaced by other parts."""
    if all(stop - start == len(part) for (start, stop), part in zip(places, parts, strict=True)):
        copy = array.copy()
        for (start, stop), part in zip(places, parts, strict=True):
            copy[start:stop] = part
        return copy
    pieces, done = [], 0
    for (start, stop), part in zip(places, parts, strict=True):
        pieces += [array[done:start], part]
        done = stop
    return np.concatenate([*pieces, array[done:]])
