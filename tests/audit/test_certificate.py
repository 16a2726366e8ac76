"""The audit of sound engines is clean: random lives, scenario files, and the figures of a small cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.audit.certificate import Certificate, audit
from pumice.decision_log.writer import DecisionLog
from pumice.sim.manifest_files import read_manifests
from pumice.sim.simulation import open_simulation
from tests.support.lives import recorded_life
from tests.support.recorded import Recorded


def is_clean(folder: Path) -> Certificate:
    found = audit(folder)
    assert found.clean, "\n".join(map(str, found.findings.kept[:3]))
    return found


@settings(max_examples=12)
@given(seed=st.integers(0, 100_000))
def test_random_lives_are_clean(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    folder = tmp_path_factory.mktemp("life")
    recorded_life(folder, seed, seconds=9)
    assert is_clean(folder).cycles == 9


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(713, id="of-two-claims-on-a-node-the-later-one-is-given-up"),
        pytest.param(211, id="a-claim-that-moves-to-another-node-was-given-up-before"),
        pytest.param(646, id="a-victim-is-needed-by-one-who-took-the-room-of-a-withdrawn-bind"),
        pytest.param(796, id="tasks-do-not-change-nodes-where-pods-keep-others-away"),
        pytest.param(50377, id="a-task-beside-a-preemptor-does-not-wait-for-its-victims"),
        pytest.param(52721, id="another-job-beside-a-preemptor-does-not-wait-for-its-victims"),
    ],
)
def test_needed_evictions_are_not_doubted(tmp_path: Path, seed: int) -> None:
    recorded_life(tmp_path, seed, seconds=12)
    assert is_clean(tmp_path).weighed > 0


def test_jobs_that_share_the_room_of_a_gang_lose_it_together(tmp_path: Path) -> None:
    # One victim of the gang stays: all who were to share its room return to pending, and others get the queue's quota.
    recorded_life(tmp_path, 52857, seconds=12)
    assert is_clean(tmp_path).decisions["pipeline"] > 0


def test_a_gang_that_pods_of_the_past_kept_away_is_left_out_of_entitlements(tmp_path: Path) -> None:
    # A gang of two tasks, of which the nodes hold one even if they are empty: it would count as no demand. The engine
    # remembers a pod that kept one of its kind away, and judges such gangs by attempts only.
    recorded_life(tmp_path, 20210, seconds=12)
    found = is_clean(tmp_path)
    assert found.not_recomputed["a gang may depend on pods that are gone, and fits no empty nodes"] > 0


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_thousand_random_lives_are_clean(tmp_path: Path) -> None:
    evictions = weighed = computed = 0
    for seed in range(1000):
        recorded_life(tmp_path / str(seed), seed, seconds=12)
        found = is_clean(tmp_path / str(seed))
        evictions += sum(found.evictions.values())
        weighed += found.weighed
        computed += found.recomputed
    assert evictions > 2500 and weighed > 1250 and computed > 1250


CASES = [
    pytest.param(case, id=case.stem, marks=() if number % 5 == 0 else pytest.mark.long)
    for number, case in enumerate(sorted((Path(__file__).parents[1] / "cases" / "outcomes").glob("*.yaml")))
]


@pytest.mark.parametrize("case", CASES)
def test_scenario_files_are_clean(tmp_path: Path, case: Path) -> None:
    simulation = open_simulation(read_manifests([str(case)]), str(case))
    if simulation.scenario.spec.churn is not None:
        pytest.skip("thousands of cycles")
    log = DecisionLog(tmp_path)
    simulation.cluster.engine = Recorded(simulation.cluster.engine, log)  # type: ignore[assignment]  # stands for it
    simulation.run()
    log.close()
    assert is_clean(tmp_path).cycles == simulation.cluster.cycles
