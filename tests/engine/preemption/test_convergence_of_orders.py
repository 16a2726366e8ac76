"""Small clusters on which evictions went on for ever, or claims were not kept; each once came out of a random one."""

from __future__ import annotations

import pytest

from pumice.engine.events import Gone
from pumice.model.specs import NodeSpec
from tests.support.taking import Shell, taking_engine


def rests(shell: Shell, evictions: int) -> bool:
    """Whether nobody goes any more after at most so many."""
    shell.settle(30)
    return len(shell.evictions) <= evictions and not shell.engine.context.pipelined.tasks


def test_running_job_keeps_last_slot_against_equal_newcomer() -> None:
    # 7 cpu: urgent tasks of 2 are entitled to all of it, 3 of them fit; one cpu is left for two jobs entitled to none.
    shell = Shell(taking_engine())
    shell.node("n0", 3)
    shell.node("n1", 4)
    shell.queue("root/q")
    shell.job("q", [(2,)] * 9, priority=5)
    first = shell.job("q", [(1,)])
    shell.cycle()
    shell.job("q", [(1,)])
    assert rests(shell, 0)
    assert shell.running(first) == 1


def test_job_keeps_contested_memory_task_against_equal_newcomer() -> None:
    # One task of memory fits, and both jobs hold a task of cpu: that makes neither an incumbent where memory counts.
    shell = Shell(taking_engine())
    shell.node("n", 3, 2)
    shell.queue("root/x")
    shell.queue("root/z")
    shell.job("z", [(0, 2), (1, 0)])
    shell.cycle()
    shell.job("x", [(0, 2), (1, 0)])
    assert rests(shell, 1)


def test_evictions_stop_when_sibling_queues_tie_for_last_task() -> None:
    # 5 cpu and 3 memory. x and y have a task each that nobody disputes, and tie for the third task of memory.
    shell = Shell(taking_engine())
    shell.node("n", 5, 3)
    for path, weights in (("root/c/y", "1/1/1"), ("root/c/x", "1/1/1"), ("root/a", "1/2")):
        shell.queue(path, weights)
    shell.job("c-x", [(3, 1)])
    shell.job("a", [(1, 1), (3, 1), (2, 1)], 3)
    shell.job("c-y", [(1, 1)])
    shell.cycle()
    shell.job("c-x", [(0, 1)])
    shell.job("c-y", [(0, 1)])
    assert rests(shell, 4)


def test_a_newcomer_pulls_its_parent_to_the_front_but_takes_nothing_for_its_siblings() -> None:
    # Under the published rule a job that holds nothing makes its parent's share count as nothing. If that were so when
    # somebody takes, c would always come before a.
    shell = Shell(taking_engine("paper"))
    shell.node("n", 2)
    for path in ("root/a", "root/c/x", "root/c/y"):
        shell.queue(path)
    shell.job("c-y", [(1,)] * 2)
    shell.cycle()
    shell.job("c-x", [(1,)])
    shell.job("a", [(1,)])
    assert rests(shell, 2)
    assert shell.running("a") == 1


def test_a_large_sibling_that_fits_nowhere_is_no_reason_to_take() -> None:
    shell = Shell(taking_engine("paper"))
    shell.node("n", 2)
    for path in ("root/c/y", "root/c/x"):
        shell.queue(path)
    for queue, request, count in (("c-y", 1, 1), ("c-y", 2, 3), ("c-x", 2, 3), ("c-x", 1, 2)):
        shell.job(queue, [(request,)] * count)
    assert rests(shell, 4)


def test_small_and_large_tasks_of_one_queue_do_not_pull_each_other_along() -> None:
    # 5 cpu, a (twice the weight) holds 3. x takes the 2 that are left, and its smaller job has no claim on a's.
    shell = Shell(taking_engine("paper"))
    shell.node("n", 5)
    shell.queue("root/c/x")
    shell.queue("root/a", "1/2")
    shell.job("a", [(1,)] * 3)
    shell.cycle()
    shell.job("c-x", [(2,)] * 2)
    shell.job("c-x", [(1,)] * 2)
    assert rests(shell, 2)
    assert shell.running("a") == 3


def test_queue_order_does_not_depend_on_requested_resources() -> None:
    # b holds much memory and little cpu. By cpu alone b comes first, by both a does: each would take from the other.
    shell = Shell(taking_engine("paper"))
    for i, (cpu, memory) in enumerate([(4, 4), (8, 4), (2, 4), (2, 4)]):
        shell.node(f"n{i}", cpu, memory)
    shell.queue("root/a", "1/3")
    shell.queue("root/b")
    shell.job("a", [(2, 1)] * 12)
    shell.cycle()
    shell.job("b", [(1, 0), (0, 2)] * 4)
    assert rests(shell, 8)


