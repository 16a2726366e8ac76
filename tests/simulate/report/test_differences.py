"""Paired differences over repeats."""

from __future__ import annotations

from statistics import stdev

import pytest

from pumice.simulate.figures import QueueFigures, RunFigures
from pumice.simulate.report.differences import paired_differences


def run(policy: str, repeat: int, evictions: int) -> RunFigures:
    root = QueueFigures("root", 0, False, evictions=evictions)
    return RunFigures(policy, repeat, 0, 0, {}, {}, 1, [], [root])


def test_interval_is_that_of_the_pairs() -> None:
    # Differences 1, 2, 3: mean 2, deviation 1, three pairs: t = 4.303, so 2 ± 4.303 / sqrt(3).
    runs = {"a": [run("a", i, 10 * i) for i in range(3)], "b": [run("b", i, 10 * i + i + 1) for i in range(3)]}
    (found,) = paired_differences(runs)
    assert (found["policy"], found["against"]) == ("b", "a")
    evictions = found["measures"]["evictions"]
    assert evictions["mean"] == 2
    assert evictions["low"] == pytest.approx(2 - 4.303 / 3**0.5, abs=1e-6)
    assert evictions["high"] == pytest.approx(2 + 4.303 / 3**0.5, abs=1e-6)


@pytest.mark.parametrize(("pairs", "quantile"), [(31, 2.042), (32, 2.040), (61, 2.000), (121, 1.980), (1000, 1.962)])
def test_many_repeats_have_the_interval_of_their_number(pairs: int, quantile: float) -> None:
    # Student's t for one degree of freedom less than there are pairs. Differences are 0 and 1 in turn.
    differences = [i % 2 for i in range(pairs)]
    runs = {
        "a": [run("a", i, 0) for i in range(pairs)],
        "b": [run("b", i, difference) for i, difference in enumerate(differences)],
    }
    (found,) = paired_differences(runs)
    evictions = found["measures"]["evictions"]
    assert evictions["high"] - evictions["mean"] == pytest.approx(quantile * stdev(differences) / pairs**0.5, rel=2e-3)


def test_one_run_has_no_interval() -> None:
    (found,) = paired_differences({"a": [run("a", 0, 1)], "b": [run("b", 0, 4)]})
    assert found["measures"]["evictions"] == {"mean": 3, "low": None, "high": None}


def test_resources_are_compared_too() -> None:
    def short(policy: str, missed: float, lost: float) -> RunFigures:
        root = QueueFigures("root", 0, False, used={"cpu": 8.0}, shortfall={"cpu": 0.0}, lost={"cpu": lost})
        leaves = [QueueFigures(f"root/{name}", 1, True, shortfall={"cpu": missed}) for name in "xy"]
        return RunFigures(policy, 0, 0, 0, {"cpu": 16.0}, {}, 1, [], [root, *leaves])

    (found,) = paired_differences({"a": [short("a", 1.0, 3.0)], "b": [short("b", 1.5, 1.0)]})
    measures = {name: one["mean"] for name, one in found["measures"].items() if name.endswith("cpu")}
    assert measures == {"used cpu": 0, "shortfall cpu": 1, "lost cpu": -2}
