"""sla: deadlines order jobs, and open the door in the end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubebase.resource_vector import Registry
from pumice.engine.config.scheduler_config import parse_config
from pumice.engine.decisions import Bind, Enqueue
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.plugins.builtin.sla import SlaPlugin
from pumice.engine.plugins.plugin import PluginError
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus
from tests.support.taking import SECOND, Shell, taking_engine


def engine(first: str, then: str = "[]", drf: str = "{name: drf}") -> Engine:
    """One node of 4 cpu, one queue; ``first`` stands ahead of drf in the tiers, ``then`` behind it."""
    text = f'actions: "enqueue, allocate"\ntiers:\n- plugins: {first}\n- plugins: [{drf}]\n- plugins: {then}\n'
    known = ["enqueue", "allocate"]
    made = Engine(parse_config(text, known_plugins=BUILT_IN, known_actions=known), BUILT_IN, Registry())
    made.apply(Changed(NodeSpec("n", (4, 0, 100))))
    made.apply(Changed(Queue("q")))
    return made


def job(name: str, created: int, wait: int | None = None, least: int = 0) -> JobSpec:
    seconds = None if wait is None else wait * SECOND
    return JobSpec("ns", name, "q", created * SECOND, min_resources=(least, 0, 1), longest_wait=seconds)


@pytest.mark.parametrize(
    ("argument", "order"),
    [
        # Deadlines: b 3 + 5 = 8, c 1 + 10 = 11, e 2 + 20 = 22; a and d have none, so they go by age.
        ("{}", ["b", "c", "e", "a", "d"]),
        # With 6 s for everybody who does not say: a 0 + 6 = 6, d 4 + 6 = 10.
        ("{sla-waiting-time: 6s}", ["a", "b", "d", "c", "e"]),
    ],
)
@pytest.mark.parametrize("drf", ["{name: drf}", "{name: drf, enableHierarchy: true}"])
def test_the_earliest_deadline_goes_first(argument: str, order: list[str], drf: str) -> None:
    made = engine(f"[{{name: sla, arguments: {argument}}}, {{name: gang}}]", drf=drf)
    specs = [job("a", 0), job("b", 3, 5), job("c", 1, 10), job("d", 4), job("e", 2, 20)]
    for spec in specs:
        made.apply(Changed(replace(spec, phase=JobPhase.INQUEUE)))
        made.apply(Changed(TaskSpec("ns", f"{spec.name}-t-0", (4, 0, 1), job=spec.key, created=spec.created)))
    served = []
    for now in range(5):
        bound = [decision.task for decision in made.cycle(now) if isinstance(decision, Bind)]
        for key in bound:
            served.append(key[3])
            made.apply(Changed(replace(made.state.tasks[key].spec, status=TaskStatus.SUCCEEDED)))
    assert served == order


def test_a_deadline_is_no_right_to_more_than_a_share() -> None:
    """Who is in a hurry goes first, and no further than its part: nobody has to go because of a deadline."""
    made = engine("[{name: sla}, {name: gang}]", drf="{name: drf, enableHierarchy: true}")
    for spec in (job("late", 0), job("soon", 1, 5)):
        made.apply(Changed(replace(spec, phase=JobPhase.INQUEUE)))
        for i in range(3):
            made.apply(Changed(TaskSpec("ns", f"{spec.name}-t-{i}", (1, 0, 1), job=spec.key)))
    made.cycle(1)
    # 4 cpu for two jobs of three tasks: two each
    assert {leaf.job.key: leaf.target for leaf in made.tree.jobs.values()} == pytest.approx(
        {"ns/soon": 2.0, "ns/late": 2.0}
    )


@pytest.mark.parametrize("rule", ["steer", "flat"])
def test_job_with_earlier_deadline_reclaims_no_more_than_equal_share(rule: str) -> None:
    # Two jobs of two tasks on 2 cpu: one each, whoever came first and whatever was promised.
    shell = Shell(taking_engine(rule, plugins=("sla", "gang")))
    shell.node("n", 2)
    shell.queue("root/q")
    for name, wait in (("later", 1000), ("sooner", 10)):
        shell.put(JobSpec("ns", name, "q", 1, phase=JobPhase.INQUEUE, longest_wait=wait * SECOND))
        for i in range(2):
            shell.put(TaskSpec("ns", f"{name}-t-{i}", (1, 0, 1), job=f"ns/{name}", created=1))
        shell.settle()
    assert (shell.running("ns/later"), shell.running("ns/sooner")) == (1, 1)


def test_a_job_is_let_in_when_its_time_is_up() -> None:
    # 4 cpu * 1: overcommit keeps a job of 5 out for good, and one of 4 while another is promised them.
    overcommit = "[{name: overcommit, arguments: {overcommit-factor: 1}}]"
    made = engine("[{name: sla}]", then=overcommit)
    made.apply(Changed(job("large", 0, 10, least=5)))
    made.apply(Changed(job("patient", 0, None, least=5)))
    enqueued = {
        now: [decision.job for decision in made.cycle(now * SECOND) if isinstance(decision, Enqueue)]
        for now in (1, 9, 10, 11)
    }
    assert enqueued == {1: [], 9: [], 10: ["ns/large"], 11: []}


def test_first_plugin_in_tiers_decides_enqueue() -> None:
    overcommit = "{name: overcommit, arguments: {overcommit-factor: 1}}"
    made = engine(f"[{overcommit}, {{name: sla}}]")
    made.apply(Changed(job("large", 0, 10, least=5)))
    assert not any(isinstance(decision, Enqueue) for decision in made.cycle(20 * SECOND))


def test_the_argument_is_for_jobs_that_do_not_say() -> None:
    overcommit = "[{name: overcommit, arguments: {overcommit-factor: 1}}]"
    made = engine("[{name: sla, arguments: {sla-waiting-time: 1m}}]", then=overcommit)
    made.apply(Changed(job("own", 0, 5, least=5)))
    made.apply(Changed(job("other", 0, None, least=5)))
    enqueued = {
        now: [decision.job for decision in made.cycle(now * SECOND) if isinstance(decision, Enqueue)]
        for now in (5, 59, 60)
    }
    assert enqueued == {5: ["ns/own"], 59: [], 60: ["ns/other"]}


@pytest.mark.parametrize("value", ["soon", 30, "0s", True, ["1h"]])
def test_arguments_that_make_no_sense(value: object) -> None:
    with pytest.raises(PluginError, match="must be a duration") as caught:
        SlaPlugin({"sla-waiting-time": value})
    assert caught.value.argument == "sla-waiting-time"
