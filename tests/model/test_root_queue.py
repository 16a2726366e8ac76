"""Fields of the queue root that can have no effect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumice.model.root_queue import fields_without_effect
from pumice.model.specs import GroupAffinity, HierarchyEntry, Queue

ROOT = Queue("root")


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("weight", 2, "spec.weight"),
        ("priority", 1, "spec.priority"),
        ("reclaimable", False, "spec.reclaimable"),
        ("capability", ((0, 1),), "spec.capability"),
        ("deserved", ((0, 0),), "spec.deserved"),
        ("guarantee", ((0, 1),), "spec.guarantee"),
        ("fifo", True, "spec.dequeueStrategy"),
        ("min_user_limit_percent", 100, "spec.minUserLimitPercent"),
        ("user_limit_factor", -1.0, "spec.userLimitFactor"),
    ],
)
def test_root_queue_fields_without_effect_are_rejected_with_reason(field: str, value: Any, named: str) -> None:
    changed = replace(ROOT, **{field: value})
    ((where, message),) = fields_without_effect(changed)
    assert where == named
    assert (
        message.startswith("Forbidden: has no effect: ")
        and "queue 'root' " in message
        and message.endswith("; remove it, or set it on a queue below")
    )
    assert list(fields_without_effect(changed, ROOT)) == [(where, message)]
    assert list(fields_without_effect(changed, changed)) == [], "what was there before may stay"


def test_root_queue_may_set_hierarchy_and_affinity() -> None:
    below = replace(ROOT, hierarchy=(HierarchyEntry("a"),), affinity=GroupAffinity(required=("gpu",)))
    assert list(fields_without_effect(below)) == []
