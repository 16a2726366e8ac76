"""What queues say of themselves: what they hold and are entitled to, and how many podgroups they have in which phase.

The engine knows all of it. It is counted in one pass over jobs and tree when something has moved, at most so often, and
written only where it differs from what was written before. A parent counts for its whole subtree.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pumice.fairness.tree import ShareNode
from pumice.kube.feed import Change
from pumice.kube.resources import QUEUES
from pumice.model.objects import JobPhase
from pumice.model.resources import dominant_share

if TYPE_CHECKING:
    from pumice.scheduling.engine import Engine
    from pumice.service.hands import Hands

EVERY = 1.0
"""Seconds between two looks."""

Status = dict[str, Any]


class Queues:
    """Keeps the status of queues."""

    def __init__(self, hands: Hands, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._hands = hands
        self._written: dict[str, Status] = {}
        self._next = 0.0
        self._moved = True

    def refresh(self, engine: Engine, changes: Iterable[Change[Any]], *, moved: bool) -> None:
        """Look at the queues, if something has moved and the last look is long enough ago."""
        for change in changes:
            if change.resource == QUEUES.name and (change.old is None or change.new is None):
                self._written.pop(change.key, None)  # another one of that name has no status yet
        self._moved = self._moved or moved
        if not self._moved or self._clock() < self._next:
            return
        self._moved, self._next = False, self._clock() + EVERY
        found = statuses(engine)
        for name in self._written.keys() - found.keys():
            del self._written[name]
        for name, status in found.items():
            if self._written.get(name) != status:
                self._written[name] = status
                self._hands.write_queue(name, status)


def statuses(engine: Engine) -> dict[str, Status]:
    """The status of every queue that has an object, by its name. One without a place in the tree holds nothing."""
    nodes = {node.object: node for node in engine.tree.root.walk() if node.object is not None}
    elsewhere: dict[str, Counter[JobPhase]] = {name: Counter() for name in engine.state.queues if name not in nodes}
    counts: dict[ShareNode, Counter[JobPhase]] = {}
    for job in engine.state.jobs.values():
        if job.spec is not None and job.spec.queue in elsewhere:
            elsewhere[job.spec.queue][job.phase] += 1
        node = nodes.get(job.spec.queue) if job.spec is not None else None
        while node is not None:
            counts.setdefault(node, Counter())[job.phase] += 1
            node = node.parent
    found = {
        name: _status(engine, node.held, node.entitled, counts.get(node, Counter()))
        for name, node in nodes.items()
        if engine.queue_of(node) is not None
    }
    nothing = [0] * len(engine.state.capacity)
    return found | {name: _status(engine, nothing, nothing, jobs) for name, jobs in elsewhere.items()}


def _status(engine: Engine, held: Sequence[int], entitled: Sequence[int], counts: Counter[JobPhase]) -> Status:
    registry, capacity = engine.state.registry, engine.state.capacity
    return {
        # Zeros are said: a patch would leave what it does not name.
        "allocated": registry.format(held, zeros=True),
        "entitled": registry.format(entitled, zeros=True),
        "share": round(dominant_share(held, capacity), 4),
        **{phase.value.lower(): counts[phase] for phase in JobPhase},
    }
