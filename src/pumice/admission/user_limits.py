"""User limits belong to leaves (docs/fairness.md, section 8.5).

When a leaf becomes a parent, both limits are set to null and kept in an annotation; when it is a leaf again they are
restored. Which of the two a queue is depends on *other* queues: the write that makes it a parent is that of its first
child. So the queue controller settles a queue whose children were added or removed; admission settles the queue under
review, by the same function.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from pumice.admission.request import Object, annotate, annotations_of, spec_of

USER_LIMITS: Final = "pumice.dev/user-limits"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
FIELDS: Final = ("minUserLimitPercent", "userLimitFactor")


def with_user_limits_settled(queue: Object, *, leaf: bool) -> Object:
    """A queue with its user limits where they belong; the same object if they are there already."""
    copy = {**queue, "metadata": dict(queue["metadata"]), "spec": dict(queue.get("spec") or {})}
    settle(copy, leaf=leaf)
    return queue if copy == {**queue, "spec": queue.get("spec") or {}} else copy


def settle(queue: Object, *, leaf: bool) -> None:
    """Move the user limits of a queue, which the caller may edit, to where they belong."""
    spec = queue["spec"]
    given = {name: spec[name] for name in FIELDS if spec.get(name) is not None}
    if leaf:
        kept = kept_limits(queue)
        if USER_LIMITS in annotations_of(queue):
            annotate(queue, USER_LIMITS, None)
            spec.update(kept | given)  # later writes take precedence
    elif given:
        for name in given:
            del spec[name]
        keep_limits(queue, kept_limits(queue) | given)


def forget_removed(queue: Object, old: Object) -> None:
    """Drop limits that the author of a parent has removed from its manifest.

    The spec of a parent has no limits, so an update that removes one looks like no change. The manifest that ``kubectl
    apply`` last applied shows it: the limit was there before, and no longer is.
    """
    kept, new = kept_limits(queue), last_applied(queue)
    if not kept or new is None or annotations_of(queue).get(USER_LIMITS) != annotations_of(old).get(USER_LIMITS):
        return
    before = spec_of(last_applied(old) or {})
    left = {name: value for name, value in kept.items() if before.get(name) is None or name in spec_of(new)}
    if left != kept:
        keep_limits(queue, left)


def last_applied(found: Object) -> Object | None:
    """The manifest that ``kubectl apply`` last applied; None if there is no valid one."""
    try:
        manifest = json.loads(annotations_of(found).get(LAST_APPLIED) or "null")
    except (ValueError, RecursionError):
        return None
    return manifest if isinstance(manifest, dict) and isinstance(manifest.get("spec") or {}, dict) else None


def keep_limits(queue: Object, limits: Object) -> None:
    """Keep exactly these limits of a parent, which the caller may edit."""
    annotate(queue, USER_LIMITS, json.dumps(limits, sort_keys=True) if limits else None)


def kept_limits(queue: Object) -> Object:
    """The limits in the annotation. Any user may write it, so only values that are valid in the spec count."""
    try:
        kept = json.loads(annotations_of(queue).get(USER_LIMITS, "{}"))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(kept, dict):
        return {}
    return {name: kept[name] for name in FIELDS if name in kept and _valid(name, kept[name])}


def _valid(name: str, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    if name == "minUserLimitPercent":
        return isinstance(value, int) and 0 <= value <= 100
    return value > 0 or value == -1
