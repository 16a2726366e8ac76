"""From the tree to everybody's target: collect what the solver needs, solve, write entitlements back.

Jobs that are equal in parent, class, demand and, where users are limited, user are one leaf of the solve, as heavy
as they are many. Where the whole demand fits, and nothing is limited, the target is the demand and nothing is
solved. A target within a millionth of a whole number of tasks is that number, so that arithmetic noise never costs
a task.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pumice.fairness.bounds import Bounds, bounds_of
from pumice.fairness.entitlement import solve
from pumice.fairness.limits import Limits
from pumice.fairness.tree import EXACT, Demand, JobNode, Kind, ShareNode, ShareTree
from pumice.fairness.users import cap_users

SNAP = 1e-6


def set_targets(tree: ShareTree, capacity: list[int]) -> None:
    """Solve the static H-DRF target and set ``target`` of every job and ``entitled`` of every node.

    What a user may be entitled to depends on what the queue is entitled to if nobody slows its users down: where
    queues have a limit of that kind, that is solved first.
    """
    limited = tree.limited.values()
    cap_users(limited, solved=False)
    if any(queue.rule.percent is not None for queue in limited):
        _set_targets(tree, capacity)
        cap_users(limited, solved=True)
    _set_targets(tree, capacity)


def _set_targets(tree: ShareTree, capacity: list[int]) -> None:
    jobs = list(tree.jobs.values())
    inner = [node for node in tree.root.walk() if node.kind is not Kind.JOB]
    tree.bounds = bounds_of(inner, capacity)
    if tree.bounds is None and _fits(jobs, capacity):
        for leaf in jobs:
            leaf.target = float(leaf.demand.count)
    else:
        _solve(tree, capacity)
    width = tree.width
    for leaf in jobs:
        # The last bits of a target depend on the order of summation: they are taken out once, on a grid, and every
        # sum from there on is exact. What is equal in truth is equal here.
        grid = round(leaf.target * EXACT)
        exact = [0] * width
        for j, amount in leaf.demand.direction:
            exact[j] = grid * amount
        if leaf.entitle(exact):
            tree.flag(leaf)
    _sum_up(tree, inner)


def _fits(jobs: list[JobNode], capacity: list[int]) -> bool:
    total = [0] * len(capacity)
    for leaf in jobs:
        demand = leaf.demand
        for j, amount in demand.direction:
            total[j] += amount * demand.count
    return all(asked <= offered for asked, offered in zip(total, capacity, strict=True))


User = tuple[ShareNode, str]


@dataclass(slots=True)
class _Collected:
    """What the solver needs of the tree: nodes, parents first, and groups of equal jobs."""

    nodes: list[ShareNode] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    groups: list[tuple[int, Demand, list[JobNode]]] = field(default_factory=list)
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
            if child.kind is not Kind.JOB:
                stack.append((child, index))
            else:
                assert isinstance(child, JobNode)
                child.target = 0.0
                # What the cluster has nothing of (all of it is taken by others' pods) can't be given.
                if child.demand.count and all(capacity[j] > 0 for j, _ in child.demand.direction):
                    user = bounds.user_of(child) if bounds is not None else None
                    alike.setdefault((child.rank_class, child.demand, user), []).append(child)
        for (rank_class, demand, user), members in alike.items():
            all_.groups.append((index, demand, members))
            all_.classes.append(rank_class)
            all_.users.append(user)
    return all_


def _solve(tree: ShareTree, capacity: list[int]) -> None:
    collected = _collect(tree, capacity)
    groups, classes = collected.groups, collected.classes
    if not groups:
        return
    inner = len(collected.nodes)
    used = sorted({j for _, demand, _ in groups for j, _ in demand.direction})
    column = {j: k for k, j in enumerate(used)}
    direction = np.zeros((len(groups), len(used)))
    for row, (_, demand, _) in enumerate(groups):
        for j, amount in demand.direction:
            direction[row, column[j]] = amount / capacity[j]
    parent = collected.parent + [above for above, _, _ in groups]
    weight = [node.weight for node in collected.nodes] + [float(len(members)) for _, _, members in groups]
    counts = np.array([float(demand.count * len(members)) for _, demand, members in groups])
    order = {rank_class: k for k, rank_class in enumerate(sorted(set(classes)))}
    tasks = solve(
        np.array(parent),
        np.array(weight),
        np.arange(inner, inner + len(groups)),
        direction,
        counts,
        np.array([order[rank_class] for rank_class in classes]) if len(order) > 1 else None,
        None if tree.bounds is None else _limits(tree.bounds, collected, used, capacity),
    ).tolist()
    for (_, demand, members), total in zip(groups, tasks, strict=True):
        target = _snap(total / len(members), demand)
        for leaf in members:
            leaf.target = target


def _limits(bounds: Bounds, collected: _Collected, used: list[int], capacity: list[int]) -> Limits:
    """The bounds as the solver wants them: fractions of capacity, of the resources that anybody uses."""
    number = {node: k for k, node in enumerate(collected.nodes)}
    count, width = len(collected.nodes) + len(collected.groups), len(used)
    ceiling, guarantee = np.full((count, width), np.inf), np.zeros((count, width))
    for node, most in bounds.ceilings.items():
        ceiling[number[node]] = [most[j] / capacity[j] if most[j] < capacity[j] else np.inf for j in used]
    for node, reserved in bounds.guarantees.items():
        guarantee[number[node]] = [reserved[j] / capacity[j] for j in used]
    users = {user: k for k, user in enumerate(dict.fromkeys(user for user in collected.users if user is not None))}
    cap = np.full((len(users), width), np.inf)
    for (queue, name), k in users.items():
        most = bounds.users[queue][name]
        cap[k] = [most[j] / capacity[j] if most[j] < capacity[j] else np.inf for j in used]
    deserved = np.full((count, width), np.inf) if bounds.deserved else None
    for node, named in bounds.deserved.items():
        assert deserved is not None
        deserved[number[node]] = [named[j] / capacity[j] if j in named else np.inf for j in used]
    return Limits(
        ceiling,
        guarantee,
        np.array([-1 if user is None else users[user] for user in collected.users], dtype=np.int64),
        cap,
        np.array([number[queue] for queue, _ in users], dtype=np.int64),
        deserved,
    )


def _snap(target: float, demand: Demand) -> float:
    if not demand.alike:
        # The target of unlike tasks is a part of the whole demand: near all of it is all of it.
        return 1.0 if target > 1.0 - SNAP / max(1, sum(count for _, count in demand.parts)) else target
    whole = float(round(target))
    return whole if abs(target - whole) < SNAP else target


def _sum_up(tree: ShareTree, inner: list[ShareNode]) -> None:
    """Entitlements of inner nodes, given parents first: the sums of their children's."""
    for node in reversed(inner):
        columns = zip(*(child.exact for child in node.children.values()), strict=True)
        if node.entitle([sum(column) for column in columns] or [0] * tree.width):
            tree.flag(node)
