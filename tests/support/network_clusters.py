"""Clusters with HyperNodes for tests: nodes of one cpu count in racks, racks in blocks, blocks in one fabric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from kubebase.resource_vector import Registry
from pumice.config.load import read_config
from pumice.config.plugin_loader import plugin_factories
from pumice.engine.decisions import Bind, Decision
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.model.hyper_nodes import HyperNode, HyperNodeMember, NetworkTopology
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus

SECOND = 1_000_000

CONFIG = """
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}]
- plugins:
  - {{name: drf, enableHierarchy: true, arguments: {{drf.patience: {patience}}}}}
  - {{name: predicates}}
  - {{name: nodeorder}}
configurations:
- {{name: reclaim, arguments: {{reclaim.patience: 0, reclaim.minRuntime: 0}}}}
"""


def hyper_node(name: str, tier: int, nodes: Iterable[str] = (), hyper_nodes: Iterable[str] = ()) -> HyperNode:
    """A HyperNode with members by name."""
    members = [HyperNodeMember(True, name=one) for one in nodes]
    members += [HyperNodeMember(False, name=one) for one in hyper_nodes]
    return HyperNode(name, tier, members=tuple(members))


class ClusterSettings(TypedDict, total=False):
    """The options of a ``NetworkCluster``."""

    actions: str
    patience: int


class NetworkCluster:
    """An engine, and short words for what happens to it."""

    def __init__(self, actions: str = "allocate, backfill", patience: int = -1) -> None:
        self.registry = Registry()
        self.config = read_config(CONFIG.format(actions=actions, patience=patience), "test")
        self.engine = Engine(self.config, plugin_factories(self.config), self.registry)
        self.now = 0

    def tell(self, *objects: object) -> None:
        """Objects are as described."""
        for described in objects:
            self.engine.apply(Changed(described))  # type: ignore[arg-type]  # tests pass descriptions only

    def nodes(self, cpus: Mapping[str, int]) -> None:
        """Nodes with that many cpus each."""
        for name, cpu in cpus.items():
            self.tell(NodeSpec(name, self.registry.vector({"cpu": cpu, "memory": "1Ti", "pods": 1000}, where=name)))

    def queues(self, **weights: int) -> None:
        """Queues below root."""
        for name, weight in weights.items():
            self.tell(Queue(name, weight=weight))

    def job(
        self,
        name: str,
        tasks: int,
        topology: NetworkTopology | None,
        *,
        cpu: int = 1,
        least: int | None = None,
        queue: str = "q",
        on: Sequence[str] = (),
        created: int = 0,
    ) -> None:
        """A job of equal tasks, of which the first run on the given nodes."""
        minimum = tasks if least is None else least
        phase = JobPhase.RUNNING if len(on) >= minimum else JobPhase.INQUEUE
        self.tell(
            JobSpec("ns", name, queue, created=created, min_member=minimum, phase=phase, topology=topology),
            *(self.task(name, i, cpu, node) for i, node in enumerate([*on, *[""] * (tasks - len(on))])),
        )

    def task(self, job: str, number: int, cpu: int, node: str = "") -> TaskSpec:
        """A pod of a job."""
        asks = {"pods": 1, **({"cpu": cpu} if cpu else {})}
        return TaskSpec(
            "ns",
            f"{job}-{number:03}",
            self.registry.vector(asks, where=job),
            job=f"ns/{job}",
            created=number,
            node=node or None,
            status=TaskStatus.RUNNING if node else TaskStatus.PENDING,
            started=1 if node else 0,
            placed=bool(node),
        )

    def cycle(self) -> list[Decision]:
        """One cycle, a second after the last."""
        self.now += SECOND
        decisions = self.engine.cycle(self.now)
        self.engine.validate()
        return decisions

    def bound(self, decisions: Iterable[Decision], job: str) -> list[str]:
        """The nodes to which tasks of a job were bound."""
        return [one.node for one in decisions if isinstance(one, Bind) and one.job == f"ns/{job}"]

    def held_on(self, job: str) -> list[str]:
        """The nodes of a job's tasks, pipelined ones included."""
        tasks = self.engine.state.jobs[f"ns/{job}"].tasks.values()
        return sorted(task.node.name for task in tasks if task.status.held and task.node is not None)
