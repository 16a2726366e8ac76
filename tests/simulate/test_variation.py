"""Repeats: the same jobs at other times, drawn by seed and repeat alone."""

from __future__ import annotations

from pumice.simulate.variation import varied
from pumice.simulate.workload import SECOND, WorkloadJob

JOBS = [WorkloadJob(str(i), 10 * i * SECOND, "q", "u", 1, (), 1, 100 * SECOND, 0, i) for i in range(1, 200)]


def times(**options: float) -> list[tuple[int, int]]:
    chosen = {"speedup": 1.0, "jitter": 0.0, "seed": 0, "repeat": 0} | options
    return [(job.submit, job.run_time) for job in varied(JOBS, **chosen)]  # type: ignore[arg-type]


def test_without_jitter_only_arrivals_change() -> None:
    assert times() == [(job.submit, job.run_time) for job in JOBS]
    assert times(speedup=2.0) == [(job.submit // 2, job.run_time) for job in JOBS]


def test_seed_and_repeat_determine_the_draw() -> None:
    assert times(jitter=0.2, seed=1, repeat=1) == times(jitter=0.2, seed=1, repeat=1)
    draws = {tuple(times(jitter=0.2, seed=seed, repeat=repeat)) for seed in (1, 2) for repeat in (0, 1)}
    assert len(draws) == 4


def test_arrivals_stay_in_order() -> None:
    arrivals = [arrival for arrival, _ in times(jitter=1.0)]
    assert arrivals == sorted(arrivals)
