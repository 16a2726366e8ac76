"""Integer targets depend on what is held: no eviction changes them so that it is taken back.

See docs/fairness.md, section 9.2.
"""

from __future__ import annotations

import pytest

from pumice.engine.decisions import Evict
from tests.support.changing_clusters import ChangingCluster, TakenBack
from tests.support.taking import Shell, taking_engine

KNOWN = (1594, 1605, 1631, 1973)
"""Seeds of clusters on which evictions were taken back, in 1631 for ever."""


def taken_back(seed: int) -> list[TakenBack]:
    """Evictions that cancelled others after any change of a random cluster."""
    cluster = ChangingCluster(seed)
    return [found for _ in cluster.changes() for found in cluster.rest()]


@pytest.mark.parametrize("seeds", [KNOWN, range(40)], ids=["known", "others"])
def test_no_eviction_is_taken_back_while_nothing_changes(seeds: tuple[int, ...]) -> None:
    assert {seed: found for seed in seeds if (found := taken_back(seed))} == {}


@pytest.mark.long
def test_no_eviction_is_taken_back_on_5000_clusters() -> None:
    found = {seed: found for seed in range(5000) if (found := taken_back(seed))}
    print(f"\n{len(found)} of 5000 clusters: {found}")
    assert not found


def test_gang_takes_the_room_of_a_task_that_may_not_come_back() -> None:
    # 4 cpu and 9 of memory, 2 cpu for each job. large runs a task of 3 cpu and 2 of memory, more memory than it is
    # entitled to, and one of 1 cpu. Once the large task is gone, the two behind it are inside the target, and the gang
    # is not. But without them large misses 1 cpu, and without the gang its job would miss 2: the gang stays.
    shell = Shell(taking_engine())
    shell.node("pool", 4, 9)
    shell.queue("root/q")
    shell.job("q", [(3, 2), (1, 0), (1, 0), (1, 0)], name="large")
    shell.cycle()
    shell.job("q", [(1, 0)] * 3, 3, name="gang")
    shell.settle()
    assert [evict.task for _, evict in shell.evictions] == ["ns/large-t-0"]
    assert [shell.running(f"ns/{job}") for job in ("large", "gang")] == [1, 3]


def test_another_task_of_the_preemptor_makes_way_in_its_queue() -> None:
    # 4 cpu and 8 of memory, 2 cpu for each job. Once the task of 3 cpu is gone, first is owed the one of 2 cpu behind
    # it, and second holds one task too many: not the one that it has just got, but the small one. 2 : 2.
    shell = Shell(taking_engine())
    shell.node("pool", 4, 8)
    shell.queue("root/q")
    shell.job("q", [(3, 2), (2, 1), (0, 2)], name="first")
    shell.settle()
    shell.job("q", [(2, 1), (1, 1)], name="second")
    shell.settle()
    assert shell.running_tasks("ns/first") == ["ns/first-t-1", "ns/first-t-2"]
    assert shell.running_tasks("ns/second") == ["ns/second-t-0"]


def test_evicted_tasks_stay_in_the_gang_until_they_are_back() -> None:
    # While the tasks of a gang terminate, its entitlement must not move: others would be evicted for the difference.
    shell = Shell(taking_engine(), grace=3)
    shell.node("pool", 8, 8)
    shell.queue("root/ours", "1/3")
    shell.queue("root/theirs", "1/1")
    shell.job("theirs", [(1, 4), (1, 0), (1, 0), (1, 0), (1, 0)], 3, name="gang")
    shell.settle()
    shell.job("ours", [(1, 1)] * 8, name="many")
    seen = set()
    for _ in range(12):
        decisions = shell.cycle()
        shell.engine.prepare()
        leaf = shell.engine.tree.jobs["ns/gang"]
        seen.add((leaf.gang, leaf.demand.pieces, tuple(round(amount, 6) for amount in leaf.due)))
        if any(isinstance(each, Evict) for each in decisions):
            assert any(task.evicted for task in leaf.job.each_task())
    assert shell.evictions and len(seen) == 1, seen
