"""Taking back, case by case: clusters that once thrashed, starved or held room for ever; and nodes that go."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pumice.engine.engine import Engine
from pumice.engine.preemption.cooldown import PreemptionCooldown
from pumice.model.specs import NodeSpec
from tests.support.taking import SECOND, Shell, taking_engine

both_actions = pytest.mark.parametrize("actions", ["allocate, reclaim", "allocate, backfill, reclaim, preempt"])


def held_part(shell: Shell) -> float:
    """The part of the cluster's cpu that is in use."""
    return shell.engine.tree.root.held[0] / shell.engine.state.capacity[0]


# --- clusters that broke a prototype --------------------------------------------------------------------------------


@both_actions
def test_a_gang_whose_turn_it_is_not_is_no_reason_to_evict(actions: str) -> None:
    # 8 cpu, weights 6 : 44 : 30. Targets .6, 4.4 and 3: the gang of 6 is entitled to less than itself. It gets its
    # turn by rounding or it does not, but nothing goes back and forth.
    shell = Shell(taking_engine(actions=actions))
    shell.node("n", 8)
    for queue, weight in (("q1", 6), ("q2", 44), ("q3", 30)):
        shell.queue(f"root/{queue}", f"1/{weight}")
    for _ in range(8):
        shell.job("q1", [(1,)])
    shell.job("q2", [(1,)] * 6, 6)
    shell.job("q3", [(1,)] * 3)
    assert shell.settle(30) <= 3
    assert shell.running("q3") == 3


@pytest.mark.parametrize("order", ["first", "last"])
def test_a_gang_whose_turn_it_is_not_wherever_it_comes(order: str) -> None:
    shell = Shell(taking_engine())
    shell.node("n", 8)
    for queue, weight in (("q1", 6), ("q2", 44), ("q3", 30)):
        shell.queue(f"root/{queue}", f"1/{weight}")
    if order == "first":
        shell.job("q2", [(1,)] * 6, 6)
        shell.cycle()
    for _ in range(8):
        shell.job("q1", [(1,)])
    shell.cycle()
    shell.job("q3", [(1,)] * 3)
    shell.cycle()
    if order == "last":
        shell.job("q2", [(1,)] * 6, 6)
    assert shell.settle(30) <= 3
    # A gang that runs already stays: without it 4.4 would be missing, and q3 would gain no more than 3. So q3 takes the
    # task of q1: 0.6 is missing there afterwards, and q3 gains 1.
    assert (shell.running("q2"), shell.running("q3")) == ((6, 2) if order == "first" else (0, 3))


def test_large_tasks_get_their_part_among_endless_small_ones() -> None:
    # 4 nodes of 8 cpu, two queues of equal weight: 16 cpu each, so 2 of the eight jobs of one task of 8 cpu.
    # One small task a cycle ends, and an equal one waits in its place.
    shell = Shell(taking_engine())
    for i in range(4):
        shell.node(f"n{i}", 8)
    shell.queue("root/large")
    shell.queue("root/small")
    shell.job("small", [(1,)] * 60)
    shell.settle()
    for _ in range(8):
        shell.job("large", [(8,)])
    running = []
    for step in range(60):
        small = shell.running_tasks("small")
        shell.end(small[step * 7 % len(small)], again=True)
        shell.cycle()
        running.append(shell.running("large"))
    assert running[-40:] == [2] * 40
    assert len(shell.evictions) <= 16


def test_a_hold_that_can_not_end_well_ends() -> None:
    # Nodes of 4, 4 and 1 cpu. The service of 2 cpu leaves room for one 3-cpu task of the gang of two, and is entitled
    # to what it has: nobody may be evicted, and the gang's hold on room ends when it makes no progress.
    engine = taking_engine(arguments={"drf.patience": 1, "drf.holdLimit": 5})
    shell = Shell(engine)
    for name, cpu in (("n0", 4), ("n1", 4), ("n2", 1)):
        shell.node(name, cpu)
    shell.queue("root/service", "1/1")
    shell.queue("root/gang", "1/3")
    service = shell.job("service", [(2,)])
    shell.cycle()
    gang = shell.job("gang", [(3,)] * 2, 2)
    held = ""
    for _ in range(61):
        shell.cycle()
        assert engine.context.reservations is not None
        held += "x" if engine.context.reservations.active else "."
    assert shell.running(service) == 1 and shell.running(gang) == 0 and not shell.evictions
    # A second of patience, five without progress; then the wait is twice as long, each time.
    assert [len(hold) for hold in held.split(".") if hold] == [6] * 5
    assert [len(wait) for wait in held.split("x") if wait] == [1, 2, 4, 8, 16]


@pytest.mark.parametrize("scores", [(), ("nodeorder",)], ids=["packed", "spread"])
def test_a_job_of_whole_nodes_starts_where_small_ones_are_everywhere(scores: tuple[str, ...]) -> None:
    # 4 nodes of 4 cpu and sixteen jobs of 1 cpu, then a job of two tasks of 4 cpu, entitled to half: 8 cpu.
    shell = Shell(taking_engine(plugins=("priority", "gang", "conformance", *scores)))
    for i in range(4):
        shell.node(f"n{i}", 4)
    shell.queue("root/small")
    shell.queue("root/whole")
    for _ in range(16):
        shell.job("small", [(1,)])
        shell.cycle()
    whole = shell.job("whole", [(4,)] * 2)
    shell.settle()
    assert shell.running(whole) == 2
    assert len(shell.evictions) == 8


