"""Conditions in a status: one entry per type, with the time of its last transition."""

from __future__ import annotations

from kubesim.registry.registry import Object


def find_condition(status: Object, kind: str) -> Object | None:
    """The condition of a type, or None."""
    return next((entry for entry in status.get("conditions") or () if entry.get("type") == kind), None)


def is_condition_true(status: Object, kind: str) -> bool:
    """Whether a condition exists with status True."""
    found = find_condition(status, kind)
    return found is not None and found.get("status") == "True"


def set_condition(status: Object, new: Object, now: str) -> bool:
    """Set a condition; its transition time changes only with its status. Returns whether anything changed."""
    entries = status.setdefault("conditions", [])
    for place, old in enumerate(entries):
        if old.get("type") == new["type"]:
            since = old.get("lastTransitionTime", now) if old.get("status") == new["status"] else now
            merged = {**old, **new, "lastTransitionTime": since}
            entries[place] = merged
            return bool(merged != old)
    entries.append({**new, "lastTransitionTime": now})
    return True
