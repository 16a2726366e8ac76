"""Workload N: gangs of 8 to 512 tasks in a network of three tiers, as events of a cluster in which all are pending."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from benchmarks.workload import FOLDER, GPU
from kubebase.resource_vector import Registry
from pumice.engine.events import Changed
from pumice.model.hyper_nodes import HyperNode, HyperNodeMember, NetworkTopology
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec

FABRIC = "fabric"


@dataclass(frozen=True)
class WorkloadN:
    """``workloads/N.yaml``, read."""

    spec: dict[str, Any]

    @classmethod
    def load(cls) -> WorkloadN:
        """Read the workload."""
        return cls(yaml.safe_load((FOLDER / "N.yaml").read_text()))

    def events(self, registry: Registry, *, topology: bool = True) -> Iterator[Changed]:
        """Nodes, HyperNodes, queues, jobs and tasks; without ``topology`` the jobs go anywhere."""
        yield from map(Changed, self._nodes(registry))
        yield from map(Changed, self._hyper_nodes())
        for number in range(self.spec["queues"]):
            yield Changed(Queue(f"q{number}", weight=1 + number % 4))
        yield from map(Changed, self._jobs(registry, topology))

    def _nodes(self, registry: Registry) -> Iterator[NodeSpec]:
        node = self.spec["nodes"]
        offered = {"cpu": node["cpu"], "memory": node["memory"], GPU: node["gpu"], "pods": node["pods"]}
        room = registry.vector(offered, where="nodes")
        for number in range(node["count"]):
            yield NodeSpec(f"node-{number:05d}", room)

    def _hyper_nodes(self) -> Iterator[HyperNode]:
        network, count = self.spec["network"], self.spec["nodes"]["count"]
        racks = _groups([f"node-{number:05d}" for number in range(count)], network["nodesPerRack"])
        names = [f"rack-{number:04d}" for number in range(len(racks))]
        for name, nodes in zip(names, racks, strict=True):
            yield HyperNode(name, 1, members=tuple(HyperNodeMember(True, name=node) for node in nodes))
        blocks = _groups(names, network["racksPerBlock"])
        for number, inside in enumerate(blocks):
            members = tuple(HyperNodeMember(False, name=rack) for rack in inside)
            yield HyperNode(f"block-{number:04d}", 2, members=members)
        yield HyperNode(FABRIC, 3, members=(HyperNodeMember(False, pattern="^block-"),))

    def _jobs(self, registry: Registry, topology: bool) -> Iterator[JobSpec | TaskSpec]:
        task = self.spec["task"]
        request = registry.vector(
            {"cpu": task["cpu"], "memory": task["memory"], GPU: task["gpu"], "pods": 1}, where="task"
        )
        gangs = self.spec["gangs"] * self.spec["rounds"]
        for number, gang in enumerate(gangs):
            name, tasks = f"job-{number:04d}", gang["tasks"]
            wanted = NetworkTopology(True, gang["highestTier"]) if topology else None
            queue = f"q{number % self.spec['queues']}"
            yield JobSpec("ns", name, queue, number, tasks, phase=JobPhase.INQUEUE, topology=wanted)
            for t in range(tasks):
                yield TaskSpec("ns", f"{name}-{t}", request, f"ns/{name}", number)


def _groups(names: list[str], size: int) -> list[list[str]]:
    return [names[start : start + size] for start in range(0, len(names), size)]
