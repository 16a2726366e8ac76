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
