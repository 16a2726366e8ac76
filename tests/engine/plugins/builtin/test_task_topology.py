"""task-topology: tasks of a job follow those that attract them and avoid those that repel them."""

from __future__ import annotations

from collections import Counter

import pytest

from kubebase.resource_vector import Registry
from pumice.config.load import read_config
from pumice.config.plugin_loader import plugin_factories
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.engine.plugins.builtin.task_topology import TaskTopologyPlugin
from pumice.engine.plugins.plugin import PluginError
from pumice.kube.decode.task_topology import AFFINITY, ANTI_AFFINITY, task_topology
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec
from pumice.model.task_topology import TaskTopology

CONFIG = """
actions: "allocate, backfill"
tiers:
- plugins: [{{name: gang}}]
- plugins:
  - {{name: drf, enableHierarchy: true}}
  - {{name: predicates}}
  - {{name: nodeorder}}
  - {{name: {plugin}}}
"""


def placed(topology: TaskTopology | None, roles: dict[str, int], plugin: str = "task-topology") -> dict[str, Counter]:
    """The roles on each of three nodes of 8 cpu, after a gang of tasks of 1 cpu has started."""
    registry = Registry()
    config = read_config(CONFIG.format(plugin=plugin), "test")
    engine = Engine(config, plugin_factories(config), registry)
    for name in ("n0", "n1", "n2"):
        engine.apply(Changed(NodeSpec(name, registry.vector({"cpu": 8, "memory": "8Gi", "pods": 100}, where=name))))
    engine.apply(Changed(Queue("q")))
    size = sum(roles.values())
    spec = JobSpec("ns", "j", "q", min_member=size, phase=JobPhase.INQUEUE, task_topology=topology)
    engine.apply(Changed(spec))
    request = registry.vector({"cpu": 1, "pods": 1}, where="task")
    for role, count in roles.items():
        for index in range(count):
            engine.apply(Changed(TaskSpec("ns", f"j-{role}-{index}", request, job="ns/j", created=index, role=role)))
    engine.cycle(1)
    engine.validate()
    found: dict[str, Counter] = {}
    for task in engine.state.tasks.values():
        assert task.node is not None
        found.setdefault(task.node.name, Counter())[task.spec.role] += 1
    return found


def test_without_wishes_tasks_are_spread():
    assert all(sum(found.values()) == 2 for found in placed(None, {"ps": 3, "worker": 3}).values())


def test_roles_of_a_group_share_a_node():
    found = placed(TaskTopology(affinity=(("ps", "worker"),)), {"ps": 1, "worker": 4})
    (node,) = (node for node, roles in found.items() if roles["ps"])
    assert found[node]["worker"] == 4


def test_a_role_may_attract_its_own_tasks():
    assert len(placed(TaskTopology(affinity=(("worker",),)), {"worker": 6})) == 1


def test_roles_that_repel_one_another_are_kept_apart():
    topology = TaskTopology(affinity=(("worker",),), anti_affinity=(("ps", "worker"), ("ps",)))
    found = placed(topology, {"ps": 2, "worker": 6})
    assert sorted(tuple(sorted(roles)) for roles in found.values()) == [("ps",), ("ps",), ("worker",)]


def test_attraction_does_not_keep_a_task_from_starting():
    found = placed(TaskTopology(affinity=(("worker",),)), {"worker": 20})
    assert sum(sum(roles.values()) for roles in found.values()) == 20
    assert sorted(sum(roles.values()) for roles in found.values()) == [4, 8, 8]


def test_the_annotations_count_only_with_the_plugin():
    topology = TaskTopology(affinity=(("worker",),))
    assert len(placed(topology, {"worker": 6}, plugin="conformance")) > 1


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, None),
        ({AFFINITY: " ; ,"}, None),
        ({AFFINITY: "ps,worker;evaluator"}, TaskTopology((("ps", "worker"), ("evaluator",)))),
        ({ANTI_AFFINITY: "ps, ps ;ps"}, TaskTopology((), (("ps",),))),
    ],
)
def test_annotations(annotations, expected):
    assert task_topology(annotations) == expected


def test_a_bad_weight_is_refused():
    with pytest.raises(PluginError, match="write a number, 0 or more"):
        TaskTopologyPlugin({"task-topology.weight": "much"})
