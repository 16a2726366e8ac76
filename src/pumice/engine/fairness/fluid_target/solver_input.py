"""The solver's input: the leaves below each inner node of the share tree as arrays, and these put together.

``NodeLeaves`` is kept from solve to solve while the jobs below its node stay the same, so that a solve after a small
change collects little anew.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np

from pumice.engine.fairness.fluid_target.polyline import FloatArray, IntArray
from pumice.engine.fairness.share_tree.demand import Demand
from pumice.engine.fairness.share_tree.equal_jobs import EqualJobs
from pumice.engine.fairness.share_tree.share_node import ShareNode
from pumice.model.specs import Items

User = tuple[ShareNode, str]
RankClass = tuple[int, ...]


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

    __slots__ = (
        "_asks",
        "_direction",
        "_rank",
        "_ranked_by",
        "_used",
        "classes",
        "columns",
        "groups",
        "jobs",
        "never",
        "resources",
        "tasks",
    )

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
        self.resources = {j for items in self._asks for j, _ in items}
        self.tasks: FloatArray = np.full(len(columns), np.nan)  # the targets of the last solve, for each job
        self._used: list[int] | None = None
        self._direction: FloatArray = np.empty((0, 0))
        self._ranked_by: list[RankClass] | None = None
        self._rank: IntArray = np.empty(0, dtype=np.int64)

    def direction(self, used: list[int], capacity: list[int]) -> FloatArray:
        """One task's request of each leaf, as fractions of the capacity of these resources."""
        if self._used is not used and self._used != used:
            column = {j: k for k, j in enumerate(used)}
            direction = np.zeros((len(self._asks), len(used)))
            for row, items in enumerate(self._asks):
                for j, amount in items:
                    direction[row, column[j]] = amount / capacity[j]
            self._direction = direction
        self._used = used
        return self._direction

    def rank(self, classes: list[RankClass]) -> IntArray:
        """The class of each leaf among the leaves of its parent; that of a piece is its place in the demand."""
        if self._ranked_by is not classes and self._ranked_by != classes:
            order = {rank_class: k for k, rank_class in enumerate(classes)}
            ranks: list[int] = []
            for group in self.groups:
                ranks += group.pieces if len(group.pieces) > 1 else [order[group.rank_class]]
            self._rank = np.array(ranks, dtype=np.int64)
        self._ranked_by = classes
        return self._rank


@dataclass(frozen=True, slots=True)
class Collected:
    """The input of a solve: inner nodes, parents first, then the jobs with heterogeneous tasks, then the leaves."""

    nodes: list[ShareNode]
    leaves: list[NodeLeaves]  # of each node
    start: list[int]  # the first leaf of each node, and the number of all
    groups: list[Group]
    first: IntArray  # the first leaf of each group
    group: IntArray  # of each leaf
    inner: int
    parent: IntArray
    weight: FloatArray
    used: list[int]
    classes: list[RankClass]
    direction: FloatArray
    count: FloatArray
    members: FloatArray
    rank: IntArray
    job_node: IntArray
    job_rank: IntArray


def collect_leaves(
    nodes: list[ShareNode], leaves: list[NodeLeaves], capacity: list[int], used: list[int], classes: list[RankClass]
) -> Collected:
    """Put the leaves of all nodes together; ``used`` and ``classes`` are those of the last time."""
    used_now = sorted(set[int]().union(*[each.resources for each in leaves]))
    classes_now = sorted(set[RankClass]().union(*[each.classes for each in leaves]))
    used = used if used_now == used else used_now
    classes = classes if classes_now == classes else classes_now
    index = {node: k for k, node in enumerate(nodes)}
    above = [-1 if node.parent is None else index[node.parent] for node in nodes]
    rows = np.array([len(each.columns) for each in leaves])
    columns = np.concatenate([each.columns for each in leaves])
    count, members, group_below, job_below = np.ascontiguousarray(columns.T)
    groups = [group for each in leaves for group in each.groups]
    jobs = [group for each in leaves for group in each.jobs]
    job_counts = np.array([len(each.jobs) for each in leaves])
    group_counts = np.array([len(each.groups) for each in leaves])
    number = np.arange(len(nodes))
    inner = len(nodes) + len(jobs)
    job = job_below.astype(np.int64)
    first_job = len(nodes) + np.cumsum(job_counts) - job_counts
    leaf_parent = np.where(job >= 0, job + np.repeat(first_job, rows), np.repeat(number, rows))
    group = group_below.astype(np.int64) + np.repeat(np.cumsum(group_counts) - group_counts, rows)
    order = {rank_class: k for k, rank_class in enumerate(classes)}
    return Collected(
        nodes=nodes,
        leaves=leaves,
        start=[0, *np.cumsum(rows).tolist()],
        groups=groups,
        first=np.searchsorted(group, np.arange(len(groups))),
        group=group,
        inner=inner,
        parent=np.concatenate([np.array(above), np.repeat(number, job_counts), leaf_parent]),
        weight=np.concatenate(
            [
                np.array([node.weight for node in nodes]),
                np.array([float(each.members) for each in jobs]),
                members,  # the weight of a piece has no effect: it is alone in its class
            ]
        ),
        used=used,
        classes=classes,
        direction=np.concatenate([each.direction(used, capacity) for each in leaves]),
        count=count,
        members=members,
        rank=np.concatenate([each.rank(classes) for each in leaves]),
        job_node=np.arange(len(nodes), inner),
        job_rank=np.array([order[each.rank_class] for each in jobs], dtype=np.int64),
    )
