"""capacity in the engine: who is served, what is let in and started, violations, who may take from whom."""

from __future__ import annotations

import pytest

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.candidates.units import AllocationUnit
from pumice.engine.decisions import QueueCondition
from pumice.engine.engine import Engine
from pumice.engine.events import Gone
from pumice.engine.plugins.builtin.capacity import CapacityPlugin
from pumice.engine.plugins.plugin import PluginError
from pumice.model.specs import JobPhase, JobSpec, Queue, TaskSpec
from tests.support.policies import policy_engine
from tests.support.queue_worlds import QueueWorld, cpu, let_in

# --- order and limits -------------------------------------------------------------------------------------------------


def test_queues_are_filled_in_proportion_to_what_they_deserve() -> None:
    # 2/2 and 6/6 make 8; of equals who was served longer ago goes on: a to 3/2, then b to 7/6
    world = QueueWorld(Queue("a", deserved=cpu(2)), Queue("b", deserved=cpu(6)), room=10)
    world.job("a", 20)
    world.job("b", 20)
    world.cycle()
    assert (world.held("a"), world.held("b")) == (3, 7)


def test_branches_come_before_leaves() -> None:
    # a and b deserve half each; a1 deserves little and is important, but shares a's half.
    world = QueueWorld(
        Queue("a", deserved=cpu(5)),
        Queue("b", deserved=cpu(5)),
        Queue("a1", parent="a", deserved=cpu(1), priority=10),
        Queue("a2", parent="a", deserved=cpu(4)),
    )
    for queue in ("a1", "a2", "b"):
        world.job(queue, 20)
    world.cycle()
    assert (world.held("a"), world.held("b")) == (5, 5)
    assert (world.held("a", "a1"), world.held("a", "a2")) == (5, 0)


def test_a_parent_counts_with_and_without_the_flag() -> None:
    world = QueueWorld(Queue("a", capability=cpu(4)), Queue("a1", parent="a"), Queue("a2", parent="a"))
    world.job("a1", 9)
    world.job("a2", 9)
    world.cycle()
    assert world.held("a") == 4


def test_a_guarantee_waits_for_its_queue() -> None:
    world = QueueWorld(Queue("a", guarantee=cpu(4)), Queue("b"))
    world.job("b", 20)
    world.cycle()
    assert world.held("b") == 6
    world.job("a", 20)
    world.cycle()
    assert (world.held("a"), world.held("b")) == (4, 6)


def test_limits_follow_the_cluster() -> None:
    world = QueueWorld(Queue("a", guarantee=cpu(4)), Queue("b"))
    world.job("b", 30)
    world.cycle()
    world.node(12)
    world.cycle()
    assert world.held("b") == 8


@pytest.mark.parametrize("policy", ["drf and capacity", "capacity and namespaces"])
def test_capacity_limits_hold_beside_each_ordering_policy(policy: str) -> None:
    world = QueueWorld(Queue("a", capability=cpu(3)), Queue("b", guarantee=cpu(1)), Queue("c"), policy=policy)
    for queue in "abc":
        world.job(queue, 20)
    world.cycle()
    assert world.held("a") <= 3 and world.held("b") >= 1
    assert world.held("a") + world.held("b") + world.held("c") == 10


def test_flat_drf_ahead_of_capacity_leaves_the_queues_to_it() -> None:
    engine = policy_engine("capacity and namespaces")
    capacity = next(plugin for _, plugin in engine.policy.plugins if plugin.name == "capacity")
    assert capacity.orders_queues and capacity.jobs_by_share


# --- what is let in ---------------------------------------------------------------------------------------------------


def test_promises_count_up_to_every_parent() -> None:
    world = QueueWorld(Queue("a", capability=cpu(8)), Queue("a1", parent="a"), Queue("a2", parent="a"))
    first = world.job("a1", 0, phase=JobPhase.PENDING, min_resources=(5,))
    second = world.job("a2", 0, phase=JobPhase.PENDING, min_resources=(4,))
    third = world.job("a2", 0, phase=JobPhase.PENDING, min_resources=(3,))
    assert let_in(world) == {first, third}  # 5 + 4 > 8, 5 + 3 = 8
    world.engine.apply(Gone(JobSpec, first))
    assert let_in(world) == {second}


def test_elastic_resources_of_running_jobs_count_as_room_for_enqueue() -> None:
    world = QueueWorld(Queue("a", capability=cpu(8)))
    world.job("a", 8, running=8, phase=JobPhase.RUNNING, min_resources=(2,))  # 6 to spare
    inside = world.job("a", 0, phase=JobPhase.PENDING, min_resources=(6,))
    assert let_in(world) == {inside}
    world.job("a", 0, phase=JobPhase.PENDING, min_resources=(1,))
    assert let_in(world) == set()