def test_jobs_within_entitlement_are_not_evicted_to_defragment_nodes() -> None:
    # Each of the 4 nodes has 2 of eight small jobs, entitled to the 8 cpu that they hold. 8 cpu are idle, no node is:
    # two tasks of 4 cpu would fit if four small ones moved, but nobody is pushed below its whole target for that.
    shell = Shell(taking_engine())
    for i in range(4):
        shell.node(f"n{i}", 2)
    shell.queue("root/small")
    shell.queue("root/whole")
    for _ in range(8):
        shell.job("small", [(1,)])
    shell.cycle()
    for i in range(4):
        shell.put(NodeSpec(f"n{i}", (4, 1000, 1000)))
    whole = shell.job("whole", [(4,)] * 2)
    shell.settle()
    assert (shell.running("small"), shell.running(whole)) == (8, 0)
    assert not shell.evictions


@pytest.mark.parametrize(("tasks", "goes"), [(2, False), (3, False), (4, True)])
def test_a_gang_goes_only_where_the_split_gets_better(tasks: int, goes: bool) -> None:
    # 8 cpu: a gang of 6, and a service with its 2. Another queue, twice as heavy, wants 2 (or 3, or 4): too little is
    # left for the gang, so its whole target is 0 and it holds 6 too many; but it goes whole or not at all. Then it is
    # short of the 4 (3, 2) that are its part, so 4 is what makes it better.
    shell = Shell(taking_engine())
    shell.node("n", 8)
    for queue, weight in (("gang", 1), ("service", 1), ("other", 2)):
        shell.queue(f"root/{queue}", f"1/{weight}")
    shell.job("gang", [(1,)] * 6, 6)
    shell.job("service", [(1,)] * 2)
    shell.settle()
    shell.job("other", [(1,)] * tasks)
    shell.settle()
    assert shell.running("service") == 2
    assert (shell.running("gang"), shell.running("other")) == ((0, tasks) if goes else (6, 0))
    assert len(shell.evictions) == (6 if goes else 0)


def test_reclaim_leaves_no_gang_below_its_minimum() -> None:
    # Four tasks, at least three; another queue, three times as heavy, wants 3 of the 4 cpu in one piece. One task of
    # the gang could go by itself, the others only together; then the one is not needed, but it can't stay alone.
    shell = Shell(taking_engine())
    shell.node("n", 4)
    shell.queue("root/gang", "1/1")
    shell.queue("root/other", "1/3")
    gang = shell.job("gang", [(1,)] * 4, 3)
    shell.cycle()
    other = shell.job("other", [(3,)])
    shell.settle()
    assert shell.running(other) == 1
    assert shell.running(gang) in (0, 3, 4)


# --- a gang of half the cluster -------------------------------------------------------------------------------------


def half_and_endless(engine: Engine) -> Shell:
    """16 cpu full of tasks of 1 cpu that end by turns, one a cycle, and are replaced; then a gang of 8."""
    shell = Shell(engine)
    for i in range(4):
        shell.node(f"n{i}", 4)
    shell.queue("root/small")
    shell.queue("root/gang")
    for _ in range(32):
        shell.job("small", [(1,)])
    shell.settle()
    shell.job("gang", [(1,)] * 8, 8, name="gang")
    return shell


def turn(shell: Shell, step: int) -> None:
    small = shell.running_tasks("small")
    shell.end(small[step * 5 % len(small)], again=True)
    shell.cycle()


@pytest.mark.parametrize("patience", [0, 3, 10])
def test_a_gang_of_half_the_cluster_starts_after_its_patience(patience: int) -> None:
    shell = half_and_endless(taking_engine(cooldown=PreemptionCooldown(patience * SECOND, 0)))
    for step in range(patience + 3):
        turn(shell, step)
        # It is found without room in the first cycle; ``patience`` seconds later it takes, and starts the cycle after.
        assert bool(shell.evictions) == (step >= patience)
        assert shell.running("gang") == (8 if step > patience else 0)
    assert len(shell.evictions) <= 8


def test_task_is_not_evicted_before_min_runtime() -> None:
    shell = half_and_endless(taking_engine(cooldown=PreemptionCooldown(0, 5 * SECOND)))
    assert {task.started for task in shell.tasks.values() if task.node is not None} == {SECOND}
    while not shell.evictions and shell.cycles < 20:
        shell.cycle()
    # They started in the first cycle, microseconds apart (starts never tie): five seconds later is the 7th.
    assert shell.evictions[0][0] == 7


