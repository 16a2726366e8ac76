"""What ``why`` says, case by case, with the arithmetic of its numbers."""

from __future__ import annotations

from typing import Any

import pytest

from kubebase.resource_vector import Registry
from pumice.engine.actions import ACTIONS
from pumice.engine.checkpoint.engine_checkpoint import EngineCheckpoint, PreemptorsCheckpoint, ReservationsCheckpoint
from pumice.engine.config.scheduler_config import DEFAULT_CONFIG, parse_config
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.engine.explain import WaitReport, explain
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.preemption.cooldown import LIVE
from pumice.model.specs import (
    Constraints,
    JobPhase,
    JobSpec,
    NodeSpec,
    Queue,
    QueueState,
    Taint,
    TaskSpec,
    TaskStatus,
    VolumeDemand,
)
from tests.support.taking import Shell, taking_engine

SECOND = 1_000_000
NOW = 1000 * SECOND


class World:
    """Nodes of 4 cpu unless they say otherwise, queues, jobs of one-cpu tasks."""

    def __init__(self, config: str = DEFAULT_CONFIG) -> None:
        self.engine = Engine(
            parse_config(config, known_plugins=BUILT_IN, known_actions=ACTIONS), BUILT_IN, Registry(), LIVE
        )
        self.engine.context.now = NOW

    def node(self, name: str, cpu: int = 4, **about: Any) -> None:
        self.engine.apply(Changed(NodeSpec(name, (cpu * 1000, 64 * 2**30, 100), **about)))

    def queue(self, name: str, **about: Any) -> None:
        self.engine.apply(Changed(Queue(name, created=len(self.engine.state.queues), **about)))

    def job(
        self,
        name: str,
        queue: str,
        tasks: int,
        *,
        on: tuple[str, ...] = (),
        cpu: int = 1,
        started: int = 10 * SECOND,
        constraints: Constraints | None = None,
        **about: Any,
    ) -> str:
        age = len(self.engine.state.jobs) * SECOND
        spec = JobSpec("ns", name, queue, age, **{"phase": JobPhase.INQUEUE, **about})
        self.engine.apply(Changed(spec))
        for i in range(tasks):
            where: dict[str, Any] = {}
            if i < len(on):
                where = {"node": on[i], "status": TaskStatus.RUNNING, "started": started}
            if constraints is not None:
                where["constraints"] = constraints
            self.engine.apply(Changed(TaskSpec("ns", f"{name}-w-{i}", (cpu * 1000, 0, 1), job=spec.key, **where)))
        return spec.key

    def why(self, key: str) -> WaitReport:
        answer = explain(self.engine, key, NOW)
        assert answer is not None
        return answer


def test_explain_returns_none_for_unknown_job() -> None:
    assert explain(World().engine, "ns/none", NOW) is None


def test_a_job_that_runs() -> None:
    world = World()
    world.node("n")
    world.queue("q")
    answer = world.why(world.job("j", "q", 2, on=("n", "n")))
    assert (answer.cause, answer.running, answer.running_since) == ("running", 2, 10 * SECOND)
    assert answer.verdict == "ns/j is not waiting: all its 2 tasks have a node"
    assert answer.holds == {"cpu": "2"}
    alone = world.why(world.job("k", "q", 1, on=("n",)))
    assert alone.verdict == "ns/k is not waiting: its task has a node"


def test_why_says_unobstructed_job_waits_for_next_cycle() -> None:
    world = World()
    world.node("n")
    world.queue("q")
    answer = world.why(world.job("j", "q", 3, min_member=2))
    assert (answer.cause, answer.unit_tasks, answer.outlook.first) == ("next", 2, ["ns/j"])
    assert answer.verdict == "ns/j waits only for the next cycle, which starts 3 tasks"


def test_pods_without_their_group() -> None:
    world = World()
    world.engine.apply(Changed(TaskSpec("ns", "p", (1, 0, 1), job="ns/g")))
    answer = world.why("ns/g")
    assert (answer.cause, answer.needs) == (
        "no group",
        ["create PodGroup ns/g, which the pods of the job name"],
    )


