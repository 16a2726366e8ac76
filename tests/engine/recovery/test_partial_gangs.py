"""Gangs of which only a part is bound: what is missing gets its place before anybody else, or the part goes back."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.checkpoint.restore import reconfigured, restore_engine, snapshot_engine
from pumice.engine.decisions import Bind, Condition, Decision, Enqueue, Evict
from pumice.engine.engine import Engine
from pumice.engine.events import BindFailed, Changed, Gone
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.recovery.partial_gangs import REPAIR_LIMIT
from pumice.model.specs import Described, JobPhase, JobSpec, NodeSpec, QueueState, TaskSpec, TaskStatus
from tests.support.examples import fewer_examples
from tests.support.restless import Restless, Taste
from tests.support.taking import SECOND, Shell, taking_engine

ACTIONS = "enqueue, allocate, backfill"
SECONDS = REPAIR_LIMIT // SECOND
GANG = "ns/gang"


class Marking(Shell):
    """A shell whose bound pods say who bound them."""

    def __init__(self, engine: Engine | None = None, **more: Any) -> None:
        super().__init__(engine or taking_engine(actions=ACTIONS), audited=False, **more)
        self.jobs: dict[str, JobSpec] = {}
        self.others: dict[str, Described] = {}

    def put(self, described: Described) -> None:
        if isinstance(described, TaskSpec) and described.status.on_node:
            described = replace(described, placed=True)
        if isinstance(described, JobSpec):
            self.jobs[described.key] = described
        elif not isinstance(described, TaskSpec):
            self.others[f"{type(described).__name__}/{described.name}"] = described
        super().put(described)

    def left(self, key: str, *bound: int, node: str = "n", phase: JobPhase = JobPhase.INQUEUE) -> None:
        """As a crash leaves a job: some of its pods are on a node."""
        self.put(replace(self.jobs[key], phase=phase))
        for number, task in enumerate(task for task in list(self.tasks.values()) if task.job == key):
            if number in bound:
                self.put(replace(task, node=node, status=TaskStatus.BOUND))


def world(cpu: int = 6, gang: int = 4, pods: int = 4, bound: Sequence[int] = (0, 1), **more: Any) -> Marking:
    """One node of so many cpu, and a gang of one-cpu pods of which some are bound."""
    shell = Marking()
    shell.node("n", cpu, 100)
    shell.queue("root/q")
    shell.job("q", [(1, 1)] * pods, gang, name="gang", **more)
    shell.left(GANG, *bound)
    return shell


def evicted(decisions: list[Decision]) -> list[str]:
    return sorted(decision.task for decision in decisions if isinstance(decision, Evict))


def has(shell: Shell, key: str) -> int:
    """How many pods of a job are on a node, as the cluster shows."""
    return sum(task.job == key and task.status.shown for task in shell.tasks.values())


def seconds(shell: Shell, count: int) -> list[Decision]:
    return [decision for _ in range(count) for decision in shell.cycle()]


def test_missing_tasks_of_partial_gang_are_bound_before_other_jobs() -> None:
    shell = world(cpu=4)
    # By age, by priority and by right (it holds nothing yet) the other one would be next; there are 2 cpu left.
    shell.queue("root/other", "1/9")
    shell.job("other", [(1, 1)] * 2, 2, priority=9)
    decisions = shell.cycle()
    assert [decision.job for decision in decisions if isinstance(decision, Bind)] == [GANG, GANG]
    assert has(shell, GANG) == 4
    assert not evicted(seconds(shell, SECONDS + 5)) and not shell.engine.context.partial_gangs


def test_a_part_that_is_not_completed_in_time_goes_with_a_reason() -> None:
    shell = world(cpu=3)  # four pods of one cpu: never
    first = shell.cycle()
    assert not evicted(first)
    (said,) = [decision for decision in first if isinstance(decision, Condition)]  # nothing is written over it
    assert said.reason == "GangIncomplete"
    assert said.message.startswith("2 of the 4 pods that it must start with have a node; ")
    assert not evicted(seconds(shell, SECONDS - 1))
    gone = shell.cycle()
    assert evicted(gone) == ["ns/gang-t-0", "ns/gang-t-1"]
    assert {(d.preemptor, d.action, d.node) for d in gone if isinstance(d, Evict)} == {("", "repair-gangs", "n")}
    assert "these go" in next(d.message for d in gone if isinstance(d, Condition) and d.reason == "GangIncomplete")
    assert not evicted(seconds(shell, 2 * SECONDS))
    assert not shell.engine.context.partial_gangs


def test_room_that_comes_in_time_is_used() -> None:
    shell = world(cpu=3)
    seconds(shell, SECONDS - 5)
    shell.node("n", 4, 100)
    decisions = shell.cycle()
    assert len([decision for decision in decisions if isinstance(decision, Bind)]) == 2
    assert has(shell, GANG) == 4


def test_others_go_on_while_a_part_waits() -> None:
    shell = world(cpu=3)
    other = shell.job("q", [(1, 1)])
    assert [decision.job for decision in shell.cycle() if isinstance(decision, Bind)] == [other]


@pytest.mark.parametrize("phase", [JobPhase.RUNNING, JobPhase.UNKNOWN])
def test_a_gang_that_has_been_whole_and_lost_pods_runs_on(phase: JobPhase) -> None:
    shell = world(cpu=3)
    shell.left(GANG, phase=phase)
    fresh = Marking()  # what it says of its past counts for who starts now
    for described in (*shell.others.values(), *shell.jobs.values(), *shell.tasks.values()):
        fresh.put(described)
    assert not evicted(seconds(fresh, SECONDS + 5))
    assert has(fresh, GANG) == 2 and not fresh.engine.context.partial_gangs


def test_a_gang_that_was_seen_whole_and_loses_a_pod_runs_on_until_nothing_of_it_is_left() -> None:
    shell = world(bound=())
    shell.cycle()
    assert has(shell, GANG) == 4
    shell.engine.apply(Gone(TaskSpec, "ns/gang-t-3"))
    shell.cycle()
    assert not evicted(seconds(shell, SECONDS + 5))
    for number in range(3):
        shell.end(f"ns/gang-t-{number}")
    shell.cycle()
    # The next time round it has to be whole again.
    for number in range(2):
        spec = TaskSpec("ns", f"again-{number}", (1, 1, 1), job=GANG, node="n", status=TaskStatus.BOUND)
        shell.put(spec)
    assert evicted(seconds(shell, SECONDS + 2)) == ["ns/again-0", "ns/again-1"]


def test_gang_pods_bound_by_other_schedulers_are_not_evicted() -> None:
    shell = world(cpu=3, bound=())
    spec = shell.tasks["ns/gang-t-0"]
    shell.engine.apply(Changed(replace(spec, node="n", status=TaskStatus.RUNNING)))
    assert not evicted(seconds(shell, SECONDS + 5)) and not shell.engine.context.partial_gangs
    # One of ours beside it: ours goes, theirs stays.
    shell.put(replace(shell.tasks["ns/gang-t-1"], node="n", status=TaskStatus.BOUND))
    assert evicted(seconds(shell, SECONDS + 2)) == ["ns/gang-t-1"]


def test_pods_that_come_one_by_one_and_tasks_beyond_the_minimum_are_nothing_to_mend() -> None:
    shell = Marking()
    shell.node("n", 3, 100)
    shell.queue("root/q")
    key = shell.job("q", [(1, 1)] * 2, 3, name="slow")
    seconds(shell, SECONDS + 2)
    shell.put(replace(shell.tasks[f"{key}-t-0"], name="slow-t-2"))
    shell.cycle()
    assert has(shell, key) == 3
    shell.put(replace(shell.tasks[f"{key}-t-0"], name="slow-t-3", node=None, status=TaskStatus.PENDING))
    assert not evicted(seconds(shell, SECONDS + 2))


def test_a_part_whose_pods_are_not_there_any_more_goes() -> None:
    shell = world(pods=2)
    assert evicted(seconds(shell, SECONDS + 1)) == ["ns/gang-t-0", "ns/gang-t-1"]


def test_each_role_has_its_minimum() -> None:
    # Two of two pods by number, but the minimum is one ps and two workers.
    shell = world(
        cpu=3, gang=2, pods=3, bound=(1, 2), roles=["ps", "worker", "worker"], minimums={"ps": 1, "worker": 2}
    )
    assert [decision.task for decision in shell.cycle() if isinstance(decision, Bind)] == ["ns/gang-t-0"]
    shell = world(
        cpu=2, gang=2, pods=3, bound=(1, 2), roles=["ps", "worker", "worker"], minimums={"ps": 1, "worker": 2}
    )
    assert evicted(seconds(shell, SECONDS + 1)) == ["ns/gang-t-1", "ns/gang-t-2"]


def test_succeeded_tasks_count_towards_gang_minimum() -> None:
    shell = world(cpu=2, bound=(0, 1))
    for number in (2, 3):
        shell.put(replace(shell.tasks[f"ns/gang-t-{number}"], status=TaskStatus.SUCCEEDED))
    assert not evicted(seconds(shell, SECONDS + 2))


def test_partial_gang_in_pending_phase_is_enqueued_and_completed() -> None:
    shell = world()
    shell.engine.state.jobs[GANG].phase = JobPhase.PENDING
    decisions = shell.cycle()
    assert decisions[0] == Enqueue(GANG)
    assert has(shell, GANG) == 4


def test_a_closed_queue_starts_nothing_so_the_part_goes() -> None:
    shell = world()
    queue = shell.engine.state.queues["q"]
    shell.put(replace(queue, state=QueueState.CLOSED))
    assert evicted(seconds(shell, SECONDS + 1)) == ["ns/gang-t-0", "ns/gang-t-1"]


def test_a_bind_that_fails_again_and_again_ends_with_the_rest_of_the_gang_going() -> None:
    shell = world(bound=())
    shell.fails = lambda decision: isinstance(decision, Bind) and decision.task == "ns/gang-t-3"
    shell.cycle()
    assert has(shell, GANG) == 3
    assert evicted(seconds(shell, SECONDS + 2)) == ["ns/gang-t-0", "ns/gang-t-1", "ns/gang-t-2"]


def test_partial_gang_is_not_evicted_while_binds_are_pending() -> None:
    shell = world()
    shell.engine.cycle(SECOND)  # decided, and no word from the cluster
    for second in range(2, SECONDS + 10):
        assert not evicted(shell.engine.cycle(second * SECOND))
    shell.engine.apply(BindFailed("ns/gang-t-2"))
    shell.engine.apply(BindFailed("ns/gang-t-3"))
    assert evicted(shell.engine.cycle((SECONDS + 10) * SECOND)) == ["ns/gang-t-0", "ns/gang-t-1"]


def test_an_eviction_that_fails_is_tried_again_later() -> None:
    shell = world(cpu=3)
    shell.fails = lambda decision: isinstance(decision, Evict) and decision.task == "ns/gang-t-0"
    assert evicted(seconds(shell, SECONDS + 1)) == ["ns/gang-t-0", "ns/gang-t-1"]
    assert not evicted(seconds(shell, SECONDS - 2))
    shell.fails = lambda decision: False
    assert evicted(seconds(shell, SECONDS)) == ["ns/gang-t-0"]
    assert has(shell, GANG) == 0


def test_partial_jobs_are_not_evicted_without_gang_plugin() -> None:
    shell = Marking(taking_engine(actions=ACTIONS, plugins=("priority",)))
    shell.node("n", 3, 100)
    shell.queue("root/q")
    key = shell.job("q", [(1, 1)] * 4, 4)
    shell.left(key, 0, 1)
    assert not evicted(seconds(shell, SECONDS + 2))
    assert has(shell, key) == 3


def test_a_configuration_that_changes_does_not_reset_the_clock() -> None:
    shell = world(cpu=3)
    seconds(shell, SECONDS - 1)
    shell.engine = reconfigured(shell.engine, shell.engine.policy.config, BUILT_IN)
    assert not evicted(shell.cycle())
    assert evicted(shell.cycle()) == ["ns/gang-t-0", "ns/gang-t-1"]


def test_an_engine_in_its_place_knows_who_was_whole_and_whose_clock_runs() -> None:
    shell = world(cpu=7)
    shell.job("q", [(1, 1)] * 3, 3, name="whole")
    shell.left("ns/whole", 0, 1, 2)
    shell.node("n", 5, 100)  # the two of the gang, and these
    seconds(shell, SECONDS - 1)
    shell.end("ns/whole-t-2")  # it has been whole, and runs on
    engine = shell.engine
    shell.engine = restore_engine(snapshot_engine(engine), engine.policy.config, BUILT_IN, engine.state.registry)
    assert shell.engine.context.partial_gangs == {GANG: SECOND}
    assert shell.engine.state.jobs["ns/whole"].gang_was_complete
    shell.node("n", 4, 100)
    assert evicted(seconds(shell, 2)) == ["ns/gang-t-0", "ns/gang-t-1"]
    assert not evicted(seconds(shell, SECONDS + 2))


# --- any cluster -----------------------------------------------------------------------------------------------------


class Crash:
    """A random cluster whose scheduler is killed while the binds of its last cycle are written."""

    def __init__(self, seed: int, rule: str, actions: str = "allocate, backfill, reclaim, preempt") -> None:
        self.actions = actions
        self.rng = random.Random(seed)
        self.rule = rule
        shell = Marking(self.engine())
        world = Restless(shell, seed, Taste(coupled=True))
        for _ in range(self.rng.randint(0, 4)):
            for _ in range(self.rng.randint(1, 4)):
                world.job()
            shell.cycle()
        for number in range(3):
            shell.node(f"new{number}", 12, 16, 1000)
        for _ in range(self.rng.randint(2, 6)):
            world.job()
            size = self.rng.randint(2, 6)
            shell.job(self.rng.choice(world.queues), [world.request()] * size, self.rng.randint(2, size))
        lost = [d for d in shell.engine.cycle(shell.now + SECOND) if isinstance(d, Bind) and self.rng.random() < 0.5]
        written = [d for d in shell.engine.context.decided.bound.values() if d.task not in {bind.task for bind in lost}]
        before = dict(shell.tasks)
        for bind in written:
            before[bind.task] = replace(
                before[bind.task], node=bind.node, status=TaskStatus.BOUND, started=shell.now, placed=True
            )
        self.whole = {key for key, job in shell.engine.state.jobs.items() if job.gang_was_complete}
        self.shell = Marking(self.engine())
        self.shell.now = shell.now + 2 * SECOND
        for described in shell.others.values():
            self.shell.put(described)
        for key, job in shell.jobs.items():
            self.shell.put(replace(job, phase=JobPhase.RUNNING if key in self.whole else JobPhase.INQUEUE))
        for task in before.values():
            self.shell.put(task)

    def engine(self) -> Engine:
        return taking_engine(self.rule, actions=self.actions)

    def parts(self) -> set[str]:
        """The jobs that have a part of their gang and have not been whole, by what the cluster shows alone."""
        found = set()
        for key, job in self.shell.jobs.items():
            tasks = [task for task in self.shell.tasks.values() if task.job == key]
            there = [task for task in tasks if task.status in (TaskStatus.BOUND, TaskStatus.RUNNING)]
            done = [task for task in tasks if task.status is TaskStatus.SUCCEEDED]
            roles = Counter(task.role for task in (*there, *done))
            enough = len(there) + len(done) >= job.min_member
            enough = enough and all(roles[role] >= least for role, least in job.min_task_member.items())
            if not there:
                self.whole.discard(key)
            elif enough:
                self.whole.add(key)
            elif key not in self.whole:
                found.add(key)
        return found

    def cycle(self) -> list[Decision]:
        decisions = self.shell.cycle()
        self.parts()
        self.shell.engine.validate()
        for node in self.shell.engine.state.nodes.values():
            assert node.spec is None or all(node.free(j) >= 0 for j in range(len(node.allocatable)))
        return decisions


@pytest.mark.parametrize("rule", ["steer", "flat"])
@fewer_examples(3)
@given(seed=st.integers(0, 2**32 - 1))
def test_with_room_every_part_is_completed_at_once_and_first(rule: str, seed: int) -> None:
    crash = Crash(seed, rule, "allocate, backfill")
    for number in range(6):  # where they were to go there is room; but one may take that of another
        crash.shell.node(f"spare{number}", 40, 40)
    parts = crash.parts()
    decisions = crash.cycle()
    assert not crash.parts(), f"of {parts}"
    assert not [decision for decision in decisions if isinstance(decision, Evict) and decision.action == "repair-gangs"]
    moved = [decision.job for decision in decisions if isinstance(decision, Bind | Evict)]
    others = [number for number, job in enumerate(moved) if job not in parts]
    assert set(moved[: others[0]] if others else moved) == parts


@pytest.mark.parametrize("rule", ["steer", "flat"])
@fewer_examples(3)
@given(seed=st.integers(0, 2**32 - 1))
def test_whatever_happened_no_part_is_left_after_the_limit(rule: str, seed: int) -> None:
    crash = Crash(seed, rule)
    shell, rng = crash.shell, crash.rng
    nodes = [other for other in shell.others.values() if isinstance(other, NodeSpec)]
    for node in nodes:
        if rng.random() < 0.5:
            shell.put(replace(node, unschedulable=True))
    waiting = [task.key for task in shell.tasks.values() if task.status is TaskStatus.PENDING]
    for key in waiting:
        if rng.random() < 0.1:
            shell.end(key)
    parts, last, started = crash.parts(), 0, shell.now + SECOND
    for cycle in (0, 1, 2, SECONDS - 1, SECONDS):
        shell.now = max(shell.now, started + (cycle - 1) * SECOND)
        sent_back = {d.job for d in crash.cycle() if isinstance(d, Evict) and d.action == "repair-gangs"}
        assert sent_back <= parts, "nobody else is sent back"
        last = cycle if sent_back else last
    assert last in (0, SECONDS)
    assert not crash.parts()
    assert not crash.shell.engine.context.partial_gangs


@fewer_examples(3)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_same_again_is_the_same(seed: int) -> None:
    runs = [[crash.cycle() for _ in range(5)] for crash in (Crash(seed, "steer"), Crash(seed, "steer"))]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("end", [TaskStatus.FAILED, TaskStatus.SUCCEEDED])
@pytest.mark.parametrize("last", [False, True], ids=["before the last is shown", "as the last that is heard of"])
def test_a_gang_that_had_all_its_places_is_whole_though_one_of_it_was_over_soon(end: TaskStatus, last: bool) -> None:
    shell = Marking()
    shell.node("n", 4, 100)
    shell.queue("root/q")
    shell.job("q", [(1, 1)] * 3, 3, name="gang")
    shell.now += SECOND
    first, second, third = (bind.task for bind in shell.engine.cycle(shell.now) if isinstance(bind, Bind))

    def shown(key: str, status: TaskStatus) -> None:
        shell.put(replace(shell.tasks[key], node="n", status=status))

    shown(second, TaskStatus.RUNNING)
    if last:  # nobody has ever seen it on its node before it was over
        shown(third, TaskStatus.RUNNING)
        shown(first, end)
    else:
        shown(first, TaskStatus.RUNNING)
        shown(first, end)
        shown(third, TaskStatus.RUNNING)
    assert shell.engine.state.jobs[GANG].gang_was_complete
    for _ in range(SECONDS + 2):
        shell.now += SECOND
        assert not shell.engine.cycle(shell.now)
    shell.engine.validate()
