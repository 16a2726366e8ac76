"""The public API for policy plugins: a plugin imports from this module and from nowhere else in Pumice.

These names stay as they are; what a release changes in them is in the changelog. The modules that they come from may
move from one release to the next. docs/extending.md shows how to write a plugin.

To write a plugin: ``Plugin`` is the base class with all hooks. ``Arguments`` is what its constructor gets from the
configuration file, ``PluginError`` rejects a wrong one, and ``Argument`` describes each for ``Plugin.takes``.
``CapacityWeights`` is what the hook ``room_weights`` returns. ``Flag`` names the hooks that a configuration can switch
off, and ``PluginConfig`` is the plugin's own entry in it (``self.config``).

To read the cluster, from the arguments of hooks and from attributes of the plugin. A plugin reads these objects and
never changes them, except where ``set_bounds`` says so:

- ``ClusterState`` (``self.state``): ``queues``, ``jobs``, ``tasks``, ``nodes``, ``priority_classes``, ``budgets``,
  ``capacity``
- ``Job``: ``key``, ``spec``, ``phase``, ``tasks``, ``held``, ``running``, ``succeeded``
- ``Task``: ``key``, ``spec``, ``job``, ``node``, ``status``, ``priority``, ``shape``, ``started``, ``preemptable``,
  ``is_system_critical``
- ``ClusterNode``: ``name``, ``spec``, ``allocatable``, ``idle``, ``tasks``, ``schedulable``
- ``ShareTree`` (``self.tree``): ``root``, ``jobs``, ``queues``, ``width``
- ``ShareNode``, a queue or namespace of it: ``kind`` (a ``NodeKind``), ``name``, ``path``, ``parent``, ``children``,
  ``queue``, ``queue_name``, ``weight``, ``held``, ``guarantee``, ``ceiling``, ``deserved``, ``walk``
- ``JobNode``, a job of it: all of these, and ``job``, ``user``, ``started``
- ``ServingOrder`` (``self.order``): ``has_targets``, ``is_owed``
- ``AllocationUnit``, the tasks that a job starts together: ``ask``, ``size``, ``parts``
- ``TaskShape``, tasks that are alike: ``ask``, ``constraints``, ``best_effort``, ``coupled``, ``rule_of``
- ``NodeTable``, the nodes in the order in which arrays of node hooks count them: ``nodes``
- ``Registry`` (``self.registry``): names, places and units of resources; ``CPU``, ``MEMORY`` and ``PODS`` are the
  places that every vector has

Amounts are integers: a ``Vector`` has one for each resource, and ``Items`` are its entries that are not zero, as pairs
of place and amount. ``Queue``, ``JobSpec`` with its ``JobPhase``, ``TaskSpec`` with its ``TaskStatus`` and
``Constraints``, ``NodeSpec``, ``PriorityClass`` and ``DisruptionBudget`` are the objects as the cluster describes them.
"""

from __future__ import annotations

from kubebase.resource_vector import CPU, MEMORY, PODS, Registry
from pumice.engine.candidates.units import AllocationUnit
from pumice.engine.config.scheduler_config import Flag, PluginConfig
from pumice.engine.fairness.orders.serving_order import ServingOrder
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.engine.placement.node_table import NodeTable
from pumice.engine.plugins.plugin import Argument, Arguments, CapacityWeights, Plugin, PluginError
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.job import Job
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import (
    Constraints,
    DisruptionBudget,
    Items,
    JobPhase,
    JobSpec,
    NodeSpec,
    PriorityClass,
    Queue,
    TaskSpec,
    TaskStatus,
    Vector,
)

__all__ = [
    "CPU",
    "MEMORY",
    "PODS",
    "AllocationUnit",
    "Argument",
    "Arguments",
    "CapacityWeights",
    "ClusterNode",
    "ClusterState",
    "Constraints",
    "DisruptionBudget",
    "Flag",
    "Items",
    "Job",
    "JobNode",
    "JobPhase",
    "JobSpec",
    "NodeKind",
    "NodeSpec",
    "NodeTable",
    "Plugin",
    "PluginConfig",
    "PluginError",
    "PriorityClass",
    "Queue",
    "Registry",
    "ServingOrder",
    "ShareNode",
    "ShareTree",
    "Task",
    "TaskShape",
    "TaskSpec",
    "TaskStatus",
    "Vector",
]