def test_queues_that_take_no_work() -> None:
    world = World()
    world.node("n")
    world.queue("a", state=QueueState.PAUSED)
    world.queue("b", parent="a")
    world.queue("c", parent="gone")
    below, parent, orphan, nowhere = (world.job(queue, queue, 1) for queue in ("b", "a", "c", "nowhere"))
    answer = world.why(below)
    assert answer.cause == "queue"
    assert answer.verdict == "ns/b waits: queue a, an ancestor of its queue, is Paused"
    # a is also stopped, because a job is in it although it has a queue below.
    assert answer.needs == ["resume queue a", "correct the spec of queue a"]
    assert world.why(parent).notes == ["queue root/a is not a leaf queue, and only leaf queues accept jobs"]
    assert world.why(orphan).cause == "no queue"
    assert "Not found: 'gone'" in world.why(orphan).verdict
    assert world.why(nowhere).verdict == "ns/nowhere waits: queue nowhere does not exist"


def test_why_names_topmost_paused_ancestor_and_closed_queue() -> None:
    """In a cluster the queue controller writes the state of a paused parent into all queues below it."""
    world = World()
    world.node("n")
    for name, parent, state in (
        ("org", "root", QueueState.PAUSED),
        ("team", "org", QueueState.PAUSED),
        ("shut", "team", QueueState.CLOSED),
        ("leaf", "team", QueueState.PAUSED),
    ):
        world.queue(name, parent=parent, state=state)
    answer = world.why(world.job("j", "leaf", 1))
    assert answer.verdict == "ns/j waits: queue org, an ancestor of its queue, is Paused"
    assert answer.needs == ["resume queue org"]
    both = world.why(world.job("k", "shut", 1))
    assert both.notes == ["queue org, an ancestor of its queue, is Paused", "queue shut is Closed"]
    assert both.needs == ["resume queue org", "open queue shut"]


def test_a_subtree_whose_numbers_contradict_each_other() -> None:
    world = World(DEFAULT_CONFIG)
    world.node("n", 100)
    world.queue("a", capability=((0, 4000),))
    world.queue("b", parent="a", capability=((0, 5000),))
    answer = world.why(world.job("j", "b", 1))
    assert answer.cause == "queue"
    assert answer.notes == [
        "queue a, an ancestor of its queue, starts no jobs: queue 'b' has capability cpu 5, "
        "more than the cpu 4 of its ancestor 'a'; lower the first or raise the second"
    ]


def test_why_shows_overcommit_numbers_for_job_not_enqueued() -> None:
    # 10 cpu, overbooked 1.2 times: 12. 10 are held, 8 more would be 18. Two jobs of a share the 10, 5 each: 8 is more
    # than the second is owed.
    world = World()
    world.node("n", 10)
    world.queue("a")
    world.queue("b")
    world.job("first", "a", 10, on=("n",) * 10)
    answer = world.why(world.job("j", "a", 0, min_resources=(8000,), phase=JobPhase.PENDING))
    assert answer.cause == "not let in"
    assert answer.verdict == (
        "ns/j is not enqueued yet: the cluster cannot admit more cpu (overcommit-factor 1.2): "
        "10 in use, 0 promised and 8 requested exceed 12"
    )


def test_why_says_min_resources_above_cluster_can_never_start() -> None:
    world = World()
    world.node("n", 10)
    world.queue("q")
    answer = world.why(world.job("j", "q", 0, min_resources=(13_000,), phase=JobPhase.PENDING))
    assert answer.verdict == (
        "ns/j waits and can never start: its minResources request cpu 13, but the whole cluster has cpu 10"
    )
    assert answer.needs == ["add nodes, or request less"]


def test_pods_that_are_missing() -> None:
    world = World()
    world.node("n")
    world.queue("q")
    answer = world.why(world.job("j", "q", 1, min_member=3))
    assert (answer.cause, answer.verdict) == ("pods", "ns/j waits: 1 of 3 required pods (minMember) exist")


