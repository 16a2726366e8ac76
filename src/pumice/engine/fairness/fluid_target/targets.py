"""Set the fluid targets of the share tree: collect the solver's input, solve, and write the entitlements back.

Jobs that are equal in parent, class, demand and, where users are limited, user form one leaf of the solver, with their
number as its weight, so that a solve looks at groups of equal jobs (see ``equal_jobs``) and not at jobs. A job with
heterogeneous tasks is an inner node with a leaf for each piece of its demand. If the whole demand fits and nothing is
limited, the target is the demand and nothing is solved. A target within a millionth of an integer number of tasks is
set to that integer, so that arithmetic noise never costs a task.

What is known from the last time is kept at the tree (``KnownTargets``): the sums of demand and entitlement of each
inner node, and the leaves below it as arrays. Only nodes whose jobs have changed are collected again, and only groups
whose target differs from before are entitled again.
"""

from __future__ import annotations

import numpy as np

from pumice.engine.fairness.fluid_target.flat_tree import JobNodes
from pumice.engine.fairness.fluid_target.polyline import FloatArray
from pumice.engine.fairness.fluid_target.solved_targets import SolvedTargets
from pumice.engine.fairness.fluid_target.solver import solve_targets
from pumice.engine.fairness.fluid_target.solver_bounds import SolverBounds, bounds_of
from pumice.engine.fairness.fluid_target.solver_input import Collected, LeafTable, NodeLeaves
from pumice.engine.fairness.fluid_target.solver_limits import SolverLimits
from pumice.engine.fairness.limits.user_limits import cap_users
from pumice.engine.fairness.share_tree.equal_jobs import EXACT, EqualJobs
from pumice.engine.fairness.share_tree.share_node import ShareNode
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.engine.fairness.share_tree.tree_levels import levels_above

SNAP = 1e-6


class KnownTargets:
    """What the next solve of a tree may take over from the last one."""

    def __init__(self, inner: list[ShareNode]) -> None:
        self.inner = inner  # parents first
        self.asked = [0] * len(inner[0].held)  # the demand of all jobs
        self.asked_below: dict[ShareNode, list[int]] = {}  # of the jobs that are children of a node
        self.given_below: dict[ShareNode, list[int]] = {}  # and their entitlement
        self.taken_back: dict[ShareNode, list[int]] = {}  # what was entitled below nodes that have left their parent
        self.satisfied = False  # whether every job was entitled to its demand
        self.leaves: dict[ShareNode, NodeLeaves] = {}
        self.capacity: list[int] = []  # for which they were collected
        self.table: LeafTable | None = None  # the same of all nodes; None: to be put together
        self.outdated: LeafTable | None = None  # a table for other inner nodes
        self.solved: SolvedTargets | None = None  # the last solve, if nothing was limited in it

    def follow_branches(self, inner: list[ShareNode]) -> None:
        """Take over the inner nodes after namespaces came or went: forget those that went, with what they asked for."""
        self.inner = inner
        self.outdated, self.table = self.table or self.outdated, None
        for node in [node for node in self.asked_below if node.gone]:
            for j, amount in enumerate(self.asked_below.pop(node)):
                self.asked[j] -= amount
            given = self.given_below.pop(node)
            assert node.parent is not None
            _add(self.taken_back, node.parent, [-amount for amount in given])
            self.leaves.pop(node, None)

    def forget_leaves(self) -> None:
        """Collect the leaves of all nodes anew."""
        self.leaves.clear()
        self.table = self.outdated = None


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
    known: KnownTargets | None = tree.known_targets
    if known is None or tree.reshaped:
        known = tree.known_targets = KnownTargets(list(tree.root.walk_inner()))
        changed = known.inner
    elif tree.branched:
        known.follow_branches(list(tree.root.walk_inner()))
        regrouped = tree.regrouped_below
        changed = [node for node in known.inner if node in regrouped or node not in known.asked_below]
    else:
        changed = [node for node in tree.regrouped_below if not node.gone]
    tree.reshaped = tree.branched = False
    tree.regrouped_below.clear()
    tree.bounds = bounds_of(known.inner, capacity)
    _sum_demand(known, changed)
    moved: dict[ShareNode, None] = dict.fromkeys(changed)
    if tree.bounds is None and all(asked <= there for asked, there in zip(known.asked, capacity, strict=True)):
        for node in changed if known.satisfied else known.inner:
            for equals in node.equal_jobs.values():
                _entitle(tree, [equals], equals.demand.satisfied, moved)
        known.satisfied = True
    else:
        if known.satisfied:
            known.forget_leaves()  # jobs have other targets meanwhile
        _solve(tree, capacity, known, changed, moved)
        known.satisfied = False
    _sum_up(tree, known, moved)


def _sum_demand(known: KnownTargets, changed: list[ShareNode]) -> None:
    """Bring the demand of all jobs up to date."""
    for node in changed:
        total = [0] * len(known.asked)
        for equals in node.equal_jobs.values():
            number = len(equals.members)
            for j, amount in equals.demand.total:
                total[j] += number * amount
        before = known.asked_below.get(node)
        known.asked_below[node] = total
        for j, amount in enumerate(total):
            known.asked[j] += amount - (before[j] if before is not None else 0)


