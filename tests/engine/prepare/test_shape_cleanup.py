"""Jobs come and go for ever: what was kept for those that are gone must go as well."""

from __future__ import annotations

import pytest

from pumice.engine.prepare import shape_cleanup as forgetting
from tests.support.taking import Shell, taking_engine

ROUNDS, JOBS = 40, 12


@pytest.mark.parametrize("kind", ["steer", "paper", "flat"])
@pytest.mark.parametrize("cpu", [1000, 5], ids=["all find room", "few find room"])
def test_jobs_with_requests_of_their_own_leave_nothing_behind(
    kind: str, cpu: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "FIRST_SHAPE_LIMIT", 50)
    shell = Shell(taking_engine(kind), audited=False)
    shell.engine.context.shape_limit = 50
    for node in ("n0", "n1"):
        shell.node(node, cpu, 10**9)
    shell.queue("root/a")
    shell.queue("root/b")
    before: list[str] = []
    for number in range(ROUNDS):
        here = [
            shell.job(queue, [(1, 1 + number * JOBS + i)], 1, name=f"{queue}{number}-{i}")
            for i in range(JOBS // 2)
            for queue in ("a", "b")
        ]
        shell.cycle()
        for key in before:
            shell.end_job(key)
        before = here
    shell.cycle()
    engine = shell.engine
    engine.validate()
    assert len(engine.tree.jobs) == JOBS
    # Of 480 shapes at most those of three rounds are there, and what may gather until somebody looks.
    assert len(engine.state.shapes) <= max(50, 2 * 3 * JOBS) + JOBS
    assert len(engine.candidates.infeasible_shapes) <= len(engine.state.shapes)
    assert len(engine.nodes._views) <= len(engine.state.shapes)
    # Of 240 jobs a queue has had, no front remembers more than those that are there, as many again, and 64.
    for queue in engine.tree.queues():
        for front in (queue.child_heap, queue.lending_heap):
            assert len(front.changed) <= 2 * len(queue.children) + 64 + JOBS
            assert len(front.heap) <= 4 * len(queue.children) + 64 + JOBS


def test_shape_cleanup_keeps_shapes_of_existing_tasks() -> None:
    shell = Shell(taking_engine("steer"), audited=False)
    shell.node("n0", 4, 10**9)
    shell.queue("root/a")
    shell.job("a", [(1, 1)] * 4, 4, name="runs")
    shell.cycle()
    shell.job("a", [(2, 7)] * 2, 2, name="waits")
    shell.cycle()
    engine = shell.engine
    shapes = {task.shape for task in engine.state.tasks.values()}
    full = dict(engine.candidates.infeasible_shapes)
    assert full
    forgetting.drop_unused_shapes(engine.context)
    assert set(engine.state.shapes) == shapes
    assert engine.candidates.infeasible_shapes == full
    assert not [decision for decision in shell.cycle() if type(decision).__name__ in ("Bind", "Evict")]
    shell.end_job("ns/runs")
    shell.cycle()
    assert engine.state.jobs["ns/waits"].running == 2