def test_why_says_task_or_gang_can_never_fit() -> None:
    world = World()
    world.node("n", 4)
    world.node("m", 4, taints=(Taint("gpu"),))
    world.queue("q")
    task = world.why(world.job("large", "q", 1, cpu=5))
    assert task.cause == "never"
    assert len(task.notes) == 1
    assert task.verdict == "ns/large waits and can never start: 1 task would not fit any node, not even an empty one"
    assert [(out.reason, out.count) for out in task.places[0].out] == [
        ("untolerated taint gpu:NoSchedule", 1),
        ("insufficient cpu", 1),
    ]
    gang = world.why(world.job("gang", "q", 5, min_member=5))
    assert gang.notes == ["it must start 5 tasks together, but the empty cluster has capacity for 4"]


def test_why_names_the_claim_that_a_job_waits_for() -> None:
    world = World()
    world.node("n")
    world.queue("q")
    reason = 'persistentvolumeclaim "data" not found'
    answer = world.why(world.job("early", "q", 1, constraints=Constraints(volumes=VolumeDemand(waits_for=reason))))
    assert answer.cause == "volume"
    assert answer.verdict == 'ns/early waits: persistentvolumeclaim "data" not found'
    assert answer.needs == ["create the claims that its pods name, or see why they are not bound: kubectl describe pvc"]


def test_first_come_first_served() -> None:
    world = World()
    world.node("n", 4)
    world.queue("q", fifo=True)
    world.job("runs", "q", 3, on=("n",) * 3)
    world.job("large", "q", 1, cpu=3)
    answer = world.why(world.job("small", "q", 1))
    assert answer.cause == "line"
    assert answer.verdict == "ns/small waits: queue root/q is FIFO (dequeueStrategy: fifo), and ns/large is at its head"


def test_the_capability_of_an_ancestor() -> None:
    world = World(DEFAULT_CONFIG)
    world.node("n", 10)
    world.queue("a", capability=((0, 4000),))
    world.queue("b", parent="a")
    world.job("runs", "b", 2, on=("n",) * 2)
    answer = world.why(world.job("j", "b", 3, min_member=3))
    assert answer.cause == "limit"
    assert answer.verdict == "ns/j waits: queue root/a holds cpu 2 of its capability of 4, and the job requests 3 more"
    (limit,) = answer.limits
    assert (limit.kind, limit.queue, limit.most, limit.held, limit.asks) == ("capability", "root/a", "4", "2", "3")
    assert answer.needs == ["wait until jobs in root/a free cpu 1, or raise its capability"]


def test_a_job_that_has_less_important_ones_go_within_a_limit() -> None:
    # Both are entitled to 2 of the 4; one holds 3, so one of its tasks goes in the next cycle.
    world = World(DEFAULT_CONFIG)
    world.node("n", 10)
    world.queue("a", capability=((0, 4000),))
    world.job("runs", "a", 3, on=("n",) * 3)
    answer = world.why(world.job("j", "a", 2, min_member=2))
    assert [limit.kind for limit in answer.limits] == ["capability"]
    assert answer.needs == ["no action needed: it preempts in the next cycle: 1 task of ns/runs is evicted (preempt)"]


def test_limits_at_two_levels_are_both_named() -> None:
    world = World(DEFAULT_CONFIG)
    world.node("n", 10)
    world.queue("a", capability=((0, 4000),))
    world.queue("b", parent="a", capability=((0, 3000),))
    world.job("runs", "b", 3, on=("n",) * 3)
    answer = world.why(world.job("j", "b", 2, min_member=2))
    assert [limit.queue for limit in answer.limits] == ["root/a/b", "root/a"]


def test_why_names_guarantee_of_other_queue_as_limit() -> None:
    world = World(DEFAULT_CONFIG)
    world.node("n", 10)
    world.queue("a")
    world.queue("b", guarantee=((0, 4000),))
    world.job("runs", "a", 6, on=("n",) * 6)
    answer = world.why(world.job("j", "a", 1))
    (limit,) = answer.limits
    assert limit.kind == "guarantee"
    # 10 less the 4 of b.
    assert limit.message == "queue root/a holds cpu 6 of at most 6, and the job requests 1 more: root/b is guaranteed 4"


