"""Simulations of decision logs under their own configuration, compared with what the logs say."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pumice.decision_log.recorded_cycles import RecordedCycles
from pumice.decision_log.records import decisions_text
from pumice.simulate.recorded.recorded_cluster import RecordedCluster
from pumice.simulate.recorded.recorded_run import read_log


def difference(folder: Path) -> str:
    """Where a simulation of a log under its own configuration decides differently; empty: nowhere."""
    log = read_log(folder)
    made: list[tuple[int, list[object]]] = []
    cluster = RecordedCluster(log.engine(), log.history)
    cluster.run(lambda now, events, decisions: made.append((now, msgspec.json.decode(decisions_text(decisions)))))
    found = [(now, decisions) for now, decisions in made if decisions]
    expected = [(cycle.now, list(cycle.decisions)) for cycle in RecordedCycles(folder) if cycle.decisions]
    for one, other in zip(expected, found, strict=False):
        if one != other:
            return f"recorded {one}, simulated {other}"
    return "" if len(expected) == len(found) else f"{len(expected)} cycles decided, {len(found)} in the simulation"
