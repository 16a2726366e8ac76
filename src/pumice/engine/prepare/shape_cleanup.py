"""Cleanup of task shapes that no task has any more.

Every new combination of requests and constraints is a new shape, for which the node table and the candidates keep
state. Jobs come and go, each perhaps with a shape of its own. Unused shapes are therefore dropped once there are twice
as many shapes as after the last cleanup, which makes the amortized cost constant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext

FIRST_SHAPE_LIMIT = 1000
"""No cleanup below this number of shapes."""


def drop_unused_shapes(context: SchedulingContext) -> None:
    """Drop the shapes that neither a task nor a unit has, once there are more than ``shape_limit``."""
    if len(context.state.shapes) <= context.shape_limit:
        return
    used = {task.shape for task in context.state.tasks.values()}
    used.update(shape for job in context.state.successions.jobs for shape in job.unreplaced)
    used.update(context.candidates.units.of_shape)  # failed units are remembered for a while
    for kept in (context.state.shapes, context.candidates, context.nodes):
        kept.keep_shapes(used)
    for plugin in context.policy.shape_caches:
        plugin.keep_shapes(used)
    context.shape_limit = max(FIRST_SHAPE_LIMIT, 2 * len(used))
