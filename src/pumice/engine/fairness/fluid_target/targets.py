"""Set the fluid targets of the share tree: collect the solver's input, solve, and write the entitlements back.

Jobs that are equal in parent, class, demand and, where users are limited, user form one leaf of the solver, with their
number as its weight, so that a solve looks at groups of equal jobs (see ``equal_jobs``) and not at jobs. A job with
heterogeneous tasks is an inner node with a leaf for each piece of its demand. If the whole demand fits and nothing is
limited, the target is the demand and nothing is solved. A target within a millionth of an integer number of tasks is
set to that integer, so that arithmetic noise never costs a task.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pumice.engine.fairness.fluid_target.flat_tree import JobNodes
from pumice.engine.fairness.fluid_target.solver import solve_targets
from pumice.engine.fairness.fluid_target.solver_bounds import SolverBounds, bounds_of
from pumice.engine.fairness.fluid_target.solver_limits import SolverLimits
from pumice.engine.fairness.limits.user_limits import cap_users
from pumice.engine.fairness.share_tree.demand import Demand
from pumice.engine.fairness.share_tree.equal_jobs import EXACT, EqualJobs
from pumice.engine.fairness.share_tree.tree import JobNode, ShareNode, ShareTree
from pumice.model.specs import Items

SNAP = 1e-6


def set_targets(tree: ShareTree, capacity: list[int]) -> None:
    """Solve the static H-DRF target and set ``targets`` of every job and ``entitled`` of every node.

    A user's ceiling depends on the queue's entitlement without user limits: where a queue has such a limit, that
    entitlement is solved first.
    """
    limited = tree.limited.values()
    cap_users(limited, solved=False)
    if any(queue.rule.percent is not None for queue in limited):
        _set_targets(tree, capacity)
        cap_users(limited, solved=True)
    _set_targets(tree, capacity)


def _set_targets(tree: ShareTree, capacity: list[int]) -> None:
    tree.group_equal_jobs()
    inner = list(tree.root.walk_inner())
    tree.bounds = bounds_of(inner, capacity)
    if tree.bounds is None and _fits(inner, capacity):
        for node in inner:
            for equals in node.equal_jobs.values():
                _entitle(tree, [equals], equals.demand.satisfied)
    else:
        _solve(tree, capacity)
    _sum_up(tree, inner)


def _entitle(tree: ShareTree, group: list[EqualJobs], targets: tuple[float, ...]) -> None:
    """Entitle each job of a group to these targets.

    The last bits of a target depend on the order of summation. Rounding to a grid here removes them once, and every
    later sum is exact: what is equal mathematically is equal here.
    """
    if all(equals.targets == targets and not equals.joined for equals in group):
        return
    exact = [0] * tree.width
    for (items, _), tasks in zip(group[0].demand.pieces, targets, strict=True):
        grid = round(tasks * EXACT)
        for j, amount in items:
            exact[j] += grid * amount
    moved: dict[int, JobNode] = {}
    for equals in group:
        equals.targets = targets
        if equals.entitle(exact):
            moved.update(equals.members)
        for leaf, before in equals.joined:
            if before != exact:
                moved[leaf.serial] = leaf
            else:
                moved.pop(leaf.serial, None)
        equals.joined.clear()
    for serial in sorted(moved):
        tree.flag(moved[serial])
        tree.moved[moved[serial]] = None


def _fits(inner: list[ShareNode], capacity: list[int]) -> bool:
    total = [0] * len(capacity)
    for node in inner:
        for equals in node.equal_jobs.values():
            number = len(equals.members)
            for j, amount in equals.demand.total:
                total[j] += number * amount
    return all(asked <= offered for asked, offered in zip(total, capacity, strict=True))


User = tuple[ShareNode, str]


@dataclass(slots=True)
class _Group:
    """Jobs that form one leaf of the solver: equal jobs of one user, or of all users without a limit."""

    parent: int
    demand: Demand
    rank_class: tuple[int, ...]
    user: User | None
    equals: list[EqualJobs] = field(default_factory=list)
    members: int = 0


@dataclass(slots=True)
class _Collected:
    """The solver's input from the tree: nodes, parents first, and groups of equal jobs."""

    nodes: list[ShareNode] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    groups: list[_Group] = field(default_factory=list)


def _collect(tree: ShareTree, capacity: list[int]) -> _Collected:
    bounds = tree.bounds if tree.bounds is not None and tree.bounds.users else None
    all_ = _Collected()
    stack: list[tuple[ShareNode, int]] = [(tree.root, -1)]
    while stack:
        node, above = stack.pop()
        index = len(all_.nodes)
        all_.nodes.append(node)
        all_.parent.append(above)
        stack.extend((child, index) for child in node.branches.values())
        limited = bounds.users.get(node.queue, ()) if bounds is not None else ()
        found: dict[tuple[tuple[int, ...], Demand, User | None], _Group] = {}
        for equals in sorted(node.equal_jobs.values(), key=EqualJobs.first):
            demand = equals.demand
            # A resource of which the cluster has none left (other schedulers' pods hold all of it) cannot be given.
            if not any(all(capacity[j] > 0 for j, _ in items) for items, _ in demand.pieces):
                _entitle(tree, [equals], (0.0,) * len(demand.pieces))
                continue
            user = (node.queue, equals.user) if equals.user in limited else None
            group = found.get((equals.rank_class, demand, user))
            if group is None:
                group = found[equals.rank_class, demand, user] = _Group(index, demand, equals.rank_class, user)
            group.equals.append(equals)
            group.members += len(equals.members)
        all_.groups += found.values()
    return all_


