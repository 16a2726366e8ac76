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

from typing import TYPE_CHECKING

from pumice.scheduling.actions import ACTIONS
from pumice.scheduling.conclude import conclude
from pumice.scheduling.mend import mend
from pumice.scheduling.pipelined import follow_pipelined
from pumice.scheduling.relieve import relieve

if TYPE_CHECKING:
    from pumice.scheduling.engine import Engine


def run_cycle(engine: Engine) -> None:
    """Run one cycle; the engine collects the decisions."""
    engine.entering("settle")
    engine.settle()
    engine.entering("relieve")
    relieve(engine)
    engine.entering("mend")
    mend(engine)
    engine.entering("pipelined")
    follow_pipelined(engine)
    for name in engine.policy.config.actions:
        engine.entering(name)
        ACTIONS[name](engine)
    engine.entering("conclude")
    engine.forget_withdrawn()
    conclude(engine)
    engine.entering("")