def cpu_and_memory_in_turns(arrivals: str) -> Shell:
    """Two queues under paper, 4 cpu and 10 memory; a holds most of the memory. The jobs arrive in this order."""
    shell = Shell(taking_engine("paper"))
    shell.node("n", 4, 10)
    shell.queue("root/a")
    shell.queue("root/b")
    jobs = {
        "store": ("a", [(0, 8)], None),
        "low-a": ("a", [(1, 0)] * 4, None),
        "high-a": ("a", [(1, 1)], 5),
        "low-b": ("b", [(1, 1)] * 4, None),
        "high-b": ("b", [(1, 0)], 5),
    }
    for name in arrivals.split():
        queue, requests, priority = jobs[name]
        shell.job(queue, requests, name=name, priority=priority)
        for _ in range(3):
            shell.cycle()
    return shell


@pytest.mark.parametrize("arrivals", ["store low-a high-a low-b high-b", "store low-a high-a high-b low-b"])
def test_priorities_inside_queues_and_reclaim_between_them_come_to_rest(arrivals: str) -> None:
    # low-a reclaims a cpu from b, where cpu alone is at stake; high-a takes it together with memory; over both
    # resources a holds more than b, and low-b reclaims the cpu; low-a holds too little again.
    shell = cpu_and_memory_in_turns(arrivals)
    assert rests(shell, len(shell.evictions) + 4)
    assert shell.evictions


def test_a_job_that_lost_a_task_reclaims_again_once_demand_changes() -> None:
    # 4 cpu. late takes two from early, which it may not take back; when b asks for nothing any more, a job of a third
    # queue changes what everybody may have, and early, which lost a task before, takes part again.
    shell = Shell(taking_engine("paper"))
    shell.node("n", 4)
    for path in ("root/a", "root/b", "root/c"):
        shell.queue(path)
    early = shell.job("a", [(1,)] * 4)
    shell.cycle()
    late = shell.job("b", [(1,)] * 4)
    shell.settle(10)
    assert (shell.running(early), shell.running(late)) == (2, 2)
    leaf = shell.engine.tree.jobs[early]
    reclaimers, context = shell.engine.context.reclaimers, shell.engine.context
    assert reclaimers.is_barred(context, leaf)
    shell.end_job(late)
    greedy = shell.job("c", [(2,)] * 2)
    shell.settle(10)
    assert (shell.running(early), shell.running(greedy)) == (2, 1)
    assert not reclaimers.is_barred(context, leaf)


def test_a_gang_that_was_below_its_minimum_already_stays_where_it_is_not_needed() -> None:
    # 6 cpu: a task of 3 and a gang of three, of which one has ended and waits anew. Somebody wants 4: the idle cpu and
    # the large task's 3 are enough.
    shell = Shell(taking_engine(actions="reclaim, allocate"))
    shell.node("n", 6)
    shell.queue("root/a")
    shell.queue("root/b", "1/9")
    large = shell.job("a", [(3,)])
    shell.settle()
    gang = shell.job("a", [(1,)] * 3, 3)
    shell.settle()
    shell.end(shell.running_tasks(gang)[0], again=True)
    shell.job("b", [(4,)])
    shell.settle()
    assert [eviction.job for _, eviction in shell.evictions] == [large]
    assert (shell.running(gang), shell.running("b")) == (2, 1)


# --- claims -------------------------------------------------------------------------------------------------------


def test_all_tasks_pipelined_on_node_start_in_same_cycle() -> None:
    shell = Shell(taking_engine())
    shell.node("n", 6)
    shell.queue("root/a")
    shell.queue("root/b", "1/9")
    for _ in range(6):
        shell.job("a", [(1,)])
    shell.cycle()
    preemptors = [shell.job("b", [(2,)]), shell.job("b", [(2,)])]
    shell.cycle()
    assert len(shell.evictions) == 4
    shell.cycle()
    assert [shell.running(preemptor) for preemptor in preemptors] == [1, 1]


def test_one_victim_makes_room_for_two_tasks() -> None:
    # A gang of two tasks of 2 cpu; either of two tasks of 4 cpu leaves room for both.
    shell = Shell(taking_engine())
    shell.node("n0", 4)
    shell.node("n1", 4)
    shell.queue("root/a")
    shell.queue("root/b")
    for _ in range(2):
        shell.job("a", [(4,)])
    shell.cycle()
    gang = shell.job("b", [(2,)] * 2, 2)
    shell.settle()
    assert shell.running(gang) == 2 and len(shell.evictions) == 1


def test_a_node_that_is_taken_away_while_somebody_waits_there_is_forgotten() -> None:
    # Two nodes of 2 cpu; b waits for the room of a's tasks. They end, and the node goes with them.
    shell = Shell(taking_engine(), grace=5)
    shell.node("n0", 2)
    shell.node("n1", 2)
    shell.queue("root/a")
    shell.queue("root/b")
    shell.job("a", [(1,)] * 8)
    shell.cycle()
    shell.job("b", [(1,)] * 2)
    shell.cycle()
    name = next(task.node.name for task in shell.engine.context.pipelined.tasks if task.node is not None)
    for key in [task.key for task in shell.tasks.values() if task.node == name]:
        shell.leaving.pop(key, None)
        shell.end(key)
    shell.engine.apply(Gone(NodeSpec, name))
    shell.cycle()  # the shell has the engine check itself
    assert name not in shell.engine.state.nodes
