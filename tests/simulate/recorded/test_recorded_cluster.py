"""A decision log under its own configuration makes the same decisions; under another one time goes on without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.decision_log.writer import DecisionLog
from pumice.engine.events import Gone
from pumice.model.specs import JobSpec, TaskSpec
from pumice.simulate.recorded.log_plan import LogPlan, recorded_policy
from tests.support.lives import recorded_halves, recorded_life
from tests.support.log_simulations import difference
from tests.support.recorded import Recorded
from tests.support.taking import Shell, taking_engine


@pytest.mark.parametrize("seed", range(5))
def test_log_under_its_own_configuration_makes_the_same_decisions(seed: int, tmp_path: Path) -> None:
    recorded_life(tmp_path, seed)
    assert difference(tmp_path) == ""


def test_queues_with_jobs_when_the_log_begins_are_leaves(tmp_path: Path) -> None:
    recorded_halves(tmp_path, seconds=6)
    found = LogPlan(tmp_path, recorded_policy()).run(lambda ended, now: None)
    assert {queue.path: queue.is_leaf for queue in found.queues} == {"root": False, "root/a": True, "root/b": True}


def test_pods_that_come_before_their_group_are_counted(tmp_path: Path) -> None:
    # The scheduler watches pods and podgroups side by side: which of them it hears of first is chance.
    log = DecisionLog(tmp_path)
    engine = Recorded(taking_engine(), log)
    shell = Shell(engine, audited=False)  # type: ignore[arg-type]  # stands for its engine
    shell.node("n0", 4)
    shell.child("q")
    shell.cycle()
    pods = [TaskSpec("ns", f"x-{number}", (1, 0, 1), "ns/x", shell.now) for number in range(3)]
    for described in (*pods, JobSpec("ns", "x", "q", shell.now)):
        shell.put(described)
    shell.put(TaskSpec("ns", "y-0", (1, 0, 1), "ns/y", shell.now))
    engine.apply(Gone(TaskSpec, "ns/y-0"))  # its group never comes
    for _ in range(3):
        shell.cycle()
    log.close()
    root = LogPlan(tmp_path, recorded_policy()).run(lambda ended, now: None).root
    assert (root.arrived, root.never_started, root.waits.count) == (1, 0, 1)
    assert root.used["cpu"] == pytest.approx(0.003 * 2 / 3600)  # from the second cycle to the fourth


@pytest.mark.long
def test_hundreds_of_logs_under_their_own_configuration_make_the_same_decisions(tmp_path: Path) -> None:
    wrong = {}
    for seed in range(100, 500):
        recorded_life(tmp_path / str(seed), seed, seconds=20)
        if found := difference(tmp_path / str(seed)):
            wrong[seed] = found
    assert not wrong
