"""Costs as ratios of CPU time within one run. Absolute figures are ``make bench``'s business.

The bounds are far from what is measured (times in brackets), so that a noisy machine does not fail them, and near
enough that a walk of the whole tree, or of the whole cluster, does.
"""

from __future__ import annotations

import pytest

from benchmarks.measures import small_changes, tree_events
from benchmarks.workload import Workload


def test_tree_event_is_hundred_times_faster_than_full_recursion() -> None:
    assert tree_events(10_000)["times_faster"] > 100  # (600)


def test_little_changes_cost_little() -> None:
    """A tenth of the full cluster of 5,000 nodes: fixed costs weigh ten times as much as there."""
    nodes = {**Workload.load("F").spec["nodes"], "count": 500}
    tree = {"orgs": 5, "teams": 4, "queues": 5}
    full = Workload("small F", {**Workload.load("F").spec, "nodes": nodes, "jobs": 520, "tree": tree})
    cost = small_changes(full)
    assert cost["waiting"] > 100
    assert cost["nothing_percent"] < 1  # (0.1)
    assert cost["small_change_percent"] < 25  # (6)


@pytest.mark.long
def test_at_full_size_too() -> None:
    thousand, hundred_thousand = tree_events(1_000), tree_events(100_000)
    cost = small_changes(Workload.load("F"))
    print(f"\n100,000 leaves: {hundred_thousand}\n1,000 leaves: {thousand}\nfull cluster: {cost}")
    assert hundred_thousand["times_faster"] > 1_000
    assert hundred_thousand["place_microseconds"] < 4 * thousand["place_microseconds"]
    assert hundred_thousand["release_microseconds"] < 4 * thousand["release_microseconds"]
    assert cost["nothing_percent"] < 1 and cost["small_change_percent"] < 5