def test_the_limit_of_a_user_with_its_arithmetic() -> None:
    # 3/5 of 20 cpu: Q = 12. alice holds 5, bob 4 and carol 3: all 12 are used, so with one more task C = 12 + 1 = 13,
    # and a third of that is 4.333; 25 % would be less. A factor of 0.5 would allow 6.
    world = World()
    world.node("n", 20, unschedulable=False)
    world.queue("lab", weight=3, min_user_limit_percent=25, user_limit_factor=0.5)
    world.queue("other", weight=2)
    for user, runs in (("alice", 5), ("bob", 4), ("carol", 3)):
        world.job(user, "lab", 6, on=("n",) * runs, user=user)
    answer = world.why("ns/alice")
    (limit,) = answer.limits
    assert limit.kind == "user"
    assert limit.message == (
        "user alice holds cpu 5 in queue root/lab and requests 1 more; "
        "the user limit is 4334m = min(max(13 / 3 users, 13 x 25 %), 12 x 0.5)"
    )


def test_nodes_are_grouped_by_what_is_wrong_with_them() -> None:
    world = World()
    for i in range(3):
        world.node(f"full-{i}", 4)
    world.node("cordoned", 4, unschedulable=True)
    world.node("lost", 4, ready=False)
    world.node("tainted", 4, taints=(Taint("dedicated", "db"),))
    world.node("fits", 4, labels={"disk": "ssd"})
    world.queue("q")
    world.job("runs", "q", 10, on=("full-0",) * 4 + ("full-1",) * 4 + ("full-2",) * 2)
    answer = world.why(world.job("j", "q", 2, cpu=3, min_member=2))
    assert answer.cause == "room"
    (places,) = answer.places
    assert (places.nodes, places.fitting, answer.fitting_now) == (7, 1, 1)
    assert [(out.count, out.reason) for out in places.out] == [
        (1, "not ready"),
        (1, "cordoned"),
        (1, "untolerated taint dedicated=db:NoSchedule"),
        (3, "insufficient cpu"),
    ]
    (lack,) = places.out[-1].lacks
    assert (lack.resource, lack.needs, lack.most) == ("cpu", "3", "2")
    # It lacks least on full-2, where 2 of 3 are free.
    assert [(missing.node, missing.amounts) for missing in answer.missing] == [("full-2", {"cpu": "1"})]


@pytest.fixture
def lent() -> World:
    """8 cpu, all held by a queue that is entitled to half of it."""
    world = World()
    world.node("n", 8)
    world.queue("a")
    world.queue("b")
    world.job("borrower", "a", 12, on=("n",) * 8)
    return world


def test_why_contest_names_owed_queue_ahead_at_top_level(lent: World) -> None:
    key = lent.job("late", "b", 4)
    answer = lent.why("ns/borrower")
    held = answer.contest
    assert held is not None and held.supposing and held.first_job == key
    rung = held.rungs[0]
    # a and b are entitled to 4 each. b is owed its 4, a holds 8 and nothing below it is owed.
    assert (rung.ours.name, rung.ours.used, rung.ours.entitled, rung.place) == (
        "root/a",
        {"cpu": "8"},
        {"cpu": "4"},
        None,
    )
    assert rung.first is not None
    assert (rung.first.name, rung.first.key, rung.first.owed) == ("root/b", 1.0, True)


