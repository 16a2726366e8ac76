"""Somebody lowers the capability of a queue below what runs there: one round of evictions, and no way back.

See docs/fairness.md, section 6.5.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.decisions import Evict
from pumice.engine.fairness.share_tree.share_node import NodeKind, ShareNode
from pumice.model.specs import Queue
from tests.support.taking import Shell, taking_engine

FEW = 8
"""Cycles after which nobody goes any more, with a grace of one cycle."""


def lower(shell: Shell, queue: str, *, cpu: int | None = None, memory: int | None = None) -> None:
    """Give a queue another capability."""
    limits = tuple((j, amount) for j, amount in ((0, cpu), (1, memory)) if amount is not None)
    before: Queue = shell.engine.state.queues[queue]
    shell.put(replace(before, capability=limits))


def entitled(shell: Shell, queue: str) -> list[float]:
    shell.engine.prepare()
    return list(shell.engine.order.entitlement_of(shell.engine.tree.root.children[NodeKind.QUEUE, queue]))


def lab_and_batch(grace: int = 1) -> Shell:
    """9 cpu and 10 of memory, 3 : 1. lab runs a gang of 2 * 3 of memory, and two tasks of 2 cpu and 1 of memory."""
    shell = Shell(taking_engine(last=("capacity",)), grace=grace)
    shell.node("pool", 9, 10)
    shell.child("lab", weight=3)
    shell.child("batch")
    shell.job("lab", [(0, 3)] * 2, 2, name="gang")
    shell.job("lab", [(2, 1)] * 2, name="single")
    shell.job("batch", [(1, 1)] * 6, name="many")
    shell.settle()
    assert [shell.running(f"ns/{job}") for job in ("gang", "single", "many")] == [2, 2, 2]
    return shell


def test_only_the_gang_goes_that_could_not_start_again() -> None:
    # lab may hold 4 of memory, too little for the gang. single is entitled to its 4 cpu, many to the other 5.
    shell = lab_and_batch()
    lower(shell, "lab", memory=4)
    shell.settle()
    assert {evict.job for _, evict in shell.evictions} == {"ns/gang"}
    assert [shell.running(f"ns/{job}") for job in ("gang", "single", "many")] == [0, 2, 5]


def test_its_eviction_moves_no_target() -> None:
    shell = lab_and_batch()
    lower(shell, "lab", memory=4)
    before = entitled(shell, "lab"), entitled(shell, "batch")
    shell.settle()
    assert shell.running("ns/gang") == 0
    assert (entitled(shell, "lab"), entitled(shell, "batch")) == before


def test_it_runs_on_what_others_leave() -> None:
    shell = Shell(taking_engine(last=("capacity",)))
    shell.node("pool", 9, 10)
    shell.child("lab")
    shell.job("lab", [(0, 3)] * 2, 2, name="gang")
    shell.settle()
    lower(shell, "lab", memory=4)
    shell.settle()
    assert shell.running("ns/gang") == 2 and not shell.evictions


def test_it_stays_for_a_task_of_less_than_half_its_size() -> None:
    # 10 cpu. The gang of 8 may not start again. For 2 more cpu of batch, which has 2, it stays; for 4 it goes.
    for size, left in ((3, 8), (4, 0)):
        shell = Shell(taking_engine(last=("capacity",)))
        shell.node("pool", 10, 10)
        shell.child("lab")
        shell.child("batch")
        shell.job("lab", [(4, 0)] * 2, 2, name="gang")
        shell.settle()
        lower(shell, "lab", cpu=7)
        shell.job("batch", [(size, 0)], name="one")
        shell.settle()
        assert shell.running("ns/gang") * 4 == left


def test_a_raised_guarantee_of_a_sibling_lowers_it_too() -> None:
    # 10 cpu. A gang of 6 runs beside a sibling that is guaranteed 5 from now on: lab may hold 5.
    shell = Shell(taking_engine(last=("capacity",)))
    shell.node("pool", 10, 10)
    shell.child("lab")
    shell.child("sibling")
    key = shell.job("lab", [(3, 0)] * 2, 2)
    shell.settle()
    assert entitled(shell, "lab")[0] == 6
    shell.put(replace(shell.engine.state.queues["sibling"], guarantee=((0, 5),)))
    assert entitled(shell, "lab")[0] == 0
    assert shell.engine.tree.jobs[key].demand.pieces == ()


def crowd(seed: int) -> tuple[Shell, random.Random]:
    """Gangs and single tasks in random queues at rest on one node."""
    rng = random.Random(seed)
    shell = Shell(taking_engine(last=("capacity",)), grace=rng.choice([0, 1]))
    shell.node("pool", rng.randint(6, 14), rng.randint(8, 16))
    leaves = []
    for name in "abc"[: rng.randint(2, 3)]:
        shell.child(name, weight=rng.randint(1, 3))
        below = [f"{name}{number}" for number in range(rng.choice([0, 2]))]
        for child in below:
            shell.child(child, name, weight=rng.randint(1, 3))
        leaves += below or [name]
    for _ in range(2):
        for leaf in leaves:
            if rng.random() < 0.5:
                size = rng.randint(2, 3)
                shell.job(leaf, [rng.choice([(0, 3), (2, 0), (1, 2)])] * size, size)
            if rng.random() < 0.8:
                shell.job(leaf, [rng.choice([(1, 0), (2, 1), (1, 1)])] * rng.randint(1, 5))
        shell.settle()
    return shell, rng


def lower_something(shell: Shell, rng: random.Random) -> None:
    """A queue may hold a little less of something than it does."""
    holding: list[ShareNode] = [
        node
        for node in shell.engine.tree.root.walk()
        if node.kind is NodeKind.QUEUE and node.parent and any(node.held[:2])
    ]
    if holding:
        node = rng.choice(holding)
        j = rng.choice([j for j in (0, 1) if node.held[j]])
        most = max(1, node.held[j] - rng.randint(1, 2))
        assert node.queue_name is not None
        lower(shell, node.queue_name, **{("cpu", "memory")[j]: most})


def rounds_after(seed: int) -> tuple[int, int, list[Evict]]:
    """Lower a capability on a random cluster: the cycle of the last eviction, and who went."""
    shell, rng = crowd(seed)
    lower_something(shell, rng)
    seen = len(shell.evictions)
    last = shell.settle(60)
    gone = [evict for _, evict in shell.evictions[seen:]]
    twice = [task for task, times in Counter(evict.task for evict in gone).items() if times > 1]
    return last, len(twice), gone


@given(st.integers(0, 100_000))
def test_evictions_stop_after_a_few_cycles_and_nothing_goes_twice(seed: int) -> None:
    last, twice, gone = rounds_after(seed)
    assert last <= FEW, f"an eviction {last} cycles after the change"
    assert not twice, [(evict.task, evict.preemptor) for evict in gone]


@pytest.mark.long
def test_evictions_stop_on_1000_clusters() -> None:
    found = {seed: rounds_after(seed) for seed in range(1000)}
    wrong = {seed: one for seed, one in found.items() if one[0] > FEW or one[1]}
    print(f"\n{sum(bool(gone) for _, _, gone in found.values())} of {len(found)} changes evicted somebody")
    assert not wrong, wrong
