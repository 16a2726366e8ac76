"""Counts of nodes and pods of a cluster, kept up to date for a status line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kubesim.api.client import InProcessClient
from kubesim.controllers.conditions import is_condition_true
from kubesim.storage import Change


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """One moment's numbers."""

    nodes: int
    ready: int
    phases: dict[str, int]
    revision: int


class ClusterStats:
    """Counts nodes by readiness and pods by phase as they change."""

    def __init__(self, api: InProcessClient) -> None:
        self._api = api
        self._known: dict[str, str] = {}
        self._pods: Counter[str] = Counter()
        self._nodes: Counter[str] = Counter()

    def figures(self) -> ClusterFigures:
        """The numbers now."""
        phases = {phase: n for phase, n in sorted(self._pods.items()) if n}
        return ClusterFigures(sum(self._nodes.values()), self._nodes["ready"], phases, self._api.store.revision)

    async def follow_pods(self) -> None:
        """Count pods until cancelled."""
        async for batch in self._api.follow("pods"):
            for change in batch:
                phase = (change.object.get("status") or {}).get("phase", "Pending")
                self._note(self._pods, change, phase)

    async def follow_nodes(self) -> None:
        """Count nodes until cancelled."""
        async for batch in self._api.follow("nodes"):
            for change in batch:
                ready = is_condition_true(change.object.get("status") or {}, "Ready")
                self._note(self._nodes, change, "ready" if ready else "not ready")

    def _note(self, counter: Counter[str], change: Change, state: str) -> None:
        before = self._known.pop(change.key, None)
        if before is not None:
            counter[before] -= 1
        if not change.deleted:
            counter[state] += 1
            self._known[change.key] = state
