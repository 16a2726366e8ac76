"""Jobs that are not let in yet: a plan gives them the pods that their controller would create."""

from __future__ import annotations

from typing import Any

from pumice.admission.request import JOBS, PODGROUPS
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.model.specs import JobSpec, NodeSpec, Queue
from pumice.plan.awaited_pods import awaited_pods
from pumice.plan.plan_basis import StoredObject, basis_of
from pumice.plan.rest_run import run_to_rest
from tests.support.taking import taking_engine

KEY = "default/train-1234"


def engine_with_a_job(queue: str = "q") -> Engine:
    """A node with 4 cpus, and a group without pods that waits to be let in."""
    engine = taking_engine(actions="enqueue, allocate, reclaim")
    for described in (
        NodeSpec("n", engine.state.registry.vector({"cpu": "4", "pods": "10"}, where="n")),
        Queue("q"),
        JobSpec("default", "train-1234", queue, min_member=2),
    ):
        engine.apply(Changed(described))
    return engine


def workloads(**role: Any) -> list[StoredObject]:
    """The group, and the Job that it belongs to: two workers, and a role of which a test knows more."""
    pod = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    tasks = [
        {"name": "worker", "replicas": 2, "template": pod},
        {"name": "other", "replicas": 1, "template": pod, **role},
    ]
    job = {"metadata": {"name": "train", "namespace": "default", "uid": "1234"}, "spec": {"queue": "q", "tasks": tasks}}
    group = {"metadata": {"name": "train-1234", "namespace": "default", "ownerReferences": [{"uid": "1234"}]}}
    return [(PODGROUPS, "default", "train-1234", group), (JOBS, "default", "train", job)]


def test_job_that_is_let_in_starts_with_its_pods() -> None:
    engine = engine_with_a_job()
    found = awaited_pods(workloads(), engine)
    assert [pod.key for pod in found[KEY]] == [
        "default/train-worker-0",
        "default/train-worker-1",
        "default/train-other-0",
    ]
    assert all(pod.job == KEY and pod.returns for pod in found[KEY])
    basis = basis_of("a cluster", engine, controlled=frozenset(), documents={}, applied={}, awaited_pods=found)
    for _ in range(2):  # a basis never changes
        assert run_to_rest(basis.cluster()).running == {KEY: 3}
    without = basis_of("a cluster", engine, controlled=frozenset(), documents={}, applied={})
    assert run_to_rest(without.cluster()).running == {}


def test_pods_that_wait_for_other_tasks_are_left_out() -> None:
    found = awaited_pods(workloads(dependsOn={"name": ["worker"]}), engine_with_a_job())
    assert [pod.role for pod in found[KEY]] == ["worker", "worker"]


def test_a_job_without_a_queue_lets_a_plan_come_to_rest() -> None:
    # The scheduler reports it after ten seconds, which do not pass in a plan.
    basis = basis_of("a cluster", engine_with_a_job("none"), controlled=frozenset(), documents={}, applied={})
    cluster = basis.cluster()
    assert run_to_rest(cluster).at_rest and cluster.cycles < 10
