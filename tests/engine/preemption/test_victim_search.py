"""Victims: who is asked first, who is never asked, and who goes together (docs/fairness.md, section 9.7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kubebase.label_selector import Requirement
from pumice.engine.decisions import Bind, Evict
from pumice.engine.events import Changed, EvictFailed, Gone
from pumice.model.specs import DisruptionBudget, JobPhase, JobSpec, NodeSpec, PriorityClass, TaskSpec
from tests.support.taking import SECOND, Shell, taking_engine

NO_PRIORITY = ("gang", "conformance")  # priorities of tasks, but no classes of jobs


def shell_of(cpu: int, *queues: str, rule: str = "steer", nodes: int = 1, audited: bool = True, **more: Any) -> Shell:
    """Nodes of so much cpu, and queues of equal weight."""
    shell = Shell(taking_engine(rule, **more), audited=audited)
    for i in range(nodes):
        shell.node(f"n{i}", cpu)
    for queue in queues:
        shell.queue(f"root/{queue}")
    return shell


def victims(shell: Shell) -> list[str]:
    """A cycle; who went, in order, without namespace and ``t``."""
    return [d.task.removeprefix("ns/").replace("-t-", ".") for d in shell.cycle() if isinstance(d, Evict)]


def jobs_of(tasks: list[str]) -> list[str]:
    return [task.split(".")[0] for task in tasks]


# --- in what order --------------------------------------------------------------------------------------------------


def test_own_siblings_before_cousins() -> None:
    # 12 cpu, three organisations, 4 each; of one's 4 its two teams have 2 each. While all but t2 and u sleep these hold
    # 6 each: t2 is 4 above its part, u 2. t1 takes its 2 from its sibling, three takes the 2 + 2 that are left over.
    shell = shell_of(12)
    for path in ("root/one/t1", "root/one/t2", "root/two/u", "root/three/v"):
        shell.queue(path)
    shell.job("one-t2", [(1,)] * 12, name="t2")
    shell.job("two-u", [(1,)] * 12, name="u")
    shell.cycle()
    assert (shell.running("ns/t2"), shell.running("ns/u")) == (6, 6)
    shell.job("one-t1", [(1,)] * 2, name="t1")
    shell.job("three-v", [(1,)] * 4, name="v")
    took = [(d.preemptor, d.job) for d in shell.cycle() if isinstance(d, Evict)]
    assert [victim for preemptor, victim in took if preemptor == "ns/t1"] == ["ns/t2"] * 2
    assert sorted(victim for preemptor, victim in took if preemptor == "ns/v") == ["ns/t2"] * 2 + ["ns/u"] * 2


@pytest.mark.parametrize("important", [False, True])
def test_the_branch_furthest_above_its_part_before_all_else(important: bool) -> None:
    # 12 cpu: a holds 7 and b 5, then c wants 4, which is its third. a is 3 above its part, b 1. Of the four that go the
    # first two are a's whatever their priority; then both are 1 above (they tie), then whoever is left.
    shell = shell_of(12, "a", "b", "c", plugins=NO_PRIORITY)
    shell.job("a", [(1,)] * 7, name="a", priority=9 if important else 0)
    shell.job("b", [(1,)] * 5, name="b", priority=5)
    shell.cycle()
    shell.job("c", [(1,)] * 4, name="c")
    went = jobs_of(victims(shell))
    assert went[:2] == ["a", "a"] and sorted(went) == ["a"] * 3 + ["b"]
    assert went[2] == ("b" if important else "a")  # where branches tie, tasks decide: the least important first


def test_lower_priority_queue_loses_first_when_branches_tie() -> None:
    # 6 + 6 cpu, each 2 above its third. b's tasks are more important, but its queue is less so.
    shell = shell_of(12, "c", plugins=NO_PRIORITY)
    shell.queue("root/a", priority=7)
    shell.queue("root/b", priority=3)
    shell.job("a", [(1,)] * 6, name="a")
    shell.job("b", [(1,)] * 6, name="b", priority=9)
    shell.cycle()
    shell.job("c", [(1,)] * 4, name="c")
    went = jobs_of(victims(shell))
    # b loses one (then a is further above), a one, and again.
    assert went == ["b", "a", "b", "a"]


def two_jobs(shell: Shell, *, first: dict[str, Any], then: dict[str, Any]) -> Shell:
    """8 cpu: two jobs of queue a with four tasks each, the second a cycle later."""
    shell.job("a", [(1,)] * 4, name="first", **first)
    shell.cycle()
    shell.job("a", [(1,)] * 4, name="then", **then)
    shell.cycle()
    assert shell.running("a") == 8
    return shell


@pytest.mark.parametrize(
    ("first", "then", "went"),
    [
        # 8 cpu; c asks for 2 of its 4, so a keeps 6, 3 for each of its two equal jobs: each can spare one.
        # The lowest priority goes first ...
        ({"priority": 1}, {"priority": 5}, ["first.3", "then.3"]),
        ({"priority": 5}, {"priority": 1}, ["then.3", "first.3"]),
        # ... among equals the one that has run for the shortest time (least work lost), of a job the last of its tasks.
        ({}, {}, ["then.3", "first.3"]),
    ],
    ids=["the older is less important", "the younger is less important", "equally important"],
)
def test_then_priority_then_the_shortest_running(first: dict[str, Any], then: dict[str, Any], went: list[str]) -> None:
    shell = two_jobs(shell_of(8, "a", "c", plugins=NO_PRIORITY), first=first, then=then)
    shell.job("c", [(1,)] * 2, name="c")
    assert victims(shell) == went


def test_victims_within_job_are_ordered_by_priority_then_latest_task() -> None:
    shell = shell_of(8, "a", "c", plugins=NO_PRIORITY)
    shell.job("a", [(1,)] * 8, name="a")
    for i, priority in enumerate([0, 0, 5, 0, 5, 0, 0, 5]):
        shell.put(replace(shell.tasks[f"ns/a-t-{i}"], priority=priority))
    shell.cycle()
    shell.job("c", [(1,)] * 4, name="c")
    assert victims(shell) == ["a.6", "a.5", "a.3", "a.1"]


def test_lower_priority_job_of_queue_loses_tasks_first() -> None:
    # With the priority plugin classes are composed one after another: of a's 4 the important job has all 4.
    shell = two_jobs(shell_of(8, "a", "c"), first={"priority": 5}, then={"priority": 1})
    shell.job("c", [(1,)] * 4, name="c")
    assert victims(shell) == ["then.3", "then.2", "then.1", "then.0"]


def test_youngest_of_equal_jobs_are_evicted_regardless_of_rounded_entitlement() -> None:
    # Four nodes of 1 cpu, four one-task jobs, started one after another; c wants 2. Rounding gives two of the four a
    # task by right; who has it hands it over, so that the two that have run for the shortest time go.
    shell = shell_of(1, "a", "c", nodes=4)
    for i in range(4):
        shell.job("a", [(1,)], name=f"a{i}")
        shell.cycle()
    shell.job("c", [(1,)] * 2, name="c")
    assert sorted(jobs_of(victims(shell))) == ["a2", "a3"]
    assert shell.settle() == 0


def test_the_node_where_the_fewest_have_to_go() -> None:
    # n0 has four tasks of 1 cpu, n1 one of 4, both jobs beyond their part: one goes rather than four.
    shell = shell_of(4, "a", "b", "c", nodes=2)
    shell.job("a", [(1,)] * 4, name="small")
    shell.cycle()
    shell.job("b", [(4,)], name="large")
    shell.cycle()
    assert {task.node for task in shell.tasks.values() if "small" in task.name} == {"n0"}
    shell.put(replace(shell.engine.state.queues["a"], path_weights="1/1"))
    shell.put(replace(shell.engine.state.queues["c"], path_weights="1/9"))
    shell.job("c", [(4,)], name="c")
    # 8 cpu, c's demand is 4 of its 6.5: a and b share the other 4. The large one's 2 are less than a task of it.
    assert victims(shell) == ["large.0"]


# --- never ----------------------------------------------------------------------------------------------------------


def unwilling_tasks(shell: Shell) -> None:
    for task in list(shell.tasks.values()):
        shell.put(replace(task, preemptable=False))


def unwilling_job(shell: Shell) -> None:
    job = shell.engine.state.jobs["ns/a"].spec
    assert job is not None
    shell.put(replace(job, preemptable=False))


def critical(name: str) -> Callable[[Shell], None]:
    def make(shell: Shell) -> None:
        shell.put(PriorityClass(name, 0))
        for task in list(shell.tasks.values()):
            shell.put(replace(task, priority_class=name))

    return make


def budget(shell: Shell) -> None:
    shell.put(DisruptionBudget("ns", "all", (), max_unavailable=0))


def not_reclaimable(shell: Shell) -> None:
    shell.put(replace(shell.engine.state.queues["up-a"], reclaimable=False))


def not_reclaimable_above(shell: Shell) -> None:
    shell.put(replace(shell.engine.state.queues["up"], reclaimable=False))


def never_preempts(shell: Shell) -> None:
    shell.put(replace(shell.tasks["ns/c-t-0"], preempts=False))


def class_never_preempts(shell: Shell) -> None:
    shell.put(PriorityClass("modest", 0, preempts=False))
    shell.put(replace(shell.tasks["ns/c-t-0"], priority_class="modest"))


NEVER: dict[str, Callable[[Shell], None]] = {
    "tasks that say no": unwilling_tasks,
    "a job that says no": unwilling_job,
    "system-cluster-critical": critical("system-cluster-critical"),
    "system-node-critical": critical("system-node-critical"),
    "a disruption budget": budget,
    "a queue that is not reclaimable": not_reclaimable,
    "a queue below one that is not": not_reclaimable_above,
    "a preemptor that never preempts": never_preempts,
    "a preemptor whose class never preempts": class_never_preempts,
}


@pytest.mark.parametrize("why", list(NEVER))
@pytest.mark.parametrize("rule", ["steer", "paper"])
def test_never(rule: str, why: str) -> None:
    shell = shell_of(4, "c", rule=rule, plugins=("gang", "pdb"))
    shell.queue("root/up")
    shell.queue("root/up/a")
    shell.put(replace(shell.engine.state.queues["up"], path=None, path_weights=None))
    shell.put(replace(shell.engine.state.queues["up-a"], path=None, path_weights=None, parent="up"))
    shell.job("up-a", [(1,)] * 4, name="a")
    shell.cycle()
    assert shell.running("ns/a") == 4
    shell.job("c", [(1,)], name="c")
    willing = shell.engine.state.queues["up-a"]
    NEVER[why](shell)
    assert victims(shell) == [] and shell.settle() == 0
    # It is that alone which was in the way.
    for task in list(shell.tasks.values()):
        shell.put(replace(task, preemptable=None, priority_class=None, preempts=None))
    shell.put(willing)
    shell.put(replace(shell.engine.state.queues["up"], reclaimable=True))
    job = shell.engine.state.jobs["ns/a"].spec
    assert job is not None
    shell.put(replace(job, preemptable=True))
    shell.engine.apply(Gone(DisruptionBudget, "ns/all"))
    assert victims(shell) == ["a.3"]


def test_non_preempting_job_does_not_stop_other_jobs_from_reclaiming() -> None:
    # Two queues on 4 cpu, a holds them all. Of b's two equal jobs the older one may take nothing, the other may.
    shell = shell_of(4)
    shell.queue("root/a")
    shell.queue("root/b")
    shell.job("a", [(1,)] * 4)
    shell.cycle()
    polite, other = shell.job("b", [(1,)]), shell.job("b", [(1,)])
    shell.put(replace(shell.tasks[f"{polite}-t-0"], preempts=False))
    shell.settle()
    assert (shell.running(polite), shell.running(other)) == (0, 1)


def test_a_task_may_say_otherwise_than_its_job() -> None:
    shell = shell_of(4, "a", "c")
    shell.put(JobSpec("ns", "a", "a", 1, phase=JobPhase.INQUEUE, preemptable=False))
    for i in range(4):
        shell.put(TaskSpec("ns", f"a-t-{i}", (1, 0, 1), job="ns/a", preemptable=True if i == 1 else None))
    shell.cycle()
    shell.job("c", [(1,)] * 2, name="c")
    assert victims(shell) == ["a.1"]


def test_the_systems_own_namespace_is_left_alone_without_any_plugin() -> None:
    shell = shell_of(4, "a", "c", plugins=("gang",))
    shell.job("a", [(1,)] * 4, name="dns", namespace="kube-system")
    shell.cycle()
    shell.job("c", [(1,)] * 2, name="c")
    assert victims(shell) == []


def test_pipelined_task_is_no_victim() -> None:
    # a's claim of 2 is not a thing that can be evicted; c takes what runs.
    shell = Shell(taking_engine(), grace=3)
    shell.node("n0", 4)
    for queue, weight in (("a", 1), ("b", 1), ("c", 8)):
        shell.queue(f"root/{queue}", f"1/{weight}")
    shell.job("b", [(1,)] * 4, name="b")
    shell.cycle()
    shell.job("a", [(1,)] * 2, 2, name="a")
    shell.cycle()
    assert len(shell.engine.context.pipelined.tasks) == 2
    shell.job("c", [(1,)] * 4, name="c")
    assert set(jobs_of(victims(shell))) <= {"b"}


# --- limits of what a queue can lose --------------------------------------------------------------------------------


@pytest.mark.parametrize(("guarantee", "goes"), [(None, 4), (5, 3), (6, 2), (8, 0)])
def test_a_guarantee_is_kept(guarantee: int | None, goes: int) -> None:
    # 8 cpu, capacity orders: a holds 8 and deserves 4, c deserves 4 and asks for 4. What is guaranteed stays.
    bounds: dict[str, Any] = {"guarantee": ((0, guarantee),)} if guarantee is not None else {}
    shell = shell_of(8, rule="capacity")
    shell.queue("root/a", deserved=((0, 4),), **bounds)
    shell.queue("root/c", deserved=((0, 4),))
    shell.job("a", [(1,)] * 8, name="a")
    shell.cycle()
    shell.job("c", [(1,)] * 4, name="c")
    shell.settle()
    # With a guarantee of 5 the real capability of c is 3, and so on; a keeps it in any case.
    assert shell.running("c") == goes and shell.running("a") == 8 - goes


def test_a_budget_is_counted_together() -> None:
    shell = shell_of(4, "a", "c", plugins=("gang", "pdb"))
    shell.job("a", [(1,)] * 4, name="a", labels={"app": "x"})
    shell.cycle()
    shell.put(DisruptionBudget("ns", "x", (Requirement("app", "In", ("x",)),), min_available=3))
    # Entitled to 2, but only one may go: a task starts, a gang of two does not.
    shell.job("c", [(1,)] * 2, 2, name="gang")
    assert victims(shell) == []
    shell.end_job("ns/gang")
    shell.job("c", [(1,)] * 2, name="c")
    assert victims(shell) == ["a.3"] and shell.settle() == 0


# --- together -------------------------------------------------------------------------------------------------------


def test_a_unit_may_need_victims_on_two_nodes() -> None:
    # 2 nodes of 4, all a's; a gang of two tasks of 3 cpu is entitled to 6 of 8 under weights 1 : 9. One task of a's
    # stays on each node.
    shell = Shell(taking_engine())
    for name in ("n0", "n1"):
        shell.node(name, 4)
    shell.queue("root/a", "1/1")
    shell.queue("root/c", "1/9")
    shell.job("a", [(1,)] * 8, name="a")
    shell.cycle()
    shell.job("c", [(3,)] * 2, 2, name="c")
    assert len(victims(shell)) == 6
    assert sorted(d.node.name for d in shell.engine.context.pipelined.tasks if d.node is not None) == ["n0", "n1"]
    shell.settle()
    assert (shell.running("ns/c"), shell.running("ns/a")) == (2, 2)


def test_no_task_is_evicted_when_only_part_of_gang_fits() -> None:
    # As above, but n1 has only 2 cpu: the second task of the gang has no place, whoever goes.
    shell = Shell(taking_engine())
    shell.node("n0", 4)
    shell.node("n1", 2)
    shell.queue("root/a", "1/1")
    shell.queue("root/c", "1/9")
    shell.job("a", [(1,)] * 6, name="a")
    shell.cycle()
    shell.job("c", [(3,)] * 2, 2, name="c")
    assert victims(shell) == []


def test_no_task_is_evicted_when_gang_fits_in_another_arrangement() -> None:
    # 2 cpu are free on n0 and 3 on n1. Task by task 1 goes to n0 and 2 to n1, and one of b's would have to go for the
    # last 2; but 2 on n0 and 1 + 2 on n1 need nobody. By keys one could: a has 5/8 over 3, b is left with 2/8.
    shell = Shell(taking_engine("paper"))
    shell.node("n0", 5)
    shell.node("n1", 3)
    shell.queue("root/a", "1/3")
    shell.queue("root/b", "1/1")
    shell.job("b", [(1,)] * 3, name="b")
    shell.cycle()
    shell.job("a", [(1,), (2,), (2,)], 3, name="a")
    assert victims(shell) == []
    assert (shell.running("ns/a"), shell.running("ns/b")) == (3, 3)


@pytest.mark.parametrize(
    ("gang", "preemptors", "goes"),
    [
        # c is entitled to all it asks for, a to the rest. The gang is more than that, so it may go, but only whole:
        # then a is short of its rest, and c no longer of what its preemptors start. 2 : 2 is no better, 1 : 3 is.
        (4, [1, 1], False),
        (4, [2], False),
        (4, [1, 1, 1], True),
        (4, [3], True),
        (4, [1], False),
        (5, [1, 1], False),
        (5, [2], False),
        (5, [1, 1, 1], True),
        (5, [2, 1], True),
        (5, [3], True),
    ],
    ids=str,
)
def test_a_gang_goes_whole_where_the_split_gets_better(gang: int, preemptors: list[int], goes: bool) -> None:
    shell = shell_of(gang)
    shell.queue("root/a", "1/1")
    shell.queue("root/c", "1/9")  # entitled to all it asks for
    shell.job("a", [(1,)] * gang, gang, name="a")
    shell.cycle()
    assert shell.running("ns/a") == gang
    for i, cpu in enumerate(preemptors):
        shell.job("c", [(cpu,)], name=f"c{i}")
    went = victims(shell)
    assert sorted(went) == ([f"a.{i}" for i in range(gang)] if goes else [])
    shell.settle()
    assert shell.running("c") == (len(preemptors) if goes else 0)


def test_several_jobs_of_several_queues_fill_the_room_of_a_gang_together() -> None:
    # Everybody is entitled to 1 of 4: three get theirs, a is short of 1.
    shell = shell_of(4, "a", "b", "c", "d")
    shell.job("a", [(1,)] * 4, 4, name="a")
    shell.cycle()
    for queue in ("b", "c", "d"):
        shell.job(queue, [(1,)], name=queue)
    assert len(victims(shell)) == 4
    shell.settle()
    assert (shell.running("b"), shell.running("c"), shell.running("d")) == (1, 1, 1)


def test_gang_tasks_above_minimum_are_evicted_one_by_one() -> None:
    # 4 of 6 make the gang: two can go one by one, more could only go with the whole gang.
    shell = shell_of(6, "a", "c")
    shell.job("a", [(1,)] * 6, 4, name="a")
    shell.cycle()
    shell.job("c", [(1,)] * 2, name="c")
    assert victims(shell) == ["a.5", "a.4"]


def test_pipelined_task_does_not_count_towards_the_minimum_of_its_gang() -> None:
    # The gang of at least 2 runs 2 tasks, and a third waits for a task of b to leave. urgent, a more important job of
    # the same queue, may take one only when all three run: otherwise a single task of the gang would be left running.
    shell = shell_of(6, "a", "b")
    shell.grace = 3
    shell.job("b", [(1,)] * 6, name="other")
    gang = shell.job("a", [(1,)] * 2, 2, name="gang")
    shell.settle()
    shell.put(TaskSpec("ns", "gang-t-2", (1, 0, 1), job=gang, created=99))
    shell.cycle()
    assert len(shell.engine.context.pipelined.tasks) == 1
    shell.job("a", [(1,)], name="urgent", priority=5)
    for _ in range(12):
        shell.cycle()
        assert shell.running("ns/gang") >= 2
    assert [shell.running(f"ns/{job}") for job in ("other", "gang", "urgent")] == [3, 2, 1]


def test_the_minimum_of_a_role_is_kept() -> None:
    # ps 1, worker 2 of ps, ps, w, w, w. The order asks the workers first (they are last); the third may go, then no
    # more of them, but the second ps.
    shell = shell_of(5, "a", "c")
    roles = ["ps", "ps", "w", "w", "w"]
    shell.job("a", [(1,)] * 5, 3, name="a", roles=roles, minimums={"ps": 1, "w": 2})
    shell.cycle()
    shell.job("c", [(1,)] * 2, name="c")
    assert victims(shell) == ["a.4", "a.1"]


@pytest.mark.parametrize("how", ["cordoned", "lost", "gone"])
def test_a_gang_goes_whole_wherever_its_tasks_are(how: str) -> None:
    # a's gang of two tasks of 2 cpu, one of them on a node that takes nothing more. What is shared is the other node
    # and what is still held there, 2 + 2 cpu: b, nine times as heavy, is entitled to 3.6 of them and owed a task of 2.
    shell = shell_of(2, nodes=2, audited=False)
    shell.queue("root/a", "1/1")
    shell.queue("root/b", "1/9")
    shell.job("a", [(2,)] * 2, 2, name="a")
    shell.cycle()
    away = NodeSpec("n1", (2, 1000, 1000), unschedulable=how == "cordoned", ready=how != "lost")
    shell.engine.apply(Changed(away) if how != "gone" else Gone(NodeSpec, "n1"))
    assert shell.engine.state.capacity[0] == 4
    shell.job("b", [(2,)] * 2, name="b")
    decisions = shell.engine.cycle(shell.now + SECOND)
    assert sorted(d.task for d in decisions if isinstance(d, Evict)) == ["ns/a-t-0", "ns/a-t-1"]
    shell.engine.validate()
    # What is being released there is held no more, from the decision on; if it stays after all, it is.
    assert shell.engine.state.capacity[0] == 2
    shell.engine.apply(EvictFailed("ns/a-t-1"))
    shell.engine.validate()
    assert shell.engine.state.capacity[0] == 4


def test_a_gang_goes_whole_with_what_it_was_given_in_the_same_cycle() -> None:
    # b fills two nodes of 2: u and one of the gang g on n0, the other of g and v on n1. That other one ends and is made
    # anew; it gets its place back, then a takes n1: v goes, and g, of which only the task on n0 runs. By keys that is
    # right: a has 2/4 over 3, b is left with 1/4.
    shell = shell_of(2, nodes=2, rule="paper")
    shell.queue("root/a", "1/3")
    shell.queue("root/b", "1/1")
    for name, tasks in {"u": 1, "g": 2, "v": 1}.items():
        shell.job("b", [(1,)] * tasks, tasks, name=name)
    shell.cycle()
    shell.end("ns/g-t-1", again=True)
    shell.job("a", [(2,)], name="a")
    decisions = shell.cycle()
    assert sorted(d.task for d in decisions if isinstance(d, Evict)) == ["ns/g-t-0", "ns/v-t-0"]
    assert not any(isinstance(d, Bind) for d in decisions)


def test_late_news_of_a_victim_do_not_bring_it_back() -> None:
    shell = Shell(taking_engine(), grace=2, audited=False)
    shell.node("n0", 4)
    for queue in "ac":
        shell.queue(f"root/{queue}")
    shell.job("a", [(1,)] * 4, name="a")
    shell.cycle()
    shell.job("c", [(1,)] * 2, name="c")
    before = {task.key: task for task in shell.tasks.values()}
    went = victims(shell)
    for name in went:
        late = replace(before[f"ns/{name.replace('.', '-t-')}"], labels={"seen": "late"})
        shell.engine.apply(Changed(late))
    assert victims(shell) == []
    shell.engine.validate()
    shell.settle()
    assert (shell.running("a"), shell.running("c")) == (2, 2)


@pytest.mark.parametrize("tasks", [[3, 1], [1, 3]], ids=str)
def test_a_larger_task_goes_where_a_smaller_one_would_not_do(tasks: list[int]) -> None:
    # Equal queues on 4 cpu. One job of x holds all of it with tasks of 3 and 1; y is owed its task of 2. If the 1 went
    # first, too little would be free, and the 3 could not go on top of it: it is the 3 that goes, in whatever order.
    shell = shell_of(4, "x", "y")
    shell.job("x", [(cpu,) for cpu in tasks], name="x")
    shell.cycle()
    shell.job("y", [(2,)], name="y")
    shell.settle()
    assert (shell.running("ns/x"), shell.running("ns/y")) == (1, 1)
