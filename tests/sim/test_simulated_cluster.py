"""The simulated cluster: what is decided is done, and what follows from that."""

from typing import Any

from pumice.config.load import default_config
from pumice.model.specs import JobPhase, QueueState, TaskStatus
from pumice.sim.scenario_loader import SECOND
from pumice.sim.simulation import Simulation
from tests.sim.samples import counts, group, job, node, opened, pod, queue, ran, scenario


def test_a_bound_pod_runs_from_the_end_of_its_cycle():
    cluster = opened(node(cpu=1), queue("q"), job("j", "q", 2, cpu=1)).cluster
    start = cluster.now
    cluster.cycle()
    first, second = cluster.objects.tasks["default/j-t-0"], cluster.objects.tasks["default/j-t-1"]
    assert (first.status, first.node, first.started) == (TaskStatus.RUNNING, "n", start)
    assert second.status is TaskStatus.PENDING
    assert cluster.now == start + SECOND


def test_the_clock_starts_after_everything_that_is_there():
    running = pod("p", "g", on="n", cpu=1)
    running["status"]["startTime"] = "1970-01-02T00:00:00Z"
    assert opened(node(cpu=1), queue("q"), group("g", queue="q"), running).cluster.now >= 86_400 * SECOND
    # Four objects, a second apart.
    assert opened(node(cpu=1), queue("q"), queue("r"), queue("s")).cluster.now > 4 * SECOND


def test_a_cycle_takes_as_long_as_the_scenario_says():
    cluster = opened(scenario(cycleSeconds=0.25), node(cpu=1)).cluster
    start = cluster.now
    cluster.cycle()
    assert cluster.now - start == SECOND // 4


def test_pods_that_run_when_it_starts_hold_their_place_and_make_their_job_run():
    simulation = ran(node(cpu=2), queue("q"), group("g", queue="q"), pod("a", "g", on="n", cpu=1), pod("b", "g", cpu=1))
    assert counts(simulation) == {"default/g": (2, 0)}
    assert [decision.task for _, decision in simulation.decisions] == ["default/b"]
    assert simulation.cluster.engine.state.jobs["default/g"].phase is JobPhase.RUNNING


def test_a_job_whose_tasks_are_done_is_completed():
    cluster = ran(node(cpu=2), queue("q"), job("j", "q", 2, cpu=1)).cluster
    phase = cluster.engine.state.jobs["default/j"]
    for task in cluster.running_tasks():
        assert phase.phase is JobPhase.RUNNING
        cluster.finish_task(task)
    assert phase.phase is JobPhase.COMPLETED
    assert cluster.engine.tree.root.held == [0] * cluster.engine.tree.width


def test_a_queue_is_closing_until_its_jobs_are_done():
    cluster = ran(node(cpu=1), queue("a"), queue("b", parent="a"), queue("c"), job("j", "b", 1, cpu=1)).cluster
    cluster.command_queue("a", "CloseQueue")
    states = {name: queue.state for name, queue in cluster.objects.queues.items()}
    assert states == {"a": QueueState.CLOSING, "b": QueueState.OPEN, "c": QueueState.OPEN}
    for task in cluster.running_tasks():
        cluster.finish_task(task)
    cluster.cycle()
    states = {name: queue.state for name, queue in cluster.objects.queues.items()}
    assert states == {"a": QueueState.CLOSED, "b": QueueState.OPEN, "c": QueueState.OPEN}


def test_an_empty_queue_is_closed_at_once():
    cluster = opened(queue("a"), node(cpu=1)).cluster
    cluster.command_queue("a", "CloseQueue")
    assert cluster.objects.queues["a"].state is QueueState.CLOSED


def test_a_queue_goes_with_everything_in_it():
    cluster = ran(
        node(cpu=4), queue("a"), queue("b", parent="a"), queue("c"), job("j", "b", 2, cpu=1), job("k", "c", 2, cpu=1)
    ).cluster
    cluster.drop_queue("a")
    assert cluster.objects.queues.keys() == {"c"}
    assert cluster.objects.jobs.keys() == {"default/k"}
    cluster.cycle()
    cluster.engine.validate()
    assert cluster.engine.tree.root.held[0] == 2000


def test_another_engine_takes_over_where_the_first_one_was():
    cluster = ran(node(cpu=3), queue("a"), queue("b"), job("j", "a", 2, cpu=1), job("k", "b", 2, cpu=1)).cluster

    def known():
        state = cluster.engine.state
        tasks = {t.key: (t.status, t.node and t.node.name, t.started) for t in state.tasks.values()}
        return tasks, {job.key: job.phase for job in state.jobs.values()}

    before = known()
    cluster.reconfigure(default_config())
    assert known() == before
    # It knows what the first one knew, so there is nothing to place.
    assert not [decision for decision in cluster.cycle() if hasattr(decision, "node")]
    cluster.engine.validate()


def halves(*more: dict[str, Any], **spec: Any) -> Simulation:
    """4 cpu, of which a has all until b comes in cycle 2 and wants half; controllers take three cycles."""
    events = [{"cycle": 2, "apply": job("b", "qb", 2, cpu=1)}, *more]
    objects = (node(cpu=4), queue("qa"), queue("qb"), job("a", "qa", 4, least=1, cpu=1))
    return opened(scenario(recreationCycles=3, events=events, **spec), *objects)


def test_evicted_pods_come_again_after_the_cycles_that_the_scenario_says():
    simulation = halves()
    there = []
    for _ in range(7):
        simulation.step()
        there.append(sum(task.job == "default/a" for task in simulation.cluster.objects.tasks.values()))
    assert there == [4, 2, 2, 2, 4, 4, 4]


def test_a_run_lasts_until_evicted_pods_have_come_again():
    simulation = halves()
    simulation.run()
    assert counts(simulation) == {"default/a": (2, 2), "default/b": (2, 0)}
    assert not simulation.cluster.is_changing


def test_pods_of_a_job_that_was_deleted_do_not_come_again():
    simulation = halves({"cycle": 4, "delete": {"kind": "Job", "name": "a"}}, cycles=9)
    simulation.run()
    assert counts(simulation) == {"default/b": (2, 0)}
    assert not [task for task in simulation.cluster.objects.tasks.values() if task.job == "default/a"]
