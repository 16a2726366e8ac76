"""Whatever somebody writes, it runs or is refused: nothing in between, and never an error of ours."""

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pumice.input_errors import BadInput
from pumice.sim.expectations import find_differences
from pumice.sim.run_overview import overview_of_run
from pumice.sim.run_report import entitle_report, run_report
from tests.sim.samples import group, job, node, opened, pod, queue, queue_at, scenario
from tests.support.examples import fewer_examples

DOCUMENTS = [
    scenario(
        config="actions: enqueue, allocate\ntiers:\n- plugins: [{name: gang}, {name: drf, enableHierarchy: true}]\n",
        events=[
            {"cycle": 2, "finish": {"job": "default/j", "tasks": 1}},
            {"cycle": 2, "finish": {"pods": ["default/r"]}},
            {"cycle": 2, "command": {"queue": "b", "action": "CloseQueue"}},
            {"cycle": 3, "apply": job("k", "c", 2, least=2, cpu=1)},
            {"cycle": 3, "apply": queue("root", hierarchy=[{"name": "b"}])},
            {"cycle": 4, "delete": {"kind": "Queue", "name": "a"}},
            {"cycle": 4, "config": "actions: allocate\ntiers: [{plugins: [{name: drf}]}]\n"},
        ],
        expect={
            "jobs": {"default/j": {"running": 2, "allocated": {"cpu": 2}, "phase": "Running"}},
            "queues": {"a": {"share": 0.5, "entitled": {"cpu": 2}}},
            "binds": {"default/p": "n"},
            "errors": [{"object": "Queue/x"}],
            "tolerance": {"tasks": 1},
        },
    ),
    node(cpu=4, memory="8Gi", gpu=2),
    queue("root", hierarchy=[{"name": "b", "parameters": [{"name": "weight", "value": 2}]}, {"name": "c"}]),
    queue("a", weight=3),
    queue_at("d", "root/eng/d", "1/2/3"),
    job("j", "a", 3, cpu=1, memory="1Gi"),
    group("g", queue="b", minMember=2, minResources={"cpu": 2}),
    pod("p", "g", cpu=1),
    pod("q", "g", cpu=2),
    pod("r", "g", on="n", cpu=1),
    pod("alone"),
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x", "annotations": {"volcano.sh/queue-name": "a"}}},
    {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "full", "namespace": "x"},
        "spec": {
            "minSuccess": 1,
            "maxRetry": 2,
            "ttlSecondsAfterFinished": 3,
            "plugins": {"svc": []},
            "policies": [{"events": ["PodFailed"], "action": "RestartJob"}, {"exitCode": 3, "action": "AbortJob"}],
            "volumes": [{"mountPath": "/x", "volumeClaimName": "y"}],
            "tasks": [
                {"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "main"}]}}},
                {
                    "replicas": 2,
                    "dependsOn": {"name": ["t"]},
                    "partitionPolicy": {"totalPartitions": 2, "partitionSize": 1, "minPartitions": 1},
                    "policies": [{"event": "TaskCompleted", "action": "CompleteJob"}],
                    "template": {"spec": {"containers": [{"name": "main"}]}},
                },
            ],
        },
        "status": {"state": {"phase": "Pending"}},
    },
]

VALUES: list[Any] = [
    None, True, 0, -1, 1, 1.5, 10**30, float("nan"), "", "x", "1", "4GB", "a/b", "root", "a", [], {}, ["a"], {"a": 1}
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path to every part of a document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*path, key)
        yield from places(part, (*path, key))


PLACES = [path for path in places(DOCUMENTS) if len(path) > 1]


@fewer_examples(3)
@given(st.lists(st.tuples(st.sampled_from(PLACES), st.sampled_from([*VALUES, "delete"])), min_size=1, max_size=3))
def test_it_runs_or_is_refused(changes):
    documents = copy.deepcopy(DOCUMENTS)
    for path, value in changes:
        try:
            parent: Any = documents
            for key in path[:-1]:
                parent = parent[key]
            if value == "delete":
                del parent[path[-1]]
            else:
                parent[path[-1]] = copy.deepcopy(value)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took that part away
    try:
        entitle_report(opened(*documents).cluster.engine)
        simulation = opened(*documents)
    except BadInput as refused:
        problems = refused.problems
    else:
        simulation.run()
        simulation.cluster.engine.validate()
        assert run_report(simulation)["cycles"] >= 1
        assert overview_of_run(simulation).nodes
        find_differences(simulation)
        problems = tuple(simulation.errors)
    assert all(problem.object and problem.message for problem in problems)


def test_the_document_that_is_changed_runs_as_it_stands():
    simulation = opened(*DOCUMENTS)
    simulation.run()
    assert not simulation.errors
