"""One scheduling cycle, from beginning to end.

    settle     follow the events since the last cycle; solve and round the targets if they can differ
    relieve    nodes that a late write of another replica overcommitted: evict the pods that arrived last
    mend       gangs of which a crash or a failed bind left a part: place the rest first, or evict the part
    pipelined  bind the tasks whose victims have left their node
    actions    in the order of the configuration, each on the one live state:
                 enqueue    Pending jobs become Inqueue: their pods may be created
                 allocate   serve the share tree, unit by unit, until nothing that is left can be placed
                 backfill   place tasks that request nothing
                 reclaim    owed jobs that cannot be placed take back from other queues
                 preempt    and from less important work of their own queue
    conclude   phases of jobs, and conditions of those that wait

Details are one call down: ``prepare`` (settle), ``recovery`` (relieve, mend), ``actions``, ``transaction`` (how a unit
is tried), ``placement`` (on which node), ``preemption`` (which tasks are evicted), ``fairness`` (which job is next).
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
