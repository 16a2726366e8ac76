"""Solve the fluid target: the divisible static H-DRF entitlement of every leaf, without simulation.

The rule, stated as a simulation: start from zero; repeatedly walk from the root to the child with the smallest weighted
share that can still be served, down to a leaf, and give that leaf an infinitesimal amount. A node holds the sum of what
its leaves hold; its share is the largest fraction that it holds of any resource that is not exhausted, divided by its
weight. A leaf that needs an exhausted resource is frozen. Stop when no leaf can be served.

The computation. Until the next resource is exhausted, the holdings of a node's children depend only on the level to
which they have risen together. So each node has a *path*, piecewise linear: what it has received, as a function of its
children's level. It is the sum of the children's own paths; what the node holds at a point determines its share there,
which is the level that its parent sees. The solver builds paths bottom-up and finds on the root's path the first point
where a resource is exhausted. Top-down, that point determines the position of each node on its path and the holding of
each leaf. Leaves that need that resource freeze, and the next phase continues from there: at most one phase per
resource.

A node's share can stay constant while the node is served: the resource that determines it is held by satisfied or
frozen leaves, and other leaves below catch up. The level alone then does not locate the node; a second coordinate does,
the *sliver*: the raw dominant share handed out below the node since its share halted. All siblings that halt at one
level advance through their slivers together while the others wait. So equal increments break ties.

An example, with 10 cpu, 10 mem, tasks of one unit, and weights in brackets:

    root -- A (1) -- c (3): cpu, at most 3 tasks
         |        `- m (1): mem
         `- B (1) -- k (1): mem

    level of A and B   sliver   level of c and m   A holds cpu, mem   B holds mem   mem in all
    0                  0        0                  0    0             0             0
    0.3                0        0.1                0.3  0.1           0.3           0.4
    0.3                0.2      0.3                0.3  0.3           0.3           0.6
    0.5                0        0.5                0.3  0.5           0.5           1

c rises three times as fast as m and is satisfied at 0.3, when m has 0.1. From then on only m is served below A, and A's
share stays at 0.3 until m has caught up; B, at the same level and able to grow, waits. From there A and B rise together
until memory is exhausted: c, m and k are entitled to 3, 5 and 5 tasks.

*Classes.* Leaves of one parent with different ranks are served one after another: a class starts when no leaf of the
class before it can be served. A parent's path is then the concatenation of the paths of its classes, each from its own
level zero. Inner nodes beside such leaves belong to the first class with demand.

*Jobs with heterogeneous tasks.* Such a job is an inner node whose leaves, its pieces (equal tasks, in task order), are
classes: a piece grows when the one before it is satisfied or frozen. Its share is the dominant share of all it holds,
like a leaf's: an exhausted resource still counts, whereas for a group of jobs it no longer does.

*Limits.* When a node or a user reaches a ceiling, the leaves below that need that resource freeze; the resource is not
exhausted in the cluster, so it still counts in shares. Guarantees are served first, the innermost before the enclosing
ones: the same walk, restricted to the leaves that ask for a guaranteed resource, up to the guarantee. Deserved amounts
follow in the same way. The ordinary walk continues from these holdings; an unused guarantee counts as used for
everything outside it, an unused deserved amount does not. ``solver_limits`` determines which limit binds where,
``solver_phase`` keeps paths within the limits.
"""

from __future__ import annotations

import numpy as np

from pumice.engine.fairness.fluid_target.flat_tree import NO_JOB_NODES, FlatTree, JobNodes, flatten_tree
from pumice.engine.fairness.fluid_target.growth_paths import Limited
from pumice.engine.fairness.fluid_target.polyline import BoolArray, FloatArray, IntArray
from pumice.engine.fairness.fluid_target.solver_limits import FULL, Restraint, SolverLimits, restrain
from pumice.engine.fairness.fluid_target.solver_phase import SolverPhase


