"""One scheduling cycle, from beginning to end.

Each step, by the name that ``on_step`` reports:

    prepare         process the events since the last cycle; solve and round the targets if they can have moved
    relieve-nodes   evict the latest pods from nodes that a late write of a former leader overcommitted
    repair-gangs    complete gangs that a crash or a failed bind left partially bound, or evict their part
    pipelined       start the pipelined tasks whose awaited capacity is free now
    actions         in the order of the configuration, each on the one live state:
                      enqueue    Pending jobs become Inqueue: their pods may be created
                      allocate   serve the share tree, unit by unit, until no remaining unit can be placed
                      backfill   place best-effort tasks on any node
                      reclaim    owed jobs that do not fit evict from queues above their share
                      preempt    and from less important work of their own queue
    publish-status  the phases of jobs, and conditions for those that wait

Details: ``prepare``, ``recovery`` (relieve-nodes, repair-gangs), ``actions``, ``transaction`` (how a unit is tried),
``placement`` (on which node), ``preemption`` (preemptors and victims), ``fairness`` (which job is next) and
``cycle_status`` (publish-status).
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
    """Run one cycle; ``context.decided`` collects the decisions, and each step calls ``on_step`` as it begins."""
    on_step("prepare")
    prepare_cycle(context)
    on_step("relieve-nodes")
    evict_from_overcommitted_nodes(context)
    on_step("repair-gangs")
    repair_partial_gangs(context)
    on_step("pipelined")
    update_pipelined(context)
    for name in context.policy.config.actions:
        on_step(name)
        ACTIONS[name](context)
    on_step("publish-status")
    context.decided.drop_withdrawn()
    publish_status(context)
    on_step("")
