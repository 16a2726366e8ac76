"""The rule of a job with ``networkTopology``: which domains its next tasks may use (see ``NetworkTopologyPlugin``)."""

from __future__ import annotations

from dataclasses import dataclass

NETWORK_TOPOLOGY = "network-topology-aware"
"""The plugin that sets the rule."""


@dataclass(frozen=True, slots=True)
class TopologyRule:
    """Where tasks may go. ``chain`` are the domains, (tier, name) from the lowest, that hold all placed tasks.

    None: no task of the job is placed. Empty: the placed tasks have no allowed domain in common.
    """

    hard: bool
    highest: int  # no higher tier may be used (hard), or is preferred (soft)
    chain: tuple[tuple[int, str], ...] | None = None
