"""Tables of one cycle through the engine: every plugin with exactly the flags a case names, every action once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from kubebase.label_selector import Requirement
from kubebase.resource_vector import PODS, Registry
from pumice.engine.config.enable_flags import flag_spelled
from pumice.engine.config.scheduler_config import Flag, PluginConfig, SchedulerConfig
from pumice.engine.decisions import Bind, Evict, Pipeline
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.model.specs import (
    Constraints,
    Items,
    JobPhase,
    JobSpec,
    NodeSpec,
    PodTerm,
    PriorityClass,
    Queue,
    QueueState,
    TaskSpec,
    TaskStatus,
    Vector,
)
from tests.support.case_files import read_cases

TABLES = read_cases("schedule")
Case = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
EVICTABLE = "volcano.sh/preemptable"
SECOND = 1_000_000
NOW = 3600 * SECOND

NOT_RESOURCES = {"role", "at", "evictable", "priority", "preempts", "selects", "labels", "apart_from"}


def policies(case: Case) -> list[str]:
    return case["policy"] if isinstance(case["policy"], list) else [case["policy"]]


EACH = [(case, policy) for case in TABLES["cases"] for policy in policies(case)]
each_case = pytest.mark.parametrize(("case", "policy"), EACH, ids=[f"{policy}-{case['id']}" for case, policy in EACH])


# --- building a cluster ---------------------------------------------------------------------------------------------


def configuration(policy: str, arguments: Mapping[str, Mapping[str, object]]) -> SchedulerConfig:
    """A configuration in which nothing is on that the table does not name."""
    described = TABLES["policies"][policy]
    tier = tuple(
        PluginConfig(name, frozenset(map(flag, flags)), arguments.get(name, {}))
        for name, flags in described["plugins"].items()
    )
    return SchedulerConfig(policy, tuple(described["actions"]), (tier,), {})


def flag(name: str) -> Flag:
    found = flag_spelled(f"enable{name}")
    assert found is not None, name
    return found


def amounts(registry: Registry, quantities: Mapping[str, object]) -> Vector:
    return registry.vector({name: str(quantity) for name, quantity in quantities.items()}, where="case")


def items(registry: Registry, quantities: Mapping[str, object]) -> Items:
    """What a limit names, zeros included."""
    vector = amounts(registry, quantities)
    return tuple(sorted((registry.index(name), vector[registry.index(name)]) for name in quantities))


def build(case: Case, policy: str) -> Engine:
    engine = Engine(configuration(policy, case.get("arguments", {})), BUILT_IN)
    registry = engine.state.registry
    for name, node in case.get("nodes", {}).items():
        room = {resource: amount for resource, amount in node.items() if resource != "labels"}
        engine.apply(Changed(NodeSpec(name, amounts(registry, room), labels=node.get("labels", {}))))
    for name, queue in case.get("queues", {}).items():
        engine.apply(Changed(queue_of(registry, name, queue)))
    running = 0
    for key, job in case.get("jobs", {}).items():
        spec = job_of(registry, key, job)
        if spec.priority_class is not None:
            engine.apply(Changed(PriorityClass(spec.priority_class, job["priority"])))
        engine.apply(Changed(spec))
        for name, task in job["tasks"].items():
            running += "at" in task
            engine.apply(Changed(task_of(registry, spec, name, task, started=running * SECOND)))
    return engine


def queue_of(registry: Registry, name: str, queue: Case) -> Queue:
    return Queue(
        name,
        weight=queue.get("weight", 1),
        parent=queue.get("parent"),
        state=QueueState(queue.get("state", "Open")),
        priority=queue.get("priority", 0),
        capability=items(registry, queue.get("capability", {})),
        deserved=items(registry, queue.get("deserved", {})),
        guarantee=items(registry, queue.get("guarantee", {})),
    )


def job_of(registry: Registry, key: str, job: Case) -> JobSpec:
    namespace, name = key.split("/")
    return JobSpec(
        namespace,
        name,
        job["queue"],
        min_member=job.get("min", 1),
        min_task_member=job.get("min_roles", {}),
        min_resources=amounts(registry, job.get("min_resources", {})),
        priority_class=f"class-{job['priority']}" if "priority" in job else None,
        phase=JobPhase(job.get("phase", "Inqueue")),
    )


def task_of(registry: Registry, job: JobSpec, name: str, task: Case, *, started: int) -> TaskSpec:
    asks = {resource: amount for resource, amount in task.items() if resource not in NOT_RESOURCES}
    request = list(amounts(registry, asks))
    request[PODS] = 1
    labels = dict(task.get("labels", {}))
    if "evictable" in task:
        labels[EVICTABLE] = str(task["evictable"]).lower()
    where: dict[str, Any] = {}
    if "at" in task:
        where = {"node": task["at"] or None, "status": TaskStatus.RUNNING, "started": started}
    return TaskSpec(
        job.namespace,
        name,
        tuple(request),
        job=job.key,
        role=task.get("role", ""),
        priority=task.get("priority"),
        labels=labels,
        constraints=constraints(job.namespace, task),
        preemptable=task.get("evictable"),
        preempts=task.get("preempts"),
        **where,
    )


def constraints(namespace: str, task: Case) -> Constraints:
    selects = tuple(task.get("selects", {}).items())
    if "apart_from" not in task:
        return Constraints(node_selector=selects)
    others = tuple(Requirement(label, "In", (str(value),)) for label, value in task["apart_from"].items())
    return Constraints(node_selector=selects, anti_affinity=(PodTerm(HOSTNAME, others, (namespace,)),))


# --- what was decided -----------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What a cycle did."""

    binds: dict[str, str] = field(default_factory=dict)
    evicts: set[str] = field(default_factory=set)
    waits: dict[str, set[str]] = field(default_factory=dict)


def outcome(engine: Engine) -> Outcome:
    found = Outcome()
    for decision in engine.cycle(NOW):
        match decision:
            case Bind(task=task, node=node):
                found.binds[task] = node
            case Evict(task=task):
                found.evicts.add(task)
            case Pipeline(node=node, job=job):
                found.waits.setdefault(job, set()).add(node)
    return found


@each_case
def test_one_cycle_gives_expected_binds_evictions_and_phases(case: Case, policy: str) -> None:
    engine = build(case, policy)
    got = outcome(engine)
    engine.validate()
    expected = case["ours"] if "ours" in case else case["expect"]
    assert got.binds == expected.get("binds", {})
    assert got.evicts == set(expected.get("evicts", ()))
    for job, nodes in expected.get("waits", {}).items():
        assert got.waits.get(job), f"no task of {job} waits"
        assert got.waits[job] <= set(nodes)
    phases = {job: engine.state.jobs[job].phase.value for job in expected.get("phases", {})}
    assert phases == expected.get("phases", {})


@each_case
def test_cycle_evicts_only_when_a_task_is_pipelined(case: Case, policy: str) -> None:
    got = outcome(build(case, policy))
    assert got.waits or not got.evicts


@pytest.mark.parametrize("case", [case for case in TABLES["cases"] if "ours" in case], ids=lambda case: case["id"])
def test_ours_is_another_decision_with_a_reason(case: Case) -> None:
    ours = dict(case["ours"])
    assert "docs/fairness.md, section" in ours.pop("why")
    assert ours != case["expect"]