def solve_targets(
    parent: IntArray,
    weight: FloatArray,
    leaf: IntArray,
    direction: FloatArray,
    demand: FloatArray,
    rank: IntArray | None = None,
    limits: SolverLimits | None = None,
    jobs: JobNodes = NO_JOB_NODES,
) -> FloatArray:
    """The tasks that each leaf is entitled to, as real numbers.

    parent, weight: of every node; parents come before their children, the root has parent -1. leaf: the nodes that are
    leaves. Per leaf, direction: one task's request as fractions of capacity; demand: the maximum number of tasks, may
    be inf; rank: its class among the leaves of its parent, smaller first. A leaf with an empty request gets its demand.
    limits: ceilings of nodes and users, and guarantees of nodes. jobs: inner nodes that are jobs with heterogeneous
    tasks.
    """
    target = demand.astype(np.float64)
    wanting = np.flatnonzero((target > 0) & direction.any(axis=1))
    direction, demand = direction[wanting], target[wanting]
    if limits is None and _fits(direction, demand):
        return target
    if len(wanting) == 0:
        return target
    if leaf[0] == 0:  # the tree is a single leaf
        parent, weight, leaf = np.array([-1, 0]), np.ones(2), np.array([1])
    ranks = np.zeros(len(leaf), dtype=np.int64) if rank is None else rank
    tree, nodes, order = flatten_tree(parent, weight, leaf, wanting, ranks[wanting], jobs)
    direction, demand = direction[order], demand[order]
    restraint = None if limits is None else restrain(limits, tree, nodes, wanting[order], direction, demand)
    if limits is not None and restraint is None and _fits(direction, demand):
        return target
    target[wanting[order]] = _fill(tree, direction, demand, restraint)
    return target


def _fits(direction: FloatArray, demand: FloatArray) -> bool:
    """Whether capacity covers the whole demand, so that there is nothing to divide."""
    if not np.isfinite(demand).all():
        return False
    # Not a matrix product: BLAS libraries sum in an order, and with a rounding, that depend on the machine.
    return bool(((demand[:, None] * direction).sum(axis=0) <= 1).all())


def _fill(tree: FlatTree, direction: FloatArray, demand: FloatArray, restraint: Restraint | None) -> FloatArray:
    """The tasks of each leaf: guarantees first, then deserved amounts, then the rest of the capacity."""
    dominant = direction.max(axis=1)
    unit = direction / dominant[:, None]
    wanted = demand * dominant
    held = np.zeros(len(dominant))
    if restraint is None:
        held = _hand_out(tree, np.column_stack([unit, np.ones(len(dominant))]), held, wanted, direction > 0)
    else:
        rows = restraint.rows(unit)
        for stage in restraint.stages():
            held = _hand_out_within(stage, rows, held, wanted)
    return np.where(held < wanted * (1 - FULL), held / dominant, demand)


def _hand_out(tree: FlatTree, rows: FloatArray, held: FloatArray, wanted: FloatArray, needs: BoolArray) -> FloatArray:
    """The holding of each leaf: hand out capacity, phase by phase, until no leaf can be served."""
    available = np.ones(needs.shape[1], dtype=bool)
    while True:
        hungry = held < wanted * (1 - FULL)
        frozen = needs[:, ~available].any(axis=1)
        active = np.flatnonzero(hungry & ~frozen)
        if len(active) == 0:
            return held
        held, used_up = SolverPhase(tree, rows, held, wanted, active, available).run()
        if not used_up.any():  # then all leaves that could be served are satisfied
            held[active] = wanted[active]
        available &= ~used_up


def _hand_out_within(restraint: Restraint, rows: FloatArray, held: FloatArray, wanted: FloatArray) -> FloatArray:
    """Hand out capacity within limits, starting from the current holdings."""
    width = restraint.width
    available = np.ones(width, dtype=bool)
    while True:
        given = rows[:, :width] * held[:, None]
        closed = restraint.none_closed()
        closed[0, :width] = ~available
        standing = restraint.standing(given, closed)
        used = given.sum(axis=0) if restraint.guaranteeing else standing.sums[0]
        if (used >= 1 - FULL)[available].any():
            available &= used < 1 - FULL
            continue
        active = np.flatnonzero((held < wanted * (1 - FULL)) & ~standing.frozen)
        if len(active) == 0:
            return held
        limited = Limited(restraint, standing, closed, rows, active)
        held, used_up = SolverPhase(restraint.outline, rows, held, wanted, active, available, limited).run()
        if not used_up.any():  # then all leaves are satisfied, or blocked by limits of their own
            return held
        available &= ~used_up
