"""Workload E: many shapes, constraints of every kind, gangs of 1 to 64, more demand than room, and churn.

Deterministic by its seed. ``scale`` makes a small cluster of the same kind, so that tests can compare its decisions
with a slow scheduler's. Requests are scaled so that the demand is the stated multiple of the scarcest resource.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from benchmarks.workload import FOLDER, GPU
from kubebase.label_selector import Requirement
from kubebase.resource_vector import Registry
from pumice.engine.events import Changed
from pumice.engine.state.cluster_state import ClusterState
from pumice.model.specs import (
    FREE,
    Constraints,
    JobPhase,
    JobSpec,
    NodeSpec,
    NodeTerm,
    PodTerm,
    Queue,
    Spread,
    Taint,
    TaskSpec,
    TaskStatus,
    Toleration,
)

GI = 2**30


@dataclass
class WorkloadE:
    """The parameters of E and the jobs created so far."""

    spec: dict[str, Any]
    scale: float = 1.0
    _jobs: int = field(default=0, init=False)

    @classmethod
    def load(cls, name: str = "E", scale: float = 1.0) -> WorkloadE:
        """Read the parameters; ``scale`` shrinks nodes, tasks and shapes alike."""
        return cls(yaml.safe_load((FOLDER / f"{name}.yaml").read_text()), scale)

    def _sized(self, number: int, least: int) -> int:
        return max(least, round(number * self.scale))

    # --- the start --------------------------------------------------------------------------------------------

    def events(self, registry: Registry) -> Iterator[Changed]:
        """Nodes, queues, and jobs until their tasks are as many as wanted, all pending."""
        rng = random.Random(self.spec["seed"])
        registry.index(GPU)
        self._jobs = 0
        nodes = list(self._nodes(registry))
        yield from map(Changed, nodes)
        self._queues = list(self._make_queues())
        yield from map(Changed, self._queues)
        wanted = self._sized(self.spec["tasks"], 60)
        self._requests = self._make_requests(rng, nodes, wanted)
        made = 0
        while made < wanted:
            for event in self._job(rng):
                made += isinstance(event.object, TaskSpec)
                yield event

    def _nodes(self, registry: Registry) -> Iterator[NodeSpec]:
        count = self._sized(self.spec["nodeCount"], 6)
        number = 0
        for group in self.spec["nodes"]:
            offered = {"cpu": group["cpu"], "memory": group["memory"], GPU: group["gpu"], "pods": 250}
            room = registry.vector(offered, where="nodes")
            taints = (Taint(group["taint"], "batch"),) if "taint" in group else ()
            for _ in range(max(1, round(count * group["share"]))):
                name = f"node-{number:05d}"
                labels = {
                    "kubernetes.io/hostname": name,
                    "zone": f"z{number % self.spec['zones']}",
                    "rack": f"r{number % max(2, self._sized(self.spec['racks'], 3))}",
                    **group["labels"],
                }
                yield NodeSpec(name, room, labels=labels, taints=taints)
                number += 1

    def _make_queues(self) -> Iterator[Queue]:
        tree = self.spec["tree"]
        number = 0
        for o in range(self._sized(tree["orgs"], 2)):
            for t in range(self._sized(tree["teams"], 2)):
                for q in range(min(tree["queues"], self._sized(tree["queues"], 2))):
                    path = f"root/org{o}/team{t}/q{number}"
                    yield Queue(f"q{number}", path=path, path_weights=f"1/{1 + o % 3}/{1 + t % 2}/{1 + q % 4}")
                    number += 1

    def _make_requests(self, rng: random.Random, nodes: list[NodeSpec], tasks: int) -> list[tuple[int, ...]]:
        """The different requests, scaled so that all tasks together request more than the capacity."""
        count = self._sized(self.spec["shapes"], 8)
        raw = []
        for _ in range(count):
            gpu = rng.choice((0, 0, 0, 0, 1, 1, 2, 4))
            raw.append((rng.uniform(1, 8), rng.uniform(2, 48), gpu))
        mean_cpu = sum(cpu for cpu, _, _ in raw) / count
        mean_memory = sum(memory for _, memory, _ in raw) / count
        room_cpu = sum(node.allocatable[0] for node in nodes) / 1000
        room_memory = sum(node.allocatable[1] for node in nodes) / GI
        factor = self.spec["demand"] / max(tasks * mean_cpu / room_cpu, tasks * mean_memory / room_memory)
        return [
            (max(10, round(cpu * factor * 1000)), max(2**20, round(memory * factor * GI)), 1, gpu * 1000)
            for cpu, memory, gpu in raw
        ]

    # --- jobs -----------------------------------------------------------------------------------------------------

    def _job(self, rng: random.Random) -> Iterator[Changed]:
        number = self._jobs
        self._jobs += 1
        namespace, name = f"ns{rng.randrange(self.spec['namespaces'])}", f"job-{number:05d}"
        size = min(rng.choice((1, 1, 2, 4, 8, 8, 16, 16, 32, 64)), self._sized(self.spec["largestGang"], 4))
        gang = rng.choice((1, 1, size, max(1, size // 2)))
        queue = rng.choice(self._queues).name
        first = rng.choice(self._requests)
        second = rng.choice(self._requests) if rng.random() < 0.1 else first
        constraints = self._constraints(rng, name, first) if rng.random() < self.spec["constrained"] else FREE
        yield Changed(JobSpec(namespace, name, queue, number, gang, phase=JobPhase.INQUEUE, user=namespace))
        for t in range(size):
            request = second if t >= size // 2 else first
            yield Changed(
                TaskSpec(
                    namespace,
                    f"{name}-t-{t}",
                    request,
                    f"{namespace}/{name}",
                    number,
                    labels={"app": name},
                    constraints=constraints,
                )
            )

    def _constraints(self, rng: random.Random, name: str, request: tuple[int, ...]) -> Constraints:
        own = (Requirement("app", "In", (name,)),)
        match rng.randrange(6):
            case 0:
                disk = "ssd" if request[3] else rng.choice(("ssd", "hdd"))
                return Constraints(node_selector=(("disk", disk),))
            case 1:
                zones = tuple(f"z{z}" for z in sorted(rng.sample(range(self.spec["zones"]), 2)))
                return Constraints(node_required=(NodeTerm((Requirement("zone", "In", zones),)),))
            case 2:
                return Constraints(tolerations=(Toleration("dedicated", "Exists"),))
            case 3:
                return Constraints(affinity=(PodTerm("zone", own),))
            case 4:
                return Constraints(anti_affinity=(PodTerm("kubernetes.io/hostname", own),))
            case _:
                return Constraints(spread=(Spread("zone", rng.choice((1, 2)), own),))

    # --- what happens later ---------------------------------------------------------------------------------------

    def round(self, state: ClusterState, number: int) -> Iterator[Changed]:
        """Some running tasks end, new jobs arrive."""
        rng = random.Random(self.spec["seed"] * 1000 + number)
        running = [task for task in state.tasks.values() if task.status.held]
        for task in rng.sample(running, min(len(running), max(1, round(len(running) * self.spec["ending"])))):
            spec = task.spec
            yield Changed(
                TaskSpec(
                    spec.namespace,
                    spec.name,
                    spec.request,
                    spec.job,
                    spec.created,
                    labels=spec.labels,
                    constraints=spec.constraints,
                    status=TaskStatus.SUCCEEDED,
                )
            )
        for _ in range(max(1, round(self._jobs * self.spec["arriving"]))):
            yield from self._job(rng)
