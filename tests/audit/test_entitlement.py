"""Entitlements that the audit computes anew from the log alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kubebase.resource_vector import CPU
from pumice.audit.certificate import Certificate, audit
from pumice.decision_log.writer import DecisionLog
from pumice.engine.candidates import job_demand
from pumice.engine.decisions import Bind
from pumice.engine.events import Changed
from pumice.engine.state import succession
from pumice.engine.state.job import Job
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus
from tests.support.recorded import Recorded
from tests.support.taking import SECOND, Shell, taking_engine


def test_requests_of_pods_that_came_before_a_resource_was_known(tmp_path: Path) -> None:
    # 10 cpu (in milli), and 4 GPUs, which only the pods of the second job and the node name: the first job's requests
    # end before that resource.
    engine = taking_engine()
    registry = engine.state.registry
    log = DecisionLog(tmp_path)
    recorded = Recorded(engine, log)
    for name in "ab":
        recorded.apply(Changed(Queue(name)))
        recorded.apply(Changed(JobSpec("ns", name, name)))
    early = [TaskSpec("ns", f"a-{n}", registry.vector({"cpu": 1, "pods": 1}, where=""), "ns/a") for n in range(12)]
    for task in early:
        recorded.apply(Changed(task))
    gpu = {"cpu": 1, "pods": 1, "nvidia.com/gpu": 1}
    late = [TaskSpec("ns", f"b-{n}", registry.vector(gpu, where=""), "ns/b") for n in range(12)]
    assert len(early[0].request) < len(late[0].request)
    room = registry.vector({"cpu": 10, "memory": "1Gi", "pods": 99, "nvidia.com/gpu": 4}, where="")
    for described in (NodeSpec("n0", room), *late):
        recorded.apply(Changed(described))
    for now in range(1, 4):
        recorded.cycle(now * SECOND)
    log.close()
    found = audit(tmp_path)
    assert found.clean, found.findings.kept
    assert found.recomputed and not found.not_recomputed


def lowered_capability(folder: Path) -> Certificate:
    """10 cpu. A gang of 5 runs in a queue that may hold 4 from the second cycle on, beside one that wants all."""
    engine = taking_engine(actions="allocate", last=("capacity",))
    registry = engine.state.registry
    log = DecisionLog(folder)
    recorded = Recorded(engine, log)
    recorded.apply(Changed(NodeSpec("n0", registry.vector({"cpu": 10, "memory": "1Gi", "pods": 99}, where=""))))
    one = registry.vector({"cpu": 1, "pods": 1}, where="")
    for name, tasks, least in (("a", 5, 5), ("b", 20, 1)):
        recorded.apply(Changed(Queue(name)))
        recorded.apply(Changed(JobSpec("ns", name, name, min_member=least, phase=JobPhase.INQUEUE)))
        for n in range(tasks):
            recorded.apply(Changed(TaskSpec("ns", f"{name}-{n}", one, f"ns/{name}")))
    for bind in recorded.cycle(SECOND):
        if isinstance(bind, Bind):
            spec = recorded.state.tasks[bind.task].spec
            recorded.apply(Changed(replace(spec, node=bind.node, status=TaskStatus.RUNNING, started=SECOND)))
    recorded.apply(Changed(Queue("a", capability=((CPU, 4000),))))
    recorded.cycle(2 * SECOND)
    log.close()
    return audit(folder)


def test_a_running_gang_that_could_not_start_again_is_entitled_to_nothing(tmp_path: Path) -> None:
    found = lowered_capability(tmp_path)
    assert found.clean, found.findings.kept
    assert found.recomputed == 2


def test_an_engine_that_counts_it_as_demand_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_demand, "could_start_anew", lambda leaf, start: True)
    found = lowered_capability(tmp_path)
    assert set(found.findings.counts) == {"entitlement"}
    assert "queue b" in str(found.findings.kept)


def absent_tasks(folder: Path) -> Certificate:
    """12 cpu, three equal queues. Evicted tasks of a are gone for good in second 3, and then c's job is taken away."""
    log = DecisionLog(folder)
    shell = Shell(Recorded(taking_engine(), log), audited=False)  # type: ignore[arg-type]  # a stand-in for an engine
    shell.returns, shell.away = True, lambda: None
    shell.node("n0", 12)
    for queue in "abc":
        shell.queue(f"root/{queue}")
    shell.job("a", [(1,)] * 12, name="a")
    shell.cycle()
    for name in "bc":
        shell.job(name, [(1,)] * 12, name=name)
    for _ in range(3):
        shell.cycle()
    shell.end_job("ns/c")
    for second in range(5, 75):
        if second == 64:
            shell.job("c", [(1,)], name="late")
        shell.cycle()
    log.close()
    return audit(folder)


def test_evicted_tasks_that_are_gone_count_for_a_while(tmp_path: Path) -> None:
    found = absent_tasks(tmp_path)
    assert found.clean, found.findings.kept
    assert found.recomputed >= 4 and not found.not_recomputed


def test_an_engine_that_forgets_evicted_tasks_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Job, "unreplaced", property(lambda job: job.evicted))
    found = absent_tasks(tmp_path)
    assert set(found.findings.counts) == {"entitlement"}
    assert "queue a" in str(found.findings.kept)


def test_an_engine_that_awaits_them_too_long_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(succession, "WAIT", 65 * SECOND)
    found = absent_tasks(tmp_path)
    assert set(found.findings.counts) == {"entitlement"}
