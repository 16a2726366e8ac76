"""Random small workloads under every policy: no work appears or disappears."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.engine import Engine
from pumice.simulate.policies import BUILT_IN_POLICIES
from pumice.simulate.simulation_run import simulate
from tests.simulate.samples import plan
from tests.support.examples import fewer_examples

JOB = st.tuples(
    st.integers(0, 60),  # seconds after the job before
    st.sampled_from(["a/x", "a/y", "b"]),
    st.integers(1, 4),  # tasks
    st.integers(1, 3),  # cpu
    st.booleans(),  # one gang, or single tasks
    st.integers(1, 400),  # run time
)


@fewer_examples(10)
@given(st.lists(JOB, min_size=1, max_size=8), st.sampled_from(sorted(BUILT_IN_POLICIES)))
def test_usage_is_the_work_that_was_done_and_the_work_that_was_lost(jobs: list[tuple[int, ...]], policy: str) -> None:
    submit, lines, wanted = 0, "", 0
    for number, (gap, queue, tasks, cpu, gang, run_time) in enumerate(jobs):
        submit += gap
        lines += f"{number},{submit},{queue},,{tasks},cpu={cpu},{tasks if gang else 1},{run_time},\n"
        wanted += tasks * cpu * run_time
    engines: list[Engine] = []

    def made(*arguments: object) -> Engine:
        engines.append(Engine(*arguments))  # type: ignore[arg-type]
        return engines[0]

    with tempfile.TemporaryDirectory() as folder:
        figures = simulate(plan(Path(folder), lines, "3:cpu=4", policy), None, made)
    engines[0].validate()
    root = figures.root
    assert root.arrived == len(jobs) == root.finished + root.unfinished
    if root.finished == len(jobs):
        assert not engines[0].state.jobs and not engines[0].state.tasks
        assert root.used["cpu"] == pytest.approx(wanted / 3600 + root.lost["cpu"])
    else:
        assert policy in ("capacity", "proportion", "paper")  # these may refuse a gang for ever
    leaves = [queue for queue in figures.queues if queue.is_leaf]
    for measure in ("arrived", "finished", "evictions", "never_started"):
        assert sum(getattr(queue, measure) for queue in leaves) == getattr(root, measure)
    assert sum(queue.used["cpu"] for queue in leaves) == pytest.approx(root.used["cpu"])
