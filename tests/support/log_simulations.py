"""Simulations of decision logs under their own configuration, compared with what the logs say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from pumice.decision_log.recorded_cycles import RecordedCycles
from pumice.decision_log.records import decisions_text
from pumice.simulate.recorded.recorded_cluster import RecordedCluster
from pumice.simulate.recorded.recorded_run import read_log

Decided = dict[str, Any]


def difference(folder: Path, *, conditions: bool = True) -> str:
    """Where a simulation of a log under its own configuration decides differently; empty: nowhere.

    Conditions tell people why a job waits. A live scheduler reports some of them a moment after the API has repeated
    what it wrote, which is no event of a simulation.
    """
    log = read_log(folder)
    made: list[tuple[int, list[Decided]]] = []
    cluster = RecordedCluster(log.engine(), log.history)
    cluster.run(lambda now, events, decisions: made.append((now, msgspec.json.decode(decisions_text(decisions)))))
    found = _kept(made, conditions)
    expected = _kept([(cycle.now, list(cycle.decisions)) for cycle in RecordedCycles(folder)], conditions)
    for one, other in zip(expected, found, strict=False):
        if one != other:
            return f"recorded {one}, simulated {other}"
    return "" if len(expected) == len(found) else f"{len(expected)} cycles decided, {len(found)} in the simulation"


def _kept(cycles: list[tuple[int, list[Decided]]], conditions: bool) -> list[tuple[int, list[Decided]]]:
    kept = [(now, [one for one in made if conditions or "condition" not in one["does"]]) for now, made in cycles]
    return [(now, decisions) for now, decisions in kept if decisions]
