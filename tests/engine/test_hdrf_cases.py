"""The worked H-DRF cases through the engine: targets, and what a fill of the empty cluster gives, by both rules."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tests.support.case_files import read_cases
from tests.support.pools import Pool, make_engine

CASES = read_cases("hdrf")["cases"]
Case = dict[str, Any]

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
each_filled = pytest.mark.parametrize(
    "case", [case for case in CASES if "fill_steer" in case["expected"]], ids=lambda case: case["id"]
)


def test_case_table_has_all_fifty_cases() -> None:
    assert len(CASES) == 50 and sum("fill_steer" in case["expected"] for case in CASES) >= 47


@each_case
def test_target(case: Case) -> None:
    expected = case["expected"]
    pool = Pool(make_engine(), case["capacity"], case["tree"])
    pool.engine.prepare()
    within = max(float(expected.get("tolerance", 0)), 1e-6)
    for leaf, tasks in expected["static"].items():
        target = pool.engine.tree.jobs[f"ns/{leaf}"].target
        assert target == pytest.approx(float(Fraction(str(tasks))), abs=within, rel=0)


@each_filled
@pytest.mark.parametrize("rule", ["steer", "paper"])
def test_fill(case: Case, rule: str) -> None:
    pool = Pool(make_engine(rule), case["capacity"], case["tree"])
    pool.fill()
    pool.engine.validate()
    assert pool.running() == case["expected"][f"fill_{rule}"]


@each_filled
def test_steer_gives_everybody_the_whole_part_of_its_target(case: Case) -> None:
    pool = Pool(make_engine("steer"), case["capacity"], case["tree"])
    pool.fill()
    running = pool.running()
    for leaf, tasks in case["expected"]["static"].items():
        assert running[leaf] >= int(Fraction(str(tasks)))


@each_filled
def test_a_second_cycle_finds_nothing_to_do(case: Case) -> None:
    # Whole targets depend on what is held: they must not move away from what they led to.
    pool = Pool(make_engine("steer"), case["capacity"], case["tree"])
    pool.fill()
    first = pool.running()
    pool.fill(1_000_000)
    assert pool.running() == first
