"""One scheduling cycle, from beginning to end.

    settle     follow up on the events since the last cycle; solve and round the targets if they can have moved
    relieve    nodes that a late write of another replica put over capacity: who came last goes
    mend       gangs of which a crash or a failed bind left a part: the rest gets its place first, or the part goes
    pipelined  start the tasks that waited for room that was being freed and is free now
    actions    in the order of the configuration, each on the one live state:
                 enqueue    Pending jobs become Inqueue: their pods may be created
                 allocate   serve the share tree, unit by unit, until nothing that is left can be placed
                 backfill   tasks that ask for nothing take any place
                 reclaim    owed jobs that find no room take it back from other queues
                 preempt    and from less important work of their own
    conclude   phases of jobs, and what people should know about those that wait

Details live one call down: ``engine`` (settle), ``actions/``, ``transaction`` (how a unit is tried), ``nodes`` (where
it goes), ``takers`` and ``victims`` (who makes way), ``fairness`` (whose turn it is), and in files of these names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pumice.engine.actions import ACTIONS
from pumice.engine.cycle_status import publish_status
from pumice.engine.placement.pipelined_tasks import update_pipelined
from pumice.engine.prepare.prepare_cycle import prepare_cycle
from pumice.engine.recovery.overcommitted_nodes import evict_from_overcommitted_nodes
from pumice.engine.recovery.partial_gangs import repair_partial_gangs

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext


def run_cycle(context: SchedulingContext, on_step: Callable[[str], None]) -> None:
    """Run one cycle; ``context.decided`` collects the decisions and ``on_step`` hears which step begins."""
    on_step("settle")
    prepare_cycle(context)
    on_step("relieve")
    evict_from_overcommitted_nodes(context)
    on_step("mend")
    repair_partial_gangs(context)
    on_step("pipelined")
    update_pipelined(context)
    for name in context.policy.config.actions:
        on_step(name)
        ACTIONS[name](context)
    on_step("conclude")
    context.decided.drop_withdrawn()
    publish_status(context)
    on_step("")
