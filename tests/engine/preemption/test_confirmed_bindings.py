"""A task can be evicted as soon as its binding is confirmed, whatever was tried before."""

from __future__ import annotations

from dataclasses import replace

from pumice.engine.actions import ACTIONS
from pumice.engine.config.scheduler_config import parse_config
from pumice.engine.decisions import Bind, Decision, Evict
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus

CONFIG = """
actions: "allocate, reclaim"
tiers:
- plugins: [{name: gang}, {name: drf, enableHierarchy: true}, {name: predicates}]
configurations:
- name: reclaim
  arguments: {reclaim.patience: 0, reclaim.minRuntime: 0}
"""
SECOND = 1_000_000


def submit(engine: Engine, job: str, queue: str, tasks: int, created: int) -> None:
    engine.apply(Changed(JobSpec("ns", job, queue, created, phase=JobPhase.INQUEUE)))
    for n in range(tasks):
        engine.apply(Changed(TaskSpec("ns", f"{job}-{n}", (1000, 1, 1), f"ns/{job}", created)))


def confirm(engine: Engine, decisions: list[Decision], status: TaskStatus) -> None:
    for bind in decisions:
        assert isinstance(bind, Bind)
        spec = engine.state.tasks[bind.task].spec
        engine.apply(Changed(replace(spec, node=bind.node, status=status, started=SECOND)))


def test_a_job_that_came_before_bindings_were_confirmed_takes_its_part_afterwards() -> None:
    engine = Engine(parse_config(CONFIG, known_plugins=BUILT_IN, known_actions=ACTIONS), BUILT_IN)
    engine.apply(Changed(NodeSpec("node", (4000, 100, 100))))
    for queue in ("early", "late"):
        engine.apply(Changed(Queue(queue)))
    submit(engine, "a", "early", 4, 1)
    binds = [each for each in engine.cycle(SECOND) if isinstance(each, Bind)]
    assert len(binds) == 4
    submit(engine, "b", "late", 4, 2)
    assert not [each for each in engine.cycle(2 * SECOND) if isinstance(each, Evict)], "none is known to be bound"
    confirm(engine, list(binds), TaskStatus.BOUND)  # nothing else happens from here on
    evicted = [each.task for each in engine.cycle(3 * SECOND) if isinstance(each, Evict)]
    assert len(evicted) == 2
    engine.validate()


def stuck_beside_bindings() -> tuple[Engine, list[Bind]]:
    """4 cpu and two equal queues: a runs two tasks and has been given places for two more when b wants its half."""
    engine = Engine(parse_config(CONFIG, known_plugins=BUILT_IN, known_actions=ACTIONS), BUILT_IN)
    engine.apply(Changed(NodeSpec("node", (4000, 100, 100))))
    for queue in ("early", "late"):
        engine.apply(Changed(Queue(queue)))
    submit(engine, "a", "early", 2, 1)
    confirm(engine, engine.cycle(SECOND), TaskStatus.RUNNING)
    for n in (2, 3):
        engine.apply(Changed(TaskSpec("ns", f"a-{n}", (1000, 1, 1), "ns/a", 1)))
    bound = [each for each in engine.cycle(2 * SECOND) if isinstance(each, Bind)]
    submit(engine, "b", "late", 2, 2)
    return engine, bound


def evicted(decisions: list[Decision]) -> list[str]:
    return [each.task for each in decisions if isinstance(each, Evict)]


def test_a_preemptor_waits_for_bindings_that_will_be_confirmed() -> None:
    # The tasks that started last go, although they could not when b came.
    engine, bound = stuck_beside_bindings()
    assert not evicted(engine.cycle(2 * SECOND + 1000))
    confirm(engine, list(bound), TaskStatus.BOUND)
    assert evicted(engine.cycle(2 * SECOND + 2000)) == ["ns/a-3", "ns/a-2"]
    engine.validate()


def test_a_preemptor_waits_for_them_for_a_second() -> None:
    engine, _ = stuck_beside_bindings()
    assert not evicted(engine.cycle(2 * SECOND + 1000))
    assert not evicted(engine.cycle(3 * SECOND))
    assert evicted(engine.cycle(3 * SECOND + 1000)) == ["ns/a-1", "ns/a-0"]
