"""What an engine knows that no object tells, in plain values: for an engine that takes its place.

Who runs where is in the state. But who has waited how long, whose turn it was, what was said to whom, whose room is
kept: that an context remembers by itself, and another one that goes on in its place (under another configuration, or in
a recorded log) must know it as well. Jobs, tasks and nodes are named, so that a memory fits any engine of that
cluster; what speaks of somebody who is not there is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pumice.model.specs import Items

Parts = tuple[tuple[Items, int], ...]
"""Requests, and how many tasks of each."""


@dataclass(frozen=True, slots=True)
class SavedReservation:
    """Room that is kept for a job (see ``holds``)."""

    job: str
    parts: Parts  # what its unit was made of
    needs: dict[str, Items]  # by node
    lack: float
    since: int
    progress: int


@dataclass(frozen=True, slots=True)
class ReservationsCheckpoint:
    """Who holds room, and who waits to; by job."""

    kept: tuple[SavedReservation, ...] = ()
    told: dict[str, list[str]] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    doubled: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreemptorsCheckpoint:
    """Since when each job has found no room (see ``takers``)."""

    since: dict[str, int] = field(default_factory=dict)
    committed: int = 0
    without_gain: int = 0


@dataclass(frozen=True, slots=True)
class EngineCheckpoint:
    """All of it."""

    now: int = 0
    stamp: int = 0
    tracing: bool = False
    solved: int = 0
    conditions: dict[str, str] = field(default_factory=dict)
    queue_conditions: dict[str, str] = field(default_factory=dict)
    awaited: dict[str, tuple[str, ...]] = field(default_factory=dict)
    evictions_failed: dict[str, tuple[int, int]] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)  # by path in the tree
    reclaims: PreemptorsCheckpoint = PreemptorsCheckpoint()
    preempts: PreemptorsCheckpoint = PreemptorsCheckpoint()
    holds: ReservationsCheckpoint | None = None  # None: by this configuration nobody holds room
    incomplete: dict[str, int] = field(default_factory=dict)  # since when jobs have a part of their gang only
    arrivals: tuple[str, ...] = ()  # pods that turned up by bindings that it did not decide (see ``relieve``)
    acquainted: bool = True  # whether it has looked at the cluster once
    unstartable: dict[str, int] = field(default_factory=dict)  # since when jobs cannot start, whatever comes free
