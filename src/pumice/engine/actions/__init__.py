"""Actions: the configurable steps of a cycle. Each is a function of the context that decides by transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pumice.engine.actions.allocate import allocate
from pumice.engine.actions.backfill import backfill
from pumice.engine.actions.enqueue import enqueue
from pumice.engine.actions.preempt import preempt
from pumice.engine.actions.reclaim import reclaim

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext

ACTIONS: Mapping[str, Callable[[SchedulingContext], None]] = {
    "enqueue": enqueue,
    "allocate": allocate,
    "backfill": backfill,
    "reclaim": reclaim,
    "preempt": preempt,
}