@pytest.mark.parametrize("patience", [0, 20])
def test_gang_without_reclaim_starts_once_enough_tasks_have_ended(patience: int) -> None:
    shell = half_and_endless(taking_engine(actions="allocate", arguments={"drf.patience": patience}))
    steps, lost = 0, 0.0
    while not shell.running("gang") and steps < 200:
        turn(shell, steps)
        steps += 1
        lost += 1 - held_part(shell)
    # Eight tasks must end, one a cycle, once it holds room.
    ratio = (steps - patience) / 8
    print(f"\ndrf.patience {patience}: started after {steps} cycles, {ratio:.2f} times what it takes 8 tasks to end; ")
    print(f"the hold cost {lost:.2f} cluster-seconds, {lost / steps:.1%} of the time")
    assert 1.0 <= ratio <= 1.6


# --- nodes that go --------------------------------------------------------------------------------------------------


def gone(spec: NodeSpec, how: str) -> NodeSpec:
    return replace(spec, unschedulable=True) if how == "cordoned" else replace(spec, ready=False)


@pytest.mark.parametrize("how", ["cordoned", "lost"])
@pytest.mark.parametrize("waiting", [False, True], ids=["content", "wanting more"])
def test_a_node_that_goes_makes_nobody_overfull(how: str, waiting: bool) -> None:
    # 4 nodes of 4 cpu, two queues with 8 each; a's tasks are on n0 and n1, b's on n2 and n3.
    shell = Shell(taking_engine())
    for i in range(4):
        shell.node(f"n{i}", 4)
    shell.queue("root/a")
    shell.queue("root/b")
    more = 4 if waiting else 0
    shell.job("a", [(1,)] * (8 + more), name="a")
    shell.job("b", [(1,)] * (8 + more), name="b")
    shell.settle()
    assert (shell.running("a"), shell.running("b")) == (8, 8)
    shell.put(gone(NodeSpec("n0", (4, 1000, 1000)), how))
    shell.settle()
    # Its tasks are still there (nobody said that they ended), and what they hold counts in what is shared.
    assert not shell.evictions
    assert (shell.running("a"), shell.running("b")) == (8, 8)
    assert list(shell.engine.state.capacity[:1]) == [16]


def drained(at_once: bool) -> Shell:
    """4 nodes of 4 cpu, two queues with 8 each and more waiting; the tasks on n0, 2 of each, end and wait again."""
    shell = Shell(taking_engine())
    for i in range(4):
        shell.node(f"n{i}", 4)
    shell.queue("root/a")
    shell.queue("root/b")
    shell.job("a", [(1,)] * 12, name="a")
    shell.job("b", [(1,)] * 12, name="b")
    shell.settle()
    shell.put(NodeSpec("n0", (4, 1000, 1000), unschedulable=True))
    on_it = [task.key for task in shell.tasks.values() if task.node == "n0"]
    assert sorted(key[:4] for key in on_it) == ["ns/a", "ns/a", "ns/b", "ns/b"]
    for key in on_it:
        shell.end(key, again=True)
        if not at_once:
            shell.cycle()
    shell.settle()
    return shell


def test_a_node_that_is_drained_costs_nobody_else_a_task() -> None:
    # 12 cpu are left, 6 for each, and 6 is what each still has elsewhere.
    shell = drained(at_once=True)
    assert (shell.running("a"), shell.running("b")) == (6, 6)
    assert not shell.evictions


def test_a_node_that_is_drained_task_by_task() -> None:
    # When a's two have gone there are 14 cpu, 7 each: b, with 8, gives one back; later a does. Never more than that.
    shell = drained(at_once=False)
    assert (shell.running("a"), shell.running("b")) == (6, 6)
    assert len(shell.evictions) <= 2


def test_pipelined_tasks_of_a_node_that_goes_wait_again() -> None:
    shell = Shell(taking_engine(), grace=5)
    for i in range(2):
        shell.node(f"n{i}", 4)
    shell.queue("root/a")
    shell.queue("root/b")
    shell.job("a", [(1,)] * 16, name="a")
    shell.settle()
    gang = shell.job("b", [(1,)] * 4, 4)
    shell.cycle()
    assert len(shell.evictions) == 4
    claimed = {task.node.name for task in shell.engine.context.pipelined.tasks if task.node is not None}
    shell.put(NodeSpec(min(claimed), (4, 1000, 1000), unschedulable=True))
    shell.settle(60)
    # All four had claims on n1, and all its tasks went. 4 cpu are left, full of a's: 2 for b, too few for its gang.
    assert claimed == {"n1"}
    assert (shell.running("a"), shell.running(gang)) == (4, 0)
    assert not shell.engine.context.pipelined.tasks
    assert len(shell.evictions) == 4


def test_entitled_small_task_reclaims_despite_larger_task_of_same_job() -> None:
    # Equal queues on 4 cpu; y has borrowed all of it. x waits with tasks of 3 and 1: the 3 is more than its half, the 1
    # is owed. That nothing fits now must not hide the 1 behind the 3.
    shell = Shell(taking_engine())
    shell.node("n", 4)
    shell.queue("root/x")
    shell.queue("root/y")
    shell.job("y", [(1,)] * 4)
    shell.settle()
    shell.job("x", [(3,), (1,)])
    shell.settle()
    assert (shell.running("x"), shell.running("y")) == (1, 3)
