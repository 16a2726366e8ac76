"""Set the fluid targets of the share tree: collect the solver's input, solve, and write the entitlements back.

Jobs that are equal in parent, class, demand and, where users are limited, user form one leaf of the solver, with their
number as its weight; a job with heterogeneous tasks is an inner node with a leaf for each piece of its demand. If the
whole demand fits and nothing is limited, the target is the demand and nothing is solved. A target within a millionth of
an integer number of tasks is set to that integer, so that arithmetic noise never costs a task.
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
from pumice.engine.fairness.share_tree.tree import EXACT, JobNode, NodeKind, ShareNode, ShareTree
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
    jobs = list(tree.jobs.values())
    inner = [node for node in tree.root.walk() if node.kind is not NodeKind.JOB]
    tree.bounds = bounds_of(inner, capacity)
    if tree.bounds is None and _fits(jobs, capacity):
        for leaf in jobs:
            _entitle(tree, [leaf], leaf.demand.satisfied)
    else:
        _solve(tree, capacity)
    _sum_up(tree, inner)


def _entitle(tree: ShareTree, members: list[JobNode], targets: tuple[float, ...]) -> None:
    """Write these targets to the jobs of each group.

    The last bits of a target depend on the order of summation. Rounding to a grid here removes them once, and every
    later sum is exact: what is equal mathematically is equal here.
    """
    for leaf in members:
        if leaf.entitled_by is not leaf.demand or leaf.targets != targets:
            break
    else:
        return
    exact = [0] * tree.width
    for (items, _), tasks in zip(members[0].demand.pieces, targets, strict=True):
        grid = round(tasks * EXACT)
        for j, amount in items:
            exact[j] += grid * amount
    for leaf in members:
        leaf.targets, leaf.entitled_by = targets, leaf.demand
        if exact != leaf.exact:
            leaf.entitle(list(exact))
            tree.flag(leaf)
            tree.moved[leaf] = None


def _fits(jobs: list[JobNode], capacity: list[int]) -> bool:
    total = [0] * len(capacity)
    for leaf in jobs:
        for j, amount in leaf.demand.total:
            total[j] += amount
    return all(asked <= offered for asked, offered in zip(total, capacity, strict=True))


User = tuple[ShareNode, str]


@dataclass(slots=True)
class _Collected:
    """The solver's input from the tree: nodes, parents first, and groups of equal jobs."""

    nodes: list[ShareNode] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    groups: list[tuple[int, Demand, list[JobNode]]] = field(default_factory=list)  # parent, demand, jobs
    classes: list[tuple[int, ...]] = field(default_factory=list)
    users: list[User | None] = field(default_factory=list)


def _collect(tree: ShareTree, capacity: list[int]) -> _Collected:
    bounds = tree.bounds if tree.bounds is not None and tree.bounds.users else None
    all_ = _Collected()
    stack: list[tuple[ShareNode, int]] = [(tree.root, -1)]
    while stack:
        node, above = stack.pop()
        index = len(all_.nodes)
        all_.nodes.append(node)
        all_.parent.append(above)
        alike: dict[tuple[tuple[int, ...], Demand, User | None], list[JobNode]] = {}
        for child in node.children.values():
            if child.kind is not NodeKind.JOB:
                stack.append((child, index))
            else:
                assert isinstance(child, JobNode)
                # A resource of which the cluster has none left (other schedulers' pods hold all of it) cannot be given.
                if any(all(capacity[j] > 0 for j, _ in items) for items, _ in child.demand.pieces):
                    user = bounds.user_of(child) if bounds is not None else None
                    alike.setdefault((child.rank_class, child.demand, user), []).append(child)
                else:
                    _entitle(tree, [child], (0.0,) * len(child.demand.pieces))
        for (rank_class, demand, user), members in alike.items():
            all_.groups.append((index, demand, members))
            all_.classes.append(rank_class)
            all_.users.append(user)
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
    order = {rank_class: k for k, rank_class in enumerate(sorted(set(collected.classes)))}
    parent = list(collected.parent)
    weight = [node.weight for node in collected.nodes]
    leaves = _Leaves()
    job_node: list[int] = []
    job_rank: list[int] = []
    for number, (above, demand, members) in enumerate(collected.groups):
        rank = order[collected.classes[number]]
        pieces = [(k, *piece) for k, piece in enumerate(demand.pieces) if all(capacity[j] > 0 for j, _ in piece[0])]
        if len(pieces) > 1:
            job_node.append(len(parent))
            job_rank.append(rank)
            parent.append(above)
            weight.append(float(len(members)))
        for k, items, count in pieces:
            leaves.parent.append(job_node[-1] if len(pieces) > 1 else above)
            leaves.asks.append(items)
            leaves.count.append(float(count * len(members)))
            leaves.members.append(len(members))
            leaves.rank.append(k if len(pieces) > 1 else rank)
            leaves.user.append(collected.users[number])
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
    targets = [[0.0] * len(demand.pieces) for _, demand, _ in collected.groups]
    for (number, k), total in zip(leaves.place, tasks, strict=True):
        targets[number][k] = _snap(total / len(collected.groups[number][2]))
    for (_, _, members), pieces_of in zip(collected.groups, targets, strict=True):
        _entitle(tree, members, tuple(pieces_of))


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
        columns = zip(*(child.exact for child in node.children.values()), strict=True)
        if node.entitle([sum(column) for column in columns] or [0] * tree.width):
            tree.flag(node)