def test_only_what_is_asked_for_is_judged() -> None:
    world = QueueWorld(Queue("a", capability=((CPU, 2), (MEMORY, 5))))
    world.job("a", 1, running=1, asks=(3, 1), phase=JobPhase.RUNNING)  # more cpu than it may hold
    memory_only = world.job("a", 0, phase=JobPhase.PENDING, min_resources=(0, 4))
    world.job("a", 0, phase=JobPhase.PENDING, min_resources=(1, 0))
    nothing = world.job("a", 0, phase=JobPhase.PENDING)
    assert let_in(world) == {memory_only, nothing}


def test_queue_below_deserved_is_enqueued_though_sibling_borrowed_everything() -> None:
    # b has borrowed all of a (at most 6). c deserves 3 of it: it has to be let in to ask for them.
    world = QueueWorld(Queue("a", capability=cpu(6)), Queue("b", parent="a"), Queue("c", parent="a", deserved=cpu(3)))
    world.job("b", 6, running=6, phase=JobPhase.RUNNING, min_member=6, min_resources=(6,))
    due = world.job("c", 0, phase=JobPhase.PENDING, min_resources=(3,))
    world.job("c", 0, phase=JobPhase.PENDING, min_resources=(1,))
    assert let_in(world) == {due}


# --- violations -------------------------------------------------------------------------------------------------------

BAD = (
    Queue("a", deserved=cpu(2)),
    Queue("a1", parent="a", deserved=cpu(2)),
    Queue("a2", parent="a", deserved=cpu(1)),
    Queue("b"),
)


def test_a_violation_stops_its_subtree() -> None:
    world = QueueWorld(*BAD)
    for queue in ("a1", "a2", "b"):
        world.job(queue, 3)
    told = [decision for decision in world.cycle() if isinstance(decision, QueueCondition)]
    assert (world.held("a"), world.held("b")) == (0, 3)
    assert [condition.queue for condition in told] == ["a"]
    # Put right, it goes on.
    world.change(Queue("a", deserved=cpu(3)))
    world.cycle()
    assert world.held("a") == 6


def test_a_violation_halts_everything_where_that_is_wanted() -> None:
    world = QueueWorld(*BAD, onViolation="halt")
    world.job("b", 3)
    told = [decision for decision in world.cycle() if isinstance(decision, QueueCondition)]
    assert world.held("b") == 0
    assert {condition.queue for condition in told} == {"a", "a1", "a2", "b"}
    assert "queue a:" in next(condition.message for condition in told if condition.queue == "b")


def test_a_queue_without_a_place_is_told_why() -> None:
    world = QueueWorld(Queue("orphan", parent="nowhere"), Queue("x", parent="y"), Queue("y", parent="x"), Queue("b"))
    world.job("orphan", 1)
    world.job("b", 1)
    world.cycle()
    assert world.held("b") == 1
    assert set(world.engine.context.sync.refused_queues) == {"orphan", "x", "y"}


def test_a_job_above_the_leaves_stops_the_subtree_until_it_is_gone() -> None:
    world = QueueWorld(Queue("a"), Queue("a1", parent="a"), Queue("b"))
    world.job("a1", 1)
    world.cycle()
    stray = world.job("a", 1)
    world.job("a1", 1)
    world.job("b", 1)
    world.cycle()
    assert (world.held("a"), world.held("b")) == (1, 1)
    world.engine.apply(Gone(TaskSpec, f"{stray}-0"))
    world.engine.apply(Gone(JobSpec, stray))
    world.cycle()
    assert world.held("a") == 2


def test_too_many_guarantees_stop_nothing_but_themselves() -> None:
    world = QueueWorld(
        Queue("a", capability=cpu(6)),
        Queue("a1", parent="a", guarantee=cpu(4)),
        Queue("a2", parent="a", guarantee=cpu(4)),
        Queue("b"),
    )
    world.job("b", 20)
    world.job("a1", 1)
    world.cycle()
    assert (world.held("a"), world.held("b")) == (0, 2)  # what is guaranteed stays reserved


# --- taking back ------------------------------------------------------------------------------------------------------


def taking(world: QueueWorld, preemptor: str, victim: str, ask: int = 1) -> tuple[str | None, bool]:
    """What preemptive says, and reclaimable for a task of a job once the preemptor's unit is counted."""
    engine: Engine = world.engine
    engine.prepare()
    plugin = next(plugin for _, plugin in engine.policy.plugins if plugin.name == "capacity")
    leaf = engine.tree.jobs[preemptor]
    unit: AllocationUnit = leaf.unit
    assert unit.ask == cpu(ask)
    refusal = plugin.preemptive(leaf, unit)
    engine.tree.charge(leaf, unit.ask, 1)
    task = next(task for task in engine.state.jobs[victim].tasks.values() if task.status.held)
    agreed = plugin.reclaimable(leaf, unit, task)
    engine.tree.uncharge(leaf, unit.ask, 1)
    return refusal, agreed


