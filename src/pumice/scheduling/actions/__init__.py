"""Actions: the steps of a cycle. Each is a function of the engine that decides by transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pumice.scheduling.actions.allocate import allocate
from pumice.scheduling.actions.backfill import backfill
from pumice.scheduling.actions.enqueue import enqueue
from pumice.scheduling.actions.preempt import preempt
from pumice.scheduling.actions.reclaim import reclaim

if TYPE_CHECKING:
    from pumice.scheduling.context import SchedulingContext

ACTIONS: Mapping[str, Callable[[SchedulingContext], None]] = {
    "enqueue": enqueue,
    "allocate": allocate,
    "backfill": backfill,
    "reclaim": reclaim,
    "preempt": preempt,
}