@dataclass(slots=True)
class _Leaves:
    """The leaves of the solver: a group of equal jobs, or a piece of a group of jobs with heterogeneous tasks."""

    parent: list[int] = field(default_factory=list)
    asks: list[Items] = field(default_factory=list)
    count: list[float] = field(default_factory=list)
    members: list[int] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    user: list[User | None] = field(default_factory=list)
    place: list[tuple[int, int]] = field(default_factory=list)  # the group, and the piece of its demand


def _solve(tree: ShareTree, capacity: list[int]) -> None:
    collected = _collect(tree, capacity)
    if not collected.groups:
        return
    order = {rank_class: k for k, rank_class in enumerate(sorted({group.rank_class for group in collected.groups}))}
    parent = list(collected.parent)
    weight = [node.weight for node in collected.nodes]
    leaves = _Leaves()
    job_node: list[int] = []
    job_rank: list[int] = []
    for number, group in enumerate(collected.groups):
        rank = order[group.rank_class]
        pieces = [
            (k, *piece) for k, piece in enumerate(group.demand.pieces) if all(capacity[j] > 0 for j, _ in piece[0])
        ]
        if len(pieces) > 1:
            job_node.append(len(parent))
            job_rank.append(rank)
            parent.append(group.parent)
            weight.append(float(group.members))
        for k, items, count in pieces:
            leaves.parent.append(job_node[-1] if len(pieces) > 1 else group.parent)
            leaves.asks.append(items)
            leaves.count.append(float(count * group.members))
            leaves.members.append(group.members)
            leaves.rank.append(k if len(pieces) > 1 else rank)
            leaves.user.append(group.user)
            leaves.place.append((number, k))
    used = sorted({j for items in leaves.asks for j, _ in items})
    column = {j: k for k, j in enumerate(used)}
    direction = np.zeros((len(leaves.asks), len(used)))
    for row, items in enumerate(leaves.asks):
        for j, amount in items:
            direction[row, column[j]] = amount / capacity[j]
    inner = len(parent)
    tasks = solve_targets(
        np.array(parent + leaves.parent),
        # The weight of a piece has no effect: it is alone in its class.
        np.array(weight + [float(members) for members in leaves.members]),
        np.arange(inner, inner + len(leaves.asks)),
        direction,
        np.array(leaves.count),
        np.array(leaves.rank) if any(leaves.rank) else None,
        None if tree.bounds is None else _limits(tree.bounds, collected, leaves, inner, used, capacity),
        JobNodes(np.array(job_node, dtype=np.int64), np.array(job_rank, dtype=np.int64)),
    ).tolist()
    targets = [[0.0] * len(group.demand.pieces) for group in collected.groups]
    for (number, k), total in zip(leaves.place, tasks, strict=True):
        targets[number][k] = _snap(total / collected.groups[number].members)
    for group, pieces_of in zip(collected.groups, targets, strict=True):
        _entitle(tree, group.equals, tuple(pieces_of))


def _limits(
    bounds: SolverBounds, collected: _Collected, leaves: _Leaves, inner: int, used: list[int], capacity: list[int]
) -> SolverLimits:
    """The bounds in the solver's form: fractions of capacity, for the resources in use."""
    number = {node: k for k, node in enumerate(collected.nodes)}
    count, width = inner + len(leaves.asks), len(used)
    ceiling, guarantee = np.full((count, width), np.inf), np.zeros((count, width))
    for node, most in bounds.ceilings.items():
        ceiling[number[node]] = [most[j] / capacity[j] if most[j] < capacity[j] else np.inf for j in used]
    for node, reserved in bounds.guarantees.items():
        guarantee[number[node]] = [reserved[j] / capacity[j] for j in used]
    users = {user: k for k, user in enumerate(dict.fromkeys(user for user in leaves.user if user is not None))}
    cap = np.full((len(users), width), np.inf)
    for (queue, name), k in users.items():
        most = bounds.users[queue][name]
        cap[k] = [most[j] / capacity[j] if most[j] < capacity[j] else np.inf for j in used]
    deserved = np.full((count, width), np.inf) if bounds.deserved else None
    for node, named in bounds.deserved.items():
        assert deserved is not None
        deserved[number[node]] = [named[j] / capacity[j] if j in named else np.inf for j in used]
    return SolverLimits(
        ceiling,
        guarantee,
        np.array([-1 if user is None else users[user] for user in leaves.user], dtype=np.int64),
        cap,
        np.array([number[queue] for queue, _ in users], dtype=np.int64),
        deserved,
    )


def _snap(target: float) -> float:
    whole = float(round(target))
    return whole if abs(target - whole) < SNAP else target


def _sum_up(tree: ShareTree, inner: list[ShareNode]) -> None:
    """Sum entitlements up to the inner nodes, which are given parents first."""
    for node in reversed(inner):
        total = [0] * tree.width
        for equals in node.equal_jobs.values():
            number = len(equals.members)
            for j, amount in enumerate(equals.exact):
                total[j] += number * amount
        for child in node.branches.values():
            for j, amount in enumerate(child.exact):
                total[j] += amount
        if node.entitle(total):
            tree.flag(node)