def test_a_queue_takes_back_what_it_deserves() -> None:
    world = QueueWorld(Queue("a", deserved=cpu(4)), Queue("b", deserved=cpu(6)))
    lender = world.job("a", 9)
    borrower = world.job("b", 10, running=10)
    assert taking(world, lender, borrower) == (None, True)
    # b within its due has nothing to give back.
    world.finish(borrower, 4)
    assert taking(world, lender, borrower) == (None, False)


def test_queue_does_not_reclaim_beyond_its_deserved() -> None:
    world = QueueWorld(Queue("a", deserved=cpu(4)), Queue("b"))
    full = world.job("a", 9, running=4)
    borrower = world.job("b", 6, running=6)
    refusal, agreed = taking(world, full, borrower)
    assert refusal is not None and not agreed


def test_a_queue_that_deserves_nothing_takes_nothing() -> None:
    world = QueueWorld(Queue("a", deserved=((MEMORY, 5),)), Queue("b"))
    refusal, agreed = taking(world, world.job("a", 9), world.job("b", 10, running=10))
    assert refusal is not None and not agreed


def test_queue_does_not_reclaim_beyond_parent_capability() -> None:
    world = QueueWorld(
        Queue("a", deserved=cpu(9), capability=cpu(4)), Queue("a1", parent="a", deserved=cpu(9)), Queue("b")
    )
    grown = world.job("a1", 9, running=4)
    borrower = world.job("b", 6, running=6)
    _, agreed = taking(world, grown, borrower)
    assert not agreed  # a1 deserves no more than a may hold


def test_every_queue_on_the_victims_way_must_be_above_its_due() -> None:
    # b1 is above its due, but b as a whole is not: nothing was borrowed from a.
    queues = [Queue("a", deserved=cpu(4)), Queue("b", deserved=cpu(6)), Queue("b1", parent="b", deserved=cpu(2))]
    world = QueueWorld(*queues, room=6)
    assert taking(world, world.job("a", 9), world.job("b1", 6, running=6)) == (None, False)
    # A parent that names nothing is no obstacle.
    world = QueueWorld(queues[0], Queue("b"), queues[2], room=6)
    assert taking(world, world.job("a", 9), world.job("b1", 6, running=6)) == (None, True)


def rival_rights(held_by_compute: int, *, idle_memory: int = 0) -> bool:
    """Whether compute, which deserves 10 cpu, may reclaim cpu from store, which holds its 4 of memory and 4 cpu."""
    world = QueueWorld(
        Queue("compute", deserved=cpu(10)),
        Queue("store", deserved=((MEMORY, 4),)),
        room=held_by_compute + 4,
        memory=4 + idle_memory,
    )
    world.job("compute", held_by_compute, running=held_by_compute)
    rival = world.job("store", 4, running=4, asks=(1, 1))
    return taking(world, world.job("compute", 1), rival)[1]


def test_contested_room_goes_to_the_queue_with_the_smaller_part_of_its_deserved() -> None:
    # store has borrowed the cpu of its tasks, but has a right to their memory, of which it would keep three quarters.
    assert rival_rights(held_by_compute=7)
    assert not rival_rights(held_by_compute=8)


def test_resource_that_is_idle_elsewhere_is_not_contested() -> None:
    assert rival_rights(held_by_compute=8, idle_memory=1)


@pytest.mark.parametrize(("level", "allowed"), [(0, False), (1, True), (2, True)])
def test_a_parent_may_be_the_judge(level: int, allowed: bool) -> None:
    # a1 has the 1 that it deserves; its parent deserves 4.
    world = QueueWorld(
        Queue("a", deserved=cpu(4)),
        Queue("a1", parent="a", deserved=cpu(1)),
        Queue("b"),
        ancestorReclaimLevel=level,
    )
    refusal, agreed = taking(world, world.job("a1", 9, running=1), world.job("b", 9, running=9))
    assert (refusal is None, agreed) == (allowed, allowed)


@pytest.mark.parametrize("level", [0, 1])
def test_a_silent_queue_is_judged_by_the_nearest_above_that_names_a_deserved(level: int) -> None:
    # Neither a2 nor a1 above it names anything; a deserves 4 and holds 3, then 4.
    world = QueueWorld(
        Queue("a", deserved=cpu(4)),
        Queue("a1", parent="a"),
        Queue("a2", parent="a1"),
        Queue("b", deserved=cpu(4)),
        Queue("b1", parent="b"),
        ancestorReclaimLevel=level,
    )
    preemptor, borrower = world.job("a2", 9, running=3), world.job("b1", 7, running=7)
    assert taking(world, preemptor, borrower) == (None, True)
    # As a victim it is judged by b, which holds 4 of 4 now.
    world.finish(borrower, 3)
    assert taking(world, preemptor, borrower) == (None, False)


