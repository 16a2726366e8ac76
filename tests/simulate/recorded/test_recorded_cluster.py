"""A decision log under its own configuration makes the same decisions; under another one time goes on without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.simulate.recorded.log_plan import LogPlan, recorded_policy
from tests.support.lives import recorded_halves, recorded_life
from tests.support.log_simulations import difference


@pytest.mark.parametrize("seed", range(5))
def test_log_under_its_own_configuration_makes_the_same_decisions(seed: int, tmp_path: Path) -> None:
    recorded_life(tmp_path, seed)
    assert difference(tmp_path) == ""


def test_queues_with_jobs_when_the_log_begins_are_leaves(tmp_path: Path) -> None:
    recorded_halves(tmp_path, seconds=6)
    found = LogPlan(tmp_path, recorded_policy()).run(lambda ended, now: None)
    assert {queue.path: queue.is_leaf for queue in found.queues} == {"root": False, "root/a": True, "root/b": True}


@pytest.mark.long
def test_hundreds_of_logs_under_their_own_configuration_make_the_same_decisions(tmp_path: Path) -> None:
    wrong = {}
    for seed in range(100, 500):
        recorded_life(tmp_path / str(seed), seed, seconds=20)
        if found := difference(tmp_path / str(seed)):
            wrong[seed] = found
    assert not wrong
