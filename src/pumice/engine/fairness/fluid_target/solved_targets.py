"""A solve of which the result may be used again.

A leaf whose target is below its demand has been stopped by a resource of which nothing was left. How much more it asks
for had no effect, so a change of that is no reason to solve again: a long line of equal tasks gets shorter with each
that ends, and its target stays.
"""

from __future__ import annotations

import numpy as np

from pumice.engine.fairness.fluid_target.polyline import FloatArray
from pumice.engine.fairness.fluid_target.solver_input import Collected

MARGIN = 1.0
"""The tasks by which a target must be below the demand, so that no rounding of the solver has met it."""


class SolvedTargets:
    """The input of a solve without limits, and its result."""

    def __init__(self, collected: Collected, tasks: FloatArray) -> None:
        self._input = collected
        self.tasks = tasks

    def answers(self, collected: Collected) -> bool:
        """Whether the solver would give the same targets for this input."""
        before = self._input
        return (
            np.array_equal(collected.parent, before.parent)
            and np.array_equal(collected.weight, before.weight)
            and np.array_equal(collected.direction, before.direction)
            and np.array_equal(collected.rank, before.rank)
            and np.array_equal(collected.job_node, before.job_node)
            and np.array_equal(collected.job_rank, before.job_rank)
            and self._demand_has_no_effect(collected)
        )

    def _demand_has_no_effect(self, collected: Collected) -> bool:
        """Whether the demands are equal, or differ only where more is asked for than there is."""
        before = self._input
        if len(collected.job_node):  # the pieces of a job follow one another: what stopped one may not stop the next
            return np.array_equal(collected.count, before.count)
        least = np.minimum(collected.count, before.count)
        return bool(((collected.count == before.count) | (self.tasks + MARGIN <= least)).all())
