"""A decision log under its own configuration makes the same decisions; under another one time goes on without it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pumice.config.load import read_config
from pumice.config.plugin_loader import plugin_factories
from pumice.decision_log.recorded_cycles import RecordedCycles
from pumice.decision_log.records import decisions_text
from pumice.engine.checkpoint.restore import restore_engine
from pumice.simulate.recorded.history import read_history
from pumice.simulate.recorded.recorded_cluster import RecordedCluster
from tests.support.lives import recorded_life


def difference(folder: Path) -> str:
    """Where a simulation of a log under its own configuration decides differently; empty: nowhere."""
    recorded = RecordedCycles(folder)
    cycles = list(recorded)
    start = recorded.start
    was = start.snapshot.cluster
    history = read_history(
        cycles, [task.spec for task in was.tasks], [job.spec for job in was.jobs if job.spec is not None]
    )
    config = read_config(start.heading.config, start.heading.source)
    engine = restore_engine(start.snapshot, config, plugin_factories(config), recorded.registry, start.heading.cooldown)
    made: list[tuple[int, list[object]]] = []
    cluster = RecordedCluster(engine, history)
    cluster.run(lambda now, events, decisions: made.append((now, msgspec.json.decode(decisions_text(decisions)))))
    found = [(now, decisions) for now, decisions in made if decisions]
    expected = [(cycle.now, list(cycle.decisions)) for cycle in cycles if cycle.decisions]
    for one, other in zip(expected, found, strict=False):
        if one != other:
            return f"recorded {one}, simulated {other}"
    return "" if len(expected) == len(found) else f"{len(expected)} cycles decided, {len(found)} in the simulation"


@pytest.mark.parametrize("seed", range(8))
def test_log_under_its_own_configuration_makes_the_same_decisions(seed: int, tmp_path: Path) -> None:
    recorded_life(tmp_path, seed)
    assert difference(tmp_path) == ""


@pytest.mark.long
def test_hundreds_of_logs_under_their_own_configuration_make_the_same_decisions(tmp_path: Path) -> None:
    wrong = {}
    for seed in range(100, 500):
        recorded_life(tmp_path / str(seed), seed, seconds=20)
        if found := difference(tmp_path / str(seed)):
            wrong[seed] = found
    assert not wrong
