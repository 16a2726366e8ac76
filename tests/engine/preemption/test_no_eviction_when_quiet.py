"""Every order but ``steer`` on small random clusters: evictions stop when nothing happens, and nobody takes back.

``test_quiet`` asks the same of ``steer``. Here one thing at a time makes the clusters difficult: jobs of one task,
unlike tasks, gangs, queues that come late.
"""

from __future__ import annotations

import pytest

from pumice.engine.decisions import Evict
from tests.support.taking_worlds import Arrivals, arrivals

ORDERS = ("paper", "flat", "proportion", "capacity")
FEW = 12
"""Cycles after which nobody goes any more; an order that goes by keys gives way one task at a time."""

every_order = pytest.mark.parametrize("rule", ORDERS)
every_kind = pytest.mark.parametrize("kind", list(Arrivals), ids=lambda kind: kind.value)


def comes_to_rest(seeds: range, rule: str, kind: Arrivals) -> int:
    """Evictions stop after a few cycles, and then nobody goes; returns how many went on all seeds."""
    taken = 0
    for seed in seeds:
        shell = arrivals(seed, rule, kind)
        last = shell.settle(60)
        assert last <= FEW, f"seed {seed}: an eviction {last} cycles after the last arrival"
        taken += len(shell.evictions)
        before = len(shell.evictions)
        for _ in range(3):
            shell.cycle()
        assert len(shell.evictions) == before, f"seed {seed}: an eviction on a quiet cluster"
        assert not shell.engine.context.pipelined.tasks, f"seed {seed}: somebody waits on a node for ever"
    return taken


def take_nothing_back(seeds: range, rule: str, kind: Arrivals) -> None:
    """Nobody comes or goes any more. Who took in one cycle loses nothing to the same job in the next."""
    for seed in seeds:
        shell = arrivals(seed, rule, kind)
        took: set[tuple[str, str]] = set()
        for _ in range(FEW):
            now = {(d.preemptor, d.job) for d in shell.cycle() if isinstance(d, Evict) and d.action == "reclaim"}
            back = {(preemptor, victim) for preemptor, victim in now if (victim, preemptor) in took}
            assert not back, f"seed {seed}: {back}"
            took = now


@every_order
@every_kind
def test_evictions_stop_and_then_nobody_goes(rule: str, kind: Arrivals) -> None:
    assert comes_to_rest(range(8), rule, kind), "nothing was taken on any seed"


@pytest.mark.parametrize(("seed", "kind"), [(1314, Arrivals.UNLIKE), (1236, Arrivals.GANGS)])
def test_two_sides_do_not_take_turns_with_tasks_of_two_kinds(seed: int, kind: Arrivals) -> None:
    # Under paper. One side holds much memory: it comes first where cpu alone is at stake, the other where both are.
    comes_to_rest(range(seed, seed + 1), "paper", kind)


@pytest.mark.parametrize(
    ("seed", "kind"),
    [(1257, Arrivals.SINGLE), (1257, Arrivals.UNLIKE), (1812, Arrivals.GANGS), (2576, Arrivals.SINGLE)],
)
def test_queues_that_name_different_resources_do_not_evict_each_other_in_turn(seed: int, kind: Arrivals) -> None:
    # Under capacity. One queue names cpu, the other memory, and the same node would serve either.
    comes_to_rest(range(seed, seed + 1), "capacity", kind)
    take_nothing_back(range(seed, seed + 1), "capacity", kind)


@every_order
@every_kind
def test_victim_does_not_reclaim_capacity_just_lost(rule: str, kind: Arrivals) -> None:
    take_nothing_back(range(8), rule, kind)


@pytest.mark.long
@every_order
@every_kind
def test_evictions_stop_and_are_not_reversed_on_hundreds_of_clusters(rule: str, kind: Arrivals) -> None:
    comes_to_rest(range(1200, 1320), rule, kind)
    take_nothing_back(range(1200, 1320), rule, kind)
