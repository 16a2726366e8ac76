"""Small clusters by hand for tests of node plugins: the real state, the real node table, no engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from kubebase.label_selector import Requirement
from pumice.engine.events import Changed, Gone
from pumice.engine.explain.node_fit import places
from pumice.engine.placement.node_table import NodeTable
from pumice.engine.plugins.plugin import Plugin
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.task import Task
from pumice.model.specs import FREE, Constraints, NodeSpec, Taint, TaskSpec, TaskStatus


class Cluster:
    """Nodes, pods, and a plugin that follows them."""

    def __init__(self, plugin: Plugin) -> None:
        self.state = ClusterState()
        self.plugin = plugin
        plugin.registry = self.state.registry
        self.state.usage_observer = self
        self._table = NodeTable([plugin], [plugin])

    def node(
        self,
        name: str,
        labels: Mapping[str, str] | None = None,
        *,
        offers: Mapping[str, str | int] | None = None,
        taints: Iterable[Taint] = (),
        unschedulable: bool = False,
        ready: bool = True,
        volume_limits: tuple[tuple[str, int], ...] = (),
    ) -> None:
        """A machine is as described."""
        vector = self.state.registry.vector(offers or {"cpu": 8, "memory": "8Gi", "pods": 100}, where=name)
        spec = NodeSpec(
            name,
            vector,
            labels=labels or {},
            taints=tuple(taints),
            unschedulable=unschedulable,
            ready=ready,
            volume_limits=volume_limits,
        )
        self.state.apply(Changed(spec))

    def pod(
        self,
        name: str,
        labels: Mapping[str, str] | None = None,
        *,
        on: str | None = None,
        asks: Mapping[str, str | int] | None = None,
        constraints: Constraints = FREE,
        namespace: str = "default",
        status: TaskStatus | None = None,
        priority_class: str | None = None,
    ) -> Task:
        """A pod is as described: running if it is on a node, else pending."""
        request = self.state.registry.vector({"pods": 1, **(asks or {})}, where=name)
        spec = TaskSpec(
            namespace,
            name,
            request,
            labels=labels or {},
            constraints=constraints,
            node=on,
            status=status or (TaskStatus.RUNNING if on is not None else TaskStatus.PENDING),
            priority_class=priority_class,
        )
        self.state.apply(Changed(spec))
        return self.state.tasks[spec.key]

    def gone(self, task: Task) -> None:
        """A pod is no more."""
        self.state.apply(Gone(TaskSpec, task.key))

    def task_entered(self, task: Task) -> None:
        """Follow an event, as the engine does."""
        if task.status.on_node and task.node is not None:
            self._table.touch(task.node)
            self.plugin.placed(task, task.node)

    def task_leaving(self, task: Task) -> None:
        """Follow an event, as the engine does."""
        if task.status.on_node and task.node is not None:
            self._table.touch(task.node)
            self.plugin.removed(task, task.node)

    @property
    def table(self) -> NodeTable:
        """The node table, made again if nodes changed."""
        if self.state.nodes_changed:
            self._table.rebuild(self.state.nodes.values(), len(self.state.registry))
            self.state.nodes_changed = False
        return self._table

    def allowed(self, task: Task) -> set[str]:
        """The nodes that the filters leave, as the node table asks them."""
        view = self.table.view(task.shape)
        mask = view.mask
        if view.coupled:
            now = self.plugin.node_filter_now(task.shape, self.table)
            mask = mask if now is None else mask & now
        return {node.name for node, passes in zip(self.table.nodes, mask, strict=True) if passes}

    def reasons(self, task: Task) -> dict[str, int]:
        """Why a task does not fit."""
        found = places(self.table, task.shape, self.state.registry)
        return {out.reason: out.count for out in found.out}

    def scores(self, task: Task) -> dict[str, float]:
        """The score of every node where the task fits, everything included."""
        table = self.table
        table.best_node(task.shape)  # follows what changed
        view = table.view(task.shape)
        scores, allowed = table._scores_by_pods(view) if view.coupled else (view.scores, None)
        return {
            node.name: float(score)
            for i, (node, score) in enumerate(zip(table.nodes, scores, strict=True))
            if score > -inf and (allowed is None or allowed[i])
        }


def is_in(key: str, *values: str) -> Requirement:
    """``key in (values)``."""
    return Requirement(key, "In", values)
