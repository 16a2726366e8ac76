"""What every leaf of the share tree is entitled to: the divisible static H-DRF target, without simulation.

The rule as a story: start from zero; again and again walk from the root to the child with the smallest
weighted share that can still be served, down to a leaf, and give that leaf a drop. A node holds the sum of
what its leaves hold; its share is the largest fraction it holds of any resource that is not used up, over
its weight. Whoever needs a resource that is used up is frozen. Stop when nobody can be served.

The same, computed. As long as no further resource is used up, what the children of a node hold depends only
on the level to which they have risen together. So each node has a *path*, piecewise linear: what it has
been given, by its children's level. It is the sum of the children's own paths; and from what the node holds
at a point follows its share there, which is the level that its parent sees. Paths are made bottom-up. On
the root's path the first point is found where a resource is used up; top-down that gives each node its
place on its path, and each leaf what it holds. Those who need that resource freeze, and the next phase goes
on from there: at most one phase for each resource.

A share can stand still while its node is served: the resource that makes it is held by leaves that are
satisfied or frozen, and others below catch up. The level alone does not tell then how far the node has
come; a second coordinate does, the *sliver*: the raw dominant share handed out below the node since its
share came to a halt. All siblings that halt at one level go through their slivers together, the others
wait. So ties are broken by equal drops.

An example, with 10 cpu, 10 mem, tasks of one unit, and weights in brackets:

    root -- A (1) -- c (3): cpu, at most 3 tasks
         |        `- m (1): mem
         `- B (1) -- k (1): mem

    level of A and B   sliver   level of c and m   A holds cpu, mem   B holds mem   mem in all
    0                  0        0                  0    0             0             0
    0.3                0        0.1                0.3  0.1           0.3           0.4
    0.3                0.2      0.3                0.3  0.3           0.3           0.6
    0.5                0        0.5                0.3  0.5           0.5           1

c rises three times as fast as m and is satisfied at 0.3, when m has 0.1. Now only m is served below A, and
A's share stands at 0.3 until m has caught up; B, no higher and able to move on, waits. From there A and B
rise together until memory is used up: c, m and k are entitled to 3, 5 and 5 tasks.

*Classes.* Leaves of one parent with different ranks are served one after another: the next when nobody of
the one before can be. A parent's path is then the paths of its classes end to end, each from its own level
zero. Inner nodes beside such leaves belong to the first class that wants anything.

*Jobs of unlike tasks.* Such a job is an inner node whose leaves, its pieces (equal tasks, in task order), are classes:
the next piece grows when the one before is satisfied or frozen. Its share is the dominant share of all it holds, as a
leaf's is: a resource that is used up still counts, where for a group of jobs it no longer does.

*Limits.* A ceiling that is reached, of a node or of a user, freezes those below who need that resource; it is
not used up in the cluster, so it still counts in shares. Guarantees are served first, the innermost before
those around them: the same walk, of those who ask for something guaranteed, as far as the guarantee goes. Then
comes what queues deserve, likewise. The ordinary walk goes on from what everybody holds then; what is
guaranteed and not used is used up for all others, what is deserved and not used is not. ``limits`` says who is
held back by what, ``phase`` how paths keep within it.
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

    parent, weight: of every node; parents come before their children, the root has parent -1. leaf: which
    nodes are leaves. Of each leaf, direction: one task's request as fractions of capacity; demand: the most
    tasks, may be inf; rank: its class among the leaves of its parent, smaller first. A leaf that asks for
    nothing gets its demand. limits: what nodes and users may have, and what nodes are guaranteed. jobs: inner nodes
    that are jobs of unlike tasks.
    """
    target = demand.astype(np.float64)
    wanting = np.flatnonzero((target > 0) & direction.any(axis=1))
    direction, demand = direction[wanting], target[wanting]
    if limits is None and _fits(direction, demand):
        return target
    if len(wanting) == 0:
        return target
    if leaf[0] == 0:  # nothing but a root that is a leaf
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
    """Whether capacity holds the whole demand, so that there is nothing to share out."""
    if not np.isfinite(demand).all():
        return False
    # Not a matrix product: libraries for those add up in an order, and with a rounding, that depend on the machine.
    return bool(((demand[:, None] * direction).sum(axis=0) <= 1).all())


def _fill(tree: FlatTree, direction: FloatArray, demand: FloatArray, restraint: Restraint | None) -> FloatArray:
    """The tasks of each leaf: guarantees first, then what is deserved, then all that is left."""
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
    """What each leaf holds: hand out capacity, phase by phase, until nobody can be served."""
    available = np.ones(needs.shape[1], dtype=bool)
    while True:
        hungry = held < wanted * (1 - FULL)
        frozen = needs[:, ~available].any(axis=1)
        active = np.flatnonzero(hungry & ~frozen)
        if len(active) == 0:
            return held
        held, used_up = SolverPhase(tree, rows, held, wanted, active, available).run()
        if not used_up.any():  # then all who could be served are satisfied
            held[active] = wanted[active]
        available &= ~used_up


def _hand_out_within(restraint: Restraint, rows: FloatArray, held: FloatArray, wanted: FloatArray) -> FloatArray:
    """The same within limits, from what everybody holds."""
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
        if not used_up.any():  # then all are satisfied, or held back by limits of their own
            return held
        available &= ~used_up