def _entitle(tree: ShareTree, group: list[EqualJobs], targets: tuple[float, ...], nodes: dict[ShareNode, None]) -> None:
    """Entitle each job of a group to these targets, and add their parents to ``nodes`` if they change.

    The last bits of a target depend on the order of summation. Rounding to a grid here removes them once, and every
    later sum is exact: what is equal mathematically is equal here.
    """
    for equals in group:
        if equals.targets != targets or equals.joined:
            break
    else:
        return
    exact = [0] * tree.width
    for (items, _), tasks in zip(group[0].demand.pieces, targets, strict=True):
        grid = round(tasks * EXACT)
        for j, amount in items:
            exact[j] += grid * amount
    for equals in group:
        equals.targets = targets
        if equals.entitle(exact):
            tree.entitled_anew[equals] = None
            nodes[equals.parent] = None
            for leaf in equals.members.values():
                tree.flag(leaf)
        for leaf, before in equals.joined:
            if before != exact:
                tree.moved[leaf] = None
                tree.flag(leaf)
        equals.joined.clear()


def _solve(
    tree: ShareTree,
    capacity: list[int],
    known: KnownTargets,
    changed: list[ShareNode],
    moved: dict[ShareNode, None],
) -> None:
    """Solve the targets, and entitle the groups whose target differs from the last solve."""
    users = tree.bounds.users if tree.bounds is not None else {}
    if users or capacity != known.capacity:
        known.forget_leaves()
        known.capacity = list(capacity)
    fresh: dict[ShareNode, NodeLeaves] = {}
    for node in changed if known.leaves else known.inner:
        fresh[node] = leaves = NodeLeaves(node, capacity, users.get(node.queue, ()) if users else ())
        for equals in leaves.never:
            _entitle(tree, [equals], (0.0,) * len(equals.demand.pieces), moved)
    known.leaves.update(fresh)
    table = known.table
    if table is None:
        table = known.table = LeafTable(known.inner, known.leaves, known.capacity, known.outdated)
        known.outdated = None
    else:
        table.replace(fresh)
    if not len(table.tasks):
        return
    collected = table.collected()
    if tree.bounds is not None:
        known.solved = None
        tasks = _solve_collected(collected, _limits(tree.bounds, table, len(collected.parent), capacity))
    elif known.solved is not None and known.solved.answers(collected):
        tasks = known.solved.tasks
    else:
        tasks = _solve_collected(collected, None)
        known.solved = SolvedTargets(collected, tasks)
    for_each = _snap(tasks / collected.members)
    targets: list[float] = for_each.tolist()
    for group, first in table.groups_of(collected, table.tasks != for_each):
        pieces = [0.0] * len(group.demand.pieces)
        for leaf, k in enumerate(group.pieces, first):
            pieces[k] = targets[leaf]
        _entitle(tree, group.equals, tuple(pieces), moved)
    table.tasks = for_each
    if users:
        known.forget_leaves()  # which jobs form a group depends on the users that are limited


def _solve_collected(collected: Collected, limits: SolverLimits | None) -> FloatArray:
    """The targets of the leaves, for each group together."""
    return solve_targets(
        collected.parent,
        collected.weight,
        np.arange(collected.inner, len(collected.parent)),
        collected.direction,
        collected.count,
        collected.rank if collected.rank.any() else None,
        limits,
        JobNodes(collected.job_node, collected.job_rank),
    )


def _limits(bounds: SolverBounds, table: LeafTable, count: int, capacity: list[int]) -> SolverLimits:
    """The bounds of so many nodes and leaves in the solver's form: fractions of capacity, for the resources in use."""
    number, used = table.number, table.used
    user_of = [group.user for group in table.groups() for _ in group.pieces]
    width = len(used)
    ceiling, guarantee = np.full((count, width), np.inf), np.zeros((count, width))
    for node, most in bounds.ceilings.items():
        ceiling[number[node]] = [most[j] / capacity[j] if most[j] < capacity[j] else np.inf for j in used]
    for node, reserved in bounds.guarantees.items():
        guarantee[number[node]] = [reserved[j] / capacity[j] for j in used]
    users = {user: k for k, user in enumerate(dict.fromkeys(user for user in user_of if user is not None))}
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
        np.array([-1 if user is None else users[user] for user in user_of], dtype=np.int64),
        cap,
        np.array([number[queue] for queue, _ in users], dtype=np.int64),
        deserved,
    )


def _snap(targets: FloatArray) -> FloatArray:
    whole = np.rint(targets)
    return np.where(np.abs(targets - whole) < SNAP, whole, targets)


def _sum_up(tree: ShareTree, known: KnownTargets, moved: dict[ShareNode, None]) -> None:
    """Sum entitlements up to the inner nodes, from those whose jobs are entitled to something else."""
    anew = not known.given_below
    more, known.taken_back = known.taken_back, {}
    for node in moved:
        total = [0] * tree.width
        for equals in node.equal_jobs.values():
            number = len(equals.members)
            for j, amount in enumerate(equals.exact):
                if amount:
                    total[j] += number * amount
        before = known.given_below.get(node)
        known.given_below[node] = total
        if before is None:
            _add(more, node, total)
        elif total != before:
            _add(more, node, [new - old for new, old in zip(total, before, strict=True)])
    for nodes in reversed(levels_above(list(more))):
        for node in nodes:
            amounts = more[node]
            if node.parent is not None:
                _add(more, node.parent, amounts)
            if not anew:
                amounts = [old + change for old, change in zip(node.exact, amounts, strict=True)]
            if node.entitle(amounts):
                tree.flag(node)


def _add(sums: dict[ShareNode, list[int]], node: ShareNode, amounts: list[int]) -> None:
    total = sums.get(node)
    if total is None:
        sums[node] = list(amounts)
    else:
        for j, amount in enumerate(amounts):
            total[j] += amount
