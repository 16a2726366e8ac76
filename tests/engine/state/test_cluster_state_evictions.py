"""The moves around an eviction: who is being released, who waits for the room, and what late news may not undo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kubebase.resource_vector import CPU, MEMORY, PODS, Registry
from pumice.engine.events import BindFailed, Changed, Event, EvictFailed, Gone
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.job import Job
from pumice.engine.state.task import Task
from pumice.model.specs import JobSpec, NodeSpec, TaskSpec, TaskStatus
from tests.support.histories import build_state, picture

NODE = NodeSpec("n", (10, 10, 10))
JOB = JobSpec("ns", "j", "q")


def pod(name: str, cpu: int = 1, **more: Any) -> TaskSpec:
    return replace(TaskSpec("ns", name, (cpu, 0, 1), job="ns/j"), **more)


def running(name: str, cpu: int = 1, **more: Any) -> TaskSpec:
    return replace(pod(name, cpu, node="n", status=TaskStatus.RUNNING, started=3), **more)


def told(*objects: Any) -> ClusterState:
    return build_state(objects, Registry())


def accounts(node: ClusterNode, j: int = CPU) -> tuple[int, int, int]:
    """What a newcomer may take, what nobody occupies, and what will be left in the end."""
    return node.idle[j], node.free(j), node.future(j)


def everything(state: ClusterState) -> dict[str, Any]:
    """The picture of a state, with what is being released and who waits."""
    state.validate()
    return picture(state) | {
        "claims": {node.name: (node.releasing, node.pipelined, sorted(node.waiting)) for node in state.nodes.values()},
        "nodes of tasks": {key: task.node and task.node.name for key, task in state.tasks.items()},
    }


# --- a node's accounts ----------------------------------------------------------------------------------------------


def victim_and_waiter(victim: int, waiter: int, others: int = 0) -> tuple[ClusterState, Task, Task]:
    """10 cpu; a task holds ``victim`` of them, one that stays ``others``, and one asks for ``waiter``."""
    state = told(NODE, JOB, running("v", victim), running("o", others), pod("w", waiter))
    return state, state.tasks["ns/v"], state.tasks["ns/w"]


@pytest.mark.parametrize(
    ("victim", "waiter", "others", "idle", "free", "future"),
    [
        # 10 - 4 - 6 = 0 free; 4 are being freed and 4 are claimed: nothing is idle, nothing will be left.
        (4, 4, 6, 0, 0, 0),
        # The claim is smaller than what comes free: 1 will be left, but nobody can have it yet.
        (4, 3, 6, 0, 0, 1),
        # The claim needs 2 that are free already besides the 4: of the 3 that are free, 1 is idle.
        (4, 6, 3, 1, 3, 1),
        # Nothing is short: the claim is covered by what is being freed, and 5 stay for newcomers.
        (2, 1, 3, 5, 5, 6),
    ],
)
def test_a_claim_is_on_what_is_freed_and_then_on_what_is_idle(
    victim: int, waiter: int, others: int, idle: int, free: int, future: int
) -> None:
    state, leaving, waits = victim_and_waiter(victim, waiter, others)
    state.evict(leaving)
    state.pipeline(waits, state.nodes["n"], 5)
    state.validate()
    assert accounts(state.nodes["n"]) == (idle, free, future)


def test_reservation_of_pipelined_task_holds_whichever_task_leaves_first() -> None:
    # 4 + 6 cpu run; the 4 make way for a claim of 5, which takes 1 of what comes free first. The 6 end before the 4 are
    # gone: 6 are free, 1 of them spoken for.
    state, leaving, waits = victim_and_waiter(4, 5, 6)
    node = state.nodes["n"]
    state.evict(leaving)
    state.pipeline(waits, node, 5)
    assert accounts(node) == (-1, 0, -1)  # as yet the room is not there: nobody may come
    state.apply(Gone(TaskSpec, "ns/o"))
    assert accounts(node) == (5, 6, 5)
    # The victim goes: now the whole claim is on what is free. 10 free - 5 claimed.
    state.apply(Gone(TaskSpec, "ns/v"))
    assert accounts(node) == (5, 10, 5)
    state.promote(waits)
    assert accounts(node) == (5, 5, 5) and waits.status is TaskStatus.BINDING
    assert waits.started == 5  # its start is when it was decided
    state.validate()


def test_released_capacity_covers_pipelined_requests_per_resource() -> None:
    # The victim holds cpu only. The claim on memory is on what is idle: 10 - 7 = 3.
    state = told(NODE, JOB, running("v", 10), replace(pod("w"), request=(2, 7, 1)))
    node = state.nodes["n"]
    state.evict(state.tasks["ns/v"])
    state.pipeline(state.tasks["ns/w"], node, 5)
    assert accounts(node, CPU) == (0, 0, 8)
    assert accounts(node, MEMORY) == (3, 10, 3)
    # A place, too, is freed and claimed: 9 others.
    assert accounts(node, PODS) == (9, 9, 9)
    state.validate()


def test_capacity_released_by_foreign_pods_covers_pipelined_tasks() -> None:
    foreign = replace(running("f", 4), job=None, managed=False, status=TaskStatus.RELEASING)
    state = told(NODE, JOB, foreign, pod("w", 8))
    node = state.nodes["n"]
    assert accounts(node) == (6, 6, 10)
    state.pipeline(state.tasks["ns/w"], node, 5)
    assert accounts(node) == (2, 6, 2)  # 4 come free, 4 are taken from the 6
    state.apply(Gone(TaskSpec, "ns/f"))
    assert accounts(node) == (2, 10, 2)


def test_a_machine_that_shrinks_under_a_claim_owes() -> None:
    state, leaving, waits = victim_and_waiter(4, 4, 6)
    state.evict(leaving)
    state.pipeline(waits, state.nodes["n"], 5)
    state.apply(Changed(NodeSpec("n", (7, 10, 10))))
    state.validate()
    assert accounts(state.nodes["n"]) == (-3, -3, -3)


# --- moves and their way back ---------------------------------------------------------------------------------------


def evict_and_back(state: ClusterState) -> None:
    state.evict(state.tasks["ns/v"])
    assert state.jobs["ns/j"].held[CPU] == 6 and state.jobs["ns/j"].running == 1
    assert state.nodes["n"].releasing[CPU] == 4
    state.validate()
    state.unevict(state.tasks["ns/v"], TaskStatus.RUNNING)


def pipeline_and_back(state: ClusterState) -> None:
    state.pipeline(state.tasks["ns/w"], state.nodes["n"], 5)
    # Who waits on a node counts as what its job holds (docs/fairness.md, section 1.2), but occupies nothing there.
    assert state.jobs["ns/j"].held[CPU] == 15 and state.jobs["ns/j"].running == 3
    assert state.nodes["n"].ours[CPU] == 10 and not state.jobs["ns/j"].pending
    state.validate()
    state.unplace(state.tasks["ns/w"])


def both_and_back(state: ClusterState) -> None:
    state.evict(state.tasks["ns/v"])
    state.pipeline(state.tasks["ns/w"], state.nodes["n"], 5)
    state.unevict(state.tasks["ns/v"], TaskStatus.RUNNING)  # not the last first: the accounts do not mind
    state.validate()
    state.unplace(state.tasks["ns/w"])


def promoted_and_back(state: ClusterState) -> None:
    state.pipeline(state.tasks["ns/w"], state.nodes["n"], 5)
    state.promote(state.tasks["ns/w"])
    state.validate()
    state.unplace(state.tasks["ns/w"])


@pytest.mark.parametrize("move", [evict_and_back, pipeline_and_back, both_and_back, promoted_and_back])
def test_undone_evict_and_pipeline_restore_state(move: Callable[[ClusterState], None]) -> None:
    state, _, _ = victim_and_waiter(4, 5, 6)
    before = everything(state)
    move(state)
    assert everything(state) == before


def test_a_jobs_accounts_without_the_evicted() -> None:
    job = Job("ns/j")
    state = told(JOB, NODE, running("a", 2), running("b", 2), running("c", 3))
    a, b, c = (state.tasks[f"ns/{name}"] for name in "abc")
    for task in (a, b, c):
        job.enter(task)
    job.evict(a)
    assert (job.held, job.running, job.unfinished) == ([5, 0, 2], 2, {b.shape: 1, c.shape: 1})
    job.evict(b)  # the last of its shape
    assert (job.held, job.running, job.unfinished) == ([3, 0, 1], 1, {c.shape: 1})
    job.unevict(b)
    job.unevict(a)
    assert (job.held, job.running, job.unfinished) == ([7, 0, 3], 3, {a.shape: 2, c.shape: 1})


# --- news that comes late -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "late",
    [
        Changed(running("v", 4, labels={"seen": "late"})),
        Changed(replace(running("v", 4), status=TaskStatus.BOUND)),
        BindFailed("ns/v"),
    ],
    ids=["running", "bound", "bind failed"],
)
def test_evicted_task_stays_releasing_despite_late_events(late: Event) -> None:
    state, leaving, _ = victim_and_waiter(4, 4, 6)
    state.evict(leaving)
    state.apply(late)
    state.validate()
    seen = state.tasks["ns/v"]
    assert seen.status is TaskStatus.RELEASING and seen.started == 3
    assert state.jobs["ns/j"].held[CPU] == 6
    assert accounts(state.nodes["n"]) == (0, 0, 4)


def test_a_failed_eviction_goes_on_as_it_was_seen_last() -> None:
    state, leaving, _ = victim_and_waiter(4, 4, 6)
    before = everything(state)
    state.evict(leaving)
    state.apply(EvictFailed("ns/v"))
    assert everything(state) == before
    state.evict(state.tasks["ns/v"])
    state.apply(Changed(running("v", 4, labels={"seen": "late"})))
    state.apply(EvictFailed("ns/v"))
    assert everything(state) == before


@pytest.mark.parametrize(
    "news",
    [
        Changed(replace(running("v", 4), status=TaskStatus.RELEASING)),
        Changed(replace(running("v", 4), status=TaskStatus.SUCCEEDED)),
        Gone(TaskSpec, "ns/v"),
    ],
    ids=["seen to go", "succeeded", "gone"],
)
def test_failed_eviction_does_not_restore_task_seen_terminating(news: Event) -> None:
    state, leaving, _ = victim_and_waiter(4, 4, 6)
    state.evict(leaving)
    state.apply(news)
    after = everything(state)
    state.apply(EvictFailed("ns/v"))
    assert everything(state) == after
    assert state.jobs["ns/j"].held[CPU] == 6


def test_a_failure_of_somebody_who_was_not_evicted_changes_nothing() -> None:
    state, _, waits = victim_and_waiter(4, 4)
    state.pipeline(waits, state.nodes["n"], 5)
    before = everything(state)
    for key in ("ns/v", "ns/w", "ns/unknown"):
        state.apply(EvictFailed(key))
    assert everything(state) == before


def test_an_update_from_before_does_not_undo_a_claim() -> None:
    state, _, waits = victim_and_waiter(4, 4)
    waits.owed = False
    state.pipeline(waits, state.nodes["n"], 5)
    waits.owed = False
    state.apply(Changed(pod("w", 4, labels={"seen": "late"})))
    state.validate()
    seen = state.tasks["ns/w"]
    assert (seen.status, seen.node, seen.owed) == (TaskStatus.PIPELINED, state.nodes["n"], False)
    assert seen.spec.labels == {"seen": "late"}
    assert state.nodes["n"].waiting == {"ns/w": seen}


def test_a_claim_may_be_on_more_than_before() -> None:
    # The pod was changed while it waits: the claim is on what it asks for now.
    state, _, waits = victim_and_waiter(4, 4)
    state.pipeline(waits, state.nodes["n"], 5)
    state.apply(Changed(pod("w", 6)))
    state.validate()
    assert state.nodes["n"].pipelined[CPU] == 6 and state.jobs["ns/j"].held[CPU] == 10


def test_a_claim_that_could_not_be_carried_out_waits_again() -> None:
    state, _, waits = victim_and_waiter(4, 4)
    before = everything(state)
    state.pipeline(waits, state.nodes["n"], 5)
    waits.owed = False
    state.apply(BindFailed("ns/w"))
    assert everything(state) == before
    assert state.tasks["ns/w"].owed


def test_deleted_pipelined_task_frees_its_reservation() -> None:
    state, leaving, waits = victim_and_waiter(4, 4, 6)
    state.evict(leaving)
    state.pipeline(waits, state.nodes["n"], 5)
    state.apply(Gone(TaskSpec, "ns/w"))
    state.validate()
    assert not state.nodes["n"].waiting and accounts(state.nodes["n"]) == (0, 0, 4)
    assert state.jobs["ns/j"].held[CPU] == 6


def test_a_node_that_is_gone_stays_in_mind_while_somebody_waits_there() -> None:
    state = told(NODE, JOB, pod("w", 4))
    state.pipeline(state.tasks["ns/w"], state.nodes["n"], 5)
    state.apply(Gone(NodeSpec, "n"))
    state.validate()
    assert state.tasks["ns/w"].node is state.nodes["n"] and not state.nodes["n"].schedulable
    assert state.capacity == [0, 0, 0]  # a claim on a machine that is no more gives nothing to share
    state.apply(Gone(TaskSpec, "ns/w"))
    state.validate()
    assert not state.nodes


def test_a_job_that_is_gone_keeps_who_waits_and_who_leaves_until_they_are_gone() -> None:
    state, leaving, waits = victim_and_waiter(4, 4, 6)
    state.evict(leaving)
    state.pipeline(waits, state.nodes["n"], 5)
    state.apply(Gone(JobSpec, "ns/j"))
    state.validate()
    assert state.jobs["ns/j"].spec is None
    for name in "vwo":
        state.apply(Gone(TaskSpec, f"ns/{name}"))
        state.validate()
    assert not state.jobs and accounts(state.nodes["n"]) == (10, 10, 10)


def test_pipelined_task_may_be_seen_running_on_another_node() -> None:
    state, _, waits = victim_and_waiter(4, 4)
    state.apply(Changed(NodeSpec("m", (10, 10, 10))))
    state.pipeline(waits, state.nodes["n"], 5)
    state.apply(Changed(running("w", 4, node="m")))
    state.validate()
    assert not state.nodes["n"].waiting and state.nodes["m"].ours[CPU] == 4


# --- capacity (docs/fairness.md, section 1.1) -----------------------------------------------------------------------


@pytest.mark.parametrize("away", [{"unschedulable": True}, {"ready": False}, None], ids=["cordoned", "lost", "gone"])
def test_a_node_that_takes_no_more_counts_what_is_held_not_what_is_released(away: dict[str, Any] | None) -> None:
    # 6 + 3 run there; the 6 are seen to go: 3 are left of what is shared, from the moment on that they are going.
    state = told(NODE, JOB, running("v", 6), running("o", 3))
    state.apply(Changed(replace(NODE, **away)) if away is not None else Gone(NodeSpec, "n"))
    assert state.capacity == [9, 0, 2]
    state.apply(Changed(replace(running("v", 6), status=TaskStatus.RELEASING)))
    state.validate()
    assert state.capacity == [3, 0, 1]
    state.apply(Gone(TaskSpec, "ns/v"))
    assert state.capacity == [3, 0, 1]


@pytest.mark.parametrize("away", [{"unschedulable": True}, {"ready": False}, None], ids=["cordoned", "lost", "gone"])
def test_nor_what_we_decided_to_release_unless_it_stays(away: dict[str, Any] | None) -> None:
    state = told(NODE, JOB, running("v", 6))
    state.apply(Changed(replace(NODE, **away)) if away is not None else Gone(NodeSpec, "n"))
    before = everything(state)
    state.evict(state.tasks["ns/v"])
    state.validate()
    assert state.capacity == [0, 0, 0]
    state.apply(EvictFailed("ns/v"))
    assert everything(state) == before and state.capacity == [6, 0, 1]
    state.evict(state.tasks["ns/v"])
    state.unevict(state.tasks["ns/v"], TaskStatus.RUNNING)
    assert everything(state) == before


def test_a_claim_adds_nothing_to_capacity() -> None:
    state = told(NODE, JOB, pod("w", 4))
    state.pipeline(state.tasks["ns/w"], state.nodes["n"], 5)
    assert state.capacity == [10, 10, 10]
    state.apply(Changed(replace(NODE, unschedulable=True)))
    state.validate()
    assert state.capacity == [0, 0, 0]


# --- any of it, in any order ----------------------------------------------------------------------------------------

NODES = ("n", "m")
TASKS = tuple(f"t{i}" for i in range(6))
names, places = st.sampled_from(TASKS), st.sampled_from(NODES)


class Moves(RuleBasedStateMachine):
    """What the engine decides and what a cluster reports, in any order; after every step all accounts add up."""

    def __init__(self) -> None:
        super().__init__()
        self.state = told(JOB, replace(JOB, name="k"), *(NodeSpec(name, (8, 8, 8)) for name in NODES))

    def found(self, name: str, *statuses: TaskStatus) -> Task | None:
        task = self.state.tasks.get(f"ns/{name}")
        return task if task is not None and task.status in statuses else None

    @rule(name=names, cpu=st.integers(0, 5), of=st.sampled_from("jk"))
    def arrives(self, name: str, cpu: int, of: str) -> None:
        self.state.apply(Changed(pod(name, cpu, job=f"ns/{of}")))

    @rule(name=names, on=places, cpu=st.integers(0, 5), status=st.sampled_from([TaskStatus.BOUND, TaskStatus.RUNNING]))
    def is_seen(self, name: str, on: str, cpu: int, status: TaskStatus) -> None:
        self.state.apply(Changed(running(name, cpu, node=on, status=status)))

    @rule(name=names, status=st.sampled_from([TaskStatus.RELEASING, TaskStatus.SUCCEEDED, TaskStatus.FAILED]))
    def ends(self, name: str, status: TaskStatus) -> None:
        task = self.state.tasks.get(f"ns/{name}")
        if task is not None and task.node is not None:
            self.state.apply(Changed(replace(task.spec, node=task.node.name, status=status)))

    @rule(name=names)
    def is_said_again(self, name: str) -> None:
        """An update that knows nothing of what we decided since."""
        task = self.state.tasks.get(f"ns/{name}")
        if task is not None:
            before = task.status
            again = replace(task.spec, labels={"again": str(len(task.spec.labels))})
            self.state.apply(Changed(again))
            after = self.state.tasks[f"ns/{name}"].status
            assert after is before or (before is TaskStatus.BINDING and task.spec.status is not TaskStatus.PENDING)

    def open_node(self, name: str) -> ClusterNode | None:
        node = self.state.nodes.get(name)
        return node if node is not None and node.schedulable else None

    @rule(name=names, on=places)
    def is_placed(self, name: str, on: str) -> None:
        task, node = self.found(name, TaskStatus.PENDING), self.open_node(on)
        if task is not None and node is not None:
            self.state.place(task, node, 7)

    @rule(name=names, on=places)
    def is_pipelined(self, name: str, on: str) -> None:
        task, node = self.found(name, TaskStatus.PENDING), self.open_node(on)
        if task is not None and node is not None:
            self.state.pipeline(task, node, 7)

    @rule(name=names)
    def is_promoted(self, name: str) -> None:
        task = self.found(name, TaskStatus.PIPELINED)
        if task is not None and task.node is not None and task.node.schedulable:
            self.state.promote(task)

    @rule(name=names)
    def is_sent_back(self, name: str) -> None:
        task = self.found(name, TaskStatus.PIPELINED)
        if task is not None:
            self.state.unplace(task)

    @rule(name=names, fails=st.booleans())
    def is_evicted(self, name: str, fails: bool) -> None:
        task = self.found(name, TaskStatus.BOUND, TaskStatus.RUNNING)
        if task is not None and task.node is not None:
            before = everything(self.state)
            self.state.evict(task)
            if fails:
                self.state.apply(EvictFailed(task.key))
                assert everything(self.state) == before

    @rule(name=names)
    def eviction_fails(self, name: str) -> None:
        self.state.apply(EvictFailed(f"ns/{name}"))

    @rule(name=names)
    def bind_fails(self, name: str) -> None:
        self.state.apply(BindFailed(f"ns/{name}"))

    @rule(name=names)
    def is_gone(self, name: str) -> None:
        self.state.apply(Gone(TaskSpec, f"ns/{name}"))

    @rule(of=st.sampled_from("jk"), there=st.booleans())
    def job_comes_or_goes(self, of: str, there: bool) -> None:
        self.state.apply(Changed(replace(JOB, name=of)) if there else Gone(JobSpec, f"ns/{of}"))

    @rule(name=places, cpu=st.integers(0, 8), cordoned=st.booleans(), there=st.booleans())
    def node_changes(self, name: str, cpu: int, cordoned: bool, there: bool) -> None:
        spec = NodeSpec(name, (cpu, 8, 8), unschedulable=cordoned)
        self.state.apply(Changed(spec) if there else Gone(NodeSpec, name))

    @invariant()
    def accounts_add_up(self) -> None:
        self.state.validate()
        for node in self.state.nodes.values():
            for j in (CPU, MEMORY, PODS):
                # A newcomer may take neither what is not free yet nor what those who wait will need.
                assert node.idle[j] == min(node.free(j), node.future(j))

    def teardown(self) -> None:
        """When all is gone nothing is left."""
        for kind, keys in (
            (TaskSpec, list(self.state.tasks)),
            (JobSpec, ["ns/j", "ns/k"]),
            (NodeSpec, list(NODES)),
        ):
            for key in keys:
                self.state.apply(Gone(kind, key))
        self.state.validate()
        assert not self.state.tasks and not self.state.jobs and not self.state.nodes
        assert not any(self.state.capacity)


TestMoves = Moves.TestCase
