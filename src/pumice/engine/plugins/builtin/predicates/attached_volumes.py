"""Volumes that pods attach to nodes: how many of a driver a node takes, and volumes that one pod may use at a time.

A volume that several pods of a node share is attached once, so shared volumes are counted by name. Volumes that one pod
uses alone are counted as numbers: the pods of a job with a volume each are of one shape.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from pumice.engine.plugins.builtin.predicates.node_columns import Mask, NodeColumns
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.task import Task
from pumice.model.specs import Attachment, VolumeDemand

Numbers = NDArray[np.int64]
UNLIMITED = np.iinfo(np.int64).max


class AttachedVolumes:
    """The volumes of all placed tasks, by node and driver."""

    def __init__(self) -> None:
        self._placed: dict[Task, tuple[VolumeDemand, str]] = {}
        self._attached: dict[str, Counter[str]] = {}  # by driver: the number of its volumes on each node
        self._users: dict[tuple[str, str], Counter[str]] = {}  # by driver and shared volume: its pods on each node
        self.exclusive: Counter[str] = Counter()  # pods by volume
        self._columns: NodeColumns | None = None
        self._numbers: dict[str, Numbers] = {}  # ``_attached`` as arrays over the nodes of ``_columns``
        self._limits: dict[str, Numbers] = {}

    def placed(self, task: Task, node: ClusterNode) -> None:
        """Record a task placed on a node."""
        demand = task.spec.constraints.volumes
        if demand is not None:
            self._placed[task] = demand, node.name
            self._count(demand, node.name, 1)

    def removed(self, task: Task) -> None:
        """Record a task removed from its node."""
        self._count(*self._placed.pop(task), -1)

    def _count(self, demand: VolumeDemand, node: str, sign: int) -> None:
        for volume in demand.exclusive:
            _add(self.exclusive, volume, sign)
        for attachment in demand.attached:
            number = attachment.private
            for volume in attachment.shared:
                users = self._users.setdefault((attachment.driver, volume), Counter())
                before = users[node]
                _add(users, node, sign)
                number += (before == 0) if sign > 0 else (before == 1)
                if not users:
                    del self._users[attachment.driver, volume]
            self._attach(attachment.driver, node, sign * number)

    def _attach(self, driver: str, node: str, number: int) -> None:
        _add(self._attached.setdefault(driver, Counter()), node, number)
        numbers = self._numbers.get(driver)
        if numbers is not None and self._columns is not None and node in self._columns.index:
            numbers[self._columns.index[node]] += number

    def follow(self, columns: NodeColumns) -> None:
        """Use the nodes of these columns from now on."""
        if columns is not self._columns:
            self._columns = columns
            self._numbers.clear()
            self._limits.clear()

    def attached(self, driver: str) -> Numbers:
        """For each node, how many volumes of a driver are attached."""
        found = self._numbers.get(driver)
        if found is None:
            columns = self.nodes()
            found = self._numbers[driver] = np.zeros(columns.count, np.int64)
            for node, number in self._attached.get(driver, Counter()).items():
                if node in columns.index:
                    found[columns.index[node]] = number
        return found

    def limits(self, driver: str) -> Numbers:
        """For each node, how many volumes of a driver can be attached."""
        found = self._limits.get(driver)
        if found is None:
            specs = [node.spec for node in self.nodes().table.nodes]
            limits = [dict(spec.volume_limits).get(driver) if spec is not None else None for spec in specs]
            found = np.array([UNLIMITED if limit is None else limit for limit in limits], np.int64)
            self._limits[driver] = found
        return found

    def having(self, driver: str, volume: str) -> list[int]:
        """The nodes to which a shared volume is attached."""
        index = self.nodes().index
        users = self._users.get((driver, volume), Counter())
        return [index[node] for node in users if node in index]

    def nodes(self) -> NodeColumns:
        """The nodes that are followed."""
        assert self._columns is not None, "follow the nodes before asking"
        return self._columns


def _add(numbers: Counter[str], key: str, number: int) -> None:
    """Add to an entry of a counter; an entry of 0 is none."""
    numbers[key] += number
    if not numbers[key]:
        del numbers[key]


class VolumeLimits:
    """The nodes to which the volumes of a shape can be attached beside those of other pods."""

    reason = "too many volumes are attached"

    def __init__(self, attachment: Attachment, volumes: AttachedVolumes) -> None:
        self.kube_message = attachment.reason
        self._attachment = attachment
        self._volumes = volumes

    def mask(self) -> Mask | None:
        """The nodes that pass now."""
        driver, shared = self._attachment.driver, self._attachment.shared
        limits = self._volumes.limits(driver)
        new = np.full(len(limits), self._attachment.private + len(shared), np.int64)
        for volume in shared:
            new[self._volumes.having(driver, volume)] -= 1
        # A pod that adds no volume starts on a full node too.
        mask: Mask = (new == 0) | (self._volumes.attached(driver) + new <= limits)
        return mask


class ExclusiveVolumes:
    """No node, while another pod uses a volume that only one pod may use."""

    reason = "a volume with access mode ReadWriteOncePod is used by another pod"

    def __init__(self, exclusive: tuple[str, ...], volumes: AttachedVolumes) -> None:
        self._exclusive = exclusive
        self._volumes = volumes

    def mask(self) -> Mask | None:
        """No node, or None for all."""
        if any(self._volumes.exclusive[volume] for volume in self._exclusive):
            return np.zeros(self._volumes.nodes().count, np.bool_)
        return None