def test_a_silent_queue_takes_no_more_than_its_judge_deserves() -> None:
    world = QueueWorld(Queue("a", deserved=cpu(4)), Queue("a1", parent="a"), Queue("b"))
    refusal, agreed = taking(world, world.job("a1", 9, running=4), world.job("b", 6, running=6))
    assert refusal == "queue a would hold more than it deserves" and not agreed


def test_a_silent_queue_is_let_in_by_what_its_judge_deserves() -> None:
    # b holds all 10; a deserves 3 of them: one job of 3 below it is let in, a further one is not.
    world = QueueWorld(Queue("a", deserved=cpu(3)), Queue("a1", parent="a"), Queue("b"))
    world.job("b", 10, running=10, phase=JobPhase.RUNNING, min_member=10, min_resources=(10,))
    due = world.job("a1", 0, phase=JobPhase.PENDING, min_resources=(3,))
    world.job("a1", 0, phase=JobPhase.PENDING, min_resources=(1,))
    assert let_in(world) == {due}


def test_a_parent_of_both_is_no_judge() -> None:
    world = QueueWorld(
        Queue("p", deserved=cpu(9)), Queue("a", parent="p"), Queue("b", parent="p"), ancestorReclaimLevel=1
    )
    _, agreed = taking(world, world.job("a", 9), world.job("b", 8, running=8))
    assert not agreed


def test_capacity_does_not_judge_reclaim_when_drf_orders_queues() -> None:
    world = QueueWorld(Queue("a", capability=cpu(4)), Queue("b"), policy="drf and capacity")
    assert taking(world, world.job("a", 9), world.job("b", 10, running=10)) == (None, True)


@pytest.mark.parametrize(
    "arguments", [{"ancestorReclaimLevel": -1}, {"ancestorReclaimLevel": True}, {"onViolation": "ignore"}]
)
def test_arguments_that_make_no_sense(arguments: dict[str, object]) -> None:
    with pytest.raises(PluginError) as refused:
        CapacityPlugin(arguments)
    assert refused.value.argument in arguments


# --- what people are told ---------------------------------------------------------------------------------------------


def test_guarantees_that_the_cluster_can_no_longer_keep_are_said_of_root_once() -> None:
    world = QueueWorld(Queue("a", guarantee=cpu(6)), Queue("b", guarantee=cpu(3)))
    assert not [said for said in world.cycle() if isinstance(said, QueueCondition)]
    world.node(8)
    (said,) = [said for said in world.cycle() if isinstance(said, QueueCondition)]
    assert (said.queue, said.type) == ("root", "GuaranteesExceedCapacity")
    assert said.message == (
        "the children of queue 'root' have guarantee cpu 9m in total, more than the allocatable cpu 8m of the cluster"
    )
    assert not [said for said in world.cycle() if isinstance(said, QueueCondition)]
    world.node(9)
    assert world.cycle()[-1] == QueueCondition("root", "", "GuaranteesExceedCapacity")


def test_a_deserved_that_is_clamped_stops_nobody_and_is_said() -> None:
    world = QueueWorld(Queue("a", deserved=cpu(9), capability=cpu(4)), Queue("b", deserved=cpu(2), guarantee=cpu(3)))
    world.job("a", 9)
    said = {said.queue: said for said in world.cycle() if isinstance(said, QueueCondition)}
    assert world.held("a") == 4
    assert {(queue, condition.type) for queue, condition in said.items()} == {
        ("a", "DeservedClamped"),
        ("b", "DeservedClamped"),
    }
    assert said["a"].message.startswith("queue 'a' has deserved cpu 9m, more than its capability cpu 4m")
    assert said["b"].message.startswith("queue 'b' has guarantee cpu 3m, more than its deserved cpu 2m")


def test_a_guarantee_above_the_capability_stops_its_queue() -> None:
    world = QueueWorld(Queue("a", capability=cpu(3), guarantee=cpu(5)), Queue("b"))
    world.job("a", 2)
    world.job("b", 2)
    (said,) = [said for said in world.cycle() if isinstance(said, QueueCondition)]
    assert (said.queue, said.type) == ("a", "Halted")
    assert "has guarantee cpu 5m, more than its capability cpu 3m" in said.message
    assert (world.held("a"), world.held("b")) == (0, 2)
