"""Conditions in a status: one entry per type, which remembers since when it has been what it is."""

from __future__ import annotations

from kubesim.registry.registry import Object


def find_condition(status: Object, kind: str) -> Object | None:
    """The condition of this type, if there is one."""
    return next((entry for entry in status.get("conditions") or () if entry.get("type") == kind), None)


def is_condition_true(status: Object, kind: str) -> bool:
    """Whether the condition of this type is there and holds."""
    found = find_condition(status, kind)
    return found is not None and found.get("status") == "True"


def set_condition(status: Object, new: Object, now: str) -> bool:
    """Put a condition in its place; its transition time moves only with its status. True if anything changed."""
    entries = status.setdefault("conditions", [])
    for place, old in enumerate(entries):
        if old.get("type") == new["type"]:
            since = old.get("lastTransitionTime", now) if old.get("status") == new["status"] else now
            merged = {**old, **new, "lastTransitionTime": since}
            entries[place] = merged
            return bool(merged != old)
    entries.append({**new, "lastTransitionTime": now})
    return True
