"""Forgetting: shapes that nobody has any more.

Every request that was never made before is a new shape, and much is kept for it: who sees which nodes, and how good
they are. Jobs come and go, each perhaps with a request of its own. So once there are twice as many shapes as there were
when this was last looked at, those go that no task has: on average that costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext

FIRST_SHAPE_LIMIT = 1000
"""So many are kept in any case."""


def drop_unused_shapes(context: SchedulingContext) -> None:
    """Drop the shapes that no task has and nothing is known of, once there are more than ``shape_limit``."""
    if len(context.state.shapes) <= context.shape_limit:
        return
    used = {task.shape for task in context.state.tasks.values()}
    used.update(context.candidates.units.of_shape)  # units that were tried in vain are remembered for a while
    for kept in (context.state.shapes, context.candidates, context.nodes):
        kept.keep_shapes(used)
    context.shape_limit = max(FIRST_SHAPE_LIMIT, 2 * len(used))
