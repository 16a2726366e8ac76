"""Entitlements that the audit computes anew from the log alone."""

from __future__ import annotations

from pathlib import Path

from pumice.audit.certificate import audit
from pumice.decision_log.writer import DecisionLog
from pumice.engine.events import Changed
from pumice.model.specs import JobSpec, NodeSpec, Queue, TaskSpec
from tests.support.recorded import Recorded
from tests.support.taking import SECOND, taking_engine


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