def test_why_predicts_reclaim_victims_and_start_time(lent: World) -> None:
    # reclaim.patience is 30 s in a service. It has found no room for 12 s.
    key = lent.job("late", "b", 1)
    lent.engine.prepare()
    since = {key: NOW - 12 * SECOND}
    memory = EngineCheckpoint(
        NOW,
        lent.engine.context.last_start,
        reclaims=PreemptorsCheckpoint(since),
        holds=ReservationsCheckpoint(waiting=since),
    )
    lent.engine.restore(memory)
    answer = lent.why(key)
    assert (answer.cause, answer.owed) == ("room", True)
    assert answer.outlook.starts_at == NOW + 18 * SECOND
    assert [eviction.job for eviction in answer.outlook.evictions] == ["ns/borrower"]
    assert answer.needs[0] == ("no action needed: it preempts in 18 s: 1 task of ns/borrower is evicted (reclaim)")
    assert all(task.node is not None for task in lent.engine.state.tasks.values() if task.status.held)


def test_room_is_kept_when_patience_ends() -> None:
    # Nobody may be evicted, so 300 s after it first found no room some is kept for it, on the node.
    world = World()
    world.node("n", 8)
    world.queue("a", reclaimable=False)
    world.queue("b")
    world.job("borrower", "a", 12, on=("n",) * 8)
    answer = world.why(world.job("late", "b", 1, cpu=2))
    assert answer.outlook.patience_at == NOW + 300 * SECOND
    assert (answer.outlook.holds_at, answer.outlook.holds_on) == (NOW + 300 * SECOND, ["n"])


def test_a_gang_that_is_entitled_to_less() -> None:
    # 8 cpu, two equal queues that both want all of it: 4 each. A gang of 6 is more than its queue's part.
    world = World()
    world.node("n", 8)
    world.queue("a")
    world.queue("b")
    world.job("runs", "a", 8, on=("n",) * 8)
    answer = world.why(world.job("gang", "b", 6, min_member=6))
    assert (answer.owed, answer.target) == (False, 4.0)
    assert "The job is entitled to less than that, so it can only start on spare capacity." in answer.verdict


def test_others_come_first_and_leave_no_room() -> None:
    # 4 cpu free. first is older, and of the same queue: served in turns, the 2 tasks of 2 cpu of each job: one each.
    world = World()
    world.node("n", 4)
    world.queue("q")
    world.job("first", "q", 1, cpu=3)
    answer = world.why(world.job("second", "q", 1, cpu=3))
    assert answer.cause == "turn"
    assert answer.verdict == "ns/second waits: ns/first comes first and leaves it no capacity"
    assert (answer.places[0].fitting, answer.places[0].out[0].lacks[0].most) == (0, "1")


# ---- evicted tasks that are gone ---------------------------------------------------------------------------------


def halves_with_absent_tasks(gone: int) -> Shell:
    """Two equal queues on 12 cpu: a lost its tasks above half, and so many of them are not there again."""
    shell = Shell(taking_engine(), audited=False)
    shell.returns = True
    waits = iter([*[9] * gone, *[0] * 6])
    shell.away = lambda: next(waits)
    shell.node("n0", 12)
    for queue in "ab":
        shell.queue(f"root/{queue}")
    shell.job("a", [(1,)] * 12, name="a")
    shell.cycle()
    shell.job("b", [(1,)] * 12, name="b")
    shell.settle(4)
    return shell


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (0, []),
        (1, ["1 evicted task is gone and has not been created again; it counts for 58 s more at most, and others may "
             "borrow what the job is entitled to for it"]),
        (6, ["6 evicted tasks are gone and have not been created again; they count for 58 s more at most, and others "
             "may borrow what the job is entitled to for them"]),
    ],
)  # fmt: skip
def test_report_tells_that_evicted_tasks_are_awaited(gone: int, expected: list[str]) -> None:
    shell = halves_with_absent_tasks(gone)
    answer = explain(shell.engine, "ns/a", shell.now)
    assert answer is not None and [note for note in answer.notes if "evicted" in note] == expected


def test_report_of_a_job_that_waits_tells_whose_tasks_are_awaited() -> None:
    shell = halves_with_absent_tasks(2)
    answer = explain(shell.engine, "ns/b", shell.now)
    assert answer is not None and answer.owed is False
    assert answer.notes[-1] == (
        "ns/a has evicted tasks whose successors do not exist yet: others may borrow what is kept for these, but are "
        "not owed it"
    )
