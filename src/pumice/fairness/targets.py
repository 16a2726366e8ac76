"""From the tree to everybody's target: collect what the solver needs, solve, write entitlements back.

Jobs that are equal in parent, class and demand are one leaf of the solve, as heavy as they are many. Where the
whole demand fits, the target is the demand and nothing is solved. A target within a millionth of a whole number
of tasks is that number, so that arithmetic noise never costs a task.
"""

from __future__ import annotations

import numpy as np

from pumice.fairness.entitlement import solve
from pumice.fairness.tree import EXACT, Demand, JobNode, Kind, ShareNode, ShareTree

SNAP = 1e-6


def set_targets(tree: ShareTree, capacity: list[int]) -> None:
    """Solve the static H-DRF target and set ``target`` of every job and ``entitled`` of every node."""
    jobs = list(tree.jobs.values())
    if _fits(jobs, capacity):
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
    _sum_up(tree)


def _fits(jobs: list[JobNode], capacity: list[int]) -> bool:
    total = [0] * len(capacity)
    for leaf in jobs:
        demand = leaf.demand
        for j, amount in demand.direction:
            total[j] += amount * demand.count
    return all(asked <= offered for asked, offered in zip(total, capacity, strict=True))


def _solve(tree: ShareTree, capacity: list[int]) -> None:
    parent: list[int] = []
    weight: list[float] = []
    groups: list[tuple[int, Demand, list[JobNode]]] = []
    classes: list[tuple[int, ...]] = []
    stack: list[tuple[ShareNode, int]] = [(tree.root, -1)]
    while stack:
        node, above = stack.pop()
        index = len(parent)
        parent.append(above)
        weight.append(node.weight)
        alike: dict[tuple[tuple[int, ...], Demand], list[JobNode]] = {}
        for child in node.children.values():
            if child.kind is not Kind.JOB:
                stack.append((child, index))
            else:
                assert isinstance(child, JobNode)
                child.target = 0.0
                # What the cluster has nothing of (all of it is taken by others' pods) can't be given.
                if child.demand.count and all(capacity[j] > 0 for j, _ in child.demand.direction):
                    alike.setdefault((child.rank_class, child.demand), []).append(child)
        for (rank_class, demand), members in alike.items():
            groups.append((index, demand, members))
            classes.append(rank_class)
    if not groups:
        return
    inner = len(parent)
    used = sorted({j for _, demand, _ in groups for j, _ in demand.direction})
    column = {j: k for k, j in enumerate(used)}
    direction = np.zeros((len(groups), len(used)))
    for row, (_, demand, _) in enumerate(groups):
        for j, amount in demand.direction:
            direction[row, column[j]] = amount / capacity[j]
    parent += [above for above, _, _ in groups]
    weight += [float(len(members)) for _, _, members in groups]
    counts = np.array([float(demand.count * len(members)) for _, demand, members in groups])
    order = {rank_class: k for k, rank_class in enumerate(sorted(set(classes)))}
    tasks = solve(
        np.array(parent),
        np.array(weight),
        np.arange(inner, inner + len(groups)),
        direction,
        counts,
        np.array([order[rank_class] for rank_class in classes]) if len(order) > 1 else None,
    ).tolist()
    for (_, demand, members), total in zip(groups, tasks, strict=True):
        target = _snap(total / len(members), demand)
        for leaf in members:
            leaf.target = target


def _snap(target: float, demand: Demand) -> float:
    if not demand.alike:
        # The target of unlike tasks is a part of the whole demand: near all of it is all of it.
        return 1.0 if target > 1.0 - SNAP / max(1, sum(count for _, count in demand.parts)) else target
    whole = float(round(target))
    return whole if abs(target - whole) < SNAP else target


def _sum_up(tree: ShareTree) -> None:
    """Entitlements of inner nodes: the sums of their children's."""
    inner = [node for node in tree.root.walk() if node.kind is not Kind.JOB]
    for node in reversed(inner):
        columns = zip(*(child.exact for child in node.children.values()), strict=True)
        if node.entitle([sum(column) for column in columns] or [0] * tree.width):
            tree.flag(node)
