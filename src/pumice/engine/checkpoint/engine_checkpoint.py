"""Engine checkpoint: the engine's own state that no API object holds, in plain values, for an engine that replaces it.

``ClusterSnapshot`` covers objects and placements. But how long a job has waited, which side had the last turn, which
conditions were reported and which capacity is reserved, only the engine knows; one that continues in its place (under
another configuration, or in a replayed decision log) needs that as well. The checkpoint refers to jobs, tasks and nodes
by name, so that it fits any engine of that cluster; entries about objects that no longer exist are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pumice.model.specs import Items

Parts = tuple[tuple[Items, int], ...]
"""Requests, and how many tasks of each."""


@dataclass(frozen=True, slots=True)
class SavedReservation:
    """A reservation for a job (see ``placement.reservations``)."""

    job: str
    parts: Parts  # what its unit consisted of
    needs: dict[str, Items]  # by node
    lack: float
    since: int
    progress: int


@dataclass(frozen=True, slots=True)
class ReservationsCheckpoint:
    """The active reservations, and the jobs waiting for one; by job."""

    kept: tuple[SavedReservation, ...] = ()
    told: dict[str, list[str]] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    doubled: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreemptorsCheckpoint:
    """Since when each job has been starved, and which jobs lost a task (see ``preemption.preemptors``)."""

    since: dict[str, int] = field(default_factory=dict)
    committed: int = 0
    without_gain: int = 0
    lost: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineCheckpoint:
    """The checkpoint of a whole engine."""

    now: int = 0
    stamp: int = 0
    tracing: bool = False
    solved: int = 0
    conditions: dict[str, str] = field(default_factory=dict)
    queue_conditions: dict[str, str] = field(default_factory=dict)
    awaited: dict[str, tuple[str, ...]] = field(default_factory=dict)
    evictions_failed: dict[str, tuple[int, int]] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)  # by path in the share tree
    reclaims: PreemptorsCheckpoint = PreemptorsCheckpoint()
    preempts: PreemptorsCheckpoint = PreemptorsCheckpoint()
    holds: ReservationsCheckpoint | None = None  # None: this configuration makes no reservations
    incomplete: dict[str, int] = field(default_factory=dict)  # partial gangs, and since when
    arrivals: tuple[str, ...] = ()  # unexpected pods (see ``recovery.overcommitted_nodes``)
    acquainted: bool = True  # whether the first cycle is done
    unstartable: dict[str, int] = field(default_factory=dict)  # since when jobs have been unable to start
