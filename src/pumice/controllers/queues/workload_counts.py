"""Workload counts of queues: podgroups and jobs, updated by watch events."""

from __future__ import annotations

from collections import Counter

from pumice.kube.resources import POD_GROUPS, Document

OVER = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
"""Phases of podgroups and jobs that do not change by themselves: a suspended one holds nothing."""


class Tally:
    """Counts by queue."""

    def __init__(self) -> None:
        self.present: Counter[str] = Counter()
        """All workloads, finished or not."""
        self.unfinished: Counter[str] = Counter()
        self._counted: dict[tuple[str, str], tuple[str, bool]] = {}

    def note(self, resource: str, key: str, found: Document | None) -> set[str]:
        """Apply a podgroup or job, or (None) its deletion. Returns the queues whose counts changed."""
        old = self._counted.pop((resource, key), None)
        new = None if found is None else (queue_of(found), phase_of(resource, found) not in OVER)
        if new is not None:
            self._counted[resource, key] = new
        if old == new:
            return set()
        for one, sign in ((old, -1), (new, +1)):
            if one is not None:
                self.present[one[0]] += sign
                self.unfinished[one[0]] += sign * one[1]
        return {one[0] for one in (old, new) if one is not None}


def queue_of(found: Document) -> str:
    """The queue that a podgroup or job is in."""
    return str((found.get("spec") or {}).get("queue") or "")


def phase_of(resource: str, found: Document) -> str:
    """The phase of a podgroup or job."""
    status = found.get("status") or {}
    holder = status if resource == POD_GROUPS.name else status.get("state") or {}
    return str(holder.get("phase") or "")
