"""How a plan lets time pass until nothing changes any more."""

from __future__ import annotations

from dataclasses import replace

from pumice.engine.decisions import Bind
from pumice.engine.preemption.cooldown import PreemptionCooldown
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus
from pumice.plan.plan_basis import basis_of
from pumice.plan.rest_run import LOOK, RestRun, run_to_rest
from pumice.sim.simulated_cluster import SimulatedCluster
from tests.support.taking import SECOND, Shell, taking_engine


def cluster_of(*tasks: TaskSpec, cooldown: PreemptionCooldown) -> SimulatedCluster:
    """4 cpu that two equal queues share, and these tasks of the jobs a, in the first, and b."""
    engine = taking_engine(cooldown=cooldown)
    cluster = SimulatedCluster.around(engine, controlled=[task.key for task in tasks])
    cluster.put(NodeSpec("n", (4, 10, 10)))
    for name in "ab":
        cluster.put(Queue(name))
        cluster.put(JobSpec("ns", name, name, phase=JobPhase.INQUEUE))
    for task in tasks:
        cluster.put(task)
    cluster.now = 100 * SECOND
    return cluster


def task(job: str, number: int, started: int = 0) -> TaskSpec:
    found = TaskSpec("ns", f"{job}-t-{number}", (1, 1, 1), f"ns/{job}", number)
    return replace(found, node="n", status=TaskStatus.RUNNING, started=started) if started else found


def evicted(run: RestRun) -> list[tuple[int, str]]:
    return [(each.after, each.task) for each in run.evictions]


def test_a_task_that_has_just_started_can_be_evicted_in_the_next_cycle() -> None:
    # Units of one cycle start a microsecond apart. The one that started last goes, as on a running scheduler.
    cluster = cluster_of(*(task("a", n) for n in range(4)), cooldown=PreemptionCooldown(0, 0))
    assert sum(isinstance(decision, Bind) for decision in cluster.cycle()) == 4
    for n in range(4):
        cluster.put(task("b", n))
    assert evicted(run_to_rest(cluster)) == [(0, "ns/a-t-3"), (0, "ns/a-t-2")]


def test_what_becomes_possible_within_a_second_becomes_possible_together() -> None:
    # All may go a minute after their start, 5 s from now: the one that started last goes, not the first that may.
    starts = [45 * SECOND + n for n in range(4)]
    tasks = [task("a", n, starts[n]) for n in range(4)] + [task("b", n) for n in range(2)]
    run = run_to_rest(cluster_of(*tasks, cooldown=PreemptionCooldown(0, 60 * SECOND)))
    assert evicted(run) == [(5 * SECOND, "ns/a-t-3"), (5 * SECOND, "ns/a-t-2")]
    assert LOOK == SECOND


def test_waiting_counts_from_the_beginning_of_the_plan() -> None:
    tasks = [task("a", n, SECOND) for n in range(4)] + [task("b", n) for n in range(2)]
    run = run_to_rest(cluster_of(*tasks, cooldown=PreemptionCooldown(30 * SECOND, 0)))
    assert [after for after, _ in evicted(run)] == [30 * SECOND, 30 * SECOND]
    assert run.duration == 30 * SECOND


def test_evicted_tasks_that_are_gone_come_again_in_a_plan() -> None:
    # The plan begins between the moment at which they were gone and the one at which their controller has noticed.
    shell = Shell(taking_engine(), audited=False)
    shell.returns, shell.away = True, lambda: 9
    shell.node("n", 4)
    for name in "ab":
        shell.child(name)
    shell.job("a", [(1,)] * 4, name="a")
    shell.cycle()
    shell.job("b", [(1,)] * 2, name="b")
    shell.settle(3)
    assert sorted(shell.gone) == ["ns/a-t-2", "ns/a-t-3"]
    basis = basis_of("a log", shell.engine, controlled=frozenset(shell.gone), documents={}, applied={})
    cluster = basis.cluster()
    run = run_to_rest(cluster)
    assert run.running == {"ns/a": 2, "ns/b": 2} and not run.evictions
    assert cluster.engine.state.jobs["ns/a"].pending_count == 2
    changed = basis.cluster()
    changed.drop_queue("b")
    assert run_to_rest(changed).running == {"ns/a": 4}
