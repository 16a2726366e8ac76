"""benchmarks/flat_costs.py: the clusters that it measures are full, and its table says how costs grow."""

from __future__ import annotations

import pytest

from benchmarks.flat_costs import FIGURES, ON_NODE, WAITING, FullCluster, exponent, table


def test_cluster_is_full_and_new_jobs_wait() -> None:
    cluster = FullCluster(nodes=6, queues=2, in_job=5, shapes=3)
    figures = cluster.measure()
    state = cluster.engine.state
    assert all(not any(node.idle) for node in state.nodes.values())
    assert sum(job.running for job in state.jobs.values()) == 6 * ON_NODE
    assert sum(not job.running for job in state.jobs.values()) == WAITING + 5 * (1 + 10 + 100)
    assert set(figures) == set(FIGURES)


def test_exponent_is_that_of_a_power() -> None:
    assert exponent(10, 5, 1000, 5) == 0
    assert exponent(10, 5, 1000, 500) == pytest.approx(1)
    assert exponent(10, 5, 1000, 50_000) == pytest.approx(2)


def test_each_line_of_the_table_is_compared_with_the_one_before() -> None:
    lines = table("nodes", [(10, dict.fromkeys(FIGURES, 1.0)), (1000, dict.fromkeys(FIGURES, 100.0))]).splitlines()
    assert lines[0].split() == ["nodes", *" ".join(FIGURES).split()]
    assert lines[1].split() == ["10", *["1.0"] * len(FIGURES)]
    assert lines[2].split() == ["1,000", *["100", "(^1.00)"] * len(FIGURES)]
