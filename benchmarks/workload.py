"""Workloads as data: a YAML file becomes the events of a cluster in which all tasks are pending.

The same files drive the peers (``peers.py``), so every number in them has the same meaning for all systems.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kubebase.resource_vector import Registry
from pumice.engine.events import Changed
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec

FOLDER = Path(__file__).parent / "workloads"
GPU = "nvidia.com/gpu"


@dataclass(frozen=True)
class Workload:
    """One file of ``workloads/``, read."""

    name: str
    spec: dict[str, Any]

    @classmethod
    def load(cls, name: str) -> Workload:
        """Read a workload by name."""
        spec = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
        return cls(spec["name"], spec)

    @property
    def tasks(self) -> int:
        return int(self.spec["jobs"] * self.spec["tasksPerJob"])

    def scaled(self, factor: int) -> Workload:
        """The same with ``factor`` times the nodes, jobs and organisations."""
        tree = {**self.spec["tree"], "orgs": self.spec["tree"]["orgs"] * factor}
        nodes = {**self.spec["nodes"], "count": self.spec["nodes"]["count"] * factor}
        spec = {**self.spec, "nodes": nodes, "jobs": self.spec["jobs"] * factor, "tree": tree}
        return Workload(f"{self.name} x{factor}", spec)

    def flat(self) -> Workload:
        """The same with all queues under one parent."""
        tree = self.spec["tree"]
        queues = tree["orgs"] * tree["teams"] * tree["queues"]
        return Workload(f"{self.name} flat", {**self.spec, "tree": {"orgs": 1, "teams": 1, "queues": queues}})

    def events(self, registry: Registry) -> Iterator[Changed]:
        """Nodes, queues, jobs and tasks; all tasks are pending."""
        spec = self.spec
        node = spec["nodes"]
        offered = {"cpu": node["cpu"], "memory": node["memory"], GPU: node["gpu"], "pods": node["pods"]}
        room = registry.vector(offered, where="nodes")
        for i in range(node["count"]):
            name = f"node-{i:05d}"
            yield Changed(NodeSpec(name, room, labels={"kubernetes.io/hostname": name}))
        queues = list(self._queues())
        yield from map(Changed, queues)
        shapes = [
            registry.vector({"cpu": s["cpu"], "memory": s["memory"], GPU: s["gpu"], "pods": 1}, where="shapes")
            for s in spec["shapes"]
        ]
        for j in range(spec["jobs"]):
            namespace, name = f"ns{j % spec['namespaces']}", f"job-{j:05d}"
            queue = queues[j % len(queues)].name
            request = shapes[(j // 4 + j // len(queues)) % len(shapes)]
            yield Changed(JobSpec(namespace, name, queue, j, spec["minMember"], phase=JobPhase.INQUEUE, user=namespace))
            for t in range(spec["tasksPerJob"]):
                yield Changed(
                    TaskSpec(namespace, f"{name}-{t}", request, f"{namespace}/{name}", j, labels={"app": name})
                )

    def _queues(self) -> Iterator[Queue]:
        tree = self.spec["tree"]
        number = 0
        for o in range(tree["orgs"]):
            for t in range(tree["teams"]):
                for q in range(tree["queues"]):
                    yield Queue(
                        f"q{number}",
                        path=f"root/org{o}/team{t}/q{number}",
                        path_weights=f"1/{1 + o % 3}/{1 + t % 2}/{1 + q % 4}",
                    )
                    number += 1
