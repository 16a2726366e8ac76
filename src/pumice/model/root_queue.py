"""Which fields of the queue ``root`` can have an effect.

``root`` stands for the cluster. It has no siblings to compare weight or priority with, no queue can reclaim from it,
its amounts are those of the nodes, and it takes no jobs itself. Only fields that apply to the queues below count:
``spec.hierarchy`` and ``spec.affinity``, which queues inherit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

from pumice.model.specs import Queue

_NO_SIBLINGS = "queue 'root' stands for the cluster and has no siblings"
_CLUSTER = "the amounts of queue 'root' are those of the cluster's nodes"
_NO_JOBS = "queue 'root' accepts no jobs"
_NO_EFFECT: Final = {
    "weight": ("spec.weight", _NO_SIBLINGS),
    "priority": ("spec.priority", _NO_SIBLINGS),
    "reclaimable": ("spec.reclaimable", _NO_SIBLINGS + " that could reclaim from it"),
    "capability": ("spec.capability", _CLUSTER),
    "deserved": ("spec.deserved", _CLUSTER),
    "guarantee": ("spec.guarantee", _CLUSTER),
    "fifo": ("spec.dequeueStrategy", _NO_JOBS),
    "min_user_limit_percent": ("spec.minUserLimitPercent", _NO_JOBS),
    "user_limit_factor": ("spec.userLimitFactor", _NO_JOBS),
}
_DEFAULTS: Final = {field.name: field.default for field in fields(Queue)}


def fields_without_effect(root: Queue, before: Queue | None = None) -> Iterator[tuple[str, str]]:
    """Every field of ``root`` without effect, with an error message. A value that was there ``before`` may stay."""
    for name, (field, why) in _NO_EFFECT.items():
        value = getattr(root, name)
        if value != _DEFAULTS[name] and (before is None or value != getattr(before, name)):
            yield field, f"Forbidden: has no effect: {why}; remove it, or set it on a queue below"
