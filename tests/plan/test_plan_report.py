"""Plans on small scenarios, with the arithmetic of each expected value."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.cli.plan.plan_sources import scenario_basis
from pumice.engine.decisions import Decision
from pumice.plan.change_file import read_change
from pumice.plan.plan_report import Plan, make_plan
from pumice.sim.simulated_cluster import SimulatedCluster

Object = dict[str, Any]
VOLCANO = "scheduling.volcano.sh/v1beta1"
CONFIG = """\
actions: "enqueue, allocate, reclaim, preempt, backfill"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{{name: drf, enableHierarchy: true}}, {{name: capacity}}, {{name: predicates}}, {{name: nodeorder}}]
configurations:
- name: reclaim
  arguments: {{reclaim.patience: {patience}, reclaim.minRuntime: {minimum}}}
"""


def node(name: str) -> Object:
    amounts = {"cpu": 12, "memory": "100Gi", "pods": 100}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": amounts}}


def queue(name: str, weight: int, **spec: object) -> Object:
    return {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": name}, "spec": {"weight": weight, **spec}}


def job(name: str, queue_name: str, tasks: int, least: int = 1, namespace: str = "default") -> Object:
    pod = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": 1}}}]}}
    task = {"name": "t", "replicas": tasks, "template": pod}
    about = {"name": name, "namespace": namespace}
    spec = {"queue": queue_name, "minAvailable": least, "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": about, "spec": spec}


def plan_of(
    place: Path,
    change: list[Object],
    *cluster: Object,
    patience: int = 0,
    minimum: int = 0,
    deletions: tuple[str, ...] = (),
    **spec: object,
) -> Plan:
    config = CONFIG.format(patience=patience, minimum=minimum)
    about = {"apiVersion": "pumice.dev/v1", "kind": "Scenario", "metadata": {"name": "s"}}
    scenario = {**about, "spec": {"config": config, **spec}}
    (place / "cluster.yaml").write_text(yaml.safe_dump_all([scenario, node("n"), *cluster]))
    (place / "change.yaml").write_text(yaml.safe_dump_all(change))
    files = [str(place / "change.yaml")] if change else []
    return make_plan(scenario_basis([str(place / "cluster.yaml")], None), read_change(files, deletions))


def shares(plan: Plan) -> dict[str, tuple[Any, Any]]:
    return {one["path"]: (one["entitled"]["before"], one["entitled"]["after"]) for one in plan.values["queues"]}


FULL = (queue("a", 1), queue("b", 1), job("x", "a", 12), job("y", "b", 12))
"""12 cpu, two equal queues that would each use all of it: 6 tasks run of each."""


def test_weight_moves_entitlement_and_tasks(tmp_path: Path) -> None:
    # Weights 1 : 1 give 6 and 6 cpu of 12; weights 3 : 1 give 9 and 3.
    plan = plan_of(tmp_path, [queue("a", 3)], *FULL)
    assert plan.changes_anything and not plan.is_refused
    assert shares(plan)["root/a"] == ({"cpu": "6"}, {"cpu": "9"})
    assert shares(plan)["root/b"] == ({"cpu": "6"}, {"cpu": "3"})
    assert {one["job"] for one in plan.values["evicted"]} == {"default/y"}
    assert [one["afterSeconds"] for one in plan.values["evicted"]] == [0, 0, 0]
    assert {one["for"] for one in plan.values["evicted"]} == {"default/x"}
    started = plan.values["started"]
    assert [(one["job"], one["tasks"], one["running"], one["wanted"]) for one in started] == [("default/x", 3, 9, 12)]
    assert started[0]["afterEvictions"]
    assert plan.values["jobs"]["default/y"]["running"] == {"before": 6, "after": 3}
    owed = {one["path"]: one["owed"]["after"] for one in plan.values["queues"]}
    assert owed["root/a"] == {"cpu": "3"} and owed["root/b"] == {}


@pytest.mark.parametrize(
    ("patience", "minimum", "after"),
    [
        (30, 0, 30),  # x is owed from the change on, and takes after its patience
        (0, 60, 58),  # tasks of y started 2 s (two cycles) before the end of the scenario
        (90, 60, 90),
    ],
)
def test_patience_and_minimum_runtime_delay_evictions(tmp_path: Path, patience: int, minimum: int, after: int) -> None:
    plan = plan_of(tmp_path, [queue("a", 3)], *FULL, patience=patience, minimum=minimum)
    assert [one["afterSeconds"] for one in plan.values["evicted"]] == [after] * 3
    assert [one["afterSeconds"] for one in plan.values["started"]] == [after]
    assert (plan.values["patienceSeconds"], plan.values["minRuntimeSeconds"]) == (patience, minimum)


def test_a_cycle_runs_before_evicted_pods_are_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The scheduler notices that a pod has ended before the controller of its job does: until then the job wants less.
    counts: list[int] = []
    sound = SimulatedCluster.cycle

    def counted(cluster: SimulatedCluster) -> list[Decision]:
        counts.append(sum(task.name.startswith("y-") for task in cluster.objects.tasks.values()))
        return sound(cluster)

    monkeypatch.setattr(SimulatedCluster, "cycle", counted)
    plan = plan_of(tmp_path, [queue("a", 3)], *FULL)
    assert len(plan.values["evicted"]) == 3
    assert [count for count, _ in groupby(counts)][-3:] == [12, 9, 12]


def test_same_manifests_change_nothing(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, list(FULL), *FULL)
    assert not plan.changes_anything
    assert {one["action"] for one in plan.values["objects"]} == {"unchanged"}
    assert not plan.values["evicted"] and not plan.values["started"] and not plan.values["jobs"]


def test_change_without_effect_on_present_jobs_is_still_a_change(tmp_path: Path) -> None:
    # b has no job, so its weight moves nothing today.
    plan = plan_of(tmp_path, [queue("b", 5)], queue("a", 1), queue("b", 1), job("x", "a", 3))
    assert plan.changes_anything
    assert plan.values["objects"] == [
        {"object": "Queue/b", "action": "changed", "fields": [{"field": "spec.weight", "before": 1, "after": 5}]}
    ]
    assert all(before == after for before, after in shares(plan).values())


def test_refused_object_is_reported_in_the_words_of_admission_and_the_rest_is_planned(tmp_path: Path) -> None:
    bad = queue("c", 1, parent="nowhere")
    plan = plan_of(tmp_path, [bad, queue("a", 3)], *FULL)
    assert plan.is_refused
    assert plan.values["refused"] == [
        {
            "file": str(tmp_path / "change.yaml"),
            "object": "Queue/c",
            "field": "spec.parent",
            "message": "Not found: 'nowhere': create that queue first, or use 'root'",
        }
    ]
    assert len(plan.values["evicted"]) == 3


def test_deleted_node_and_queue(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, [], *FULL, queue("idle", 1), deletions=("queue/idle", "node/n"))
    assert [one["object"] for one in plan.values["objects"]] == ["Queue/idle", "Node/n"]
    assert shares(plan)["root/idle"] == ({}, None)
    assert shares(plan)["root/a"][1] == {}  # no capacity is left
    assert {(one["action"], one["node"]) for one in plan.values["evicted"]} == {("delete-node", "n")}
    assert len(plan.values["evicted"]) == 12 and not plan.values["started"]


def test_deleting_what_is_not_there_is_refused(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, [], *FULL, deletions=("queue/aa",))
    assert plan.is_refused and "there is no Queue/aa" in plan.values["refused"][0]["message"]


def test_new_node_starts_waiting_tasks_without_evictions(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, [node("m")], *FULL)
    assert not plan.values["evicted"]
    assert {one["job"]: one["tasks"] for one in plan.values["started"]} == {"default/x": 6, "default/y": 6}


def test_configuration_in_a_config_map_is_used(tmp_path: Path) -> None:
    # Without reclaim a change of weight evicts nobody.
    text = CONFIG.format(patience=0, minimum=0).replace(", reclaim, preempt", "")
    about = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "pumice-scheduler"}}
    config = {**about, "data": {"scheduler.yaml": text}}
    plan = plan_of(tmp_path, [config, queue("a", 3)], *FULL)
    assert shares(plan)["root/a"] == ({"cpu": "6"}, {"cpu": "9"})
    assert not plan.values["evicted"]
    assert plan.values["objects"][-1] == {
        "object": "the configuration of the scheduler",
        "action": "changed",
        "fields": [],
    }


def test_namespace_weight_moves_the_parts_of_namespaces(tmp_path: Path) -> None:
    # Two namespaces in one queue: 12 cpu are 6 and 6 by weights 1 : 1, and 4 and 8 by 1 : 2.
    about = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "w", "namespace": "two"}}
    quota = {**about, "spec": {"hard": {"volcano.sh/namespace.weight": "2"}}}
    jobs = [job("x", "a", 12), job("y", "a", 12, namespace="two")]
    plan = plan_of(tmp_path, [quota], queue("a", 1), *jobs)
    assert shares(plan)["root/a/default"] == ({"cpu": "6"}, {"cpu": "4"})
    assert shares(plan)["root/a/two"] == ({"cpu": "6"}, {"cpu": "8"})


def test_gang_that_would_start_is_named(tmp_path: Path) -> None:
    # b asks for a gang of 8. By equal weights it is entitled to 6 at most, so it waits; by 1 : 3 to 9.
    cluster = (queue("a", 1), queue("b", 1), job("x", "a", 12), job("gang", "b", 8, least=8))
    plan = plan_of(tmp_path, [queue("b", 3)], *cluster)
    assert [(one["job"], one["tasks"]) for one in plan.values["started"]] == [("default/gang", 8)]
    assert len(plan.values["evicted"]) == 8


def test_evictions_that_happen_anyway_are_not_blamed_on_the_change(tmp_path: Path) -> None:
    # y is owed its half already and waits for its patience: three tasks of x go with or without the change of c.
    events = [{"cycle": 3, "apply": job("y", "b", 12)}]
    cluster = (queue("a", 1), queue("b", 1), queue("c", 1), job("x", "a", 12))
    plan = plan_of(tmp_path, [queue("c", 2)], *cluster, patience=30, cycles=4, events=events)
    assert plan.changes_anything  # the weight of c
    assert not plan.values["evicted"] and not plan.values["started"] and not plan.values["jobs"]
