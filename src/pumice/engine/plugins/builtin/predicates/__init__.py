"""predicates: filter the feasible nodes of a task, apart from free capacity.

Checks that depend on nodes alone (selectors, node affinity, taints, where volumes are) run once per shape over the
``node_columns`` of the node table. Checks that depend on other pods (host ports, pod affinity and anti-affinity,
topology spread, limits of volumes) run for each placement, on counters that ``placed_pods`` and ``attached_volumes``
keep up to date. Each check follows kube-scheduler, one file per check.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Protocol

from pumice.engine.placement.node_table import NodeTable
from pumice.engine.plugins.builtin.arguments import flag
from pumice.engine.plugins.builtin.predicates.attached_volumes import AttachedVolumes, ExclusiveVolumes, VolumeLimits
from pumice.engine.plugins.builtin.predicates.interpod import PodAffinity, PodAntiAffinity, SymmetricAntiAffinity
from pumice.engine.plugins.builtin.predicates.node_affinity import selected
from pumice.engine.plugins.builtin.predicates.node_columns import Mask, NodeColumns, columns_of
from pumice.engine.plugins.builtin.predicates.placed_pods import PlacedPods
from pumice.engine.plugins.builtin.predicates.ports import FreePorts
from pumice.engine.plugins.builtin.predicates.spread import TopologySpread, spreads
from pumice.engine.plugins.builtin.predicates.taints import obstacles
from pumice.engine.plugins.builtin.predicates.volume_nodes import usable_nodes
from pumice.engine.plugins.plugin import Argument, Arguments, Plugin
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import TaskShape


class Check(Protocol):
    """A check whose result other pods can change."""

    reason: str

    def mask(self) -> Mask | None:
        """The nodes that pass now; None for all."""


KUBE_MESSAGES: dict[type[Check], str] = {
    FreePorts: "node(s) didn't have free ports for the requested pod ports",
    PodAffinity: "node(s) didn't match pod affinity rules",
    PodAntiAffinity: "node(s) didn't match pod anti-affinity rules",
    SymmetricAntiAffinity: "node(s) didn't satisfy existing pods anti-affinity rules",
    TopologySpread: "node(s) didn't match pod topology spread constraints",
    ExclusiveVolumes: (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
        "another pod"
    ),
}
"""What kube-scheduler says of nodes that fail a check."""


class PredicatesPlugin(Plugin):
    """The predicates, each of which can be switched off."""

    name = "predicates"
    takes = (
        Argument("predicate.NodeAffinityEnable", "true", "node selectors and required node affinity"),
        Argument("predicate.TaintTolerationEnable", "true", "taints"),
        Argument("predicate.NodePortsEnable", "true", "host ports"),
        Argument("predicate.PodAffinityEnable", "true", "required pod affinity and anti-affinity"),
        Argument("predicate.PodTopologySpreadEnable", "true", "topology spread constraints that must hold"),
    )

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        # Volcano has more switches than there are checks here; all of them are booleans.
        enabled = {name: flag(arguments, name, True) for name in arguments if name.endswith("Enable")}
        self.node_affinity = enabled.get("predicate.NodeAffinityEnable", True)
        self.taints = enabled.get("predicate.TaintTolerationEnable", True)
        self.ports = enabled.get("predicate.NodePortsEnable", True)
        self.pod_affinity = enabled.get("predicate.PodAffinityEnable", True)
        self.spread = enabled.get("predicate.PodTopologySpreadEnable", True)
        self._census = PlacedPods()
        self._volumes = AttachedVolumes()
        self._columns: NodeColumns | None = None
        self._checks: dict[TaskShape, list[Check]] = {}

    def node_filter(self, shape: TaskShape, nodes: NodeTable) -> Mask | None:
        """The nodes that pass the checks on nodes alone."""
        return _all_of(mask for _, mask in self._by_nodes(shape, nodes))

    def node_filter_now(self, shape: TaskShape, nodes: NodeTable) -> Mask | None:
        """The nodes that pass the checks against other pods."""
        allowed: Mask | None = None
        for check in self._pod_checks(shape, nodes):  # for every placement: no generators
            mask = check.mask()
            if mask is not None:
                allowed = mask if allowed is None else allowed & mask
        return allowed

    def node_reasons(self, shape: TaskShape, nodes: NodeTable) -> Iterator[tuple[str, Mask]]:
        """The failed checks on nodes, then those against other pods, one after another."""
        yield from self._by_nodes(shape, nodes)
        yield from self._by_pods(shape, nodes)

    def filter_messages(self, shape: TaskShape, nodes: NodeTable) -> Iterator[tuple[str, Mask]]:
        """The same checks in the words of kube-scheduler, which tools and people know from conditions of pods."""
        columns = self._columns = columns_of(nodes, self._columns)
        constraints = shape.constraints
        if self.node_affinity and (mask := selected(constraints, columns)) is not None:
            yield "node(s) didn't match Pod's node affinity/selector", mask
        if self.taints:
            for taint, blocked in obstacles(constraints.tolerations, columns).items():
                yield f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}", ~blocked
        yield from usable_nodes(constraints.volumes, columns)
        for check, mask in self._failed_pod_checks(shape, nodes):
            message = check.kube_message if isinstance(check, VolumeLimits) else KUBE_MESSAGES[type(check)]
            yield message, mask

    def keep_shapes(self, used: Container[TaskShape]) -> None:
        """Forget the checks of other shapes."""
        self._checks = {shape: checks for shape, checks in self._checks.items() if shape in used}

    def placed(self, task: Task, node: ClusterNode) -> None:
        """Record a placed task."""
        self._census.placed(task, node)
        if task.spec.constraints.volumes is not None:
            self._volumes.placed(task, node)

    def removed(self, task: Task, node: ClusterNode) -> None:
        """Record a removed task."""
        self._census.removed(task)
        if task.spec.constraints.volumes is not None:
            self._volumes.removed(task)

    def _by_nodes(self, shape: TaskShape, nodes: NodeTable) -> Iterator[tuple[str, Mask]]:
        columns = self._columns = columns_of(nodes, self._columns)
        constraints = shape.constraints
        if self.node_affinity:
            mask = selected(constraints, columns)
            if mask is not None:
                yield "node selector or node affinity does not match", mask
        if self.taints:
            for taint, blocked in obstacles(constraints.tolerations, columns).items():
                text = f"{taint.key}={taint.value}" if taint.value else taint.key
                yield f"untolerated taint {text}:{taint.effect}", ~blocked
        yield from usable_nodes(constraints.volumes, columns)

    def _by_pods(self, shape: TaskShape, nodes: NodeTable) -> Iterator[tuple[str, Mask]]:
        for check, mask in self._failed_pod_checks(shape, nodes):
            yield check.reason, mask

    def _failed_pod_checks(self, shape: TaskShape, nodes: NodeTable) -> Iterator[tuple[Check, Mask]]:
        for check in self._pod_checks(shape, nodes):
            mask = check.mask()
            if mask is not None:
                yield check, mask

    def _pod_checks(self, shape: TaskShape, nodes: NodeTable) -> list[Check]:
        columns = self._columns = columns_of(nodes, self._columns)
        if self._census.follow(columns):
            self._checks.clear()
        self._volumes.follow(columns)
        checks = self._checks.get(shape)
        if checks is None:
            checks = self._checks[shape] = self._make_checks(shape, columns)
        return checks

    def _make_checks(self, shape: TaskShape, columns: NodeColumns) -> list[Check]:
        constraints, identity, census = shape.constraints, shape.identity, self._census
        checks: list[Check] = []
        if self.ports and constraints.ports:
            checks.append(FreePorts(shape, census))
        if self.pod_affinity and identity is not None:
            if constraints.affinity:
                checks.append(PodAffinity(constraints.affinity, identity, census))
            if constraints.anti_affinity:
                checks.append(PodAntiAffinity(constraints.anti_affinity, census))
            checks.append(SymmetricAntiAffinity(identity, census))
        if self.spread:
            checks += spreads(shape, columns, census, hard=True)
        if constraints.volumes is not None:
            checks += [VolumeLimits(attachment, self._volumes) for attachment in constraints.volumes.attached]
            if constraints.volumes.exclusive:
                checks.append(ExclusiveVolumes(constraints.volumes.exclusive, self._volumes))
        return checks


def _all_of(masks: Iterator[Mask]) -> Mask | None:
    allowed: Mask | None = None
    for mask in masks:
        allowed = mask if allowed is None else allowed & mask
    return allowed
