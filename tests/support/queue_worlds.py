"""Queues with bounds on one node, through the real engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kubebase.resource_vector import CPU
from pumice.engine.decisions import Decision, Enqueue
from pumice.engine.events import Changed, Gone
from pumice.engine.fairness.share_tree.share_node import NodeKind
from pumice.model.specs import Items, JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus
from tests.support.policies import policy_engine


def cpu(amount: int) -> Items:
    """So much cpu."""
    return ((CPU, amount),)


class QueueWorld:
    """Queues on one node; jobs of tasks that ask for one cpu each, unless they say otherwise."""

    def __init__(
        self, *queues: Queue, room: int = 10, memory: int = 1000, policy: str = "capacity", **arguments: object
    ) -> None:
        self.engine = policy_engine(policy, arguments=arguments)
        self.node(room, memory)
        for age, queue in enumerate(queues):
            self.change(replace(queue, created=age))
        self.now = 0
        self.jobs: dict[str, int] = {}

    def node(self, room: int, memory: int = 1000) -> None:
        self.engine.apply(Changed(NodeSpec("n", (room, memory, 999))))

    def change(self, queue: Queue) -> None:
        self.engine.apply(Changed(queue))

    def job(
        self, queue: str, tasks: int, *, running: int = 0, asks: tuple[int, int] = (1, 0), name: str = "", **spec: Any
    ) -> str:
        name = name or f"in-{queue}-{len(self.jobs)}"
        age = self.jobs[name] = len(self.jobs)
        self.engine.apply(Changed(JobSpec("ns", name, queue, created=age, **{"phase": JobPhase.INQUEUE, **spec})))
        for i in range(tasks):
            where: dict[str, Any] = {"node": "n", "status": TaskStatus.RUNNING, "started": 1} if i < running else {}
            self.engine.apply(Changed(TaskSpec("ns", f"{name}-{i}", (*asks, 1), job=f"ns/{name}", created=i, **where)))
        return f"ns/{name}"

    def cycle(self) -> list[Decision]:
        self.now += 1_000_000
        decisions = self.engine.cycle(self.now)
        self.engine.validate()
        return decisions

    def held(self, *path: str) -> int:
        node = self.engine.tree.root
        for name in path:
            node = node.children[(NodeKind.QUEUE, name)]
        return node.held[CPU]

    def finish(self, job: str, tasks: int) -> None:
        running = [task for task in self.engine.state.jobs[job].tasks.values() if task.status.held]
        for task in running[:tasks]:
            self.engine.apply(Gone(TaskSpec, task.key))


def let_in(world: QueueWorld) -> set[str]:
    """The jobs that a cycle lets in."""
    return {decision.job for decision in world.cycle() if isinstance(decision, Enqueue)}
