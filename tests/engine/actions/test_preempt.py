"""preempt: between the jobs of a queue, for a place, and within a job (docs/fairness.md, sections 7 and 9.11)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumice.engine.decisions import Evict
from pumice.model.specs import JobPhase, JobSpec, Quota, TaskSpec
from tests.support.taking import Shell, taking_engine

ACTIONS = "allocate, backfill, preempt"
by_priority = pytest.mark.parametrize("rule", ["steer", "paper", "flat", "capacity", "proportion"])


def one_queue(cpu: int, rule: str = "flat", **more: Any) -> Shell:
    shell = Shell(taking_engine(rule, actions=ACTIONS, **more))
    shell.node("n0", cpu)
    shell.queue("root/q")
    return shell


def victims(shell: Shell) -> list[str]:
    went = [decision for decision in shell.cycle() if isinstance(decision, Evict)]
    assert {decision.action for decision in went} <= {"preempt"}
    return [decision.task.removeprefix("ns/").replace("-t-", ".") for decision in went]


# --- between the jobs of a queue ------------------------------------------------------------------------------------


@by_priority
def test_the_more_important_job_takes_from_the_less_important(rule: str) -> None:
    shell = one_queue(4, rule)
    shell.job("q", [(1,)] * 4, name="low", priority=1)
    shell.cycle()
    shell.job("q", [(1,)] * 3, name="high", priority=5)
    assert victims(shell) == ["low.3", "low.2", "low.1"]
    shell.settle()
    assert (shell.running("ns/low"), shell.running("ns/high")) == (1, 3)


@by_priority
@pytest.mark.parametrize(("minimum", "takes"), [(1, 1), (2, 2), (3, 3)])
def test_a_job_takes_no_more_than_its_minimum_where_that_is_configured(rule: str, minimum: int, takes: int) -> None:
    shell = one_queue(4, rule, plugins=("priority", "gang, enableJobStarving: true", "conformance"))
    shell.job("q", [(1,)] * 4, name="low", priority=1)
    shell.cycle()
    shell.job("q", [(1,)] * 3, minimum, name="high", priority=5)
    assert len(victims(shell)) == takes
    assert shell.settle() == 0
    assert (shell.running("ns/low"), shell.running("ns/high")) == (4 - takes, takes)


@by_priority
def test_the_less_important_takes_nothing(rule: str) -> None:
    shell = one_queue(4, rule)
    shell.job("q", [(1,)] * 4, name="high", priority=5)
    shell.cycle()
    shell.job("q", [(1,)] * 3, name="low", priority=1)
    assert victims(shell) == [] and shell.settle() == 0


@by_priority
def test_preempt_takes_no_victims_from_other_queues(rule: str) -> None:
    shell = one_queue(4, rule)
    shell.queue("root/other")
    shell.job("other", [(1,)] * 4, name="low", priority=1)
    shell.cycle()
    shell.job("q", [(1,)] * 3, name="high", priority=5)
    assert victims(shell) == [] and shell.settle() == 0


@pytest.mark.parametrize(("holds", "asks", "takes"), [(4, 4, 2), (5, 5, 2), (4, 1, 1), (1, 4, 0)])
def test_equally_important_jobs_even_out(holds: int, asks: int, takes: int) -> None:
    # Flat DRF: legal iff with the preemptor's task in and the victim's out its share is not the larger: of 4 cpu
    # 1/4 <= 3/4, 2/4 <= 2/4, not 3/4 <= 1/4. Of 5: 2/5 <= 3/5, not 3/5 <= 2/5. Who has one task gives none: 1/1 > 0.
    shell = one_queue(holds)
    shell.job("q", [(1,)] * holds, name="has")
    shell.cycle()
    shell.job("q", [(1,)] * asks, name="wants")
    assert len(victims(shell)) == takes
    assert shell.settle() == 0  # and that is that
    assert shell.running("ns/wants") == takes


def test_jobs_of_equal_priority_do_not_preempt_without_shares() -> None:
    shell = one_queue(4, "capacity")
    shell.job("q", [(1,)] * 4, name="has")
    shell.cycle()
    shell.job("q", [(1,)] * 4, name="wants")
    assert victims(shell) == []


def test_a_gang_takes_all_it_must_start_with_or_nothing() -> None:
    # Flat, 4 cpu: a gang of 2 ends at 2/4 <= 2/4; one of 3 would be at 3/4 > 1/4.
    for size, takes in ((2, 2), (3, 0)):
        shell = one_queue(4)
        shell.job("q", [(1,)] * 4, name="has")
        shell.cycle()
        shell.job("q", [(1,)] * size, size, name="wants")
        assert len(victims(shell)) == takes


def test_a_gang_in_the_way_goes_whole_for_something_at_least_half_its_size() -> None:
    for asks, takes in ((1, 0), (2, 4)):
        shell = one_queue(4)
        shell.job("q", [(1,)] * 4, 4, name="gang", priority=1)
        shell.cycle()
        shell.job("q", [(asks,)], name="high", priority=5)
        assert len(victims(shell)) == takes, asks


# --- namespaces first (docs/fairness.md, section 7) -----------------------------------------------------------------


@pytest.mark.parametrize(("rule", "weights", "ends"), [
    # 8 cpu, ns1 holds all of them; ns2 wants 8. By weight: k/w2 <= (8-k)/w1 as long as it holds.
    ("flat", (1, 1), (4, 4)),
    ("flat", (1, 3), (2, 6)),
    ("flat", (3, 1), (6, 2)),
    ("steer", (1, 3), (2, 6)),
    ("paper", (1, 3), (2, 6)),
])  # fmt: skip  # a table
def test_namespaces_share_by_weight(rule: str, weights: tuple[int, int], ends: tuple[int, int]) -> None:
    shell = one_queue(8, rule, namespaces=True)
    for i, weight in enumerate(weights, 1):
        shell.put(Quota(f"ns{i}", "quota", weight))
    shell.job("q", [(1,)] * 8, name="j", namespace="ns1")
    shell.cycle()
    shell.job("q", [(1,)] * 8, name="j", namespace="ns2")
    shell.settle()
    assert (shell.running("ns1/j"), shell.running("ns2/j")) == ends


@pytest.mark.parametrize(("namespaces", "takes"), [(True, 2), (False, 0)])
def test_namespaces_count_before_jobs(namespaces: bool, takes: int) -> None:
    # 8 cpu: four one-task jobs in ns1, a job of four in ns2, which weighs 3. A further job of ns2: with the namespaces
    # in between 5/3 <= 3/1 and 6/3 <= 2/1 are legal; among the jobs alone 1/8 <= 0 is not.
    shell = one_queue(8, namespaces=namespaces)
    shell.put(Quota("ns2", "quota", 3))
    for i in range(4):
        shell.job("q", [(1,)], name=f"j{i}", namespace="ns1")
    shell.job("q", [(1,)] * 4, name="j", namespace="ns2")
    shell.cycle()
    assert shell.running("q") == 8
    shell.job("q", [(1,)] * 4, name="more", namespace="ns2")
    went = [decision for decision in shell.cycle() if isinstance(decision, Evict)]
    if not namespaces:  # then the jobs even out: of ns2's job, which holds most
        assert {decision.job for decision in went} <= {"ns2/j"}
    assert sum(decision.job.startswith("ns1/") for decision in went) == takes


# --- a place (tasks that ask for nothing) ---------------------------------------------------------------------------


@by_priority
@pytest.mark.parametrize(("has", "wants", "takes"), [(1, 5, 1), (5, 1, 0), (3, 3, 0)])
def test_a_task_that_asks_for_nothing_takes_the_place_of_a_less_important_job(
    rule: str, has: int, wants: int, takes: int
) -> None:
    shell = Shell(taking_engine(rule, actions=ACTIONS))
    shell.node("n0", 4, 4, 2)  # two places
    shell.queue("root/q")
    shell.job("q", [(0,)] * 2, name="has", priority=has)
    shell.cycle()
    assert shell.running("ns/has") == 2
    shell.job("q", [(0,)], name="wants", priority=wants)
    assert len(victims(shell)) == takes
    shell.settle()
    assert (shell.running("ns/has"), shell.running("ns/wants")) == (2 - takes, takes)


def test_preempt_evicts_nothing_when_pod_slot_is_free() -> None:
    shell = Shell(taking_engine("flat", actions="allocate, preempt, backfill"))
    shell.node("n0", 4, 4, 3)
    shell.queue("root/q")
    shell.job("q", [(1,)] * 2, name="has", priority=1)
    shell.cycle()
    shell.job("q", [(0,)], name="wants", priority=5)
    assert victims(shell) == [] and shell.running("ns/wants") == 1


def test_a_gang_of_them_that_would_have_to_start_together_takes_nothing() -> None:
    shell = Shell(taking_engine("flat", actions=ACTIONS))
    shell.node("n0", 4, 4, 2)
    shell.queue("root/q")
    shell.job("q", [(0,)] * 2, name="has", priority=1)
    shell.cycle()
    shell.job("q", [(0,)] * 2, 2, name="wants", priority=5)
    assert victims(shell) == []


# --- within a job ---------------------------------------------------------------------------------------------------


def with_task(shell: Shell, number: int, priority: int, cpu: int = 1, role: str = "") -> None:
    """One more task of job j."""
    request = (cpu, 0, 1)
    shell.put(TaskSpec("ns", f"j-t-{number}", request, job="ns/j", created=number, priority=priority, role=role))


def one_job(cpu: int, tasks: int, rule: str = "flat", **more: Any) -> Shell:
    shell = one_queue(cpu, rule, plugins=("gang", "conformance"))
    shell.put(JobSpec("ns", "j", "q", 1, phase=JobPhase.INQUEUE, **more))
    for i in range(tasks):
        with_task(shell, i, 1)
    shell.cycle()
    assert shell.running("ns/j") == tasks
    return shell


@pytest.mark.parametrize("rule", ["flat", "steer", "paper", "capacity"])
@pytest.mark.parametrize(("priority", "went"), [(5, ["j.3"]), (1, []), (0, [])])
def test_a_more_important_task_takes_the_place_of_a_less_important_one(
    rule: str, priority: int, went: list[str]
) -> None:
    shell = one_job(4, 4, rule)
    with_task(shell, 4, priority)
    assert victims(shell) == went
    assert shell.settle() == 0
    assert ("ns/j-t-4" in shell.running_tasks("ns/j")) == bool(went)


def test_preempt_within_job_evicts_only_as_many_as_needed() -> None:
    # 4 cpu, tasks of 1; one of 3 cpu comes, 1 is idle: two go.
    shell = one_job(4, 3)
    with_task(shell, 4, 5, cpu=3)
    assert len(victims(shell)) == 2
    shell.settle()
    assert "ns/j-t-4" in shell.running_tasks("ns/j")


def test_the_minimum_of_the_job_is_kept() -> None:
    # A gang of 3 of 4. A task of 2 cpu in the place of two would leave 2 + 1 = 3: fine. One of 3 in the place of three
    # would leave 1 + 1.
    for cpu, takes in ((2, 2), (3, 0)):
        shell = one_job(4, 4, min_member=3)
        with_task(shell, 4, 5, cpu=cpu)
        assert len(victims(shell)) == takes, cpu


@pytest.mark.parametrize(("role", "went"), [("ps", ["j.1"]), ("w", ["j.0"])])
def test_the_minimum_of_every_role_is_kept(role: str, went: list[str]) -> None:
    # One ps and one worker run and are the minimum: only a task of the same role may come in their place.
    shell = one_queue(2, plugins=("gang", "conformance"))
    shell.put(JobSpec("ns", "j", "q", 1, min_member=2, min_task_member={"ps": 1, "w": 1}, phase=JobPhase.INQUEUE))
    with_task(shell, 0, 1, role="w")
    with_task(shell, 1, 1, role="ps")
    shell.cycle()
    with_task(shell, 2, 5, role=role)
    assert victims(shell) == went


@pytest.mark.parametrize("why", ["unwilling", "never preempts", "critical"])
def test_preempt_respects_non_preemptable_critical_and_never_preempting_tasks(why: str) -> None:
    shell = one_job(4, 4)
    with_task(shell, 4, 5)
    if why == "never preempts":
        shell.put(replace(shell.tasks["ns/j-t-4"], preempts=False))
    for i in range(4):
        task = shell.tasks[f"ns/j-t-{i}"]
        if why == "unwilling":
            shell.put(replace(task, preemptable=False))
        elif why == "critical":
            shell.put(replace(task, priority_class="system-node-critical"))
    assert victims(shell) == []


# --- why ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["flat", "steer", "paper", "capacity"])
def test_taking_a_place_is_explained_by_priority(rule: str) -> None:
    # Two places, taken by tasks that ask for nothing; then the same for cpus, within a job.
    places = Shell(taking_engine(rule, actions=ACTIONS))
    places.node("n0", 4, 4, 2)
    places.queue("root/q")
    places.job("q", [(0,)] * 2, name="has", priority=1)
    places.cycle()
    places.job("q", [(0,)], name="wants", priority=5)
    within = one_job(4, 4, rule)
    with_task(within, 4, 5)
    for shell in (places, within):
        shell.engine.context.tracing = True
        (evict,) = [decision for decision in shell.cycle() if isinstance(decision, Evict)]
        assert evict.sides is not None and evict.sides.measure == "priority"
        assert evict.sides.before == evict.sides.after == (5, 1)


# --- limits ---------------------------------------------------------------------------------------------------------


def at_capability(most: int) -> Shell:
    """Queue q may hold so much of 8 cpu, and a less important job holds it."""
    shell = Shell(taking_engine("capacity", actions=ACTIONS))
    shell.node("n0", 8)
    shell.queue("root/q", capability=((0, most),))
    shell.job("q", [(1,)] * 8, name="low", priority=1)
    shell.cycle()
    assert shell.running("q") == most
    return shell


def test_a_queue_at_its_capability_makes_room_in_itself() -> None:
    # There is room on the node, but none in the queue: 2 go for the 2 that come. The book sees that it never holds 5.
    shell = at_capability(4)
    shell.job("q", [(1,)] * 2, name="high", priority=5)
    assert victims(shell) == ["low.3", "low.2"]
    shell.settle()
    assert (shell.running("ns/low"), shell.running("ns/high")) == (2, 2)


def test_preempt_evicts_nothing_for_job_above_queue_capability() -> None:
    shell = at_capability(4)
    shell.job("q", [(5,)], name="high", priority=5)
    assert victims(shell) == [] and shell.settle() == 0


def test_at_the_capability_equals_leave_each_other_alone() -> None:
    shell = at_capability(4)
    shell.job("q", [(1,)] * 2, name="same", priority=1)
    assert victims(shell) == [] and shell.settle() == 0


def test_a_user_at_the_limit_takes_from_nobody_but_itself() -> None:
    # 8 cpu, 50 % for each user: u holds 4 with a less important job. Its important one takes 2 of those, not v's.
    shell = Shell(taking_engine("flat", actions=ACTIONS))
    shell.node("n0", 8)
    shell.queue("root/q", min_user_limit_percent=50)
    for user, name, priority in (("u", "low", 1), ("v", "other", 1), ("u", "high", 5)):
        shell.put(JobSpec("ns", name, "q", 1, phase=JobPhase.INQUEUE, user=user))
        for i in range(2 if name == "high" else 4):
            task = TaskSpec("ns", f"{name}-t-{i}", (1, 0, 1), job=f"ns/{name}", priority=priority)
            shell.put(task)
        if name == "other":
            shell.cycle()
            assert shell.running("q") == 8
    assert victims(shell) == ["low.3", "low.2"]
    shell.settle()
    assert [shell.running(f"ns/{name}") for name in ("low", "other", "high")] == [2, 4, 2]
